//! Fabrics: what carries a [`Vi`](crate::vi::Vi)'s messages.
//!
//! A fabric implements two traits: [`Fabric`] opens a nic, and [`Machine`] is the nic with all
//! its connections, as a state machine. Both are object-safe
//! and public, so a fabric may come from another crate; it passes the same
//! conformance suite as the ones here, and the program's handles are the same:
//! [`Nic::new`] takes the machine.
//!
//! The rules that a machine keeps stand with its trait, in [`vi::machine`](crate::vi::machine);
//! `docs/own-fabric.md` shows how to write a fabric.

#[doc(hidden)]
pub mod greet;
mod hub;
mod outbox;
pub mod place;
mod receives;
mod seal;
// A 64-bit load is a plain load only where words have 64 bits.
#[cfg(target_pointer_width = "64")]
pub mod shm;
pub mod sim;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod udp;
pub mod window;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

#[cfg(feature = "limits")]
pub(crate) use self::seal::Alone;
pub use crate::vi::machine::{
    After, Arming, Came, ConnId, ConnectPromise, ConnectRequest, DATAGRAM_HEAD, Drained,
    ListenerName, Machine, MachineFd, Made, Seen, SetEvent, Unposted, ViSpec, Woken, World,
};
use crate::vi::{Nic, NicOptions, NicSecretError};

/// A kind of network, opened by name at run time.
pub trait Fabric: Send + Sync + fmt::Debug {
    /// The name it is opened by.
    fn name(&self) -> &'static str;
    /// Opens a nic.
    ///
    /// # Errors
    ///
    /// If the name is taken or the fabric is not to be had on this machine.
    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError>;
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
    /// A process of another user has this name: on one machine anybody can take any.
    #[error(
        "process {pid} of user {user} has the name of the nic {host:?}, which any user can take; \
         take another, with something random in it"
    )]
    TakenByOther {
        /// The name.
        host: String,
        /// The process, if it is still there.
        pid: i32,
        /// Its user, as this process sees it.
        user: u32,
    },
    /// The fabric is not to be had under this name on this machine.
    #[error("no nic named {host:?}: {why}")]
    Refused {
        /// The name.
        host: String,
        /// What is in the way.
        why: String,
    },
    /// The secret is empty, or missing where one is needed.
    #[error("no nic named {host:?}: {why}")]
    Secret {
        /// The name.
        host: String,
        /// What is wrong.
        why: NicSecretError,
    },
}

impl OpenError {
    /// There is no nic with these options, and this is why.
    fn refused<E: fmt::Display>(options: &NicOptions) -> impl FnOnce(E) -> Self {
        let host = options.host.clone();
        |why| Self::Refused { host, why: why.to_string() }
    }

    /// A nic with these options has no secret that will do.
    pub(crate) fn secret(options: &NicOptions) -> impl FnOnce(NicSecretError) -> Self {
        let host = options.host.clone();
        |why| Self::Secret { host, why }
    }
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
/// assert_eq!(error.to_string(), r#"no fabric "smi"; there are: sim, shm, tcp, udp"#);
/// # Ok::<(), egret_net::fabric::OpenError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fabrics(Vec<Arc<dyn Fabric>>);

impl Default for Fabrics {
    /// The fabrics of this crate.
    fn default() -> Self {
        Self(vec![
            Arc::new(sim::SimFabric::default()),
            #[cfg(target_pointer_width = "64")]
            Arc::new(shm::ShmFabric),
            Arc::new(tcp::TcpFabric),
            Arc::new(udp::UdpFabric),
        ])
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
    pub fn open(&self, name: &str, options: impl Into<NicOptions>) -> Result<Nic, OpenError> {
        let unknown = || OpenError::UnknownFabric {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        };
        let fabric = self.0.iter().find(|fabric| fabric.name() == name).ok_or_else(unknown)?;
        fabric.open(&options.into())
    }
}
