//! A call as its caller knows it: its answer is read here, and its errors get the name of the method here.

use egret_net::rt::waits::{self, WaitHint, WaitScope};
use std::fmt;
use std::time::Duration;

use egret_node::node::NodeId;
use egret_stream::{FromWire, fingerprint};

use crate::rmi::answer::{AnswerError, open, read_planned, read_within, unreadable};
use crate::rmi::caller::pair::NodePair;
use crate::rmi::interface_table::StubInterface;
use crate::rmi::{CallError, CallStage};

/// The method, the interface and the node that a call was made to; a part of all errors of calls except the
/// method's own. [`CallError`] has an example.
#[derive(Clone, PartialEq, Eq)]
pub struct CallTo(Option<Box<CallToNames>>);

#[derive(Clone, PartialEq, Eq)]
struct CallToNames {
    node: NodeId,
    interface: &'static str,
    method: &'static str,
}

/// The name in an error that has not reached its call site, which fills it in.
pub(crate) const UNTOLD: CallTo = CallTo(None);

impl CallTo {
    const UNKNOWN: CallToNames =
        CallToNames { node: NodeId { rank: 0, incarnation: 0 }, interface: "?", method: "?" };

    fn which(&self) -> &CallToNames {
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
        let CallToNames { node, interface, method } = self.which();
        let mut shown = f.debug_struct("CallTo");
        shown.field("node", node).field("interface", interface).field("method", method).finish()
    }
}

/// A call at the place where it was made.
#[derive(Clone, Copy)]
pub(crate) struct CallSite<'a> {
    pub(crate) pair: &'a NodePair,
    pub(crate) face: &'static StubInterface,
    /// The number of the object's interface.
    pub(crate) interface: u16,
    pub(crate) method: usize,
}

impl CallSite<'_> {
    /// The wait for the answer, to be shown.
    #[inline]
    #[track_caller]
    pub(crate) fn waits(self) -> WaitScope {
        let Self { pair, face, method, .. } = self;
        let hint = pair.handle.wait_hint("answer", Some(pair.node));
        waits::scope(WaitHint { object: Some((face, method)), ..hint })
    }

    /// Completes the error of the call with the name of the method. An object of this node that is unknown
    /// because the node has left is the error `NotMember`.
    #[cold]
    pub(crate) fn failed<E>(self, why: CallError) -> CallError<E> {
        let Self { pair, face, method, .. } = self;
        let is_refused =
            matches!(why, CallError::UnknownObject { .. } | CallError::Cancelled { .. });
        let left = (is_refused && pair.is_here()).then(|| pair.not_member(false)).flatten();
        let which = CallToNames {
            node: pair.node,
            interface: face.interface,
            method: (face.method)(method),
        };
        left.unwrap_or(why).told(CallTo(Some(Box::new(which)))).widen()
    }

    /// Reads an answer; `whole` is the whole time that the call could take.
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
        match open(words, bytes, memory) {
            Ok(value) => Ok(value),
            Err(refused) => self.refused(refused, bytes, whole),
        }
    }

    /// Reads an answer that has no value, or one of another version.
    #[cold]
    fn refused<T, E>(
        self,
        refused: AnswerError,
        bytes: &[u8],
        whole: impl FnOnce() -> Duration,
    ) -> Result<T, CallError<E>>
    where
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>,
    {
        let memory = self.pair.exchange.load.memory();
        Err(match refused {
            AnswerError::OtherVersion => return self.read_planned(bytes, memory),
            AnswerError::OtherInterface(theirs) => {
                self.failed((self.face.table)().other_interface(&theirs))
            }
            AnswerError::Error(error) => self.failed(error),
            AnswerError::Expired => self.failed(CallError::late(whole(), CallStage::Sent, false)),
            AnswerError::Failed => match read_within(bytes, memory) {
                Ok(error) => CallError::Failed(error),
                Err(why) => self.failed(unreadable(&why, memory)),
            },
        })
    }

    /// Reads all that the method returns, of which the object's node has another version.
    fn read_planned<T, E>(self, bytes: &[u8], memory: usize) -> Result<T, CallError<E>>
    where
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>,
    {
        let methods = self.pair.known((self.face.id)(), self.interface);
        let plan = methods.as_ref().and_then(|methods| methods.answer_plan(self.method));
        let Some((plan, returned)) = plan else {
            let why = "the answer: of another version, and the schema was not sent".to_owned();
            return Err(self.failed(CallError::Unreadable { why, call: UNTOLD }));
        };
        let read = if fingerprint::<T>() == *returned {
            read_planned(bytes, memory, plan).map(Ok)
        } else {
            read_planned::<Result<T, E>>(bytes, memory, plan)
        };
        match read {
            Ok(returned) => returned.map_err(CallError::Failed),
            Err(why) => Err(self.failed(unreadable(&why, memory))),
        }
    }
}
