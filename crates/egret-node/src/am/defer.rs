//! Work that a handler leaves to its thread, and which threads do such work.
//!
//! A handler must not wait. What it defers runs on its thread when it has ended: without the role
//! of driving, without the bundle, and outside of any handler, so that it may wait and call. The
//! thread does nothing else meanwhile. Who drives then is another thread that waits; or the
//! background, when nobody has driven for a moment; or, if the thread is that of the background,
//! its [standby](crate::links::background).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use super::message::Few;
use super::request::From;
use super::serve::{in_handler, in_outermost_handler, to_end};
use crate::links::core::Core;

/// Work that a handler leaves to its thread.
pub trait Deferred: Any + Send + Sync {
    /// Does the work. A panic is contained.
    fn run(self: Arc<Self>);
}

/// What a thread is to the links that it drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// It waits for something of its own.
    No,
    /// It [serves](crate::Links::serve).
    Lent,
    /// It drives in the background.
    OnDuty,
    /// It did, until the standby took over.
    Relieved,
    /// It has what it waited for, and runs one handler that is due before it leaves.
    Leaves,
}

/// Has the calling thread do `work` when the handler that it runs has ended.
///
/// Only a thread that [serves](super::Request::may_defer) does so without keeping something else
/// waiting: others wait for something of their own, and hear of it no sooner than the work is done.
///
/// ```
/// use std::sync::Arc;
///
/// use egret_node::am::{Deferred, ReplySlot, defer};
///
/// /// Reads a file, which may take long.
/// struct Reads(std::sync::Mutex<Option<ReplySlot>>);
///
/// impl Deferred for Reads {
///     fn run(self: Arc<Self>) {
///         let len = std::fs::read("/proc/self/comm").map_or(0, |bytes| bytes.len());
///         let slot = self.0.lock().expect("nobody panics here").take();
///         slot.into_iter().for_each(|slot| slot.reply_at_end(&[len as u64]));
///     }
/// }
///
/// # fn serve(endpoint: &egret_node::am::Endpoint) {
/// endpoint.on(1, |request| {
///     let is_free = request.may_defer();
///     let work = Arc::new(Reads(Some(request.later()).into()));
///     if !is_free || defer(work.clone()).is_err() {
///         std::thread::spawn(move || work.run());
///     }
/// });
/// # }
/// ```
///
/// # Errors
///
/// Gives the work back if the thread runs no handler, or one inside another; if the handler has
/// deferred something already; and if the thread has what it waited for, and is about to return.
#[inline]
pub fn defer(work: Arc<dyn Deferred>) -> Result<(), Arc<dyn Deferred>> {
    DEFERRED.with_borrow_mut(|deferred| {
        if !in_outermost_handler() || deferred.is_some() || server().0 == Server::Leaves {
            return Err(work);
        }
        *deferred = Some(work);
        Ok(())
    })
}

/// Runs `body`, which may block; for methods of remote objects and other [deferred](defer) work. If
/// the calling thread is the one that receives the next call, another thread receives from now on. A
/// method that blocks without saying so is noticed after 100 to 300 µs, in which nobody receives. On
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
            Server::OnDuty => core.crew.relieve(),
            Server::Lent => core.call_background(),
            Server::No | Server::Relieved | Server::Leaves => {}
        }
    }
    body()
}

/// What the handler that has just ended has deferred.
#[inline]
pub(super) fn take_deferred() -> Option<Arc<dyn Deferred>> {
    // What an outer handler has deferred is for when that has ended.
    if in_handler() { None } else { DEFERRED.take() }
}

/// Does what a handler has deferred; what it answers [at its end](super::ReplySlot::reply_at_end).
pub(super) fn run_deferred(core: &Core, work: Arc<dyn Deferred>) -> Option<(From, Few)> {
    let (server, number) = SERVER.replace((Server::No, core.number));
    let before = (RUNS_AS.get(), RUNS_FOR.replace(Some(core.number)));
    // Of the work that waits for this: it goes at the end of that.
    let outer = AT_END.take();
    // What a method waits for and runs meanwhile keeps those waiting that the method does.
    if server != Server::No {
        RUNS_AS.set(server);
    }
    let is_on_duty = (server, number) == (Server::OnDuty, core.number);
    let begun = is_on_duty.then(|| core.crew.begin());
    to_end(|| work.run());
    let is_relieved = begun.is_some_and(|begun| !core.crew.end(begun));
    RUNS_AS.set(before.0);
    RUNS_FOR.set(before.1);
    SERVER.set((if is_relieved { Server::Relieved } else { server }, number));
    AT_END.replace(outer)
}

/// Keeps an answer for the end of the deferred work that the thread does, if it does some of these
/// links, and has no other to keep. Whether it does.
#[inline]
pub(super) fn answer_at_end(core: &Core, from: From, words: &[u64]) -> bool {
    let is_of_work = RUNS_FOR.get() == Some(core.number) && !in_handler();
    let keeps = is_of_work && words.len() <= Few::MAX;
    keeps
        && AT_END.with_borrow_mut(|at_end| {
            let is_free = at_end.is_none();
            at_end.get_or_insert_with(|| (from, Few::of(words)));
            is_free
        })
}

/// What the calling thread is to links, and the number of these.
#[inline]
pub(crate) fn server() -> (Server, u32) {
    SERVER.get()
}

/// The calling thread is something else to the links now, until this is dropped.
pub(crate) struct Serving {
    server: (Server, u32),
    home: Option<Weak<Core>>,
}

impl Serving {
    /// To the links of this number.
    pub(crate) fn new(server: Server, number: u32, home: Weak<Core>) -> Self {
        Self { server: SERVER.replace((server, number)), home: HOME.replace(Some(home)) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        SERVER.set(self.server);
        drop(HOME.replace(self.home.take()));
    }
}

thread_local! {
    static DEFERRED: RefCell<Option<Arc<dyn Deferred>>> = const { RefCell::new(None) };
    static SERVER: Cell<(Server, u32)> = const { Cell::new((Server::No, 0)) };
    /// What the thread was when it began the deferred work that it does now.
    static RUNS_AS: Cell<Server> = const { Cell::new(Server::No) };
    /// The links whose deferred work it does.
    static RUNS_FOR: Cell<Option<u32>> = const { Cell::new(None) };
    static AT_END: RefCell<Option<(From, Few)>> = const { RefCell::new(None) };
    /// The links that it drives for others.
    static HOME: RefCell<Option<Weak<Core>>> = const { RefCell::new(None) };
}
