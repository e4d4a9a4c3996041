//! Work that a handler leaves to its thread, and which threads do such work.
//!
//! A handler must not wait. What it defers runs on its thread when it has ended: without the role
//! of driving, without the bundle, and outside of any handler, so that it may wait and call. The
//! thread does nothing else meanwhile. Who drives then is another thread that waits; or the
//! background, when nobody has driven for a moment; or, if the thread is that of the background,
//! its [standby](crate::links::background).

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use super::serve::{in_handler, to_end};
use crate::links::core::Core;

/// Work that a handler leaves to its thread.
pub trait Deferred: Send + Sync {
    /// Does it. A panic is contained.
    fn run(self: Arc<Self>);
}

/// What a thread is to the links that it drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Post {
    /// It waits for something of its own.
    None,
    /// It [serves](crate::Links::serve).
    Serves,
    /// It drives in the background.
    OnDuty,
    /// It did, until the standby took over.
    Relieved,
}

/// Has the calling thread do `work` when the handler that it runs has ended.
///
/// Only a thread that [serves](super::Request::may_defer) does so without keeping something else
/// waiting: others wait for something of their own, and hear of it no sooner than the work is done.
///
/// # Errors
///
/// Gives it back if the thread runs no handler, or that has deferred something already.
#[inline]
pub fn defer(work: Arc<dyn Deferred>) -> Result<(), Arc<dyn Deferred>> {
    DEFERRED.with_borrow_mut(|deferred| {
        if !in_handler() || deferred.is_some() {
            return Err(work);
        }
        *deferred = Some(work);
        Ok(())
    })
}

/// Runs `body`, which may block: a thread that runs a call, or other [deferred](defer) work, and
/// would receive the next one, has another thread do that from now on, at once. What a method does
/// without this costs the others a few hundred microseconds.
///
/// ```
/// let text = egret_node::am::blocking(|| std::fs::read_to_string("/proc/self/comm"))?;
/// # assert!(!text.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn blocking<R>(body: impl FnOnce() -> R) -> R {
    let home = HOME.with_borrow(|home| home.as_ref().and_then(Weak::upgrade));
    if let Some(core) = home {
        match RUNS_AS.get() {
            Post::OnDuty => core.crew.relieve(),
            Post::Serves => core.call_background(),
            Post::None | Post::Relieved => {}
        }
    }
    body()
}

/// What the handler that has just ended has deferred.
#[inline]
pub(super) fn take_deferred() -> Option<Arc<dyn Deferred>> {
    DEFERRED.take()
}

/// Does what a handler has deferred.
pub(super) fn run_deferred(core: &Core, work: Arc<dyn Deferred>) {
    let post = POST.replace(Post::None);
    let before = RUNS_AS.replace(post);
    let begun = (post == Post::OnDuty).then(|| core.crew.begin());
    to_end(|| work.run());
    let is_relieved = begun.is_some_and(|begun| !core.crew.end(begun));
    RUNS_AS.set(before);
    POST.set(if is_relieved { Post::Relieved } else { post });
}

/// What the calling thread is to the links that it drives.
#[inline]
pub(crate) fn post() -> Post {
    POST.get()
}

/// The calling thread is something else to the links now, until this is dropped.
pub(crate) struct Posted {
    post: Post,
    home: Option<Weak<Core>>,
}

impl Posted {
    pub(crate) fn new(post: Post, home: Weak<Core>) -> Self {
        Self { post: POST.replace(post), home: HOME.replace(Some(home)) }
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        POST.set(self.post);
        drop(HOME.replace(self.home.take()));
    }
}

thread_local! {
    static DEFERRED: RefCell<Option<Arc<dyn Deferred>>> = const { RefCell::new(None) };
    static POST: Cell<Post> = const { Cell::new(Post::None) };
    /// What the thread was when it began the deferred work that it does now.
    static RUNS_AS: Cell<Post> = const { Cell::new(Post::None) };
    /// The links that it drives for others.
    static HOME: RefCell<Option<Weak<Core>>> = const { RefCell::new(None) };
}
