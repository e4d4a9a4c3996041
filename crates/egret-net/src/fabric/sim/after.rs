//! What is left to do when the world's lock is free again: everything that
//! runs code of the program.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::SimFabric;
use super::vi::SimVi;
use super::wire::{EndId, NodeId};
use crate::fabric::{Promise, ViOps};
use crate::vi::{ConnectError, Notices, Reliability};

/// Done outside the lock. Handlers and plans come last: they are the
/// program's, and may panic.
#[derive(Debug, Default)]
pub(super) struct After {
    pub settled: Vec<Settled>,
    pub notices: Notices,
    pub wakers: Vec<Waker>,
    pub plans: Vec<Plan>,
    /// Whether waits are to end for something else.
    pub arrived: bool,
}

/// A connector's promise and how it is kept.
#[derive(Debug)]
pub(super) struct Settled {
    pub promise: Promise<Result<Box<dyn ViOps>, ConnectError>>,
    pub result: Result<Made, ConnectError>,
}

/// An end that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub node: NodeId,
    pub life: u32,
    pub end: EndId,
    pub peer: Arc<str>,
    pub reliability: Reliability,
}

/// Something a test wants done at some point.
pub(super) struct Plan(pub Box<dyn FnOnce(&SimFabric) + Send>);

impl After {
    pub(super) fn is_empty(&self) -> bool {
        let Self { settled, notices, wakers, plans, arrived } = self;
        !arrived
            && settled.is_empty()
            && notices.is_empty()
            && wakers.is_empty()
            && plans.is_empty()
    }

    pub(super) fn run(self, fabric: &SimFabric) {
        for Settled { promise, result } in self.settled {
            let result =
                result.map(|made| -> Box<dyn ViOps> { Box::new(SimVi::new(fabric, made)) });
            // A connector that gave up drops the end here, which closes it.
            drop(promise.fulfil(result));
        }
        self.wakers.into_iter().for_each(Waker::wake);
        self.notices.give();
        for Plan(plan) in self.plans {
            plan(fabric);
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plan")
    }
}
