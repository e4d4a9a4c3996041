//! The threads that run calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use egret_net::rt::{self, Instant, JoinHandle, Thread};
use egret_net::sync::Mutex;
use egret_net::vi::caught;
use egret_node::am::BackgroundThread;

use crate::rmi::callee::accepted::AcceptedCall;
use crate::rmi::callee::load::CallingPeer;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::AnswerCode;
use crate::rmi::threads::cores::CoreUse;
use crate::rmi::threads::worker_rules::{WorkerHelp, WorkerRules, WorkerStep};

/// A bounded number of threads that run calls, started as they are needed. Who does what when, the
/// [`WorkerRules`] says; here are the threads that ask it and do so.
#[derive(Debug)]
pub(crate) struct Workers {
    inner: Mutex<WorkersState>,
    /// Whether nothing waits for a worker that is not on its way, and there may be some. Written under
    /// the lock.
    is_idle: AtomicBool,
    /// The cores that they and receiving threads use.
    pub(crate) cores: CoreUse,
}

/// The calls that wait, and who runs them.
type WorkerQueue = WorkerRules<CallingPeer, Arc<AcceptedCall>, Thread>;

#[derive(Debug)]
struct WorkersState {
    staff: WorkerQueue,
    handles: Vec<JoinHandle<()>>,
}

impl Workers {
    /// At most so many that are busy, on a machine of so many cores; with 0 a thread calls
    /// [`run_one`](Self::run_one).
    pub(crate) fn new(busy_max: usize, cores: usize) -> Self {
        let (staff, handles) = (WorkerRules::new(busy_max, THREADS_MAX), Vec::new());
        let (inner, is_idle) =
            (Mutex::new(WorkersState { staff, handles }), AtomicBool::new(busy_max > 0));
        Self { inner, is_idle, cores: CoreUse::new(cores) }
    }

    /// From now on at most so many are busy.
    pub(crate) fn set_busy_max(self: &Arc<Self>, busy_max: usize) {
        let waiting = self.with(|staff| staff.set_busy_max(busy_max));
        for _ in 0..waiting {
            let mut inner = self.inner.lock();
            let help = inner.staff.help();
            self.give(help, inner);
        }
    }

    /// Has a call run, by a thread in the background if there is one for it, or answered if there is
    /// no thread to run it. Gives it back if all is closed.
    pub(crate) fn push(
        self: &Arc<Self>,
        called: Arc<AcceptedCall>,
        lent: Option<BackgroundThread>,
    ) -> Result<(), Arc<AcceptedCall>> {
        let caller = called.caller;
        let mut inner = self.inner.lock();
        let help = inner.staff.push(caller, called, lent.is_some())?;
        match (help, lent) {
            (WorkerHelp::Lend, Some(background)) => {
                self.count(&inner.staff);
                drop(inner);
                let lent = LentThread(Some(Arc::clone(self)));
                background.run(move || lent.run());
            }
            (help, _) => self.give(help, inner),
        }
        Ok(())
    }

    /// Runs a call that waits, if there is one.
    pub(crate) fn run_one(&self) -> bool {
        let next = self.with(WorkerRules::pop);
        let found = next.is_some();
        next.into_iter().for_each(|called| called.run(None));
        found
    }

    /// Runs a call that waits, where no other thread does.
    pub(crate) fn help(&self) -> bool {
        self.with(|staff| staff.is_empty()) && self.run_one()
    }

    /// Runs `body`, in which the calling thread, one of these, waits for others.
    pub(crate) fn while_away<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let mut inner = self.inner.lock();
        let help = inner.staff.away();
        self.give(help, inner);
        let _back = AwayGuard(self);
        body()
    }

    /// A call that waits need not be run.
    pub(crate) fn forget(&self, called: &AcceptedCall) {
        self.with(|staff| staff.retain(|waiting| !std::ptr::eq(&raw const **waiting, called)));
    }

    /// Whether nothing waits for a worker that is not on its way, and there may be some: if there are
    /// none, only threads that are asked to run calls.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Has threads that receive run calls, though there are no workers.
    #[cfg(test)]
    pub(crate) fn lend(&self) {
        self.with(|staff| staff.is_lent = true);
    }

    /// Ends all threads, when they have run what they run now. A thread that takes longer than
    /// `until` for that is not waited for: it has its own part of all that it needs,
    /// and ends with its call.
    pub(crate) fn close(&self, until: Instant) {
        let (idle, queue) = self.with(WorkerRules::close);
        let handles = std::mem::take(&mut self.inner.lock().handles);
        idle.iter().for_each(Thread::unpark);
        queue.into_all().for_each(|called| called.answer_unrun(AnswerCode::UnknownObject));
        let me = rt::current();
        let is_over = |handle: &JoinHandle<()>| handle.is_finished() || *handle.thread() == me;
        while !handles.iter().all(is_over) && rt::now() < until {
            rt::sleep(Duration::from_micros(200));
        }
    }

    /// Does something with the staff.
    fn with<R>(&self, body: impl FnOnce(&mut WorkerQueue) -> R) -> R {
        let mut inner = self.inner.lock();
        let result = body(&mut inner.staff);
        self.count(&inner.staff);
        result
    }

    fn count(&self, staff: &WorkerQueue) {
        self.is_idle.store(staff.is_idle(), Ordering::Relaxed);
        self.cores.set_workers(staff.active());
    }

    /// Wakes or starts a worker. If none can be started, and no other thread comes for what waits, that is
    /// answered: it has not run.
    fn give(self: &Arc<Self>, help: WorkerHelp<Thread>, mut inner: MutexGuard<'_, WorkersState>) {
        self.count(&inner.staff);
        match help {
            WorkerHelp::None | WorkerHelp::Lend => return,
            WorkerHelp::Wake(idle) => {
                drop(inner);
                return idle.unpark();
            }
            WorkerHelp::Employ => {}
        }
        match self.employ(&inner) {
            Ok(handle) => {
                inner.handles.retain(|handle| !handle.is_finished());
                inner.handles.push(handle);
            }
            Err(why) => {
                let unrun = inner.staff.miss();
                self.count(&inner.staff);
                drop(inner);
                tracing::warn!(
                    "no thread can be started to run remote calls ({why}): {} calls that wait are \
                     refused as busy; raise the limit of threads, or set fewer workers",
                    unrun.len()
                );
                unrun.into_all().for_each(|called| called.answer_unrun(AnswerCode::Busy));
            }
        }
    }

    fn employ(self: &Arc<Self>, inner: &WorkersState) -> std::io::Result<JoinHandle<()>> {
        if planted(Fault::OneWorker) && !inner.handles.is_empty() {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        let workers = Arc::clone(self);
        rt::spawn("egret-call", move || workers.work())
    }

    fn work(self: Arc<Self>) {
        let mut has_run = false;
        while let Some(called) = self.next(has_run) {
            has_run = true;
            // With the call may go the last of its object, whose drop is the program's.
            let home = &self;
            if let Err(why) = caught(move || called.run(Some(home))) {
                tracing::error!("an object panicked when it was dropped: {why}");
            }
        }
    }

    /// The next call, for a worker that has run one or was started; none when the thread is to end.
    fn next(self: &Arc<Self>, mut has_run: bool) -> Option<Arc<AcceptedCall>> {
        let (me, until) = (rt::current(), rt::now() + IDLE);
        loop {
            let is_up = rt::now() >= until;
            let mut inner = self.inner.lock();
            let next = inner.staff.next(&me, std::mem::take(&mut has_run), is_up);
            self.count(&inner.staff);
            match next {
                WorkerStep::Run(called) => return Some(called),
                WorkerStep::Park => drop(inner),
                WorkerStep::End(help) => {
                    self.give(help, inner);
                    return None;
                }
            }
            rt::park(Some(until));
        }
    }
}

/// A thread in the background that is to run a call. Dropped, it does not.
struct LentThread(Option<Arc<Workers>>);

impl LentThread {
    fn run(mut self) {
        let Some(workers) = self.0.take() else { return };
        let mut inner = workers.inner.lock();
        let (called, help) = inner.staff.come_lent();
        workers.give(help, inner);
        called.into_iter().for_each(|called| called.run(None));
    }
}

impl Drop for LentThread {
    fn drop(&mut self) {
        if let Some(workers) = self.0.take() {
            let mut inner = workers.inner.lock();
            let help = inner.staff.miss_lent();
            workers.give(help, inner);
        }
    }
}

/// Counts a thread among those that are busy again.
struct AwayGuard<'a>(&'a Workers);

impl Drop for AwayGuard<'_> {
    fn drop(&mut self) {
        self.0.with(WorkerRules::back);
    }
}

/// Threads of a node, with those that wait for calls of their own.
const THREADS_MAX: usize = 512;
/// A thread that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(10);
