//! What handlers do outside of themselves, and which threads take their time for that.
//!
//! A handler must not wait. What it does [outside](super::Request::outside) runs without the role
//! of driving and without the bundle, as if no handler ran, so that it may wait and call. The
//! thread does nothing else meanwhile. Who drives then is another thread that waits; or the
//! background, when nobody has driven for a moment; or, if the thread is that of the background,
//! its [standby](crate::links::background).

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use egret_net::sync::Begun;

use super::serve::Inside;
use crate::links::core::Core;

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

/// Runs `body`, which may block; for methods of remote objects, and what else runs
/// [outside](super::Request::outside) of a handler. If
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

/// Runs `body` as if no handler ran. The standby, if the thread is on duty, looks after it.
#[inline]
pub(crate) fn go_outside<R>(core: &Core, body: impl FnOnce() -> R) -> R {
    let _back = Outside::new(core);
    body()
}

/// The thread in the background, which has nothing to do; made by
/// [`Request::background`](super::Request::background).
#[derive(Debug)]
pub struct Background {
    pub(super) core: Arc<Core>,
}

impl Background {
    /// Has that thread run `body`, [outside](super::Request::outside) of handlers: `body` may wait and
    /// call, and another thread takes over if it lasts. If the links end before, `body` is dropped.
    pub fn run(self, body: impl FnOnce() + Send + 'static) {
        self.core.crew.leave_errand(body);
        self.core.call_background();
    }
}

/// A thread is outside of the handler that it runs, until this is dropped.
struct Outside<'a> {
    core: &'a Core,
    server: (Server, u32),
    runs_as: Server,
    begun: Option<Begun>,
    _handlers: Inside,
}

impl<'a> Outside<'a> {
    #[inline]
    fn new(core: &'a Core) -> Self {
        let server = SERVER.replace((Server::No, core.number));
        let runs_as = RUNS_AS.get();
        // What a method waits for and runs meanwhile keeps those waiting that the method does.
        if server.0 != Server::No {
            RUNS_AS.set(server.0);
        }
        let is_on_duty = server == (Server::OnDuty, core.number);
        let begun = is_on_duty.then(|| core.crew.begin());
        Self { core, server, runs_as, begun, _handlers: Inside::none() }
    }
}

impl Drop for Outside<'_> {
    #[inline]
    fn drop(&mut self) {
        let is_relieved = self.begun.take().is_some_and(|begun| !self.core.crew.end(begun));
        let (server, number) = self.server;
        SERVER.set((if is_relieved { Server::Relieved } else { server }, number));
        RUNS_AS.set(self.runs_as);
    }
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
    static SERVER: Cell<(Server, u32)> = const { Cell::new((Server::No, 0)) };
    /// What the thread was when it went outside.
    static RUNS_AS: Cell<Server> = const { Cell::new(Server::No) };
    /// The links that it drives for others.
    static HOME: RefCell<Option<Weak<Core>>> = const { RefCell::new(None) };
}
