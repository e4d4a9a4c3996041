//! How much a node takes from others: the [`Budget`] says who may send how many bytes, the
//! [`Depot`] has the memory that they land in. `outflow` and `inflows` are the two ends of a flow,
//! and `frames` is what they tell each other, whatever flows: data of messages, of answers, or of
//! channels.

mod budget;
mod depot;
mod frames;
pub(crate) mod inflows;
mod outflow;
mod terms;
#[cfg(test)]
mod tests;

pub use budget::{Budget, FlowId, NeverFits, NoRoom, PeerId};
pub use depot::{Depot, DepotStats};
pub(crate) use frames::{Ask, Name, Tell};
pub(crate) use inflows::Inflows;
pub(crate) use outflow::Outflow;
pub use terms::FlowTerms;

/// Bytes that are charged for a frame beside its memory, for what is noted of it.
pub const FRAME_BYTES: u64 = 128;

/// What bytes that arrive in one piece cost of what was granted: the memory they land in, not
/// what they fill of it. Both sides reckon with it.
///
/// ```
/// use egret_node::flow::{FRAME_BYTES, cost};
///
/// assert_eq!(cost(100), FRAME_BYTES + 100);
/// assert_eq!(cost(100_000), FRAME_BYTES + 131_072);
/// ```
#[must_use]
pub const fn cost(len: u64) -> u64 {
    let memory = if len <= SMALL_BYTES { len } else { depot::rounded(len) };
    memory.saturating_add(FRAME_BYTES)
}

/// Up to this many bytes are copied out of the receive they came in.
pub const SMALL_BYTES: u64 = 256;
