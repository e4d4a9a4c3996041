//! The links of one nic, and their driver.

mod account;
mod alarm;
mod allowed;
mod awaited;
pub(crate) mod background;
pub(crate) mod behind;
mod block_on;
pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod driver;
mod flows;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod greeting;
mod heard;
mod later;
pub(crate) mod line;
mod opening;
mod options;
mod parting;
mod path;
pub(crate) mod slots;
pub(crate) mod state;
mod task;
#[cfg(test)]
pub(crate) mod tests;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

#[doc(hidden)]
pub use account::Account;
pub use alarm::Alarm;
pub use awaited::Awaited;
use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::{Arming, Nic, PublicKey, Trust};
pub use later::handlers_later;
pub use options::LinksOptions;
pub use path::{PATH_MAX, Path, PathError};
pub use task::Task;

use self::background::Leaves;
use self::clock::Clock;
use self::core::Core;
use self::driver::Due;
use self::state::State;
use crate::am::{Bundle, Peer, Server, Serving};
use crate::link::{LinkCounters, LinkError, LinkUpError, OpenError};

/// All links of one nic. Clones are handles to the same; when the last one, and the last
/// endpoint, is gone, the links are closed, and soon after, by the thread in the background, the nic,
/// whose name is free then.
#[derive(Debug, Clone)]
pub struct Links {
    pub(crate) core: Arc<Core>,
}

impl Links {
    /// Opens the links of a nic: from now on others can connect to it.
    ///
    /// # Errors
    ///
    /// If they are open already, or there is no memory.
    pub fn open(nic: Nic, options: LinksOptions) -> Result<Self, OpenError> {
        let background = options.background && rt::has_background();
        let core = Core::open(nic, options)?;
        if background {
            background::start(&core).map_err(OpenError::Thread)?;
        }
        Ok(Self { core })
    }

    /// What others call it.
    #[must_use]
    pub fn host(&self) -> &str {
        self.core.nic.host()
    }

    /// The nic that they are links of: for connections of a program's own beside them.
    #[must_use]
    pub fn nic(&self) -> &Nic {
        &self.core.nic
    }

    /// Makes sure that there is a link to a host. One is made at first use anyhow.
    ///
    /// # Errors
    ///
    /// If there is none within the deadline. [`LinkUpError::Connect`] has what the fabric knows:
    /// that there is no such host, that nobody has links there, or that the two sides do not
    /// suit each other; what cannot change is told at once, and a host or its links that may
    /// still come are waited for. Whether an endpoint is there, and has the tag, only
    /// [mapping](crate::am::Endpoint::wait_map) it tells. [`LinkUpError::Oneself`] for the host
    /// of these links, at once.
    pub fn wait_connect(
        &self,
        host: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<(), LinkUpError> {
        self.core.link(host, deadline.into()).map(drop)
    }

    /// Lets others have as many links as a pool of this size
    /// [needs](LinksOptions::pool_size), from now on, unless the program has set
    /// [another number](LinksOptions::peers_max) than the default. Links that there are stay. A
    /// budget, or a number of messages, that is not less than the default is raised to what gives
    /// each of so many peers a share of two mappings or channels; both are limits, of which nothing
    /// is allocated before use.
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

    /// The key that the other side of a link has proven.
    pub(crate) fn key_of(&self, peer: Peer) -> Option<PublicKey> {
        self.core.state.with(|state| state.links.get(peer.link).and_then(|line| line.key()))
    }

    /// Whose link it is, as it said itself, if the link is still there.
    pub(crate) fn host_of(&self, peer: Peer) -> Option<String> {
        self.core.state.with(|state| state.links.get(peer.link).map(|line| line.peer.clone()))
    }

    /// Ends the link with whoever has proven this key at a host, with this reason.
    pub(crate) fn end_link_of(&self, host: &str, key: PublicKey, why: &str) {
        self.core.end_link_of(host, key, why);
    }

    /// From now on only hosts have links that are [allowed](Self::allow), and that prove the key
    /// they are allowed with. Whoever else calls waits for ten seconds to be allowed. Until then
    /// everybody has one whom the nic lets connect.
    pub fn close_to_strangers(&self) {
        self.core.state.with(State::close_to_strangers);
    }

    /// A host may have a link, and must prove this key; without one on a fabric where nics have
    /// no keys.
    pub fn allow(&self, host: &str, key: Option<PublicKey>) {
        self.core.state.with(|state| state.allow(host, key));
        self.core.nic.wake();
    }

    /// A host may be called, which must prove this key if one is known; it gets no link by calling.
    pub fn allow_calling(&self, host: &str, key: Option<PublicKey>) {
        self.core.state.with(|state| state.allow_calling(host, key));
    }

    /// Whoever is not [allowed](Self::allow) within this time of making a link has it ended.
    pub(crate) fn keep_unlisted_for(&self, within: Duration) {
        self.core.state.with(|state| state.keep_unlisted_for(within));
    }

    /// The link with a peer stays though its host is not listed, or ends within seconds.
    pub(crate) fn keep(&self, peer: Peer, stays: bool) {
        self.core.state.with(|state| match stays {
            true => state.keep(peer.link),
            false => state.part_soon(peer.link),
        });
        self.core.nic.wake();
    }

    /// A host that was allowed with this key may have no link any more. One that there is ends
    /// after five seconds, if the host does not end it first.
    pub fn disallow(&self, host: &str, key: Option<PublicKey>) {
        self.core.state.with(|state| state.disallow(host, key));
        self.core.nic.wake();
    }

    /// Whether what goes over the link to a host is [encrypted](egret_net::vi::Vi::is_encrypted);
    /// `None` if there is no link. It is if one of both sides wants it.
    #[must_use]
    pub fn is_encrypted(&self, host: &str) -> Option<bool> {
        self.core.state.with(|state| {
            let link = state.hosts.get(host).copied()?;
            state.links.get(link).map(|line| line.carrier.is_encrypted())
        })
    }

    /// How far the two sides of the link to a host trust each other; `None` if there is no
    /// link. They cooperate only if both [want](egret_net::vi::NicOptions::trust) to and may.
    #[must_use]
    pub fn trust(&self, host: &str) -> Option<Trust> {
        self.core.state.with(|state| {
            let link = state.hosts.get(host).copied()?;
            state.links.get(link).map(|line| line.carrier.trust())
        })
    }

    /// A new bundle of endpoints.
    #[must_use]
    pub fn bundle(&self) -> Bundle {
        Bundle::new(Arc::clone(&self.core))
    }

    /// Does what can be done without waiting: takes what has arrived, runs handlers,
    /// sends. Of what a flood brings it does a part; [`next_event`](Self::next_event) is now
    /// then.
    pub fn poll(&self) {
        self.core.poll();
    }

    /// Drives the links until `done` says so or the deadline passes; whether `done` did. It
    /// is asked at the beginning and whenever a handler has run, or what it left for
    /// [later](crate::am::Request::later) was answered. One handler is run if one is due,
    /// whatever the deadline; no other is begun when that has passed.
    pub fn drive(&self, deadline: impl Into<Deadline>, mut done: impl FnMut() -> bool) -> bool {
        let core = &self.core;
        let (mut clock, mut left) = (Clock::of(deadline.into()), Due::Nothing);
        clock.start(&core.nic);
        let leaves = Leaves(core);
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
        if left != Due::Nothing {
            core.hand_over(left);
        }
        is_done
    }

    /// As [`drive`](Self::drive), on a thread that is the links' meanwhile: its handlers may
    /// [last](crate::am::Request::may_last), where those of one that only waits have others do so.
    pub fn serve(&self, deadline: impl Into<Deadline>, done: impl FnMut() -> bool) -> bool {
        let _serves = Serving::new(Server::Lent, self.core.number, Arc::downgrade(&self.core));
        self.drive(deadline, done)
    }

    /// Closes all links, and takes the handlers out of all endpoints: what waits ends with
    /// [`LinkError::Closed`](crate::link::LinkError::Closed).
    pub fn close(&self) {
        self.core.close(Deadline::UntilDead);
    }

    /// Closes all links, as [`close`](Self::close), and tells the peers why, in at most a KiB:
    /// they see [`LinkError::PeerFailed`]. What was sent before still goes, and then the
    /// reason; all of it within half a second, or not at all. Within a handler this only
    /// begins, and whoever drives goes on.
    pub fn close_because(&self, why: &str) {
        self.core.close_because(why, Deadline::UntilDead);
    }

    /// Ends the link to a host that is known to have failed, with
    /// [`LinkError::PeerFailed`] at this side: what waits for it ends, and endpoints are told
    /// by whoever drives. Nothing happens if there is none; one may be made again.
    pub fn end_link(&self, host: &str, why: &str) {
        self.core.end_link(host, why);
    }

    /// What an event loop polls, among its other descriptors, while the links are
    /// [armed](Self::arm). `None` on fabrics without one, and for a nic that spins.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.core.nic.fd()
    }

    /// Does what can be done, and says whether the loop may sleep then: on
    /// [`fd`](Self::fd), at the latest until the moment inside. A program that drives its
    /// links like this opens them without a [background](LinksOptions::background).
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

    /// The loop is awake.
    pub fn disarm(&self) {
        self.core.nic.disarm();
    }

    /// What the links have done so far.
    #[must_use]
    pub fn counters(&self) -> LinkCounters {
        self.core.state.with(|state| state.count())
    }

    /// Why the last peer that was cut off was.
    #[must_use]
    pub fn cut_off_last(&self) -> Option<LinkError> {
        self.core.state.with(|state| state.cut_off_last.clone())
    }

    /// When [`poll`](Self::poll) has something to do at the latest; for whoever drives a
    /// simulated world.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        let has_jobs = self.core.state.with(|state| state.has_jobs());
        if has_jobs { Some(self.core.nic.now()) } else { self.core.state.with(State::next_event) }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.core.wake_if_last();
    }
}

/// Messages of which each peer of a pool has a quarter for certain: as by default.
const MESSAGES_EACH: u64 = 1024;
