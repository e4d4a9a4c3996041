//! A bar on the terminal while a benchmark repeats.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shown on stderr if that is a terminal, and without colour.
pub(crate) struct BenchProgress(ProgressBar);

impl BenchProgress {
    pub(crate) fn new(steps: u64) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(
            ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr())
                .with_style(style),
        )
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Does `work`, which prints, with the bar out of the way.
    pub(crate) fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.suspend(work)
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
