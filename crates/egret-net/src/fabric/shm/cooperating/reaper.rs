//! Waits for buffers that a peer still has when the connection is over.
//!
//! One thread, there only while there is something to wait for. It sleeps until
//! a peer's process is gone, and looks into the peers' memory in between: often
//! at first, then less and less.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};

use crate::rt;

/// Buffers that a peer has although the connection is over.
pub(in super::super) trait OrphanedBuffers: Send {
    /// Takes back the buffers that have returned. Whether all have.
    fn settle(&mut self) -> bool;
    /// Ready when the peer's process is gone.
    fn process(&self) -> PollFd<'_>;
}

/// What there is to wait for.
struct ReaperQueue {
    /// What came since the thread looked.
    new: Vec<Box<dyn OrphanedBuffers>>,
    is_running: bool,
}

static WAITING: Mutex<ReaperQueue> = Mutex::new(ReaperQueue { new: Vec::new(), is_running: false });

/// Takes over what is out. Where no thread can be had it stays out until one
/// can, when the next comes.
pub(in super::super) fn adopt(out: impl OrphanedBuffers + 'static) {
    let mut waiting = waiting();
    waiting.new.push(Box::new(out));
    if !waiting.is_running {
        waiting.is_running = rt::spawn_on_machine("egret-reaper", reap).is_ok();
    }
}

/// Whether the thread is there.
#[cfg(test)]
pub(in super::super) fn is_running() -> bool {
    waiting().is_running
}

fn reap() {
    let mut all: Vec<Box<dyn OrphanedBuffers>> = Vec::new();
    let mut period = SHORTEST;
    loop {
        let before = all.len();
        all.retain_mut(|out| !out.settle());
        let mut waiting = waiting();
        if all.is_empty() && waiting.new.is_empty() {
            waiting.is_running = false;
            return;
        }
        let changed = all.len() != before || !waiting.new.is_empty();
        all.append(&mut waiting.new);
        drop(waiting);
        period = if changed { SHORTEST } else { LONGEST.min(period * 2) };
        sleep(&all, period);
    }
}

/// At most `period`, and not after a process is gone.
fn sleep(all: &[Box<dyn OrphanedBuffers>], period: Duration) {
    let mut fds: Vec<PollFd<'_>> = all.iter().map(|out| out.process()).collect();
    let period = Timespec::try_from(period).unwrap_or_default();
    // If it cannot sleep for them it sleeps without them.
    if let Err(errno) = poll(&mut fds, Some(&period))
        && errno != rustix::io::Errno::INTR
    {
        rt::sleep(LONGEST);
    }
}

fn waiting() -> MutexGuard<'static, ReaperQueue> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(64);
