//! Rules of workers: which thread runs a waiting call, and which threads are woken, started and ended.
//!
//! ```text
//!   employed ─▶ next ── Run ──▶ runs a call ── away ──▶ waits for a call of its own
//!                ▲ │                │   ▲                        │ back
//!                │ │ Park           │   └────────────────────────┘
//!         woken, │ ▼                │
//!        its time is up             └──▶ next
//!                │ idle
//!                └ next ── End, if it is spare, was idle for long, or all is closed
//! ```
//!
//! A state machine without threads, lock and clock: `T` names a thread, and the caller carries out what is
//! returned.

use crate::rmi::fault::{Fault, planted};
use crate::rmi::threads::fair_queue::FairQueue;

/// Calls that wait, and the threads that run them: at most so many that are busy at a time. A thread
/// that waits for a call of its own does not count as busy, so that calls which come back find
/// a thread to run them.
#[derive(Debug)]
pub(crate) struct WorkerRules<K: Ord, C, T> {
    /// How many may be busy.
    busy_max: usize,
    /// How many there may be, with those that wait for calls of their own.
    threads_max: usize,
    queue: FairQueue<K, C>,
    /// Threads that have nothing to do, who has been idle for the shortest time last.
    idle: Vec<T>,
    /// All threads.
    threads: usize,
    /// Threads that wait for calls of their own.
    away: usize,
    /// Threads that were woken, are to be started or were lent, and have not asked for a call yet.
    coming: usize,
    is_closed: bool,
    /// Whether threads that receive run calls, though there are no workers.
    #[cfg(test)]
    pub(crate) is_lent: bool,
}

/// What the caller is to do for waiting calls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorkerHelp<T> {
    /// Nothing: nothing waits, or who is busy comes for it.
    None,
    /// The thread that was offered is to [come](WorkerRules::come_lent), or to be [missed](WorkerRules::miss_lent).
    Lend,
    /// A thread that is idle is to be woken.
    Wake(T),
    /// A thread is to be started, or to be [missed](WorkerRules::miss).
    Employ,
}

/// What a worker is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorkerStep<C, T> {
    Run(C),
    /// The worker parks until it is woken, or has been idle for long.
    Park,
    /// The worker ends; what it was woken for waits for another.
    End(WorkerHelp<T>),
}

impl<K: Ord + Copy, C, T: Clone + PartialEq> WorkerRules<K, C, T> {
    pub(crate) fn new(busy_max: usize, threads_max: usize) -> Self {
        Self {
            busy_max,
            threads_max,
            queue: FairQueue::default(),
            idle: Vec::new(),
            threads: 0,
            away: 0,
            coming: 0,
            is_closed: false,
            #[cfg(test)]
            is_lent: false,
        }
    }

    /// Whether a thread is on the way for all that waits, and there may be one to run what comes.
    pub(crate) fn is_idle(&self) -> bool {
        let has_threads = self.busy_max > 0;
        #[cfg(test)]
        let has_threads = has_threads || self.is_lent;
        self.queue.len() <= self.coming && has_threads && !self.is_closed
    }

    /// Whether calls are run only by a thread that asks for one.
    pub(crate) const fn is_empty(&self) -> bool {
        self.busy_max == 0
    }

    /// From now on at most so many are busy. How many of the waiting calls may find a thread.
    pub(crate) fn set_busy_max(&mut self, busy_max: usize) -> usize {
        self.busy_max = busy_max;
        self.queue.len().min(busy_max)
    }

    /// A call waits for a thread: for one that is no worker and has nothing to do, if such a one is
    /// offered. Gives the call back if all is closed.
    pub(crate) fn push(
        &mut self,
        caller: K,
        call: C,
        is_offered: bool,
    ) -> Result<WorkerHelp<T>, C> {
        if self.is_closed {
            return Err(call);
        }
        self.queue.push(caller, call);
        if is_offered && self.busy_max > 0 {
            self.coming += 1;
            return Ok(WorkerHelp::Lend);
        }
        Ok(self.help())
    }

    /// A thread that was lent comes, for one call. That, if there is one; and what is to be done for
    /// others.
    pub(crate) fn come_lent(&mut self) -> (Option<C>, WorkerHelp<T>) {
        self.coming -= 1;
        let call = self.queue.pop();
        let is_enough = self.queue.len() <= self.coming;
        (call, if is_enough { WorkerHelp::None } else { self.replace_lent() })
    }

    /// A thread that was lent does not come.
    pub(crate) fn miss_lent(&mut self) -> WorkerHelp<T> {
        self.coming -= 1;
        self.replace_lent()
    }

    /// Ensures that a thread comes for what a lent thread leaves.
    fn replace_lent(&mut self) -> WorkerHelp<T> {
        if planted(Fault::LentLost) { WorkerHelp::None } else { self.help() }
    }

    /// Takes a call, for who runs one though it is no worker.
    pub(crate) fn pop(&mut self) -> Option<C> {
        self.queue.pop()
    }

    /// Only these wait.
    pub(crate) fn retain(&mut self, keep: impl Fn(&C) -> bool) {
        self.queue.retain(keep);
    }

    /// Ensures that a thread comes for what waits.
    pub(crate) fn help(&mut self) -> WorkerHelp<T> {
        if self.queue.is_empty() || self.busy_max == 0 || self.is_closed {
            return WorkerHelp::None;
        }
        if let Some(idle) = self.idle.pop() {
            self.coming += 1;
            return WorkerHelp::Wake(idle);
        }
        if self.busy() >= self.busy_max || self.threads >= self.threads_max {
            return WorkerHelp::None;
        }
        self.threads += 1;
        self.coming += 1;
        WorkerHelp::Employ
    }

    /// A thread could not be started. What waits, if no other thread comes for it: those that wait for calls
    /// of their own may wait for long, and for just that.
    pub(crate) fn miss(&mut self) -> FairQueue<K, C> {
        self.threads -= 1;
        self.coming -= 1;
        if self.has_others() { FairQueue::default() } else { std::mem::take(&mut self.queue) }
    }

    /// Whether a thread that does not wait for a call of its own comes for what waits.
    fn has_others(&self) -> bool {
        self.threads > self.away || self.coming > 0 || planted(Fault::MissUnheard)
    }

    /// A worker has nothing to do, for too long if `is_up`: it has run a call, was idle, or was started.
    pub(crate) fn next(&mut self, me: &T, has_run: bool, is_up: bool) -> WorkerStep<C, T> {
        // Who was idle and was not woken is on the list.
        if !has_run && !self.idle.contains(me) {
            self.coming -= 1;
        }
        self.stop_idling(me);
        // One of those that came back takes no more than its share.
        let is_spare = self.busy() > self.busy_max;
        if !is_spare && let Some(call) = self.queue.pop() {
            return WorkerStep::Run(call);
        }
        if is_spare || is_up || self.is_over() {
            return WorkerStep::End(self.end_worker());
        }
        self.idle.push(me.clone());
        WorkerStep::Park
    }

    fn stop_idling(&mut self, me: &T) {
        if !planted(Fault::IdleTwice) {
            self.idle.retain(|idle| idle != me);
        }
    }

    fn is_over(&self) -> bool {
        self.is_closed && !planted(Fault::CloseUnheard)
    }

    fn end_worker(&mut self) -> WorkerHelp<T> {
        self.threads -= 1;
        if planted(Fault::WakeLost) { WorkerHelp::None } else { self.help() }
    }

    /// A worker waits for a call of its own.
    pub(crate) fn away(&mut self) -> WorkerHelp<T> {
        if !planted(Fault::AwayBusy) {
            self.away += 1;
        }
        self.help()
    }

    /// A worker goes on with its call.
    pub(crate) fn back(&mut self) {
        self.away = self.away.saturating_sub(1);
    }

    /// Nothing more runs: who is idle, to be woken, and what waits.
    pub(crate) fn close(&mut self) -> (Vec<T>, FairQueue<K, C>) {
        self.is_closed = true;
        self.coming += self.idle.len();
        (std::mem::take(&mut self.idle), std::mem::take(&mut self.queue))
    }

    /// Threads that run a call, or are about to.
    pub(crate) fn active(&self) -> usize {
        self.busy().saturating_sub(self.idle.len())
    }

    const fn busy(&self) -> usize {
        self.threads - self.away
    }
}

#[cfg(test)]
mod tests;
