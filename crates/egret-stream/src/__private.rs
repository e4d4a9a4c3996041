//! What the code written by this crate's macros refers to.

use std::any::type_name;
use std::fmt::Display;
use std::marker::PhantomData;

pub use crate::carried::{
    Carries, CarryProof, Elements, MethodCaller, TypeStructure, structure_by,
};
use crate::describe::PlanCursor;
use crate::error::WireError;
use crate::fault::{Fault, planted};
pub use crate::impls::{give_elements, give_vec, read_cow};
use crate::reader::Reader;
pub use crate::wire::Wire as WireTrait;
use crate::wire::{FromWire, Stop};

/// Asks whether a type has a default, without needing it: the method of the trait
/// whose receiver needs fewer references is taken.
#[derive(Debug)]
pub struct DefaultProbe<T>(PhantomData<T>);

impl<T> DefaultProbe<T> {
    /// The question.
    #[expect(clippy::new_without_default, reason = "made by generated code alone")]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// A type with a default.
pub trait ByDefault<T> {
    /// The default.
    fn blank(&self) -> Option<T>;
}

impl<T: Default> ByDefault<T> for DefaultProbe<T> {
    fn blank(&self) -> Option<T> {
        Some(T::default())
    }
}

/// A type without a default.
pub trait ByNothing<T> {
    /// Nothing.
    fn blank(&self) -> Option<T>;
}

impl<T> ByNothing<T> for &DefaultProbe<T> {
    fn blank(&self) -> Option<T> {
        None
    }
}

/// What a check may answer.
pub trait CheckAnswer {
    /// Why not, if not.
    fn refusal(self) -> Option<String>;
}

impl CheckAnswer for bool {
    fn refusal(self) -> Option<String> {
        (!self).then(|| "it says no".to_owned())
    }
}

impl<E: Display> CheckAnswer for Result<(), E> {
    fn refusal(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// Reads a value that travels as a `T`.
///
/// # Errors
///
/// The reader knows why.
pub fn from_via<'a, F, T>(r: &mut Reader<'a>) -> Result<F, Stop>
where
    F: TryFrom<T, Error: Display>,
    T: FromWire<'a>,
{
    let via = T::read(r)?;
    made::<F, T>(r, via)
}

/// Reads a value that travels as a `T` of another version.
///
/// # Errors
///
/// The reader knows why.
pub fn from_via_planned<'a, F, T>(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<F, Stop>
where
    F: TryFrom<T, Error: Display>,
    T: FromWire<'a>,
{
    let via = T::read_planned(r, plan)?;
    made::<F, T>(r, via)
}

fn made<F: TryFrom<T, Error: Display>, T>(r: &mut Reader<'_>, via: T) -> Result<F, Stop> {
    F::try_from(via).map_err(|error| {
        r.fail(WireError::Check { name: type_name::<F>(), why: error.to_string() })
    })
}

/// Hands a value out that was checked.
///
/// # Errors
///
/// The reader knows why.
pub fn checked<T>(
    r: &mut Reader<'_>,
    name: &'static str,
    value: T,
    verdict: impl FnOnce(&T) -> Option<String>,
) -> Result<T, Stop> {
    match verdict(&value) {
        Some(why) if !planted(Fault::Unchecked) => Err(r.fail(WireError::Check { name, why })),
        _ => Ok(value),
    }
}
