//! The registry without I/O and clock: the members, one log of events, names.
//!
//! Nodes are known by the link of their requests, `P`. Each request has a ticket, and is answered once,
//! at once or later: [`take_out`](RegistryState::take_out) has the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::Instant;
use egret_net::vi::PublicKey;

use super::fault::{self, Fault, planted};
use super::limits::{self, ChangeAllowance, UsedKeys, cut_reason};
use super::names::BoundNames;
use crate::pool::log::BoundedLog;
use crate::pool::state::PoolState;
use crate::pool::wire::{JoinRequest, LogEntry, NAME_MAX, RegistryAnswer, RegistryQuestion};
use crate::pool::{Departure, EventLog, Member, NodeId, RegistryRefusal};

/// The members, the log of events, and the bound names.
#[derive(Debug)]
pub(crate) struct RegistryState<P> {
    pub(super) terms: PoolTerms,
    /// The pool, as of all entries of the log.
    pub(super) pool: PoolState,
    /// The member at each host of a fabric: there is one.
    hosts: BTreeMap<(String, String), NodeId>,
    pub(super) log: BoundedLog<LogEntry>,
    /// What the entries mean, for the process of the registry.
    pub(super) events: EventLog,
    /// The entries below this number were sent to all members that wait for events, at that time.
    told: (u64, Option<Instant>),
    /// The latest state that was sent to a member.
    snapshot: Option<Arc<PoolSnapshot>>,
    /// Bytes of what all members say of themselves.
    described: usize,
    /// The node of each link.
    pub(super) seats: BTreeMap<P, MemberLink>,
    pub(super) names: BoundNames<P>,
    /// A key is used by one life only.
    keys: UsedKeys,
    /// When [`tick`](Self::tick) was last called.
    looked: Option<Instant>,
    out: Vec<(Ticket, Option<Arc<RegistryAnswer>>)>,
    /// Links that have become those of members, and links that are not any more.
    moved: Vec<(P, bool)>,
}

/// The number of a request, which its answer has too.
pub(crate) type Ticket = u64;

/// The fixed parameters of a pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolTerms {
    pub(crate) pool: String,
    /// The size of a closed pool, or how many members an open one has at most at a time.
    pub(crate) size: u32,
    pub(crate) is_open: bool,
    /// How long a request for events waits until the node is probed.
    pub(crate) silent: Duration,
    /// How long a node that is probed has to answer.
    pub(crate) patience: Duration,
}

#[derive(Debug)]
pub(super) struct MemberLink {
    id: NodeId,
    /// How it came to be no member any more.
    gone: Option<Departure>,
    /// If a request for events waits: since when. If none does, the node owes one: since when it last
    /// sent or received something.
    since: Instant,
    /// The request for events that waits, and the entry that it waits for.
    pub(super) follow: Option<(Ticket, u64)>,
    allowance: ChangeAllowance,
    /// The state that is sent to the node in pieces, and how much of it was sent.
    snapshot: Option<(Arc<PoolSnapshot>, usize)>,
}

/// The state of the pool as it is sent to members that are far behind.
#[derive(Debug)]
struct PoolSnapshot {
    /// The entry that follows.
    next: u64,
    bytes: Vec<u8>,
}

impl MemberLink {
    /// The node, unless it is no member any more.
    fn member(&self) -> Result<NodeId, RegistryRefusal> {
        match &self.gone {
            None => Ok(self.id),
            Some(_) if planted(Fault::NotFenced) => Ok(self.id),
            Some(Departure::Left) => Err(RegistryRefusal::NotMember),
            Some(Departure::Died { why }) => Err(RegistryRefusal::Fenced { why: why.clone() }),
        }
    }

    /// Whether the node dies when the link ends.
    fn dies(&self) -> bool {
        self.gone.is_none() || planted(Fault::TwiceDead)
    }
}

impl PoolTerms {
    /// The size of a closed pool.
    pub(super) fn closed_size(&self) -> Option<u32> {
        (!self.is_open).then_some(self.size)
    }

    /// Whether a node that was probed, and has been quiet for so long, is dead.
    fn is_dead(&self, quiet: Duration) -> bool {
        quiet >= self.patience && !planted(Fault::Deaf)
    }

    /// Whether a node that has been quiet for so long is to be probed.
    fn is_probed(&self, quiet: Duration) -> bool {
        quiet >= self.silent && !planted(Fault::Unasked)
    }
}

impl<P: Ord + Clone> RegistryState<P> {
    pub(crate) fn new(terms: PoolTerms) -> Self {
        Self {
            pool: PoolState::of_size(terms.closed_size()),
            terms,
            log: BoundedLog::beginning_at(0),
            hosts: BTreeMap::new(),
            events: EventLog::new(),
            told: (0, None),
            snapshot: None,
            described: 0,
            seats: BTreeMap::new(),
            names: BoundNames::new(),
            keys: UsedKeys::default(),
            looked: None,
            out: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// Handles a request.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        (from, key): (&P, Option<PublicKey>),
        ticket: Ticket,
        ask: RegistryQuestion,
    ) {
        let answer = match ask {
            RegistryQuestion::Join(join) => Some(self.join(now, (from, key), join)),
            ask => match self.seat(now, from) {
                Ok(id) => self.member_asks(now, from, id, ticket, ask),
                // It is told how it came to its end, as everybody is.
                Err(RegistryRefusal::Fenced { .. })
                    if matches!(ask, RegistryQuestion::Follow { .. }) =>
                {
                    self.follow(now, from, ticket, &ask);
                    None
                }
                Err(why) => Some(RegistryAnswer::Refused(why)),
            },
        };
        if let Some(answer) = answer {
            self.answer(ticket, answer);
        }
        self.tell(now);
    }

    /// Answers a request.
    fn answer(&mut self, ticket: Ticket, answer: RegistryAnswer) {
        self.out.push((ticket, Some(Arc::new(answer))));
    }

    /// Whether the node of a link has left: requests that it had sent before may arrive after that.
    pub(super) fn has_left(&self, from: &P) -> bool {
        self.seats.get(from).is_some_and(|seat| matches!(seat.gone, Some(Departure::Left)))
    }

    /// Why the request that was just handled was refused, if it was.
    pub(super) fn refused(&self, ticket: Ticket) -> Option<&RegistryRefusal> {
        let (_, answer) = self.out.iter().find(|(asked, _)| *asked == ticket)?;
        match answer.as_deref()? {
            RegistryAnswer::Refused(why) => Some(why),
            _ => None,
        }
    }

    fn member_asks(
        &mut self,
        now: Instant,
        from: &P,
        id: NodeId,
        ticket: Ticket,
        ask: RegistryQuestion,
    ) -> Option<RegistryAnswer> {
        if let Err(why) = self.charge(now, from, &ask) {
            return Some(RegistryAnswer::Refused(why));
        }
        match ask {
            RegistryQuestion::Join(_) => None,
            RegistryQuestion::Follow { .. } => {
                self.follow(now, from, ticket, &ask);
                None
            }
            RegistryQuestion::Bind { name, bytes, replace } => {
                let (answer, bound) = self.names.bind(id, name, bytes, replace);
                bound.into_iter().for_each(|(ticket, bound)| self.answer(ticket, bound));
                Some(answer)
            }
            RegistryQuestion::Unbind { name, bytes } => Some(self.names.unbind(id, &name, &bytes)),
            RegistryQuestion::Lookup { name, wait_ms } => {
                let until = now.checked_add(Duration::from_millis(wait_ms));
                let until = until.filter(|_| wait_ms > 0);
                let vain = self.waits_in_vain(id, &name);
                vain.or_else(|| self.names.lookup(from, ticket, &name, until))
            }
            RegistryQuestion::Leave => {
                self.leave(from, id);
                Some(RegistryAnswer::Done)
            }
            RegistryQuestion::Enter { view } => Some(self.enter(id, view)),
            RegistryQuestion::Exit { view } => {
                if self.is_in(id, &view) {
                    self.append(LogEntry::Exited { view, node: id });
                }
                Some(self.reached())
            }
            RegistryQuestion::Signal { to, bytes } => Some(self.signal(id, to, bytes)),
            RegistryQuestion::Close => {
                if self.pool.closed_by().is_none() {
                    self.append(LogEntry::Closed { by: id });
                    self.tell_the_last();
                }
                Some(self.reached())
            }
            RegistryQuestion::Terminate => {
                if self.pool.terminated_by().is_none() {
                    self.append(LogEntry::Terminated { by: id });
                    self.tell_the_last();
                }
                Some(self.reached())
            }
            RegistryQuestion::Suspect { node } => {
                self.suspect(now, node);
                Some(RegistryAnswer::Done)
            }
            RegistryQuestion::Names { prefix, after } => {
                Some(self.names.list(&prefix, after.as_deref()))
            }
            RegistryQuestion::Free { name } => Some(self.names.free(id, &name)),
        }
    }

    /// Takes what a change that is sent to all members costs from the allowance of the member that makes it.
    fn charge(
        &mut self,
        now: Instant,
        from: &P,
        ask: &RegistryQuestion,
    ) -> Result<(), RegistryRefusal> {
        let bytes = match ask {
            RegistryQuestion::Enter { view } | RegistryQuestion::Exit { view } => view.len(),
            RegistryQuestion::Signal { to, bytes } => size_of_val(&to[..]) + bytes.len(),
            _ => return Ok(()),
        };
        self.seats.get_mut(from).map_or(Ok(()), |seat| seat.allowance.take(now, bytes))
    }

    /// The answer that what was requested is in the log by now.
    fn reached(&self) -> RegistryAnswer {
        RegistryAnswer::Reached { next: self.pool.next() }
    }

    fn is_in(&self, node: NodeId, view: &str) -> bool {
        self.pool.view(view).is_some_and(|view| view.has(node))
    }

    fn enter(&mut self, node: NodeId, view: String) -> RegistryAnswer {
        if self.is_in(node, &view) {
            return self.reached();
        }
        let large = |what, most: usize| {
            RegistryAnswer::Refused(RegistryRefusal::TooLarge { what, most: most as u64 })
        };
        if view.len() > NAME_MAX {
            return large(format!("the name of a view has {} bytes", view.len()), NAME_MAX);
        }
        let own = self.pool.views_of(node);
        if own >= limits::VIEWS_MAX {
            return large(format!("{node} is in {own} views"), limits::VIEWS_MAX);
        }
        self.append(LogEntry::Entered { view, node });
        self.reached()
    }

    fn signal(&mut self, from: NodeId, to: Vec<NodeId>, bytes: Vec<u8>) -> RegistryAnswer {
        let len = bytes.len() + to.len() * size_of::<NodeId>();
        if len > limits::BOUND_MAX {
            let what = format!("a signal of {} bytes to {} nodes has {len}", bytes.len(), to.len());
            let most = limits::BOUND_MAX as u64;
            return RegistryAnswer::Refused(RegistryRefusal::TooLarge { what, most });
        }
        self.append(LogEntry::Signal { from, to, bytes });
        self.reached()
    }

    /// Probes a member now, instead of when it has been silent for long.
    fn suspect(&mut self, now: Instant, node: NodeId) {
        let Some(seat) = self.seats.values_mut().find(|seat| seat.member() == Ok(node)) else {
            return;
        };
        // A node that has just shown that it lives is not probed.
        let is_due = now - seat.since >= SUSPECTED;
        if let Some((ticket, first)) = seat.follow.take_if(|_| is_due) {
            seat.since = now;
            self.answer(ticket, RegistryAnswer::Events { first, entries: Vec::new() });
        }
    }

    /// The answer that this node need not wait for a name, if no node can bind it.
    fn waits_in_vain(&self, id: NodeId, name: &str) -> Option<RegistryAnswer> {
        // In an open pool another node may bind it.
        if self.names.bound.contains_key(name) || self.may_grow() || planted(Fault::InVain) {
            return None;
        }
        let gone = self.names.last.get(name).and_then(|owner| self.owner_gone(name, *owner));
        let nobody = || RegistryAnswer::NobodyLeft { name: name.to_owned() };
        gone.or_else(|| (self.alone() == Some(id)).then(nobody))
    }

    /// The only node of several that is not gone, and none can come in its place.
    fn alone(&self) -> Option<NodeId> {
        let is_final = self.pool.is_complete() || self.pool.closed_by().is_some();
        let no_more_come = is_final && self.terms.size > 1;
        let mut here = self.pool.members().values().filter(|_| no_more_come);
        here.next().filter(|_| here.next().is_none()).map(|member| member.id)
    }

    /// Whether nodes may join of which nothing is known.
    fn may_grow(&self) -> bool {
        self.terms.is_open && self.pool.closed_by().is_none()
    }

    /// The answer for a name whose last owner was this node, if the node is gone.
    fn owner_gone(&self, name: &str, owner: NodeId) -> Option<RegistryAnswer> {
        let fate = self.pool.fate(owner)?;
        Some(RegistryAnswer::OwnerGone { name: name.to_owned(), owner, fate })
    }

    /// The member that sends a request over this link, which shows that it is alive.
    fn seat(&mut self, now: Instant, from: &P) -> Result<NodeId, RegistryRefusal> {
        let seat = self.seats.get_mut(from).ok_or(RegistryRefusal::NotMember)?;
        if seat.follow.is_none() {
            seat.since = now;
        }
        seat.member()
    }

    fn join(
        &mut self,
        now: Instant,
        (from, key): (&P, Option<PublicKey>),
        join: JoinRequest,
    ) -> RegistryAnswer {
        let rank = match self.may_join((from, key), &join) {
            Ok(rank) => rank,
            Err(why) => return RegistryAnswer::Refused(why),
        };
        let id = NodeId { rank, incarnation: self.next_incarnation() };
        if !self.terms.is_open {
            self.names.begin_anew(rank);
        }
        self.seats.insert(
            from.clone(),
            MemberLink {
                id,
                gone: None,
                since: now,
                follow: None,
                allowance: ChangeAllowance::new(now),
                snapshot: None,
            },
        );
        self.moved.push((from.clone(), true));
        let JoinRequest { machine, location, fabrics, .. } = join;
        if let Some(key) = key {
            self.keys.insert(key, id);
        }
        self.append(LogEntry::Joined(Member::new(id, machine, location, fabrics, key)));
        let heard = (self.terms.silent + self.terms.patience).as_millis();
        let heard_ms = u64::try_from(heard).unwrap_or(u64::MAX);
        let PoolTerms { size, is_open, .. } = self.terms;
        RegistryAnswer::Welcome { id, size, is_open, heard_ms }
    }

    fn may_join(
        &self,
        (from, key): (&P, Option<PublicKey>),
        join: &JoinRequest,
    ) -> Result<u32, RegistryRefusal> {
        let PoolTerms { pool, size, is_open, .. } = &self.terms;
        if let Some(seat) = self.seats.get(from) {
            return Err(RegistryRefusal::JoinedAlready { id: seat.id });
        }
        if let Some(by) = self.last_user(key) {
            return Err(RegistryRefusal::KeyUsed { by });
        }
        if join.pool != *pool {
            return Err(RegistryRefusal::OtherPool { pool: pool.clone() });
        }
        if *is_open && (join.size.is_some() || join.rank.is_some()) {
            return Err(RegistryRefusal::OpenPool);
        }
        if join.is_open && !*is_open {
            return Err(RegistryRefusal::NotOpen { size: *size });
        }
        if join.size.is_some_and(|asked| asked != *size) {
            return Err(RegistryRefusal::OtherSize { size: *size });
        }
        if let Some(by) = self.pool.closed_by().filter(|_| !planted(Fault::ClosedOpen)) {
            return Err(RegistryRefusal::PoolClosed { by });
        }
        limits::check_description(join, self.described)?;
        if key.is_some() {
            self.check_hosts(join)?;
        }
        match join.rank {
            Some(rank) if rank >= *size => Err(RegistryRefusal::NoSuchRank { size: *size }),
            Some(rank) => match self.pool.members().get(&rank) {
                Some(member) => Err(RegistryRefusal::RankTaken { by: member.id }),
                None => Ok(rank),
            },
            None => self.free_rank(),
        }
    }

    /// The first rank that is free; in an open pool the first one that was never used.
    fn free_rank(&self) -> Result<u32, RegistryRefusal> {
        let (members, size) = (self.pool.members(), self.terms.size);
        if members.len() >= size as usize {
            return Err(RegistryRefusal::PoolFull { size });
        }
        if self.terms.is_open {
            let joined = self.pool.incarnation();
            return u32::try_from(joined).map_err(|_| RegistryRefusal::PoolFull { size: u32::MAX });
        }
        let taken = members.keys().zip(0..).take_while(|(rank, at)| *rank == at);
        Ok(taken.last().map_or(0, |(rank, _)| rank + 1))
    }

    fn next_incarnation(&self) -> u64 {
        let last = self.pool.incarnation();
        if planted(Fault::SameIncarnation) && last > 0 { last } else { last + 1 }
    }

    /// The node that a key was used by.
    fn last_user(&self, key: Option<PublicKey>) -> Option<NodeId> {
        let id = key.and_then(|key| self.keys.user(&key));
        id.filter(|_| !planted(Fault::KeyReused))
    }

    /// Checks that no member has one of the hosts of a node that joins: others would take its key for
    /// that of the member.
    fn check_hosts(&self, join: &JoinRequest) -> Result<(), RegistryRefusal> {
        if planted(Fault::HostShared) {
            return Ok(());
        }
        for offer in &join.fabrics {
            let by = self.hosts.get(&(offer.fabric.clone(), offer.host.clone()));
            if let Some(by) = by.copied() {
                return Err(RegistryRefusal::HostTaken { host: offer.host.clone(), by });
            }
        }
        Ok(())
    }

    /// Keeps a request for events until there are some. A node has one such request; the one before is
    /// not answered.
    fn follow(&mut self, now: Instant, from: &P, ticket: Ticket, ask: &RegistryQuestion) {
        let (Some(seat), RegistryQuestion::Follow { next }) = (self.seats.get_mut(from), ask)
        else {
            return;
        };
        seat.since = now;
        let before = seat.follow.replace((ticket, *next));
        self.out.extend(before.map(|(before, _)| (before, None)));
        // A node that is behind the others need not wait for them.
        if *next < self.told.0 {
            self.answer_follow(now, from);
        }
    }

    /// Sends a member that waits for events those that there are.
    fn answer_follow(&mut self, now: Instant, from: &P) {
        let Some(seat) = self.seats.get_mut(from) else { return };
        if let Some((ticket, next)) = seat.follow.filter(|(_, next)| *next < self.log.next()) {
            (seat.follow, seat.since) = (None, now);
            let id = seat.id;
            let answer = match self.piece_for(from, next) {
                Some(piece) => piece,
                None => self.entries_from(next, id).0,
            };
            self.answer(ticket, answer);
        }
    }

    /// A piece of the state of the pool, for a member that waits for an entry which is not kept, or which so many
    /// follow that the state is shorter.
    fn piece_for(&mut self, from: &P, next: u64) -> Option<RegistryAnswer> {
        let is_short = || {
            let behind = self.log.next() - next;
            self.terms.is_open && behind > FOLLOWED.max(2 * self.pool.weight())
        };
        let seat = self.seats.get_mut(from)?;
        let (state, sent) = match seat.snapshot.take().filter(|(state, _)| next < state.next) {
            Some(begun) => begun,
            None if next < self.log.first() || is_short() => {
                let is_usable = |state: &&Arc<PoolSnapshot>| {
                    state.next >= self.log.first()
                        && state.next > next
                        && self.log.next() - state.next < FOLLOWED
                };
                let state = self.snapshot.as_ref().filter(is_usable).cloned();
                let state = state.unwrap_or_else(|| {
                    let state = self.pool.snapshot();
                    Arc::new(PoolSnapshot { next: state.next(), bytes: state.to_bytes() })
                });
                self.snapshot = Some(Arc::clone(&state));
                (state, 0)
            }
            None => return None,
        };
        let end = state.bytes.len().min(sent + limits::PIECE);
        let (offset, total) = (sent as u64, state.bytes.len() as u64);
        let bytes = state.bytes[sent..end].to_vec();
        seat.snapshot = Some((state, end)).filter(|(state, end)| *end < state.bytes.len());
        Some(RegistryAnswer::Snapshot { offset, total, bytes })
    }

    /// What a member is sent that waits for this entry of the log, and whether other members are sent the same.
    fn entries_from(&self, next: u64, node: NodeId) -> (RegistryAnswer, bool) {
        let (entries, is_same) = limits::batch(&self.log, next, node);
        let (entries, is_same) = fault::told((entries, is_same), self.log.get(0), node);
        (RegistryAnswer::Events { first: next, entries }, is_same)
    }

    fn leave(&mut self, from: &P, id: NodeId) {
        if let Some(seat) = self.seats.get_mut(from) {
            seat.gone = Some(Departure::Left);
            self.moved.push((from.clone(), false));
        }
        self.gone(id, Departure::Left);
    }

    /// A node is no member any more.
    fn gone(&mut self, id: NodeId, fate: Departure) {
        let entry = match fate {
            Departure::Left => LogEntry::Left(id),
            Departure::Died { why } => LogEntry::Died { node: id, why },
        };
        self.append(entry);
        self.free_names(id);
        self.tell_the_last();
    }

    /// Frees the names of a node that is gone, and tells those who wait for them.
    fn free_names(&mut self, id: NodeId) {
        if planted(Fault::NamesKept) {
            return;
        }
        for (ticket, name) in self.names.forget(id, !self.may_grow()) {
            let answer = self.owner_gone(&name, id);
            self.out.push((ticket, answer.map(Arc::new)));
        }
    }

    /// If one node is left of all, ends its waits for names, which no node can bind any more.
    fn tell_the_last(&mut self) {
        let Some(alone) = self.alone() else { return };
        let last = self.seats.iter().find(|(_, seat)| seat.id == alone);
        let waits = last.map(|(from, _)| self.names.stop_waiting(from)).unwrap_or_default();
        for (ticket, name) in waits {
            self.answer(ticket, RegistryAnswer::NobodyLeft { name });
        }
    }

    /// A link has ended: its node has died, unless it had left.
    pub(crate) fn link_ended(&mut self, now: Instant, from: &P, why: &str) {
        let Some(seat) = self.seats.remove(from) else { return };
        let waits = self.names.stop_waiting(from);
        let waits = waits.into_iter().map(|(ticket, _)| ticket);
        let tickets = waits.chain(seat.follow.map(|(ticket, _)| ticket));
        self.out.extend(tickets.map(|ticket| (ticket, None)));
        if seat.dies() {
            self.gone(seat.id, Departure::Died { why: cut_reason(why, self.terms.size) });
        }
        self.tell(now);
    }

    /// The process of a rank has ended, as its launcher reports.
    pub(crate) fn process_ended(&mut self, now: Instant, rank: u32, why: &str) {
        let why = cut_reason(why, self.terms.size);
        match self.pool.last(rank).filter(|_| !self.terms.is_open) {
            Some((id, None)) => self.declare_dead(id, why),
            Some(_) => {}
            None if self.terms.closed_size().is_some_and(|size| rank < size) => {
                self.gone(NodeId { rank, incarnation: 0 }, Departure::Died { why });
            }
            None => {}
        }
        self.tell(now);
    }

    /// The process of the registry knows that a member is dead.
    pub(crate) fn declare_member_dead(&mut self, now: Instant, node: NodeId, why: &str) {
        if self.pool.member(node).is_some() {
            self.declare_dead(node, cut_reason(why, self.terms.size));
        }
        self.tell(now);
    }

    fn declare_dead(&mut self, id: NodeId, why: String) {
        if let Some((from, seat)) = self.seats.iter_mut().find(|(_, seat)| seat.id == id) {
            seat.gone = Some(Departure::Died { why: why.clone() });
            self.moved.push((from.clone(), false));
        }
        self.gone(id, Departure::Died { why });
    }

    /// Advances the time: probes nodes that have sent nothing for long, declares nodes dead that were
    /// probed and have not answered, and ends waits for names whose time is over.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.forgive(now);
        let (terms, mut dead) = (&self.terms, Vec::new());
        for seat in self.seats.values_mut().filter(|seat| seat.gone.is_none()) {
            let quiet = now - seat.since;
            match seat.follow {
                None if terms.is_dead(quiet) => dead.push(seat.id),
                Some((ticket, first)) if terms.is_probed(quiet) => {
                    (seat.follow, seat.since) = (None, now);
                    let probe = RegistryAnswer::Events { first, entries: Vec::new() };
                    self.out.push((ticket, Some(Arc::new(probe))));
                }
                _ => {}
            }
        }
        for id in dead {
            let why = format!("it has not answered for {:?}", self.terms.patience);
            self.declare_dead(id, why);
        }
        for (ticket, name) in self.names.late(now) {
            let answer = self.names.not_bound(&name);
            self.answer(ticket, answer);
        }
        self.tell(now);
    }

    /// Does not count the time in which the registry was stopped, or got no time from its machine:
    /// it could receive nothing then.
    fn forgive(&mut self, now: Instant) {
        let gap = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        let stopped = gap.saturating_sub(2 * LOOK);
        if stopped.is_zero() || planted(Fault::Unforgiving) {
            return;
        }
        for seat in self.seats.values_mut() {
            seat.since = (seat.since + stopped).min(now);
        }
    }

    /// When [`tick`](Self::tick) has something to do. It is to be called every
    /// [`LOOK`] at least.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let PoolTerms { silent, patience, .. } = self.terms;
        let here = self.seats.values().filter(|seat| seat.gone.is_none());
        let look = self.looked.map(|looked| looked + LOOK);
        let due = here.map(|seat| {
            let due = seat.since + if seat.follow.is_some() { silent } else { patience };
            look.map_or(due, |look| look.min(due))
        });
        due.chain(self.names.next_event()).chain(self.next_telling()).min()
    }

    /// Appends an entry to the log.
    fn append(&mut self, entry: LogEntry) {
        match &entry {
            LogEntry::Joined(member) => {
                let hosts = member.fabrics.iter().map(|it| (it.fabric.clone(), it.host.clone()));
                self.hosts.extend(hosts.map(|host| (host, member.id)));
                self.described +=
                    limits::description(&member.machine, &member.location, &member.fabrics);
            }
            LogEntry::Left(node) | LogEntry::Died { node, .. } => {
                if let Some(member) = self.pool.member(*node) {
                    self.described -=
                        limits::description(&member.machine, &member.location, &member.fabrics);
                    let hosts =
                        member.fabrics.iter().map(|it| (it.fabric.clone(), it.host.clone()));
                    for host in hosts.collect::<Vec<_>>() {
                        if self.hosts.get(&host) == Some(node) {
                            self.hosts.remove(&host);
                        }
                    }
                }
            }
            _ => {}
        }
        debug_assert!(self.pool.allows(&entry) || egret_net::rt::fault().is_some(), "{entry:?}");
        let (number, bytes) = (self.pool.next(), entry.len());
        self.pool.apply(&entry, |event| self.events.push(number, event));
        self.log.push(entry, bytes);
    }

    /// Sends new entries of the log to the members that wait for some: at once if the last ones were sent
    /// long ago, else together with those that come soon.
    fn tell(&mut self, now: Instant) {
        if self.next_telling().is_none_or(|due| due > now) {
            return;
        }
        self.told = (self.log.next(), Some(now));
        let waiting = self.seats.iter_mut().filter_map(|(from, seat)| {
            let (ticket, next) = seat.follow.take_if(|(_, next)| *next < self.log.next())?;
            seat.since = now;
            Some((from.clone(), ticket, next, seat.id))
        });
        let waiting: Vec<_> = waiting.collect();
        // Most of them wait for the same entry.
        let mut same: BTreeMap<u64, Arc<RegistryAnswer>> = BTreeMap::new();
        for (from, ticket, next, node) in waiting {
            if let Some(piece) = self.piece_for(&from, next) {
                self.answer(ticket, piece);
                continue;
            }
            let answer = match same.get(&next) {
                Some(answer) => Arc::clone(answer),
                None => {
                    let (answer, is_same) = self.entries_from(next, node);
                    let answer = Arc::new(answer);
                    if is_same {
                        same.insert(next, Arc::clone(&answer));
                    }
                    answer
                }
            };
            self.out.push((ticket, Some(answer)));
        }
    }

    /// When new entries are sent to all who wait for some, if there are any.
    fn next_telling(&self) -> Option<Instant> {
        let (told, at) = self.told;
        (told < self.log.next()).then(|| at.map_or(Instant::default(), |at| at + TOGETHER))
    }

    /// Takes the links that have become those of members (`true`), and those that are not any more.
    pub(crate) fn take_moved(&mut self) -> Vec<(P, bool)> {
        std::mem::take(&mut self.moved)
    }

    /// Answers, by their tickets; a ticket without one is not answered.
    pub(crate) fn take_out(&mut self) -> Vec<(Ticket, Option<Arc<RegistryAnswer>>)> {
        std::mem::take(&mut self.out)
    }
}

/// The longest time between two calls of `tick`.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Entries by which a member of an open pool may be behind, and is still sent entries.
const FOLLOWED: u64 = 64;
/// How long after it has shown that it lives a member may be suspected.
const SUSPECTED: Duration = Duration::from_millis(100);
/// The longest time for which events wait to travel together.
pub(super) const TOGETHER: Duration = Duration::from_millis(2);
