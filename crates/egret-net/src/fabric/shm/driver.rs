//! What a nic does beside moving messages: it lets callers in, knocks at other
//! doors, and hears who has left.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::bell::Sleeper;
use super::datapath::Conn;
use super::eager::Draining;
use super::knocking::{Knocking, Outcome};
use super::lanes::Behind;
use super::link::{Link, Polled};
use super::memory::Own;
use super::records::Scratch;
use super::rendezvous::{Door, Stance, Visitor};
use super::rounds::Rounds;
use super::token::{CONTROL, ENDED};
use crate::fabric::hub::set::{self, SPACE, ready};
use crate::fabric::hub::{self, Listeners, Pace, Refusal};
use crate::fabric::{After, ConnId, Drained, Made, ViSpec};
use crate::rt::Instant;
use crate::vi::{Agreed, ConnectError, DrainId, Hello, Keys, Lane, Sink};

/// A nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub fixed: Fixed,
    /// `None` when the nic is down.
    pub door: Option<Door>,
    pub links: Rounds,
    pub knocks: BTreeMap<u64, Knocking>,
    pub listeners: Listeners<Visitor>,
    next_id: u64,
    /// When to look at the sockets.
    pub pace: Pace,
    scratch: Scratch,
    pub bell: Sleeper,
    /// When to look again though no bell was rung.
    pub nap_until: Option<Instant>,
}

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct Fixed {
    pub host: String,
    pub keys: Arc<Keys>,
    /// The set of all that is looked at now and then.
    pub sockets: OwnedFd,
    /// The set of all that ends a sleep, which is asked by who sleeps alone: the
    /// cords, and the other set.
    pub bells: Arc<OwnedFd>,
    pub bell_page: Own,
    pub stance: Stance,
}

/// Visitors dealt with at one tick, so that those who knock for ever do not stop
/// the others; the door stays readable.
const VISITORS_AT_ONCE: usize = 16;
/// How long a visitor may take to greet.
const GREETING_MAX: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(fixed: Fixed, door: Door, bell: Sleeper) -> Self {
        Self {
            fixed,
            door: Some(door),
            links: Rounds::default(),
            knocks: BTreeMap::new(),
            listeners: Listeners::default(),
            next_id: 1,
            pace: Pace::default(),
            scratch: Scratch::new(),
            bell,
            nap_until: None,
        }
    }

    #[inline(never)]
    pub(super) fn poll_now(&mut self, after: &mut After) {
        self.poll_quickly(after);
        if self.pace.is_due() {
            self.look_if_time(after);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn look_if_time(&mut self, after: &mut After) {
        if self.pace.ask_clock(after.now()) {
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
        Drained { count: budget - draining.left, answers: draining.answers }
    }

    /// Sends an eager message by another connection than the last one.
    #[inline(never)]
    pub(super) fn try_send_by(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<Behind> {
        self.link(conn).try_send(lane, tag, parts)
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
            // A tick follows, and looks at the door and the knocks.
            _ => {}
        }
    }

    /// The peer of this link rang, which ended the sleep with this number.
    pub(super) fn rung(&mut self, id: u64, sleep: u64) {
        if let Some(link) = self.links.get(id) {
            link.rung(sleep);
        }
    }

    /// The connection of a handle, which has it until it is released.
    #[inline]
    pub(super) fn link(&mut self, conn: ConnId) -> &mut Link {
        self.links.get(conn.0).expect("a handle keeps it")
    }

    /// Lets callers in, knocks where it is time to, forgets what is over.
    pub(super) fn tick(&mut self, now: Instant, after: &mut After) {
        self.pace.looked(now);
        self.links.sort_out();
        for _ in 0..VISITORS_AT_ONCE {
            let Some(door) = &mut self.door else { break };
            match door.poll_visitor(now, now + GREETING_MAX) {
                Ok(Some(visitor)) => {
                    self.listeners.arrived(visitor, after);
                }
                Ok(None) => break,
                // It is the visitor's affair, and it was told.
                Err(_) => {}
            }
        }
        let ids: Vec<u64> = self.knocks.keys().copied().collect();
        for id in ids {
            let Some(knocking) = self.knocks.get_mut(&id) else { continue };
            let outcome = match knocking.poll(now) {
                Outcome::Knocking => knocking.tick(&self.fixed, id, now),
                outcome => outcome,
            };
            self.knocked(id, outcome, after);
        }
    }

    fn knocked(&mut self, id: u64, outcome: Outcome, after: &mut After) {
        let result = match outcome {
            Outcome::Knocking => return,
            Outcome::Failed(why) => Err(why),
            Outcome::Made(conn, agreed) => Ok((conn, agreed)),
        };
        let Some(Knocking { patience, .. }) = self.knocks.remove(&id) else { return };
        let request = patience.request;
        let result = result.and_then(|(conn, agreed)| {
            let who = (request.to.host.as_str(), request.spec, agreed);
            self.add(who, *conn).ok_or(ConnectError::NicDown)
        });
        after.settle(request.promise, result);
    }

    /// A link that the set cannot watch would not notice its peer's death.
    pub(super) fn add(
        &mut self,
        (peer, spec, agreed): (&str, ViSpec, Agreed),
        conn: Conn,
    ) -> Option<Made> {
        let mut link = Link::new(self.unused(), spec, conn);
        link.watch(&self.fixed).ok()?;
        let mut made = Made::new(ConnId(link.id), peer);
        (made.trust, made.why_isolated) = (agreed.trust(), agreed.why_isolated());
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
        &self.greeting.hello
    }

    fn is_gone(&self) -> bool {
        Self::is_gone(self)
    }

    fn turn_away(self, why: &Refusal) {
        self.refuse(why);
    }
}
