//! What the macro says of a trait: the table of its methods.

use std::fmt;

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

/// A type that is exported as an [`Interface`]: `#[remote] impl Grid for Board`.
#[diagnostic::on_unimplemented(
    message = "it is not said what `{Self}` is exported as",
    note = "write `#[egret::remote]` at its implementation of a remote trait, or use `export_as`"
)]
pub trait Exports: Sized + 'static {
    /// As what.
    type Interface: Interface + ?Sized;
    /// It as that.
    fn boxed(self) -> Box<Self::Interface>;
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
    /// Whether it runs on the thread that receives the call.
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

impl<I: ?Sized> fmt::Debug for Run<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "&self",
            Self::Exclusive(_) => "&mut self",
        })
    }
}
