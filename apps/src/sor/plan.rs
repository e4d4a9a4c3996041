//! Which passes there are: the same for the sequential program and every process.

/// How long it goes on, and in what steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SorPlan {
    /// Iterations at most.
    pub(crate) iterations: u32,
    /// Iterations in a pass at most.
    pub(crate) depth: u32,
    /// Stop when no point changes by more.
    pub(crate) until: Option<SettleRule>,
}

/// When a grid has settled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SettleRule {
    /// No point changes by more in one iteration.
    pub(crate) change: f64,
    /// Looked at after every so many iterations.
    pub(crate) every: u32,
}

/// Some iterations that are made in one go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SorPass {
    /// How many iterations it is.
    pub(crate) depth: u32,
    pub(crate) down: bool,
    pub(crate) measured: bool,
}

impl SorPass {
    /// Rows that it reaches beyond a block on each side.
    pub(crate) const fn reach(&self) -> usize {
        2 * self.depth as usize
    }
}

impl SorPlan {
    /// The pass of this number, after so many iterations; `None` if there is none.
    pub(crate) fn pass(&self, number: u32, done: u32) -> Option<SorPass> {
        let left = self.iterations.saturating_sub(done);
        if left == 0 {
            return None;
        }
        let look = self.until.as_ref().map(|until| (until.every - done % until.every).min(left));
        let depth = self.depth.min(left).min(look.unwrap_or(left));
        Some(SorPass { depth, down: number.is_multiple_of(2), measured: look == Some(depth) })
    }

    /// Whether nothing better is to come after this largest change: the grid has settled, or
    /// never will, as some point is no number.
    pub(crate) fn is_over(&self, change: f64) -> bool {
        change.is_nan() || self.settled(change)
    }

    /// Whether a grid of this largest change has settled.
    pub(crate) fn settled(&self, change: f64) -> bool {
        self.until.as_ref().is_some_and(|until| change <= until.change)
    }
}
