//! How much a node receives from others: the `FlowBudget` decides which peer may send how many bytes,
//! and `SizedPools` are the memory into which they are received. `outflow` and `inflows` are the two
//! ends of a flow, and `notices` what they send each other, whether data of messages, of answers or
//! of channels flows.

mod budget;
pub(crate) mod fault;
pub(crate) mod inflows;
mod notices;
mod outflow;
mod sized_pools;
#[cfg(test)]
mod tests;

pub use budget::{FlowBudget, FlowId, FlowNoRoom, FlowTerms, NeverFits, PeerId};
pub(crate) use inflows::{InflowKey, Inflows};
pub(crate) use notices::{FlowName, ReceiverNotice, SenderNotice};
pub(crate) use outflow::Outflow;
pub use sized_pools::{SizedPoolStats, SizedPools};

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
    let memory = if len <= SMALL_BYTES { len } else { sized_pools::rounded(len) };
    memory.saturating_add(FRAME_BYTES)
}

/// Up to this many bytes are copied out of the receive they came in.
pub const SMALL_BYTES: u64 = 256;
