//! Closing all links: at once, when what was sent has arrived, or with a reason that is sent to the peers.
//!
//! The reason is sent to each peer when everything before it has arrived, and the link is closed when
//! the reason has arrived too. Both end after half a second at the latest: the reason overtakes what
//! waits for a peer that does not receive, and the link is closed without an acknowledgement.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use egret_net::rt::{Deadline, Instant};
use egret_net::vi::PublicKey;

use super::core::{LinksCore, WaitStopped};
use super::state::LinksState;
use crate::am::{UpcallKind, run_jobs};
use crate::link::LinkError;
use crate::link::control::{LinkControl, WHY_MAX};
use crate::slots::SlotKey;
use crate::wakers::WakerList;

/// The closing of all links, while it is under way.
#[derive(Debug)]
pub(crate) struct LinksClosing {
    /// The reason, if the peers are told one.
    why: Option<String>,
    /// When the reason is sent, whatever waits before it.
    say: Instant,
    /// When the links are closed, whether the peers have the reason or not.
    end: Instant,
    waiters: WakerList,
}

impl LinksCore {
    /// Runs the handlers that are due for no longer than `within`, which is looked at after each.
    /// What is left belongs to who drives next, or goes with the links.
    pub(crate) fn close(self: &Arc<Self>, within: Deadline) {
        let until = within.until_from(self.nic.now());
        let is_late = || until.is_some_and(|until| self.nic.now() >= until);
        self.state.with(LinksState::close);
        while !is_late()
            && let Some(job) = self.state.with(LinksState::next_job)
        {
            run_jobs(self, job, |_| is_late());
        }
        self.nic.wake();
    }

    pub(crate) fn close_because(self: &Arc<Self>, why: &str, within: Deadline) {
        self.part(Some(why), SAY_WITHIN, END_WITHIN, within);
    }

    /// Closes each link when what was sent over it has arrived; `within` at the latest.
    pub(crate) fn close_through(self: &Arc<Self>, within: Deadline) {
        let most = match within {
            Deadline::In(within) => within.min(THROUGH_WITHIN),
            Deadline::UntilDead => THROUGH_WITHIN,
        };
        self.part(None, most, most, within);
    }

    fn part(self: &Arc<Self>, why: Option<&str>, say: Duration, end: Duration, within: Deadline) {
        let began = self.nic.now();
        self.state.with(|state| state.begin_to_part(why, say, end));
        self.nic.wake();
        let most = match within {
            Deadline::In(within) => within.min(end * 2),
            Deadline::UntilDead => end * 2,
        };
        let parted = self.wait(Deadline::In(most), LinksState::has_parted);
        // A handler cannot wait; who drives goes on with it.
        if parted != Err(WaitStopped::InHandler) {
            self.close(match within {
                Deadline::In(within) => Deadline::In(within.saturating_sub(self.nic.now() - began)),
                Deadline::UntilDead => within,
            });
        }
    }

    /// Ends the link with the peer that has proven this key at a host.
    pub(crate) fn end_link_of(&self, host: &str, key: PublicKey, why: &str) {
        self.state.with(|state| state.end_links_of(host, key, why));
        self.nic.wake();
    }

    pub(crate) fn end_link(&self, host: &str, why: &str) {
        self.state.with(|state| state.end_links_to(host, why));
        self.nic.wake();
    }
}

impl LinksState {
    fn close(&mut self) {
        self.close_opening();
        for link in self.links.keys() {
            self.close_link(link);
        }
        for endpoint in self.endpoints.keys() {
            self.enqueue(endpoint, UpcallKind::Closed);
        }
        self.close_ports();
        self.parting.take().into_iter().for_each(|mut parting| parting.waiters.wake());
    }

    fn close_opening(&mut self) {
        self.closed = true;
        for stranger in self.opening.close() {
            self.send_away(stranger);
        }
    }

    /// Begins to close all links, and to tell the peers why.
    #[cfg(test)]
    pub(crate) fn part(&mut self, why: &str) {
        self.begin_to_part(Some(why), SAY_WITHIN, END_WITHIN);
    }

    /// Begins to close all links, and to tell the peers why, if there is a reason.
    fn begin_to_part(&mut self, why: Option<&str>, say: Duration, end: Duration) {
        if self.parting.is_some() {
            return;
        }
        self.close_opening();
        let now = self.fixed.nic.now();
        let (say, end) = (now + say, now + end);
        let why = why.map(|why| shorten(why).to_owned());
        self.parting = Some(LinksClosing { why, say, end, waiters: WakerList::default() });
        self.part_more();
    }

    /// Goes on with a closing.
    #[cold]
    pub(crate) fn part_more(&mut self) {
        let Some(parting) = &self.parting else { return };
        let (now, say, end) = (self.fixed.nic.now(), parting.say, parting.end);
        let why = parting.why.clone();
        let mut open = false;
        for link in self.links.keys() {
            let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else {
                continue;
            };
            // A reason does not wait for a reader that is slow.
            let is_through = line.is_through() && (why.is_some() || self.channels.is_through(link));
            let has_said = line.parts || why.is_none();
            if line.incarnation.is_none() || has_said && is_through || now >= end {
                self.close_link(link);
                continue;
            }
            open = true;
            let Some(why) = why.as_ref().filter(|_| !line.parts) else { continue };
            if is_through || now >= say {
                line.parts = true;
                line.control(&LinkControl::Failed { why: why.clone() });
                self.pump(link);
            }
        }
        if !open {
            self.close();
        }
    }

    fn has_parted(&mut self, waker: Option<&Waker>) -> Option<()> {
        let Some(parting) = &mut self.parting else { return Some(()) };
        parting.waiters.wait(waker);
        None
    }

    /// When a closing goes on.
    pub(crate) fn next_parting(&self) -> Option<Instant> {
        let parting = self.parting.as_ref()?;
        let is_said = self.links.values().all(|line| line.parts || line.ended.is_some());
        Some(if is_said { parting.end } else { parting.say })
    }

    /// Ends the links with the peer that has proven this key at a host and has failed, and what is being
    /// made unless the host is another's by now.
    fn end_links_of(&mut self, host: &str, key: PublicKey, why: &str) {
        if self.allowed.is_called_only(host) {
            return;
        }
        let failed = |peer| LinkError::PeerFailed { peer, why: shorten(why).to_owned() };
        for link in self.links.keys() {
            let line = self.links.get(link);
            if line.is_some_and(|line| line.peer == host && line.key() == Some(key)) {
                self.end(link, failed);
            }
        }
        if !self.allowed.is_listed_anew(host, key) {
            self.opening.call_failed(host, failed(host.to_owned()));
        }
    }

    /// Ends whatever there is to a host that has failed, and what is being made.
    fn end_links_to(&mut self, host: &str, why: &str) {
        let failed = |peer| LinkError::PeerFailed { peer, why: shorten(why).to_owned() };
        for link in self.links.keys() {
            if self.links.get(link).is_some_and(|line| line.peer == host) {
                self.end(link, failed);
            }
        }
        self.opening.call_failed(host, failed(host.to_owned()));
    }

    /// The peer closes its links, and says why.
    pub(crate) fn peer_failed(&mut self, link: SlotKey, why: &str) -> Result<(), &'static str> {
        if why.len() > WHY_MAX {
            return Err("a reason that is too long");
        }
        let why = why.chars().map(|it| if it.is_control() && it != '\n' { ' ' } else { it });
        let why = why.collect();
        self.end(link, |peer| LinkError::PeerFailed { peer, why });
        Ok(())
    }
}

/// As much of a reason as is sent.
fn shorten(why: &str) -> &str {
    let mut end = why.len().min(WHY_MAX);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    &why[..end]
}

/// How long the frames that were sent before may take.
const SAY_WITHIN: Duration = Duration::from_millis(400);
/// How long the closing may take in all.
const END_WITHIN: Duration = Duration::from_millis(500);
/// The same without a reason: then the peers of a node that has left have ended the links.
const THROUGH_WITHIN: Duration = Duration::from_secs(5);
