//! The hellos of both sides of a link: which callers get a link, and which call counts when both call.

use egret_net::vi::{Lane, PublicKey};

use super::allow_list::LinkAdmission;
use super::link_side::LinkSide;
use super::opening::{CROSSED_AGAIN, LinkAttempt, Stranger};
use super::state::LinksState;
use crate::frame::{ArrivedFrame, FrameHead, FrameKind};
use crate::link::LinkError;
use crate::link::control::{LinkControl, LinkHello, VERSION};
use crate::slots::SlotKey;

impl LinksState {
    /// The callee has answered with its hello.
    pub(crate) fn handshake_done(
        &mut self,
        link: SlotKey,
        hello: &LinkHello,
    ) -> Result<(), &'static str> {
        let line = self.links.get(link).ok_or("no link")?;
        if line.incarnation.is_some() {
            return Err("a second hello on one link");
        }
        if !line.called {
            return Err("a second hello on one link");
        }
        if hello.version != VERSION {
            self.other_version(link, hello.version);
            return Ok(());
        }
        let (host, key) = (line.peer.clone(), line.key());
        if !self.allowed.suits(&host, key) {
            return Err("another key than its host is listed with");
        }
        if !self.allowed.is_open_to(&host) {
            return Err("it has left, and answers late");
        }
        line.incarnation = Some(hello.incarnation);
        self.links.use_for_host(host, link);
        self.open_more();
        Ok(())
    }

    /// The peer has called at the same time, and its call counts.
    pub(crate) fn crossed(&mut self, link: SlotKey) {
        let Some(line) = self.links.get(link) else { return };
        let host = line.peer.clone();
        if let Some(call) = self.opening.calls.get_mut(&host) {
            call.link = None;
            call.again = Some(self.fixed.nic.now() + CROSSED_AGAIN);
        }
        self.end(link, |peer| LinkError::Replaced { peer });
    }

    /// The first frame of a stranger must be a hello.
    #[cold]
    pub(crate) fn stranger_said(
        &mut self,
        stranger: SlotKey,
        frame: Result<ArrivedFrame, &'static str>,
    ) {
        let Some(known) = self.opening.strangers.get(stranger) else { return };
        let hello = match frame {
            Ok(frame) if frame.head == FrameHead::of(FrameKind::Control, 0) => {
                LinkControl::from_bytes(frame.bytes())
            }
            _ => None,
        };
        let Some(LinkControl::Hello(hello)) = hello else { return self.send_away(stranger) };
        if hello.host != known.vi.peer() {
            let host: String = hello.host.chars().take(HOST_SHOWN).collect();
            return self.send_away_for(stranger, &format!("its hello is one of {host:?}"));
        }
        if hello.version != VERSION {
            return self.refuse_version(stranger, &hello);
        }
        self.judge_stranger(stranger, hello);
    }

    /// A stranger that has said hello gets a link if it may have one, or waits until it may.
    pub(super) fn judge_stranger(&mut self, stranger: SlotKey, hello: LinkHello) {
        let Some(known) = self.opening.strangers.get(stranger) else { return };
        match self.allowed.judge(&hello.host, known.vi.peer_key()) {
            LinkAdmission::Yes => self.let_in(stranger, &hello),
            LinkAdmission::NotYet => known.hello = Some(hello),
            LinkAdmission::No => self.send_away_for(stranger, "its key is another than its host's"),
        }
    }

    /// Tells a stranger of another version which version is spoken here, by a hello.
    fn refuse_version(&mut self, stranger: SlotKey, hello: &LinkHello) {
        let Some(known) = self.opening.strangers.remove(stranger) else { return };
        let LinkHello { version, link, .. } = *hello;
        self.counters.turned_away += 1;
        let why = format!("it speaks version {version} of the links, and this side {VERSION}");
        self.tell_turned_away(known.vi.peer(), &why);
        let answer = self.hello(link);
        self.tell_away(known, &answer);
    }

    pub(crate) fn send_away(&mut self, stranger: SlotKey) {
        let Some(known) = self.opening.strangers.get(stranger) else { return };
        let why = match known.hello {
            None => "it did not say hello",
            Some(_) => "it is no member of the pool",
        };
        self.send_away_for(stranger, why);
    }

    fn send_away_for(&mut self, stranger: SlotKey, why: &str) {
        if let Some(known) = self.opening.strangers.remove(stranger) {
            self.connections.remove(known.vi.id());
            self.counters.turned_away += 1;
            self.tell_turned_away(known.vi.peer(), why);
        }
    }

    /// Logs that a peer gets no link.
    pub(super) fn tell_turned_away(&mut self, peer: &str, why: &str) {
        if let Some(others) = self.opening.turned_away.permit(self.fixed.nic.now()) {
            tracing::warn!(peer, others, "turned away: {why}");
        }
    }

    /// Makes a link of the connection of a stranger that has said hello.
    fn let_in(&mut self, stranger: SlotKey, hello: &LinkHello) {
        let Some(known) = self.opening.strangers.remove(stranger) else { return };
        if let Some(why) = self.turn_down(hello, known.vi.peer_key()) {
            return self.tell_away(known, &why);
        }
        let link = self.add_line(&hello.host, known.vi, known.lands, false);
        self.mark_unlisted(link);
        self.welcome(link, hello);
    }

    /// The answer to a caller that gets no link. If the caller gets one, former links to its host are
    /// ended.
    pub(super) fn turn_down(
        &mut self,
        hello: &LinkHello,
        key: Option<PublicKey>,
    ) -> Option<LinkControl> {
        // Who has another key than the host's link may ask again when that has ended.
        if self.call_counts(hello) || !self.gives_way(hello, key) {
            return Some(LinkControl::Crossed);
        }
        if let Err(links) = self.admit(&hello.host) {
            return Some(LinkControl::Full { links });
        }
        self.replace(&hello.host);
        None
    }

    /// Answers the hello of a peer that has called: its link is the one to use.
    pub(super) fn welcome(&mut self, link: SlotKey, hello: &LinkHello) {
        let answer = self.hello(hello.link);
        let Some(line) = self.links.get(link) else { return };
        (line.incarnation, line.number) = (Some(hello.incarnation), hello.link);
        line.control(&answer);
        self.links.use_for_host(hello.host.clone(), link);
        self.pump(link);
        self.open_more();
    }

    /// Sends a stranger the reason why it gets no link, and closes its connection soon.
    fn tell_away(&mut self, stranger: Stranger, why: &LinkControl) {
        let (vi, head) = (stranger.vi, FrameHead::of(FrameKind::Control, 0).to_bits());
        // One that takes nothing sees the connection end.
        let _ = vi.send_eager(Lane::Talk, head, &[&why.to_bytes()]);
        self.connections.remove(vi.id());
        if self.opening.told.len() >= TOLD_MAX {
            self.opening.told.remove(0);
        }
        let until = self.fixed.nic.now() + CROSSED_AGAIN;
        self.opening.told.push((until, vi));
    }

    /// Makes room for a link of a host, by ending the oldest unused link if necessary.
    ///
    /// # Errors
    ///
    /// If all links are used: how many there may be.
    fn admit(&mut self, host: &str) -> Result<(), u32> {
        let most = self.fixed.options.peers_max;
        if self.links.to_host(host).is_some() || self.links.hosts() < most as usize {
            return Ok(());
        }
        let mut used = self.channels.links();
        used.extend(self.paths.links());
        let unlisted = &self.opening.unlisted;
        let unused = self.links.iter_mut().filter(|(link, line)| {
            let is_unlisted = || unlisted.iter().any(|(_, kept)| kept == link);
            line.ended.is_none()
                && line.incarnation.is_some()
                && (line.is_unused() && !used.contains(link) || is_unlisted())
        });
        let oldest = unused.min_by_key(|(_, line)| line.made).map(|(link, _)| link);
        let Some(oldest) = oldest else {
            self.counters.turned_away += 1;
            self.tell_turned_away(host, &format!("there are {most} links, as many as may be"));
            return Err(most);
        };
        let why = format!("its link is of no use, and others want one: there are at most {most}");
        self.end(oldest, |peer| LinkError::CutOff { peer, why });
        Ok(())
    }

    /// The peer that was called has no room for a link.
    pub(crate) fn full(&mut self, link: SlotKey, links: u32) {
        let Some(peer) = self.links.get(link).map(|line| line.peer.clone()) else { return };
        self.opening.call_refused(&peer, LinkError::Full { peer: peer.clone(), links });
        self.end(link, |_| LinkError::Closed);
    }

    /// The peer that was called speaks another version.
    fn other_version(&mut self, link: SlotKey, theirs: u16) {
        let Some(peer) = self.links.get(link).map(|line| line.peer.clone()) else { return };
        let why = LinkError::OtherVersion { peer: peer.clone(), theirs, ours: VERSION };
        self.opening.call_refused(&peer, why);
        self.end(link, |_| LinkError::Closed);
    }

    /// Whether this side has called the host itself and its call counts.
    fn call_counts(&mut self, hello: &LinkHello) -> bool {
        let host = &*hello.host;
        if self.fixed.nic.host() >= host {
            return false;
        }
        // One that has failed is kept for who asked, who may not come back.
        let counts = |call: &LinkAttempt| call.again.is_none() && !call.has_failed();
        let calls = self.opening.calls.get(host).is_some_and(counts);
        let link = self.links.to_host(host);
        // A link with a former life of the peer does not.
        let counts = |line: &mut LinkSide| {
            line.called && line.incarnation.is_none_or(|known| known == hello.incarnation)
        };
        calls || link.and_then(|link| self.links.get(link)).is_some_and(counts)
    }

    /// Ends the link to a host that has called again.
    fn replace(&mut self, host: &str) {
        if let Some(link) = self.links.to_host(host) {
            self.end(link, |peer| LinkError::Replaced { peer });
        }
        if let Some(call) = self.opening.calls.get_mut(host) {
            let link = call.link.take();
            link.into_iter().for_each(|link| self.end(link, |peer| LinkError::Replaced { peer }));
        }
    }
}

/// Strangers that are being told why they get no link, at most.
const TOLD_MAX: usize = 64;
/// Characters of a host that a line of the log shows, at most.
const HOST_SHOWN: usize = 64;
