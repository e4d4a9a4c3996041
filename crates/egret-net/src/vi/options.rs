//! How a nic is to be opened.

use std::net::IpAddr;

#[cfg(doc)]
use super::Nic;
#[cfg(doc)]
use super::Vi;
use super::{Identity, OpenError, Secret, Trust};

/// How a nic is to be opened. A name alone will do: `"a".into()`.
///
/// ```
/// use egret_net::fabric::{Fabric, tcp::TcpFabric};
/// use egret_net::vi::{Encrypt, NicOptions, Wait};
///
/// let options = NicOptions::new("localhost").wait(Wait::Frugal).encrypt(Encrypt::Always);
/// let nic = TcpFabric.open(&options.secret("of all who may connect".into()))?;
/// assert!(nic.host().starts_with("127.0.0.1:"));
/// # Ok::<(), egret_net::vi::OpenError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NicOptions {
    /// The name peers connect to; on a network, [where to listen](crate::fabric::place).
    pub host: String,
    /// How its waits spend their time.
    pub wait: Wait,
    /// How far it would trust its peers; its connections say what came of it.
    pub trust: Trust,
    /// What they must prove to be trusted, and on a network to be connected at all.
    pub secret: Option<Secret>,
    /// The identity of the nic; `None` makes a new one.
    pub identity: Option<Identity>,
    /// Which of its connections are encrypted.
    pub encrypt: Encrypt,
    /// Whether it may listen on a network without one.
    is_insecure: bool,
}

impl NicOptions {
    /// A nic of this name, with everything else as it is best for most.
    #[must_use]
    pub fn new(host: &str) -> Self {
        let (wait, trust, encrypt) = Default::default();
        let (secret, identity) = (None, None);
        Self { host: host.to_owned(), wait, trust, secret, identity, encrypt, is_insecure: false }
    }

    /// Waits like this.
    #[must_use]
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Asks for this level of trust on every connection. One whose peer does not
    /// ask for it, or fails a check, is made all the same and is isolated: look
    /// at [`Vi::trust`]. A fabric without such levels does not mind.
    ///
    /// While a connection is being made, the nic that connects must be driven
    /// (by a wait, a poll, or [`block_on`](Nic::block_on)): it has questions to
    /// answer.
    #[must_use]
    pub const fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Trusts only peers with the same secret. Between processes of one machine that
    /// have none, the same user and the same executable file are all that is checked.
    /// On a network no connection is made with a peer that has another secret, or none;
    /// and a nic without one opens on loopback only.
    ///
    /// An [empty](Secret::is_empty) secret is an error when the nic is opened.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Proves this identity to every peer: the holder of a nic with it is known to be the same.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Encrypts connections as this says. One of the two ends is enough to have a connection
    /// encrypted. Fabrics on which nothing leaves the machine do not mind.
    #[must_use]
    pub const fn encrypt(mut self, encrypt: Encrypt) -> Self {
        self.encrypt = encrypt;
        self
    }

    /// Lets a nic without a secret listen beyond loopback: **everybody who reaches its
    /// address can connect**, and do what the program lets peers do. For networks on
    /// which every machine and every user is trusted. No setting and no variable of the
    /// environment does this.
    #[must_use]
    pub const fn insecure_without_secret(mut self) -> Self {
        self.is_insecure = true;
        self
    }

    /// The secret that a nic is opened with, whichever fabric it is on.
    pub(crate) fn checked_secret(&self) -> Result<Secret, OpenError> {
        match &self.secret {
            Some(secret) if secret.is_empty() => {
                Err(OpenError::EmptySecret { host: self.host.clone() })
            }
            Some(secret) => Ok(secret.clone()),
            None => Ok(Secret::none()),
        }
    }

    /// The identity of the nic; a new one if none was given.
    pub(crate) fn identity_or_new(&self) -> Identity {
        self.identity.clone().unwrap_or_else(Identity::random)
    }

    /// The same for a nic that listens at an address.
    pub(crate) fn checked_secret_at(&self, at: IpAddr) -> Result<Secret, OpenError> {
        let is_open = self.secret.is_none() && !at.to_canonical().is_loopback();
        if is_open && !self.is_insecure {
            return Err(OpenError::MissingSecret { host: self.host.clone(), at });
        }
        self.checked_secret()
    }
}

impl From<&str> for NicOptions {
    fn from(host: &str) -> Self {
        Self::new(host)
    }
}

/// How a nic waits.
/// [`NicOptions`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Looks again and again: the shortest answer, at the price of a core.
    Spin,
    /// Looks for about two round trips, gives way to others for a while, then
    /// sleeps.
    #[default]
    Balanced,
    /// Sleeps at once.
    Frugal,
}

/// Which connections of a nic are encrypted. What members of a multicast group say to each other is
/// signed, and not encrypted.
/// [`NicOptions`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encrypt {
    /// Connections with other machines: all but those between loopback addresses. A network namespace
    /// counts as a machine.
    #[default]
    BetweenMachines,
    /// All, also on loopback.
    Always,
    /// None that the peer does not want encrypted: for networks on which everybody is trusted.
    Never,
}
