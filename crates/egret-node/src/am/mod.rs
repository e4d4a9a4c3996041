//! Active messages: a message names a handler at an endpoint, which runs when it arrives
//! and may answer once. The model is AM-II's, of which the paper's Jam was a part.
//!
//! ```
//! use egret_net::fabric::{Fabric, shm::ShmFabric};
//! use egret_net::rt::Deadline;
//! use egret_net::vi::NicOptions;
//! use egret_node::am::{EndpointName, Message, Signature};
//! use egret_node::{Links, LinksOptions};
//!
//! // Two nodes of one process; two processes differ in nothing else.
//! let open = |name: &str| {
//!     let nic = ShmFabric.open(&NicOptions::new(&format!("{name}-{}", std::process::id())))?;
//!     Ok::<_, Box<dyn std::error::Error>>(Links::open(nic, LinksOptions::default())?)
//! };
//! let (here, there) = (open("here")?, open("there")?);
//!
//! // There: an endpoint with a name and a tag, and its handlers.
//! const SCALE: Signature<[f64; 2], f64> = Signature::new("scale");
//! let server = there.bundle().register("math", 7)?;
//! server.on(0, |request| {
//!     let sum = request.words().iter().sum();
//!     request.reply(&[sum]);
//! });
//! server.on(1, |request| {
//!     let longest = request.bytes().iter().max().copied();
//!     request.reply(&[u64::from(longest.unwrap_or(0))]);
//! });
//! server.serve(&SCALE, |[a, b]| a * b);
//!
//! // Here: maps it, if the name, the tag and the types are right.
//! let client = here.bundle().endpoint(0);
//! let to = EndpointName::new(there.host(), "math", 7);
//! let math = client.wait_map_with(&to, &[SCALE.needed()], Deadline::DEFAULT)?;
//! assert_eq!(math.wait_call((0, &[1, 2, 39]), Deadline::DEFAULT)?.words(), [42]);
//! assert_eq!(math.wait_ask(&SCALE, [1.5, 4.0], Deadline::DEFAULT)?, 6.0);
//! // Data goes from where it is to a buffer of the receiver's, and its memory comes back.
//! let mut reply = math.wait_call(Message::to(1).data(vec![7_u8; 100_000]), Deadline::DEFAULT)?;
//! assert_eq!(reply.words(), [7]);
//! assert!(reply.take_sent().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod answer;
mod bundle;
mod bytes;
mod call;
mod deliver;
mod ended;
mod endpoint;
mod error;
pub(crate) mod fault;
mod gather;
mod incoming;
mod map;
mod mapping;
mod message;
mod no_reply;
mod outgoing;
mod outside;
mod places;
mod remote;
mod request;
mod returned;
mod serve;
mod typed;

pub use bundle::Bundle;
pub(crate) use bundle::{BundleState, Home, Run, Table, Upcall, What};
pub(crate) use call::CallState;
pub use call::{Call, FewWords};
pub use ended::{Ended, Peer};
pub(crate) use endpoint::EndpointState;
pub use endpoint::{Endpoint, EndpointName};
pub use error::{CallError, EndpointError, MapError, Reason, SendError, Undelivered, Unsent};
pub(crate) use incoming::Incoming;
pub use map::Mapping;
pub(crate) use message::Payload;
pub use message::{Kept, MEDIUM_MAX, Message, Reply};
pub(crate) use outgoing::{Outgoing, Phase};
pub use outside::{Background, blocking};
pub(crate) use outside::{Server, Serving, go_outside, server};
pub use remote::Remote;
pub use request::{ReplySlot, Request};
pub use serve::in_handler;

pub use crate::links::handlers_later;
pub(crate) use serve::{as_handler, run_jobs, to_end};

pub use typed::{Needed, Signature};

use std::collections::{BTreeSet, VecDeque};

use crate::links::slots::{Key, Slots};

/// What a link knows of active messages.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Mappings of this side's endpoints to the peer's.
    pub(crate) outgoing: Slots<Outgoing>,
    /// Mappings of the peer's endpoints to this side's.
    pub(crate) incoming: Slots<Incoming>,
    /// Requests that are under way.
    pub(crate) calls: Slots<CallState>,
    /// Bytes of answers that the link has and the peer has not taken.
    pub(crate) answers: u64,
    /// How many there may be before the others wait, and keep their places in the windows: a
    /// peer that asks and does not read gets no further.
    pub(crate) answers_max: u64,
    /// Mappings of the peer's whose answers wait for that.
    pub(crate) stalled: VecDeque<Key>,
    /// Endpoints of this side that have or had a mapping, of either direction.
    pub(crate) met: BTreeSet<Key>,
}
