//! What the two ends of a connection of ports say to each other, beside the messages.
//!
//! A connection is a mapping of an endpoint of the sender to the endpoint of the receive port. Its active messages
//! are received in order, each for a handler:
//!
//! | handler | message | |
//! |---|---|---|
//! | [`CONNECT`] | a [`PortRequest`] | answered by a [`PortAnswer`] |
//! | [`WATCH`] | nothing | answered by a [`PortEnd`](super::PortEnd) when the receive port ends the connection |
//! | [`SHORT`] | the stream of a whole message | |
//! | [`STREAMED`] | nothing: the next message of the connection's channel has its place here | |
//! | [`NAMES`] | names of types of `dyn` values in the short messages that follow | |
//! | [`LEAVE`] | nothing: the sender disconnects | |
//! | [`EXPLAINED`] | the stream of a whole message, in which the types of `dyn` values are explained | |
//!
//! Messages of unreliable ports go by the [path](crate::Path) beside the link instead, behind a [`PortDatagramHead`].

use egret_stream::{Wire, read, write};

use super::{PortRefusal, PortType, SenderId};

/// The handlers of a receive port.
pub(super) const CONNECT: u8 = 0;
pub(super) const WATCH: u8 = 1;
pub(super) const SHORT: u8 = 2;
pub(super) const STREAMED: u8 = 3;
pub(super) const NAMES: u8 = 4;
pub(super) const LEAVE: u8 = 5;
pub(super) const EXPLAINED: u8 = 6;

/// A sender asks to be connected.
#[derive(Debug, Clone, PartialEq, Wire)]
pub(super) struct PortRequest {
    pub(super) sender: SenderId,
    pub(super) port_type: PortType,
    /// Of the type of the values.
    pub(super) fingerprint: u64,
    /// The structure of that type, by which the receiver reads another version; empty if the sender was not asked
    /// for it: the types are equal, or the receiver says that it needs it.
    pub(super) schema: String,
    /// The names of the types of `dyn` values that the sender has told others.
    pub(super) names: Vec<u8>,
}

/// The answer of a receive port.
#[derive(Debug, Clone, PartialEq, Wire)]
pub(super) enum PortAnswer {
    Connected(PortTerms),
    /// The types of the values differ: the sender is to ask once more, with the structure of its type.
    TellSchema,
    Refused(PortRefusal),
}

/// What a sender needs to know of its connection.
#[derive(Debug, Clone, PartialEq, Wire)]
pub(super) struct PortTerms {
    /// The number of the connection at the receiver's node: of its channel and its datagrams.
    pub(super) connection: u64,
    /// Messages that may wait.
    pub(super) window: u32,
}

/// What stands before the bytes of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(super) struct PortDatagramHead {
    /// The number of the connection.
    pub(super) connection: u64,
    /// The number of the message, from 1.
    pub(super) number: u64,
}

impl PortDatagramHead {
    pub(super) const BYTES: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let written = write(&self, &mut bytes);
        debug_assert_eq!(written, Ok(Self::BYTES));
        bytes
    }

    pub(super) fn split(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (head, bytes) = datagram.split_at_checked(Self::BYTES)?;
        Some((read(head).ok()?, bytes))
    }
}

/// The name of the endpoint of a receive port.
pub(super) fn endpoint_name(port: &str) -> String {
    format!("egret.port/{port}")
}

/// The name of the channel of a connection.
pub(super) fn channel_name(connection: u64) -> String {
    format!("egret.port/{connection}")
}

/// The name under which the registry has a receive port: the first of its name in the pool, or that of a node.
pub(super) fn registry_name(port: &str, node: Option<crate::pool::NodeId>) -> String {
    match node {
        None => format!("egret.port/{port}"),
        Some(node) => format!("egret.port@{node}/{port}"),
    }
}

/// The tag of the endpoints of ports: the version of this protocol.
pub(super) const TAG: u64 = 0x6567_7265_7470_0001;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::NodeId;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_of_the_protocol_are_these_for_ever() {
        let sender = SenderId { node: NodeId { rank: 3, incarnation: 5 }, port: 7 };
        let request = PortRequest {
            sender,
            port_type: PortType::many_to_one().property("k", "v"),
            fingerprint: 0x1122_3344_5566_7788,
            schema: "u32".to_owned(),
            names: vec![9],
        };
        let mut bytes = [0; 256];
        let len = write(&request, &mut bytes).unwrap();
        assert_eq!(
            hex(&bytes[..len]),
            "0300000005000000000000000700000000000000010001000101000000010000006b0100000076\
             00000000000001000001000000887766554433221103000000753332010000000\
             9"
        );
        assert_eq!(read::<PortRequest>(&bytes[..len]), Ok(request));
        let head = PortDatagramHead { connection: 2, number: 3 };
        assert_eq!(hex(&head.to_bytes()), "02000000000000000300000000000000");
        assert_eq!(PortDatagramHead::split(&head.to_bytes()), Some((head, &[][..])));
        assert_eq!(PortDatagramHead::split(&[0; 15]), None);
    }
}
