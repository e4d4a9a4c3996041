//! What is left to do when no lock is held: everything that runs code of the program.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::SimFabric;
use crate::fabric;

/// Plans come last: they are the program's, and may panic.
#[derive(Debug, Default)]
pub(super) struct SimDeferredWork {
    pub told: fabric::After,
    pub plans: Vec<ScheduledAction>,
}

/// Something a test wants done at some point.
pub(super) struct ScheduledAction(pub Box<dyn FnOnce(&SimFabric) + Send>);

impl SimDeferredWork {
    pub(super) const fn is_empty(&self) -> bool {
        let Self { told, plans } = self;
        !told.is_news() && !told.has_more() && plans.is_empty()
    }

    pub(super) fn run(self, fabric: &SimFabric) {
        self.told.tell();
        for ScheduledAction(plan) in self.plans {
            if let Err(why) = catch_unwind(AssertUnwindSafe(|| plan(fabric))) {
                fabric.plan_panicked(why);
            }
        }
    }
}

impl fmt::Debug for ScheduledAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScheduledAction")
    }
}
