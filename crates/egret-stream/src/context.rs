//! What values are written for, or read from: the connection that they cross.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Where values go or come from, for types that are written differently from connection to
/// connection: who this is, who the other side is, and over what they are connected, as numbers of
/// the layer above, and whatever else that layer has for its own types.
///
/// A writer and a reader have one if they [are](crate::Writer::with_context)
/// [given](crate::Reader::with_context) one. Types that do not ask take nothing for it.
///
/// ```
/// use std::sync::Arc;
/// use egret_stream::{
///     Describe, FromWire, Reader, Stop, Wire, WireContext, WireError, WireSize, Writer, Written,
/// };
///
/// /// A door of some node, which travels without its number where the other side is that node.
/// #[derive(Debug, PartialEq)]
/// struct Door(u64);
///
/// impl Wire for Door {
///     const SIZE: WireSize = WireSize::at_least(1);
///     fn describe(d: &mut Describe) {
///         d.word("door");
///     }
///     fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
///         match w.context().is_some_and(|context| context.peer() == self.0) {
///             true => w.array([0]),
///             false => {
///                 w.array([1])?;
///                 w.array(self.0.to_le_bytes())
///             }
///         }
///     }
/// }
///
/// impl<'a> FromWire<'a> for Door {
///     fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
///         match (r.array()?, r.context()) {
///             ([0], Some(context)) => Ok(Self(context.node())),
///             ([0], None) => Err(r.fail(WireError::Custom("a door of no connection".to_owned()))),
///             _ => u64::read(r).map(Self),
///         }
///     }
/// }
///
/// let (here, there) = (WireContext::new(1, 2, 77), WireContext::new(2, 1, 77));
/// let mut writer = Writer::new().with_context(&here);
/// writer.write_copy(&Door(2))?;
/// let message = writer.to_vec();
/// assert_eq!(message, [0]);
/// assert_eq!(Reader::new(&message).with_context(&there).read::<Door>()?, Door(2));
///
/// let here = here.clone().with_layer(Arc::new("what the layer above has"));
/// assert_eq!(here.layer::<&str>(), Some(&"what the layer above has"));
/// # Ok::<(), WireError>(())
/// ```
#[derive(Clone, Default)]
pub struct WireContext {
    node: u64,
    peer: u64,
    connection: u64,
    layer: Option<Arc<dyn Any + Send + Sync>>,
}

impl WireContext {
    /// Of a connection of `node` to `peer`.
    #[must_use]
    pub const fn new(node: u64, peer: u64, connection: u64) -> Self {
        Self { node, peer, connection, layer: None }
    }

    /// With what the layer above has for its own types.
    #[must_use]
    pub fn with_layer(mut self, layer: Arc<dyn Any + Send + Sync>) -> Self {
        self.layer = Some(layer);
        self
    }

    /// Who writes or reads.
    #[must_use]
    pub const fn node(&self) -> u64 {
        self.node
    }

    /// Who is at the other side.
    #[must_use]
    pub const fn peer(&self) -> u64 {
        self.peer
    }

    /// Over what they are connected.
    #[must_use]
    pub const fn connection(&self) -> u64 {
        self.connection
    }

    /// What the layer above has for its own types, if it is a `T`.
    #[must_use]
    pub fn layer<T: Any>(&self) -> Option<&T> {
        self.layer.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for WireContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireContext")
            .field("node", &self.node)
            .field("peer", &self.peer)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}
