//! Nodes: the members of a pool, found through its [registry](crate::registry).
//!
//! ```
//! use egret_node::node::{Config, Node};
//! use egret_node::registry::{Registry, RegistryOptions};
//!
//! // `egret run` has a registry, and sets the environment of what it starts so that
//! // `Node::join(Config::from_env()?)` is all that a program says. Here both are by hand:
//! // two nodes in one process.
//! let registry = Registry::open(RegistryOptions::new("doc", 2).secret("hush".into()))?;
//! let join = || {
//!     Node::join(registry.config())
//! };
//! let (a, b) = (join()?, join()?);
//! a.wait_all(a.deadline())?;
//! assert_eq!((a.rank(), b.rank(), a.size()), (0, 1, 2));
//!
//! // Names, which others look up.
//! b.bind("handshake", b"hello")?;
//! let found = a.wait_bound("handshake", a.deadline())?;
//! assert_eq!((found.owner, &found.bytes[..]), (b.id(), &b"hello"[..]));
//!
//! // The best fabric that both have leads there; the link is made at first use.
//! println!("{}", a.explain(b.id()).unwrap()); // rank 1: shm, because both are on one machine; …
//! let route = a.route(b.id())?;
//! route.links.wait_connect(&route.host, a.deadline())?;
//!
//! // Who goes is seen by all, in one order.
//! let mut events = a.events();
//! b.leave(a.deadline())?;
//! while let Ok(event) = events.wait_next(a.deadline()) {
//!     println!("{event:?}");
//!     if matches!(event, egret_node::node::Event::Left(_)) { break }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fault;
mod handle;
mod join;
mod launched;
mod membership;
mod names;
mod open;
mod panic;
mod place;
mod pmi;
mod probe;
mod questions;
mod report;
mod resume;
mod route;
mod routes;
#[cfg(feature = "tokio")]
pub mod tokio;
mod traffic;
mod view;

use std::ops::Deref;
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
pub use handle::{FabricInfo, NodeHandle, NodePart};
pub use join::Joining;
use launched::RegistryKeeper;
pub use names::{Binding, RegistryReply, RegistryRequests};
#[doc(hidden)]
pub use panic::describe_panics;
pub use probe::LinkProbe;
pub use route::{Explanation, Route};
pub use traffic::{TrafficChange, TrafficChanges};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use view::FuzzedView;

use crate::pool::wire::RegistryQuestion;
pub use crate::pool::{
    Departure, Event, EventCalls, Events, FabricOffer, JobProcess, JoinError, Latency, Member,
    NodeError, NodeId, NodeReport, PeerReport, Properties, Property, RegistryRefusal, Requirement,
    TrafficCount, View, WaitReport, wait_circle,
};
pub use crate::settings::config::Config;

/// A member of a pool: what a [`NodeHandle`] can do, and the membership. Dropped, the node leaves, which
/// takes a second at most; dropped by a panic, it fails, and the other nodes receive the panic's
/// message. Rank 0 of a job that `srun` or `mpiexec` has started has the registry in it, and waits for the others too, as
/// long as the [deadline](Config::deadline) says. The [module](self) has an example.
#[derive(Debug)]
pub struct Node {
    handle: NodeHandle,
    /// The deadline of leaving, after [`leave`](Self::leave).
    left: Option<Instant>,
    /// The registry of the job, if this is rank 0 and the job has no launcher of egret's.
    registry: Option<RegistryKeeper>,
    /// How long the others may take to leave before this node gives up their registry.
    patience: Deadline,
}

impl Node {
    /// Joins a pool.
    ///
    /// # Errors
    ///
    /// If there is no registry, it refuses, or it does not answer within the
    /// [deadline](Config::deadline).
    #[expect(clippy::needless_pass_by_value, reason = "a configuration is made to be joined with")]
    pub fn join(config: Config) -> Result<Self, JoinError> {
        join::join(&config)
    }

    /// Begins to join, without waiting: the node is the result of a future. For programs that drive
    /// everything by themselves, as in a simulated world.
    ///
    /// # Errors
    ///
    /// If a setting means nothing, or a nic cannot be opened.
    #[expect(clippy::needless_pass_by_value, reason = "as `join`")]
    pub fn begin_join(config: Config) -> Result<Joining, JoinError> {
        join::begin(&config)
    }

    fn of(handle: NodeHandle) -> Self {
        let patience = handle.deadline();
        Self { handle, left: None, registry: None, patience }
    }

    /// A handle to the node, which does not keep the node a member.
    #[must_use]
    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// Leaves the pool: the others are told, and the node's names and links are gone. What the node
    /// has sent arrives first, if it can within the deadline and five seconds: messages, answers, and whole
    /// messages of channels. Callers whose methods still run here are told that the node has left, and the answers
    /// of those methods are dropped. The threads of those methods are waited for until the deadline,
    /// and a second at most; a method that takes longer is left alone and comes to its end.
    ///
    /// # Errors
    ///
    /// If the registry does not answer within the deadline; the node is gone anyhow.
    #[track_caller]
    pub fn leave(mut self, deadline: impl Into<Deadline>) -> Result<(), NodeError> {
        let deadline = deadline.into();
        let until = deadline.until();
        self.patience = deadline;
        let left = self.handle.ask(&RegistryQuestion::Leave, deadline).map(drop);
        let most = rt::now() + ARRIVING;
        self.left = Some(until.map_or(most, |until| until.min(most)));
        left
    }
}

impl Deref for Node {
    type Target = NodeHandle;

    fn deref(&self) -> &NodeHandle {
        &self.handle
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let until = self.left.unwrap_or_else(|| rt::now() + LEAVING);
        if std::thread::panicking() {
            let why = panic::last();
            self.handle.close(Some(why.as_deref().unwrap_or("it panicked")), until);
            self.patience = Deadline::In(LEAVING);
        } else {
            if self.left.is_none() && rt::has_background() {
                _ = self.handle.ask(&RegistryQuestion::Leave, Deadline::In(LEAVING));
            }
            self.handle.close(None, until);
        }
        if let Some(registry) = self.registry.take() {
            registry.end(self.patience);
        }
    }
}

/// How long a node that is dropped waits for the registry and for what it has sent, and any node for what runs.
const LEAVING: Duration = Duration::from_secs(1);
/// How long a node that leaves waits for what it has sent: then the others have ended the links.
const ARRIVING: Duration = Duration::from_secs(5);
