//! Bundles: endpoints whose messages are served one at a time, but for those of shared handlers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use egret_net::rt::Instant;

use super::message::FewWords;
use super::request::ReplyAddress;
use super::run_handlers::AnswerState;
use super::{EndedLink, Endpoint, MessageError, Request, Undelivered};
use crate::frame::{ArrivedFrame, FrameHead};
use crate::links::core::LinksCore;
use crate::links::state::LinksState;
use crate::slots::{SlotKey, SlotTable};

/// Endpoints whose messages are served one at a time, each by whichever thread drives
/// the links. Messages of different bundles, and those for [shared](Endpoint::on_shared) handlers, may
/// be served at the same time.
///
/// Clones are handles to the same bundle. The [module](super) has an example.
#[derive(Debug)]
pub struct Bundle {
    pub(crate) core: Arc<LinksCore>,
    pub(crate) key: SlotKey,
}

/// A handler: runs for one message at a time.
pub(crate) type RequestHandler = Box<dyn FnMut(Request<'_>) + Send>;
/// A handler of which several may run at once, each with another message.
pub(crate) type SharedHandler = Arc<dyn Fn(Request<'_>) + Send + Sync>;
/// The handler of messages that came back.
pub(crate) type ErrorHandler = Box<dyn FnMut(Undelivered) + Send>;
/// The handler of messages of paths to a port.
pub(crate) type PathHandler = Box<dyn FnMut(&str, &[u8]) + Send>;
/// The handler of links that have ended.
pub(crate) type EndHandler = Box<dyn FnMut(EndedLink) + Send>;

/// The handlers of an endpoint, [each at its place](HandlerTable::place).
#[derive(Default)]
pub(crate) struct HandlerTable(Vec<HandlerEntry>);

#[derive(Default)]
enum HandlerEntry {
    #[default]
    None,
    Here(UpcallHandler),
    /// The handler runs just now, and is put back afterwards.
    Out,
}

/// A bundle, in the table of its links.
#[derive(Default)]
pub(crate) struct BundleState {
    /// Whether a thread serves.
    serving: bool,
    waiting: VecDeque<Box<Upcall>>,
    pub(crate) tables: SlotTable<HandlerTable>,
    /// [`Bundle`]s of the program that refer to this one.
    handles: usize,
}

/// One run of a handler: queued, running, or a spare box that is used again.
#[derive(Debug, Default)]
pub(crate) struct Upcall {
    pub(crate) endpoint: SlotKey,
    pub(crate) what: UpcallKind,
    /// The handler, taken out of its table while it runs, and its place there.
    pub(crate) run: Option<UpcallHandler>,
    place: usize,
    pub(crate) handling: Handling,
}

/// How an upcall is served: by which handler table, beside which others, and with what answer.
#[derive(Debug, Default)]
pub(crate) struct Handling {
    /// The bundle and the table of the handler.
    pub(crate) home: TableKey,
    /// When the message was received.
    pub(crate) came: Instant,
    /// Whether other threads may serve the bundle while the handler runs.
    pub(crate) is_apart: bool,
    /// Whether other upcalls were due when this one was begun.
    pub(crate) has_more: bool,
    /// Whether the handler is [shared](super::Endpoint::on_shared).
    pub(crate) is_shared: bool,
    /// Whether the credit of the message's data was granted to the peer again already.
    pub(crate) is_granted: bool,
    /// What the handler has done about its answer.
    pub(crate) answer: AnswerState,
    pub(crate) few: FewWords,
}

/// The bundle of an endpoint, and the endpoint's handler table there. Neither changes while an upcall
/// of the endpoint is queued or runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableKey {
    pub(crate) bundle: SlotKey,
    pub(crate) table: SlotKey,
}

#[derive(Debug, Default)]
pub(crate) enum UpcallKind {
    /// None: the box is spare.
    #[default]
    Nothing,
    /// A message of a mapping of this link, by its slot.
    Message { from: ReplyAddress, arrived: ArrivedFrame },
    /// An answer, by this mapping, that names a handler of the requester.
    Answer { link: SlotKey, number: SlotKey, arrived: ArrivedFrame },
    /// A message that came back.
    Undelivered(Box<Undelivered>),
    /// Data of this mapping that came back.
    Returned { link: SlotKey, number: SlotKey, arrived: ArrivedFrame },
    /// A link is no more.
    Ended(Box<EndedLink>),
    /// A message of this path.
    Path { path: SlotKey, peer: Arc<str>, bytes: Vec<u8> },
    /// The links are closed, and the endpoint has no handlers any more.
    Closed,
}

pub(crate) enum UpcallHandler {
    Handler(RequestHandler),
    /// A handler that several threads may run at once; and whether each message waits until the
    /// one before has been begun.
    Shared(SharedHandler, StartOrder),
    OnError(ErrorHandler),
    OnEnd(EndHandler),
    Path(PathHandler),
    /// Drops all handlers of an endpoint.
    Drop(Box<HandlerTable>),
}

/// The order in which messages for a shared handler are begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartOrder {
    /// Any: a message is begun as soon as there is a thread.
    Any,
    /// That of arrival: a message is begun when the handler of the one before has ended, or gone
    /// [outside](Request::outside).
    Kept,
}

impl Bundle {
    pub(crate) fn new(core: Arc<LinksCore>) -> Self {
        let state = BundleState { handles: 1, ..BundleState::default() };
        let key = core.state.with(|inside| inside.bundles.insert(state));
        Self { core, key }
    }

    /// A new endpoint, which cannot be mapped yet unless it has a name: see
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
    pub fn register(&self, name: &str, tag: u64) -> Result<Endpoint, MessageError> {
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

impl LinksState {
    /// Forgets a bundle without handles and contents.
    pub(crate) fn forget_bundle(&mut self, key: SlotKey) {
        let unused = |it: &mut BundleState| {
            let is_idle = !it.serving && it.waiting.is_empty();
            it.handles == 0 && it.tables.len() == 0 && is_idle
        };
        if self.bundles.get(key).is_some_and(unused) {
            self.bundles.remove(key);
        }
    }

    /// The next upcall whose bundle no thread serves.
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

    /// Whether handlers are to be run, and no thread does so.
    #[inline]
    pub(crate) fn has_jobs(&self) -> bool {
        !self.upcalls.is_empty() || !self.left.is_empty()
    }

    /// An upcall has run: puts its handler back, and sends the answer. A handler that was replaced
    /// meanwhile goes to `unused`, to be dropped without a lock.
    #[inline]
    pub(crate) fn finish(&mut self, mut ended: Box<Upcall>, unused: &mut Option<UpcallHandler>) {
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

    /// The calling thread stops serving a bundle. Returns whether other upcalls are due.
    #[inline]
    pub(crate) fn leave_bundle(&mut self, key: SlotKey) -> bool {
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
            // No thread serves the bundle, and others wait for it.
            if upcall.handling.is_apart && !bundle.waiting.is_empty() {
                self.left.push_front(key);
            }
            upcall.handling.has_more = self.has_jobs();
            return Some(upcall);
        }
        None
    }

    /// Ends an upcall of an endpoint that was closed meanwhile, as if there were no handler.
    #[cold]
    fn unserved(&mut self, mut upcall: Box<Upcall>) {
        upcall.handling.answer = AnswerState::NoHandler;
        self.done(&mut upcall);
    }

    /// A new upcall of an endpoint, in a spare box if there is one.
    #[inline]
    pub(crate) fn upcall(
        &mut self,
        endpoint: SlotKey,
        home: TableKey,
        what: UpcallKind,
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
    pub(crate) fn new(endpoint: SlotKey, what: UpcallKind, came: Instant) -> Box<Self> {
        let handling = Handling { came, ..Handling::default() };
        Box::new(Self { endpoint, what, handling, ..Self::default() })
    }

    /// Sets the bundle and the table to be served by.
    pub(crate) fn at(mut self: Box<Self>, home: TableKey) -> Box<Self> {
        self.handling.home = home;
        self
    }

    /// Makes the upcall a short message, in the memory of the message before.
    #[inline]
    pub(crate) fn set_short(&mut self, from: ReplyAddress, head: FrameHead, bytes: &[u8]) {
        if let UpcallKind::Message { from: place, arrived } = &mut self.what {
            arrived.reuse(head, bytes);
            *place = from;
            return;
        }
        let arrived = ArrivedFrame::from_parts(head, None, bytes.to_vec());
        self.what = UpcallKind::Message { from, arrived };
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
        let (UpcallKind::Message { arrived, .. } | UpcallKind::Answer { arrived, .. }) =
            &upcall.what
        else {
            return false;
        };
        let table = self.tables.get(upcall.handling.home.table);
        let place = HandlerTable::place(arrived.head.handler);
        table.is_some_and(|table| {
            matches!(
                table.0.get(place),
                Some(HandlerEntry::Here(UpcallHandler::Shared(_, StartOrder::Any)))
            )
        })
    }

    /// Takes the handler of an upcall out of its table, or shares it, for the thread that serves the
    /// upcall.
    #[inline]
    fn prepare(&mut self, upcall: &mut Upcall) {
        upcall.run = self.tables.get(upcall.handling.home.table).and_then(|table| {
            upcall.place = match &upcall.what {
                UpcallKind::Message { arrived, .. } | UpcallKind::Answer { arrived, .. } => {
                    HandlerTable::place(arrived.head.handler)
                }
                UpcallKind::Undelivered(_) | UpcallKind::Returned { .. } => HandlerTable::ON_ERROR,
                UpcallKind::Ended(_) => HandlerTable::ON_END,
                UpcallKind::Path { .. } => HandlerTable::ON_PATH,
                UpcallKind::Closed => {
                    return Some(UpcallHandler::Drop(Box::new(std::mem::take(table))));
                }
                UpcallKind::Nothing => return None,
            };
            table.take(upcall.place)
        });
        let handling = &mut upcall.handling;
        handling.answer =
            if upcall.run.is_some() { AnswerState::Missing } else { AnswerState::NoHandler };
        handling.is_shared = matches!(upcall.run, Some(UpcallHandler::Shared(..)));
        handling.is_apart = matches!(upcall.run, Some(UpcallHandler::Shared(_, StartOrder::Any)));
        handling.is_granted = false;
        self.serving |= !handling.is_apart;
    }

    /// Puts the handler of an upcall back into its table, unless it was replaced meanwhile.
    #[inline]
    fn put_back(&mut self, ended: &mut Upcall) {
        if let Some(table) = self.tables.get(ended.handling.home.table)
            && let Some(entry @ HandlerEntry::Out) = table.0.get_mut(ended.place)
            && let Some(ran) = ended.run.take()
        {
            *entry = HandlerEntry::Here(ran);
        }
    }
}

impl HandlerTable {
    /// The place of the handler of messages that come back.
    pub(crate) const ON_ERROR: usize = 0;
    /// The place of the handler of links that have ended.
    pub(crate) const ON_END: usize = 1;
    /// The place of the handler of a port of paths, in a table of its own.
    pub(crate) const ON_PATH: usize = 0;
    const NUMBERED: usize = 2;

    /// The place of the handler of this number.
    #[inline]
    pub(crate) const fn place(number: u8) -> usize {
        Self::NUMBERED + number as usize
    }

    #[inline]
    fn take(&mut self, place: usize) -> Option<UpcallHandler> {
        let entry = self.0.get_mut(place)?;
        if let HandlerEntry::Here(UpcallHandler::Shared(handler, order)) = entry {
            return Some(UpcallHandler::Shared(Arc::clone(handler), *order));
        }
        match std::mem::take(entry) {
            HandlerEntry::Here(run) => {
                *entry = HandlerEntry::Out;
                Some(run)
            }
            HandlerEntry::None | HandlerEntry::Out => None,
        }
    }

    /// Sets the handler at a place, and returns the one before: it is to be dropped without a lock, since
    /// it may own what takes one.
    #[must_use]
    pub(crate) fn set(
        &mut self,
        place: usize,
        run: Option<UpcallHandler>,
    ) -> Option<UpcallHandler> {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, HandlerEntry::default);
        }
        let entry = run.map_or(HandlerEntry::None, HandlerEntry::Here);
        match std::mem::replace(&mut self.0[place], entry) {
            HandlerEntry::Here(before) => Some(before),
            HandlerEntry::None | HandlerEntry::Out => None,
        }
    }

    /// The lowest number without a handler.
    pub(crate) fn free(&self) -> Option<u8> {
        let is_free = |number: &u8| {
            matches!(self.0.get(Self::place(*number)), None | Some(HandlerEntry::None))
        };
        (0..u8::MAX).find(is_free)
    }
}

impl fmt::Debug for UpcallHandler {
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

/// Spare boxes that are kept at most: about what arrives at once.
const SPARE_MAX: usize = 64;

impl fmt::Debug for BundleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").field("handles", &self.handles).finish_non_exhaustive()
    }
}
