//! What a nic does beside moving messages: it lets callers in, knocks at other
//! doors, and hears who has left.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::event::epoll;

use super::bell::Sleeper;
use super::datapath::Conn;
use super::knocking::{Ground, Knocking, Met, Outcome, terms};
use super::link::{Link, Polled};
use super::memory::Own;
use super::records::Scratch;
use super::rendezvous::{Door, Refusal, Stance, Visitor};
use super::rounds::Rounds;
use super::token::Token;
use super::vi::ShmVi;
use crate::fabric::hub::set::{SPACE, ready};
use crate::fabric::hub::{self, Away, Drained, Hub, Key, Listeners, Pace, Work};
use crate::fabric::{ConnectRequest, Unposted, ViOps, ViSpec};
use crate::rt::{self, Instant};
use crate::vi::{
    Agreed, ConnectError, DrainId, Hello, Keys, Limits, Posted, Reliability, Sink, ViError,
};

/// The changing part of a nic.
#[derive(Debug)]
pub(super) struct Driver {
    /// `None` when the nic is down.
    door: Option<Door>,
    links: Rounds,
    knocks: BTreeMap<u64, Knocking>,
    listeners: Listeners<Visitor>,
    next_id: u64,
    /// When to look at the sockets.
    pace: Pace,
    scratch: Scratch,
    /// When to look again though no bell was rung.
    nap_until: Option<Instant>,
}

/// A connection that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub id: u64,
    pub peer: Arc<str>,
    pub level: Reliability,
    pub agreed: Agreed,
}

pub(super) type After = hub::After<Driver>;

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct Fixed {
    pub host: String,
    pub keys: Arc<Keys>,
    /// The set of all that is looked at now and then.
    pub sockets: OwnedFd,
    /// The set of all that ends a sleep, which is asked by who sleeps alone: the
    /// cords, a wake, and the other set.
    pub bells: OwnedFd,
    pub bell_page: Own,
    /// Whether peers might not ring for the sleep that begins.
    pub doubt: Arc<AtomicBool>,
    pub stance: Stance,
}

/// What the one who sleeps has to itself.
#[derive(Debug)]
pub(super) struct Doorbell {
    pub sleeper: Sleeper,
    /// As in [`Fixed`].
    pub doubt: Arc<AtomicBool>,
}

/// Visitors dealt with at one tick, so that those who knock for ever do not stop
/// the others; the door stays readable.
const VISITORS_AT_ONCE: usize = 16;
/// How long a visitor may take to greet.
const GREETING_MAX: Duration = Duration::from_secs(1);
/// How long to sleep when a peer might not ring.
const NAP: Duration = Duration::from_millis(1);

impl Work for Driver {
    type Fixed = Fixed;
    type Place = Doorbell;
    type Link = Made;
    type Visitor = Visitor;

    fn host(fixed: &Fixed) -> &str {
        &fixed.host
    }

    fn keys(fixed: &Fixed) -> &Arc<Keys> {
        &fixed.keys
    }

    fn limits() -> Limits {
        super::nic::limits()
    }

    /// Moves messages; now and then looks at the sockets. With one connection
    /// and nothing to do it costs about 25 ns, and one load of a line that is
    /// in the cache until the peer writes it.
    #[inline]
    fn progress(&mut self, fixed: &Fixed, after: &mut After) {
        self.poll_quickly(fixed, after);
        if self.pace.is_time() {
            self.look(fixed, after);
        }
    }

    /// Moves messages. Whether there were any.
    fn last_look(&mut self, fixed: &Fixed, after: &mut After) -> bool {
        let mut busy = false;
        self.nap_until = fixed.doubt.load(Relaxed).then(|| rt::now() + NAP);
        self.links.poll_all(|link| {
            let polled = link.poll(&fixed.keys, &mut after.notices, true);
            busy |= polled != Polled::Nothing;
            after.happened |= polled.is_news();
            polled
        });
        busy
    }

    /// When to tick again at the latest.
    fn deadline(&self) -> Option<Instant> {
        let door = self.door.as_ref().and_then(Door::next_deadline);
        let knocks = self.knocks.values().filter_map(Knocking::deadline);
        knocks.chain(door).chain(self.nap_until).min()
    }

    fn set(fixed: &Fixed) -> &OwnedFd {
        &fixed.bells
    }

    fn arm(bell: &mut Doorbell) {
        let is_sure = bell.sleeper.arm();
        bell.doubt.store(!is_sure, Relaxed);
    }

    fn disarm(bell: &mut Doorbell) -> u64 {
        bell.sleeper.disarm()
    }

    /// No bell is armed.
    fn woken(
        &mut self,
        fixed: &Fixed,
        sleep: u64,
        events: Option<&[epoll::Event]>,
        after: &mut After,
    ) {
        self.poll_quickly(fixed, after);
        let mut look = events.is_some_and(<[_]>::is_empty);
        for event in events.unwrap_or_default() {
            match Token::decode(event.data.u64()) {
                Token::Cord(id) => {
                    self.rung(id, sleep);
                    self.poll_one(id, fixed, after);
                }
                _ => look = true,
            }
        }
        if look || self.pace.is_time() {
            self.look(fixed, after);
        }
    }

    fn listeners(&mut self) -> Option<&mut Listeners<Visitor>> {
        self.door.is_some().then_some(&mut self.listeners)
    }

    fn accept(&mut self, key: &Key, spec: ViSpec, fixed: &Fixed) -> Option<Made> {
        loop {
            let visitor = self.listeners.next(key)?;
            let (peer, agreed) = (visitor.greeting.host.clone(), visitor.agreed);
            if let Some(conn) = admit(visitor, spec, fixed) {
                let made = self.add((&peer, spec, agreed), conn, fixed);
                if made.is_some() {
                    return made;
                }
            }
        }
    }

    fn connect(&mut self, request: ConnectRequest, now: Instant, fixed: &Fixed, after: &mut After) {
        let id = self.unused();
        self.knocks.insert(id, Knocking::new(request, now));
        self.tick(now, fixed, after);
    }

    fn shut(&mut self, _fixed: &Fixed, after: &mut After) {
        self.door = None;
        self.links.end_all(|link| link.close(ViError::NicDown, &mut after.notices));
        for Knocking { request, .. } in std::mem::take(&mut self.knocks).into_values() {
            after.settle(request.promise, Err(ConnectError::NicDown));
        }
        after.wakers.append(&mut self.listeners.close_all());
        after.happened = true;
    }

    const HAS_EAGER: bool = true;

    #[inline]
    fn drain(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        let (Self { links, scratch, .. }, mut answers) = (self, false);
        let count = links.drain(drain, budget, |link, left| {
            let drained = link.drain(left, scratch, sink, &mut after.notices);
            answers |= drained.answers;
            after.happened |= link.error().is_some();
            drained.count
        });
        Drained { count, answers }
    }

    fn vi(hub: &Arc<Hub<Self>>, made: Made) -> Box<dyn ViOps> {
        Box::new(ShmVi::new(Arc::clone(hub), made))
    }
}

impl Driver {
    pub(super) fn new(door: Door) -> Self {
        Self {
            door: Some(door),
            links: Rounds::default(),
            knocks: BTreeMap::new(),
            listeners: Listeners::default(),
            next_id: 1,
            pace: Pace::default(),
            scratch: Scratch::new(),
            nap_until: None,
        }
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
            self.ready(Token::decode(event.data.u64()), fixed, after);
        }
        self.tick(rt::now(), fixed, after);
    }

    /// Deals with what the set of the sockets said.
    fn ready(&mut self, token: Token, fixed: &Fixed, after: &mut After) {
        match token {
            Token::Control(id) => {
                if let Some(link) = self.links.get(id) {
                    let heard = link.hear(&fixed.keys, &mut after.notices);
                    after.happened |= heard == Polled::Gone;
                    self.links.is_ready(id);
                }
            }
            Token::Ended(id) => {
                if let Some(link) = self.links.get(id) {
                    link.ended(&fixed.keys, &mut after.notices);
                    after.happened = true;
                    self.links.is_ready(id);
                }
            }
            // A tick follows, and looks at these.
            Token::Door | Token::Knock(_) => {}
            // Not of this set.
            Token::Wake | Token::Cord(_) | Token::Sockets => {}
        }
    }

    /// The peer of this link rang, which ended the sleep with this number.
    fn rung(&mut self, id: u64, sleep: u64) {
        if let Some(link) = self.links.get(id) {
            link.rung(sleep);
        }
    }

    /// The connection of a handle, which has it until it is [released](Self::release).
    #[inline]
    pub(super) fn link(&mut self, id: u64) -> &mut Link {
        self.links.get(id).expect("a handle keeps it")
    }

    /// Takes a descriptor.
    #[inline]
    pub(super) fn post(
        &mut self,
        id: u64,
        posted: Posted,
        keys: &Keys,
        after: &mut After,
    ) -> Result<(), Unposted> {
        let link = self.link(id);
        if link.post(posted, keys)? {
            // Of slots that waited for it not all were taken, if they are many: a thread that
            // sleeps has more to poll for.
            after.happened |= link.resume(keys, &mut after.notices) != Polled::Nothing;
        }
        Ok(())
    }

    /// The handle of a connection is gone, and the connection with it.
    pub(super) fn release(&mut self, id: u64, after: &mut After) -> Option<Link> {
        self.link(id).close(ViError::Closed, &mut after.notices);
        after.happened = true;
        self.links.remove(id)
    }

    /// Lets callers in, knocks where it is time to, forgets what is over.
    fn tick(&mut self, now: Instant, fixed: &Fixed, after: &mut After) {
        self.pace.looked(now);
        self.links.sort_out();
        for _ in 0..VISITORS_AT_ONCE {
            let Some(door) = &mut self.door else { break };
            match door.poll_visitor(now, now + GREETING_MAX) {
                Ok(Some(visitor)) => {
                    after.happened |= self.listeners.arrived(visitor, &mut after.wakers);
                }
                Ok(None) => break,
                // It is the visitor's affair, and it was told.
                Err(_) => {}
            }
        }
        let ids: Vec<u64> = self.knocks.keys().copied().collect();
        for id in ids {
            let Some(knocking) = self.knocks.get_mut(&id) else { continue };
            if knocking.request.promise.is_abandoned() {
                // Dropped with no lock held: it may have somebody to wake.
                if let Some(Knocking { request, .. }) = self.knocks.remove(&id) {
                    after.settle(request.promise, Err(ConnectError::NicDown));
                }
                continue;
            }
            let outcome = match knocking.poll() {
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
        let Some(Knocking { request, .. }) = self.knocks.remove(&id) else { return };
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
        let made = Made { id: link.id, peer: Arc::from(peer), level: spec.reliability, agreed };
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

    fn turn_away(self, why: Away) {
        self.refuse(&match why {
            Away::NotListening => Refusal::NotListening,
            Away::OtherTag => Refusal::OtherTag,
            Away::Reliability(level) => Refusal::Reliability(level),
            Away::Crowded => Refusal::Crowded,
        });
    }
}
