//! Which connections of a nic to look at.
//!
//! A look at a connection that is idle costs a few loads, which is much for a thousand of them. So
//! of more than [`FEW`] connections the idle ones rest: the end of such a connection
//! [says](super::doorbell::DoorbellSleeper::doze) that it sleeps, its peer rings when it has something, and no
//! poll looks at it. The nic checks now and then which doorbells were rung
//! ([`Driver::check_doorbells`](super::driver::Driver::check_doorbells)), and when it sleeps.
//!
//! | | is looked at | peer rings | before the nic sleeps |
//! |---|---|---|---|
//! | awake | each time if there are at most [`AT_ONCE`], else in turn | no | says so, and is looked at |
//! | resting | one of all in turn, now and then | yes | is looked at, if it rests since the last fence |
//! | ended | until a waiter was told | | |
//!
//! An end that begins to rest passes no [fence over processes](super::doorbell), which would cost more
//! than it saves: a peer that puts something at that very moment may not see that the end rests.
//! What it put is found in turn.
//!
//! Connections with eager messages that were not drained are remembered: to drain is to go to
//! them alone.

use std::collections::VecDeque;
use std::ops::Range;

use super::connection::{Attention, Connection, ShmPollOutcome};
use super::doorbell::{NAP, SleepPolicy, WakeupCertainty, rest_fence, settle};
use super::eager::ShmDrain;
use super::fault::{Fault, planted};
use crate::atomics::StdAtomics;
use crate::rt::Instant;
use crate::vi::DrainId;

#[derive(Debug)]
pub(super) struct ConnectionRounds {
    /// Whether the nic ever sleeps.
    sleep_policy: SleepPolicy,
    /// Each at the place that its number [names](place), as long as a handle to it exists.
    links: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// The places of those that are looked at, and which of them is next, to be polled and to be
    /// drained, if they are many.
    awake: Vec<usize>,
    next: [usize; 2],
    /// How many rest, and the place that is the next to be looked at all the same.
    resting: usize,
    resting_next: usize,
    /// Connections that must be polled before a nic sleeps.
    unseen: OwedLooks,
    /// Whether the nic sleeps, or is about to.
    is_armed: bool,
    /// Turns that have passed since the nic was opened, of at least 100 µs each.
    turn: u32,
    /// The places of those with eager messages, in the order in which they were found.
    ready: VecDeque<usize>,
}

/// What a nic does with its connections, some at a time.
#[derive(Debug, Clone, Copy)]
enum RoundsTask {
    Poll = 0,
    Drain = 1,
}

/// Up to this many connections none rests.
const FEW: usize = 8;
/// Connections that one poll looks at, at most.
const AT_ONCE: usize = 16;
/// Idle turns, of at least 100 µs each, before a connection rests.
const IDLE_MAX: u32 = 10;
/// Messages of a connection that are drained before those of the next, at least.
const SHARE: usize = 8;
/// Bits of a number that are its place.
const PLACE_BITS: u32 = 20;
/// Places that are searched for a resting connection, at most.
const STEPS_MAX: usize = 64;

/// The place in a link's number.
#[inline(always)]
const fn place(id: u64) -> usize {
    (id & ((1 << PLACE_BITS) - 1)) as usize
}

impl ConnectionRounds {
    pub(super) const fn new(sleep_policy: SleepPolicy) -> Self {
        Self {
            sleep_policy,
            links: Vec::new(),
            free: Vec::new(),
            awake: Vec::new(),
            next: [0; 2],
            resting: 0,
            resting_next: 0,
            unseen: OwedLooks::new(),
            is_armed: false,
            turn: 0,
            ready: VecDeque::new(),
        }
    }

    /// The number of the next link, like no other and with a free place, if there is one.
    pub(super) fn number(&self, unique: u64) -> Option<u64> {
        let at = self.free.last().copied().unwrap_or(self.links.len());
        (at < 1 << PLACE_BITS).then_some(unique << PLACE_BITS | at as u64)
    }

    /// Takes a link, which has the [number](Self::number) that was given last.
    pub(super) fn add(&mut self, mut link: Connection) {
        let at = place(link.id);
        if self.free.pop().is_none() {
            self.links.push(None);
        }
        link.attention = Attention::Awake(self.turn);
        // It sleeps from the start, so that what came already has rung.
        if !self.is_armed {
            link.wake();
        }
        self.links[at] = Some(link);
        self.awake.push(at);
    }

    #[inline(always)]
    fn at(&mut self, at: usize) -> Option<&mut Connection> {
        self.links.get_mut(at)?.as_mut()
    }

    /// The connection of this number; it is looked at from now on.
    #[inline(always)]
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Connection> {
        let at = place(id);
        if self.known(id)?.attention == Attention::Resting {
            self.wake(at);
        }
        self.at(at)
    }

    #[inline(always)]
    fn known(&self, id: u64) -> Option<&Connection> {
        self.links.get(place(id))?.as_ref().filter(|link| link.id == id)
    }

    /// The link of a handle, which has it until it is released.
    #[inline(always)]
    pub(super) fn of_handle(&mut self, id: u64) -> &mut Connection {
        self.get(id).expect("a handle keeps it")
    }

    /// The same, to look at.
    pub(super) fn find(&self, id: u64) -> &Connection {
        self.known(id).expect("a handle keeps it")
    }

    /// The connection at this place, unless nothing disturbs it.
    fn disturbed(&mut self, at: usize) -> Option<&mut Connection> {
        if planted(Fault::Undisturbed) { None } else { self.at(at) }
    }

    /// The resting connection at this place is looked at again.
    #[cold]
    fn wake(&mut self, at: usize) {
        let (turn, is_armed) = (self.turn, self.is_armed);
        let Some(link) = self.disturbed(at) else { return };
        link.attention = Attention::Awake(turn);
        // While the nic sleeps its peer is to ring as before.
        if !is_armed {
            link.wake();
        }
        self.resting -= 1;
        self.unseen.forget(at);
        self.awake.push(at);
    }

    /// Ends all, each by `end`.
    pub(super) fn end_all(&mut self, end: impl FnMut(&mut Connection)) {
        self.wake_all();
        self.links.iter_mut().flatten().for_each(end);
        self.sort_out();
    }

    fn wake_all(&mut self) {
        let rests = |at: &usize| self.links[*at].as_ref().is_some_and(Connection::rests);
        let resting: Vec<usize> = (0..self.links.len()).filter(rests).collect();
        resting.into_iter().for_each(|at| self.wake(at));
    }

    /// The last handle to this link is gone: the link is taken out, to be dropped.
    pub(super) fn remove(&mut self, id: u64) -> Option<Connection> {
        self.known(id)?;
        let at = place(id);
        let link = self.links[at].take()?;
        self.resting -= usize::from(link.attention == Attention::Resting);
        self.awake.retain(|awake| *awake != at);
        self.unseen.forget(at);
        self.ready.retain(|ready| *ready != at);
        self.free.push(at);
        Some(link)
    }

    /// A turn has passed: idle connections begin to rest; if there are few connections, all resting
    /// ones wake.
    pub(super) fn time_passes(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        if self.awake.len() + self.resting <= FEW {
            if self.resting > 0 {
                self.wake_all();
            }
        } else if !self.is_armed {
            self.rest();
        }
    }

    /// Stops looking at connections that have ended.
    pub(super) fn sort_out(&mut self) {
        let Self { links, awake, ready, .. } = self;
        awake.retain(|&at| match &mut links[at] {
            Some(link) if link.has_ended() => {
                link.attention = Attention::Ended;
                if link.has_eager() {
                    add(ready, at);
                }
                false
            }
            link => link.is_some(),
        });
    }

    /// Idle connections begin to rest.
    fn rest(&mut self) {
        let Self { links, awake, unseen, turn, .. } = self;
        let mut idle = Vec::new();
        for &at in awake.iter() {
            let Some(link) = &mut links[at] else { continue };
            if let Attention::Awake(last) = link.attention
                && turn.wrapping_sub(last) >= IDLE_MAX
                && !link.may_have_work()
                && !link.has_eager()
            {
                say_rest(link);
                idle.push(at);
            }
        }
        if idle.is_empty() {
            return;
        }
        // From here on this side sees what a peer stored that fences, or whose stores have arrived.
        rest_fence::<StdAtomics>();
        for at in idle {
            let Some(link) = &mut links[at] else { continue };
            if link.may_have_work() {
                link.wake();
                continue;
            }
            link.attention = Attention::Resting;
            self.resting += 1;
            if self.sleep_policy != SleepPolicy::Spins {
                unseen.rests(at);
            }
        }
        let is_awake = |at: &usize| links[*at].as_ref().is_some_and(|link| !link.rests());
        awake.retain(is_awake);
    }

    /// The nic is about to sleep: all say so, and [`look_last`](Self::look_last) follows. See
    /// [`settle`].
    #[must_use]
    pub(super) fn doze(&mut self) -> WakeupCertainty {
        assert_ne!(self.sleep_policy, SleepPolicy::Spins, "this nic said that it never sleeps");
        self.is_armed = true;
        let Self { links, awake, unseen, .. } = self;
        for &at in awake.iter() {
            links[at].iter_mut().for_each(Connection::doze);
        }
        let all = awake.iter().chain(unseen.all());
        settle(all.filter_map(|at| links[*at].as_ref()?.sleeper()))
    }

    /// The nic is awake.
    pub(super) fn disarm(&mut self) {
        self.is_armed = false;
        let Self { links, awake, .. } = self;
        for &at in awake.iter() {
            links[at].iter_mut().for_each(Connection::wake);
        }
    }

    /// Polls all that were not asleep before the last fence, behind which the bells are like this,
    /// and those that a fence before may have missed.
    pub(super) fn look_last(
        &mut self,
        bells: WakeupCertainty,
        now: Instant,
        mut poll: impl FnMut(&mut Connection) -> ShmPollOutcome,
    ) {
        for at in 0..self.awake.len() {
            self.poll_at(self.awake[at], &mut poll);
        }
        for at in self.unseen.behind_fence(bells, now) {
            if self.poll_at(at, &mut poll) != ShmPollOutcome::Nothing {
                self.wake(at);
            }
        }
    }

    /// Whether some rest, so that the nic has to check doorbells though it is awake.
    #[inline(always)]
    pub(super) const fn has_resting(&self) -> bool {
        self.resting > 0
    }

    /// Whether a thread sleeps, which must be woken for events that another thread reads.
    pub(super) fn is_armed(&self) -> bool {
        self.is_armed && !planted(Fault::HeardByOthers)
    }

    /// How many a poll looks at, at most.
    #[inline]
    pub(super) fn looks_at(&self) -> usize {
        self.awake.len().min(AT_ONCE)
    }

    /// Looks at one resting connection whose doorbell was not rung.
    pub(super) fn look_at_resting(&mut self) {
        for _ in 0..self.links.len().min(STEPS_MAX) {
            let at = self.resting_next;
            self.resting_next = if at + 1 < self.links.len() { at + 1 } else { 0 };
            let Some(Some(link)) = self.links.get(at) else { continue };
            if link.rests() {
                if link.may_have_work() {
                    self.wake(at);
                }
                return;
            }
        }
    }

    /// Whether a poll could find something to do. A few loads, and no call, for few that have
    /// nothing.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        self.resting > 0
            || self.awake.len() > FEW
            || self.looked_at().any(Connection::may_have_work)
    }

    #[inline(always)]
    fn looked_at(&self) -> impl Iterator<Item = &Connection> {
        self.awake.iter().filter_map(|&at| self.links[at].as_ref())
    }

    /// Whose turn it is, of those that are awake.
    #[inline]
    fn whose_turn(&mut self, what: RoundsTask) -> Range<usize> {
        let (count, next) = (self.awake.len(), &mut self.next[what as usize]);
        if count <= AT_ONCE {
            return 0..count;
        }
        let first = if *next < count { *next } else { 0 };
        *next = count.min(first + AT_ONCE);
        first..*next
    }

    /// Polls the connections whose turn it is.
    #[inline]
    pub(super) fn poll_some(&mut self, mut poll: impl FnMut(&mut Connection) -> ShmPollOutcome) {
        for at in self.whose_turn(RoundsTask::Poll) {
            let at = self.awake[at];
            let are_few = self.resting == 0 && self.awake.len() <= FEW;
            if are_few || self.links[at].as_ref().is_some_and(Connection::may_have_work) {
                self.poll_at(at, &mut poll);
            }
        }
    }

    /// Polls one, which has rung.
    pub(super) fn poll_one(
        &mut self,
        id: u64,
        mut poll: impl FnMut(&mut Connection) -> ShmPollOutcome,
    ) {
        if self.get(id).is_some() {
            self.poll_at(place(id), &mut poll);
        }
    }

    #[inline(never)]
    fn poll_at(
        &mut self,
        at: usize,
        poll: &mut impl FnMut(&mut Connection) -> ShmPollOutcome,
    ) -> ShmPollOutcome {
        let turn = self.turn;
        let Some(link) = self.at(at) else { return ShmPollOutcome::Nothing };
        let polled = poll(link);
        if polled != ShmPollOutcome::Nothing
            && let Attention::Awake(last) = &mut link.attention
        {
            *last = turn;
        }
        if matches!(polled, ShmPollOutcome::Eager | ShmPollOutcome::Gone) {
            add(&mut self.ready, at);
        }
        polled
    }

    /// Notes a connection that has eager messages, or has ended and may have some.
    pub(super) fn is_ready(&mut self, id: u64) {
        add(&mut self.ready, place(id));
    }

    /// Whether a drain could find something. A few loads, and no call, for few that have nothing.
    #[inline(always)]
    pub(super) fn may_have_eager(&self, drain: DrainId) -> bool {
        !self.ready.is_empty()
            || self.awake.len() > FEW
            || self.looked_at().any(|link| link.drain == drain && link.has_eager())
    }

    /// Drains the connections of a drain that have something.
    #[inline]
    pub(super) fn drain(&mut self, drain: DrainId, draining: &mut ShmDrain<'_, '_>) {
        if !self.ready.is_empty() {
            self.drain_ready(drain, draining);
        }
        // What has come since the last poll: who waits drains again and again.
        if self.resting > 0 || self.awake.len() > FEW {
            return self.drain_many(drain, draining);
        }
        let Self { links, awake, ready, .. } = self;
        for &at in &*awake {
            if let Some(link) = &mut links[at]
                && link.drain == drain
                && link.drain(draining)
            {
                add(ready, at);
            }
        }
    }

    #[inline(never)]
    fn drain_many(&mut self, drain: DrainId, draining: &mut ShmDrain<'_, '_>) {
        let whose_turn = self.whose_turn(RoundsTask::Drain);
        let Self { links, awake, ready, turn, .. } = self;
        for &at in &awake[whose_turn] {
            let Some(link) = &mut links[at] else { continue };
            if link.drain == drain && link.has_eager() {
                link.attention = Attention::Awake(*turn);
                if drain_one(link, draining) {
                    add(ready, at);
                }
            }
        }
    }

    /// Each connection has its share, so that none waits long for another that floods.
    #[inline(never)]
    fn drain_ready(&mut self, drain: DrainId, draining: &mut ShmDrain<'_, '_>) {
        for left in (1..=self.ready.len()).rev() {
            if draining.left == 0 {
                break;
            }
            let Some(at) = self.ready.pop_front() else { break };
            let Some(link) = self.at(at) else { continue };
            if link.drain != drain {
                if link.has_eager() {
                    self.ready.push_back(at);
                }
                continue;
            }
            let most = draining.left;
            draining.left = (most / left).max(SHARE).min(most);
            let (share, has_more) = (draining.left, drain_one(link, draining));
            draining.left += most - share;
            if has_more {
                self.ready.push_back(at);
            }
        }
    }
}

#[inline(never)]
fn drain_one(link: &mut Connection, draining: &mut ShmDrain<'_, '_>) -> bool {
    link.drain(draining)
}

#[cold]
fn add(ready: &mut VecDeque<usize>, at: usize) {
    if !ready.contains(&at) {
        ready.push_back(at);
    }
}

/// The places of those that rest and are owed a look.
///
/// An end that begins to rest passes no fence over processes, so a look behind the next one is owed
/// to it. That fence may have [missed](super::doorbell) a peer, so it is owed another look a
/// [nap](NAP) later.
#[derive(Debug)]
struct OwedLooks {
    /// Since the last fence over processes.
    unfenced: Vec<usize>,
    /// Behind such a fence, and when the other look is due.
    doubted: Vec<usize>,
    due: Option<Instant>,
}

impl OwedLooks {
    const fn new() -> Self {
        Self { unfenced: Vec::new(), doubted: Vec::new(), due: None }
    }

    /// The connection at this place rests.
    fn rests(&mut self, at: usize) {
        self.unfenced.push(at);
    }

    /// The connection at this place stops resting.
    fn forget(&mut self, at: usize) {
        self.unfenced.retain(|resting| *resting != at);
        self.doubted.retain(|resting| *resting != at);
    }

    fn all(&self) -> impl Iterator<Item = &usize> {
        self.unfenced.iter().chain(&self.doubted)
    }

    /// Connections to poll now, behind a fence, given which doorbells are armed.
    fn behind_fence(&mut self, bells: WakeupCertainty, now: Instant) -> Vec<usize> {
        let mut owed = self.unfenced.clone();
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            owed.append(&mut self.doubted);
        }
        match bells {
            WakeupCertainty::Sure => self.unfenced.clear(),
            WakeupCertainty::Likely if self.due.is_none() && !self.unfenced.is_empty() => {
                self.due = Some(now + NAP);
                self.doubted.append(&mut self.unfenced);
            }
            // Behind the next fence once more.
            WakeupCertainty::Likely | WakeupCertainty::Doubtful => {}
        }
        owed
    }
}

/// An idle connection says that it sleeps, though its nic is awake.
fn say_rest(link: &mut Connection) {
    if !planted(Fault::RestUnsaid) {
        link.doze();
    }
}
