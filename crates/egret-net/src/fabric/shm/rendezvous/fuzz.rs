//! Any bytes as a packet, for fuzzers and tests.

use std::os::fd::{AsFd, OwnedFd};

use super::answer::Answer;
use super::greeting::Greeting;
use super::message::Message;
use super::socket::{FDS_MAX, PACKET_MAX, Packet};

/// Reads the bytes after the first two as a packet. What is understood must
/// say the same when it is said again.
pub(crate) fn fuzz_packet(input: &[u8]) {
    let [what, fds, bytes @ ..] = input else { return };
    let fds = usize::from(*fds) % (FDS_MAX + 1);
    let packet = |bytes: &[u8]| Packet {
        bytes: bytes[..bytes.len().min(PACKET_MAX)].to_vec(),
        fds: descriptors(fds),
        cut_off: bytes.len() > PACKET_MAX,
    };
    match what % 3 {
        0 => {
            let Ok((greeting, _)) = Greeting::decode(packet(bytes)) else { return };
            let again = Greeting::decode(packet(&greeting.encode()));
            assert_eq!(
                again.map(|(again, _)| again).ok(),
                (fds >= super::greeting::Role::ALL.len()).then_some(greeting)
            );
        }
        1 => match Answer::decode(packet(bytes)) {
            Ok(Answer::Accept(terms, agreed, _)) => {
                let again = Answer::decode(packet(&Answer::accept(&terms, agreed)));
                let is_same =
                    matches!(again, Ok(Answer::Accept(t, a, _)) if (&t, a) == (&terms, agreed));
                assert!(is_same, "{terms:?}, {agreed:?}");
            }
            Ok(Answer::Refuse(why)) => {
                let again = Answer::decode(packet(&Answer::refuse(&why)));
                // Versions change sides on the way.
                assert!(matches!(again, Ok(Answer::Refuse(_))), "{why}");
            }
            Ok(Answer::Challenge(..)) | Err(_) => {}
        },
        _ => {
            let Ok((message, _)) = Message::decode(packet(bytes)) else { return };
            let again = Message::decode(packet(&message.encode()));
            assert_eq!(again.map(|(again, _)| again), Ok(message));
        }
    }
}

fn descriptors(count: usize) -> Vec<OwnedFd> {
    let Ok((end, _)) = std::io::pipe() else { return Vec::new() };
    (0..count).filter_map(|_| end.as_fd().try_clone_to_owned().ok()).collect()
}
