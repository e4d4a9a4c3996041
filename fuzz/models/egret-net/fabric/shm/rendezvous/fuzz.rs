//! Any bytes as a packet, for fuzzers and tests.

use std::os::fd::{AsFd, OwnedFd};

use super::super::socket::{ControlPacket, FDS_MAX, PACKET_MAX};
use super::message::ControlMessage;
use super::offer::{AcceptOffer, ConnectOffer};

/// Reads the bytes after the first two as a packet. What is understood must
/// say the same when it is said again.
pub(in super::super) fn fuzz_packet(input: &[u8]) {
    let [what, fds, bytes @ ..] = input else { return };
    let fds = usize::from(*fds) % (FDS_MAX + 1);
    let packet = |bytes: &[u8]| ControlPacket {
        bytes: bytes[..bytes.len().min(PACKET_MAX)].to_vec(),
        fds: descriptors(fds),
        cut_off: bytes.len() > PACKET_MAX,
    };
    let has_all = fds >= super::offer::DescriptorRole::ALL.len();
    match what % 3 {
        0 => {
            let Ok((handshake, _)) = ConnectOffer::decode(bytes, &mut packet(bytes)) else {
                return;
            };
            let again = ConnectOffer::decode(&handshake.encode(), &mut packet(bytes));
            assert_eq!(again.map(|(again, _)| again).ok(), has_all.then_some(handshake));
        }
        1 => {
            let Ok((accepted, _)) = AcceptOffer::decode(bytes, &mut packet(bytes)) else { return };
            let again = AcceptOffer::decode(&accepted.encode(), &mut packet(bytes));
            assert_eq!(again.map(|(again, _)| again).ok(), has_all.then_some(accepted));
        }
        _ => {
            let Ok((message, _)) = ControlMessage::decode(packet(bytes)) else { return };
            let again = ControlMessage::decode(packet(&message.encode()));
            assert_eq!(again.map(|(again, _)| again), Ok(message));
        }
    }
}

fn descriptors(count: usize) -> Vec<OwnedFd> {
    let Ok((end, _)) = std::io::pipe() else { return Vec::new() };
    (0..count).filter_map(|_| end.as_fd().try_clone_to_owned().ok()).collect()
}
