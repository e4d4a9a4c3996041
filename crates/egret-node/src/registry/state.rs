//! The registry without I/O and clock: who is a member, one log of what happened, names.
//!
//! Nodes are known by the link they ask over, `P`. What is asked has a ticket, and each
//! ticket is answered once, at once or later: [`take_out`](State::take_out) has the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use egret_net::rt::Instant;
use egret_net::vi::PublicKey;

use super::fault::{Fault, planted};
use super::limits::{self, cut_reason};
use super::names::Names;
use super::wire::{Answer, Ask, Entry, Join};
use crate::node::{Fate, Member, NodeId, Offer, Refused};

/// Who is a member, what happened, and what names stand for.
#[derive(Debug)]
pub(crate) struct State<P> {
    pub(super) terms: Terms,
    pub(super) log: Vec<Entry>,
    /// The last life of each rank that had one.
    pub(super) ranks: BTreeMap<u32, Life>,
    /// Whom each link belongs to.
    pub(super) seats: BTreeMap<P, Seat>,
    pub(super) names: Names<P>,
    /// Which life each key was of: one has no other.
    keys: BTreeMap<PublicKey, NodeId>,
    incarnations: u64,
    /// When time last passed.
    looked: Option<Instant>,
    out: Vec<(Ticket, Option<Answer>)>,
    /// Whose link was seated, and whose is not any more.
    moved: Vec<(P, bool)>,
}

/// Which question an answer is for.
pub(crate) type Ticket = u64;

/// What stays as it is.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) pool: String,
    pub(crate) size: u32,
    /// How long a question stands until a node is asked whether it lives.
    pub(crate) silent: Duration,
    /// How long it has to answer then.
    pub(crate) patience: Duration,
}

#[derive(Debug)]
pub(super) struct Life {
    pub(super) id: NodeId,
    /// How it came to be no member any more.
    fate: Option<Fate>,
    /// The fabrics that it has, and where: nobody else is there as long as it is a member.
    hosts: Vec<(String, String)>,
    /// Bytes of the log about this life and those before it of the same rank.
    bytes: usize,
}

impl Life {
    fn new(id: NodeId, hosts: Vec<(String, String)>, before: Option<&Self>) -> Self {
        Self { id, fate: None, hosts, bytes: before.map_or(0, |before| before.bytes) }
    }

    fn is_at(&self, offer: &Offer) -> bool {
        self.hosts.iter().any(|(fabric, host)| *fabric == offer.fabric && *host == offer.host)
    }

    pub(super) fn is_here(&self) -> bool {
        self.fate.is_none()
    }
}

#[derive(Debug)]
pub(super) struct Seat {
    id: NodeId,
    /// How it came to be no member any more.
    gone: Option<Fate>,
    /// With a question standing: since when it does. Without, it owes one: since the last
    /// word, its own or to it.
    since: Instant,
    /// Its standing question, and the entry that it waits for.
    pub(super) follow: Option<(Ticket, u64)>,
}

impl<P: Ord + Clone> State<P> {
    pub(crate) const fn new(terms: Terms) -> Self {
        Self {
            terms,
            log: Vec::new(),
            ranks: BTreeMap::new(),
            seats: BTreeMap::new(),
            names: Names::new(),
            keys: BTreeMap::new(),
            incarnations: 0,
            looked: None,
            out: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// Somebody asks.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        (from, key): (&P, Option<PublicKey>),
        ticket: Ticket,
        ask: Ask,
    ) {
        let answer = match ask {
            Ask::Join(join) => Some(self.join(now, (from, key), join)),
            ask => match self.seat(now, from) {
                Ok(id) => self.member_asks(now, from, id, ticket, ask),
                // It is told how it came to its end, as everybody is.
                Err(Refused::Fenced { .. }) if matches!(ask, Ask::Follow { .. }) => {
                    self.follow(now, from, ticket, &ask);
                    None
                }
                Err(why) => Some(Answer::Refused(why)),
            },
        };
        self.out.extend(answer.map(|answer| (ticket, Some(answer))));
        self.tell(now);
    }

    /// Why a question is refused that was just asked.
    pub(super) fn refused(&self, ticket: Ticket) -> Option<&Refused> {
        match self.out.iter().find(|(asked, _)| *asked == ticket) {
            Some((_, Some(Answer::Refused(why)))) => Some(why),
            _ => None,
        }
    }

    fn member_asks(
        &mut self,
        now: Instant,
        from: &P,
        id: NodeId,
        ticket: Ticket,
        ask: Ask,
    ) -> Option<Answer> {
        match ask {
            Ask::Join(_) => None,
            Ask::Follow { .. } => {
                self.follow(now, from, ticket, &ask);
                None
            }
            Ask::Bind { name, bytes, replace } => {
                let (answer, bound) = self.names.bind(id, name, bytes, replace);
                self.out.extend(bound.into_iter().map(|(ticket, bound)| (ticket, Some(bound))));
                Some(answer)
            }
            Ask::Unbind { name, bytes } => Some(self.names.unbind(id, &name, &bytes)),
            Ask::Lookup { name, wait_ms } => {
                let until = now.checked_add(Duration::from_millis(wait_ms));
                let until = until.filter(|_| wait_ms > 0);
                let vain = self.waits_in_vain(id, &name);
                vain.or_else(|| self.names.lookup(from, ticket, &name, until))
            }
            Ask::Leave => {
                self.leave(from, id);
                Some(Answer::Done)
            }
        }
    }

    /// Why it makes no sense that this node waits for a name.
    fn waits_in_vain(&self, id: NodeId, name: &str) -> Option<Answer> {
        if self.names.bound.contains_key(name) || planted(Fault::InVain) {
            return None;
        }
        let owner = self.names.last.get(name).and_then(|last| self.ranks.get(&last.rank));
        let gone = owner.and_then(|life| owner_gone(name.to_owned(), life));
        let nobody = || Answer::NobodyLeft { name: name.to_owned() };
        gone.or_else(|| (self.alone() == Some(id)).then(nobody))
    }

    /// The only node of several that is not gone.
    fn alone(&self) -> Option<NodeId> {
        let all_came = self.ranks.len() == self.terms.size as usize && self.terms.size > 1;
        let mut here = self.ranks.values().filter(|life| all_came && life.is_here());
        here.next().filter(|_| here.next().is_none()).map(|life| life.id)
    }

    /// Who asks, who is alive since it does.
    fn seat(&mut self, now: Instant, from: &P) -> Result<NodeId, Refused> {
        let seat = self.seats.get_mut(from).ok_or(Refused::NotMember)?;
        if seat.follow.is_none() {
            seat.since = now;
        }
        match &seat.gone {
            None => Ok(seat.id),
            Some(_) if planted(Fault::NotFenced) => Ok(seat.id),
            Some(Fate::Left) => Err(Refused::NotMember),
            Some(Fate::Died { why }) => Err(Refused::Fenced { why: why.clone() }),
        }
    }

    fn join(&mut self, now: Instant, (from, key): (&P, Option<PublicKey>), join: Join) -> Answer {
        let rank = match self.may_join((from, key), &join) {
            Ok(rank) => rank,
            Err(why) => return Answer::Refused(why),
        };
        if !planted(Fault::SameIncarnation) || self.incarnations == 0 {
            self.incarnations += 1;
        }
        let id = NodeId { rank, incarnation: self.incarnations };
        let hosts = join.fabrics.iter().map(|offer| (offer.fabric.clone(), offer.host.clone()));
        let life = Life::new(id, hosts.collect(), self.ranks.get(&rank));
        self.ranks.insert(rank, life);
        self.names.begin_anew(rank);
        self.seats.insert(from.clone(), Seat { id, gone: None, since: now, follow: None });
        self.moved.push((from.clone(), true));
        let Join { machine, fabrics, .. } = join;
        key.map(|key| self.keys.insert(key, id));
        self.append(rank, Entry::Joined(Member::new(id, machine, fabrics, key)));
        let heard = (self.terms.silent + self.terms.patience).as_millis();
        let heard_ms = u64::try_from(heard).unwrap_or(u64::MAX);
        Answer::Welcome { id, size: self.terms.size, heard_ms }
    }

    fn may_join(&self, (from, key): (&P, Option<PublicKey>), join: &Join) -> Result<u32, Refused> {
        let Terms { pool, size, .. } = &self.terms;
        if let Some(seat) = self.seats.get(from) {
            return Err(Refused::JoinedAlready { id: seat.id });
        }
        if let Some(id) = key.and_then(|key| self.keys.get(&key))
            && !planted(Fault::KeyReused)
        {
            return Err(Refused::KeyUsed { by: *id });
        }
        if join.pool != *pool {
            return Err(Refused::OtherPool { pool: pool.clone() });
        }
        if join.size.is_some_and(|asked| asked != *size) {
            return Err(Refused::OtherSize { size: *size });
        }
        let says = limits::says(join, *size)?;
        if key.is_some() {
            self.check_hosts(join)?;
        }
        match join.rank {
            Some(rank) if rank >= *size => Err(Refused::NoSuchRank { size: *size }),
            Some(rank) => match self.ranks.get(&rank) {
                Some(life) if life.is_here() => Err(Refused::RankTaken { by: life.id }),
                Some(life) if !self.has_room(life, says) => {
                    Err(limits::used_up(rank, life.bytes, *size))
                }
                _ => Ok(rank),
            },
            None => self.free_rank(says),
        }
    }

    /// Whether the share of a rank in the log has room for a life of which so much is said.
    fn has_room(&self, life: &Life, says: usize) -> bool {
        life.bytes + says <= limits::share(self.terms.size)
    }

    /// The first rank that is free and has room.
    fn free_rank(&self, says: usize) -> Result<u32, Refused> {
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
            None => Refused::PoolFull { size },
        };
        if next < size { Ok(next) } else { Err(why()) }
    }

    /// Whether nobody else is found where a node says it is: others would take its key for that
    /// of the node that was there before.
    fn check_hosts(&self, join: &Join) -> Result<(), Refused> {
        if planted(Fault::HostShared) {
            return Ok(());
        }
        for life in self.ranks.values().filter(|life| life.is_here()) {
            if let Some(offer) = join.fabrics.iter().find(|offer| life.is_at(offer)) {
                return Err(Refused::HostTaken { host: offer.host.clone(), by: life.id });
            }
        }
        Ok(())
    }

    /// A question stands until there is something to tell. A node has one.
    fn follow(&mut self, now: Instant, from: &P, ticket: Ticket, ask: &Ask) {
        let (Some(seat), Ask::Follow { next }) = (self.seats.get_mut(from), ask) else { return };
        seat.since = now;
        let before = seat.follow.replace((ticket, *next));
        self.out.extend(before.map(|(before, _)| (before, None)));
    }

    fn leave(&mut self, from: &P, id: NodeId) {
        if let Some(seat) = self.seats.get_mut(from) {
            seat.gone = Some(Fate::Left);
            self.moved.push((from.clone(), false));
        }
        self.gone(id, Fate::Left);
    }

    /// A node is no member any more.
    fn gone(&mut self, id: NodeId, fate: Fate) {
        let entry = match fate.clone() {
            Fate::Left => Entry::Left(id),
            Fate::Died { why } => Entry::Died { node: id, why },
        };
        self.append(id.rank, entry);
        if let Some(life) = self.ranks.get_mut(&id.rank).filter(|life| life.id == id) {
            life.fate = Some(fate);
        }
        if !planted(Fault::NamesKept) {
            let waits = self.names.forget(id).into_iter();
            let Some(life) = self.ranks.get(&id.rank) else { return };
            let told = waits.map(|(ticket, name)| (ticket, owner_gone(name, life)));
            self.out.extend(told);
        }
        self.tell_the_last();
    }

    /// If one node is left of all, it waits for names that nobody can bind any more.
    fn tell_the_last(&mut self) {
        let Some(alone) = self.alone() else { return };
        let last = self.seats.iter().find(|(_, seat)| seat.id == alone);
        let waits = last.map(|(from, _)| self.names.stop_waiting(from)).unwrap_or_default();
        let told = waits.into_iter().map(|(ticket, name)| (ticket, Answer::NobodyLeft { name }));
        self.out.extend(told.map(|(ticket, answer)| (ticket, Some(answer))));
    }

    /// A link is no more, and who asked over it, unless it has left before.
    pub(crate) fn link_ended(&mut self, now: Instant, from: &P, why: &str) {
        let Some(seat) = self.seats.remove(from) else { return };
        let waits = self.names.stop_waiting(from);
        let waits = waits.into_iter().map(|(ticket, _)| ticket);
        let tickets = waits.chain(seat.follow.map(|(ticket, _)| ticket));
        self.out.extend(tickets.map(|ticket| (ticket, None)));
        if seat.gone.is_none() || planted(Fault::TwiceDead) {
            self.gone(seat.id, Fate::Died { why: cut_reason(why, self.terms.size) });
        }
        self.tell(now);
    }

    /// The process of a rank has ended, as who started it says.
    pub(crate) fn process_ended(&mut self, now: Instant, rank: u32, why: &str) {
        let why = cut_reason(why, self.terms.size);
        match self.ranks.get(&rank) {
            Some(Life { id, fate: None, .. }) => self.declare_dead(*id, why),
            Some(_) => {}
            None if rank < self.terms.size => {
                let id = NodeId { rank, incarnation: 0 };
                self.ranks.insert(rank, Life::new(id, Vec::new(), None));
                self.gone(id, Fate::Died { why });
            }
            None => {}
        }
        self.tell(now);
    }

    fn declare_dead(&mut self, id: NodeId, why: String) {
        if let Some((from, seat)) = self.seats.iter_mut().find(|(_, seat)| seat.id == id) {
            seat.gone = Some(Fate::Died { why: why.clone() });
            self.moved.push((from.clone(), false));
        }
        self.gone(id, Fate::Died { why });
    }

    /// Time passes: asks the silent, gives up on those who were asked and do not answer, and
    /// on names that nobody has bound in time.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.forgive(now);
        let (silent, patience) = (self.terms.silent, self.terms.patience);
        let mut dead = Vec::new();
        for seat in self.seats.values_mut().filter(|seat| seat.gone.is_none()) {
            let quiet = now - seat.since;
            match seat.follow {
                None if quiet >= patience && !planted(Fault::Deaf) => dead.push(seat.id),
                Some((ticket, first)) if quiet >= silent && !planted(Fault::Unasked) => {
                    (seat.follow, seat.since) = (None, now);
                    self.out.push((ticket, Some(Answer::Events { first, entries: Vec::new() })));
                }
                _ => {}
            }
        }
        for id in dead {
            let why = format!("it has not answered for {patience:?}");
            self.declare_dead(id, why);
        }
        let late = self.names.late(now).into_iter();
        let told = late.map(|(ticket, name)| (ticket, Some(self.names.not_bound(&name))));
        self.out.extend(told);
        self.tell(now);
    }

    /// While nobody looked, the registry was stopped, or its machine had no time for it, and
    /// nobody could be heard: that time does not count.
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
        let Terms { silent, patience, .. } = self.terms;
        let here = self.seats.values().filter(|seat| seat.gone.is_none());
        let look = self.looked.map(|looked| looked + LOOK);
        let due = here.map(|seat| {
            let due = seat.since + if seat.follow.is_some() { silent } else { patience };
            look.map_or(due, |look| look.min(due))
        });
        due.chain(self.names.next_event()).min()
    }

    /// Of the share of this rank, which has had a life.
    fn append(&mut self, rank: u32, entry: Entry) {
        if let Some(life) = self.ranks.get_mut(&rank) {
            life.bytes += entry.len();
        }
        self.log.push(entry);
    }

    /// Tells everybody what they wait for.
    fn tell(&mut self, now: Instant) {
        for seat in self.seats.values_mut() {
            let Some((ticket, next)) = seat.follow else { continue };
            let mut entries = limits::batch(&self.log, next);
            if planted(Fault::Skipped) && entries.len() > 1 {
                entries.pop();
                entries.insert(0, self.log[0].clone());
            }
            if planted(Fault::Reordered) && seat.id.rank == 1 {
                entries.reverse();
            }
            if !entries.is_empty() {
                (seat.follow, seat.since) = (None, now);
                self.out.push((ticket, Some(Answer::Events { first: next, entries })));
            }
        }
    }

    /// Who has become a member, and who is none any more.
    pub(crate) fn take_moved(&mut self) -> Vec<(P, bool)> {
        std::mem::take(&mut self.moved)
    }

    /// Answers, by their tickets; a ticket without one is not answered.
    pub(crate) fn take_out(&mut self) -> Vec<(Ticket, Option<Answer>)> {
        std::mem::take(&mut self.out)
    }
}

/// What is said of a name that this one had last, if it is gone.
fn owner_gone(name: String, life: &Life) -> Option<Answer> {
    Some(Answer::OwnerGone { name, owner: life.id, fate: life.fate.clone()? })
}

/// How often time is to pass at least.
pub(super) const LOOK: Duration = Duration::from_secs(1);
