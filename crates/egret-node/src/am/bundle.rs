//! Bundles: endpoints whose messages are served one at a time, but for those of shared handlers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use egret_net::rt::Instant;

use super::message::Few;
use super::request::From;
use super::serve::Answer;
use super::{Ended, Endpoint, EndpointError, Request, Undelivered};
use crate::link::Head;
use crate::link::arrived::Arrived;
use crate::links::core::Core;
use crate::links::slots::{Key, Slots};
use crate::links::state::State;

/// Endpoints whose messages are served one at a time, each by whichever thread drives
/// the links. Messages of different bundles may be served at the same time, and those of
/// [shared](Endpoint::on_shared) handlers.
///
/// Clones are handles to the same one.
#[derive(Debug)]
pub struct Bundle {
    pub(crate) core: Arc<Core>,
    pub(crate) key: Key,
}

/// A handler: what it does with a message.
pub(crate) type Handler = Box<dyn FnMut(Request<'_>) + Send>;
/// A handler of which several may run at once, each with another message.
pub(crate) type SharedHandler = Arc<dyn Fn(Request<'_>) + Send + Sync>;
/// What an endpoint does with messages that came back.
pub(crate) type ErrorHandler = Box<dyn FnMut(Undelivered) + Send>;
/// What runs for messages of paths to a port.
pub(crate) type PathHandler = Box<dyn FnMut(&str, &[u8]) + Send>;
/// What an endpoint does when a link ends.
pub(crate) type EndHandler = Box<dyn FnMut(Ended) + Send>;

/// The handlers of an endpoint, [each at its place](Table::place).
#[derive(Default)]
pub(crate) struct Table(Vec<Entry>);

#[derive(Default)]
enum Entry {
    #[default]
    None,
    Here(Run),
    /// It runs just now.
    Out,
}

/// What the links know of a bundle.
#[derive(Default)]
pub(crate) struct BundleState {
    /// Whether a thread serves.
    serving: bool,
    waiting: VecDeque<Box<Upcall>>,
    pub(crate) tables: Slots<Table>,
    /// Handles that programs have to it.
    handles: usize,
}

/// Something that a bundle is to serve. It stays in its box, which is used again, from when it
/// has come until it was served.
#[derive(Debug, Default)]
pub(crate) struct Upcall {
    pub(crate) endpoint: Key,
    pub(crate) what: What,
    /// The handler that runs, and its place in the table.
    pub(crate) run: Option<Run>,
    place: usize,
    pub(crate) handling: Handling,
}

/// The serving of an upcall: where it runs, who else may run, what became of its answer.
#[derive(Debug, Default)]
pub(crate) struct Handling {
    /// The bundle and the table that the handler is of.
    pub(crate) home: Home,
    /// When the message was taken in.
    pub(crate) came: Instant,
    /// Whether other threads may serve the bundle while the handler runs.
    pub(crate) is_apart: bool,
    /// Whether other upcalls were due when this one was.
    pub(crate) has_more: bool,
    /// Whether the handler is [shared](super::Endpoint::on_shared).
    pub(crate) is_shared: bool,
    /// Whether the credit of the message's data was granted to the peer again already.
    pub(crate) is_granted: bool,
    /// What the handler has done about its answer.
    pub(crate) answer: Answer,
    pub(crate) few: Few,
}

/// The bundle of an endpoint, and the endpoint's table there. They stay the same while anything is
/// under way to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Home {
    pub(crate) bundle: Key,
    pub(crate) table: Key,
}

#[derive(Debug, Default)]
pub(crate) enum What {
    /// It was served.
    #[default]
    Nothing,
    /// A message of a mapping of this link, by its slot.
    Message { from: From, arrived: Arrived },
    /// An answer, by this mapping, that names a handler of who asked.
    Answer { link: Key, number: Key, arrived: Arrived },
    /// A message that came back.
    Undelivered(Box<Undelivered>),
    /// Data of this mapping that came back.
    Returned { link: Key, number: Key, arrived: Arrived },
    /// A link is no more.
    Ended(Box<Ended>),
    /// A message of this path.
    Path { path: Key, peer: Arc<str>, bytes: Vec<u8> },
    /// The links are closed, and the endpoint has no handlers any more.
    Closed,
}

pub(crate) enum Run {
    Handler(Handler),
    /// A handler that several threads may run at once; and whether each message waits until the
    /// one before has been begun.
    Shared(SharedHandler, Order),
    OnError(ErrorHandler),
    OnEnd(EndHandler),
    Path(PathHandler),
    /// All are dropped.
    Drop(Box<Table>),
}

/// The order in which messages for a shared handler are begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Any: a message is begun as soon as there is a thread.
    Any,
    /// That of arrival: a message is begun when the handler of the one before has ended, or gone
    /// [outside](Request::outside).
    Kept,
}

impl Bundle {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let state = BundleState { handles: 1, ..BundleState::default() };
        let key = core.state.with(|inside| inside.bundles.insert(state));
        Self { core, key }
    }

    /// A new endpoint, which nobody can map yet unless it has a name: see
    /// [`Endpoint::register`].
    #[must_use]
    pub fn endpoint(&self, tag: u64) -> Endpoint {
        Endpoint::new(self, tag)
    }

    /// A new endpoint, registered under a name.
    ///
    /// # Errors
    ///
    /// If another has the name, or it is too long.
    pub fn register(&self, name: &str, tag: u64) -> Result<Endpoint, EndpointError> {
        let endpoint = self.endpoint(tag);
        endpoint.register(name)?;
        Ok(endpoint)
    }
}

impl Clone for Bundle {
    fn clone(&self) -> Self {
        let (core, key) = (Arc::clone(&self.core), self.key);
        core.state.with(|state| {
            state.bundles.get(key).into_iter().for_each(|bundle| bundle.handles += 1);
        });
        Self { core, key }
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        self.core.state.with(|state| {
            state.bundles.get(self.key).into_iter().for_each(|bundle| bundle.handles -= 1);
            state.forget_bundle(self.key);
        });
    }
}

impl State {
    /// Forgets a bundle that nobody has and nothing is in.
    pub(crate) fn forget_bundle(&mut self, key: Key) {
        let unused = |it: &mut BundleState| {
            let is_idle = !it.serving && it.waiting.is_empty();
            it.handles == 0 && it.tables.len() == 0 && is_idle
        };
        if self.bundles.get(key).is_some_and(unused) {
            self.bundles.remove(key);
        }
    }

    /// The next upcall whose bundle nobody serves.
    #[inline]
    pub(crate) fn next_job(&mut self) -> Option<Box<Upcall>> {
        if !self.left.is_empty()
            && let Some(job) = self.next_left()
        {
            return Some(job);
        }
        while let Some(mut upcall) = self.upcalls.pop_front() {
            let Some(bundle) = self.bundles.get(upcall.handling.home.bundle) else {
                self.unserved(upcall);
                continue;
            };
            if !bundle.serving || bundle.is_unordered(&upcall) {
                bundle.prepare(&mut upcall);
                upcall.handling.has_more = self.has_jobs();
                return Some(upcall);
            }
            bundle.waiting.push_back(upcall);
        }
        None
    }

    /// Whether handlers are to be run, and nobody does so.
    #[inline]
    pub(crate) fn has_jobs(&self) -> bool {
        !self.upcalls.is_empty() || !self.left.is_empty()
    }

    /// An upcall has run: puts back what ran, and takes account of what that did. What is not
    /// needed any more goes to `unused`, to be dropped without a lock.
    #[inline]
    pub(crate) fn finish(&mut self, mut ended: Box<Upcall>, unused: &mut Option<Run>) {
        self.done(&mut ended);
        if !ended.handling.is_apart {
            let key = ended.handling.home.bundle;
            self.bundles.get(key).into_iter().for_each(|bundle| bundle.put_back(&mut ended));
            self.leave_bundle(key);
        }
        if ended.run.is_some() {
            *unused = ended.run.take();
        }
        if self.spare.len() < SPARE_MAX {
            self.spare.push(ended);
        }
    }

    /// A thread serves a bundle no longer. Whether other upcalls are due.
    #[inline]
    pub(crate) fn leave_bundle(&mut self, key: Key) -> bool {
        if let Some(bundle) = self.bundles.get(key) {
            bundle.serving = false;
            let is_unused = bundle.handles == 0 && bundle.tables.len() == 0;
            if !bundle.waiting.is_empty() {
                self.left.push_back(key);
            }
            if is_unused {
                self.forget_bundle(key);
            }
        }
        self.has_jobs()
    }

    /// The next upcall of the bundles that were left. It came before all those of the same
    /// bundle that are not with it yet.
    #[cold]
    fn next_left(&mut self) -> Option<Box<Upcall>> {
        while let Some(key) = self.left.pop_front() {
            let Some(bundle) = self.bundles.get(key).filter(|bundle| !bundle.serving) else {
                continue;
            };
            let Some(mut upcall) = bundle.waiting.pop_front() else {
                self.forget_bundle(key);
                continue;
            };
            bundle.prepare(&mut upcall);
            // Nobody serves the bundle, and others wait for it.
            if upcall.handling.is_apart && !bundle.waiting.is_empty() {
                self.left.push_front(key);
            }
            upcall.handling.has_more = self.has_jobs();
            return Some(upcall);
        }
        None
    }

    /// Something for an endpoint that was closed meanwhile.
    #[cold]
    fn unserved(&mut self, mut upcall: Box<Upcall>) {
        upcall.handling.answer = Answer::NoHandler;
        self.done(&mut upcall);
    }

    /// A box for something that an endpoint is to be told.
    #[inline]
    pub(crate) fn upcall(
        &mut self,
        endpoint: Key,
        home: Home,
        what: What,
        came: Instant,
    ) -> Box<Upcall> {
        let mut upcall = self.spare.pop().unwrap_or_default();
        (upcall.endpoint, upcall.what) = (endpoint, what);
        upcall.handling.home = home;
        upcall.handling.came = came;
        upcall
    }
}

impl Upcall {
    pub(crate) fn new(endpoint: Key, what: What, came: Instant) -> Box<Self> {
        let handling = Handling { came, ..Handling::default() };
        Box::new(Self { endpoint, what, handling, ..Self::default() })
    }

    /// To be served there.
    pub(crate) fn at(mut self: Box<Self>, home: Home) -> Box<Self> {
        self.handling.home = home;
        self
    }

    /// Becomes a short message, in the memory of the one before.
    #[inline]
    pub(crate) fn set_short(&mut self, from: From, head: Head, bytes: &[u8]) {
        if let What::Message { from: place, arrived } = &mut self.what {
            arrived.reuse(head, bytes);
            *place = from;
            return;
        }
        let arrived = Arrived::from_parts(head, None, bytes.to_vec());
        self.what = What::Message { from, arrived };
    }
}

impl BundleState {
    /// Upcalls that wait for the thread that serves.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether an upcall is of a shared handler that waits for no other.
    #[inline]
    fn is_unordered(&mut self, upcall: &Upcall) -> bool {
        let (What::Message { arrived, .. } | What::Answer { arrived, .. }) = &upcall.what else {
            return false;
        };
        let table = self.tables.get(upcall.handling.home.table);
        let place = Table::place(arrived.head.handler);
        table.is_some_and(|table| {
            matches!(table.0.get(place), Some(Entry::Here(Run::Shared(_, Order::Any))))
        })
    }

    /// A thread serves an upcall: what runs for it is taken out of its table, or shared.
    #[inline]
    fn prepare(&mut self, upcall: &mut Upcall) {
        upcall.run = self.tables.get(upcall.handling.home.table).and_then(|table| {
            upcall.place = match &upcall.what {
                What::Message { arrived, .. } | What::Answer { arrived, .. } => {
                    Table::place(arrived.head.handler)
                }
                What::Undelivered(_) | What::Returned { .. } => Table::ON_ERROR,
                What::Ended(_) => Table::ON_END,
                What::Path { .. } => Table::ON_PATH,
                What::Closed => return Some(Run::Drop(Box::new(std::mem::take(table)))),
                What::Nothing => return None,
            };
            table.take(upcall.place)
        });
        let handling = &mut upcall.handling;
        handling.answer = if upcall.run.is_some() { Answer::Missing } else { Answer::NoHandler };
        handling.is_shared = matches!(upcall.run, Some(Run::Shared(..)));
        handling.is_apart = matches!(upcall.run, Some(Run::Shared(_, Order::Any)));
        handling.is_granted = false;
        self.serving |= !handling.is_apart;
    }

    /// Puts back what has run, if its place is still there.
    #[inline]
    fn put_back(&mut self, ended: &mut Upcall) {
        if let Some(table) = self.tables.get(ended.handling.home.table)
            && let Some(entry @ Entry::Out) = table.0.get_mut(ended.place)
            && let Some(ran) = ended.run.take()
        {
            *entry = Entry::Here(ran);
        }
    }
}

impl Table {
    /// The place of what runs for messages that come back.
    pub(crate) const ON_ERROR: usize = 0;
    /// The place of what runs when a link ends.
    pub(crate) const ON_END: usize = 1;
    /// The place of what runs for a port of paths, in a table of its own.
    pub(crate) const ON_PATH: usize = 0;
    const NUMBERED: usize = 2;

    /// The place of the handler of this number.
    #[inline]
    pub(crate) const fn place(number: u8) -> usize {
        Self::NUMBERED + number as usize
    }

    #[inline]
    fn take(&mut self, place: usize) -> Option<Run> {
        let entry = self.0.get_mut(place)?;
        if let Entry::Here(Run::Shared(handler, order)) = entry {
            return Some(Run::Shared(Arc::clone(handler), *order));
        }
        match std::mem::take(entry) {
            Entry::Here(run) => {
                *entry = Entry::Out;
                Some(run)
            }
            Entry::None | Entry::Out => None,
        }
    }

    /// Sets what runs for a place; the one before is to be dropped without a lock, for it may own
    /// what takes one.
    #[must_use]
    pub(crate) fn set(&mut self, place: usize, run: Option<Run>) -> Option<Run> {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, Entry::default);
        }
        let entry = run.map_or(Entry::None, Entry::Here);
        match std::mem::replace(&mut self.0[place], entry) {
            Entry::Here(before) => Some(before),
            Entry::None | Entry::Out => None,
        }
    }

    /// The lowest number without a handler.
    pub(crate) fn free(&self) -> Option<u8> {
        let is_free =
            |number: &u8| matches!(self.0.get(Self::place(*number)), None | Some(Entry::None));
        (0..u8::MAX).find(is_free)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handler(_) => "Handler",
            Self::Shared(..) => "Shared",
            Self::OnError(_) => "OnError",
            Self::OnEnd(_) => "OnEnd",
            Self::Path(_) => "Path",
            Self::Drop(_) => "Drop",
        })
    }
}

/// Boxes that are kept, at most: what arrives at once.
const SPARE_MAX: usize = 64;

impl fmt::Debug for BundleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").field("handles", &self.handles).finish_non_exhaustive()
    }
}
