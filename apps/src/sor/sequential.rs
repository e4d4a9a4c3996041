//! The sequential program: what the parallel one is held against, in result and in
//! time.

use super::grid::{self, Grid};
use super::plan::SorPlan;
use super::sweep::Sweep;
use crate::AppError;

/// How a computation ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SorOutcome {
    /// After so many iterations.
    pub(crate) iterations: u32,
    /// The largest change of the last one that was measured.
    pub(crate) change: f64,
}

/// Computes on a whole grid; tells `step` the iterations of each pass, and ends if it fails.
pub(crate) fn solve(
    grid: &mut Grid,
    plan: &SorPlan,
    mut step: impl FnMut(u32) -> Result<(), AppError>,
) -> Result<SorOutcome, AppError> {
    let omega = grid::omega(grid.size());
    let mut ended = SorOutcome { iterations: 0, change: f64::INFINITY };
    for number in 0.. {
        let Some(pass) = plan.pass(number, ended.iterations) else { break };
        let mut sweep = Sweep::new(1..grid.size() + 1, &pass, omega);
        sweep.advance(grid, usize::MAX);
        ended.iterations += pass.depth;
        step(pass.depth)?;
        if pass.measured {
            ended.change = sweep.change();
            if plan.is_over(ended.change) {
                break;
            }
        }
    }
    ended.verdict(plan)
}

impl SorOutcome {
    /// An error if it should have settled and has not.
    pub(crate) fn verdict(self, plan: &SorPlan) -> Result<Self, AppError> {
        if plan.until.is_some() && !plan.settled(self.change) {
            return Err(AppError::NotConverged {
                iterations: self.iterations,
                change: self.change,
            });
        }
        Ok(self)
    }
}
