//! The registry on its links: receives requests, sends answers, keeps the time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant, Thread};
use egret_net::sync::Mutex;

use super::journal::Journal;
use super::record::KeptState;
use super::refusals::{QuestionSummary, RefusalLog};
use super::state::{LOOK, PoolTerms, RegistryState, Ticket};
use crate::Links;
use crate::am::{EndedLink, Endpoint, LinkPeer, Message, ReplySlot, Request};
use crate::link::LinkError;
use crate::pool::wire::{ASK, ENDPOINT, EVENTS, PLAIN, RegistryAnswer, RegistryQuestion, VERSION};
use crate::pool::{
    Event, EventPlace, EventSource, JoinError, NodeError, NodeId, NodeReport, RegistryRefusal,
    drive,
};

/// The registry on its links.
pub(super) struct RegistryServer {
    pub(super) links: Links,
    pub(super) inner: Mutex<ServedState>,
    endpoint: OnceLock<Endpoint>,
    refusals: Mutex<RefusalLog>,
    /// The thread that calls `tick`.
    clock: OnceLock<Thread>,
    /// Where the state is kept, if it lasts.
    journal: Mutex<Option<Journal>>,
    /// The thread that writes the state.
    writer: OnceLock<Thread>,
    /// Held while reports are collected.
    reports: Mutex<()>,
}

pub(super) struct ServedState {
    pub(super) state: RegistryState<LinkPeer>,
    /// The reply slots of requests that are not answered yet, and the handlers of the answers.
    pub(super) slots: BTreeMap<Ticket, (ReplySlot, u8)>,
    tickets: Ticket,
}

impl RegistryServer {
    pub(super) fn open(
        links: Links,
        terms: PoolTerms,
        kept: Option<(Journal, KeptState)>,
    ) -> Result<Arc<Self>, JoinError> {
        let (journal, mut state) = match kept {
            Some((journal, kept)) => {
                (Some(journal), RegistryState::restored(terms, kept, rt::now()))
            }
            None => (None, RegistryState::new(terms)),
        };
        state.operated_by(links.nic().key());
        let journal = Mutex::new(journal);
        let inner = ServedState { state, slots: BTreeMap::new(), tickets: 0 };
        links.keep_unlisted_for(JOIN_WITHIN);
        let endpoint = links.bundle().register(ENDPOINT, 0)?;
        let (inner, refusals) = (Mutex::new(inner), Mutex::default());
        let (unset, clock, writer) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let server = Arc::new(Self {
            links,
            inner,
            endpoint: unset,
            refusals,
            clock,
            journal,
            writer,
            reports: Mutex::default(),
        });
        let weak = Arc::downgrade(&server);
        endpoint.on(ASK, move |request| {
            if let Some(server) = weak.upgrade() {
                server.asked(request);
            }
        });
        let weak = Arc::downgrade(&server);
        endpoint.on_end(move |ended| {
            if let Some(server) = weak.upgrade() {
                server.link_ended(&ended);
            }
        });
        _ = server.endpoint.set(endpoint);
        Ok(server)
    }

    /// A node whose link ends, and which has not left, has died.
    fn link_ended(&self, ended: &EndedLink) {
        let why = match &ended.why {
            // The registry is closed: no node dies of that.
            LinkError::Closed => return,
            LinkError::PeerDied { why, .. } => (*why).to_owned(),
            LinkError::PeerFailed { why, .. } => why.clone(),
            LinkError::ClosedByPeer { .. } => "it closed its links without leaving".to_owned(),
            LinkError::Replaced { .. } => "it has begun another life".to_owned(),
            why => why.to_string(),
        };
        self.change(|state, now| state.link_ended(now, &ended.peer, &why));
    }

    fn asked(&self, request: Request<'_>) {
        if !request.wants_reply() {
            return;
        }
        let read =
            || RegistryQuestion::from_bytes(request.bytes()).ok_or(RegistryRefusal::Unreadable);
        let ask = match request.words() {
            [VERSION] => read().map(|ask| (ask, 0, 0)),
            [VERSION, number, floor] => read().map(|ask| (ask, *number, *floor)),
            [VERSION, ..] => Err(RegistryRefusal::Unreadable),
            _ => Err(RegistryRefusal::Version { theirs: VERSION }),
        };
        match ask {
            Err(why) => {
                self.tell_refused(request.peer(), &QuestionSummary::Other, &why);
                answer((request.later(), PLAIN), &RegistryAnswer::Refused(why));
            }
            Ok((ask, number, floor)) => {
                let from = request.peer();
                let key = self.links.key_of(from);
                if key.is_none() && self.links.nic().key().is_some() {
                    // Its link has ended meanwhile, and who it was is not known any more.
                    return;
                }
                let handler =
                    if matches!(ask, RegistryQuestion::Follow { .. }) { EVENTS } else { PLAIN };
                let (question, mut refused) = (QuestionSummary::of(&ask), None);
                self.change_with(Some((request.later(), handler)), |state, now, ticket| {
                    state.ask_numbered(now, (&from, key), ticket, (ask, number, floor));
                    // What it had asked before it left comes behind that.
                    let is_late = |why: &&RegistryRefusal| {
                        **why == RegistryRefusal::NotMember && state.has_left(&from)
                    };
                    refused = state.refused(ticket).filter(|why| !is_late(why)).cloned();
                });
                refused.iter().for_each(|why| self.tell_refused(from, &question, why));
            }
        }
    }

    /// Logs a request that was refused.
    fn tell_refused(&self, from: LinkPeer, question: &QuestionSummary, why: &RegistryRefusal) {
        if !question.is_of_members(why) {
            let from = self
                .links
                .host_of(from)
                .unwrap_or_else(|| "a peer whose link has ended".to_owned());
            self.refusals.lock().say(&from, question, why, rt::now());
        }
    }

    /// Changes the state, and sends the answers that result.
    pub(super) fn change(&self, change: impl FnOnce(&mut RegistryState<LinkPeer>, Instant)) {
        self.change_with(None, |state, now, _| change(state, now));
    }

    fn change_with(
        &self,
        slot: Option<(ReplySlot, u8)>,
        change: impl FnOnce(&mut RegistryState<LinkPeer>, Instant, Ticket),
    ) {
        let now = rt::now();
        let (answers, sooner, writes) = {
            let mut inner = self.inner.lock();
            let before = inner.state.next_event();
            inner.tickets += 1;
            let ticket = inner.tickets;
            slot.map(|slot| inner.slots.insert(ticket, slot));
            change(&mut inner.state, now, ticket);
            let out = inner.state.take_out().into_iter();
            let answers =
                out.filter_map(|(ticket, said)| Some((inner.slots.remove(&ticket)?, said)));
            let answers: Vec<_> = answers.collect();
            let due = inner.state.next_event();
            // Under the lock: in the order of what happened.
            let moved = inner.state.take_moved().into_iter();
            moved.for_each(|(peer, stays)| self.links.keep(peer, stays));
            let sooner = due.is_some_and(|due| before.is_none_or(|before| due < before));
            (answers, sooner, inner.state.has_records())
        };
        if let Some(writer) = self.writer.get().filter(|_| writes) {
            writer.unpark();
        }
        // Many members are sent the same entries, one behind the other.
        let mut last: Option<(Arc<RegistryAnswer>, Vec<u8>)> = None;
        for ((slot, handler), said) in answers {
            let Some(said) = said else { continue };
            let bytes = match &last {
                Some((same, bytes)) if Arc::ptr_eq(same, &said) => bytes,
                _ => &last.insert((Arc::clone(&said), said.to_bytes())).1,
            };
            slot.reply_with(Message::to(handler).bytes(bytes));
        }
        if let Some(clock) = self.clock.get().filter(|_| sooner) {
            clock.unpark();
        }
    }

    /// Writes the records that there are, and sends what rests on them; returns whether that is done. What cannot be
    /// written is to be tried again.
    pub(super) fn write_state(&self) -> bool {
        let mut place = self.journal.lock();
        let Some(journal) = place.as_mut() else { return true };
        let (snapshot, failure) = {
            let mut inner = self.inner.lock();
            let failure = inner.state.write_failure().map(str::to_owned);
            let records = inner.state.take_records();
            if records.is_empty() && journal.is_written() && failure.is_none() {
                return true;
            }
            journal.add(records);
            // Of all records, those that wait included.
            (journal.is_snapshot_due().then(|| inner.state.kept.clone()), failure)
        };
        let written = match &snapshot {
            Some(state) => journal.replace_or_write(state),
            None => journal.write(),
        };
        drop(place);
        match written {
            Ok(records) => {
                if failure.is_some() {
                    tracing::warn!("the registry can write its state again");
                }
                self.change(|state, now| state.written(now, records));
            }
            Err(why) => {
                let why = why.to_string();
                if failure.as_ref() != Some(&why) {
                    tracing::error!(
                        why,
                        "the registry cannot write its state: it refuses changes, and tries again"
                    );
                }
                self.change(|state, _| state.unwritable(&why));
                return false;
            }
        }
        true
    }

    /// Writes what is to be written, closes the links, and frees the directory of the state.
    pub(super) fn close(&self) {
        self.write_state();
        self.links.close();
        let journal = self.journal.lock().take();
        drop(journal);
    }

    /// Asks all members for a report, and waits for the reports.
    pub(super) fn reports(&self, deadline: Deadline) -> Vec<(NodeId, Option<NodeReport>)> {
        // One round at a time.
        let _round = self.reports.lock();
        self.change(|state, now| state.ask_reports(now));
        drive(self, deadline, &mut || self.inner.lock().state.has_reports());
        let reports = self.inner.lock().state.take_reports().into_iter();
        let read = |node, bytes: Option<Vec<u8>>| {
            NodeReport::from_bytes(&bytes?).filter(|report| report.node == node)
        };
        reports.map(|(node, bytes)| (node, read(node, bytes))).collect()
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.inner.lock().state.next_event()
    }
}

fn answer((slot, handler): (ReplySlot, u8), said: &RegistryAnswer) {
    let bytes = said.to_bytes();
    slot.reply_with(Message::to(handler).bytes(&bytes));
}

/// Starts the thread that calls `tick`, until the registry is dropped.
pub(super) fn keep_time(server: &Arc<RegistryServer>) -> std::io::Result<()> {
    let weak = Arc::downgrade(server);
    let clock = rt::spawn("egret registry", move || run(&weak))?;
    drop(clock);
    Ok(())
}

/// Starts the thread that writes the state, until the registry is dropped.
pub(super) fn keep_state(server: &Arc<RegistryServer>) -> std::io::Result<()> {
    let weak = Arc::downgrade(server);
    drop(rt::spawn("egret journal", move || {
        loop {
            let Some(server) = weak.upgrade() else { return };
            server.writer.get_or_init(rt::current);
            let pause = if server.write_state() { LOOK } else { WRITE_AGAIN };
            drop(server);
            rt::park(Some(rt::now() + pause));
        }
    })?);
    Ok(())
}

fn run(server: &Weak<RegistryServer>) {
    loop {
        let Some(server) = server.upgrade() else { return };
        server.clock.get_or_init(rt::current);
        server.change(|state, now| state.tick(now));
        let due = server.next_event();
        drop(server);
        let look = rt::now() + LOOK;
        rt::park(Some(due.map_or(look, |due| due.min(look))));
    }
}

/// Time until the registry tries again to write what could not be written.
const WRITE_AGAIN: Duration = Duration::from_millis(250);
/// How long a process that has the secret may have a link without being a member.
const JOIN_WITHIN: Duration = Duration::from_secs(30);

/// The log of events, for `Registry::events`.
impl EventSource for RegistryServer {
    fn event(&self, at: EventPlace) -> Option<(Event, EventPlace)> {
        self.inner.lock().state.events.event(at)
    }

    fn end(&self) -> Option<NodeError> {
        let is_closed = self.links.core.state.with(|state| state.closed);
        let why = || "it was closed in this process".to_owned();
        is_closed.then(|| NodeError::RegistryLost { why: why() })
    }

    fn links(&self) -> u32 {
        self.links.core.number
    }

    fn drive(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> bool {
        self.links.drive(deadline, done)
    }
}

impl fmt::Debug for RegistryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("address", &self.links.host()).finish_non_exhaustive()
    }
}
