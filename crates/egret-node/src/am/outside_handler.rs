//! Code that a handler runs outside of itself, and which threads may run it for long.
//!
//! A handler must not wait. What it does [outside](super::Request::outside) runs without the role
//! of driving and without the bundle, as if no handler ran, so that it may wait and call. The
//! thread does nothing else meanwhile. Who drives then is another thread that waits; or the
//! background, when no thread has driven for a moment; or, if the thread is that of the background,
//! its [standby](crate::links::background).

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use egret_net::rt::{
    self,
    waits::{self, WaitAside},
};
use egret_net::sync::DutyTask;

use crate::in_handler::HandlerDepth;
use crate::links::core::LinksCore;

/// Why a thread drives the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrivingThread {
    /// The thread waits for something of its own.
    No,
    /// The thread [serves](crate::Links::serve).
    Lent,
    /// The thread is the background thread, and drives.
    OnDuty,
    /// The thread was the background thread, until the standby took over.
    Relieved,
    /// The thread has what it waited for, and runs one handler that is due before it returns.
    Leaves,
}

/// Runs `body`, which may block; for methods of remote objects, and what else runs
/// [outside](super::Request::outside) of a handler. If
/// the calling thread is the one that receives the next call, another thread receives from now on. A
/// method that blocks without saying so is noticed after 100 to 300 µs, in which no thread receives; in a simulated
/// world, at its first wait. On
/// a thread that waits for a call of its own, and runs a part of it, nothing is said: others wait
/// for the background there.
///
/// ```
/// /// A method, as the program writes it.
/// fn first_line(path: &str) -> std::io::Result<String> {
///     let text = egret_node::am::blocking(|| std::fs::read_to_string(path))?;
///     Ok(text.lines().next().unwrap_or_default().to_owned())
/// }
/// # assert!(!first_line("/proc/self/comm")?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn blocking<R>(body: impl FnOnce() -> R) -> R {
    let home = HOME.with_borrow(|home| home.as_ref().and_then(Weak::upgrade));
    if let Some(core) = home {
        match RUNS_AS.get() {
            DrivingThread::OnDuty => core.crew.relieve(),
            DrivingThread::Lent => core.call_background(),
            DrivingThread::No | DrivingThread::Relieved | DrivingThread::Leaves => {}
        }
    }
    body()
}

/// Runs `body` as if no handler ran. The standby, if the thread is on duty, looks after it.
#[inline]
pub(crate) fn go_outside<R>(core: &LinksCore, body: impl FnOnce() -> R) -> R {
    let _back = OutsideScope::new(core);
    body()
}

/// The background thread, which has nothing to do; made by
/// [`Request::background`](super::Request::background).
#[doc(hidden)]
#[derive(Debug)]
pub struct BackgroundThread {
    pub(super) core: Arc<LinksCore>,
}

impl BackgroundThread {
    /// Has that thread run `body`, [outside](super::Request::outside) of handlers: `body` may wait and
    /// call, and another thread takes over if it lasts. If the links end before, `body` is dropped.
    pub fn run(self, body: impl FnOnce() + Send + 'static) {
        self.core.crew.leave_errand(body);
        self.core.call_background();
    }
}

/// The calling thread is outside of the handler that it runs, until this is dropped.
struct OutsideScope<'a> {
    core: &'a LinksCore,
    server: (DrivingThread, u32),
    runs_as: DrivingThread,
    begun: Option<DutyTask>,
    /// What the thread would have done before its next wait; kept if that was replaced.
    before_wait: Option<Option<fn()>>,
    _handlers: HandlerDepth,
    _waits: WaitAside,
}

impl<'a> OutsideScope<'a> {
    #[inline]
    fn new(core: &'a LinksCore) -> Self {
        let server = SERVER.replace((DrivingThread::No, core.number));
        let runs_as = RUNS_AS.get();
        // What a method waits for and runs meanwhile keeps those waiting that the method does.
        if server.0 != DrivingThread::No {
            RUNS_AS.set(server.0);
        }
        let is_on_duty = server == (DrivingThread::OnDuty, core.number);
        let begun = is_on_duty.then(|| core.crew.begin());
        // In virtual time no time is lost before it is known whether a method waits.
        let before_wait = (is_on_duty && rt::is_simulated())
            .then(|| rt::set_before_wait(Some(|| blocking(|| ()))));
        Self {
            core,
            server,
            runs_as,
            begun,
            before_wait,
            _handlers: HandlerDepth::none(),
            _waits: waits::aside(),
        }
    }
}

impl Drop for OutsideScope<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before_wait {
            rt::set_before_wait(before);
        }
        let is_relieved = self.begun.take().is_some_and(|begun| !self.core.crew.end(begun));
        let (server, number) = self.server;
        SERVER.set((if is_relieved { DrivingThread::Relieved } else { server }, number));
        RUNS_AS.set(self.runs_as);
    }
}

/// Why the calling thread drives links, and the number of these links.
#[inline]
pub(crate) fn server() -> (DrivingThread, u32) {
    SERVER.get()
}

/// Sets why the calling thread drives links, until this is dropped.
pub(crate) struct DrivingScope {
    server: (DrivingThread, u32),
    home: Option<Weak<LinksCore>>,
}

impl DrivingScope {
    /// To the links of this number.
    pub(crate) fn new(server: DrivingThread, number: u32, home: Weak<LinksCore>) -> Self {
        Self { server: SERVER.replace((server, number)), home: HOME.replace(Some(home)) }
    }
}

impl Drop for DrivingScope {
    fn drop(&mut self) {
        SERVER.set(self.server);
        drop(HOME.replace(self.home.take()));
    }
}

thread_local! {
    static SERVER: Cell<(DrivingThread, u32)> = const { Cell::new((DrivingThread::No, 0)) };
    /// What the thread was when it went outside.
    static RUNS_AS: Cell<DrivingThread> = const { Cell::new(DrivingThread::No) };
    /// The links that it drives for others.
    static HOME: RefCell<Option<Weak<LinksCore>>> = const { RefCell::new(None) };
}
