//! The hosts that may have a link.
//!
//! Links are open to every peer that the nic lets connect, until they are
//! [closed](super::Links::close_to_strangers): from then on only hosts have one that are listed,
//! and only with the key that they are listed with. A caller that is not listed yet waits for
//! that, as long as a hello may take; a node may hear of a member from the member itself first.
//!
//! Where those call who are to be listed, as at a registry, links are for a while: who is not
//! listed within a while has its link ended, and so has who is not listed any more.

use std::collections::BTreeMap;
use std::time::Duration;

use egret_net::rt::Instant;
use egret_net::vi::{Address, PublicKey};

use super::link_side::LinkSide;
use super::state::LinksState;
use crate::am::fault::{Fault, planted};
use crate::link::LinkError;
use crate::link::control::LinkHello;
use crate::slots::SlotKey;

/// The hosts that may have a link.
#[derive(Debug, Default)]
pub(crate) struct AllowList {
    is_closed: bool,
    /// How long a host that is not listed keeps a link; without an end if it is `None`.
    unlisted: Option<Duration>,
    /// The listed hosts.
    listed: BTreeMap<String, AllowedHost>,
}

/// What is known of a host.
#[derive(Debug, Clone, Copy)]
struct AllowedHost {
    /// The key that it must prove; `None` on a fabric without keys, or if it is not known.
    key: Option<PublicKey>,
    /// Whether this side may call the host, and the host may not call this side.
    is_called_only: bool,
}

/// Whether a caller may have a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkAdmission {
    Yes,
    /// The peer is not listed with this key yet: it may be another life of its host.
    NotYet,
    /// Its host does not call, or is listed with another key for good.
    No,
}

impl AllowList {
    /// Whether a caller that names itself `host`, and has proven `key`, may have a link.
    pub(super) fn judge(&self, host: &str, key: Option<PublicKey>) -> LinkAdmission {
        match self.listed.get(host) {
            _ if planted(Fault::AnyKey) => LinkAdmission::Yes,
            Some(known) if known.is_called_only => LinkAdmission::No,
            Some(known) if known.key == key || known.key.is_none() => LinkAdmission::Yes,
            _ if self.is_closed => LinkAdmission::NotYet,
            Some(_) => LinkAdmission::No,
            None => LinkAdmission::Yes,
        }
    }

    /// Where to call a host, which must prove its key if that is known. `None` if it is not to
    /// be called.
    pub(super) fn address(&self, host: &str, service: &str) -> Option<Address> {
        let known = self.listed.get(host);
        if !self.is_open_to(host) {
            return None;
        }
        let mut to = Address::new(host, service, 0);
        to.key = known.and_then(|known| known.key);
        Some(to)
    }

    /// Whether a link with this host may be.
    pub(super) fn is_open_to(&self, host: &str) -> bool {
        !self.is_closed || self.listed.contains_key(host)
    }

    /// Whether a host is listed with this key, and no other may have it.
    pub(super) fn is_listed(&self, host: &str, key: Option<PublicKey>) -> bool {
        self.listed.get(host).is_some_and(|known| known.key == key)
    }

    /// Whether a host is listed with another key than this.
    pub(super) fn is_listed_anew(&self, host: &str, key: PublicKey) -> bool {
        self.listed.get(host).is_some_and(|known| known.key.is_some_and(|known| known != key))
    }

    /// Whether this side may call the host and the host may not call this side. Such an entry is not
    /// changed by `allow` and `disallow`.
    pub(super) fn is_called_only(&self, host: &str) -> bool {
        self.listed.get(host).is_some_and(|known| known.is_called_only)
    }

    /// Whether a host is listed with this proven key.
    fn has_host(&self, host: &str, key: Option<PublicKey>) -> bool {
        key.is_some() && self.is_listed(host, key) || planted(Fault::AnyKey)
    }

    /// Whether the key that a host has proven is the one that it is listed with, or none is.
    pub(super) fn suits(&self, host: &str, key: Option<PublicKey>) -> bool {
        let known = self.listed.get(host).and_then(|known| known.key);
        known.is_none() || known == key || planted(Fault::AnyKey)
    }
}

impl LinksState {
    /// From now on only hosts that are listed have links.
    pub(super) fn close_to_strangers(&mut self) {
        self.allowed.is_closed = true;
    }

    /// A host may have a link from now on, if it proves this key; one with another key ends.
    pub(super) fn allow(&mut self, host: &str, key: Option<PublicKey>) {
        if self.allowed.is_called_only(host) {
            return;
        }
        self.allowed.listed.insert(host.to_owned(), AllowedHost { key, is_called_only: false });
        let link = self.links.to_host(host);
        let proven = link.and_then(|link| Some((link, self.links.get(link)?.key())));
        if let Some((link, proven)) = proven
            && !self.allowed.suits(host, proven)
        {
            self.end(link, |peer| LinkError::Replaced { peer });
        }
        link.into_iter().for_each(|link| self.keep(link));
        for (stranger, hello) in self.waiting_strangers() {
            if hello.host == host {
                self.judge_stranger(stranger, hello);
            }
        }
    }

    /// A host may be called, which must prove this key if one is known.
    pub(super) fn allow_calling(&mut self, host: &str, key: Option<PublicKey>) {
        self.allowed.listed.insert(host.to_owned(), AllowedHost { key, is_called_only: true });
    }

    /// A host may have no link any more, if it is listed with this key. One that there is ends
    /// soon: what is under way arrives.
    pub(super) fn disallow(&mut self, host: &str, key: Option<PublicKey>) {
        if !self.allowed.is_listed(host, key) || self.allowed.is_called_only(host) {
            return;
        }
        self.allowed.listed.remove(host);
        let links = self.links.iter_mut().filter(|(_, line)| line.peer == host);
        let links: Vec<SlotKey> =
            links.filter(|(_, line)| line.key() == key).map(|(link, _)| link).collect();
        links.into_iter().for_each(|link| self.part_soon(link));
    }

    /// Time for which an unlisted peer keeps a link.
    pub(super) fn keep_unlisted_for(&mut self, within: Duration) {
        self.allowed.unlisted = Some(within);
    }

    /// A link was made with a caller.
    pub(super) fn mark_unlisted(&mut self, link: SlotKey) {
        let (Some(within), Some(line)) = (self.allowed.unlisted, self.links.get(link)) else {
            return;
        };
        let (host, key) = (line.peer.clone(), line.key());
        if !self.allowed.is_listed(&host, key) {
            self.opening.unlisted.push((self.fixed.nic.now() + within, link));
        }
    }

    /// A link stays for good.
    pub(super) fn keep(&mut self, link: SlotKey) {
        self.opening.unlisted.retain(|(_, kept)| *kept != link);
    }

    /// A link ends soon, unless its peer ends it first.
    pub(super) fn part_soon(&mut self, link: SlotKey) {
        self.keep(link);
        if self.links.get(link).is_some_and(|line| line.ended.is_none()) {
            self.opening.unlisted.push((self.fixed.nic.now() + PART_WITHIN, link));
        }
    }

    /// Ends the links of those who are not listed and have stayed for as long as they may.
    pub(super) fn part_from_unlisted(&mut self, now: Instant) {
        let due = self.opening.unlisted.extract_if(.., |link| link.0 <= now);
        let due: Vec<_> = due.map(|link| link.1).collect();
        due.into_iter().for_each(|link| self.part_from(link));
    }

    fn part_from(&mut self, link: SlotKey) {
        if !planted(Fault::UnlistedStay) {
            let why = "it is no member of the pool, or not any more".to_owned();
            self.end(link, |peer| LinkError::CutOff { peer, why });
        }
    }

    fn waiting_strangers(&mut self) -> Vec<(SlotKey, LinkHello)> {
        let strangers = self.opening.strangers.iter_mut();
        strangers.filter_map(|(key, stranger)| Some((key, stranger.hello.clone()?))).collect()
    }

    /// Whether the link that there is to a caller's host gives way to the caller: it is the same
    /// process, whose call is a later one, or the host is listed as the caller's.
    pub(super) fn gives_way(&mut self, hello: &LinkHello, key: Option<PublicKey>) -> bool {
        let Some(link) = self.links.to_host(&hello.host) else { return true };
        let gives_way = self.allowed.has_host(&hello.host, key);
        let Some(line) = self.links.get(link) else { return true };
        if line.key() != key {
            if !gives_way {
                self.tell_turned_away(&hello.host, "its host has a link, with another key");
            }
            return gives_way;
        }
        is_later_call(line, hello)
    }
}

/// Whether a process that has a link calls later than it did for that link. Another life without a key
/// counts its calls anew.
fn is_later_call(line: &LinkSide, hello: &LinkHello) -> bool {
    let is_same = line.incarnation == Some(hello.incarnation);
    !(is_same && !line.called && hello.link <= line.number) || planted(Fault::AnyNumber)
}

/// How long a link stays with who may have none any more: a node that leaves closes its own links
/// within a second.
const PART_WITHIN: Duration = Duration::from_secs(5);

/// Why a host is not called.
pub(super) fn not_allowed(host: &str) -> LinkError {
    LinkError::NotMember { peer: host.to_owned() }
}
