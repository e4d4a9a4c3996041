//! The traits that [`remote`](macro@crate::remote) implements, and the table of methods that it writes.

use std::fmt;
use std::sync::Arc;

use egret_net::buf::Shared;
use egret_stream::__private::TypeStructure;
use egret_stream::{Bulk, Wire, WireError};

use crate::rmi::Stub;
use crate::rmi::answer::IncomingCall;

/// A trait whose methods can be called from other nodes; [`remote`](macro@crate::remote) implements it for
/// `dyn Grid`. [`rmi`](crate::rmi) has an example.
pub trait RemoteInterface: Send + Sync + 'static {
    /// The trait's name.
    const NAME: &'static str;
    /// Its methods, in the order they are written.
    const METHODS: &'static [RemoteMethod<Self>];
}

/// An interface all of whose methods take `&self`; implemented by [`remote`](macro@crate::remote).
/// Its objects can be called while others hold them, too: they can be exported in an [`Arc`].
/// [`Remoting::export`](super::Remoting::export) has an example.
#[diagnostic::on_unimplemented(
    message = "an object in an `Arc` cannot be exported as a `{Self}`, which has methods that take `&mut self`",
    label = "others may hold the object while such a method runs",
    note = "have the methods take `&self`, and put what they change into a `Mutex` or an atomic",
    note = "or export the object itself instead of an `Arc`"
)]
pub trait SharedRemoteInterface: RemoteInterface {}

/// What can be exported as the interface `I`: a type with `#[remote] impl Grid for Board`, once
/// for each such trait, and an [`Arc`] of one.
/// [`rmi`](crate::rmi) has an example.
#[diagnostic::on_unimplemented(
    message = "it is not said that `{Self}` is exported as a `{I}`",
    note = "write `#[egret::remote]` at its implementation of a remote trait, or use `export_as`"
)]
pub trait Exports<I: RemoteInterface + ?Sized>: Sized + 'static {
    /// The object, for its exporter.
    fn held(self) -> HeldObject<I>;

    /// The object in an [`Arc`], as one of the interface.
    fn shared(this: Arc<Self>) -> Arc<I>;
}

impl<I: SharedRemoteInterface + ?Sized, T: Exports<I>> Exports<I> for Arc<T> {
    fn held(self) -> HeldObject<I> {
        HeldObject(HeldObjectKind::Shared(T::shared(self)))
    }

    fn shared(this: Arc<Self>) -> Arc<I> {
        T::shared(Self::clone(&this))
    }
}

/// An object that is to be exported, in a box or in an [`Arc`].
#[doc(hidden)]
pub struct HeldObject<I: ?Sized>(pub(crate) HeldObjectKind<I>);

pub(crate) enum HeldObjectKind<I: ?Sized> {
    Own(Box<I>),
    /// One of an interface without `&mut self`.
    Shared(Arc<I>),
}

impl<I: ?Sized> From<Box<I>> for HeldObject<I> {
    fn from(object: Box<I>) -> Self {
        Self(HeldObjectKind::Own(object))
    }
}

impl<I: SharedRemoteInterface + ?Sized> From<Arc<I>> for HeldObject<I> {
    fn from(object: Arc<I>) -> Self {
        Self(HeldObjectKind::Shared(object))
    }
}

/// A stub of a [`RemoteInterface`], which the macro writes. [`rmi`](crate::rmi) has an example.
pub trait Proxy: Sized {
    /// What it calls.
    type Interface: RemoteInterface + ?Sized;
    /// The methods that call through `stub`.
    fn of(stub: Stub<Self::Interface>) -> Self;
}

/// A method of an interface.
#[doc(hidden)]
pub struct RemoteMethod<I: ?Sized> {
    /// Its name.
    pub name: &'static str,
    /// The names of its arguments.
    pub args: &'static [&'static str],
    /// Its arguments, as a tuple.
    pub takes: MethodType,
    /// What it returns.
    pub answers: MethodType,
    /// Whether it runs inside the handler of its call.
    pub is_inline: bool,
    /// The method.
    pub run: MethodCode<I>,
}

/// A type of a signature.
#[doc(hidden)]
pub struct MethodType {
    /// As it is written.
    pub name: &'static str,
    /// What its structure is: the fingerprint, and the schema.
    pub structure: fn() -> TypeStructure,
}

/// Reads a method's arguments, calls it, and writes what it returns.
#[doc(hidden)]
pub enum MethodCode<I: ?Sized> {
    /// `&self`
    Shared(fn(&I, &mut IncomingCall<'_>) -> Result<(), WireError>),
    /// `&mut self`
    Exclusive(fn(&mut I, &mut IncomingCall<'_>) -> Result<(), WireError>),
}

impl<I: ?Sized> fmt::Debug for RemoteMethod<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fn {}{} -> {}", self.name, self.takes.name, self.answers.name)
    }
}

impl fmt::Debug for MethodType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<I: RemoteInterface + ?Sized> fmt::Debug for HeldObject<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&I::NAME).finish()
    }
}

impl<I: ?Sized> fmt::Debug for MethodCode<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "&self",
            Self::Exclusive(_) => "&mut self",
        })
    }
}

/// What a call that is only begun takes for an argument `&[T]`: a vector; or a buffer of a
/// pool that is shared, which others can read meanwhile and which is not copied either.
///
/// ```
/// use egret::buf::Pool;
/// use egret::rmi::Array;
///
/// fn takes(_: impl Array<f64>) {}
///
/// let row = Pool::new(4096, 1)?.take_typed::<f64>(512)?.share();
/// takes(row.clone());
/// takes(row.to_vec());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Array<T>: Wire {}

impl<T: Wire> Array<T> for Vec<T> {}
impl<T: Bulk> Array<T> for Shared<T> {}
