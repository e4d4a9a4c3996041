//! The virtual interface: descriptors, queues, completions, registered memory.
//!
//! A [`Fabric`](crate::fabric::Fabric) opens a [`Nic`]; a `Nic` listens and
//! connects; a connection is a [`Vi`] with a send and a receive queue. What is
//! posted belongs to the fabric until a [`CompletionQueue`] returns it.
//!
//! ```
//! use egret_net::buf::Pool;
//! use egret_net::fabric::sim::Sim;
//! use egret_net::rt::Deadline;
//! use egret_net::vi::{Address, Descriptor, ViOptions};
//!
//! let sim = Sim::new(1);
//! let (ping, pong) = (sim.nic("ping"), sim.nic("pong"));
//! let options = ViOptions::default();
//! let listener = pong.listen("echo", 0, &options)?;
//! let connecting = ping.connect(&Address::new("pong", "echo", 0), &options, Deadline::DEFAULT);
//! let there = listener.wait_accept(Deadline::DEFAULT)?;
//! let here = ping.block_on(connecting)?;
//!
//! let pool = Pool::new(1024, 2)?;
//! there.post_recv(Descriptor::new(pool.take(1024)?))?;
//! let mut message = pool.take(5)?;
//! message.bytes_mut().copy_from_slice(b"hello");
//! here.post_send(Descriptor::new(message).with_tag(7))?;
//!
//! let received = there.recv_queue().wait(Deadline::DEFAULT)?.ok()?;
//! assert_eq!(received.tag, 7);
//! assert_eq!(received.into_buf().bytes(), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A buffer that is posted is gone until it comes back:
//!
//! ```compile_fail,E0382
//! # fn f(vi: &egret_net::vi::Vi, buf: egret_net::buf::Buf) {
//! # use egret_net::vi::Descriptor;
//! vi.post_send(Descriptor::new(buf)).unwrap();
//! buf.bytes(); // use after posting
//! # }
//! ```

mod after;
mod completion;
mod connection;
#[doc(hidden)]
pub mod contained;
mod descriptor;
mod eager;
mod eager_head;
mod error;
mod expose;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../fuzz/models/egret-net/vi/fuzzed.rs"]
mod fuzzed;
mod handed;
mod handle;
#[doc(hidden)]
pub mod hello;
pub(crate) mod hub;
mod identity;
mod inbox;
mod keys;
mod landing;
pub(crate) mod lane_counts;
mod lend;
mod limits;
mod listener;
pub mod machine;
mod nic;
mod notices;
mod operation;
mod options;
mod over_posted;
mod peer;
mod promise;
mod queue;
mod register;
mod secret;
mod segment;
mod slices;
mod trust;

pub(crate) use completion::SendProgress;
pub use completion::{Completion, Op, OpKind, Posted, Report, Ticket, ViId};
pub use connection::{Counters, Vi};
pub use contained::{caught, contained};
pub use descriptor::Descriptor;
pub use eager::{Drain, DrainId, EAGER_MAX, Lane, Position, Reply, Sink};
pub use error::{AccessError, ConnectError, OpenError, PostError, ViError};
pub use expose::{Access, Exposed, RemoteKey, RemoteSlice};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzzed::Below;
pub use handed::Handed;
pub use hello::PROTOCOL_VERSION;
pub(crate) use hello::{Hello, HelloError, KeyError, SecretError};
pub use hub::{NicLocked, Spin};
pub use identity::{Identity, NoKey, PublicKey};
pub(crate) use identity::{KEY_BYTES, random_key};
pub use keys::Keys;
pub(crate) use keys::OpenedMemory;
pub use landing::DirectPlacement;
#[cfg(test)]
pub(crate) use landing::Fault as LandingFault;
pub(crate) use lend::PLACED_LEAST;
pub use limits::{Limits, Reliability};
pub use listener::Listener;
pub use machine::{Arming, EventCount};
pub use nic::{Address, Connecting, Nic, ViOptions};
pub use notices::Notices;
pub use operation::Operation;
pub use options::{Encrypt, NicOptions, Wait};
pub(crate) use promise::Settled;
pub use queue::CompletionQueue;
pub(crate) use register::Registration;
pub(crate) use secret::SIGNATURE;
pub use secret::Secret;
pub use segment::Segment;
pub(crate) use trust::AgreedTrust;
pub use trust::{Trust, WhyIsolated};
