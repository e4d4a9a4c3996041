//! What the layers below say, as the error of a call.

use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::am::{self, MapError, Reason, SendError};
use egret_node::link::{self, LinkError};
use egret_node::node::{Handle, RouteError};

use super::fault::{Fault, planted};
use super::{CallError, Limit, NodeId};

/// Whose call it was, and what may be done to find out more.
pub(crate) struct Trouble<'a> {
    pub(crate) handle: &'a Handle,
    pub(crate) node: NodeId,
    /// What may be waited for the registry to say what became of a node.
    pub(crate) patience: Duration,
}

impl Trouble<'_> {
    pub(crate) fn call(&self, error: am::CallError) -> CallError {
        match error {
            am::CallError::Undelivered(reason) => self.reason(reason),
            am::CallError::NoReply => CallError::NoAnswer { node: self.node },
            am::CallError::Panicked => CallError::Panicked { message: "(no message)".to_owned() },
            am::CallError::ReplyTooLarge { bytes, most } => {
                CallError::AnswerTooLarge { bytes, most }
            }
            am::CallError::TimedOut { waited } => {
                CallError::Deadline { waited, may_have_run: true }
            }
            // A call that was sent is not waited for in a handler: it was not sent.
            am::CallError::InHandler => CallError::IN_HANDLER,
            am::CallError::Send(error) => self.send(error),
            other => CallError::Unreadable { why: other.to_string() },
        }
    }

    fn reason(&self, reason: Reason) -> CallError {
        match reason {
            Reason::NoHandler { handler } => {
                CallError::UnknownMethod { name: format!("number {handler}") }
            }
            Reason::WrongTag | Reason::EndpointGone => CallError::UnknownObject,
            Reason::TooLarge { bytes, most } => {
                CallError::TooLarge { bytes, most, limit: Limit::Node }
            }
            Reason::Link { fate, why } => {
                self.died(&why, fate == link::Fate::Unknown && !planted(Fault::SaidNotRun))
            }
            other => CallError::Unreadable { why: other.to_string() },
        }
    }

    pub(crate) fn send(&self, error: SendError) -> CallError {
        match error {
            SendError::Link(why) => self.died(&why, false),
            SendError::TimedOut { waited, .. } => {
                CallError::Deadline { waited, may_have_run: false }
            }
            SendError::TooLong { bytes } => {
                CallError::TooLarge { bytes, most: u32::MAX.into(), limit: Limit::Message }
            }
            SendError::InHandler => CallError::IN_HANDLER,
            SendError::Full { .. } => CallError::Busy,
            other => self.gone(other.to_string(), false),
        }
    }

    pub(crate) fn map(&self, error: MapError) -> CallError {
        match error {
            MapError::Link(why) => self.died(&why, false),
            MapError::NoSuchEndpoint { .. } | MapError::WrongTag { .. } => CallError::UnknownObject,
            MapError::NoRoom { .. } | MapError::Budget(_) => CallError::Busy,
            MapError::TimedOut { waited, .. } => {
                CallError::Deadline { waited, may_have_run: false }
            }
            MapError::InHandler => CallError::IN_HANDLER,
            MapError::TooLong { bytes, most } => {
                CallError::TooLarge { bytes, most, limit: Limit::Message }
            }
            other => self.gone(other.to_string(), false),
        }
    }

    pub(crate) fn route(&self, error: RouteError) -> CallError {
        let why = match error {
            RouteError::Gone { fate, .. } => fate.why().to_owned(),
            other => other.to_string(),
        };
        CallError::PeerDied { node: self.node, why, may_have_run: false }
    }

    fn died(&self, why: &LinkError, may_have_run: bool) -> CallError {
        if let LinkError::PeerFailed { why, .. } = why {
            return CallError::PeerDied { node: self.node, why: why.clone(), may_have_run };
        }
        self.gone(why.to_string(), may_have_run)
    }

    /// What the registry says of the node's end explains more than what its link does.
    fn gone(&self, link_says: String, may_have_run: bool) -> CallError {
        let fate = self.handle.fate(self.node).or_else(|| {
            let patience = Deadline::In(self.patience);
            (!self.patience.is_zero()).then(|| self.handle.wait_fate(self.node, patience))?
        });
        let why = fate.map_or(link_says, |fate| fate.why().to_owned());
        CallError::PeerDied { node: self.node, why, may_have_run }
    }
}

/// How long a call whose link has ended waits for the registry to say why.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);
