//! How two sides of a link greet: what strangers say, and who gives way when both called.

use egret_net::vi::{Lane, PublicKey};

use super::allowed::Verdict;
use super::opening::{CROSSED_AGAIN, Calling, Stranger};
use super::slots::Key;
use super::state::{Line, State};
use crate::link::arrived::Arrived;
use crate::link::control::{Control, Hello, VERSION};
use crate::link::{Head, Kind, LinkError, LinkUpError};

impl State {
    /// The peer that was called has greeted.
    pub(crate) fn greeted(&mut self, link: Key, hello: &Hello) -> Result<(), &'static str> {
        if hello.version != VERSION {
            return Err("another version of the protocol");
        }
        let line = self.links.get(link).ok_or("no link")?;
        if line.incarnation.is_some() {
            return Err("it greeted twice");
        }
        if !line.called {
            return Err("it greeted twice");
        }
        let (host, key) = (line.peer.clone(), line.key());
        if !self.allowed.suits(&host, key) {
            return Err("another key than its host is listed with");
        }
        if !self.allowed.is_open_to(&host) {
            return Err("it has left, and answers late");
        }
        line.incarnation = Some(hello.incarnation);
        self.hosts.insert(host, link);
        self.open_more();
        Ok(())
    }

    /// The peer has called, too, and its call counts.
    pub(crate) fn crossed(&mut self, link: Key) {
        let Some(line) = self.links.get(link) else { return };
        let host = line.peer.clone();
        if let Some(call) = self.opening.calls.get_mut(&host) {
            call.link = None;
            call.again = Some(self.fixed.nic.now() + CROSSED_AGAIN);
        }
        self.end(link, |peer| LinkError::Replaced { peer });
    }

    /// What a stranger says first must be a hello.
    #[cold]
    pub(crate) fn stranger_said(&mut self, stranger: Key, frame: Result<Arrived, &'static str>) {
        let Some(known) = self.opening.strangers.get(stranger) else { return };
        let hello = match frame {
            Ok(frame) if frame.head == Head::of(Kind::Control, 0) => {
                Control::from_bytes(frame.bytes())
            }
            _ => None,
        };
        let Some(Control::Hello(hello)) = hello else { return self.send_away(stranger) };
        if hello.version != VERSION || hello.host != known.vi.peer() {
            let Hello { version, host, .. } = hello;
            let why =
                format!("its hello is one of version {version}, not {VERSION}, or of {host:.64?}");
            return self.send_away_for(stranger, &why);
        }
        self.judge_stranger(stranger, hello);
    }

    /// A stranger that has said hello gets a link if it may have one, or waits until it may.
    pub(super) fn judge_stranger(&mut self, stranger: Key, hello: Hello) {
        let Some(known) = self.opening.strangers.get(stranger) else { return };
        match self.allowed.judge(&hello.host, known.vi.peer_key()) {
            Verdict::Yes => self.let_in(stranger, &hello),
            Verdict::NotYet => known.hello = Some(hello),
            Verdict::No => self.send_away_for(stranger, "its key is another than its host's"),
        }
    }

    pub(crate) fn send_away(&mut self, stranger: Key) {
        let Some(known) = self.opening.strangers.get(stranger) else { return };
        let why = match known.hello {
            None => "it did not say hello",
            Some(_) => "it is no member of the pool",
        };
        self.send_away_for(stranger, why);
    }

    fn send_away_for(&mut self, stranger: Key, why: &str) {
        if let Some(known) = self.opening.strangers.remove(stranger) {
            self.set_place(known.vi.id(), None);
            self.counters.turned_away += 1;
            self.tell_turned_away(known.vi.peer(), why);
        }
    }

    /// Tells the log who gets no link.
    pub(super) fn tell_turned_away(&mut self, peer: &str, why: &str) {
        if let Some(others) = self.opening.turned_away.say(self.fixed.nic.now()) {
            tracing::warn!(peer, others, "turned away: {why}");
        }
    }

    /// Makes a link of the connection of a stranger that has said hello.
    fn let_in(&mut self, stranger: Key, hello: &Hello) {
        let Some(known) = self.opening.strangers.remove(stranger) else { return };
        if let Some(why) = self.turn_down(hello, known.vi.peer_key()) {
            return self.tell_away(known, &why);
        }
        let link = self.add_line(&hello.host, known.vi, known.lands, false);
        self.mark_unlisted(link);
        self.welcome(link, hello);
    }

    /// What a peer that has called is told if it gets no link. If it does, there is no other to it
    /// any more.
    pub(super) fn turn_down(&mut self, hello: &Hello, key: Option<PublicKey>) -> Option<Control> {
        // Who has another key than the host's link may ask again when that has ended.
        if self.call_counts(hello) || !self.gives_way(hello, key) {
            return Some(Control::Crossed);
        }
        if let Err(links) = self.admit(&hello.host) {
            return Some(Control::Full { links });
        }
        self.replace(&hello.host);
        None
    }

    /// Greets a peer that has called: its link is the one to use.
    pub(super) fn welcome(&mut self, link: Key, hello: &Hello) {
        let answer = self.hello(hello.link);
        let Some(line) = self.links.get(link) else { return };
        (line.incarnation, line.number) = (Some(hello.incarnation), hello.link);
        line.control(&answer);
        self.hosts.insert(hello.host.clone(), link);
        self.pump(link);
        self.open_more();
    }

    /// Tells a stranger why there is no link, and forgets it soon.
    fn tell_away(&mut self, stranger: Stranger, why: &Control) {
        let (vi, head) = (stranger.vi, Head::of(Kind::Control, 0).to_bits());
        // One that takes nothing sees the connection end.
        let _ = vi.send_eager(Lane::Talk, head, &[&why.to_bytes()]);
        self.set_place(vi.id(), None);
        if self.opening.told.len() >= TOLD_MAX {
            self.opening.told.remove(0);
        }
        let until = self.fixed.nic.now() + CROSSED_AGAIN;
        self.opening.told.push((until, vi));
    }

    /// Makes sure that a host may have a link, at the cost of the oldest one that is of no use.
    ///
    /// # Errors
    ///
    /// If it may not: how many links there are.
    fn admit(&mut self, host: &str) -> Result<(), u32> {
        let most = self.fixed.options.peers_max;
        if self.hosts.contains_key(host) || self.hosts.len() < most as usize {
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
    pub(crate) fn full(&mut self, link: Key, links: u32) {
        let Some(peer) = self.links.get(link).map(|line| line.peer.clone()) else { return };
        self.opening.call_refused(&peer, LinkUpError::Full { peer: peer.clone(), links });
        self.end(link, |_| LinkError::Closed);
    }

    /// Whether this side has called the host itself and its call counts.
    fn call_counts(&mut self, hello: &Hello) -> bool {
        let host = &*hello.host;
        if self.fixed.nic.host() >= host {
            return false;
        }
        // One that has failed is kept for who asked, who may not come back.
        let counts = |call: &Calling| call.again.is_none() && !call.has_failed();
        let calls = self.opening.calls.get(host).is_some_and(counts);
        let link = self.hosts.get(host).copied();
        // A link with a former life of the peer does not.
        let counts = |line: &mut Line| {
            line.called && line.incarnation.is_none_or(|known| known == hello.incarnation)
        };
        calls || link.and_then(|link| self.links.get(link)).is_some_and(counts)
    }

    /// Ends the link to a host that has called again.
    fn replace(&mut self, host: &str) {
        if let Some(link) = self.hosts.get(host).copied() {
            self.end(link, |peer| LinkError::Replaced { peer });
        }
        if let Some(call) = self.opening.calls.get_mut(host) {
            let link = call.link.take();
            link.into_iter().for_each(|link| self.end(link, |peer| LinkError::Replaced { peer }));
        }
    }
}

/// Links of strangers that are being told why they are none, at most.
const TOLD_MAX: usize = 64;
