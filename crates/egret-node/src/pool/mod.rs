//! What nodes and their registry both know of a pool: members, events, properties of fabrics, errors,
//! and the messages between the two.

mod error;
mod event;
pub(crate) mod fault;
mod id;
mod join_error;
mod location;
pub(crate) mod log;
mod properties;
pub(crate) mod report;
mod requirement;
pub(crate) mod state;
mod view;
pub(crate) mod wire;

pub use error::{NodeError, RegistryRefusal};
pub use event::{Departure, Event, EventCalls, Events};
pub(crate) use event::{EventLog, EventPlace, EventSource, GLANCE, drive};
pub use id::{FabricOffer, Member, NodeId};
pub use join_error::{JoinError, Origin};
pub use location::{Distance, Location};
pub use properties::{Latency, Properties, Property};
pub use report::{JobProcess, NodeReport, PeerReport, TrafficCount, WaitReport, wait_circle};
pub use requirement::Requirement;
pub(crate) use requirement::lacking;
pub use view::View;
