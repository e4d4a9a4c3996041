//! The registry of a pool: who is a member, what happened in one order for all, and what
//! names stand for. It runs in whatever starts the nodes; `egret run` has one inside.
//!
//! ```
//! use egret_net::vi::Secret;
//! use egret_node::registry::{Registry, RegistryOptions};
//!
//! let registry = Registry::open(RegistryOptions::new("pool", 4).secret(Secret::random()))?;
//! println!("EGRET_REGISTRY={}", registry.address());
//! let secret = registry.secret().and_then(Secret::reveal).expect("a random one");
//! println!("{} bytes for EGRET_SECRET_FILE", secret.len());
//! # Ok::<(), egret_node::node::JoinError>(())
//! ```
//!
//! How it works stands in `docs/wire/registry.md`.

mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../../../../fuzz/models/egret-node/registry/fuzzing.rs"]
pub mod fuzzing;
mod journal;
mod limits;
mod member_index;
mod memory_disk;
mod names;
mod operator;
mod operator_link;
mod options;
mod record;
mod refusals;
mod reports;
mod serve;
mod state;
mod state_dir;
#[cfg(test)]
mod tests;
mod unwritten;

use std::sync::Arc;
use std::time::Duration;

use egret_net::fabric::{Fabric, OpenError, tcp::TcpFabric};
use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::{Nic, NicOptions, Secret};
pub(crate) use memory_disk::MemoryDisk;
pub use operator::Operator;
pub use operator_link::OperatorLink;
pub use options::RegistryOptions;

use self::journal::{Disk, Journal};
use self::record::KeptState;
use self::serve::RegistryServer;
use self::state_dir::StateDir;
use crate::flow::FlowTerms;
use crate::pool::{Events, JoinError, NodeId, NodeReport, drive};
use crate::settings::config::Config;
use crate::{Links, LinksOptions};

/// The registry of one pool. Dropping it closes it. The [module](self) has an example.
#[derive(Debug)]
pub struct Registry {
    server: Arc<RegistryServer>,
    secret: Option<Secret>,
}

impl Registry {
    /// Opens a registry on a nic of its own, over `tcp`.
    ///
    /// # Errors
    ///
    /// If it cannot listen there, or the secret is empty, or there is none and it would
    /// listen beyond loopback.
    pub fn open(mut options: RegistryOptions) -> Result<Self, JoinError> {
        let Some(dir) = options.state.as_deref().map(StateDir::open).transpose()? else {
            return Self::over(TcpFabric.open(&options.nic())?, options);
        };
        if options.identity.is_none() {
            options.identity = Some(dir.identity()?);
        }
        let place = options.listen.clone();
        options.listen = dir.listen(&place)?;
        let nic = open_freed(&options.nic())?;
        dir.note_address(&place, nic.host())?;
        Self::with_state(nic, options, Some(Box::new(dir)))
    }

    /// Opens a registry over a nic, for instance of a simulated world: there somebody
    /// [polls](Self::poll) it.
    ///
    /// # Errors
    ///
    /// If links are open on the nic already.
    pub fn over(nic: Nic, options: RegistryOptions) -> Result<Self, JoinError> {
        let dir = options.state.as_deref().map(StateDir::open).transpose()?;
        Self::with_state(nic, options, dir.map(|dir| Box::new(dir) as Box<dyn Disk>))
    }

    /// Opens a registry over a nic of a simulated world, with its state on a disk there.
    pub(crate) fn in_memory(
        nic: Nic,
        options: RegistryOptions,
        disk: &MemoryDisk,
    ) -> Result<Self, JoinError> {
        Self::with_state(nic, options.state("memory".as_ref()), Some(disk.open()))
    }

    fn with_state(
        nic: Nic,
        options: RegistryOptions,
        disk: Option<Box<dyn Disk>>,
    ) -> Result<Self, JoinError> {
        let terms = options.clone().terms()?;
        let kept = disk.map(|disk| Journal::open(disk, &terms)).transpose()?;
        Self::serve(nic, options, kept)
    }

    /// Serves a pool with what lasts of it.
    fn serve(
        nic: Nic,
        options: RegistryOptions,
        kept: Option<(Journal, KeptState)>,
    ) -> Result<Self, JoinError> {
        let key = nic.key();
        let secret = options.secret.clone();
        let secret = secret.map(|secret| key.map_or(secret.clone(), |key| secret.with_key(key)));
        let terms = options.terms()?;
        let links = Links::open(nic, LinksOptions::default().budget(budget(terms.size)))?;
        // Each peer has messages for its mappings, strangers too: they leave those of members alone.
        links.set_pool_size(terms.size);
        let keeps_state = kept.is_some();
        let server = RegistryServer::open(links, terms, kept)?;
        if rt::has_background() {
            serve::keep_time(&server).map_err(JoinError::Thread)?;
            if keeps_state {
                serve::keep_state(&server).map_err(JoinError::Thread)?;
            }
        }
        Ok(Self { server, secret })
    }

    /// Where nodes find it.
    #[must_use]
    pub fn address(&self) -> &str {
        self.server.links.host()
    }

    /// The secret of the pool with the registry's key in it, for nodes; `None` if the pool has no
    /// secret.
    #[must_use]
    pub const fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// The configuration of a node of the pool, for the process of the registry: the pool's name, the
    /// registry's address, and the secret.
    pub fn config(&self) -> Config {
        let pool = self.server.inner.lock().state.terms.pool.clone();
        let config = Config::new(&pool).registry(self.address());
        match &self.secret {
            Some(secret) => config.secret(secret.clone()),
            None => config,
        }
    }

    /// Reports that the process of a rank has ended, as its launcher knows: if the rank is still a
    /// member, the member has died; if it never was one, the others need not wait for it.
    ///
    /// This takes a rank and no `NodeId`, since the process may have ended before it joined. In an open pool
    /// nothing happens, for a launcher does not know the ranks of its nodes: [`declare_dead`](Self::declare_dead).
    pub fn ended(&self, rank: u32, why: &str) {
        self.server.change(|state, now| state.process_ended(now, rank, why));
    }

    /// Declares a member dead: the others get that event, and the node is fenced. Nothing happens if it is no
    /// member. The node is not probed; [`NodeHandle::suspect`](crate::node::NodeHandle::suspect) has a node probed.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// let node = pool[1].id();
    /// pool.registry().declare_dead(node, "its machine is switched off");
    /// let fate = pool[0].wait_fate(node, pool[0].deadline()).ok_or("it is a member")?;
    /// assert_eq!(fate.why(), "its machine is switched off");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn declare_dead(&self, node: NodeId, why: &str) {
        self.server.change(|state, now| state.declare_member_dead(now, node, why));
    }

    /// Asks all members what they do and wait for. With each member comes its report, unless the member has not
    /// answered within the deadline.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// for (node, report) in pool.registry().reports(Duration::from_secs(5)) {
    ///     match report {
    ///         Some(report) => println!("{report}"),
    ///         None => println!("{node} does not answer"),
    ///     }
    /// }
    /// # Ok::<(), egret_node::node::JoinError>(())
    /// ```
    #[must_use]
    pub fn reports(&self, deadline: impl Into<Deadline>) -> Vec<(NodeId, Option<NodeReport>)> {
        self.server.reports(deadline.into())
    }

    /// The events of the pool, from the beginning. Those of a registry that was started again with its
    /// [state](RegistryOptions::state) begin with [`Event::Resync`](crate::node::Event::Resync) in place of all before.
    #[must_use]
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.server) as _)
    }

    /// Makes progress without waiting; for a simulated world, which has no background threads.
    pub fn poll(&self) {
        self.server.links.poll();
        self.server.change(|state, now| state.tick(now));
        if !rt::has_background() {
            self.server.write_state();
        }
    }

    /// When [`poll`](Self::poll) has something to do at the latest.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        let due = self.server.next_event();
        self.server.links.next_event().into_iter().chain(due).min()
    }

    /// Waits until each rank of a closed pool has had a node, and all nodes have gone with their links; `false` if that is
    /// not so in time.
    pub(crate) fn wait_deserted(&self, deadline: Deadline) -> bool {
        let server = &self.server;
        let is_deserted = || {
            let inner = server.inner.lock();
            let pool = &inner.state.kept.pool;
            let size = inner.state.terms.size;
            (0..size).all(|rank| matches!(pool.last(rank), Some((_, Some(_)))))
        };
        let is_left = drive(&**server, deadline, &mut || is_deserted());
        // The answer to the node that leaves last is on its way; that node closes its link when it has come.
        let is_silent = || server.links.core.state.with(|state| state.links.keys().is_empty());
        is_left && {
            drive(&**server, Deadline::In(CLOSING), &mut || is_silent());
            true
        }
    }

    /// Closes the registry: the nodes of the pool get the event that they have lost it, unless it keeps its
    /// [state](RegistryOptions::state); then they wait for it to be opened again.
    pub fn close(&self) {
        self.server.close();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bytes of requests that may be under way: with so many each peer has a share of two mappings, one
/// for requests and one for events, whatever the others do. The spare bytes are for nodes that are
/// refused, and for the last life of nodes that come back.
const fn budget(size: u32) -> u64 {
    let peers = LinksOptions::pool_peers(size);
    SPARE + FlowTerms::of(0).shared_by(peers as u64).least()
}

/// Opens a nic at an address that a registry had before: a thread or process that is about to end may have it still.
fn open_freed(options: &NicOptions) -> Result<Nic, OpenError> {
    let until = rt::now() + FREED_WITHIN;
    loop {
        match TcpFabric.open(options) {
            Err(OpenError::Taken { .. }) if rt::now() < until => rt::sleep(FREED_LOOK),
            opened => return opened,
        }
    }
}

const SPARE: u64 = 16 << 20;
/// How long the links of nodes that have left are waited for.
const CLOSING: Duration = Duration::from_secs(1);
/// How long an address is waited for, and the time between two looks.
const FREED_WITHIN: Duration = Duration::from_secs(2);
const FREED_LOOK: Duration = Duration::from_millis(10);
