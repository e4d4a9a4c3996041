//! The object itself, behind its interface.

use std::ops::Deref;
use std::sync::{PoisonError, RwLock, TryLockError};

use egret_stream::ReadError;

use super::gate::Access;
use super::interface::{Interface, Method, Run};
use super::served::Served;

/// An object of some interface.
pub(crate) trait Target: Send + Sync {
    /// Runs a method.
    fn run(&self, method: usize, served: &mut Served<'_>) -> Result<(), ReadError>;
}

/// What is known of a method before it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) access: Access,
    pub(crate) is_inline: bool,
}

/// An object all of whose methods take `&self`.
pub(crate) struct Open<P>(pub(crate) P);

/// An object behind a gate. The lock is never waited for: who comes here has passed the gate.
pub(crate) struct Gated<I: ?Sized>(pub(crate) RwLock<Box<I>>);

impl<I: Interface + ?Sized, P: Deref<Target = I> + Send + Sync> Target for Open<P> {
    fn run(&self, method: usize, served: &mut Served<'_>) -> Result<(), ReadError> {
        match &I::METHODS[method].run {
            Run::Shared(run) => run(&self.0, served),
            Run::Exclusive(_) => unreachable!("it has no such methods"),
        }
    }
}

impl<I: Interface + ?Sized> Target for Gated<I> {
    fn run(&self, method: usize, served: &mut Served<'_>) -> Result<(), ReadError> {
        match &I::METHODS[method].run {
            Run::Shared(run) => match self.0.try_read() {
                Ok(object) => run(&object, served),
                // A method that panicked has left it as it was then.
                Err(TryLockError::Poisoned(object)) => run(&object.into_inner(), served),
                Err(TryLockError::WouldBlock) => panic!("{PASSED}"),
            },
            Run::Exclusive(run) => match self.0.try_write() {
                Ok(mut object) => run(&mut object, served),
                Err(TryLockError::Poisoned(object)) => {
                    let mut object = PoisonError::into_inner(object);
                    run(&mut object, served)
                }
                Err(TryLockError::WouldBlock) => panic!("{PASSED}"),
            },
        }
    }
}

/// Whether an interface has methods that take `&mut self`.
pub(crate) fn is_gated<I: Interface + ?Sized>() -> bool {
    I::METHODS.iter().any(|method| matches!(method.run, Run::Exclusive(_)))
}

impl<I: ?Sized> Method<I> {
    pub(crate) const fn manner(&self) -> Manner {
        let access = match self.run {
            Run::Shared(_) => Access::Shared,
            Run::Exclusive(_) => Access::Exclusive,
        };
        Manner { access, is_inline: self.is_inline }
    }
}

const PASSED: &str = "the gate has let two calls in that exclude each other";
