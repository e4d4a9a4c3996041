//! How a registry is to be.

use std::time::Duration;

use egret_net::fabric::OpenError as NicError;
use egret_net::vi::{Identity, NicOptions, NicSecretError, Secret};
use thiserror::Error;

use super::limits::{NAME_MAX, SIZE_MAX};
use super::state::Terms;
use crate::am::EndpointError;
use crate::link::OpenError;

/// How a registry is to be.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RegistryOptions {
    /// The pool's name, which nodes must know.
    pub pool: String,
    /// How many nodes the pool has.
    pub size: u32,
    /// What nodes must prove to know.
    pub secret: Option<Secret>,
    /// Its key; a new one if it is `None`.
    pub identity: Option<Identity>,
    /// [Where](egret_net::fabric::place) it listens.
    pub listen: String,
    /// How long a node that is asked has to answer.
    pub patience: Duration,
    is_insecure: bool,
}

impl RegistryOptions {
    /// The registry of a pool of this name with so many nodes, on loopback.
    #[must_use]
    pub fn new(pool: &str, size: u32) -> Self {
        let (pool, listen) = (pool.to_owned(), String::new());
        let (secret, identity) = (None, None);
        Self { pool, size, secret, identity, listen, patience: PATIENCE, is_insecure: false }
    }

    /// Nodes must have this secret. An empty one is an error when the registry opens;
    /// none at all is one if the registry listens beyond loopback.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Proves this key to nodes. Whoever is to open the registry again, for nodes that know its key
    /// already, keeps it; otherwise the registry makes one.
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

    /// The nic that it opens by itself.
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

    /// Listens here.
    #[must_use]
    pub fn listen(mut self, listen: &str) -> Self {
        listen.clone_into(&mut self.listen);
        self
    }

    /// Gives a silent node so long to answer.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(super) fn terms(self) -> Result<Terms, RegistryError> {
        if self.size == 0 || self.size > SIZE_MAX {
            return Err(RegistryError::Size { size: self.size });
        }
        if self.pool.len() > NAME_MAX {
            return Err(RegistryError::PoolName { bytes: self.pool.len() });
        }
        if self.secret.as_ref().is_some_and(Secret::is_empty) {
            return Err(RegistryError::Secret(NicSecretError::Empty));
        }
        let (pool, size, patience) = (self.pool, self.size, self.patience);
        Ok(Terms { pool, size, silent: SILENT, patience })
    }
}

/// Why there is no registry.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// A pool has at least one node, and not too many.
    #[error("a pool of {size} nodes; from 1 to {SIZE_MAX} are possible")]
    Size {
        /// How many were asked for.
        size: u32,
    },
    /// The pool's name is too long.
    #[error("the name of the pool has {bytes} bytes, at most {NAME_MAX} fit")]
    PoolName {
        /// Its length.
        bytes: usize,
    },
    /// The secret is empty.
    #[error(transparent)]
    Secret(NicSecretError),
    /// It cannot listen there.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// Its links cannot be opened.
    #[error(transparent)]
    Links(#[from] OpenError),
    /// Another registry is on the same nic.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The operating system gives no thread to look after those who are silent.
    #[error("no thread for the registry's clock: {0}")]
    Thread(std::io::Error),
}

/// After so long a silent node is asked.
pub(crate) const SILENT: Duration = Duration::from_secs(2);
/// And has so long to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
