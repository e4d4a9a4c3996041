//! Links: what two nodes send each other, once and in order while the link lives, with an account of
//! everything when it ends. [`Links`] has all links of one nic; a driver, [`core`] and [`driver`], is
//! the thread that makes progress for them.

mod account;
mod alarm;
mod allow_list;
mod awaited;
pub(crate) mod background;
mod block_on;
mod channels;
pub(crate) mod clock;
mod closing;
pub(crate) mod core;
mod deferred;
pub(crate) mod driver;
mod flows;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../fuzz/models/egret-node/links/fuzzing.rs"]
pub(crate) mod fuzzing;
mod handshake;
pub(crate) mod link_side;
mod opening;
mod options;
mod path;
mod receive;
pub(crate) mod state;
mod state_lock;
mod table;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod traffic;

use egret_net::rt::waits;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

#[doc(hidden)]
pub use account::LinksAccount;
pub use alarm::Alarm;
pub use awaited::Awaited;
pub use deferred::handlers_later;
use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::{Arming, Nic, PublicKey, Trust};
pub use options::LinksOptions;
pub use path::{PATH_MAX, Path};
pub use task::Task;
pub(crate) use traffic::LinkTraffic;

use self::background::RoleExit;
use self::clock::DeadlineClock;
use self::core::LinksCore;
use self::driver::HandlersDue;
use self::state::LinksState;
use crate::am::{Bundle, DrivingScope, DrivingThread, LinkPeer};
use crate::link::{LinkCounters, LinkError};

/// All links of one nic. Clones are handles to the same links. When the last handle and the last
/// endpoint are dropped, the links are closed; soon after, the background thread closes the nic,
/// whose name is free then.
///
/// ```
/// use egret_net::fabric::{Fabric, shm::ShmFabric};
/// use egret_net::rt::Deadline;
/// use egret_net::vi::NicOptions;
/// use egret_node::link::LinkError;
/// use egret_node::{Links, LinksOptions};
///
/// // Two nodes of one process; two processes differ in nothing else.
/// let open = |name: &str| {
///     let nic = ShmFabric.open(&NicOptions::new(&format!("{name}-{}", std::process::id())))?;
///     Ok::<_, Box<dyn std::error::Error>>(Links::open(nic, LinksOptions::default())?)
/// };
/// let (here, there) = (open("links-here")?, open("links-there")?);
/// here.wait_connect(there.host(), Deadline::DEFAULT)?;
/// assert_eq!(here.counters().made, 1);
/// assert_eq!(here.wait_connect(here.host(), Deadline::DEFAULT), Err(LinkError::Oneself));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Links {
    pub(crate) core: Arc<LinksCore>,
}

impl Links {
    /// Opens the links of a nic: from now on other nodes can connect to it.
    ///
    /// # Errors
    ///
    /// If the links of the nic are open already, or the nic has no reliable level.
    pub fn open(nic: Nic, options: LinksOptions) -> Result<Self, LinkError> {
        let background = options.background && rt::has_background();
        let core = LinksCore::open(nic, options)?;
        if background {
            let started = background::start(&core);
            started.map_err(|why| LinkError::Thread { why: why.to_string() })?;
        }
        Ok(Self { core })
    }

    /// The host name by which other nodes find these links.
    #[must_use]
    pub fn host(&self) -> &str {
        self.core.nic.host()
    }

    /// The nic of these links, for connections of the program's own beside the links.
    #[must_use]
    pub fn nic(&self) -> &Nic {
        &self.core.nic
    }

    /// Waits until there is a link to a host. A link is also made by whatever needs one first.
    ///
    /// # Errors
    ///
    /// If there is no link within the deadline. [`LinkError::Connect`] contains what the fabric
    /// knows: that there is no such host, that no links are open there, or that the options of the
    /// two sides do not match. Errors that cannot go away are returned at once; a host or links that
    /// may still appear are waited for. Whether an endpoint is there, and has the tag, only
    /// [mapping](crate::am::Endpoint::wait_map) it tells. [`LinkError::Oneself`] for the host
    /// of these links, at once.
    #[track_caller]
    pub fn wait_connect(&self, host: &str, deadline: impl Into<Deadline>) -> Result<(), LinkError> {
        let _waits = waits::named(self.core.wait_hint("link", None), host);
        self.core.link(host, deadline.into()).map(drop)
    }

    /// Accepts as many links as a pool of this size [needs](LinksOptions::pool_size), from now on,
    /// unless the program has set [`LinksOptions::peers_max`] to another number than the default.
    /// Existing links stay. A budget, or a number of messages, that is not below the default is raised
    /// so far that the share of each of these peers has room for two mappings or channels. Both are
    /// limits: nothing is allocated before use.
    pub fn set_pool_size(&self, nodes: u32) {
        self.core.state.with(|state| {
            if state.fixed.peers_set {
                return;
            }
            let mut options = state.fixed.options.clone().pool_size(nodes);
            state.inflows.budget.share_among(u64::from(options.peers_max));
            state.admitted.share_among(u64::from(options.peers_max));
            if options.messages >= LinksOptions::default().messages {
                let needed = u64::from(options.peers_max) * MESSAGES_EACH;
                options.messages = options.messages.max(needed);
                state.admitted.raise(options.messages);
            }
            if options.budget >= LinksOptions::default().budget {
                options.budget = options.budget.max(state.inflows.budget.terms().least());
                state.inflows.budget.raise(options.budget);
            }
            state.fixed.options = options;
            state.tell_flows();
        });
    }

    /// The messages that all peers have room for.
    #[cfg(test)]
    pub(crate) fn messages(&self) -> u64 {
        self.core.state.with(|state| state.fixed.options.messages)
    }

    /// How many peers there may be.
    #[cfg(test)]
    pub(crate) fn peers_max(&self) -> u64 {
        self.core.state.with(|state| u64::from(state.fixed.options.peers_max))
    }

    /// The key that the peer of a link has proven.
    pub(crate) fn key_of(&self, peer: LinkPeer) -> Option<PublicKey> {
        self.core.state.with(|state| state.links.get(peer.link).and_then(|line| line.key()))
    }

    /// The host name that the peer of a link has sent, if the link still exists.
    pub(crate) fn host_of(&self, peer: LinkPeer) -> Option<String> {
        self.core.state.with(|state| state.links.get(peer.link).map(|line| line.peer.clone()))
    }

    /// Ends the links to a host whose peer has proven this key, with this reason.
    pub(crate) fn end_link_of(&self, host: &str, key: PublicKey, why: &str) {
        self.core.end_link_of(host, key, why);
    }

    /// Accepts links only from hosts that are [allowed](Self::allow), and that prove the key they are
    /// allowed with, from now on. A caller that is not allowed waits for ten seconds to be allowed.
    /// Before this call every host that the nic accepts gets a link.
    pub fn close_to_strangers(&self) {
        self.core.state.with(LinksState::close_to_strangers);
    }

    /// Allows a host to have a link if it proves this key; `None` on a fabric whose nics have no
    /// keys.
    pub fn allow(&self, host: &str, key: Option<PublicKey>) {
        self.core.state.with(|state| state.allow(host, key));
        self.core.nic.wake();
    }

    /// Allows this side to connect to a host, which must prove this key if one is given. The host
    /// gets no link by connecting to this side.
    pub fn allow_calling(&self, host: &str, key: Option<PublicKey>) {
        self.core.state.with(|state| state.allow_calling(host, key));
    }

    /// Ends the link of a host that is not [allowed](Self::allow) within this time of making it.
    pub(crate) fn keep_unlisted_for(&self, within: Duration) {
        self.core.state.with(|state| state.keep_unlisted_for(within));
    }

    /// Keeps the link with a peer whose host is not allowed, or ends that link within five seconds.
    pub(crate) fn keep(&self, peer: LinkPeer, stays: bool) {
        self.core.state.with(|state| match stays {
            true => state.keep(peer.link),
            false => state.part_soon(peer.link),
        });
        self.core.nic.wake();
    }

    /// Revokes [`allow`](Self::allow) for a host with this key. A link that exists ends after five
    /// seconds, if the host does not end it first.
    pub fn disallow(&self, host: &str, key: Option<PublicKey>) {
        self.core.state.with(|state| state.disallow(host, key));
        self.core.nic.wake();
    }

    /// Whether the link to a host is [encrypted](egret_net::vi::Vi::is_encrypted); `None` if there is
    /// no link. A link is encrypted if one of its two sides asks for it.
    #[must_use]
    pub fn is_encrypted(&self, host: &str) -> Option<bool> {
        self.core.state.with(|state| {
            let link = state.links.to_host(host)?;
            state.links.get(link).map(|line| line.carrier.is_encrypted())
        })
    }

    /// How far the two sides of the link to a host trust each other; `None` if there is no
    /// link. They cooperate only if both [ask for it](egret_net::vi::NicOptions::trust) and may.
    #[must_use]
    pub fn trust(&self, host: &str) -> Option<Trust> {
        self.core.state.with(|state| {
            let link = state.links.to_host(host)?;
            state.links.get(link).map(|line| line.carrier.trust())
        })
    }

    /// A new bundle of endpoints.
    #[must_use]
    pub fn bundle(&self) -> Bundle {
        Bundle::new(Arc::clone(&self.core))
    }

    /// Makes progress without waiting: receives what has arrived, runs handlers, sends. Of a flood of
    /// messages one call handles a part; [`next_event`](Self::next_event) is now then.
    pub fn poll(&self) {
        self.core.poll();
    }

    /// Drives the links until `done` returns true or the deadline passes. Returns whether `done` did.
    /// `done` is called at the beginning, and whenever a handler has run or a request that a handler
    /// left for [later](crate::am::Request::later) was answered. One handler runs if one is due,
    /// whatever the deadline; no other begins after the deadline.
    #[track_caller]
    pub fn drive(&self, deadline: impl Into<Deadline>, mut done: impl FnMut() -> bool) -> bool {
        let _waits = self.core.waits("handlers", None);
        let core = &self.core;
        let (mut clock, mut left) = (DeadlineClock::of(deadline.into()), HandlersDue::Nothing);
        clock.start(&core.nic);
        let leaves = RoleExit(core);
        // Before it is asked: what others serve behind that is asked for again.
        let mut served = core.state.with(|state| state.jobs);
        let is_done = loop {
            if done() {
                break true;
            }
            let (jobs, due) =
                core.drive_until(&mut clock, &mut |state, waker| state.has_served(served, waker));
            core.poll_if_due();
            // It is asked without the role, and may take long.
            core.call_rested();
            left = due;
            match jobs {
                Ok(jobs) if clock.until(&core.nic).is_ok() => served = jobs,
                _ => break done(),
            }
        };
        drop(leaves);
        if left != HandlersDue::Nothing {
            core.hand_over(left);
        }
        is_done
    }

    /// Drives the links as [`drive`](Self::drive) does, on a thread that has nothing else to do: the
    /// handlers that it runs may [last](crate::am::Request::may_last), while those that a waiting
    /// thread runs leave long work to other threads.
    pub fn serve(&self, deadline: impl Into<Deadline>, done: impl FnMut() -> bool) -> bool {
        let _serves =
            DrivingScope::new(DrivingThread::Lent, self.core.number, Arc::downgrade(&self.core));
        self.drive(deadline, done)
    }

    /// Closes all links, and removes the handlers of all endpoints. Calls that wait end with
    /// [`LinkError::Closed`](crate::link::LinkError::Closed).
    pub fn close(&self) {
        self.core.close(Deadline::UntilDead);
    }

    /// Closes all links as [`close`](Self::close) does, and sends the peers the reason, at most 1 KiB
    /// of it: they see [`LinkError::PeerFailed`]. What was sent before is sent first, then the
    /// reason; all of it within half a second, or not at all. In a handler this call only begins to
    /// close, and the thread that drives the links continues.
    pub fn close_because(&self, why: &str) {
        self.core.close_because(why, Deadline::UntilDead);
    }

    /// Ends the link to a host that is known to have failed, with [`LinkError::PeerFailed`] on this
    /// side: calls that wait for the host end, and the thread that drives the links informs the
    /// endpoints. Nothing happens if there is no link; another link to the host can be made.
    pub fn end_link(&self, host: &str, why: &str) {
        self.core.end_link(host, why);
    }

    /// The file descriptor that an event loop polls, among its other descriptors, while the links are
    /// [armed](Self::arm). `None` on fabrics without one, and for a nic that spins.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.core.nic.fd()
    }

    /// Makes progress, and returns whether the event loop may sleep then: on [`fd`](Self::fd), at the
    /// latest until the moment inside. A program that drives its links like this opens them without
    /// a [background thread](LinksOptions::background).
    ///
    /// ```no_run
    /// # use egret_net::vi::Arming;
    /// # use egret_node::Links;
    /// # use std::os::fd::BorrowedFd;
    /// # fn poll(_: Option<BorrowedFd<'_>>, _: Option<egret_net::rt::Instant>) {}
    /// # fn run(links: &Links, is_done: impl Fn() -> bool) {
    /// while !is_done() {
    ///     if let Arming::Armed { until } = links.arm() {
    ///         poll(links.fd(), until); // and the loop's other descriptors
    ///         links.disarm();
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use = "it says whether the loop may sleep"]
    pub fn arm(&self) -> Arming {
        self.core.arm()
    }

    /// Ends what [`arm`](Self::arm) began: the event loop is awake.
    pub fn disarm(&self) {
        self.core.nic.disarm();
    }

    /// Counters of the links of this nic.
    #[must_use]
    pub fn counters(&self) -> LinkCounters {
        self.core.state.with(|state| state.count())
    }

    /// Why a peer was [cut off](LinkError::CutOff) last.
    #[must_use]
    pub fn cut_off_last(&self) -> Option<LinkError> {
        self.core.state.with(|state| state.cut_off_last.clone())
    }

    /// When [`poll`](Self::poll) has something to do at the latest; for a program that drives a
    /// simulated world.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        let has_jobs = self.core.state.with(|state| state.has_jobs());
        if has_jobs {
            Some(self.core.nic.now())
        } else {
            self.core.state.with(LinksState::next_event)
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.core.wake_if_last();
    }
}

/// Messages by which the total grows for each peer of a pool; as many as by default, and a quarter of
/// them is the share of the peer.
const MESSAGES_EACH: u64 = 1024;
