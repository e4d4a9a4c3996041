//! What a nic does beside moving messages: it lets callers in, knocks at other
//! doors, and hears who has left.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::knocking::{Ground, Knocking, Met, Outcome, terms};
use super::link::{Link, Polled};
use super::memory::Own;
use super::rendezvous::{Door, Refusal, Stance, Visitor};
use super::token::Token;
use crate::fabric::{ConnectRequest, Promise, ViOps, ViSpec};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, Keys, Notices, Reliability, ViError};

/// The changing part of a nic.
#[derive(Debug)]
pub(super) struct Driver {
    /// `None` when the nic is down.
    door: Option<Door>,
    /// By number.
    pub links: Vec<Arc<Link>>,
    knocks: BTreeMap<u64, Knocking>,
    pub listeners: BTreeMap<(String, u64), Listening>,
    next_id: u64,
    /// Calls of `progress` until the clock is asked, and how many that were.
    calls_left: u32,
    calls: u32,
    looked: Instant,
    /// How much has happened here; see [`Inner`](super::nic::Inner).
    pub happened: u64,
    /// Threads that sleep, or are about to.
    pub sleepers: u32,
    /// What `progress` leaves to do; empty between its calls.
    pub after: After,
}

#[derive(Debug)]
pub(super) struct Listening {
    reliability: Reliability,
    pub wakers: Vec<Waker>,
    backlog: VecDeque<Visitor>,
}

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
    pub stance: Stance,
}

/// What is left to do once no lock is held.
#[derive(Debug, Default)]
pub(super) struct After {
    pub notices: Notices,
    pub wakers: Vec<Waker>,
    pub settled: Vec<Settled>,
    /// Something a waiting thread may want to look at.
    pub happened: bool,
}

impl After {
    /// Whether something has happened that waits may be for.
    #[inline]
    pub(super) fn is_news(&self) -> bool {
        self.happened || !self.notices.is_empty()
    }

    /// The news were counted.
    #[inline]
    pub(super) const fn counted(&mut self) {
        self.happened = false;
        self.notices.counted();
    }

    /// Whether there is anybody to tell.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        !self.notices.is_empty() || !self.wakers.is_empty() || !self.settled.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Settled {
    pub promise: Promise<Result<Box<dyn ViOps>, ConnectError>>,
    pub result: Result<Arc<Link>, ConnectError>,
}

/// The sockets are looked at after this long.
const LOOK_AFTER: Duration = Duration::from_micros(100);
/// The clock is asked once in so many calls at most.
const CLOCK_EVERY_MAX: u32 = 128;
/// Visitors dealt with at one tick, so that those who knock for ever do not stop
/// the others; the door stays readable.
const VISITORS_AT_ONCE: usize = 16;
/// Callers that wait for a listener to accept them.
const BACKLOG: usize = 128;
/// How long a visitor may take to greet.
const GREETING_MAX: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(door: Door) -> Self {
        Self {
            door: Some(door),
            links: Vec::new(),
            knocks: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next_id: 1,
            calls_left: 1,
            calls: 1,
            looked: Instant::from_nanos(0),
            happened: 0,
            sleepers: 0,
            after: After::default(),
        }
    }

    /// Whether a call of `progress` is the one to look at the sockets. The clock
    /// costs more than a call that finds nothing, so it is asked now and then: the
    /// more often the rarer the calls.
    #[inline]
    pub(super) fn is_time_to_look(&mut self) -> bool {
        self.calls_left -= 1;
        self.calls_left == 0 && self.ask_clock()
    }

    #[cold]
    fn ask_clock(&mut self) -> bool {
        let (now, before) = (rt::now(), self.calls);
        let is_time = now >= self.looked + LOOK_AFTER;
        self.calls = if now >= self.looked + 2 * LOOK_AFTER {
            (before / 2).max(1)
        } else {
            (before * 2).min(CLOCK_EVERY_MAX)
        };
        self.calls_left = self.calls;
        is_time
    }

    pub(super) const fn is_up(&self) -> bool {
        self.door.is_some()
    }

    /// Moves messages. Whether there were any.
    #[inline]
    pub(super) fn poll_links(&mut self, fixed: &Fixed, after: &mut After, thorough: bool) -> bool {
        let mut busy = false;
        for link in &self.links {
            let polled = link.poll(&fixed.keys, &mut after.notices, thorough);
            busy |= polled != Polled::Nothing;
            after.happened |= polled == Polled::Gone;
        }
        busy
    }

    /// Moves messages, and leaves what is to be told in `after`.
    #[inline]
    pub(super) fn poll_quickly(&mut self, fixed: &Fixed) {
        for link in &self.links {
            let polled = link.poll(&fixed.keys, &mut self.after.notices, false);
            self.after.happened |= polled == Polled::Gone;
        }
    }

    /// Deals with what the set of the sockets said.
    pub(super) fn ready(&mut self, token: Token, fixed: &Fixed, after: &mut After) {
        match token {
            Token::Control(id) => {
                if let Some(link) = self.link(id) {
                    let heard = link.hear(&fixed.keys, &mut after.notices);
                    after.happened |= heard == Polled::Gone;
                }
            }
            Token::Ended(id) => {
                if let Some(link) = self.link(id) {
                    link.ended(&fixed.keys, &mut after.notices);
                    after.happened = true;
                }
            }
            // A tick follows, and looks at these.
            Token::Door | Token::Knock(_) => {}
            // Not of this set.
            Token::Wake | Token::Cord(_) | Token::Sockets => {}
        }
    }

    /// The peer of this link rang, which ended the sleep with this number.
    pub(super) fn rung(&self, id: u64, sleep: u64) {
        if let Some(link) = self.link(id) {
            link.rung(sleep);
        }
    }

    fn link(&self, id: u64) -> Option<&Arc<Link>> {
        let at = self.links.binary_search_by_key(&id, |link| link.id).ok()?;
        Some(&self.links[at])
    }

    /// Lets callers in, knocks where it is time to, forgets what is over.
    pub(super) fn tick(&mut self, now: Instant, fixed: &Fixed, after: &mut After) {
        self.looked = now;
        self.links.retain(|link| link.error().is_none());
        for _ in 0..VISITORS_AT_ONCE {
            let Some(door) = &mut self.door else { break };
            match door.poll_visitor(now, now + GREETING_MAX) {
                Ok(Some(visitor)) => self.visited(visitor, after),
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
                    let result = Err(ConnectError::NicDown);
                    after.settled.push(Settled { promise: request.promise, result });
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

    /// When to tick again at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let door = self.door.as_ref().and_then(Door::next_deadline);
        self.knocks.values().filter_map(Knocking::deadline).chain(door).min()
    }

    pub(super) fn connect(&mut self, request: ConnectRequest, now: Instant) {
        let id = self.unused();
        self.knocks.insert(id, Knocking::new(request, now));
    }

    fn knocked(&mut self, id: u64, outcome: Outcome, fixed: &Fixed, after: &mut After) {
        let result = match outcome {
            Outcome::Knocking => return,
            Outcome::Failed(why) => Err(why),
            Outcome::Made(conn, agreed) => Ok((conn, agreed)),
        };
        let Some(Knocking { request, .. }) = self.knocks.remove(&id) else { return };
        let result = result.and_then(|(conn, agreed)| {
            let level = request.spec.reliability;
            let link = Link::new(self.unused(), &request.to.host, level, agreed, *conn);
            self.add(link, fixed).ok_or(ConnectError::NicDown)
        });
        after.happened = true;
        after.settled.push(Settled { promise: request.promise, result });
    }

    /// A link that the set cannot watch would not notice its peer's death.
    fn add(&mut self, link: Link, fixed: &Fixed) -> Option<Arc<Link>> {
        link.watch(fixed).ok()?;
        let link = Arc::new(link);
        self.links.push(Arc::clone(&link));
        Some(link)
    }

    fn unused(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Somebody greeted.
    fn visited(&mut self, visitor: Visitor, after: &mut After) {
        let hello = &visitor.greeting.hello;
        let key = (hello.service.clone(), hello.tag);
        let refusal = match self.listeners.get_mut(&key) {
            None => Refusal::NotListening,
            Some(listening) if listening.reliability != hello.reliability => {
                Refusal::Reliability(listening.reliability)
            }
            Some(listening) => {
                listening.backlog.retain(|visitor| !visitor.is_gone());
                if listening.backlog.len() < BACKLOG {
                    listening.backlog.push_back(visitor);
                    after.wakers.append(&mut listening.wakers);
                    after.happened = true;
                    return;
                }
                Refusal::Crowded
            }
        };
        visitor.refuse(&refusal);
    }

    /// The oldest caller of a listener is accepted.
    pub(super) fn accept(
        &mut self,
        key: &(String, u64),
        spec: ViSpec,
        fixed: &Fixed,
    ) -> Option<Arc<Link>> {
        loop {
            let visitor = self.listeners.get_mut(key)?.backlog.pop_front()?;
            let (peer, agreed) = (visitor.greeting.host.clone(), visitor.agreed);
            let made = (!visitor.is_gone()).then(|| admit(visitor, spec, fixed)).flatten();
            if let Some(conn) = made {
                let link = Link::new(self.unused(), &peer, spec.reliability, agreed, conn);
                if let Some(link) = self.add(link, fixed) {
                    return Some(link);
                }
            }
        }
    }

    /// Nobody is let in any more, and everything ends.
    pub(super) fn shut(&mut self, after: &mut After) {
        self.door = None;
        for link in self.links.drain(..) {
            link.close(ViError::NicDown, &mut after.notices);
        }
        for Knocking { request, .. } in std::mem::take(&mut self.knocks).into_values() {
            let result = Err(ConnectError::NicDown);
            after.settled.push(Settled { promise: request.promise, result });
        }
        for listening in std::mem::take(&mut self.listeners).into_values() {
            after.wakers.extend(listening.close());
        }
        after.happened = true;
    }
}

/// Makes a connection with a visitor, if what it brings can be used.
fn admit(visitor: Visitor, spec: ViSpec, fixed: &Fixed) -> Option<super::datapath::Conn> {
    let ground = Ground::new()?;
    let (theirs, trust) = (visitor.greeting.terms, visitor.agreed.trust());
    let (control, handles) =
        visitor.accept(&terms(spec.depth), ground.handles(&fixed.bell_page)).ok()?;
    // One whose part is unfit sees the connection end.
    ground.join(spec, trust, control, Met::new(&theirs, handles).ok()?)
}

impl Listening {
    pub(super) const fn new(reliability: Reliability) -> Self {
        Self { reliability, wakers: Vec::new(), backlog: VecDeque::new() }
    }

    /// Sends the callers away, and gives back whom to wake.
    pub(super) fn close(self) -> Vec<Waker> {
        for visitor in self.backlog {
            visitor.refuse(&Refusal::NotListening);
        }
        self.wakers
    }
}
