//! What the two ends of a link say to each other, as objects of a stream.

use egret_stream::{Reader, Wire, Writer};

use super::ChannelControl;
use crate::flow::{FlowName, ReceiverNotice, SenderNotice};

/// One frame of the control lane.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum LinkControl {
    /// The first frame of a connection, from both sides.
    Hello(LinkHello),
    /// Instead of a hello: there is another link already, or will be.
    Crossed,
    /// Asks for an endpoint.
    Map(MapRequest),
    /// The endpoint is there.
    Mapped(Mapped),
    /// The mapping was refused.
    NotMapped { number: u32, why: NotMapped },
    /// The mapping is given up; nothing of it is under way.
    Unmap { slot: u32 },
    /// Messages that may be sent again by the mapping of this number.
    Credit { number: u32, messages: u32 },
    /// The sender of a flow of bytes, to its receiver.
    Ask { flow: FlowName, ask: SenderNotice },
    /// The receiver of a flow of bytes, to its sender.
    Tell { flow: FlowName, tell: ReceiverNotice },
    /// Of a channel, beside its flow.
    Channel(ChannelControl),
    /// The mapping will be given up when its messages are given back.
    Leave { slot: u32 },
    /// The mapping of this number is given up: nothing more comes for it.
    Unmapped { number: u32 },
    /// The links are closed for this reason; nothing comes after it.
    Failed { why: String },
    /// Instead of a hello: there are so many links, and no more may be.
    Full { links: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct LinkHello {
    pub(crate) version: u16,
    /// Of the link, chosen by who calls.
    pub(crate) link: u64,
    /// The life of the node that says it.
    pub(crate) incarnation: u64,
    /// Where it is called.
    pub(crate) host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct MapRequest {
    /// Of the mapping, at the asking side.
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) tag: u64,
    /// Bytes of answers that may be under way.
    pub(crate) bytes: u64,
    /// Handlers with types that must be there.
    pub(crate) needs: Vec<RequiredHandler>,
}

/// A handler with types that must be there, and their fingerprints.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct RequiredHandler {
    pub(crate) name: String,
    pub(crate) takes: u64,
    pub(crate) answers: u64,
}

/// A handler with types, which have names for people.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct HandlerTypes {
    pub(crate) name: String,
    pub(crate) takes: TypeName,
    pub(crate) answers: TypeName,
}

#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct TypeName {
    pub(crate) fingerprint: u64,
    pub(crate) name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct Mapped {
    pub(crate) number: u32,
    /// Of the mapping, at the answering side.
    pub(crate) slot: u32,
    /// Messages that may be under way.
    pub(crate) window: u32,
    /// Bytes of bulk data that may be under way.
    pub(crate) bytes: u64,
    /// The numbers of the handlers that were asked for.
    pub(crate) handlers: Vec<u8>,
    /// The key of its segment, if it has one.
    pub(crate) segment: Option<[u8; 17]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum NotMapped {
    NoSuchEndpoint,
    WrongTag,
    NoSuchHandler { name: String },
    OtherTypes { have: HandlerTypes },
    NoRoom { why: String },
}

impl LinkControl {
    /// As it travels.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.write_copy(self).expect("a frame that is not deep");
        writer.to_vec()
    }

    /// Reads it back, if that is what the bytes are.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Reader::new(bytes).read_last().ok()
    }
}

/// Longest frame of the control lane: a mapping that needs every handler an endpoint can
/// have, with names of 40 bytes.
pub(crate) const CONTROL_MAX: u64 = 16 << 10;
/// Longest reason for closing.
pub(crate) const WHY_MAX: usize = 1024;
/// What this side speaks.
pub(crate) const VERSION: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::ChannelRefusal;

    #[test]
    fn frames_of_flows_and_channels_are_these_bytes() {
        let check = |frame: LinkControl, start: &[u8], longs: &[u8]| {
            // Each of the numbers behind the beginning is one of eight bytes.
            let longs = longs.iter().flat_map(|long| u64::from(*long).to_le_bytes());
            let bytes: Vec<u8> = start.iter().copied().chain(longs).collect();
            assert_eq!(frame.to_bytes(), bytes, "{frame:?}");
            assert_eq!(LinkControl::from_bytes(&bytes), Some(frame));
        };
        let ask = |flow, ask| LinkControl::Ask { flow, ask };
        let tell = |flow, tell| LinkControl::Tell { flow, tell };
        let want = SenderNotice::Want { upto: 7, len: 3 };
        check(ask(FlowName::Requests(5), want), &[7, 0, 5, 0, 0, 0, 0], &[7, 3]);
        let channel = [7, 2, 6, 0, 0, 0, 0, 0, 0, 0];
        check(
            ask(FlowName::Channel(6), SenderNotice::Unused { bytes: 4 }),
            &[&channel[..], &[1]].concat(),
            &[4],
        );
        check(
            ask(FlowName::Channel(6), SenderNotice::Withdraw),
            &[&channel[..], &[2]].concat(),
            &[],
        );
        check(
            tell(FlowName::Replies(6), ReceiverNotice::Grant { bytes: 4 }),
            &[8, 1, 6, 0, 0, 0, 0],
            &[4],
        );
        let refuse = ReceiverNotice::Refuse { upto: 2, most: 1 };
        check(tell(FlowName::Replies(6), refuse), &[8, 1, 6, 0, 0, 0, 1], &[2, 1]);
        check(
            tell(FlowName::Requests(6), ReceiverNotice::Recall { keep: 1 }),
            &[8, 0, 6, 0, 0, 0, 2],
            &[1],
        );
        let of_channel = |control: ChannelControl, start: &[u8], longs: &[u8]| {
            check(LinkControl::Channel(control), start, longs);
        };
        let number = 6;
        let open = ChannelControl::Open { number, name: "x".into() };
        of_channel(open, &[9, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'x'], &[]);
        let opened = ChannelControl::Opened { number, slot: 3, credit: 4 };
        of_channel(opened, &[9, 1, 6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0], &[4]);
        let refused = ChannelControl::Refused { number, why: ChannelRefusal::NoRoom };
        of_channel(refused, &[9, 2, 6, 0, 0, 0, 0, 0, 0, 0, 2], &[]);
        of_channel(ChannelControl::Stop { number }, &[9, 3], &[6]);
    }

    #[test]
    fn cut_or_too_long_control_is_refused() {
        let hello = LinkHello { version: 1, link: 2, incarnation: 3, host: "a".into() };
        let bytes = LinkControl::Hello(hello).to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(LinkControl::from_bytes(&bytes[..len]), None);
        }
        assert_eq!(LinkControl::from_bytes(&[&bytes[..], &[0]].concat()), None);
    }
}
