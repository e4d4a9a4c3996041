//! What a nic does beside moving messages: it lets callers in, knocks at other
//! acceptors, and hears who has left.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::bell::Habit;
use super::connector::{Connector, Ground, Met, terms};
use super::datapath::Conn;
use super::eager::Draining;
use super::link::{Link, Polled};
use super::machine::NAP;
use super::records::Scratch;
use super::rendezvous::{Acceptor, Stance, Visitor};
use super::rounds::Rounds;
use super::token::{CONTROL, CORD, ENDED};
use crate::fabric::hub::set::{self, SPACE, ready};
use crate::fabric::hub::{self, Listeners, Outcome, Pace, Refusal, connectors};
use crate::fabric::{After, ConnId, ConnectRequest, Drained, Made, ViSpec};
use crate::rt::Instant;
use crate::vi::{Agreed, ConnectError, DrainId, Hello, Keys, PublicKey, Sink, ViError};

/// A nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub fixed: Fixed,
    /// `None` when the nic is down.
    pub acceptor: Option<Acceptor>,
    pub links: Rounds,
    pub connectors: BTreeMap<u64, Connector>,
    pub listeners: Listeners<Visitor>,
    next_id: u64,
    /// When to look at the sockets.
    pub pace: Pace,
    scratch: Scratch,
    /// Polls, connections that they looked at, and messages that were drained, since the nic
    /// [heard](Self::hear) who rings.
    unheard: usize,
    /// When to look again though no bell was rung, and how long the next such sleep is to be.
    pub nap_until: Option<Instant>,
    pub nap: Duration,
}

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct Fixed {
    pub host: String,
    pub keys: Arc<Keys>,
    /// The set of all that is looked at now and then.
    pub sockets: OwnedFd,
    /// The set of all that ends a sleep: the cords, and the other set. It is asked by who sleeps, and
    /// by who hears in its place and wakes it then.
    pub set: Arc<OwnedFd>,
    pub habit: Habit,
    pub stance: Stance,
}

/// Visitors dealt with at one tick, so that those who knock for ever do not stop
/// the others; the acceptor stays readable.
const VISITORS_AT_ONCE: usize = 16;
/// Polls, looks and drained messages after which the nic hears who rings, which is a system call.
const HEAR_EVERY: usize = 64;
/// How long a visitor may take to greet.
const GREETING_MAX: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(fixed: Fixed, acceptor: Acceptor) -> Self {
        Self {
            acceptor: Some(acceptor),
            links: Rounds::new(fixed.habit),
            connectors: BTreeMap::new(),
            listeners: Listeners::default(),
            next_id: 1,
            pace: Pace::default(),
            scratch: Scratch::new(),
            unheard: 0,
            nap_until: None,
            nap: NAP,
            fixed,
        }
    }

    #[inline(never)]
    pub(super) fn poll_now(&mut self, after: &mut After) {
        if self.links.has_resting() {
            self.unheard += 1 + self.links.looks_at();
            if self.unheard >= HEAR_EVERY {
                self.hear(after);
            }
        }
        self.poll_quickly(after);
        if self.pace.is_due() {
            self.look_if_time(after);
        }
    }

    /// Hears who rings for an end that rests: from now on its link is looked at. What else the set
    /// has to say it says again. A thread that sleeps on the set is woken, for the set will not say
    /// to it what was heard here.
    #[cold]
    #[inline(never)]
    fn hear(&mut self, after: &mut After) {
        self.unheard = 0;
        for event in ready(&self.fixed.set, &mut { SPACE }, Some(Duration::ZERO)) {
            if self.rung(event.data.u64()).is_some() {
                after.happened |= self.links.is_armed();
            }
        }
        self.links.look_at_resting();
    }

    /// Deals with what the set of the bells said. Who rang, if it was a bell.
    pub(super) fn rung(&mut self, token: u64) -> Option<u64> {
        let (CORD, id) = set::read(token) else { return None };
        if let Some(link) = self.links.get(id) {
            link.rung();
            if link.has_eager() || link.has_ended() {
                self.links.is_ready(id);
            }
        }
        Some(id)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn look_if_time(&mut self, after: &mut After) {
        if self.pace.ask_clock(after.now()) {
            self.links.time_passes();
            self.look(after);
        }
    }

    /// Passes eager messages to `sink`, at most `budget`.
    #[inline(never)]
    pub(super) fn drain_now(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        let Self { links, scratch, .. } = self;
        let mut draining = Draining { scratch, sink, left: budget, answers: false, after };
        links.drain(drain, &mut draining);
        let drained = Drained { count: budget - draining.left, answers: draining.answers };
        self.unheard += drained.count;
        // Who drains without end polls seldom.
        if self.unheard >= HEAR_EVERY && self.links.has_resting() {
            self.hear(after);
        }
        drained
    }

    /// Moves messages.
    #[inline]
    pub(super) fn poll_quickly(&mut self, after: &mut After) {
        self.links.poll_some(|link| {
            let polled = link.poll(&self.fixed.keys, &mut after.notices, false);
            after.happened |= polled.is_news();
            polled
        });
    }

    /// Moves messages of one connection.
    pub(super) fn poll_one(&mut self, id: u64, after: &mut After) {
        self.links.poll_one(id, |link| {
            let polled = link.poll(&self.fixed.keys, &mut after.notices, false);
            after.happened |= polled.is_news();
            polled
        });
    }

    /// Looks at the sockets without waiting.
    #[cold]
    pub(super) fn look(&mut self, after: &mut After) {
        if self.links.has_resting() {
            self.hear(after);
        }
        for event in ready(&self.fixed.sockets, &mut { SPACE }, Some(Duration::ZERO)) {
            self.ready(event.data.u64(), after);
        }
        self.tick(after.now(), after);
    }

    /// Deals with what the set of the sockets said.
    fn ready(&mut self, token: u64, after: &mut After) {
        match set::read(token) {
            (CONTROL, id) => {
                if let Some(link) = self.links.get(id) {
                    let heard = link.hear(&self.fixed.keys, &mut after.notices);
                    after.happened |= heard == Polled::Gone;
                    self.links.is_ready(id);
                }
            }
            (ENDED, id) => {
                if let Some(link) = self.links.get(id) {
                    link.ended(&self.fixed.keys, &mut after.notices);
                    after.happened = true;
                    self.links.is_ready(id);
                }
            }
            // A tick follows, and looks at the acceptor and the knocks.
            _ => {}
        }
    }

    /// Makes a connection with a visitor, if what it brings can be used.
    pub(super) fn admit(&mut self, visitor: Visitor, spec: ViSpec) -> Option<Made> {
        let ground = Ground::new(self.fixed.habit)?;
        let (peer, agreed, key) = (visitor.greeting.host.clone(), visitor.agreed, visitor.key);
        let theirs = visitor.greeting.terms;
        let (control, handles) = visitor.accept(&terms(spec.depth), ground.handles()).ok()?;
        // One whose part is unfit sees the connection end.
        let met = Met::new(&theirs, handles).ok()?;
        let conn = ground.join(spec, agreed.trust(), control, met)?;
        self.add((&peer, spec, agreed, key), conn)
    }

    /// Begins to connect.
    pub(super) fn begin(&mut self, request: ConnectRequest, after: &mut After) {
        let (id, now) = (self.unused(), after.now());
        self.connectors.insert(id, Connector::new(request, now));
        self.knock(id, now, after);
    }

    /// Ends a connection, if it is open.
    pub(super) fn end(&mut self, id: u64, why: &ViError, after: &mut After) {
        self.links.of_handle(id).close(why, &mut after.notices);
    }

    /// Nobody has a handle to one that is over any more.
    pub(super) fn forget(&mut self, id: u64) {
        self.links.remove(id);
    }

    /// Lets callers in, knocks where it is time to, forgets what is over.
    pub(super) fn tick(&mut self, now: Instant, after: &mut After) {
        self.pace.looked(now);
        self.links.sort_out();
        self.acceptor.iter_mut().for_each(Acceptor::turn);
        for _ in 0..VISITORS_AT_ONCE {
            let Some(acceptor) = &mut self.acceptor else { break };
            match acceptor.poll_visitor(now, now + GREETING_MAX) {
                Ok(Some(visitor)) => {
                    self.listeners.arrived(visitor, after);
                }
                Ok(None) => break,
                // It is the visitor's affair, and it was told.
                Err(_) => {}
            }
        }
        for id in self.connectors.keys().copied().collect::<Vec<_>>() {
            self.knock(id, now, after);
        }
    }

    /// Looks at a connection that is being made.
    fn knock(&mut self, id: u64, now: Instant, after: &mut After) {
        let Some(connector) = self.connectors.get_mut(&id) else { return };
        let outcome = match connector.poll(now) {
            Outcome::Pending => connector.tick(&self.fixed, id, now),
            outcome => outcome,
        };
        let Some((connector, result)) = connectors::over(&mut self.connectors, &id, outcome) else {
            return;
        };
        let ConnectRequest { to, spec, .. } = &connector.patience.request;
        let result = result.and_then(|(conn, agreed, key)| {
            self.add((&to.host, *spec, agreed, key), *conn).ok_or(ConnectError::NicDown)
        });
        connectors::settle(connector, result, after);
    }

    /// A link that the set cannot watch would not notice its peer's death.
    pub(super) fn add(
        &mut self,
        (peer, spec, agreed, key): (&str, ViSpec, Agreed, PublicKey),
        conn: Conn,
    ) -> Option<Made> {
        let unique = self.unused();
        let mut link = Link::new(self.links.number(unique)?, spec, conn);
        link.watch(&self.fixed).ok()?;
        let mut made = Made::new(ConnId(link.id), peer);
        (made.trust, made.why_isolated) = (agreed.trust(), agreed.why_isolated());
        made.key = Some(key);
        self.links.add(link);
        Some(made)
    }

    pub(super) fn unused(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}

impl hub::Visitor for Visitor {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn is_gone(&self) -> bool {
        Self::is_gone(self)
    }

    fn turn_away(self, why: &Refusal) {
        self.refuse(why);
    }
}
