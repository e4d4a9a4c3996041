//! What code knows of the types of a remote method without proof.
//!
//! The code for one method needs in many places that a type can travel, and a type that cannot
//! would be as many errors. So the proof stands once, in a function that returns
//! `impl Carries<T>`, at the type; all else goes through what that function returns, of which the
//! compiler takes for granted what the trait says. All of it compiles to nothing.

use std::fmt;
use std::marker::PhantomData;

use crate::describe::{Schema, fingerprint};
use crate::wire::{Bulk, FromWire, Wire};

/// Proof that a `T` can travel: an argument, a value or an error of a method.
#[doc(hidden)]
pub trait Carries<T>: Sized {
    /// The type itself.
    type Type: for<'a> FromWire<'a>;

    /// A value that is written.
    fn send(self, value: T) -> Self::Type;

    /// A value that is written and stays with its owner.
    fn lend(self, value: &T) -> &Self::Type;

    /// A value that was read.
    fn open(self, value: Self::Type) -> T;

    /// The type, to be told; no value is ever made.
    fn told(self) -> Self::Type;

    /// Calls a method that returns a `T`, and an `E` that `failed` knows of.
    #[track_caller]
    fn call<C: MethodCaller, A: Wire, E>(
        self,
        failed: impl Carries<E>,
        caller: &C,
        method: usize,
        args: &A,
    ) -> C::Answer<T, E>;

    /// Calls a method whose error is a `T`.
    #[track_caller]
    fn call_failing<C: MethodCaller, A: Wire, V: for<'a> FromWire<'a>>(
        self,
        caller: &C,
        method: usize,
        args: &A,
    ) -> C::Answer<V, T>;
}

/// Proof that a `&[T]` can be read in place.
#[doc(hidden)]
pub trait Elements<T>: Sized {
    /// The type itself.
    type Type: Bulk;

    /// A slice that is written.
    fn lend(self, slice: &[T]) -> &[Self::Type];

    /// A slice that was read.
    fn open(self, slice: &[Self::Type]) -> &[T];

    /// The type, to be told; no value is ever made.
    fn told(self) -> &'static [Self::Type];
}

/// Calls methods by their numbers.
#[doc(hidden)]
pub trait MethodCaller {
    /// What comes of a call.
    type Answer<T, E>;

    /// Calls one.
    #[track_caller]
    fn call<A, T, E>(&self, method: usize, args: &A) -> Self::Answer<T, E>
    where
        A: Wire,
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>;
}

/// The only one who [carries](Carries), if the type can travel.
#[doc(hidden)]
pub struct CarryProof<T>(PhantomData<fn() -> T>);

impl<T> CarryProof<T> {
    /// For whatever type; what it can do is another question.
    #[expect(clippy::new_without_default, reason = "made by generated code alone")]
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> fmt::Debug for CarryProof<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sound")
    }
}

impl<T: for<'a> FromWire<'a>> Carries<T> for CarryProof<T> {
    type Type = T;
    #[inline(always)]
    fn send(self, value: T) -> T {
        value
    }
    #[inline(always)]
    fn lend(self, value: &T) -> &T {
        value
    }
    #[inline(always)]
    fn open(self, value: T) -> T {
        value
    }
    fn told(self) -> T {
        unreachable!("a function that only tells a type is never called")
    }
    #[inline(always)]
    #[track_caller]
    fn call<C: MethodCaller, A: Wire, E>(
        self,
        failed: impl Carries<E>,
        caller: &C,
        method: usize,
        args: &A,
    ) -> C::Answer<T, E> {
        failed.call_failing::<C, A, T>(caller, method, args)
    }
    #[inline(always)]
    #[track_caller]
    fn call_failing<C: MethodCaller, A: Wire, V: for<'a> FromWire<'a>>(
        self,
        caller: &C,
        method: usize,
        args: &A,
    ) -> C::Answer<V, T> {
        caller.call(method, args)
    }
}

impl<T: Bulk> Elements<T> for CarryProof<T> {
    type Type = T;
    #[inline(always)]
    fn lend(self, slice: &[T]) -> &[T] {
        slice
    }
    #[inline(always)]
    fn open(self, slice: &[T]) -> &[T] {
        slice
    }
    fn told(self) -> &'static [T] {
        unreachable!("a function that only tells a type is never called")
    }
}

/// The fingerprint and the schema of a type, as they are asked for.
#[doc(hidden)]
pub type TypeStructure = (fn() -> u64, fn() -> Schema);

/// The structure of what a function returns, which is not called.
#[doc(hidden)]
#[must_use]
pub fn structure_by<T: Wire>(_: fn() -> T) -> TypeStructure {
    (fingerprint::<T>, Schema::of::<T>)
}
