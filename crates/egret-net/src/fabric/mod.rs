//! Fabrics: what carries a [`Vi`](crate::vi::Vi)'s messages.
//!
//! A fabric implements two traits: [`Fabric`] opens a nic, and [`Machine`] is the nic with all
//! its connections, as a state machine. Both are object-safe
//! and public, so a fabric may come from another crate; it passes the same
//! conformance suite as the ones here, and the program's handles are the same:
//! [`Nic::new`] takes the machine.
//!
//! The rules that a machine keeps stand with its trait, in [`vi::machine`](crate::vi::machine);
//! `docs/design/own-fabric.md` shows how to write a fabric.
//!
//! # The files of a fabric
//!
//! A role has the same file in each fabric, and in [`window`], which stands above the machine of a fabric:
//!
//! | file | role | which fabrics have it |
//! |---|---|---|
//! | `nic.rs` | opens a nic, and says what the nic allows | `sim`, `shm`, `tcp`, `udp`. A window is opened by [`window::over`] and changes the limits of the machine below |
//! | `nic_context.rs` | what the parts of a nic know of it: host, keys, sockets, epoll set | `shm`, `tcp`, `udp`. A nic of `sim` refers to its node in the world, a window to the machine below |
//! | `machine.rs` | the nic as a [`Machine`] | all |
//! | `driver.rs` | the state of a nic, and its progress | `shm`, `tcp`, `udp`, `window`. In `sim` the world drives all nics: `world.rs` |
//! | `rounds.rs` | which connections a poll visits | `shm`, `tcp`. Elsewhere each datagram or event names its connection |
//! | `acceptor.rs`, `connector.rs` | inbound and outbound connections that are being made | `sim`, `shm`, `tcp`, `udp`. Connections of a window are made by the machine below |
//! | `connection.rs` | an end of a connection as its nic owns it | all |
//! | `datapath.rs`, `send.rs`, `recv.rs` | an end of a connection: post and poll, and both halves of it | all |
//! | `eager.rs` | eager messages of one end | `sim`, `shm`, `tcp`. `udp` carries them as posted ones; those of a window are messages of one of its `lanes` |
//! | `closing.rs` | the goodbye of a connection that this side has closed | `tcp`, `udp`, `window`. A word of shared memory says it in `shm`; the world keeps it in `sim` |
//! | `sealed.rs` or `sealed` | encryption of a connection's bytes | `tcp`, `udp`. The bytes of `sim` and `shm` leave no machine; a window's are sealed below |
//! | `socket.rs` | the system's sockets | `shm`, `tcp`, `udp`. `sim` and `window` make no system calls |
//! | `wire.rs` | the bytes of messages, or what stands for bytes | all |
//! | `fault.rs` | the faults that tests plant | all |
//!
//! The documentation of each fabric lists the files that it alone has.

mod common;
#[doc(hidden)]
pub mod handshake;
mod open_nic;
mod outbox;
pub mod place;
mod receives;
mod seal;
// A 64-bit load is a plain load only where words have 64 bits.
#[cfg(target_pointer_width = "64")]
pub mod shm;
pub mod sim;
pub mod tcp;
pub mod udp;
pub mod window;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "limits")]
#[doc(hidden)]
pub use self::seal::Alone;
pub use crate::vi::OpenError;
pub use crate::vi::machine::{
    After, Arming, ConnId, ConnectPromise, ConnectRequest, DATAGRAM_HEAD, DatagramEvent, Drained,
    EventCount, ListenerName, Machine, MachineFd, NewConnection, SetEvent, Unposted, ViSpec,
    VirtualTime, Woken,
};
use crate::vi::{Nic, NicOptions};

/// A kind of network, opened by name at run time.
///
/// ```
/// use std::sync::Arc;
///
/// use egret_net::fabric::tcp::TcpFabric;
/// use egret_net::fabric::{Fabric, Fabrics};
/// use egret_net::vi::{Nic, NicOptions, OpenError, Wait};
///
/// /// As `tcp`, and its nics sleep instead of looking.
/// #[derive(Debug)]
/// struct Sleepy;
///
/// impl Fabric for Sleepy {
///     fn name(&self) -> &'static str {
///         "sleepy"
///     }
///     fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
///         TcpFabric.open(&options.clone().wait(Wait::Frugal))
///     }
/// }
///
/// let mut fabrics = Fabrics::default();
/// fabrics.add(Arc::new(Sleepy));
/// assert!(fabrics.open("sleepy", "localhost").is_ok());
/// ```
///
/// [`machine`](crate::vi::machine) has an example of a fabric with a machine of its own.
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
