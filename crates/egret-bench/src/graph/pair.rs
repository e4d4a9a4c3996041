//! What a graph costs between two processes, and what it is held against.

use std::rc::Rc;

use anyhow::{Result, bail};

use super::load::{Cargo, TripContent};
use super::map::{Town, Tree, tree};
use super::memory::{GraphComparison, checks};
use super::shape::GraphShape;
use super::trip::{GraphSender, Trip};
use crate::measure::{Probe, Sample};
use crate::peer::FollowerProcess;
use crate::side::Mode;
use crate::vi::duo::{Answers, DuoPlan, Led, Trusting, WaitMode, host};

/// The other process, and how it is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Between<'a> {
    pub(crate) peer: &'a Rc<FollowerProcess>,
    pub(crate) fabric: &'static str,
    pub(crate) wait: WaitMode,
    pub(crate) which: GraphShape,
}

impl Between<'_> {
    /// Beside a message of as many bytes, and the time to check the graph.
    pub(crate) fn transfer(&self, mode: Mode) -> Result<GraphComparison> {
        let (bytes, check) = match self.which.map() {
            None => checked_tree(self.which.objects()),
            Some(map) => {
                let message = map.graph().to_vec();
                (message.len(), checks::<Town>(&message))
            }
        };
        let cargo = if mode == Mode::Posted { Cargo::Posted } else { Cargo::Fresh };
        let subject = Box::new(self.sender(cargo(TripContent::Graph), bytes)?);
        let message = self.sender(cargo(TripContent::Bytes), bytes)?;
        let least = Box::new(WithCheck { message, check });
        Ok(GraphComparison { subject, limit: "vi+validate", least, bytes })
    }

    /// Beside a buffer of 4 bytes.
    pub(crate) fn handover(&self) -> Result<GraphComparison> {
        let bytes = match self.which.map() {
            None => tree(self.which.objects()).byte_len(),
            Some(map) => map.graph().byte_len(),
        };
        let subject = Box::new(self.sender(Cargo::Handed, bytes)?);
        let least = Box::new(Led::new(self.peer, self.small())?);
        Ok(GraphComparison { subject, limit: "handover-4", least, bytes })
    }

    fn sender(&self, cargo: Cargo, bytes: usize) -> Result<GraphSender> {
        let (fabric, wait, which) = (self.fabric.to_owned(), self.wait, self.which);
        let trip = Trip { fabric, wait, which, cargo, bytes, host: host("graph") };
        GraphSender::new(self.peer, trip)
    }

    fn small(&self) -> DuoPlan {
        DuoPlan {
            mode: Mode::Handover,
            wait: self.wait,
            trust: Trusting::Cooperating,
            ..DuoPlan::new(self.fabric, SMALL, Answers::Each(SMALL))
        }
    }
}

fn checked_tree(objects: usize) -> (usize, Box<dyn Probe>) {
    let message = tree(objects).to_vec();
    (message.len(), checks::<Tree>(&message))
}

/// A message, and besides that the check of a graph that is as long.
struct WithCheck {
    message: GraphSender,
    check: Box<dyn Probe>,
}

impl Probe for WithCheck {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let (message, check) = (self.message.run(rounds)?, self.check.run(rounds)?);
        let (Sample::Times(mut times), Sample::Times(checks)) = (message, check) else {
            bail!("both have times");
        };
        times.iter_mut().zip(checks).for_each(|(time, check)| *time += check);
        Ok(Sample::Times(times))
    }
}

const SMALL: usize = 4;
