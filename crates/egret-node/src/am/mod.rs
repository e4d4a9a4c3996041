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

mod answer;
mod bundle;
mod call;
mod data_credit;
mod deliver;
mod ended_link;
mod endpoint;
mod error;
pub(crate) mod fault;
mod gather;
mod incoming;
mod mapping;
mod message;
mod outgoing;
mod outside_handler;
mod pending_mapping;
mod remote_endpoint;
mod request;
mod request_order;
mod returned_data;
mod run_handlers;
mod segment_access;
mod signature;
mod trip_samples;

pub use crate::frame::MEDIUM_MAX;
pub use crate::in_handler::in_handler;
pub use crate::links::handlers_later;
pub use bundle::Bundle;
pub(crate) use bundle::{BundleState, HandlerTable, TableKey, Upcall, UpcallHandler, UpcallKind};
pub use call::Call;
pub(crate) use call::CallState;
pub use ended_link::{EndedLink, LinkPeer};
pub(crate) use endpoint::EndpointState;
pub use endpoint::{Endpoint, EndpointName};
pub use error::{MessageError, Undelivered};
pub(crate) use incoming::IncomingMapping;
pub(crate) use message::Payload;
pub use message::{CallReply, HeldPayload, Message};
pub(crate) use outgoing::{MappingPhase, OutgoingMapping};
pub use outside_handler::{BackgroundThread, blocking};
pub(crate) use outside_handler::{DrivingScope, DrivingThread, go_outside, server};
pub use pending_mapping::PendingMapping;
pub use remote_endpoint::RemoteEndpoint;
pub use request::{KeptMessage, ReplySlot, Request};
pub(crate) use run_handlers::run_jobs;
pub(crate) use trip_samples::TripSamples;

pub use signature::{HandlerType, Signature};

use std::collections::{BTreeSet, VecDeque};

use crate::slots::{SlotKey, SlotTable};

/// The active messages of one link: mappings in both directions, and requests under way.
#[derive(Debug, Default)]
pub(crate) struct LinkMappings {
    /// Mappings of this side's endpoints to the peer's.
    pub(crate) outgoing: SlotTable<OutgoingMapping>,
    /// Mappings of the peer's endpoints to this side's.
    pub(crate) incoming: SlotTable<IncomingMapping>,
    /// Requests that are under way.
    pub(crate) calls: SlotTable<CallState>,
    /// Bytes of answers that the link has and the peer has not taken.
    pub(crate) answers: u64,
    /// Bytes of answers above which further answers wait. A waiting answer keeps its place in the
    /// window, so that a peer that sends requests and does not receive is stopped by its window.
    pub(crate) answers_max: u64,
    /// Mappings of the peer whose answers wait until `answers` is below `answers_max`.
    pub(crate) stalled: VecDeque<SlotKey>,
    /// Endpoints of this side that have or had a mapping, of either direction.
    pub(crate) met: BTreeSet<SlotKey>,
    /// How long requests take until their answers come.
    pub(crate) trips: TripSamples,
}
