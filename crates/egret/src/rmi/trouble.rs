//! What the layers below say, as the error of a call.

use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::am::{self, MapError, Reason, SendError};
use egret_node::link::{self, LinkError};
use egret_node::node::{Handle, RouteError};

use super::asked::UNTOLD;
use super::fault::{Fault, planted};
use super::unsent::NotSent;
use super::{CallError, Limit, NodeId, Stage};

/// Whose call it was, and what may be done to find out more.
pub(crate) struct Trouble<'a> {
    pub(crate) handle: &'a Handle,
    pub(crate) node: NodeId,
    /// What may be waited for the registry to say what became of a node.
    pub(crate) patience: Duration,
}

impl Trouble<'_> {
    /// Of a call that was not sent within its deadline, if that is why.
    pub(crate) fn not_sent(&self, why: NotSent, late: impl FnOnce() -> CallError) -> CallError {
        match why {
            NotSent::Late => late(),
            NotSent::Known(why) => why,
            NotSent::Route(why) => self.route(why),
            NotSent::Map(why) => self.map(why),
            NotSent::Unmet(why) => self.unmet(why),
            NotSent::Send(why) => self.send(why),
        }
    }

    /// There is no answer about the interface. The call was not sent.
    fn unmet(&self, error: am::CallError) -> CallError {
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

    pub(crate) fn call(&self, error: am::CallError) -> CallError {
        match error {
            am::CallError::Undelivered(reason) => self.reason(reason),
            am::CallError::NoReply => CallError::NoAnswer { node: self.node, call: UNTOLD },
            am::CallError::Panicked => {
                CallError::Panicked { message: "(no message)".to_owned(), call: UNTOLD }
            }
            am::CallError::ReplyTooLarge { bytes, most } => {
                CallError::AnswerTooLarge { bytes, most, call: UNTOLD }
            }
            am::CallError::TimedOut { waited } => CallError::late(waited, Stage::Sent, true),
            // A call that was sent is not waited for in a handler: it was not sent.
            am::CallError::InHandler => CallError::IN_HANDLER,
            am::CallError::Send(error) => self.send(error),
            other => CallError::Unreadable { why: other.to_string(), call: UNTOLD },
        }
    }

    fn reason(&self, reason: Reason) -> CallError {
        match reason {
            Reason::NoHandler { handler } => {
                CallError::UnknownMethod { name: format!("number {handler}"), call: UNTOLD }
            }
            Reason::WrongTag | Reason::EndpointGone => CallError::UnknownObject { call: UNTOLD },
            Reason::TooLarge { bytes, most } => {
                CallError::TooLarge { bytes, most, limit: Limit::Node, call: UNTOLD }
            }
            Reason::Link { fate, why } => {
                self.died(&why, fate == link::Fate::Unknown && !planted(Fault::SaidNotRun))
            }
            other => CallError::Unreadable { why: other.to_string(), call: UNTOLD },
        }
    }

    pub(crate) fn send(&self, error: SendError) -> CallError {
        match error {
            SendError::Link(why) => self.died(&why, false),
            SendError::TimedOut { waited, .. } => CallError::late(waited, Stage::Connecting, false),
            SendError::TooLong { bytes } => CallError::TooLarge {
                bytes,
                most: u32::MAX.into(),
                limit: Limit::Message,
                call: UNTOLD,
            },
            SendError::InHandler => CallError::IN_HANDLER,
            SendError::Full { .. } => CallError::Busy { call: UNTOLD },
            other => self.gone(other.to_string(), false),
        }
    }

    pub(crate) fn map(&self, error: MapError) -> CallError {
        match error {
            MapError::Link(why) => self.died(&why, false),
            MapError::NoSuchEndpoint { .. } | MapError::WrongTag { .. } => {
                CallError::UnknownObject { call: UNTOLD }
            }
            MapError::NoRoom { .. } | MapError::Budget(_) => CallError::Busy { call: UNTOLD },
            MapError::TimedOut { waited, .. } => CallError::late(waited, Stage::Connecting, false),
            MapError::InHandler => CallError::IN_HANDLER,
            MapError::TooLong { bytes, most } => {
                CallError::TooLarge { bytes, most, limit: Limit::Message, call: UNTOLD }
            }
            other => self.gone(other.to_string(), false),
        }
    }

    pub(crate) fn route(&self, error: RouteError) -> CallError {
        self.not_member(false).unwrap_or_else(|| {
            let why = match error {
                RouteError::Gone { fate, .. } => fate.why().to_owned(),
                other => other.to_string(),
            };
            CallError::PeerDied { node: self.node, why, may_have_run: false, call: UNTOLD }
        })
    }

    /// If this node is no member any more, that is why its calls have no answers, whatever becomes of
    /// the other.
    pub(crate) fn not_member(&self, may_have_run: bool) -> Option<CallError> {
        let (node, fate) = (self.handle.id(), self.handle.own_fate()?);
        Some(CallError::NotMember { node, fate, may_have_run, call: UNTOLD })
    }

    fn died(&self, why: &LinkError, may_have_run: bool) -> CallError {
        if let LinkError::PeerFailed { why, .. } = why {
            let (node, why) = (self.node, why.clone());
            return CallError::PeerDied { node, why, may_have_run, call: UNTOLD };
        }
        self.gone(why.to_string(), may_have_run)
    }

    /// What the registry says of the node's end explains more than what its link does.
    fn gone(&self, link_says: String, may_have_run: bool) -> CallError {
        if let Some(left) = self.not_member(may_have_run) {
            return left;
        }
        let fate = self.handle.fate(self.node).or_else(|| {
            let patience = Deadline::In(self.patience);
            (!self.patience.is_zero()).then(|| self.handle.wait_fate(self.node, patience))?
        });
        let why = fate.map_or(link_says, |fate| fate.why().to_owned());
        CallError::PeerDied { node: self.node, why, may_have_run, call: UNTOLD }
    }
}

/// How long a call whose link has ended waits for the registry to say why.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);
