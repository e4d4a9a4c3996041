//! Objects that others can call.

use std::fmt;
use std::sync::Arc;

use egret_net::rt;
use egret_net::sync::Mutex;
use egret_node::Links;
use egret_node::am::{Endpoint, EndpointError};
use egret_node::node::{AskError, Handle};
use egret_stream::Wire;
use thiserror::Error;

use super::NodeId;
use super::exchange::Exchange;
use super::interface::{Held, Interface};
use super::object::{Object, reply};
use super::served::Answer;
use super::words::Code;

/// An object that others can call. Dropped, it is no more: its names are free, calls that
/// wait for their turn are refused, and one that runs comes to its end.
pub struct Exported {
    object: Arc<Object>,
    reference: ObjectRef,
    /// One for each fabric.
    endpoints: Vec<Endpoint>,
    exchange: Arc<Exchange>,
    handle: Handle,
    names: Mutex<Vec<String>>,
}

/// What tells an object from all others: bound to names, and sent to others in arguments.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub struct ObjectRef {
    /// Where it is.
    pub node: NodeId,
    /// The name of its interface.
    pub interface: String,
    pub(crate) number: u64,
    pub(crate) tag: u64,
    pub(crate) bytes_max: u64,
}

/// How an object is exported.
///
/// ```
/// use egret::rmi::Export;
///
/// let how = Export::default().in_flight(8).bytes_max(1 << 20);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Export {
    in_flight: u32,
    bytes_max: u64,
}

impl Default for Export {
    fn default() -> Self {
        Self { in_flight: 64, bytes_max: 64 << 20 }
    }
}

impl Export {
    /// Lets each stub that is connected have so many calls under way, instead of 64. Who has
    /// as many waits until one is answered.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub const fn in_flight(mut self, calls: u32) -> Self {
        assert!(calls > 0, "an object that takes no calls");
        self.in_flight = calls;
        self
    }

    /// Takes arguments of at most so many bytes, instead of 64 MiB.
    pub const fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }
}

/// Why an object was not exported, or not bound to a name.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// It has no endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The registry has not bound its name.
    #[error(transparent)]
    Registry(#[from] AskError),
}

impl Exported {
    pub(crate) fn new<I: Interface + ?Sized>(
        handle: &Handle,
        object: Held<I>,
        how: Export,
    ) -> Result<Self, ExportError> {
        let exchange = Exchange::of(handle);
        exchange.clear_behind();
        let (number, tag) = (exchange.next_object(), rt::random());
        let (workers, load) = (&exchange.workers, &exchange.load);
        let object = Arc::new(Object::new(object, tag, how.bytes_max, workers, load));
        let endpoints = handle
            .links()
            .iter()
            .map(|(_, links)| endpoint(links, number, how, &object))
            .collect::<Result<_, _>>()?;
        exchange.add(number, &object);
        let (node, interface) = (handle.id(), I::NAME.to_owned());
        let reference = ObjectRef { node, interface, number, tag, bytes_max: how.bytes_max };
        let (handle, names) = (handle.clone(), Mutex::default());
        Ok(Self { object, reference, endpoints, exchange, handle, names })
    }

    /// Gives it a name that others look it up by.
    ///
    /// # Errors
    ///
    /// If another has the name, or the registry does not answer.
    pub fn bind(&self, name: &str) -> Result<(), ExportError> {
        self.handle.bind(name, &self.reference.to_bytes())?;
        self.names.lock().push(name.to_owned());
        Ok(())
    }

    /// As [`bind`](Self::bind), and takes the name from whoever has it.
    ///
    /// # Errors
    ///
    /// If the registry does not answer.
    pub fn rebind(&self, name: &str) -> Result<(), ExportError> {
        self.handle.rebind(name, &self.reference.to_bytes())?;
        self.names.lock().push(name.to_owned());
        Ok(())
    }

    /// What tells it from all others.
    #[must_use]
    pub const fn object(&self) -> &ObjectRef {
        &self.reference
    }
}

impl ObjectRef {
    /// As bytes, for [names](Handle::bind).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = egret_stream::Writer::new();
        writer.write(self).expect("numbers and a text can be written");
        writer.to_vec()
    }

    pub(crate) fn endpoint(&self) -> String {
        endpoint_name(self.number)
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        let endpoints = std::mem::take(&mut self.endpoints);
        if std::thread::panicking() {
            // The node probably goes the same way, and then callers are to hear of the panic:
            // until that is clear nothing is answered.
            return self.exchange.leave_behind(Arc::clone(&self.object), endpoints);
        }
        let names = self.names.get_mut();
        let bytes = self.reference.to_bytes();
        names.drain(..).for_each(|name| self.handle.unbind_soon(&name, &bytes));
        self.exchange.remove(self.reference.number);
        drop(endpoints);
        self.object.close();
    }
}

impl fmt::Debug for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exported").field(&self.reference).finish()
    }
}

/// The object's endpoint on one of the fabrics.
fn endpoint(
    links: &Links,
    number: u64,
    how: Export,
    object: &Arc<Object>,
) -> Result<Endpoint, EndpointError> {
    let endpoint = links.bundle().endpoint(object.tag);
    endpoint.set_window(how.in_flight);
    let cancelled = Arc::clone(object);
    endpoint.on(CANCEL, move |request| {
        let peer = Some(request.peer());
        let numbers = request.words().iter().filter(|number| **number > 0);
        numbers.for_each(|number| cancelled.cancel(peer, *number));
    });
    let gone = Arc::clone(object);
    endpoint.on_end(move |ended| gone.caller_gone(ended.peer));
    let needed = object.table.needed();
    let (interface, methods) = needed.split_first().expect("the interface comes first");
    // It is compared when the object is mapped, and is no method that could be called.
    endpoint.on_typed(interface, |request| reply(request, Answer::code(Code::UnknownObject)));
    for (at, method) in methods.iter().enumerate() {
        let object = Arc::clone(object);
        endpoint.on_typed(method, move |request| object.arrive(at, request));
    }
    endpoint.register(&endpoint_name(number))?;
    Ok(endpoint)
}

fn endpoint_name(number: u64) -> String {
    format!("o{number}")
}

/// The handler by which calls are cancelled.
pub(crate) const CANCEL: u8 = 254;
