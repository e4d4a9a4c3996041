//! The registry without I/O and clock: the members, one log of events, names.
//!
//! Nodes are known by the link of their requests, `P`. Each request has a ticket, and is answered once,
//! at once or later: [`take_out`](RegistryState::take_out) has the answers.
//!
//! What lasts is [`KeptState`], which changes by records alone: [`take_records`](RegistryState::take_records) has
//! those to be written. An answer that rests on a record, and the entries of the log, leave when
//! [`written`](RegistryState::written) says that the record is on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::Instant;
use egret_net::vi::PublicKey;

use super::fault::{self, Fault, planted};
use super::limits::{self, ChangeAllowance, cut_reason};
use super::member_index::MemberIndex;
use super::names::NameWaits;
use super::record::{KeptState, QuestionNumber, StateChange, StateRecord};
use super::reports::ReportRound;
use super::unwritten::UnwrittenRecords;
use crate::pool::wire::{JoinRequest, LogEntry, NAME_MAX, RegistryAnswer, RegistryQuestion};
use crate::pool::{Departure, Event, EventLog, Member, NodeId, RegistryRefusal};

/// The members, the log of events, and the bound names.
#[derive(Debug)]
pub(crate) struct RegistryState<P> {
    pub(super) terms: PoolTerms,
    /// What lasts.
    pub(super) kept: KeptState,
    /// The records that are not on disk yet.
    unwritten: UnwrittenRecords,
    /// The question that is being answered.
    question: Option<QuestionNumber>,
    /// What follows from the members and views of [`kept`](Self::kept).
    index: MemberIndex,
    /// What the entries mean, for the process of the registry.
    pub(super) events: EventLog,
    /// The entries below this number were sent to all members that wait for events, at that time.
    told: (u64, Option<Instant>),
    /// The latest state that was sent to a member.
    snapshot: Option<Arc<PoolSnapshot>>,
    /// The node of each link.
    pub(super) seats: BTreeMap<P, MemberLink>,
    /// Members that have no link since the registry was started again, and since when they are waited for.
    absent: BTreeMap<NodeId, Instant>,
    pub(super) waits: NameWaits<P>,
    reports: ReportRound,
    /// The key that the operator proves: the registry's own.
    operator: Option<PublicKey>,
    /// When [`tick`](Self::tick) was last called.
    looked: Option<Instant>,
    /// When the first of the members is due to be probed or declared dead, as of then.
    due: Option<Instant>,
    out: Vec<PendingAnswer>,
    /// Links that have become those of members, and links that are not any more.
    moved: Vec<(P, bool)>,
}

/// The number of a request, which its answer has too.
pub(crate) type Ticket = u64;

/// An answer that was not taken yet; `None` for a request that is not answered.
#[derive(Debug)]
struct PendingAnswer {
    ticket: Ticket,
    answer: Option<Arc<RegistryAnswer>>,
    /// The answer rests on the records below this number.
    rests_on: u64,
}

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
    /// How long members are waited for after the registry was started again; `None` if its state does not last.
    pub(crate) resume: Option<Duration>,
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
    /// The node was sent entries or a state below this number, and how often it may have such again.
    sent: u64,
    repeats: ChangeAllowance,
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

    /// Whether the node may be sent what comes from this entry on. What it was sent before it is sent again at times, as
    /// the answers that a node does not take are kept here.
    fn may_be_sent(&mut self, now: Instant, next: u64) -> bool {
        let goes_on = self.snapshot.as_ref().is_some_and(|(_, sent)| *sent > 0);
        let may = goes_on || next >= self.sent || self.repeats.take(now, limits::PIECE).is_ok();
        self.sent = self.sent.max(next + 1);
        may
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

    /// For how long a node may be quiet until the registry does something about that.
    fn quiet_of(&self, seat: &MemberLink, silent: Duration) -> Duration {
        if seat.follow.is_some() { silent } else { self.patience }
    }

    /// For how long a node of so many may be quiet before it is probed: the probes of large pools take their time.
    fn silent_of(&self, members: usize) -> Duration {
        self.silent.max(PROBE * u32::try_from(members).unwrap_or(u32::MAX))
    }
}

impl<P: Ord + Clone> RegistryState<P> {
    pub(crate) fn new(terms: PoolTerms) -> Self {
        let kept = KeptState::new(&terms);
        Self {
            unwritten: UnwrittenRecords::new(terms.resume.is_some()),
            kept,
            terms,
            question: None,
            index: MemberIndex::default(),
            events: EventLog::new(),
            told: (0, None),
            snapshot: None,
            seats: BTreeMap::new(),
            absent: BTreeMap::new(),
            waits: NameWaits::new(),
            reports: ReportRound::default(),
            operator: None,
            looked: None,
            due: None,
            out: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// A registry that was started again with what lasts of it: its members have some time to come back.
    pub(super) fn restored(terms: PoolTerms, kept: KeptState, now: Instant) -> Self {
        let mut state = Self::new(terms);
        let next = kept.pool.next();
        if next > 0 {
            state.events.push(0, Event::Resync { from: 0, to: next });
        }
        for member in kept.pool.members().values() {
            state.absent.insert(member.id, now);
        }
        state.index = MemberIndex::of(&kept.pool);
        state.unwritten.begin_at(kept.records(), next);
        state.kept = kept;
        state
    }

    /// Handles a request that has a number: asked again, it is not carried out again.
    pub(crate) fn ask_numbered(
        &mut self,
        now: Instant,
        (from, key): (&P, Option<PublicKey>),
        ticket: Ticket,
        (ask, number, floor): (RegistryQuestion, u64, u64),
    ) {
        let node = self.seats.get(from).and_then(|seat| seat.member().ok());
        self.question =
            node.filter(|_| number > 0).map(|node| QuestionNumber { node, number, floor });
        self.ask(now, (from, key), ticket, ask);
        self.question = None;
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
            ask if self.is_done(&ask) => Some(self.answer_again(&ask)),
            ask if self.cannot_write(&ask).is_some() => {
                self.cannot_write(&ask).map(RegistryAnswer::Refused)
            }
            RegistryQuestion::Join(join) => Some(self.join(now, (from, key), join)),
            RegistryQuestion::Resume { id, next } => {
                // It changes nothing that lasts, so it need not wait for the disk.
                let answer = self.resume(now, (from, key), id, next);
                self.answer_now(ticket, Some(Arc::new(answer)));
                None
            }
            ask if ask.is_of_operator() => Some(self.operator_asks(now, (from, key), ask)),
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

    /// Answers a request by what holds after all records.
    fn answer(&mut self, ticket: Ticket, answer: RegistryAnswer) {
        self.answer_by(ticket, self.kept.records(), Some(Arc::new(answer)));
    }

    /// Answers a request by what is on disk, or does not answer it.
    fn answer_now(&mut self, ticket: Ticket, answer: Option<Arc<RegistryAnswer>>) {
        self.answer_by(ticket, 0, answer);
    }

    /// Answers that something was done which rests on no record.
    fn answer_done_now(&mut self, ticket: Ticket) -> Option<RegistryAnswer> {
        self.answer_now(ticket, Some(Arc::new(RegistryAnswer::Done)));
        None
    }

    fn answer_by(&mut self, ticket: Ticket, rests_on: u64, answer: Option<Arc<RegistryAnswer>>) {
        self.out.push(PendingAnswer { ticket, answer, rests_on });
    }

    /// Whether the question that is being answered was carried out before.
    fn is_done(&self, ask: &RegistryQuestion) -> bool {
        ask.is_change() && self.question.is_some_and(|it| self.kept.is_done(it.node, it.number))
    }

    /// The answer to a question that was carried out before.
    fn answer_again(&self, ask: &RegistryQuestion) -> RegistryAnswer {
        match ask {
            RegistryQuestion::Bind { .. }
            | RegistryQuestion::Unbind { .. }
            | RegistryQuestion::Free { .. }
            | RegistryQuestion::Leave => RegistryAnswer::Done,
            _ => self.reached(),
        }
    }

    /// Why a question is not carried out just now, if records cannot be written. A node that leaves is gone in any
    /// case.
    fn cannot_write(&self, ask: &RegistryQuestion) -> Option<RegistryRefusal> {
        let leaves = matches!(ask, RegistryQuestion::Leave);
        let why = self.unwritten.failure().filter(|_| ask.is_change() && !leaves)?;
        Some(RegistryRefusal::Unwritten { why: why.to_owned() })
    }

    /// Whether the node of a link has left: requests that it had sent before may arrive after that.
    pub(super) fn has_left(&self, from: &P) -> bool {
        self.seats.get(from).is_some_and(|seat| matches!(seat.gone, Some(Departure::Left)))
    }

    /// Why the request that was just handled was refused, if it was.
    pub(super) fn refused(&self, ticket: Ticket) -> Option<&RegistryRefusal> {
        let pending = self.out.iter().find(|pending| pending.ticket == ticket)?;
        match pending.answer.as_deref()? {
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
            RegistryQuestion::Follow { .. } => {
                self.follow(now, from, ticket, &ask);
                None
            }
            RegistryQuestion::Report { number, bytes } => {
                self.reports.take(id, number, bytes);
                self.answer_done_now(ticket)
            }
            RegistryQuestion::Bind { name, bytes, replace } => {
                Some(self.bind(id, name, bytes, replace))
            }
            RegistryQuestion::Unbind { name, bytes } => Some(self.unbind(id, name, Some(&bytes))),
            RegistryQuestion::Lookup { name, wait_ms } => {
                let until = now.checked_add(Duration::from_millis(wait_ms)).filter(|_| wait_ms > 0);
                let vain = self.waits_in_vain(id, &name);
                vain.or_else(|| self.lookup(from, ticket, &name, until))
            }
            RegistryQuestion::Leave => {
                self.leave(from, id);
                Some(RegistryAnswer::Done)
            }
            RegistryQuestion::Enter { view } => Some(self.enter(id, view)),
            RegistryQuestion::Exit { view } => Some(self.exit(id, view)),
            RegistryQuestion::Signal { to, bytes } => Some(self.signal(id, to, bytes)),
            RegistryQuestion::Close => {
                if self.kept.pool.closed_by().is_none() {
                    self.append(LogEntry::Closed { by: id });
                    self.tell_the_last();
                }
                Some(self.reached())
            }
            RegistryQuestion::Terminate => {
                if self.kept.pool.terminated_by().is_none() {
                    self.append(LogEntry::Terminated { by: id });
                    self.tell_the_last();
                }
                Some(self.reached())
            }
            RegistryQuestion::Suspect { node } => {
                self.suspect(now, node);
                self.answer_done_now(ticket)
            }
            RegistryQuestion::Names { prefix, after } => {
                Some(self.kept.names.list(&prefix, after.as_deref()))
            }
            RegistryQuestion::Free { name } => Some(self.unbind(id, name, None)),
            // No questions of a member.
            RegistryQuestion::Join(_)
            | RegistryQuestion::Resume { .. }
            | RegistryQuestion::Operate { .. }
            | RegistryQuestion::DeclareDead { .. }
            | RegistryQuestion::Ended { .. } => None,
        }
    }

    /// Who proves this key is the operator.
    pub(super) fn operated_by(&mut self, key: Option<PublicKey>) {
        self.operator = key;
    }

    fn operator_asks(
        &mut self,
        now: Instant,
        (from, key): (&P, Option<PublicKey>),
        ask: RegistryQuestion,
    ) -> RegistryAnswer {
        if !self.is_operator(key) {
            return RegistryAnswer::Refused(RegistryRefusal::NotOperator);
        }
        match ask {
            RegistryQuestion::Operate { pool } if pool != self.terms.pool => {
                let pool = self.terms.pool.clone();
                return RegistryAnswer::Refused(RegistryRefusal::OtherPool { pool });
            }
            RegistryQuestion::Operate { .. } => {
                self.moved.push((from.clone(), true));
                let PoolTerms { size, is_open, .. } = self.terms;
                return RegistryAnswer::Terms {
                    size,
                    is_open,
                    lives: self.kept.pool.incarnation(),
                };
            }
            RegistryQuestion::DeclareDead { node, why } => {
                self.declare_member_dead(now, node, &why);
            }
            // A life that had begun before is not that of this process.
            RegistryQuestion::Ended { rank, lives, why } => {
                let last = self.kept.pool.last(rank).map(|(id, _)| id);
                if last.is_none_or(|id| id.incarnation > lives) {
                    self.process_ended(now, rank, &why);
                }
            }
            _ => return RegistryAnswer::Refused(RegistryRefusal::Unreadable),
        }
        RegistryAnswer::Done
    }

    fn is_operator(&self, key: Option<PublicKey>) -> bool {
        key.is_some() && key == self.operator || planted(Fault::AnyOperator)
    }

    fn bind(
        &mut self,
        owner: NodeId,
        name: String,
        bytes: Vec<u8>,
        replace: bool,
    ) -> RegistryAnswer {
        if let Err(why) = self.kept.names.may_bind(owner, &name, &bytes, replace) {
            return RegistryAnswer::Refused(why);
        }
        for (ticket, _) in self.waits.take_for(&name) {
            self.out.push(PendingAnswer {
                ticket,
                answer: Some(Arc::new(RegistryAnswer::Bound { owner, bytes: bytes.clone() })),
                rests_on: self.kept.records() + 1,
            });
        }
        self.record(StateChange::Bound { name, owner, bytes });
        RegistryAnswer::Done
    }

    fn unbind(&mut self, owner: NodeId, name: String, bytes: Option<&[u8]>) -> RegistryAnswer {
        match self.kept.names.may_unbind(owner, &name, bytes) {
            Ok(true) => {
                self.record(StateChange::Unbound { name, owner });
                RegistryAnswer::Done
            }
            Ok(false) => RegistryAnswer::NotBound,
            Err(why) => RegistryAnswer::Refused(why),
        }
    }

    /// Looks a name up; no answer yet if the request waits for the name.
    fn lookup(
        &mut self,
        from: &P,
        ticket: Ticket,
        name: &str,
        until: Option<Instant>,
    ) -> Option<RegistryAnswer> {
        if let Some((owner, bytes)) = self.kept.names.bound.get(name) {
            let answer = RegistryAnswer::Bound { owner: *owner, bytes: bytes.clone() };
            let rests_on = self.unwritten.last_of_name(name);
            self.answer_by(ticket, rests_on, Some(Arc::new(answer)));
            return None;
        }
        let Some(until) = until.filter(|_| name.len() <= NAME_MAX) else {
            return Some(self.kept.names.not_bound(name));
        };
        self.waits.wait(from, ticket, name, until).err().map(RegistryAnswer::Refused)
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
        RegistryAnswer::Reached { next: self.kept.pool.next() }
    }

    fn is_in(&self, node: NodeId, view: &str) -> bool {
        self.kept.pool.view(view).is_some_and(|view| view.has(node))
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
        let own = self.index.views_of(node);
        if own >= limits::VIEWS_MAX {
            return large(format!("{node} is in {own} views"), limits::VIEWS_MAX);
        }
        self.append(LogEntry::Entered { view, node });
        self.reached()
    }

    fn exit(&mut self, node: NodeId, view: String) -> RegistryAnswer {
        if self.is_in(node, &view) {
            self.append(LogEntry::Exited { view, node });
        }
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
            let probe = RegistryAnswer::Events { first, entries: Vec::new() };
            self.answer_now(ticket, Some(Arc::new(probe)));
        }
    }

    /// The answer that this node need not wait for a name, if no node can bind it.
    fn waits_in_vain(&self, id: NodeId, name: &str) -> Option<RegistryAnswer> {
        // In an open pool another node may bind it.
        if self.kept.names.bound.contains_key(name) || self.may_grow() || planted(Fault::InVain) {
            return None;
        }
        let gone = self.kept.names.last_owner(name).and_then(|owner| self.owner_gone(name, owner));
        let nobody = || RegistryAnswer::NobodyLeft { name: name.to_owned() };
        gone.or_else(|| (self.alone() == Some(id)).then(nobody))
    }

    /// The only node of several that is not gone, and none can come in its place.
    fn alone(&self) -> Option<NodeId> {
        let is_final = self.kept.pool.is_complete() || self.kept.pool.closed_by().is_some();
        let no_more_come = is_final && self.terms.size > 1;
        let mut here = self.kept.pool.members().values().filter(|_| no_more_come);
        here.next().filter(|_| here.next().is_none()).map(|member| member.id)
    }

    /// Whether nodes may join of which nothing is known.
    fn may_grow(&self) -> bool {
        self.terms.is_open && self.kept.pool.closed_by().is_none()
    }

    /// The answer for a name whose last owner was this node, if the node is gone.
    fn owner_gone(&self, name: &str, owner: NodeId) -> Option<RegistryAnswer> {
        let fate = self.kept.pool.fate(owner)?;
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
        // A node that has joined, and was not told so before the registry was started again.
        let last = key.and_then(|key| self.kept.keys.user(&key));
        if let Some(id) = last.filter(|id| self.absent.contains_key(id)) {
            return self.resume(now, (from, key), id, 0);
        }
        let rank = match self.may_join((from, key), &join) {
            Ok(rank) => rank,
            Err(why) => return RegistryAnswer::Refused(why),
        };
        let id = NodeId { rank, incarnation: self.next_incarnation() };
        self.seat_member(now, from, id);
        let JoinRequest { machine, location, fabrics, .. } = join;
        self.append(LogEntry::Joined(Member::new(id, machine, location, fabrics, key)));
        self.welcome(id)
    }

    /// A link is that of a member from now on.
    fn seat_member(&mut self, now: Instant, from: &P, id: NodeId) {
        let allowance = ChangeAllowance::new(now);
        let repeats = ChangeAllowance::new(now);
        let (gone, follow, snapshot) = (None, None, None);
        let seat =
            MemberLink { id, gone, since: now, follow, allowance, snapshot, sent: 0, repeats };
        self.seats.insert(from.clone(), seat);
        self.due.get_or_insert(now + self.terms.silent.min(self.terms.patience));
        self.moved.push((from.clone(), true));
    }

    /// A member has made a new link, and knows the entries of the log below `next`.
    fn resume(
        &mut self,
        now: Instant,
        (from, key): (&P, Option<PublicKey>),
        id: NodeId,
        next: u64,
    ) -> RegistryAnswer {
        if let Err(why) = self.may_resume((from, key), id, next) {
            return RegistryAnswer::Refused(why);
        }
        if self.seats.contains_key(from) {
            return self.welcome(id);
        }
        // The registry may not have seen yet that the link before has ended.
        let before = self.seats.iter().find(|(_, seat)| seat.id == id);
        let before = before.map(|(before, _)| before.clone());
        let allowance = before.and_then(|before| {
            let seat = self.take_seat(&before);
            self.moved.push((before, false));
            seat.map(|seat| seat.allowance)
        });
        self.absent.remove(&id);
        self.seat_member(now, from, id);
        // A new link is no new allowance.
        if let (Some(seat), Some(allowance)) = (self.seats.get_mut(from), allowance) {
            seat.allowance = allowance;
        }
        self.welcome(id)
    }

    fn may_resume(
        &self,
        (from, key): (&P, Option<PublicKey>),
        id: NodeId,
        next: u64,
    ) -> Result<(), RegistryRefusal> {
        // A member asks again over the same link if it has had no answer in time.
        if let Some(seat) = self.seats.get(from).filter(|seat| seat.id != id) {
            return Err(RegistryRefusal::JoinedAlready { id: seat.id });
        }
        match self.kept.pool.fate(id) {
            Some(Departure::Died { .. }) if planted(Fault::DeadResumed) => {}
            Some(Departure::Died { why }) => return Err(RegistryRefusal::Fenced { why }),
            Some(Departure::Left) => return Err(RegistryRefusal::NotMember),
            None => {
                let member = self.kept.pool.member(id);
                member.filter(|it| it.key() == key).ok_or(RegistryRefusal::NotMember)?;
            }
        }
        let has = self.kept.pool.next();
        if next > has { Err(RegistryRefusal::OlderState { knows: next, has }) } else { Ok(()) }
    }

    fn welcome(&self, id: NodeId) -> RegistryAnswer {
        // A member is slower to give up the registry, which is lost to it for good.
        let heard = (HEARD * (self.terms.silent + self.terms.patience)).as_millis();
        let heard_ms = u64::try_from(heard).unwrap_or(u64::MAX);
        let PoolTerms { size, is_open, resume, .. } = self.terms;
        let resume = resume.unwrap_or_default().as_millis();
        let resume_ms = u64::try_from(resume).unwrap_or(u64::MAX);
        RegistryAnswer::Welcome { id, size, is_open, heard_ms, resume_ms }
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
        if let Some(by) = self.kept.pool.closed_by().filter(|_| !planted(Fault::ClosedOpen)) {
            return Err(RegistryRefusal::PoolClosed { by });
        }
        limits::check_description(join, self.index.described())?;
        if key.is_some() {
            self.check_hosts(join)?;
        }
        match join.rank {
            Some(rank) if rank >= *size => Err(RegistryRefusal::NoSuchRank { size: *size }),
            Some(rank) => match self.kept.pool.members().get(&rank) {
                Some(member) => Err(RegistryRefusal::RankTaken { by: member.id }),
                None => Ok(rank),
            },
            None => self.free_rank(),
        }
    }

    /// The first rank that is free; in an open pool the first one that was never used.
    fn free_rank(&self) -> Result<u32, RegistryRefusal> {
        let (members, size) = (self.kept.pool.members(), self.terms.size);
        if members.len() >= size as usize {
            return Err(RegistryRefusal::PoolFull { size });
        }
        if self.terms.is_open {
            let joined = self.kept.pool.incarnation();
            return u32::try_from(joined).map_err(|_| RegistryRefusal::PoolFull { size: u32::MAX });
        }
        let taken = members.keys().zip(0..).take_while(|(rank, at)| *rank == at);
        Ok(taken.last().map_or(0, |(rank, _)| rank + 1))
    }

    fn next_incarnation(&self) -> u64 {
        let last = self.kept.pool.incarnation();
        if planted(Fault::LivesForgotten) && self.unwritten.is_of_another_run() {
            return self.kept.pool.members().len() as u64 + 1;
        }
        if planted(Fault::SameIncarnation) && last > 0 { last } else { last + 1 }
    }

    /// The node that a key was used by.
    fn last_user(&self, key: Option<PublicKey>) -> Option<NodeId> {
        let id = key.and_then(|key| self.kept.keys.user(&key));
        id.filter(|_| !planted(Fault::KeyReused))
    }

    /// Checks that no member has one of the hosts of a node that joins: others would take its key for
    /// that of the member.
    fn check_hosts(&self, join: &JoinRequest) -> Result<(), RegistryRefusal> {
        if planted(Fault::HostShared) {
            return Ok(());
        }
        for offer in &join.fabrics {
            if let Some(by) = self.index.node_at(&offer.fabric, &offer.host) {
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
        seat.snapshot.take_if(|(state, _)| state.next <= *next);
        let before = seat.follow.replace((ticket, *next));
        before.into_iter().for_each(|(before, _)| self.answer_now(before, None));
        if self.ask_report(now, from) {
            return;
        }
        // A node that is behind the others need not wait for them.
        if *next < self.told.0 {
            self.answer_follow(now, from);
        }
    }

    /// Has all members report what they do.
    pub(super) fn ask_reports(&mut self, now: Instant) {
        self.reports.begin(self.kept.pool.members().values().map(|member| member.id));
        let links: Vec<_> = self.seats.keys().cloned().collect();
        links.iter().for_each(|from| _ = self.ask_report(now, from));
    }

    /// Has a member report that waits for events, if it is to; returns whether it is.
    fn ask_report(&mut self, now: Instant, from: &P) -> bool {
        let Some(seat) = self.seats.get_mut(from) else { return false };
        let Some((ticket, _)) = seat.follow else { return false };
        let number = seat.member().ok().and_then(|node| self.reports.ask(node));
        let Some(number) = number else { return false };
        (seat.follow, seat.since) = (None, now);
        self.answer_now(ticket, Some(Arc::new(RegistryAnswer::Report { number })));
        true
    }

    /// Whether no member's report is missing.
    pub(super) fn has_reports(&self) -> bool {
        self.reports.is_complete(|node| self.kept.pool.member(node).is_some())
    }

    /// The members that were to report, and what came.
    pub(super) fn take_reports(&mut self) -> Vec<(NodeId, Option<Vec<u8>>)> {
        self.reports.end()
    }

    /// Sends a member that waits for events those that there are.
    fn answer_follow(&mut self, now: Instant, from: &P) {
        let Some(seat) = self.seats.get_mut(from) else { return };
        let lasting = self.unwritten.lasting(self.kept.log.next());
        if let Some((ticket, next)) = seat.follow.filter(|(_, next)| *next < lasting) {
            let id = seat.id;
            if self.waits_for_state(from, next) {
                return;
            }
            let may_be_sent = self.seats.get_mut(from).is_some_and(|seat| {
                (seat.follow, seat.since) = (None, now);
                seat.may_be_sent(now, next)
            });
            let answer = match self.next_piece(from) {
                _ if !may_be_sent => return self.answer_now(ticket, None),
                Some(piece) => piece,
                None => self.entries_from(next, id).0,
            };
            self.answer_now(ticket, Some(Arc::new(answer)));
        }
    }

    /// Whether the state of the pool is sent in place of the entries from this one on: the entry is not kept, or so
    /// many follow that the state is shorter.
    fn is_far_behind(&self, next: u64) -> bool {
        let is_short = || {
            let behind = self.kept.log.next() - next;
            // About how many entries of the log the members and views of now would be.
            let weight = (self.kept.pool.members().len() + self.index.entered()) as u64;
            self.terms.is_open && behind > FOLLOWED && behind > 2 * weight
        };
        next < self.kept.log.first() || is_short()
    }

    /// Whether a member is sent the state of the pool, and waits until that state is on disk. The state is of the
    /// moment when the member was first seen to be far behind: however fast entries come, it is on disk soon.
    fn waits_for_state(&mut self, from: &P, next: u64) -> bool {
        let lasting = self.unwritten.lasting(self.kept.log.next());
        let begun = self.seats.get(from).and_then(|seat| seat.snapshot.as_ref());
        if let Some((state, _)) = begun.filter(|(state, _)| next < state.next) {
            return lasting < state.next;
        }
        let state = self.is_far_behind(next).then(|| self.state_behind(next));
        let waits = state.as_ref().is_some_and(|state| lasting < state.next);
        if let Some(seat) = self.seats.get_mut(from) {
            seat.snapshot = state.map(|state| (state, 0));
        }
        waits
    }

    /// The state of the pool behind this entry, for members that are far behind.
    fn state_behind(&mut self, next: u64) -> Arc<PoolSnapshot> {
        let is_usable = |state: &&Arc<PoolSnapshot>| {
            state.next >= self.kept.log.first()
                && state.next > next
                && self.kept.log.next() - state.next < FOLLOWED
        };
        let state = self.snapshot.as_ref().filter(is_usable).cloned();
        let state = state.unwrap_or_else(|| {
            let state = self.kept.pool.snapshot();
            Arc::new(PoolSnapshot { next: state.next(), bytes: state.to_bytes() })
        });
        self.snapshot = Some(Arc::clone(&state));
        self.forget_old_states();
        state
    }

    /// Keeps the newest states of those that members are sent: a member that has a part of an older one starts over.
    fn forget_old_states(&mut self) {
        let sent = self.seats.values().filter_map(|seat| seat.snapshot.as_ref());
        let sent: BTreeSet<u64> = sent.map(|(state, _)| state.next).collect();
        let Some(oldest) = sent.iter().rev().nth(STATES_MAX - 1).copied() else { return };
        for seat in self.seats.values_mut() {
            seat.snapshot.take_if(|(state, _)| state.next < oldest);
        }
    }

    /// The next piece of the state that a member is sent, if it is sent one.
    fn next_piece(&mut self, from: &P) -> Option<RegistryAnswer> {
        let seat = self.seats.get_mut(from)?;
        let (state, sent) = seat.snapshot.take()?;
        let end = state.bytes.len().min(sent + limits::PIECE);
        let (offset, total) = (sent as u64, state.bytes.len() as u64);
        let bytes = state.bytes[sent..end].to_vec();
        seat.snapshot = Some((state, end)).filter(|(state, end)| *end < state.bytes.len());
        Some(RegistryAnswer::Snapshot { offset, total, bytes })
    }

    /// What a member is sent that waits for this entry of the log, and whether other members are sent the same.
    fn entries_from(&self, next: u64, node: NodeId) -> (RegistryAnswer, bool) {
        let log = &self.kept.log;
        let (entries, is_same) = limits::batch(log, next..self.unwritten.lasting(log.next()), node);
        let (entries, is_same) = fault::told((entries, is_same), log.get(0), node);
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
        self.tell_in_vain(id);
        self.tell_the_last();
    }

    /// Tells those who wait for names of a node that is gone, if they wait in vain.
    fn tell_in_vain(&mut self, id: NodeId) {
        if planted(Fault::NamesKept) || self.may_grow() {
            return;
        }
        for (ticket, name) in self.waits.take_in_vain(&self.kept.names.had(id)) {
            if let Some(answer) = self.owner_gone(&name, id) {
                self.answer(ticket, answer);
            }
        }
    }

    /// If one node is left of all, ends its waits for names, which no node can bind any more.
    fn tell_the_last(&mut self) {
        let Some(alone) = self.alone() else { return };
        let last = self.seats.iter().find(|(_, seat)| seat.id == alone);
        let waits = last.map(|(from, _)| self.waits.stop_waiting(from)).unwrap_or_default();
        for (ticket, name) in waits {
            self.answer(ticket, RegistryAnswer::NobodyLeft { name });
        }
    }

    /// A link has ended: its node has died, unless it had left.
    pub(crate) fn link_ended(&mut self, now: Instant, from: &P, why: &str) {
        let Some(seat) = self.take_seat(from) else { return };
        if seat.dies() {
            self.gone(seat.id, Departure::Died { why: cut_reason(why, self.terms.size) });
        }
        self.tell(now);
    }

    /// Removes a link, and ends what it waits for.
    fn take_seat(&mut self, from: &P) -> Option<MemberLink> {
        let seat = self.seats.remove(from)?;
        let waits = self.waits.stop_waiting(from).into_iter().map(|(ticket, _)| ticket);
        let tickets: Vec<_> = waits.chain(seat.follow.map(|(ticket, _)| ticket)).collect();
        tickets.into_iter().for_each(|ticket| self.answer_now(ticket, None));
        Some(seat)
    }

    /// The process of a rank has ended, as its launcher reports.
    pub(crate) fn process_ended(&mut self, now: Instant, rank: u32, why: &str) {
        let why = cut_reason(why, self.terms.size);
        match self.kept.pool.last(rank).filter(|_| !self.terms.is_open) {
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
        if self.kept.pool.member(node).is_some() {
            self.declare_dead(node, cut_reason(why, self.terms.size));
        }
        self.tell(now);
    }

    fn declare_dead(&mut self, id: NodeId, why: String) {
        if let Some((from, seat)) = self.seats.iter_mut().find(|(_, seat)| seat.id == id) {
            seat.gone = Some(Departure::Died { why: why.clone() });
            self.moved.push((from.clone(), false));
        }
        self.absent.remove(&id);
        self.gone(id, Departure::Died { why });
    }

    /// Advances the time: probes nodes that have sent nothing for long, declares nodes dead that were
    /// probed and have not answered, and ends waits for names whose time is over.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.forgive(now);
        let (terms, mut dead) = (&self.terms, Vec::new());
        let silent = terms.silent_of(self.seats.len());
        for seat in self.seats.values_mut().filter(|seat| seat.gone.is_none()) {
            let quiet = now - seat.since;
            match seat.follow {
                None if terms.is_dead(quiet) => dead.push(seat.id),
                Some((ticket, first)) if quiet >= silent && !planted(Fault::Unasked) => {
                    (seat.follow, seat.since) = (None, now);
                    let probe = RegistryAnswer::Events { first, entries: Vec::new() };
                    let answer = Some(Arc::new(probe));
                    self.out.push(PendingAnswer { ticket, answer, rests_on: 0 });
                }
                _ => {}
            }
        }
        for id in dead {
            let why = format!("it has not answered for {:?}", self.terms.patience);
            self.declare_dead(id, why);
        }
        let here = self.seats.values().filter(|seat| seat.gone.is_none());
        self.due = here.map(|seat| seat.since + self.terms.quiet_of(seat, silent)).min();
        self.give_up_absent(now);
        for (ticket, name) in self.waits.late(now) {
            let answer = self.kept.names.not_bound(&name);
            self.answer(ticket, answer);
        }
        self.tell(now);
    }

    /// Declares members dead that have not come back in time since the registry was started again.
    fn give_up_absent(&mut self, now: Instant) {
        let most = self.terms.resume.unwrap_or_default();
        let is_over = |since: Instant| now - since >= most || planted(Fault::Graceless);
        let late: Vec<NodeId> =
            self.absent.iter().filter(|(_, since)| is_over(**since)).map(|(id, _)| *id).collect();
        for id in late {
            let why = format!(
                "it has not come back within {most:?} since the registry was started again"
            );
            self.declare_dead(id, why);
        }
    }

    /// Does not count the time in which the registry was stopped, or got no time from its machine:
    /// it could receive nothing then.
    fn forgive(&mut self, now: Instant) {
        let gap = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        let stopped = gap.saturating_sub(2 * LOOK);
        if stopped.is_zero() || planted(Fault::Unforgiving) {
            return;
        }
        let seats = self.seats.values_mut().map(|seat| &mut seat.since);
        for since in seats.chain(self.absent.values_mut()) {
            *since = (*since + stopped).min(now);
        }
    }

    /// When [`tick`](Self::tick) has something to do. It is to be called every
    /// [`LOOK`] at least.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        // Nodes that are due at about the same time are looked at together. What has happened since the last look is
        // due later than the next one.
        let least = self.terms.silent.min(self.terms.patience).clamp(LOOK_LEAST, LOOK);
        let due = self.due.map(|due| match self.looked {
            Some(looked) => due.clamp(looked + LOOK_LEAST, looked + least),
            None => due,
        });
        let resume = self.terms.resume.unwrap_or_default();
        let absent = self.absent.values().min().map(|since| *since + resume);
        let others = [self.waits.next_event(), self.next_telling(), absent];
        others.into_iter().flatten().chain(due).min()
    }

    /// Appends an entry to the log.
    fn append(&mut self, entry: LogEntry) {
        self.index.note(&entry, &self.kept.pool);
        self.record(StateChange::Entry(entry));
    }

    /// Changes what lasts.
    fn record(&mut self, change: StateChange) {
        let record = StateRecord { change, question: self.question.take() };
        debug_assert!(self.kept.allows(&record) || egret_net::rt::fault().is_some(), "{record:?}");
        let (entry, mut events) = (self.kept.pool.next(), VecDeque::new());
        self.kept.apply(&record, |event| events.push_back((entry, event)));
        self.unwritten.push(record, (self.kept.records(), self.kept.pool.next()), events);
        self.announce();
    }

    /// Tells the process of the registry what has happened, as far as it is on disk.
    fn announce(&mut self) {
        for (entry, event) in self.unwritten.take_events() {
            self.events.push(entry, event);
        }
    }

    /// Whether there are records to be written.
    pub(super) fn has_records(&self) -> bool {
        self.unwritten.has_records()
    }

    /// Takes the records that are to be written.
    pub(super) fn take_records(&mut self) -> Vec<StateRecord> {
        self.unwritten.take()
    }

    /// The records below this number are on disk.
    pub(super) fn written(&mut self, now: Instant, records: u64) {
        self.unwritten.written(records);
        self.announce();
        self.tell(now);
    }

    /// Why records cannot be written just now, if that is so.
    pub(super) fn write_failure(&self) -> Option<&str> {
        self.unwritten.failure()
    }

    /// Records cannot be written: what rests on them is refused, until they are.
    pub(super) fn unwritable(&mut self, why: &str) {
        self.unwritten.fail(why);
        for pending in &mut self.out {
            if pending.answer.is_some() && !self.unwritten.has_written(pending.rests_on) {
                let why = RegistryRefusal::Unwritten { why: why.to_owned() };
                pending.answer = Some(Arc::new(RegistryAnswer::Refused(why)));
                pending.rests_on = 0;
            }
        }
    }

    /// Sends new entries of the log to the members that wait for some: at once if the last ones were sent
    /// long ago, else together with those that come soon.
    fn tell(&mut self, now: Instant) {
        if self.next_telling().is_none_or(|due| due > now) {
            return;
        }
        let lasting = self.unwritten.lasting(self.kept.log.next());
        self.told = (lasting, Some(now));
        let due = self.seats.iter().filter_map(|(from, seat)| {
            seat.follow.filter(|(_, next)| *next < lasting).map(|(_, next)| (from.clone(), next))
        });
        let mut waiting: Vec<(P, u64)> = due.collect();
        waiting.retain(|(from, next)| !self.waits_for_state(from, *next));
        // Most of them wait for the same entry.
        let mut same: BTreeMap<u64, Arc<RegistryAnswer>> = BTreeMap::new();
        for (from, next) in waiting {
            let Some(seat) = self.seats.get_mut(&from) else { continue };
            let Some((ticket, _)) = seat.follow.take() else { continue };
            let node = seat.id;
            seat.since = now;
            if !seat.may_be_sent(now, next) {
                self.answer_now(ticket, None);
                continue;
            }
            if let Some(piece) = self.next_piece(&from) {
                self.answer_now(ticket, Some(Arc::new(piece)));
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
            self.answer_now(ticket, Some(answer));
        }
    }

    /// When new entries are sent to all who wait for some, if there are any.
    fn next_telling(&self) -> Option<Instant> {
        let (told, at) = self.told;
        (told < self.unwritten.lasting(self.kept.log.next()))
            .then(|| at.map_or(Instant::default(), |at| at + TOGETHER))
    }

    /// Takes the links that have become those of members (`true`), and those that are not any more.
    pub(crate) fn take_moved(&mut self) -> Vec<(P, bool)> {
        std::mem::take(&mut self.moved)
    }

    /// Answers, by their tickets; a ticket without one is not answered. Those that rest on records which are not on
    /// disk stay.
    pub(crate) fn take_out(&mut self) -> Vec<(Ticket, Option<Arc<RegistryAnswer>>)> {
        let unwritten = &self.unwritten;
        let is_due = |pending: &mut PendingAnswer| unwritten.has_written(pending.rests_on);
        let due = self.out.extract_if(.., is_due);
        due.map(|pending| (pending.ticket, pending.answer)).collect()
    }
}

/// The longest time between two calls of `tick`.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// The shortest time between two looks for silent nodes.
const LOOK_LEAST: Duration = Duration::from_millis(50);
/// Time for one probe: there are at most 2,000 in a second.
const PROBE: Duration = Duration::from_micros(500);
/// How many times as long as a node the registry may be silent.
const HEARD: u32 = 4;
/// States of different moments that members are sent at a time.
const STATES_MAX: usize = 8;
/// Entries by which a member of an open pool may be behind, and is still sent entries.
const FOLLOWED: u64 = 64;
/// How long after it has shown that it lives a member may be suspected.
const SUSPECTED: Duration = Duration::from_millis(100);
/// The longest time for which events wait to travel together.
pub(super) const TOGETHER: Duration = Duration::from_millis(2);
