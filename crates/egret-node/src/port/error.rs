//! What can go wrong with ports.

use std::fmt;
use std::time::Duration;

use egret_stream::WireError;
use thiserror::Error;

use crate::links::core::WaitStopped;
use crate::pool::{NodeError, NodeId};

/// Why ports were not connected, or a message was not sent or not received.
///
/// ```
/// use egret_node::port::{PortError, PortType};
///
/// let pool = egret_node::local::pool(1)?;
/// let mut port = pool[0].send_port::<u32>(&PortType::one_to_one())?;
/// let unsent = port.send(&7).unwrap_err();
/// assert!(matches!(unsent, PortError::NotConnected { .. }), "{unsent}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PortError {
    /// The registry does not know the port, or the node of the port is gone or cannot be reached.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node has a receive port of this name.
    #[error("node {node} has a receive port {name:?} already")]
    NameTaken {
        /// The node.
        node: NodeId,
        /// The name of the port.
        name: String,
    },
    /// The name of a port is too long.
    #[error("the name of a port has at most {most} bytes, not {bytes}", most = super::NAME_MAX)]
    NameTooLong {
        /// Bytes of the name.
        bytes: usize,
    },
    /// The type asks for what no fabric of the node gives, or what does not go together.
    #[error("the port cannot be made as its type says: {}", missing.join("; "))]
    Unsupported {
        /// What is missing.
        missing: Vec<String>,
    },
    /// The ports were not connected.
    #[error("{port} {why}")]
    Refused {
        /// The receive port.
        port: ReceiverId,
        /// Why it refused.
        why: PortRefusal,
    },
    /// The receive port was not reached, or has not answered in time.
    #[error("{port} is not connected: {why}")]
    NotReached {
        /// The receive port.
        port: ReceiverId,
        /// What is known of it.
        why: String,
    },
    /// A send port whose type says that there is one receive port has one.
    #[error("the send port is connected to {port}, and its type allows no second connection")]
    AlreadyConnected {
        /// The receive port that it is connected to.
        port: ReceiverId,
    },
    /// The send port has no connection.
    #[error("{sender} is connected to no receive port")]
    NotConnected {
        /// The send port.
        sender: SenderId,
    },
    /// As many messages wait at the receive port as may, and no more fit.
    #[error("{window} messages wait at {port}, and no more may (PortType::window)")]
    Full {
        /// The receive port.
        port: ReceiverId,
        /// Messages that may wait.
        window: u32,
    },
    /// The message was not sent in time, because a receive port does not take what it has.
    #[error(
        "{port} has taken nothing for {waited:?}: {window} messages or the bytes that its node grants wait there"
    )]
    NoRoomInTime {
        /// The receive port.
        port: ReceiverId,
        /// Messages that may wait.
        window: u32,
        /// How long this side waited.
        waited: Duration,
    },
    /// Receive ports do not get the message, and their connections have ended. Those that are not named here got it.
    #[error("{}", lost_text(receivers))]
    Lost {
        /// The receive ports, and why each has not got it.
        receivers: Vec<(ReceiverId, PortEnd)>,
    },
    /// No message has come in time.
    #[error("no message has come to receive port {port:?} within {waited:?}")]
    TimedOut {
        /// The name of the receive port.
        port: String,
        /// How long this side waited.
        waited: Duration,
    },
    /// The receive port is closed, or its node has left the pool.
    #[error("the receive port {port:?} is closed")]
    Closed {
        /// The name of the receive port.
        port: String,
    },
    /// The sender gave up the message while it wrote it, or its node died. The next message is not affected.
    #[error("{origin} gave up a message that it had begun")]
    Aborted {
        /// The sender.
        origin: SenderId,
    },
    /// The message cannot be read as what it was asked for.
    #[error("a message of {origin} cannot be read: {why}")]
    Unreadable {
        /// The sender.
        origin: SenderId,
        /// Why not.
        why: WireError,
    },
    /// The value cannot be written, and was not sent.
    #[error("the value cannot be written: {0}")]
    Unwritable(#[from] WireError),
    /// The message is larger than an unreliable port carries.
    #[error("a message of {bytes} bytes; unreliable ports carry at most {most}", most = super::DATAGRAM_MAX)]
    TooLarge {
        /// Bytes of the message.
        bytes: usize,
    },
    /// A handler of active messages must not wait: [`in_handler`](crate::am::in_handler) says what to do instead.
    #[error("a handler of active messages may not wait for a port")]
    InHandler,
}

impl PortError {
    /// A wait for a message has ended without one.
    pub(super) fn of_wait(stopped: WaitStopped, port: &str) -> Self {
        match stopped {
            WaitStopped::TimedOut { waited } => Self::TimedOut { port: port.to_owned(), waited },
            WaitStopped::InHandler => Self::InHandler,
        }
    }

    /// A wait for room at a receive port has ended without it.
    pub(super) fn of_room(stopped: WaitStopped, port: &ReceiverId, window: u32) -> Self {
        match stopped {
            WaitStopped::TimedOut { waited } => {
                Self::NoRoomInTime { port: port.clone(), window, waited }
            }
            WaitStopped::InHandler => Self::InHandler,
        }
    }
}

/// Why a receive port refused a connection. [`PortError`] has an example of another error of ports.
#[derive(Debug, Clone, PartialEq, Eq, egret_stream::Wire)]
#[non_exhaustive]
pub enum PortRefusal {
    /// The types of the ports differ.
    Types {
        /// Each difference, as [`PortType::differences`](super::PortType::differences) has it of the receive port.
        differences: Vec<String>,
    },
    /// The types of the values differ, and no version of one can be read as the other.
    Values {
        /// The first difference, by the name of its field.
        difference: String,
    },
    /// The type of the port allows one sender, which it has.
    HasSender {
        /// That sender.
        sender: SenderId,
    },
    /// The program refused the sender ([`ReceiveOptions::accept`](super::ReceiveOptions::accept)).
    ByProgram,
    /// As many senders are connected as can be.
    Crowded {
        /// How many these are.
        senders: u32,
    },
    /// The sender is no member of the pool, as far as the node of the receive port knows.
    Stranger,
    /// The request was none.
    Malformed,
}

/// How a connection came to its end. [`PortControl::poll_event`](super::PortControl::poll_event) has an example.
#[derive(Debug, Clone, PartialEq, Eq, egret_stream::Wire)]
#[non_exhaustive]
pub enum PortEnd {
    /// The sender disconnected, or was dropped.
    Disconnected,
    /// The receive port was closed.
    Closed,
    /// The upcall of the receive port panicked.
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// The link between the nodes has ended.
    Link {
        /// Why it has ended.
        why: String,
    },
    /// One side said what the protocol of ports does not allow.
    Violation {
        /// What it was.
        what: String,
    },
}

/// A send port, as its receivers know it. [`port`](crate::port) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, egret_stream::Wire)]
#[non_exhaustive]
pub struct SenderId {
    /// The node of the send port.
    pub node: NodeId,
    /// The number of the send port among those of its node, from 1.
    pub port: u64,
}

/// A receive port, as its senders know it: its node and its name; from
/// [`SendPort::connected`](super::SendPort::connected), which has an example.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, egret_stream::Wire)]
#[non_exhaustive]
pub struct ReceiverId {
    /// The node of the receive port.
    pub node: NodeId,
    /// The name of the port.
    pub name: String,
}

impl fmt::Display for SenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "send port {} of node {}", self.port, self.node)
    }
}

impl fmt::Display for ReceiverId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "receive port {:?} of node {}", self.name, self.node)
    }
}

impl fmt::Display for PortRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Types { differences } => {
                write!(f, "has another type, seen from there: {}", differences.join("; "))
            }
            Self::Values { difference } => {
                write!(f, "receives values of another type, seen from there: {difference}")
            }
            Self::HasSender { sender } => {
                write!(f, "is connected to {sender}, and its type allows no second sender")
            }
            Self::ByProgram => {
                f.write_str("accepts no messages from this node: its program says so")
            }
            Self::Crowded { senders } => write!(f, "has {senders} senders, and takes no more"),
            Self::Stranger => f.write_str("does not know this node as a member of the pool"),
            Self::Malformed => {
                f.write_str("does not understand the request: it speaks another version")
            }
        }
    }
}

impl fmt::Display for PortEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("the sender has disconnected"),
            Self::Closed => f.write_str("the receive port was closed"),
            Self::Panicked { message } => write!(f, "its upcall panicked: {message}"),
            Self::Link { why } => write!(f, "the link has ended: {why}"),
            Self::Violation { what } => write!(f, "the protocol of ports was violated: {what}"),
        }
    }
}

fn lost_text(receivers: &[(ReceiverId, PortEnd)]) -> String {
    let each =
        receivers.iter().map(|(port, why)| format!("{port} does not get the message: {why}"));
    each.collect::<Vec<_>>().join("; ")
}
