//! The registry without I/O and clock: the members, one log of events, names.
//!
//! Nodes are known by the link of their requests, `P`. Each request has a ticket, and is answered once,
//! at once or later: [`take_out`](RegistryState::take_out) has the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use egret_net::rt::Instant;
use egret_net::vi::PublicKey;

use super::fault::{self, Fault, planted};
use super::limits::{self, cut_reason};
use super::names::BoundNames;
use crate::pool::wire::{JoinRequest, LogEntry, RegistryAnswer, RegistryQuestion};
use crate::pool::{Departure, FabricOffer, Member, NodeId, RegistryRefusal};

/// The members, the log of events, and the bound names.
#[derive(Debug)]
pub(crate) struct RegistryState<P> {
    pub(super) terms: PoolTerms,
    pub(super) log: Vec<LogEntry>,
    /// The last life of each rank that had one.
    pub(super) ranks: BTreeMap<u32, RankLife>,
    /// The node of each link.
    pub(super) seats: BTreeMap<P, MemberLink>,
    pub(super) names: BoundNames<P>,
    /// The node that each key was used by: a key is used by one life only.
    keys: BTreeMap<PublicKey, NodeId>,
    incarnations: u64,
    /// When [`tick`](Self::tick) was last called.
    looked: Option<Instant>,
    out: Vec<(Ticket, Option<RegistryAnswer>)>,
    /// Links that have become those of members, and links that are not any more.
    moved: Vec<(P, bool)>,
}

/// The number of a request, which its answer has too.
pub(crate) type Ticket = u64;

/// The fixed parameters of a pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolTerms {
    pub(crate) pool: String,
    pub(crate) size: u32,
    /// How long a request for events waits until the node is probed.
    pub(crate) silent: Duration,
    /// How long a node that is probed has to answer.
    pub(crate) patience: Duration,
}

#[derive(Debug)]
pub(super) struct RankLife {
    pub(super) id: NodeId,
    /// How the node came to be no member any more.
    fate: Option<Departure>,
    /// The fabrics and hosts of the node: no other member may have one of them.
    hosts: Vec<(String, String)>,
    /// Bytes of the log about this life and those before it of the same rank.
    bytes: usize,
}

impl RankLife {
    fn new(id: NodeId, hosts: Vec<(String, String)>, before: Option<&Self>) -> Self {
        Self { id, fate: None, hosts, bytes: before.map_or(0, |before| before.bytes) }
    }

    fn is_at(&self, offer: &FabricOffer) -> bool {
        self.hosts.iter().any(|(fabric, host)| *fabric == offer.fabric && *host == offer.host)
    }

    pub(super) fn is_here(&self) -> bool {
        self.fate.is_none()
    }
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
    pub(crate) const fn new(terms: PoolTerms) -> Self {
        Self {
            terms,
            log: Vec::new(),
            ranks: BTreeMap::new(),
            seats: BTreeMap::new(),
            names: BoundNames::new(),
            keys: BTreeMap::new(),
            incarnations: 0,
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
        self.out.extend(answer.map(|answer| (ticket, Some(answer))));
        self.tell(now);
    }

    /// Whether the node of a link has left: requests that it had sent before may arrive after that.
    pub(super) fn has_left(&self, from: &P) -> bool {
        self.seats.get(from).is_some_and(|seat| matches!(seat.gone, Some(Departure::Left)))
    }

    /// Why the request that was just handled was refused, if it was.
    pub(super) fn refused(&self, ticket: Ticket) -> Option<&RegistryRefusal> {
        match self.out.iter().find(|(asked, _)| *asked == ticket) {
            Some((_, Some(RegistryAnswer::Refused(why)))) => Some(why),
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
        match ask {
            RegistryQuestion::Join(_) => None,
            RegistryQuestion::Follow { .. } => {
                self.follow(now, from, ticket, &ask);
                None
            }
            RegistryQuestion::Bind { name, bytes, replace } => {
                let (answer, bound) = self.names.bind(id, name, bytes, replace);
                self.out.extend(bound.into_iter().map(|(ticket, bound)| (ticket, Some(bound))));
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
        }
    }

    /// The answer that this node need not wait for a name, if no node can bind it.
    fn waits_in_vain(&self, id: NodeId, name: &str) -> Option<RegistryAnswer> {
        if self.names.bound.contains_key(name) || planted(Fault::InVain) {
            return None;
        }
        let owner = self.names.last.get(name).and_then(|last| self.ranks.get(&last.rank));
        let gone = owner.and_then(|life| owner_gone(name.to_owned(), life));
        let nobody = || RegistryAnswer::NobodyLeft { name: name.to_owned() };
        gone.or_else(|| (self.alone() == Some(id)).then(nobody))
    }

    /// The only node of several that is not gone.
    fn alone(&self) -> Option<NodeId> {
        let all_came = self.ranks.len() == self.terms.size as usize && self.terms.size > 1;
        let mut here = self.ranks.values().filter(|life| all_came && life.is_here());
        here.next().filter(|_| here.next().is_none()).map(|life| life.id)
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
        let hosts = join.fabrics.iter().map(|offer| (offer.fabric.clone(), offer.host.clone()));
        let life = RankLife::new(id, hosts.collect(), self.ranks.get(&rank));
        self.ranks.insert(rank, life);
        self.names.begin_anew(rank);
        self.seats.insert(from.clone(), MemberLink { id, gone: None, since: now, follow: None });
        self.moved.push((from.clone(), true));
        let JoinRequest { machine, fabrics, .. } = join;
        key.map(|key| self.keys.insert(key, id));
        self.append(rank, LogEntry::Joined(Member::new(id, machine, fabrics, key)));
        let heard = (self.terms.silent + self.terms.patience).as_millis();
        let heard_ms = u64::try_from(heard).unwrap_or(u64::MAX);
        RegistryAnswer::Welcome { id, size: self.terms.size, heard_ms }
    }

    fn may_join(
        &self,
        (from, key): (&P, Option<PublicKey>),
        join: &JoinRequest,
    ) -> Result<u32, RegistryRefusal> {
        let PoolTerms { pool, size, .. } = &self.terms;
        if let Some(seat) = self.seats.get(from) {
            return Err(RegistryRefusal::JoinedAlready { id: seat.id });
        }
        if let Some(by) = self.last_user(key) {
            return Err(RegistryRefusal::KeyUsed { by });
        }
        if join.pool != *pool {
            return Err(RegistryRefusal::OtherPool { pool: pool.clone() });
        }
        if join.size.is_some_and(|asked| asked != *size) {
            return Err(RegistryRefusal::OtherSize { size: *size });
        }
        let says = limits::says(join, *size)?;
        if key.is_some() {
            self.check_hosts(join)?;
        }
        match join.rank {
            Some(rank) if rank >= *size => Err(RegistryRefusal::NoSuchRank { size: *size }),
            Some(rank) => match self.ranks.get(&rank) {
                Some(life) if life.is_here() => Err(RegistryRefusal::RankTaken { by: life.id }),
                Some(life) if !self.has_room(life, says) => {
                    Err(limits::used_up(rank, life.bytes, *size))
                }
                _ => Ok(rank),
            },
            None => self.free_rank(says),
        }
    }

    /// Whether the share of a rank in the log has room for a life of which so much is said.
    fn has_room(&self, life: &RankLife, says: usize) -> bool {
        life.bytes + says <= limits::share(self.terms.size)
    }

    /// The first rank that is free and has room.
    fn free_rank(&self, says: usize) -> Result<u32, RegistryRefusal> {
        let (mut next, mut used_up, size) = (0, None, self.terms.size);
        for (&rank, life) in &self.ranks {
            if rank > next {
                break;
            }
            next = rank + 1;
            if !life.is_here() {
                if self.has_room(life, says) {
                    return Ok(rank);
                }
                used_up = Some((rank, life.bytes));
            }
        }
        let why = || match used_up {
            Some((rank, bytes)) => limits::used_up(rank, bytes, size),
            None => RegistryRefusal::PoolFull { size },
        };
        if next < size { Ok(next) } else { Err(why()) }
    }

    fn next_incarnation(&mut self) -> u64 {
        if !planted(Fault::SameIncarnation) || self.incarnations == 0 {
            self.incarnations += 1;
        }
        self.incarnations
    }

    /// The node that a key was used by.
    fn last_user(&self, key: Option<PublicKey>) -> Option<NodeId> {
        let id = key.and_then(|key| self.keys.get(&key));
        id.copied().filter(|_| !planted(Fault::KeyReused))
    }

    /// Checks that no member has one of the hosts of a node that joins: others would take its key for
    /// that of the member.
    fn check_hosts(&self, join: &JoinRequest) -> Result<(), RegistryRefusal> {
        if planted(Fault::HostShared) {
            return Ok(());
        }
        for life in self.ranks.values().filter(|life| life.is_here()) {
            if let Some(offer) = join.fabrics.iter().find(|offer| life.is_at(offer)) {
                return Err(RegistryRefusal::HostTaken { host: offer.host.clone(), by: life.id });
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
        let entry = match fate.clone() {
            Departure::Left => LogEntry::Left(id),
            Departure::Died { why } => LogEntry::Died { node: id, why },
        };
        self.append(id.rank, entry);
        if let Some(life) = self.ranks.get_mut(&id.rank).filter(|life| life.id == id) {
            life.fate = Some(fate);
        }
        self.free_names(id);
        self.tell_the_last();
    }

    /// Frees the names of a node that is gone, and tells those who wait for them.
    fn free_names(&mut self, id: NodeId) {
        if planted(Fault::NamesKept) {
            return;
        }
        let waits = self.names.forget(id).into_iter();
        let Some(life) = self.ranks.get(&id.rank) else { return };
        let told = waits.map(|(ticket, name)| (ticket, owner_gone(name, life)));
        self.out.extend(told);
    }

    /// If one node is left of all, ends its waits for names, which no node can bind any more.
    fn tell_the_last(&mut self) {
        let Some(alone) = self.alone() else { return };
        let last = self.seats.iter().find(|(_, seat)| seat.id == alone);
        let waits = last.map(|(from, _)| self.names.stop_waiting(from)).unwrap_or_default();
        let told =
            waits.into_iter().map(|(ticket, name)| (ticket, RegistryAnswer::NobodyLeft { name }));
        self.out.extend(told.map(|(ticket, answer)| (ticket, Some(answer))));
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
        match self.ranks.get(&rank) {
            Some(RankLife { id, fate: None, .. }) => self.declare_dead(*id, why),
            Some(_) => {}
            None if rank < self.terms.size => {
                let id = NodeId { rank, incarnation: 0 };
                self.ranks.insert(rank, RankLife::new(id, Vec::new(), None));
                self.gone(id, Departure::Died { why });
            }
            None => {}
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
                    self.out.push((
                        ticket,
                        Some(RegistryAnswer::Events { first, entries: Vec::new() }),
                    ));
                }
                _ => {}
            }
        }
        for id in dead {
            let why = format!("it has not answered for {:?}", self.terms.patience);
            self.declare_dead(id, why);
        }
        let late = self.names.late(now).into_iter();
        let told = late.map(|(ticket, name)| (ticket, Some(self.names.not_bound(&name))));
        self.out.extend(told);
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
        due.chain(self.names.next_event()).min()
    }

    /// Appends an entry to the log, and counts it to the share of its rank.
    fn append(&mut self, rank: u32, entry: LogEntry) {
        if let Some(life) = self.ranks.get_mut(&rank) {
            life.bytes += entry.len();
        }
        self.log.push(entry);
    }

    /// Answers the requests for events that entries of the log have come for.
    fn tell(&mut self, now: Instant) {
        for seat in self.seats.values_mut() {
            let Some((ticket, next)) = seat.follow else { continue };
            let entries = fault::told(limits::batch(&self.log, next), &self.log, seat.id);
            if !entries.is_empty() {
                (seat.follow, seat.since) = (None, now);
                self.out.push((ticket, Some(RegistryAnswer::Events { first: next, entries })));
            }
        }
    }

    /// Takes the links that have become those of members (`true`), and those that are not any more.
    pub(crate) fn take_moved(&mut self) -> Vec<(P, bool)> {
        std::mem::take(&mut self.moved)
    }

    /// Answers, by their tickets; a ticket without one is not answered.
    pub(crate) fn take_out(&mut self) -> Vec<(Ticket, Option<RegistryAnswer>)> {
        std::mem::take(&mut self.out)
    }
}

/// The answer for a name whose last owner was this node, if the node is gone.
fn owner_gone(name: String, life: &RankLife) -> Option<RegistryAnswer> {
    Some(RegistryAnswer::OwnerGone { name, owner: life.id, fate: life.fate.clone()? })
}

/// The longest time between two calls of `tick`.
pub(super) const LOOK: Duration = Duration::from_secs(1);
