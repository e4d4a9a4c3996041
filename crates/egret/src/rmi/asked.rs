//! A call that was made, as its answer is read and its errors are told.

use std::fmt;
use std::time::Duration;

use egret_node::node::NodeId;
use egret_stream::FromWire;

use super::pair::Pair;
use super::served::{Refused, open, read_within, unreadable};
use super::table::Face;
use super::{CallError, Stage};

/// What a call was made to: the method, its interface, and the node that has the object. All errors of
/// calls say so, but the method's own.
#[derive(Clone, PartialEq, Eq)]
pub struct CallTo(Option<Box<Which>>);

#[derive(Clone, PartialEq, Eq)]
struct Which {
    node: NodeId,
    interface: &'static str,
    method: &'static str,
}

/// Of an error that has not come to where its call was made. There it is told.
pub(crate) const UNTOLD: CallTo = CallTo(None);

impl CallTo {
    const UNKNOWN: Which =
        Which { node: NodeId { rank: 0, incarnation: 0 }, interface: "?", method: "?" };

    fn which(&self) -> &Which {
        self.0.as_deref().unwrap_or(const { &Self::UNKNOWN })
    }

    /// The node that has the object.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.which().node
    }

    /// The name of the stub's interface.
    #[must_use]
    pub fn interface(&self) -> &'static str {
        self.which().interface
    }

    /// The name of the method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.which().method
    }

    /// The method without the node.
    pub(crate) fn name(&self) -> String {
        format!("`{}::{}`", self.interface(), self.method())
    }
}

impl fmt::Display for CallTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of node {}", self.name(), self.node())
    }
}

impl fmt::Debug for CallTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Which { node, interface, method } = self.which();
        let mut shown = f.debug_struct("CallTo");
        shown.field("node", node).field("interface", interface).field("method", method).finish()
    }
}

/// What is known of a call where it was made.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) pair: &'a Pair,
    pub(crate) face: &'static Face,
    pub(crate) method: usize,
}

impl Asked<'_> {
    /// The call has an error: here it is told to what the call was made. An object of this node is
    /// unknown if the node has left.
    #[cold]
    pub(crate) fn failed<E>(self, why: CallError) -> CallError<E> {
        let Self { pair, face, method } = self;
        let is_refused =
            matches!(why, CallError::UnknownObject { .. } | CallError::Cancelled { .. });
        let left = (is_refused && pair.is_here()).then(|| pair.not_member(false)).flatten();
        let which =
            Which { node: pair.node, interface: face.interface, method: (face.method)(method) };
        left.unwrap_or(why).told(CallTo(Some(Box::new(which)))).widen()
    }

    /// What an answer says; `whole` is how long the call could take in all.
    #[inline]
    pub(crate) fn read<T, E>(
        self,
        words: &[u64],
        bytes: &[u8],
        whole: impl FnOnce() -> Duration,
    ) -> Result<T, CallError<E>>
    where
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>,
    {
        let memory = self.pair.exchange.load.memory();
        open(words, bytes, memory).map_err(|refused| match refused {
            Refused::OtherInterface(theirs) => {
                self.failed((self.face.table)().other_interface(&theirs))
            }
            Refused::Error(error) => self.failed(error),
            Refused::Expired => self.failed(CallError::late(whole(), Stage::Sent, false)),
            Refused::Failed => match read_within(bytes, memory) {
                Ok(error) => CallError::Failed(error),
                Err(why) => self.failed(unreadable(&why, memory)),
            },
        })
    }
}
