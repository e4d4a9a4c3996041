//! What all handles to the links of a nic share.

use crate::slots::SlotKey;
use egret_net::rt::waits::{self, WaitHint, WaitPeer, WaitScope};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use egret_net::rt;
use egret_net::sync::DrivingRole;
use egret_net::vi::{CompletionQueue, Drain, Nic, Reliability, ViOptions};

use super::background::BackgroundThreads;
use super::opening::LinkOpening;
use super::options::LinksOptions;
use super::path::PathTable;
use super::state::LinksState;
use crate::am::MessageError;
use crate::flow::SizedPools;
use crate::link::LinkError;
use crate::links::state_lock::StateLock;

/// What all handles to the links of a nic share.
pub(crate) struct LinksCore {
    pub(crate) nic: Nic,
    pub(crate) queue: CompletionQueue,
    /// The drain of the short frames of all links.
    pub(crate) drain: Drain,
    /// The drain of the messages of all paths.
    pub(super) path_drain: Drain,
    pub(crate) state: StateLock,
    /// The role of the thread that drives.
    pub(crate) driving_role: DrivingRole,
    /// The background threads, which drive while no other thread does.
    pub(crate) crew: Arc<BackgroundThreads>,
    /// Whether the background threads are asked to run handlers that are due.
    pub(super) is_called: AtomicBool,
    /// Whether the background threads rest until the driver leaves its role.
    pub(super) rests: AtomicBool,
    pub(crate) depot: Arc<SizedPools>,
    /// Whether the nic need not make progress for what was sent: that leaves at once, or a thread in
    /// the background sees to it soon.
    pub(super) is_looked_after: bool,
    /// Feeds that found something since the nic made progress. Only a hint.
    pub(super) feeds: AtomicU32,
    /// Of these links, in this process.
    pub(crate) number: u32,
}

/// The nic and the options of links, which do not change.
#[derive(Debug, Clone)]
pub(crate) struct LinksSetup {
    pub(crate) nic: Nic,
    pub(crate) options: LinksOptions,
    /// Whether the program has said how many peers there may be.
    pub(crate) peers_set: bool,
    /// For connections.
    pub(crate) vi: ViOptions,
    pub(crate) depot: Arc<SizedPools>,
    /// Which life of this node it is.
    pub(crate) incarnation: u64,
    /// Of these links, in this process.
    pub(crate) number: u32,
}

impl LinksSetup {
    /// Receives that each connection has posted.
    pub(crate) fn receives(&self) -> u32 {
        self.options.receives.min(self.nic.limits().queue_depth)
    }
}

impl LinksCore {
    pub(crate) fn open(nic: Nic, options: LinksOptions) -> Result<Arc<Self>, LinkError> {
        let (queue, drain) = (nic.completion_queue(usize::MAX / 2), nic.drain());
        let levels = [options.reliability, Reliability::Reception, Reliability::Delivery];
        let level = levels.into_iter().filter(|level| level.is_reliable());
        let level = level.into_iter().find(|level| nic.limits().offers(*level));
        let vi = ViOptions {
            reliability: level.ok_or(LinkError::Unreliable)?,
            send_queue: Some(queue.clone()),
            recv_queue: Some(queue.clone()),
            drain: Some(drain.clone()),
            ..ViOptions::default()
        };
        let depot = Arc::new(SizedPools::default());
        let incarnation = rt::random();
        let memory = Arc::clone(&depot);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let has_background = options.background && rt::has_background();
        let is_looked_after = drain.is_at_once() || has_background;
        let peers_set = options.peers_max != LinksOptions::default().peers_max;
        let fixed =
            LinksSetup { nic: nic.clone(), options, peers_set, vi, depot, incarnation, number };
        let (opening, path_drain) = (LinkOpening::new(&fixed)?, nic.drain());
        let paths = PathTable::new(&fixed, &path_drain)?;
        let state = StateLock::new(&nic, LinksState::new(fixed, opening, paths));
        let driving_role = state.role();
        let (feeds, crew) = (AtomicU32::new(0), Arc::new(BackgroundThreads::new(number)));
        let [is_called, rests] = [false, false].map(AtomicBool::new);
        Ok(Arc::new(Self {
            nic,
            queue,
            drain,
            path_drain,
            state,
            driving_role,
            crew,
            is_called,
            rests,
            depot: memory,
            is_looked_after,
            feeds,
            number,
        }))
    }

    /// The calling thread may wait for something of a peer, or of any, until the returned value is dropped.
    #[inline]
    #[track_caller]
    pub(crate) fn waits(&self, kind: &'static str, link: Option<SlotKey>) -> WaitScope {
        waits::scope(self.wait_hint(kind, link))
    }

    #[inline]
    #[track_caller]
    pub(crate) const fn wait_hint(&self, kind: &'static str, link: Option<SlotKey>) -> WaitHint {
        let hint = WaitHint::of(kind, self.number);
        match link {
            Some(link) => hint.by(WaitPeer::Link(link.to_bits())),
            None => hint,
        }
    }

    /// A handle goes: the threads in the background are to look whether they are the last.
    pub(crate) fn wake_if_last(self: &Arc<Self>) {
        if Arc::strong_count(self) <= self.crew.holders() + 1 {
            self.nic.wake();
        }
    }

    /// Whether only background threads still refer to the links.
    pub(super) fn is_forsaken(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) <= self.crew.holders()
    }
}

impl Drop for LinksCore {
    fn drop(&mut self) {
        self.crew.close();
    }
}

impl fmt::Debug for LinksCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").field("host", &self.nic.host()).finish_non_exhaustive()
    }
}

/// Why a wait ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitStopped {
    TimedOut { waited: Duration },
    InHandler,
}

impl From<WaitStopped> for MessageError {
    fn from(stopped: WaitStopped) -> Self {
        match stopped {
            WaitStopped::TimedOut { waited } => Self::TimedOut { waited },
            WaitStopped::InHandler => Self::InHandler,
        }
    }
}

/// A flag that a waker raises.
#[derive(Debug, Default)]
pub(crate) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(crate) fn raised() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Whether it is up.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether it was raised since it was asked last.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::AcqRel)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The links that this process has opened.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
