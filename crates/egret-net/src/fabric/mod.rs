//! Fabrics: what carries a [`Vi`](crate::vi::Vi)'s messages.
//!
//! A fabric implements four small traits: [`Fabric`] opens a nic, [`NicOps`]
//! is the nic, [`ListenerOps`] and [`ViOps`] are what it makes. All are object-safe
//! and public, so a fabric may come from another crate; it passes the same
//! conformance suite as the ones here.
//!
//! What a fabric may rely on: descriptors were checked against its
//! [`Limits`]; receives are writable. What it must keep:
//!
//! * A [`Posted`] completes exactly once. Dropping one fails it, so forgetting
//!   one takes effort.
//! * `disconnect`, and an error, complete everything outstanding before they
//!   return or before the error can be seen.
//! * Nothing blocks but `wait`.
//! * [`Notices`](crate::vi::Notices) are given with no lock held.
//! * Bytes of a peer never panic.

mod promise;
pub mod sim;

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use thiserror::Error;

pub use promise::{Pending, Promise, pending};

use crate::rt::{self, Instant};
use crate::vi::{
    Address, ConnectError, Counters, Keys, Limits, ListenError, Nic, Posted, Refused, Reliability,
    Ticket, ViError,
};

/// A kind of network, opened by name at run time.
pub trait Fabric: Send + Sync + fmt::Debug {
    /// The name it is opened by.
    fn name(&self) -> &'static str;
    /// Opens a nic that peers reach as `host`.
    ///
    /// # Errors
    ///
    /// If the name is taken or the fabric is not to be had on this machine.
    fn open(&self, host: &str) -> Result<Nic, OpenError>;
}

/// What a fabric's nic does. See the [module](self) for the rules.
pub trait NicOps: Send + Sync + fmt::Debug {
    /// The name peers connect to.
    fn host(&self) -> &str;
    /// What it allows.
    fn limits(&self) -> Limits;
    /// The memory it exposes.
    fn keys(&self) -> &Arc<Keys>;
    /// Begins to listen; nobody else may listen for the same.
    ///
    /// # Errors
    ///
    /// If someone does, or the nic is down.
    fn listen(
        &self,
        service: &str,
        tag: u64,
        reliability: Reliability,
    ) -> Result<Box<dyn ListenerOps>, ListenError>;
    /// Begins to connect, and fulfils the promise when that is decided, at the
    /// latest when the request's time is up.
    fn connect(&self, request: ConnectRequest);
    /// Does what can be done without waiting.
    fn progress(&self);
    /// Waits until something may have happened, at the latest `until`. May
    /// return early.
    fn wait(&self, until: Option<Instant>);
    /// Ends a [`wait`](Self::wait) of another thread, or else the next one.
    fn wake(&self);
    /// The present moment in the world this nic lives in.
    fn now(&self) -> Instant {
        rt::now()
    }
}

/// What a fabric's listener does. Dropping it stops listening.
pub trait ListenerOps: Send + Sync + fmt::Debug {
    /// Accepts a connection if one is waiting.
    ///
    /// # Errors
    ///
    /// If the nic is down.
    fn try_accept(&self, spec: ViSpec) -> Result<Option<Box<dyn ViOps>>, ListenError>;
    /// Wakes `waker` once when a connection arrives.
    fn wake_on_arrival(&self, waker: &Waker);
}

/// What a fabric's end of a connection does. Dropping it closes it.
pub trait ViOps: Send + Sync + fmt::Debug {
    /// The other end's host.
    fn peer(&self) -> &str;
    /// The level both sides asked for.
    fn reliability(&self) -> Reliability;
    /// Takes a descriptor, or gives it back with the reason.
    ///
    /// # Errors
    ///
    /// If the queue is full or the connection broken.
    fn post(&self, posted: Posted) -> Result<(), Unposted>;
    /// Completes a descriptor that has not begun with [`ViError::Cancelled`],
    /// before it returns `true`.
    fn cancel(&self, ticket: Ticket) -> bool;
    /// Closes the connection and completes everything outstanding.
    fn disconnect(&self);
    /// Why it is in the error state, if it is.
    fn error(&self) -> Option<ViError>;
    /// What it has done so far.
    fn counters(&self) -> Counters;
}

/// A descriptor that a fabric did not take.
#[derive(Debug)]
pub struct Unposted {
    /// Why.
    pub reason: Refused,
    /// The descriptor.
    pub posted: Box<Posted>,
}

impl Unposted {
    /// Gives `posted` back.
    #[must_use]
    pub fn new(reason: Refused, posted: Posted) -> Self {
        Self { reason, posted: Box::new(posted) }
    }
}

/// How an end of a connection is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViSpec {
    /// The level asked for.
    pub reliability: Reliability,
    /// Descriptors that may be outstanding on each queue.
    pub depth: u32,
}

/// A connection to be made.
#[derive(Debug)]
pub struct ConnectRequest {
    /// Where to.
    pub to: Address,
    /// How this end is to be.
    pub spec: ViSpec,
    /// When to give up.
    pub until: Option<Instant>,
    /// What to tell.
    pub promise: Promise<Result<Box<dyn ViOps>, ConnectError>>,
}

/// Why a nic was not opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No fabric of this name.
    #[error("no fabric {name:?}; there are: {known}")]
    UnknownFabric {
        /// The name.
        name: String,
        /// Those that exist, with commas.
        known: String,
    },
    /// Another nic has this name.
    #[error("a nic named {host:?} is open already")]
    Taken {
        /// The name.
        host: String,
    },
}

/// The fabrics a program can open by name.
///
/// ```
/// use egret_net::fabric::Fabrics;
///
/// let fabrics = Fabrics::default();
/// let nic = fabrics.open("sim", "a")?;
/// assert_eq!(nic.host(), "a");
/// let error = fabrics.open("smi", "b").unwrap_err();
/// assert_eq!(error.to_string(), r#"no fabric "smi"; there are: sim"#);
/// # Ok::<(), egret_net::fabric::OpenError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fabrics(Vec<Arc<dyn Fabric>>);

impl Default for Fabrics {
    /// The fabrics of this crate.
    fn default() -> Self {
        Self(vec![Arc::new(sim::SimFabric::default())])
    }
}

impl Fabrics {
    /// Adds a fabric; it takes the place of one with the same name.
    pub fn add(&mut self, fabric: Arc<dyn Fabric>) {
        self.0.retain(|known| known.name() != fabric.name());
        self.0.push(fabric);
    }

    /// The names that can be opened.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|fabric| fabric.name())
    }

    /// Opens a nic on the fabric called `name`.
    ///
    /// # Errors
    ///
    /// If there is no such fabric, or it has no such nic to give.
    pub fn open(&self, name: &str, host: &str) -> Result<Nic, OpenError> {
        let unknown = || OpenError::UnknownFabric {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        };
        let fabric = self.0.iter().find(|fabric| fabric.name() == name).ok_or_else(unknown)?;
        fabric.open(host)
    }
}
