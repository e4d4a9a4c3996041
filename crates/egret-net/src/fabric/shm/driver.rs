//! What a nic does beside moving messages: it lets callers in, knocks at other
//! doors, and hears who has left.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::bell::Sleeper;
use super::datapath::Conn;
use super::eager::Draining;
use super::knocking::{Ground, Knocking, Met, Outcome, terms};
use super::lanes::Behind;
use super::link::{Link, Polled};
use super::memory::Own;
use super::records::Scratch;
use super::rendezvous::{Door, Stance, Visitor};
use super::rounds::Rounds;
use super::token::{CONTROL, CORD, ENDED};
use crate::fabric::hub::set::{self, SPACE, ready};
use crate::fabric::hub::{self, Listeners, Pace, Refusal};
use crate::fabric::{
    After, ConnId, ConnectRequest, Drained, ListenerName, Made, Unposted, ViSpec, Woken,
};
use crate::rt::Instant;
use crate::vi::{
    Agreed, ConnectError, DrainId, Hello, Keys, Lane, ListenError, Posted, Sink, ViError,
};

/// The changing part of a nic.
#[derive(Debug)]
pub(super) struct Driver {
    /// `None` when the nic is down.
    door: Option<Door>,
    pub links: Rounds,
    knocks: BTreeMap<u64, Knocking>,
    pub listeners: Listeners<Visitor>,
    next_id: u64,
    /// When to look at the sockets.
    pace: Pace,
    scratch: Scratch,
    bell: Sleeper,
    /// When to look again though no bell was rung.
    nap_until: Option<Instant>,
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
/// How long to sleep when a peer might not ring.
const NAP: Duration = Duration::from_millis(1);

impl Driver {
    pub(super) fn new(door: Door, bell: Sleeper) -> Self {
        Self {
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

    /// Moves messages; now and then looks at the sockets. With one connection
    /// and nothing to do it costs about 25 ns, and one load of a line that is
    /// in the cache until the peer writes it.
    #[inline]
    pub(super) fn poll(&mut self, fixed: &Fixed, after: &mut After) {
        if self.links.may_have_work() {
            return self.poll_now(fixed, after);
        }
        if self.pace.is_due() {
            self.look_if_time(fixed, after);
        }
    }

    #[inline(never)]
    fn poll_now(&mut self, fixed: &Fixed, after: &mut After) {
        self.poll_quickly(fixed, after);
        if self.pace.is_due() {
            self.look_if_time(fixed, after);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_if_time(&mut self, fixed: &Fixed, after: &mut After) {
        if self.pace.ask_clock(after.now()) {
            self.look(fixed, after);
        }
    }

    /// From now on peers ring. Moves messages once more. Whether there were any.
    pub(super) fn arm(&mut self, fixed: &Fixed, after: &mut After) -> bool {
        let is_sure = self.bell.arm();
        self.nap_until = (!is_sure).then(|| after.now() + NAP);
        let mut busy = false;
        self.links.poll_all(|link| {
            let polled = link.poll(&fixed.keys, &mut after.notices, true);
            busy |= polled != Polled::Nothing;
            after.happened |= polled.is_news();
            polled
        });
        busy
    }

    /// Peers need not ring any more. Deals with what ended a sleep.
    pub(super) fn disarm(&mut self, woken: Woken<'_>, fixed: &Fixed, after: &mut After) {
        let sleep = self.bell.disarm();
        self.poll_quickly(fixed, after);
        let mut look = woken.has_slept() && woken.said().is_empty();
        for event in woken.said() {
            match set::read(event.token) {
                (CORD, id) => {
                    self.rung(id, sleep);
                    self.poll_one(id, fixed, after);
                }
                _ => look = true,
            }
        }
        if look || self.pace.is_time(after) {
            self.look(fixed, after);
        }
    }

    /// When to tick again at the latest.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let door = self.door.as_ref().and_then(Door::next_deadline);
        let knocks = self.knocks.values().filter_map(Knocking::deadline);
        knocks.chain(door).chain(self.nap_until).min()
    }

    /// The oldest caller of a listener is accepted.
    pub(super) fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        fixed: &Fixed,
    ) -> Result<Option<Made>, ListenError> {
        while let Some(visitor) = self.listeners.next(name)? {
            let (peer, agreed) = (visitor.greeting.host.clone(), visitor.agreed);
            let conn = admit(visitor, spec, fixed);
            let made = conn.and_then(|conn| self.add((&peer, spec, agreed), conn, fixed));
            if made.is_some() {
                return Ok(made);
            }
        }
        Ok(None)
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, request: ConnectRequest, fixed: &Fixed, after: &mut After) {
        if self.door.is_none() {
            return after.settle(request.promise, Err(ConnectError::NicDown));
        }
        let (id, now) = (self.unused(), after.now());
        self.knocks.insert(id, Knocking::new(request, now));
        self.tick(now, fixed, after);
    }

    pub(super) fn shut(&mut self, after: &mut After) {
        self.door = None;
        self.links.end_all(|link| link.close(ViError::NicDown, &mut after.notices));
        for Knocking { patience, .. } in std::mem::take(&mut self.knocks).into_values() {
            after.settle(patience.request.promise, Err(ConnectError::NicDown));
        }
        self.listeners.shut(after);
        after.happened = true;
    }

    /// Passes eager messages to `sink`, at most `budget`.
    #[inline(never)]
    pub(super) fn drain(
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

    /// Sends an eager message, if nothing is against it.
    #[inline(always)]
    pub(super) fn try_send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<Behind> {
        match self.links.last(conn.0) {
            Some(link) => link.try_send(lane, tag, parts),
            None => self.try_send_by(conn, lane, tag, parts),
        }
    }

    /// The same by another connection than the last one.
    #[inline(never)]
    fn try_send_by(
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
    fn poll_quickly(&mut self, fixed: &Fixed, after: &mut After) {
        self.links.poll_some(|link| {
            let polled = link.poll(&fixed.keys, &mut after.notices, false);
            after.happened |= polled.is_news();
            polled
        });
    }

    /// Moves messages of one connection.
    fn poll_one(&mut self, id: u64, fixed: &Fixed, after: &mut After) {
        self.links.poll_one(id, |link| {
            let polled = link.poll(&fixed.keys, &mut after.notices, false);
            after.happened |= polled.is_news();
            polled
        });
    }

    /// Looks at the sockets without waiting.
    #[cold]
    fn look(&mut self, fixed: &Fixed, after: &mut After) {
        for event in ready(&fixed.sockets, &mut { SPACE }, Some(Duration::ZERO)) {
            self.ready(event.data.u64(), fixed, after);
        }
        self.tick(after.now(), fixed, after);
    }

    /// Deals with what the set of the sockets said.
    fn ready(&mut self, token: u64, fixed: &Fixed, after: &mut After) {
        match set::read(token) {
            (CONTROL, id) => {
                if let Some(link) = self.links.get(id) {
                    let heard = link.hear(&fixed.keys, &mut after.notices);
                    after.happened |= heard == Polled::Gone;
                    self.links.is_ready(id);
                }
            }
            (ENDED, id) => {
                if let Some(link) = self.links.get(id) {
                    link.ended(&fixed.keys, &mut after.notices);
                    after.happened = true;
                    self.links.is_ready(id);
                }
            }
            // A tick follows, and looks at the door and the knocks.
            _ => {}
        }
    }

    /// The peer of this link rang, which ended the sleep with this number.
    fn rung(&mut self, id: u64, sleep: u64) {
        if let Some(link) = self.links.get(id) {
            link.rung(sleep);
        }
    }

    /// The connection of a handle, which has it until it is released.
    #[inline]
    pub(super) fn link(&mut self, conn: ConnId) -> &mut Link {
        self.links.get(conn.0).expect("a handle keeps it")
    }

    /// Takes a descriptor.
    #[inline]
    pub(super) fn post(
        &mut self,
        conn: ConnId,
        posted: Posted,
        keys: &Keys,
        after: &mut After,
    ) -> Result<(), Unposted> {
        let link = self.link(conn);
        if link.post(posted, keys)? {
            // Of slots that waited for it not all were taken, if they are many: a thread that
            // sleeps has more to poll for.
            after.happened |= link.resume(keys, &mut after.notices) != Polled::Nothing;
        }
        Ok(())
    }

    /// Lets callers in, knocks where it is time to, forgets what is over.
    fn tick(&mut self, now: Instant, fixed: &Fixed, after: &mut After) {
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
                Outcome::Knocking => knocking.tick(fixed, id, now),
                outcome => outcome,
            };
            self.knocked(id, outcome, fixed, after);
        }
    }

    fn knocked(&mut self, id: u64, outcome: Outcome, fixed: &Fixed, after: &mut After) {
        let result = match outcome {
            Outcome::Knocking => return,
            Outcome::Failed(why) => Err(why),
            Outcome::Made(conn, agreed) => Ok((conn, agreed)),
        };
        let Some(Knocking { patience, .. }) = self.knocks.remove(&id) else { return };
        let request = patience.request;
        let result = result.and_then(|(conn, agreed)| {
            let who = (request.to.host.as_str(), request.spec, agreed);
            self.add(who, *conn, fixed).ok_or(ConnectError::NicDown)
        });
        after.settle(request.promise, result);
    }

    /// A link that the set cannot watch would not notice its peer's death.
    fn add(
        &mut self,
        (peer, spec, agreed): (&str, ViSpec, Agreed),
        conn: Conn,
        fixed: &Fixed,
    ) -> Option<Made> {
        let mut link = Link::new(self.unused(), spec, conn);
        link.watch(fixed).ok()?;
        let mut made = Made::new(ConnId(link.id), peer);
        (made.trust, made.why_isolated) = (agreed.trust(), agreed.why_isolated());
        self.links.add(link);
        Some(made)
    }

    fn unused(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}

/// Makes a connection with a visitor, if what it brings can be used.
fn admit(visitor: Visitor, spec: ViSpec, fixed: &Fixed) -> Option<Conn> {
    let ground = Ground::new()?;
    let (theirs, trust) = (visitor.greeting.terms, visitor.agreed.trust());
    let (control, handles) =
        visitor.accept(&terms(spec.depth), ground.handles(&fixed.bell_page)).ok()?;
    // One whose part is unfit sees the connection end.
    ground.join(spec, trust, control, Met::new(&theirs, handles).ok()?)
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
