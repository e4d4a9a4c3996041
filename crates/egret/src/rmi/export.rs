//! Objects that others can call.

use std::fmt;
use std::sync::Arc;

use egret_net::sync::Mutex;
use egret_node::node::{NodeHandle, Property, Requirement};
use egret_stream::Wire;

use crate::rmi::callee::fabrics::FabricNeeds;
use crate::rmi::callee::object::ExportedObject;
use crate::rmi::exchange::Exchange;
use crate::rmi::interface::{HeldObject, RemoteInterface};
use crate::rmi::{CallError, NodeId};

/// An object that other nodes can call; [`rmi`](crate::rmi) has an example. When this is dropped the
/// object ends: its names are free, calls that wait for their turn are refused, and a call that runs comes to its end.
pub struct Exported {
    object: Arc<ExportedObject>,
    reference: ObjectRef,
    exchange: Arc<Exchange>,
    handle: NodeHandle,
    names: Mutex<Vec<String>>,
}

/// The name of an object in its pool: it can be bound to a name, and sent in arguments.
/// [`Remoting::stub`](super::Remoting::stub) makes a stub of it.
///
/// ```
/// use egret::prelude::*;
/// use egret::rmi::ObjectRef;
///
/// #[egret::remote]
/// trait Adds {
///     fn add(&mut self, more: u64) -> u64;
/// }
/// #[egret::remote]
/// impl Adds for u64 {
///     fn add(&mut self, more: u64) -> u64 {
///         *self += more;
///         *self
///     }
/// }
///
/// # let pool = egret::local::pool(2)?;
/// # let (server, client) = (&pool[0], &pool[1]);
/// let exported = server.export(40_u64)?;
/// let object: ObjectRef = exported.object().clone(); // as an argument of a call reaches any node
/// let adds: AddsStub = client.stub(&object);
/// assert_eq!(adds.add(2)?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// What the fabric of its calls must give.
    pub(crate) requirement: Requirement,
}

/// How an object is exported.
///
/// ```
/// use egret::node::Property;
/// use egret::rmi::Export;
///
/// let how = Export::default().bytes_max(1 << 20).require(Property::PRIVATE);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Export {
    bytes_max: u64,
    requirement: Requirement,
}

impl Default for Export {
    fn default() -> Self {
        Self { bytes_max: 64 << 20, requirement: Requirement::default() }
    }
}

impl Export {
    /// Takes arguments of at most so many bytes, instead of 64 MiB.
    pub const fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Takes calls of other nodes only over fabrics with this property. The requirement is a part of the object's
    /// reference: stubs choose a fabric that has it, or their calls end with
    /// [`CallError::Unsuitable`]; and the object's node refuses calls that come over another one. Calls of the
    /// object's own node take no fabric.
    ///
    /// ```
    /// use egret::node::Property;
    /// use egret::prelude::*;
    /// use egret::rmi::Export;
    ///
    /// #[egret::remote]
    /// trait Safe {
    ///     fn open(&self, code: u64) -> bool;
    /// }
    /// struct Drawer;
    /// #[egret::remote]
    /// impl Safe for Drawer {
    ///     fn open(&self, code: u64) -> bool {
    ///         code == 7
    ///     }
    /// }
    ///
    /// # let pool = egret::local::pool(2)?;
    /// let how = Export::default().require(Property::PRIVATE);
    /// let exported = pool[0].export_with(Drawer, how)?;
    /// exported.bind("safe")?;
    /// let safe: SafeStub = pool[1].lookup("safe", pool[1].deadline())?;
    /// assert!(safe.open(7)?);
    ///
    /// // What no fabric of the node gives is an error before anything is exported.
    /// let red = Export::default().require(Property::new("colour", "red"));
    /// assert!(pool[0].export_with(Drawer, red).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn require(mut self, property: Property) -> Self {
        self.requirement = self.requirement.require(property);
        self
    }
}

impl Exported {
    pub(crate) fn new<I: RemoteInterface + ?Sized>(
        handle: &NodeHandle,
        object: HeldObject<I>,
        how: Export,
    ) -> Result<Self, CallError> {
        let Export { bytes_max, requirement } = how;
        handle.can(&requirement)?;
        let exchange = Exchange::of(handle);
        exchange.clear_behind();
        exchange.register(handle)?;
        let needs = FabricNeeds::of(&requirement, &exchange.fabrics);
        let object = exchange.objects.add(object, bytes_max, needs).ok_or(CallError::Full)?;
        let reference = ObjectRef {
            node: handle.id(),
            interface: I::NAME.to_owned(),
            number: object.number,
            kind: object.interface,
            bytes_max,
            requirement,
        };
        let (handle, names) = (handle.clone(), Mutex::default());
        Ok(Self { object, reference, exchange, handle, names })
    }

    /// Binds a name to the object, by which other nodes look it up.
    ///
    /// # Errors
    ///
    /// If another has the name, or the registry does not answer.
    #[track_caller]
    pub fn bind(&self, name: &str) -> Result<(), CallError> {
        self.handle.bind(name, &self.reference.to_bytes())?;
        self.names.lock().push(name.to_owned());
        Ok(())
    }

    /// As [`bind`](Self::bind), and takes the name from the node that has it.
    ///
    /// # Errors
    ///
    /// If the registry does not answer.
    #[track_caller]
    pub fn rebind(&self, name: &str) -> Result<(), CallError> {
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
    /// As bytes, for [names](NodeHandle::bind).
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
