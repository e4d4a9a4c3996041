//! A bar on the terminal while an application computes.

use std::fs::File;
use std::io::{self, IsTerminal};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shown by one process, on a terminal: its stderr, or that of the process that started it, which
/// then says where it is in `EGRET_TERMINAL`.
#[derive(Debug)]
pub(crate) struct AppProgress(ProgressBar);

impl AppProgress {
    /// No bar yet, and none at all unless `shown`.
    pub(crate) fn new(shown: bool) -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let target = if shown { target() } else { ProgressDrawTarget::hidden() };
        Self(ProgressBar::with_draw_target(Some(0), target).with_style(style))
    }

    /// What is being done now, from its first step.
    pub(crate) fn begin(&self, what: &'static str, steps: u32) {
        self.0.reset();
        self.0.set_length(steps.into());
        self.0.set_message(what);
    }

    /// So many more steps.
    pub(crate) fn step(&self, steps: u32) {
        self.0.inc(steps.into());
    }
}

impl Drop for AppProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn target() -> ProgressDrawTarget {
    if io::stderr().is_terminal() {
        return ProgressDrawTarget::stderr();
    }
    let open = |path| File::options().read(true).write(true).open(path).ok();
    let terminal = std::env::var_os("EGRET_TERMINAL").and_then(open).filter(File::is_terminal);
    let both = terminal.and_then(|file| Some((file.try_clone().ok()?, file)));
    let shown = |(read, write)| ProgressDrawTarget::term(Term::read_write_pair(read, write), RATE);
    both.map_or_else(ProgressDrawTarget::hidden, shown)
}

/// How often it is drawn in a second at most.
const RATE: u8 = 20;
