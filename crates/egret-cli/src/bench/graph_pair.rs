//! What a graph costs between two processes, and what it is held against.

use std::rc::Rc;

use anyhow::{Result, bail};
use egret::net::rt;

use super::duo::{Answers, Led, Plan, Trusting, Waiting};
use super::graph::{Held, Which};
use super::graph_map::{Town, Tree, tree};
use super::graph_memory::checks;
use super::graph_trip::{Cargo, Sender, Trip, What};
use super::measure::{Probe, Sample};
use super::peer::Peer;
use super::side::Mode;

/// The other process, and how it is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Between<'a> {
    pub(crate) peer: &'a Rc<Peer>,
    pub(crate) fabric: &'static str,
    pub(crate) wait: Waiting,
    pub(crate) which: Which,
}

impl Between<'_> {
    /// Beside a message of as many bytes, and the time to check the graph.
    pub(crate) fn transfer(&self, mode: Mode) -> Result<Held> {
        let (bytes, check) = match self.which.map() {
            None => checked_tree(self.which.objects()),
            Some(map) => {
                let message = map.graph().to_vec();
                (message.len(), checks::<Town>(&message))
            }
        };
        let cargo = if mode == Mode::Posted { Cargo::Posted } else { Cargo::Fresh };
        let subject = Box::new(self.sender(cargo(What::Graph), bytes)?);
        let message = self.sender(cargo(What::Bytes), bytes)?;
        let least = Box::new(WithCheck { message, check });
        Ok(Held { subject, limit: "vi+validate", least, bytes })
    }

    /// Beside a buffer of 4 bytes.
    pub(crate) fn handover(&self) -> Result<Held> {
        let bytes = match self.which.map() {
            None => tree(self.which.objects()).byte_len(),
            Some(map) => map.graph().byte_len(),
        };
        let subject = Box::new(self.sender(Cargo::Handed, bytes)?);
        let least = Box::new(Led::new(self.peer, self.small())?);
        Ok(Held { subject, limit: "handover-4", least, bytes })
    }

    fn sender(&self, cargo: Cargo, bytes: usize) -> Result<Sender> {
        let (fabric, wait, which) = (self.fabric.to_owned(), self.wait, self.which);
        let host = format!("graph-{}-{:x}", std::process::id(), rt::random());
        Sender::new(self.peer, Trip { fabric, wait, which, cargo, bytes, host })
    }

    fn small(&self) -> Plan {
        Plan {
            fabric: self.fabric.to_owned(),
            mode: Mode::Handover,
            bytes: SMALL,
            wait: self.wait,
            trust: Trusting::Cooperating,
            encrypt: None,
            answers: Answers::Each(SMALL),
            window: Mode::Handover.many(false, SMALL),
            idle: 0,
            host: format!("bench-{}", std::process::id()),
            to: String::new(),
            secret: None,
        }
    }
}

fn checked_tree(objects: usize) -> (usize, Box<dyn Probe>) {
    let message = tree(objects).to_vec();
    (message.len(), checks::<Tree>(&message))
}

/// A message, and besides that the check of a graph that is as long.
struct WithCheck {
    message: Sender,
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
