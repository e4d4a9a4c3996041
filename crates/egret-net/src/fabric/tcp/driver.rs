//! What a nic does under its lock: it moves messages, lets callers in, connects,
//! and takes leave.
//!
//! A few connections that were busy lately are read directly, which costs one
//! system call each; the set tells of all others, and is asked now and then, or
//! slept on. So a thousand that are idle cost nothing.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll;
use rustix::event::epoll::EventFlags;

use super::datapath::Conn;
use super::door::{Door, Visitor};
use super::knocking::{Knocking, Outcome};
use super::leaving::Leavings;
use super::link::{Link, Polled};
use super::send::Flushed;
use super::token::Token;
use super::vi::TcpVi;
use super::yard::Yard;
use crate::fabric::greet::Stance;
use crate::fabric::hub::set::{SPACE, ready};
use crate::fabric::hub::{self, Hub, Key, Listeners, Pace, Work};
use crate::fabric::{ConnectRequest, ViOps, ViSpec};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, Keys, Limits, ViError, Wait};

/// The changing part of a nic.
#[derive(Debug)]
pub(super) struct Driver {
    /// `None` when the nic is down.
    door: Option<Door>,
    links: BTreeMap<u64, Arc<Link>>,
    /// Those that are read directly.
    active: Vec<Active>,
    knocks: BTreeMap<u64, Knocking>,
    listeners: Listeners<Visitor>,
    leavings: Leavings,
    next_id: u64,
    /// When to look at what is slow.
    pace: Pace,
    /// Calls until the set is asked about the other connections.
    calls_left: u32,
    wait: Wait,
    /// Calls that need not read after a frugal sleep.
    skips: u32,
    /// Where bytes land whose place is not known.
    staging: Box<[u8]>,
    /// An empty list.
    spare: Vec<Arc<Link>>,
}

#[derive(Debug)]
struct Active {
    link: Arc<Link>,
    /// Polls in a row that found nothing.
    idle: u32,
}

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct Fixed {
    pub host: String,
    pub keys: Arc<Keys>,
    /// The set of all sockets.
    pub set: OwnedFd,
    pub stance: Stance,
    pub yard: Yard,
}

type After = hub::After<Driver>;

/// Connections read directly.
const ACTIVE_MAX: usize = 4;
/// Polls in vain after which one of several is left to the set.
const IDLE_MAX: u32 = 128;
/// Calls between looks at the set, if there are connections that it alone tells of.
const SET_EVERY: u32 = 16;
/// Bytes that are read at once if their place is not known: many small messages, and
/// not much of a large one.
const STAGING: usize = 16 << 10;
/// A frugal program looks twice before it sleeps again: it is told by the set then.
const SKIPS: u32 = 2;

impl Work for Driver {
    type Fixed = Fixed;
    type Place = ();
    type Link = Arc<Link>;
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

    #[inline]
    fn progress(&mut self, fixed: &Fixed, after: &mut After) {
        if fixed.yard.is_used() {
            self.push_all(fixed, after, false);
        }
        if self.skips > 0 {
            self.skips -= 1;
            return;
        }
        self.poll_active(fixed, after);
        self.calls_left = self.calls_left.saturating_sub(1);
        let is_blind = self.calls_left == 0 && self.active.len() < self.links.len();
        if self.pace.is_time() || is_blind {
            self.look(fixed, after);
        }
    }

    /// What was posted is written, and what is owed is told. Whatever has come, the
    /// set says.
    fn last_look(&mut self, fixed: &Fixed, after: &mut After) -> bool {
        for at in 0..self.active.len() {
            let link = Arc::clone(&self.active[at].link);
            match link.push(fixed, &mut after.notices, true) {
                Some(Flushed::All) => {}
                None => after.happened = true,
                // The rest of this looks after it.
                Some(Flushed::More | Flushed::Full) => self.come_by(&link, fixed),
            }
        }
        self.push_all(fixed, after, true)
    }

    fn deadline(&self) -> Option<Instant> {
        let door = self.door.as_ref().and_then(Door::deadline);
        let knocks = self.knocks.values().filter_map(Knocking::deadline);
        knocks.chain(door).chain(self.leavings.deadline()).min()
    }

    fn set(fixed: &Fixed) -> &OwnedFd {
        &fixed.set
    }

    fn woken(
        &mut self,
        fixed: &Fixed,
        _sleep: u64,
        events: Option<&[epoll::Event]>,
        after: &mut After,
    ) {
        let Some(events) = events else { return };
        for event in events {
            self.ready(Token::decode(event.data.u64()), event.flags, fixed, after);
        }
        if events.is_empty() || self.pace.is_time() {
            self.tick(rt::now(), fixed, after);
        }
        self.skips = if self.wait == Wait::Frugal { SKIPS } else { 0 };
    }

    fn listeners(&mut self) -> Option<&mut Listeners<Visitor>> {
        self.door.is_some().then_some(&mut self.listeners)
    }

    fn accept(&mut self, key: &Key, spec: ViSpec, fixed: &Fixed) -> Option<Arc<Link>> {
        loop {
            let Visitor { socket, mut callee, host, .. } = self.listeners.next(key)?;
            callee.welcome(&[]);
            let Ok(sent) = socket.send(callee.outgoing()) else { continue };
            callee.sent(sent);
            let conn = Conn::new(spec, socket, callee.outgoing());
            let link = Link::new(self.unused(), &host, spec.reliability, conn);
            if let Some(link) = self.add(link, fixed) {
                // Of the welcome some may be left.
                self.come_by(&link, fixed);
                return Some(link);
            }
        }
    }

    fn connect(&mut self, request: ConnectRequest, now: Instant, fixed: &Fixed, after: &mut After) {
        let id = self.unused();
        self.knocks.insert(id, Knocking::new(request, now));
        self.knock(id, now, fixed, after);
    }

    fn shut(&mut self, fixed: &Fixed, after: &mut After) {
        self.door = None;
        self.active.clear();
        for link in std::mem::take(&mut self.links).into_values() {
            link.close(ViError::NicDown, fixed, &mut after.notices);
        }
        for Knocking { request, .. } in std::mem::take(&mut self.knocks).into_values() {
            after.settle(request.promise, Err(ConnectError::NicDown));
        }
        after.wakers.append(&mut self.listeners.close_all());
        for mut leaving in fixed.yard.swap(&mut Vec::new()) {
            // A last chance.
            leaving.push();
        }
        self.leavings.clear();
        after.happened = true;
    }

    fn vi(hub: &Arc<Hub<Self>>, link: Arc<Link>) -> Box<dyn ViOps> {
        Box::new(TcpVi::new(Arc::clone(hub), link))
    }
}

impl Driver {
    pub(super) fn new(door: Door, wait: Wait) -> Self {
        Self {
            door: Some(door),
            links: BTreeMap::new(),
            active: Vec::new(),
            knocks: BTreeMap::new(),
            listeners: Listeners::default(),
            leavings: Leavings::default(),
            next_id: 1,
            pace: Pace::default(),
            calls_left: SET_EVERY,
            wait,
            skips: 0,
            staging: vec![0; STAGING].into(),
            spare: Vec::new(),
        }
    }

    /// Reads those that were busy lately.
    #[inline]
    fn poll_active(&mut self, fixed: &Fixed, after: &mut After) {
        let mut at = 0;
        while at < self.active.len() {
            let Active { link, idle } = &mut self.active[at];
            match link.poll(fixed, &mut after.notices, &mut self.staging) {
                Polled::Something => *idle = 0,
                Polled::Nothing => *idle = idle.saturating_add(1),
                Polled::Gone => {
                    let id = link.id;
                    self.forget(id);
                    after.happened = true;
                    continue;
                }
            }
            let is_quiet = *idle > IDLE_MAX;
            if is_quiet && self.active.len() > 1 && self.is_told(at, fixed, after) {
                self.deactivate(at, fixed);
                continue;
            }
            at += 1;
        }
    }

    /// Tells what an active connection owes: nobody comes by one that is left to the set.
    fn is_told(&self, at: usize, fixed: &Fixed, after: &mut After) -> bool {
        let told = self.active[at].link.push(fixed, &mut after.notices, true);
        matches!(told, Some(Flushed::All))
    }

    /// Writes what was posted beside the lock. Whether there is more that could go.
    fn push_all(&mut self, fixed: &Fixed, after: &mut After, thorough: bool) -> bool {
        let mut dirty = std::mem::take(&mut self.spare);
        let leaving = fixed.yard.swap(&mut dirty);
        if !leaving.is_empty() {
            let now = rt::now();
            for leaving in leaving {
                let id = self.unused();
                self.leavings.add(id, leaving, &fixed.set, now);
            }
        }
        let mut busy = false;
        for link in dirty.drain(..) {
            // Nobody will look again soon at one that is left to the set.
            let thorough = thorough || !self.is_active(link.id);
            link.unmark();
            match link.push(fixed, &mut after.notices, thorough) {
                Some(Flushed::All) => {}
                None => {
                    after.happened |= self.forget(link.id);
                }
                Some(Flushed::More) => {
                    busy = true;
                    self.come_by(&link, fixed);
                }
                Some(Flushed::Full) => self.await_room(&link, fixed),
            }
        }
        self.spare = dirty;
        busy
    }

    /// Asks the set without waiting.
    #[cold]
    fn look(&mut self, fixed: &Fixed, after: &mut After) {
        self.calls_left = SET_EVERY;
        for event in ready(&fixed.set, &mut { SPACE }, Some(Duration::ZERO)) {
            self.ready(Token::decode(event.data.u64()), event.flags, fixed, after);
        }
        self.tick(rt::now(), fixed, after);
    }

    /// Deals with what the set said.
    fn ready(&mut self, token: Token, flags: EventFlags, fixed: &Fixed, after: &mut After) {
        match token {
            Token::Link(id) => self.ready_link(id, flags, fixed, after),
            Token::Door => {
                let (now, mut next) = (rt::now(), self.next_id);
                let visitors = self.door.as_mut().map(|door| {
                    door.knocked(&fixed.set, now, || {
                        next += 1;
                        next - 1
                    })
                });
                self.next_id = next;
                for visitor in visitors.into_iter().flatten() {
                    after.happened |= self.listeners.arrived(visitor, &mut after.wakers);
                }
            }
            Token::Visitor(id) => {
                if let Some(visitor) =
                    self.door.as_mut().and_then(|door| door.heard(id, &fixed.set, rt::now()))
                {
                    after.happened |= self.listeners.arrived(visitor, &mut after.wakers);
                }
            }
            Token::Knock(id) => self.knock(id, rt::now(), fixed, after),
            Token::Leaving(id) => self.leavings.ready(id, &fixed.set),
            Token::Wake => {}
        }
    }

    fn ready_link(&mut self, id: u64, flags: EventFlags, fixed: &Fixed, after: &mut After) {
        let Some(link) = self.links.get(&id) else { return };
        if flags.contains(EventFlags::OUT) {
            link.has_room();
            // What was owed meanwhile goes too: nobody else would tell it.
            match link.push(fixed, &mut after.notices, true) {
                Some(Flushed::All) => drop(link.watch(fixed)),
                Some(Flushed::More) => {
                    let _ = link.watch(fixed);
                    if link.mark() {
                        fixed.yard.push(Arc::clone(link));
                    }
                }
                // The set goes on telling.
                Some(Flushed::Full) | None => {}
            }
        }
        match link.poll(fixed, &mut after.notices, &mut self.staging) {
            Polled::Gone => {
                self.forget(id);
                after.happened = true;
            }
            Polled::Something => {
                if !self.links.get(&id).is_some_and(|link| link.is_full()) {
                    self.activate(id, fixed);
                }
                if let Some(link) =
                    self.links.get(&id).filter(|link| !self.is_active(id) && link.mark())
                {
                    fixed.yard.push(Arc::clone(link));
                }
            }
            Polled::Nothing => {}
        }
    }

    /// The set says when a connection whose socket is full can go on; to try again and
    /// again would keep the kernel from emptying it.
    fn await_room(&mut self, link: &Arc<Link>, fixed: &Fixed) {
        self.active.retain(|active| active.link.id != link.id);
        if link.watch(fixed).is_err() {
            // Then it is tried again.
            link.has_room();
            if link.mark() {
                fixed.yard.push(Arc::clone(link));
            }
        }
    }

    fn is_active(&self, id: u64) -> bool {
        self.active.iter().any(|active| active.link.id == id)
    }

    /// Has a connection read directly, if there is a place.
    fn activate(&mut self, id: u64, fixed: &Fixed) {
        // What the set said of one that is read directly counts as read: if it went for idle it
        // would be left to the set with what it owes untold.
        if let Some(active) = self.active.iter_mut().find(|active| active.link.id == id) {
            active.idle = 0;
            return;
        }
        let Some(link) = self.links.get(&id) else { return };
        if self.active.len() >= ACTIVE_MAX {
            let idlest = (0..ACTIVE_MAX).max_by_key(|at| self.active[*at].idle);
            let Some(at) = idlest.filter(|at| self.active[*at].idle > 0) else { return };
            let link = Arc::clone(link);
            self.deactivate(at, fixed);
            return self.add_active(link, fixed);
        }
        self.add_active(Arc::clone(link), fixed);
    }

    fn add_active(&mut self, link: Arc<Link>, fixed: &Fixed) {
        // Who never sleeps need not hear of it by the set too, which costs the sender.
        if self.wait == Wait::Spin {
            link.unwatch(fixed);
        }
        self.active.push(Active { link, idle: 0 });
    }

    fn deactivate(&mut self, at: usize, fixed: &Fixed) {
        let Active { link, .. } = self.active.swap_remove(at);
        if self.wait == Wait::Spin && link.watch(fixed).is_err() {
            // One that the set cannot watch stays where it is.
            self.active.push(Active { link, idle: 0 });
        }
    }

    /// A connection is over. Whether that is news.
    fn forget(&mut self, id: u64) -> bool {
        self.active.retain(|active| active.link.id != id);
        self.links.remove(&id).is_some()
    }

    /// Knocks where it is time to, sends the slow away, forgets what is over.
    fn tick(&mut self, now: Instant, fixed: &Fixed, after: &mut After) {
        self.pace.looked(now);
        if let Some(door) = &mut self.door {
            door.tick(&fixed.set, now);
        }
        self.leavings.tick(now);
        let ids: Vec<u64> = self.knocks.keys().copied().collect();
        for id in ids {
            self.knock(id, now, fixed, after);
        }
    }

    /// Looks at a connection that is being made.
    fn knock(&mut self, id: u64, now: Instant, fixed: &Fixed, after: &mut After) {
        let Some(knocking) = self.knocks.get_mut(&id) else { return };
        if knocking.request.promise.is_abandoned() {
            // Dropped with no lock held: it may have somebody to wake.
            if let Some(Knocking { request, .. }) = self.knocks.remove(&id) {
                after.settle(request.promise, Err(ConnectError::NicDown));
            }
            return;
        }
        let outcome = match knocking.poll(fixed, id) {
            Outcome::Knocking => knocking.tick(fixed, id, now),
            outcome => outcome,
        };
        let result = match outcome {
            Outcome::Knocking => return,
            Outcome::Failed(why) => Err(why),
            Outcome::Made(conn, behind) => Ok((conn, behind)),
        };
        let Some(Knocking { request, .. }) = self.knocks.remove(&id) else { return };
        let result = result.and_then(|(conn, behind)| {
            let level = request.spec.reliability;
            let link = Link::new(self.unused(), &request.to.host, level, *conn);
            let link = self.add(link, fixed).ok_or(ConnectError::NicDown)?;
            link.take(&behind, fixed, &mut after.notices);
            if link.error().is_some() {
                self.forget(link.id);
            } else {
                self.come_by(&link, fixed);
            }
            Ok(link)
        });
        after.settle(request.promise, result);
    }

    /// A link that the set cannot watch would not notice its peer's death.
    fn add(&mut self, link: Link, fixed: &Fixed) -> Option<Arc<Link>> {
        link.watch(fixed).ok()?;
        let link = Arc::new(link);
        self.links.insert(link.id, Arc::clone(&link));
        self.activate(link.id, fixed);
        Some(link)
    }

    /// Has this nic write what a connection has to say, soon.
    fn come_by(&self, link: &Arc<Link>, fixed: &Fixed) {
        if link.mark() {
            fixed.yard.push(Arc::clone(link));
        }
    }

    fn unused(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}
