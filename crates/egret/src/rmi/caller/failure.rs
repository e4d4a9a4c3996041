//! What the layers below say, as the error of a call.

use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::am::MessageError;
use egret_node::link::{self, LinkError};
use egret_node::node::{NodeError, NodeHandle};

use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::caller::unsent::SendFailure;
use crate::rmi::fault;
use crate::rmi::{CallError, CallStage, Limit, NodeId};

/// Whose call it was, and what may be done to find out more.
pub(crate) struct FailureContext<'a> {
    pub(crate) handle: &'a NodeHandle,
    pub(crate) node: NodeId,
    /// What may be waited for the registry to say what became of a node.
    pub(crate) patience: Duration,
}

impl FailureContext<'_> {
    /// Of a call that was not sent within its deadline, if that is why.
    pub(crate) fn not_sent(&self, why: SendFailure, late: impl FnOnce() -> CallError) -> CallError {
        match why {
            SendFailure::Late => late(),
            SendFailure::Known(why) => why,
            SendFailure::Route(why) => self.route(why),
            SendFailure::Map(why) | SendFailure::Send(why) => self.call(why),
            SendFailure::Unmet(why) => self.unmet(why),
        }
    }

    /// There is no answer about the interface. The call was not sent.
    fn unmet(&self, error: MessageError) -> CallError {
        match self.call(error) {
            CallError::NoAnswer { .. }
            | CallError::AnswerTooLarge { .. }
            | CallError::Panicked { .. } => CallError::Unreadable {
                why: format!("node {} does not say which methods it has", self.node),
                call: UNTOLD,
            },
            why => why.unsent(),
        }
    }

    pub(crate) fn call(&self, error: MessageError) -> CallError {
        match error {
            MessageError::NoReply => CallError::NoAnswer { node: self.node, call: UNTOLD },
            MessageError::Panicked => {
                CallError::Panicked { message: "(no message)".to_owned(), call: UNTOLD }
            }
            MessageError::ReplyTooLarge { bytes, most } => {
                CallError::AnswerTooLarge { bytes, most, call: UNTOLD }
            }
            MessageError::TimedOut { waited } => CallError::late(waited, CallStage::Sent, true),
            // A call that was sent is not waited for in a handler: it was not sent.
            MessageError::InHandler => CallError::IN_HANDLER,
            MessageError::NoHandler { handler } => {
                CallError::UnknownMethod { name: format!("number {handler}"), call: UNTOLD }
            }
            MessageError::TagChanged
            | MessageError::EndpointGone
            | MessageError::NoSuchEndpoint { .. }
            | MessageError::OtherTag { .. } => CallError::UnknownObject { call: UNTOLD },
            MessageError::TooLarge { bytes, most } => {
                CallError::TooLarge { bytes, most, limit: Limit::Node, call: UNTOLD }
            }
            MessageError::LinkLost { fate, why } => {
                self.died(&why, fault::may_have_run(fate == link::Fate::Unknown))
            }
            MessageError::Link(why) => self.died(&why, false),
            MessageError::NoRoomInTime { waited, .. }
            | MessageError::NotMappedInTime { waited, .. } => {
                CallError::late(waited, CallStage::Connecting, false)
            }
            MessageError::TooLong { bytes } => Self::too_long(bytes, u32::MAX.into()),
            MessageError::MapTooLong { bytes, most } => Self::too_long(bytes, most),
            MessageError::Full { .. } | MessageError::NoRoom { .. } | MessageError::Budget(_) => {
                CallError::Busy { call: UNTOLD }
            }
            MessageError::Access(_) | MessageError::OtherType { .. } => {
                CallError::Unreadable { why: error.to_string(), call: UNTOLD }
            }
            other => self.gone(other.to_string(), false),
        }
    }

    const fn too_long(bytes: u64, most: u64) -> CallError {
        CallError::TooLarge { bytes, most, limit: Limit::Message, call: UNTOLD }
    }

    pub(crate) fn route(&self, error: NodeError) -> CallError {
        if let NodeError::Unsuitable { .. } = error {
            return CallError::Unsuitable { why: error.to_string(), call: UNTOLD };
        }
        self.not_member(false).unwrap_or_else(|| {
            let why = match error {
                NodeError::Gone { fate, .. } => fate.why().to_owned(),
                other => other.to_string(),
            };
            self.unreached(why, self.handle.member(self.node).is_some(), false)
        })
    }

    /// If this node is no member any more, that is why its calls have no answers, whatever becomes of
    /// the other.
    pub(crate) fn not_member(&self, may_have_run: bool) -> Option<CallError> {
        let (node, fate) = (self.handle.id(), self.handle.own_fate()?);
        Some(CallError::NotMember { node, fate, may_have_run, call: UNTOLD })
    }

    fn died(&self, why: &LinkError, may_have_run: bool) -> CallError {
        if let LinkError::PeerDied { why, .. } = why {
            return self.gone((*why).to_owned(), may_have_run);
        }
        if let LinkError::PeerFailed { why, .. } = why {
            return self.unreached(why.clone(), false, may_have_run);
        }
        self.gone(why.to_string(), may_have_run)
    }

    /// What the registry says of the end of either node explains more than what their link does.
    fn gone(&self, link_says: String, may_have_run: bool) -> CallError {
        if !self.patience.is_zero() {
            self.handle.wait_parted(self.node, Deadline::In(self.patience));
        }
        self.not_member(may_have_run).unwrap_or_else(|| match self.handle.fate(self.node) {
            Some(fate) => self.unreached(fate.why().to_owned(), false, may_have_run),
            None => self.unreached(link_says, true, may_have_run),
        })
    }

    const fn unreached(&self, why: String, is_member: bool, may_have_run: bool) -> CallError {
        CallError::PeerDied { node: self.node, why, is_member, may_have_run, call: UNTOLD }
    }
}

/// How long a call whose link has ended waits for the registry to say why.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);
