//! The connection of a stub: made at its first call, and kept.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_node::am::{
    self, Endpoint, EndpointName, MapError, Mapping, Needed, Reason, Remote, SendError,
};
use egret_node::link::LinkUpError;
use egret_node::node::{Handle, Route, RouteError};

use super::exchange::Exchange;
use super::export::CANCEL;
use super::object::Object;
use super::table::Table;
use super::trouble::{PATIENCE, Trouble};
use super::words::WORDS_MAX;
use super::{CallError, Limit, ObjectRef};
use crate::shelf::Shelf;

/// All stubs of one object that were made of one share it.
pub(crate) struct Line {
    pub(crate) handle: Handle,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) object: ObjectRef,
    /// What the object must have.
    table: fn() -> Table,
    end: RwLock<Option<End>>,
    /// Since when a node is waited for of which this one has not heard.
    unheard: Mutex<Option<Instant>>,
    /// The connection that is being made, if one is.
    connecting: Shelf<Option<Connecting>>,
}

/// A connection that is being made.
struct Connecting {
    client: Arc<Endpoint>,
    to: EndpointName,
    mapping: Mapping,
    /// When calls can be sent, and cancelling is still asked for.
    remote: Option<Remote>,
}

/// Where a line leads to.
#[derive(Clone)]
pub(crate) enum End {
    There(Arc<Connected>),
    Here(Here),
}

/// An object of this node.
#[derive(Clone)]
pub(crate) struct Here {
    pub(crate) object: Weak<Object>,
    /// Where the object has the stub's methods.
    methods: Arc<[usize]>,
}

/// A connection.
pub(crate) struct Connected {
    pub(crate) remote: Remote,
    /// The numbers of the methods.
    pub(crate) handlers: Vec<u8>,
    /// By which calls are cancelled: apart from them, so that there is room when they have
    /// none.
    cancels: Remote,
    /// Calls to cancel for which there was none all the same.
    uncancelled: Mutex<Vec<u64>>,
    _client: Arc<Endpoint>,
}

impl Line {
    pub(crate) fn new(handle: &Handle, object: &ObjectRef, table: fn() -> Table) -> Self {
        let (handle, object) = (handle.clone(), object.clone());
        let exchange = Exchange::of(&handle);
        let (end, unheard) = (RwLock::default(), Mutex::default());
        // Who finds that another makes it looks again.
        let connecting = Shelf::new(None, Waker::noop().clone());
        Self { handle, exchange, object, table, end, unheard, connecting }
    }

    /// Where it leads to, if that is known.
    #[inline]
    pub(crate) fn end(&self) -> Option<End> {
        self.end.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects, and waits for that.
    #[cold]
    pub(crate) fn wait_connect(&self, deadline: Deadline) -> Result<End, CallError> {
        let trouble = self.trouble(PATIENCE);
        let table = (self.table)();
        table.check_name(&self.object.interface)?;
        if let Some(here) = self.here(&table)? {
            return Ok(here);
        }
        let until = deadline.until();
        let route = self.wait_route(deadline).map_err(|why| trouble.route(why))?;
        let left = until.map_or(Deadline::UntilDead, |until| Deadline::In(until.since(rt::now())));
        let (client, to) = self.ends(&route);
        let remote = self.wait_map(&client, &to, &table.needed(), left)?;
        let cancels = self.wait_map(&client, &to, &[], left)?;
        Ok(self.keep(&table, remote, cancels, client))
    }

    /// Maps the object. A node that cannot be reached is asked again and again, for as long
    /// as the registry has it for a member.
    fn wait_map(
        &self,
        client: &Endpoint,
        to: &EndpointName,
        needs: &[Needed],
        deadline: Deadline,
    ) -> Result<Remote, CallError> {
        let (started, trouble) = (rt::now(), self.trouble(PATIENCE));
        let until = deadline.until_from(started);
        loop {
            let left = until.map_or(GLANCE, |until| until.since(rt::now()).min(GLANCE));
            match client.wait_map_with(to, needs, Deadline::In(left)) {
                Err(why)
                    if is_out_of_reach(&why) && until.is_none_or(|until| rt::now() < until) =>
                {
                    self.handle.route(self.object.node).map_err(|why| trouble.route(why))?;
                    // The fabric may have said so at once.
                    rt::sleep(UNHEARD);
                }
                Err(why) if is_out_of_reach(&why) => {
                    let waited = rt::now() - started;
                    return Err(CallError::Deadline { waited, may_have_run: false });
                }
                mapped => return mapped.map_err(|why| trouble.map(why)),
            }
        }
    }

    /// Connects as far as that goes without waiting.
    pub(crate) fn poll_connect(&self, context: &mut Context<'_>) -> Poll<Result<End, CallError>> {
        if let Some(end) = self.end() {
            return Poll::Ready(Ok(end));
        }
        let table = (self.table)();
        table.check_name(&self.object.interface)?;
        if let Some(here) = self.here(&table)? {
            return Poll::Ready(Ok(here));
        }
        let trouble = self.trouble(Duration::ZERO);
        let Some(mut making) = self.connecting.take() else { return Poll::Pending };
        let route = match self.route() {
            Ok(Some(route)) => route,
            Ok(None) => return Poll::Pending,
            // Whoever is gone is not waited for, however far that was.
            Err(why) => {
                *making = None;
                return Poll::Ready(Err(trouble.route(why)));
            }
        };
        // It has no deadline: those who wait for it have theirs.
        let connecting = making.get_or_insert_with(|| {
            let (client, to) = self.ends(&route);
            let mapping = client.map(&to, &table.needed(), Deadline::UntilDead);
            Connecting { client, to, mapping, remote: None }
        });
        // Without a lock: this may run handlers, and one may use this very stub.
        let Poll::Ready(mapped) = connecting.poll(context) else { return Poll::Pending };
        let Connecting { client, remote, .. } = making.take().expect("just polled");
        drop(making);
        Poll::Ready(match (mapped, remote) {
            (Ok(cancels), Some(remote)) => Ok(self.keep(&table, remote, cancels, client)),
            (Ok(_), None) => unreachable!("it comes first"),
            (Err(why), _) => Err(trouble.map(why)),
        })
    }

    /// Refuses arguments that the object does not take.
    #[inline]
    pub(crate) fn check_size(&self, bytes: u64) -> Result<(), CallError> {
        let most = self.object.bytes_max;
        if bytes > most {
            return Err(CallError::TooLarge { bytes, most, limit: Limit::Object });
        }
        Ok(())
    }

    /// A call has no answer. If that is the connection's fault, another is made.
    #[cold]
    pub(crate) fn failed(
        &self,
        there: &Arc<Connected>,
        error: am::CallError,
        patience: Duration,
    ) -> CallError {
        let is_broken = matches!(
            error,
            am::CallError::Undelivered(
                Reason::Link { .. } | Reason::EndpointGone | Reason::WrongTag
            ) | am::CallError::Send(SendError::Link(_) | SendError::Unmapped)
        );
        if is_broken {
            self.forget(there);
        }
        self.trouble(patience).call(error)
    }

    /// A connection that is of no use any more is forgotten: the next call makes another.
    fn forget(&self, broken: &Arc<Connected>) {
        let mut end = self.end.write().unwrap_or_else(PoisonError::into_inner);
        let forgotten = end.take_if(|end| matches!(end, End::There(it) if Arc::ptr_eq(it, broken)));
        drop(end);
        drop(forgotten);
    }

    /// For the errors of its calls.
    pub(crate) fn trouble(&self, patience: Duration) -> Trouble<'_> {
        Trouble { handle: &self.handle, node: self.object.node, table: self.table, patience }
    }

    /// The end of a line to an object of this node, if it is one; what is compared is what a
    /// mapping of an object of another node compares.
    pub(crate) fn connect_here(&self) -> Result<Option<End>, CallError> {
        let table = (self.table)();
        table.check_name(&self.object.interface)?;
        self.here(&table)
    }

    fn here(&self, table: &Table) -> Result<Option<End>, CallError> {
        if self.object.node != self.handle.id() {
            return Ok(None);
        }
        let object = self.exchange.object(self.object.number);
        let object = object.filter(|object| object.tag == self.object.tag);
        let object = object.ok_or(CallError::UnknownObject)?;
        let methods = table.find_in(&object.table)?.into();
        let here = End::Here(Here { object: Arc::downgrade(&object), methods });
        *self.end.write().unwrap_or_else(PoisonError::into_inner) = Some(here.clone());
        Ok(Some(here))
    }

    /// The way there. Of a node that has just joined this one may not have heard yet: then
    /// there is none for a while.
    fn route(&self) -> Result<Option<Route>, RouteError> {
        let mut unheard = self.unheard.lock();
        match self.handle.route(self.object.node) {
            Err(RouteError::Unknown { .. })
                if rt::now() - *unheard.get_or_insert_with(rt::now) < UNHEARD_MAX =>
            {
                Ok(None)
            }
            route => {
                *unheard = None;
                route.map(Some)
            }
        }
    }

    fn wait_route(&self, deadline: Deadline) -> Result<Route, RouteError> {
        let until = deadline.until();
        loop {
            match self.route()? {
                Some(route) => return Ok(route),
                None if until.is_none_or(|until| rt::now() < until) => {
                    self.handle.poll();
                    rt::sleep(UNHEARD);
                }
                None => return self.handle.route(self.object.node),
            }
        }
    }

    fn ends(&self, route: &Route) -> (Arc<Endpoint>, EndpointName) {
        let to = EndpointName::new(&route.host, &self.object.endpoint(), self.object.tag);
        (self.exchange.client(route), to)
    }

    /// Keeps a connection, unless another was made meanwhile.
    fn keep(&self, table: &Table, remote: Remote, cancels: Remote, client: Arc<Endpoint>) -> End {
        let number = |name: &str| remote.handler(name).unwrap_or(NONE);
        let handlers = table.methods().map(number).collect();
        let uncancelled = Mutex::default();
        let made = Connected { remote, handlers, cancels, uncancelled, _client: client };
        // One that is not kept is dropped without the lock: that may run handlers.
        let made = End::There(Arc::new(made));
        let mut end = self.end.write().unwrap_or_else(PoisonError::into_inner);
        let kept = end.get_or_insert_with(|| made.clone()).clone();
        drop(end);
        drop(made);
        kept
    }
}

impl Connecting {
    /// Goes on; the mapping by which calls are cancelled comes last.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Remote, MapError>> {
        if self.remote.is_none() {
            match Pin::new(&mut self.mapping).poll(context) {
                Poll::Ready(Ok(remote)) => self.remote = Some(remote),
                other => return other,
            }
            self.mapping = self.client.map(&self.to, &[], Deadline::UntilDead);
        }
        Pin::new(&mut self.mapping).poll(context)
    }
}

impl Here {
    /// The object, and where it has a method of the stub.
    pub(crate) fn object(&self, method: usize) -> Result<(Arc<Object>, usize), CallError> {
        let object = self.object.upgrade().ok_or(CallError::UnknownObject)?;
        Ok((object, self.methods[method]))
    }
}

impl Connected {
    /// Cancels a call, and those that could not be cancelled before.
    pub(crate) fn cancel(&self, number: u64) {
        let mut numbers = self.uncancelled.lock();
        numbers.push(number);
        let first = numbers.len().saturating_sub(WORDS_MAX);
        if self.cancels.try_send((CANCEL, &numbers[first..])).is_ok() {
            numbers.truncate(first);
        }
        // Whoever has so many has been told nothing for long.
        if numbers.len() > UNCANCELLED_MAX {
            numbers.clear();
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Line").field(&self.object).finish()
    }
}

/// Whether a node could not be reached, and may be later.
const fn is_out_of_reach(why: &MapError) -> bool {
    use egret_net::vi::ConnectError::{NotAccepted, NotListening, UnknownHost};
    matches!(
        why,
        MapError::TimedOut { .. }
            | MapError::Up(LinkUpError::Connect(
                NotAccepted { .. } | NotListening { .. } | UnknownHost { .. }
            ))
    )
}

/// The handler of a method that was not asked for.
const NONE: u8 = u8::MAX;
/// Calls that are remembered to be cancelled.
const UNCANCELLED_MAX: usize = 1024;
/// How often is looked whether a node that does not answer is still a member.
const GLANCE: Duration = Duration::from_secs(1);
/// How often is looked whether a node is known that has just joined.
const UNHEARD: Duration = Duration::from_millis(1);
/// A node of which nothing is heard for so long is none.
const UNHEARD_MAX: Duration = Duration::from_secs(5);
