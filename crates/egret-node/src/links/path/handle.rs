//! Handles of programs to paths.

use egret_net::rt::waits;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use egret_net::rt::Deadline;
use egret_net::vi::{EAGER_MAX, Lane, PostError, Vi};

use super::head::PathHead;
use crate::am::UpcallHandler;
use crate::link::LinkError;
use crate::links::Links;
use crate::links::core::{LinksCore, WaitStopped};
use crate::slots::SlotKey;

/// Sends small messages, which may be lost, to the peer of a link: for data that is stale soon, such
/// as the state of a game or a sign of life.
///
/// A message names a port, and runs the [handler](Links::on_path) of that port. A message may be lost
/// or overtaken, and arrives neither twice nor damaged. Sending never waits: a message for which there
/// is no room, on this side or at the peer, is dropped and counted by the side that drops it. Data
/// that must arrive is sent by the link.
///
/// A path ends with its link. Clones are handles to the same path; when the last is dropped the path
/// is closed.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// use egret_net::fabric::{Fabric, shm::ShmFabric};
/// use egret_net::rt::Deadline;
/// use egret_net::vi::NicOptions;
/// use egret_node::{Links, LinksOptions};
///
/// // Two nodes of one process; two processes differ in nothing else.
/// let open = |name: &str| {
///     let nic = ShmFabric.open(&NicOptions::new(&format!("{name}-{}", std::process::id())))?;
///     Ok::<_, Box<dyn std::error::Error>>(Links::open(nic, LinksOptions::default())?)
/// };
/// let (here, there) = (open("game-here")?, open("game-there")?);
///
/// const PLAYER: u64 = 7;
/// let (tell, told) = mpsc::channel();
/// there.on_path(PLAYER, move |peer, bytes| {
///     let _ = tell.send((peer.to_owned(), bytes.to_vec()));
/// });
/// let path = here.wait_path(there.host(), Deadline::DEFAULT)?;
/// path.send(PLAYER, &[b"x=3 ", b"y=4"])?;
/// // Over shared memory nothing is lost while there is room.
/// let (peer, bytes) = told.recv_timeout(Duration::from_secs(10))?;
/// assert_eq!((&*peer, &*bytes), (here.host(), &b"x=3 y=4"[..]));
/// assert_eq!((path.peer(), path.sent(), path.dropped()), (there.host(), 1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Path {
    core: Arc<LinksCore>,
    key: SlotKey,
    shared: Arc<PathConnection>,
}

/// The connection of a path, shared by the handles and the table of paths.
#[derive(Debug)]
pub(super) struct PathConnection {
    pub(super) vi: Vi,
    pub(super) peer: Arc<str>,
    sent: AtomicU64,
    /// Why the path has ended.
    pub(super) ended: OnceLock<LinkError>,
}

/// Bytes of the largest message of a path: of an eager message without the head. [`Path`] has an
/// example.
pub const PATH_MAX: usize = EAGER_MAX - PathHead::LEN;

impl Path {
    /// Sends the bytes of `parts`, one after the other, as one message to a port of the peer. Never
    /// waits, also in a handler. A message that was sent may still be lost.
    ///
    /// # Errors
    ///
    /// [`PathTooLarge`](LinkError::PathTooLarge) or [`PathEnded`](LinkError::PathEnded); none if the
    /// message was dropped.
    pub fn send(&self, port: u64, parts: &[&[u8]]) -> Result<(), LinkError> {
        let shared = &*self.shared;
        let len = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        if len > PATH_MAX {
            return Err(LinkError::PathTooLarge { len, max: PATH_MAX });
        }
        let number = shared.sent.fetch_add(1, Ordering::Relaxed) + 1;
        #[expect(clippy::cast_possible_truncation, reason = "the low bits")]
        let head = PathHead::of(port, number as u32, parts).to_bytes();
        let sent = match parts {
            [] => shared.vi.send_eager(Lane::Talk, port, &[&head]),
            [bytes] => shared.vi.send_eager(Lane::Talk, port, &[&head, bytes]),
            [a, b] => shared.vi.send_eager(Lane::Talk, port, &[&head, a, b]),
            _ => shared.vi.send_eager(Lane::Talk, port, &[&head, &parts.concat()]),
        };
        let Err(PostError::Broken(why)) = sent else { return Ok(()) };
        shared.sent.fetch_sub(1, Ordering::Relaxed);
        let ended = shared.ended.get().cloned();
        let why = ended.unwrap_or_else(|| LinkError::of(&shared.peer, &why));
        Err(LinkError::PathEnded(Box::new(why)))
    }

    /// The host of the peer.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.shared.peer
    }

    /// Messages that were sent, dropped ones included.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Messages that this side dropped for want of room. What the peer drops it
    /// [counts](crate::link::LinkCounters::path_dropped) itself.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.vi.counters().dropped
    }

    /// Why the path has ended; `None` before.
    #[must_use]
    pub fn ended(&self) -> Option<LinkError> {
        self.shared.ended.get().cloned()
    }
}

impl PathConnection {
    pub(super) fn new(vi: Vi) -> Arc<Self> {
        let peer = Arc::from(vi.peer());
        Arc::new(Self { vi, peer, sent: AtomicU64::new(0), ended: OnceLock::new() })
    }
}

impl Clone for Path {
    fn clone(&self) -> Self {
        self.core.state.with(|state| state.add_path_handle(self.key));
        Self { core: Arc::clone(&self.core), key: self.key, shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.core.state.with(|state| state.drop_path_handle(self.key));
        self.core.wake_if_last();
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path").field("peer", &self.peer()).finish_non_exhaustive()
    }
}

impl Links {
    /// Waits for a path to a host, beside the link, which is made if there is none. There is one
    /// path for each link: who asks again has a handle to the same.
    ///
    /// # Errors
    ///
    /// As of [`wait_connect`](Self::wait_connect). [`LinkError::Connect`] also says that the nic
    /// does not offer the unreliable level, or that the peer's does not.
    #[track_caller]
    pub fn wait_path(&self, host: &str, deadline: impl Into<Deadline>) -> Result<Path, LinkError> {
        let _waits = waits::named(self.core.wait_hint("path", None), host);
        let (core, deadline) = (&self.core, deadline.into());
        let made = core.wait(deadline, |state, waker| state.path_to(host, deadline, waker));
        let (key, shared) = made.unwrap_or_else(|stopped| match stopped {
            WaitStopped::InHandler => Err(LinkError::InHandler),
            WaitStopped::TimedOut { waited } => {
                let known = core.state.with(|state| state.give_up_path(host));
                let peer = host.to_owned();
                Err(known.unwrap_or(LinkError::TimedOut { peer, waited }))
            }
        })?;
        Ok(Path { core: Arc::clone(core), key, shared })
    }

    /// A path to a host, as of [`wait_path`](Self::wait_path). The deadline is for the connections.
    ///
    /// # Errors
    ///
    /// If the host cannot be reached.
    pub fn path<D: Into<Deadline>>(
        &self,
        host: &str,
        deadline: D,
    ) -> impl Future<Output = Result<Path, LinkError>> + Send + use<D> {
        let (core, host, deadline) = (Arc::clone(&self.core), host.to_owned(), deadline.into());
        async move {
            let made = core.step(|state, waker| state.path_to(&host, deadline, waker)).await;
            made.map(|(key, shared)| Path { core, key, shared })
        }
    }

    /// Has `handler` run for each message that comes to a port by the path of any peer, with the
    /// peer's host and the bytes; in place of the handler before. It runs as those of active
    /// messages do, and [must not wait](crate::am::in_handler) either; messages to one port are
    /// served one at a time.
    ///
    /// Messages to a port without a handler are dropped, and so are those of a peer of whom 256
    /// wait already: [`LinkCounters::path_dropped`](crate::link::LinkCounters::path_dropped).
    /// [Closing](Self::close) the links takes all handlers out.
    pub fn on_path(&self, port: u64, handler: impl FnMut(&str, &[u8]) + Send + 'static) {
        let run = UpcallHandler::Path(Box::new(handler));
        // Dropped without any lock: it may own what takes one.
        drop(self.core.state.with(|state| state.set_port(port, run)));
    }

    /// Takes the handler of a port out. Whether there was one.
    pub fn off_path(&self, port: u64) -> bool {
        let before = self.core.state.with(|state| state.take_port(port));
        before.is_some()
    }
}
