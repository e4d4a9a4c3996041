//! Bundles: endpoints whose messages are served one at a time.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use egret_net::sync::Lean;
use egret_net::vi::Descriptor;

use super::request::From;
use super::{Endpoint, EndpointError, Request, Undelivered};
use crate::link::Lane;
use crate::link::arrived::Arrived;
use crate::links::core::Core;
use crate::links::slots::{Key, Slots};

/// Endpoints whose messages are served one at a time, each by whichever thread drives
/// the links. Messages of different bundles may be served at the same time.
///
/// Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub(crate) core: Arc<Core>,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    inner: Lean<Inner>,
}

/// A handler: what it does with a message.
pub(crate) type Handler = Box<dyn FnMut(Request<'_>) + Send>;
/// What an endpoint does with messages that came back.
pub(crate) type ErrorHandler = Box<dyn FnMut(Undelivered) + Send>;

/// The handlers of an endpoint.
#[derive(Default)]
pub(crate) struct Table {
    handlers: Vec<Entry>,
    on_error: Option<ErrorHandler>,
}

#[derive(Default)]
enum Entry {
    #[default]
    None,
    Here(Handler),
    /// It runs just now.
    Out,
}

#[derive(Default)]
struct Inner {
    /// Whether a thread serves.
    serving: bool,
    waiting: VecDeque<Box<Upcall>>,
    tables: Slots<Table>,
}

/// Something that a bundle is to serve. It is in a box, which is used again.
#[derive(Debug)]
pub(crate) struct Upcall {
    /// The endpoint's table in the bundle.
    pub(crate) table: Key,
    pub(crate) endpoint: Key,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A message of a mapping of this link, by its slot.
    Message { from: From, arrived: Arrived },
    /// An answer, by this mapping, that names a handler of who asked.
    Answer { link: Key, number: Key, arrived: Arrived },
    /// A message that came back.
    Undelivered(Box<Undelivered>),
    /// It was served.
    Nothing,
}

/// An upcall, and what is to run.
pub(crate) struct Job {
    pub(crate) upcall: Box<Upcall>,
    pub(crate) run: Option<Run>,
}

pub(crate) enum Run {
    Handler(u8, Handler),
    OnError(ErrorHandler),
}

impl Bundle {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core, shared: Arc::new(Shared { inner: Lean::new(Inner::default()) }) }
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

impl Shared {
    pub(crate) fn insert(&self, table: Table) -> Key {
        self.inner.with(|inner| inner.tables.insert(table))
    }

    pub(crate) fn remove(&self, table: Key) -> Option<Table> {
        self.inner.with(|inner| inner.tables.remove(table))
    }

    pub(crate) fn change<R>(&self, table: Key, change: impl FnOnce(&mut Table) -> R) -> Option<R> {
        self.inner.with(|inner| inner.tables.get(table).map(change))
    }

    /// Begins to serve an upcall, or leaves it to the thread that serves.
    #[inline]
    pub(crate) fn begin(&self, upcall: Box<Upcall>) -> Begun {
        self.inner.with(|inner| {
            if inner.serving {
                return inner.queue(upcall);
            }
            inner.serving = true;
            Begun::Job(inner.job(upcall))
        })
    }

    /// Puts back what has run, and gives the next job if there is one.
    #[inline]
    pub(crate) fn end(&self, table: Key, ran: Option<Run>) -> Option<Job> {
        let (next, unused) = self.inner.with(|inner| {
            let unused = inner.put_back(table, ran);
            let next = inner.waiting.pop_front();
            inner.serving = next.is_some();
            (next.map(|upcall| inner.job(upcall)), unused)
        });
        drop(unused);
        next
    }
}

/// What becomes of an upcall.
pub(crate) enum Begun {
    /// The calling thread serves it.
    Job(Job),
    /// Another thread will; this receive was emptied for it.
    Queued(Option<(Key, Lane, Descriptor)>),
}

impl Upcall {
    /// Copies it out of its receive, which is to be given back to its link.
    pub(crate) fn detach(&mut self) -> Option<(Key, Lane, Descriptor)> {
        let (link, arrived) = match &mut self.what {
            What::Message { from, arrived } => (from.link, arrived),
            What::Answer { link, arrived, .. } => (*link, arrived),
            What::Undelivered(_) | What::Nothing => return None,
        };
        Some((link, arrived.head.kind.lane(), arrived.detach()?))
    }
}

impl Inner {
    #[cold]
    fn queue(&mut self, mut upcall: Box<Upcall>) -> Begun {
        let receive = upcall.detach();
        self.waiting.push_back(upcall);
        Begun::Queued(receive)
    }

    #[inline]
    fn job(&mut self, upcall: Box<Upcall>) -> Job {
        let run = self.tables.get(upcall.table).and_then(|table| match &upcall.what {
            What::Message { arrived, .. } | What::Answer { arrived, .. } => {
                let number = arrived.head.handler;
                table.take(number).map(|handler| Run::Handler(number, handler))
            }
            What::Undelivered(_) => table.on_error.take().map(Run::OnError),
            What::Nothing => None,
        });
        Job { upcall, run }
    }

    #[inline]
    fn put_back(&mut self, table: Key, ran: Option<Run>) -> Option<Run> {
        let Some(table) = self.tables.get(table) else { return ran };
        match ran {
            Some(Run::Handler(number, handler)) => {
                match table.handlers.get_mut(usize::from(number)) {
                    Some(place @ Entry::Out) => {
                        *place = Entry::Here(handler);
                        None
                    }
                    _ => Some(Run::Handler(number, handler)),
                }
            }
            Some(Run::OnError(handler)) if table.on_error.is_none() => {
                table.on_error = Some(handler);
                None
            }
            other => other,
        }
    }
}

impl Table {
    #[inline]
    fn take(&mut self, number: u8) -> Option<Handler> {
        let entry = self.handlers.get_mut(usize::from(number))?;
        match std::mem::take(entry) {
            Entry::Here(handler) => {
                *entry = Entry::Out;
                Some(handler)
            }
            Entry::None | Entry::Out => None,
        }
    }

    /// Sets a handler; the one before is to be dropped without a lock, for it may own what
    /// takes one.
    #[must_use]
    pub(crate) fn set(&mut self, number: u8, handler: Option<Handler>) -> Option<Handler> {
        let at = usize::from(number);
        if self.handlers.len() <= at {
            self.handlers.resize_with(at + 1, Entry::default);
        }
        let entry = handler.map_or(Entry::None, Entry::Here);
        match std::mem::replace(&mut self.handlers[at], entry) {
            Entry::Here(before) => Some(before),
            Entry::None | Entry::Out => None,
        }
    }

    /// The lowest number without a handler.
    pub(crate) fn free(&self) -> Option<u8> {
        let taken = self.handlers.iter().position(|entry| matches!(entry, Entry::None));
        u8::try_from(taken.unwrap_or(self.handlers.len())).ok().filter(|at| *at < u8::MAX)
    }

    /// Sets what runs for messages that come back; the one before, as by [`set`](Self::set).
    #[must_use]
    pub(crate) fn on_error(&mut self, handler: ErrorHandler) -> Option<ErrorHandler> {
        self.on_error.replace(handler)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").finish_non_exhaustive()
    }
}
