//! Options of a registry.

use std::path::{Path, PathBuf};
use std::time::Duration;

use egret_net::vi::{Identity, NicOptions, Secret};

use super::state::PoolTerms;
use crate::pool::JoinError;
use crate::pool::wire::{NAME_MAX, SIZE_MAX};

/// The options of a registry; [`Registry`](super::Registry) and [`Operator`](super::Operator) have
/// examples.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RegistryOptions {
    /// The pool's name, which nodes must know.
    pub pool: String,
    /// How many nodes the pool has; an open pool: how many members it has at most at a time.
    pub size: u32,
    /// Whether the pool is open: nodes come and go, and no rank is used again.
    pub is_open: bool,
    /// The secret of the pool, which nodes prove to know.
    pub secret: Option<Secret>,
    /// The key pair of the registry; a new one if `None`.
    pub identity: Option<Identity>,
    /// The [place](egret_net::fabric::place) where the registry listens.
    pub listen: String,
    /// How long a node that is probed has to answer; see [`patience`](Self::patience).
    pub patience: Duration,
    is_insecure: bool,
    /// The directory of a registry whose state lasts.
    pub(super) state: Option<PathBuf>,
    /// How long members are waited for after the registry was started again.
    pub(super) resume: Duration,
}

impl RegistryOptions {
    /// The registry of a pool of this name with so many nodes, on loopback.
    #[must_use]
    pub fn new(pool: &str, size: u32) -> Self {
        let (pool, listen) = (pool.to_owned(), String::new());
        let (secret, identity) = (None, None);
        let (is_open, is_insecure) = (false, false);
        let (patience, state, resume) = (PATIENCE, None, RESUME);
        Self { pool, size, is_open, secret, identity, listen, patience, is_insecure, state, resume }
    }

    /// The registry of an open pool of this name, on loopback: nodes join and leave while the others work,
    /// and a node is known by its [`NodeId`](crate::node::NodeId) alone, whose rank is its number in the order
    /// of joining. There are at most 16,384 members at a time, or as many as [`size`](Self::size) says.
    ///
    /// ```
    /// use egret_node::node::Node;
    /// use egret_node::registry::{Registry, RegistryOptions};
    ///
    /// let registry = Registry::open(RegistryOptions::open("pool").secret("hush".into()))?;
    /// let (first, second) = (Node::join(registry.config())?, Node::join(registry.config())?);
    /// assert_eq!((first.rank(), second.rank()), (0, 1));
    /// first.leave(second.deadline())?;
    /// let third = Node::join(registry.config())?;
    /// assert_eq!((third.rank(), third.size()), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn open(pool: &str) -> Self {
        Self { is_open: true, ..Self::new(pool, OPEN_SIZE) }
    }

    /// Nodes must have this secret. An empty one is an error when the registry opens;
    /// none at all is one if the registry listens beyond loopback.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Proves this key to nodes. A program that opens the registry again, for nodes that know its key
    /// already, keeps the key; otherwise the registry makes one.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Lets a registry without a secret listen beyond loopback: **everybody who reaches
    /// its address can join the pool**
    /// ([more](egret_net::vi::NicOptions::insecure_without_secret)).
    #[must_use]
    pub const fn insecure_without_secret(mut self) -> Self {
        self.is_insecure = true;
        self
    }

    /// Keeps the state of the registry in a directory, which is made if it is not there: members and their ended lives,
    /// events, views, names, the key of the registry, and where it listens. A registry that is started again with the
    /// same directory goes on, and its members find it by themselves. One process at a time has the directory.
    ///
    /// ```
    /// use egret_node::node::Node;
    /// use egret_node::registry::{Registry, RegistryOptions};
    ///
    /// # let dir = std::env::temp_dir().join(format!("egret-state-{}", std::process::id()));
    /// let open = || Registry::open(RegistryOptions::new("pool", 2).secret("hush".into()).state(&dir));
    /// let registry = open()?;
    /// let node = Node::join(registry.config())?;
    /// node.bind("here", b"and there")?;
    /// drop(registry);
    ///
    /// let registry = open()?;
    /// assert_eq!(node.bound("here")?.map(|bound| bound.owner), Some(node.id()));
    /// # drop((node, registry));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn state(mut self, dir: &Path) -> Self {
        self.state = Some(dir.to_owned());
        self
    }

    /// Waits so long for members after the registry was started again with its [state](Self::state), instead of 30
    /// seconds, before it declares them dead. Without a state this says nothing.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use egret_node::registry::{Registry, RegistryOptions};
    ///
    /// let options = RegistryOptions::open("pool").state("/var/lib/pool".as_ref());
    /// let registry = Registry::open(options.resume_within(Duration::from_secs(120)))?;
    /// # Ok::<(), egret_node::node::JoinError>(())
    /// ```
    #[must_use]
    pub const fn resume_within(mut self, time: Duration) -> Self {
        self.resume = time;
        self
    }

    /// The options of the nic that the registry opens by itself.
    pub(super) fn nic(&self) -> NicOptions {
        let nic = NicOptions::new(&self.listen);
        let nic = match &self.identity {
            Some(identity) => nic.identity(identity.clone()),
            None => nic,
        };
        let nic = if self.is_insecure { nic.insecure_without_secret() } else { nic };
        match &self.secret {
            Some(secret) => nic.secret(secret.clone()),
            None => nic,
        }
    }

    /// The [place](egret_net::fabric::place) where the registry listens, instead of loopback.
    #[must_use]
    pub fn listen(mut self, listen: &str) -> Self {
        listen.clone_into(&mut self.listen);
        self
    }

    /// Declares a node dead that has not answered a probe for so long, instead of 1.75 seconds. A node is probed
    /// when it has sent nothing for 0.75 seconds. A node that is busy answers all the same; one whose process is
    /// stopped, by a debugger for instance, does not. A node gives a registry up that has been silent for four times
    /// as long as both together, ten seconds unless this says otherwise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_node::registry::{Registry, RegistryOptions};
    ///
    /// let options = RegistryOptions::new("pool", 2).secret("hush".into());
    /// let registry = Registry::open(options.patience(Duration::from_secs(60)))?; // for a debugger
    /// println!("EGRET_REGISTRY={}", registry.address());
    /// # Ok::<(), egret_node::node::JoinError>(())
    /// ```
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(super) fn terms(self) -> Result<PoolTerms, JoinError> {
        if self.size == 0 || self.size > SIZE_MAX {
            return Err(JoinError::PoolSize { size: self.size });
        }
        if self.pool.len() > NAME_MAX {
            return Err(JoinError::PoolName { bytes: self.pool.len() });
        }
        if self.secret.as_ref().is_some_and(Secret::is_empty) {
            return Err(JoinError::EmptySecret { said: "of the registry".to_owned() });
        }
        let Self { pool, size, is_open, patience, .. } = self;
        let resume = self.state.map(|_| self.resume);
        Ok(PoolTerms { pool, size, is_open, silent: SILENT, patience, resume })
    }
}

/// A node that has sent nothing for so long is probed.
pub(crate) const SILENT: Duration = Duration::from_millis(750);
/// How long a node that is probed has to answer.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1750);
/// How long members are waited for after the registry was started again.
const RESUME: Duration = Duration::from_secs(30);
/// Members of an open pool at a time, unless the options say another number.
const OPEN_SIZE: u32 = 16 << 10;
