//! The object itself, behind its interface.

use std::ops::Deref;
use std::sync::{PoisonError, RwLock, TryLockError};

use egret_stream::WireError;

use crate::rmi::answer::IncomingCall;
use crate::rmi::callee::gate::MethodAccess;
use crate::rmi::interface::{MethodCode, RemoteInterface, RemoteMethod};

/// An object of some interface.
pub(crate) trait MethodTarget: Send + Sync {
    /// Runs a method.
    fn run(&self, method: usize, served: &mut IncomingCall<'_>) -> Result<(), WireError>;
}

/// What is known of a method before it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MethodManner {
    pub(crate) access: MethodAccess,
    pub(crate) is_inline: bool,
}

/// An object all of whose methods take `&self`.
pub(crate) struct UngatedTarget<P>(pub(crate) P);

/// An object behind a gate. The lock is never waited for: who comes here has passed the gate.
pub(crate) struct GatedTarget<I: ?Sized>(pub(crate) RwLock<Box<I>>);

impl<I: RemoteInterface + ?Sized, P: Deref<Target = I> + Send + Sync> MethodTarget
    for UngatedTarget<P>
{
    fn run(&self, method: usize, served: &mut IncomingCall<'_>) -> Result<(), WireError> {
        match &I::METHODS[method].run {
            MethodCode::Shared(run) => run(&self.0, served),
            MethodCode::Exclusive(_) => unreachable!("it has no such methods"),
        }
    }
}

impl<I: RemoteInterface + ?Sized> MethodTarget for GatedTarget<I> {
    fn run(&self, method: usize, served: &mut IncomingCall<'_>) -> Result<(), WireError> {
        match &I::METHODS[method].run {
            MethodCode::Shared(run) => match self.0.try_read() {
                Ok(object) => run(&object, served),
                // A method that panicked has left it as it was then.
                Err(TryLockError::Poisoned(object)) => run(&object.into_inner(), served),
                Err(TryLockError::WouldBlock) => panic!("{PASSED}"),
            },
            MethodCode::Exclusive(run) => match self.0.try_write() {
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
pub(crate) fn is_gated<I: RemoteInterface + ?Sized>() -> bool {
    I::METHODS.iter().any(|method| matches!(method.run, MethodCode::Exclusive(_)))
}

impl<I: ?Sized> RemoteMethod<I> {
    pub(crate) const fn manner(&self) -> MethodManner {
        let access = match self.run {
            MethodCode::Shared(_) => MethodAccess::Shared,
            MethodCode::Exclusive(_) => MethodAccess::Exclusive,
        };
        MethodManner { access, is_inline: self.is_inline }
    }
}

const PASSED: &str = "the gate has let two calls in that exclude each other";
