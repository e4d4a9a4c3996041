//! Objects that others can call.

use std::fmt;
use std::sync::Arc;

use egret_net::sync::Mutex;
use egret_node::am::EndpointError;
use egret_node::node::{AskError, Handle};
use egret_stream::Wire;
use thiserror::Error;

use super::NodeId;
use super::exchange::Exchange;
use super::interface::{Held, Interface};
use super::object::Object;
use super::objects::OBJECTS_MAX;
use super::words::INTERFACES_MAX;

/// An object that others can call. Dropped, it is no more: its names are free, calls that
/// wait for their turn are refused, and one that runs comes to its end.
pub struct Exported {
    object: Arc<Object>,
    reference: ObjectRef,
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
    /// The number of the interface, where the object is.
    pub(crate) kind: u16,
    pub(crate) bytes_max: u64,
}

/// How an object is exported.
///
/// ```
/// use egret::rmi::Export;
///
/// let how = Export::default().bytes_max(1 << 20);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Export {
    bytes_max: u64,
}

impl Default for Export {
    fn default() -> Self {
        Self { bytes_max: 64 << 20 }
    }
}

impl Export {
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
    /// There is no endpoint by which others could call it.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The node has 16,777,216 objects, or objects of 16,384 interfaces.
    #[error(
        "a node exports at most {} objects, of at most {} interfaces: drop what is not called \
         any more",
        OBJECTS_MAX,
        INTERFACES_MAX as u32 + 1
    )]
    Full,
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
        exchange.register(handle)?;
        let object = exchange.objects.add(object, how.bytes_max).ok_or(ExportError::Full)?;
        let reference = ObjectRef {
            node: handle.id(),
            interface: I::NAME.to_owned(),
            number: object.number,
            kind: object.interface,
            bytes_max: how.bytes_max,
        };
        let (handle, names) = (handle.clone(), Mutex::default());
        Ok(Self { object, reference, exchange, handle, names })
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
}

impl Drop for Exported {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The node probably goes the same way, and then callers are to hear of the panic:
            // until that is clear nothing is answered.
            return self.exchange.leave_behind(Arc::clone(&self.object));
        }
        let names = self.names.get_mut();
        let bytes = self.reference.to_bytes();
        names.drain(..).for_each(|name| self.handle.unbind_soon(&name, &bytes));
        self.exchange.objects.remove(&self.object);
        self.object.close();
    }
}

impl fmt::Debug for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exported").field(&self.reference).finish()
    }
}
