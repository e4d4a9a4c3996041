//! What the macro says of a trait: the table of its methods.

use std::fmt;
use std::sync::Arc;

use egret_stream::ReadError;

use super::{Served, Stub};

/// A trait whose methods can be called from other nodes; implemented for `dyn Grid` by
/// [`remote`](macro@crate::remote).
pub trait Interface: Send + Sync + 'static {
    /// The trait's name.
    const NAME: &'static str;
    /// Its methods, in the order they are written.
    const METHODS: &'static [Method<Self>];
}

/// An interface all of whose methods take `&self`; implemented by [`remote`](macro@crate::remote).
/// Its objects can be called while others hold them, too: they can be exported in an [`Arc`].
#[diagnostic::on_unimplemented(
    message = "an object in an `Arc` cannot be exported as a `{Self}`, which has methods that take `&mut self`",
    label = "others may hold the object while such a method runs",
    note = "have the methods take `&self`, and put what they change into a `Mutex` or an atomic",
    note = "or export the object itself instead of an `Arc`"
)]
pub trait SharedInterface: Interface {}

/// What can be exported as the interface `I`: a type with `#[remote] impl Grid for Board`, once
/// for each such trait, and an [`Arc`] of one.
#[diagnostic::on_unimplemented(
    message = "it is not said that `{Self}` is exported as a `{I}`",
    note = "write `#[egret::remote]` at its implementation of a remote trait, or use `export_as`"
)]
pub trait Exports<I: Interface + ?Sized>: Sized + 'static {
    /// The object, for whoever exports it.
    fn held(self) -> Held<I>;

    /// The object in an [`Arc`], as one of the interface.
    fn shared(this: Arc<Self>) -> Arc<I>;
}

impl<I: SharedInterface + ?Sized, T: Exports<I>> Exports<I> for Arc<T> {
    fn held(self) -> Held<I> {
        Held(Holds::Shared(T::shared(self)))
    }

    fn shared(this: Arc<Self>) -> Arc<I> {
        T::shared(Self::clone(&this))
    }
}

/// An object that is to be exported, in a box or in an [`Arc`].
pub struct Held<I: ?Sized>(pub(crate) Holds<I>);

pub(crate) enum Holds<I: ?Sized> {
    Own(Box<I>),
    /// One of an interface without `&mut self`.
    Shared(Arc<I>),
}

impl<I: ?Sized> From<Box<I>> for Held<I> {
    fn from(object: Box<I>) -> Self {
        Self(Holds::Own(object))
    }
}

impl<I: SharedInterface + ?Sized> From<Arc<I>> for Held<I> {
    fn from(object: Arc<I>) -> Self {
        Self(Holds::Shared(object))
    }
}

/// A stub of an [`Interface`], which the macro writes.
pub trait Proxy: Sized {
    /// What it calls.
    type Interface: Interface + ?Sized;
    /// The methods that call through `stub`.
    fn of(stub: Stub<Self::Interface>) -> Self;
}

/// A method of an interface.
pub struct Method<I: ?Sized> {
    /// Its name.
    pub name: &'static str,
    /// Its arguments, as a tuple.
    pub takes: Type,
    /// What it returns.
    pub answers: Type,
    /// Whether it runs inside the handler of its call.
    pub is_inline: bool,
    /// The method.
    pub run: Run<I>,
}

/// A type of a signature.
pub struct Type {
    /// As it is written.
    pub name: &'static str,
    /// What its structure is, as 64 bits.
    pub fingerprint: fn() -> u64,
}

/// Reads a method's arguments, calls it, and writes what it returns.
pub enum Run<I: ?Sized> {
    /// `&self`
    Shared(fn(&I, &mut Served<'_>) -> Result<(), ReadError>),
    /// `&mut self`
    Exclusive(fn(&mut I, &mut Served<'_>) -> Result<(), ReadError>),
}

impl<I: ?Sized> fmt::Debug for Method<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fn {}{} -> {}", self.name, self.takes.name, self.answers.name)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<I: Interface + ?Sized> fmt::Debug for Held<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&I::NAME).finish()
    }
}

impl<I: ?Sized> fmt::Debug for Run<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "&self",
            Self::Exclusive(_) => "&mut self",
        })
    }
}
