//! Remote calls, as methods of a node.

use egret_net::rt::{Deadline, Instant};
use egret_node::node::{AskError, Handle, Node};
use egret_stream::ReadError;
use thiserror::Error;

use super::exchange::Exchange;
use super::export::{Export, ExportError, Exported, ObjectRef};
use super::interface::{Exports, Interface, Proxy};
use super::stub::Stub;

/// Objects and stubs of a node.
pub trait Remoting {
    /// Lets others call an object, as the interface that its `#[remote] impl` names.
    ///
    /// # Errors
    ///
    /// If there is no endpoint for it.
    fn export<T: Exports>(&self, object: T) -> Result<Exported, ExportError> {
        self.export_as(object.boxed(), Export::default())
    }

    /// Lets others call an object as one of its interfaces: `export_as::<dyn Grid>(…)`.
    ///
    /// # Errors
    ///
    /// If there is no endpoint for it.
    fn export_as<I: Interface + ?Sized>(
        &self,
        object: Box<I>,
        how: Export,
    ) -> Result<Exported, ExportError>;

    /// A stub for the object that has a name; waits until there is one. It connects when it
    /// is called first.
    ///
    /// # Errors
    ///
    /// If nobody has bound the name within the deadline, or something else to it.
    fn lookup<S: Proxy>(&self, name: &str, deadline: impl Into<Deadline>)
    -> Result<S, LookupError>;

    /// A stub for an object that somebody has told of. It connects when it is called first:
    /// if the object has another interface, or other methods, the call says so and does not
    /// run.
    fn stub<S: Proxy>(&self, object: &ObjectRef) -> S;

    /// Lets so many threads run calls at the same time, instead of twice as many as there are
    /// cores. Of none at all [`run_calls`](Self::run_calls) does the work.
    fn set_workers(&self, workers: usize);

    /// Runs the calls that wait for a thread, and wakes what is due; for a node without
    /// workers. Says whether there was a call, and when it is to look again.
    fn run_calls(&self) -> (bool, Option<Instant>);

    /// What is left of calls and objects.
    #[doc(hidden)]
    fn calls_account(&self) -> CallsAccount;
}

/// What a node has of remote calls at a moment; for tests.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallsAccount {
    /// Objects that are exported.
    pub objects: usize,
    /// Calls that wait or run.
    pub calls: usize,
}

/// Why there is no stub.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The registry has no such name, or does not answer.
    #[error(transparent)]
    Registry(#[from] AskError),
    /// The name stands for something else.
    #[error("the name {name:?} stands for no object: {why}")]
    NoObject {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: ReadError,
    },
    /// The object has another interface.
    #[error("the name {name:?} stands for a `{theirs}`, not for a `{ours}`")]
    OtherInterface {
        /// The name.
        name: String,
        /// What was asked for.
        ours: &'static str,
        /// What it is.
        theirs: String,
    },
}

impl Remoting for Handle {
    fn export_as<I: Interface + ?Sized>(
        &self,
        object: Box<I>,
        how: Export,
    ) -> Result<Exported, ExportError> {
        Exported::new(self, object, how)
    }

    fn lookup<S: Proxy>(
        &self,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<S, LookupError> {
        let bound = self.wait_bound(name, deadline.into())?;
        let object: ObjectRef = egret_stream::read(&bound.bytes)
            .map_err(|why| LookupError::NoObject { name: name.to_owned(), why })?;
        let ours = S::Interface::NAME;
        if object.interface != ours {
            let (name, theirs) = (name.to_owned(), object.interface);
            return Err(LookupError::OtherInterface { name, ours, theirs });
        }
        Ok(Remoting::stub(self, &object))
    }

    fn stub<S: Proxy>(&self, object: &ObjectRef) -> S {
        S::of(Stub::new(self, object))
    }

    fn set_workers(&self, workers: usize) {
        Exchange::of(self).workers.set_busy_max(workers);
    }

    fn run_calls(&self) -> (bool, Option<Instant>) {
        let exchange = Exchange::of(self);
        let mut any = false;
        while exchange.workers.run_one() {
            any = true;
        }
        (any, exchange.clock.ring())
    }

    fn calls_account(&self) -> CallsAccount {
        let exchange = Exchange::of(self);
        CallsAccount { objects: exchange.objects_len(), calls: exchange.load.calls() }
    }
}

impl Remoting for Node {
    fn export_as<I: Interface + ?Sized>(
        &self,
        object: Box<I>,
        how: Export,
    ) -> Result<Exported, ExportError> {
        (**self).export_as(object, how)
    }

    fn lookup<S: Proxy>(
        &self,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<S, LookupError> {
        Remoting::lookup(&**self, name, deadline)
    }

    fn stub<S: Proxy>(&self, object: &ObjectRef) -> S {
        (**self).stub(object)
    }

    fn set_workers(&self, workers: usize) {
        (**self).set_workers(workers);
    }

    fn run_calls(&self) -> (bool, Option<Instant>) {
        (**self).run_calls()
    }

    fn calls_account(&self) -> CallsAccount {
        (**self).calls_account()
    }
}
