//! An end of a simulated connection, as its node owns it: being made, open, or over.
//!
//! Repeated names: `Connection`, one in each fabric.

use super::connector::ConnectAttempt;
use super::datapath::DataPath;
use super::eager::SimEager;
use super::wire::{EndId, SimCloseReason, SimNodeId};
use crate::vi::{Counters, ViError};

#[derive(Debug)]
pub(super) enum Connection {
    /// Asked for, not answered yet.
    Connecting(Box<ConnectAttempt>),
    Open {
        conn: Box<DataPath>,
        peer: SimNodeId,
        peer_end: EndId,
    },
    /// In the error state, for good.
    Gone {
        why: ViError,
        farewell: SimCloseReason,
        counters: Counters,
        /// Its eager messages: those that arrived before are to be drained.
        left: Option<Box<SimEager>>,
    },
}

impl Connection {
    /// Its eager messages, also those it had when it ended.
    pub(super) fn eager(&mut self) -> Option<&mut SimEager> {
        match self {
            Self::Open { conn, .. } => Some(&mut conn.eager),
            Self::Gone { left, .. } => left.as_deref_mut(),
            Self::Connecting(_) => None,
        }
    }
}
