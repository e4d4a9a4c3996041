//! A sealed stream by itself, over memory.

use std::io::IoSlice;

use proptest::prelude::*;
use rustix::io::Errno;

use crate::fabric::seal::SealError;
use crate::fabric::tcp::datapath::TcpClosing;
use crate::fabric::tcp::scripted_peer::{MemoryStream, ScriptedPeer, keys_of_callee};
use crate::fabric::tcp::sealed::record::{AROUND, PIECE, RECORD_MAX, len_of};
use crate::fabric::tcp::stream::{ByteStream, StreamReadError};

const FORGED: StreamReadError = StreamReadError::Wrong(SealError::Forged.text());

/// An end, and what its peer says and hears.
fn ends() -> (ByteStream, MemoryStream) {
    let wire = MemoryStream::default();
    (ByteStream::Memory(wire.clone()).sealed(keys_of_callee(), &[]), wire)
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 3).to_le_bytes()[0]).collect()
}

/// All that can be read now into pieces of `most`, and why no more can.
fn read(stream: &mut ByteStream, most: usize) -> (Vec<u8>, StreamReadError) {
    let (mut all, mut piece) = (Vec::new(), vec![0; most]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return (all, StreamReadError::Kernel(Errno::PIPE)),
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(why) => return (all, why),
        }
    }
}

/// What comes of these bytes, and the end of the stream behind them.
fn outcome(bytes: &[u8]) -> (Vec<u8>, StreamReadError) {
    let (mut stream, wire) = ends();
    wire.say(bytes);
    wire.end();
    let (mut all, why) = read(&mut stream, 1000);
    if why != StreamReadError::Kernel(Errno::AGAIN) {
        return (all, why);
    }
    // Part of a record was there, and the end is seen by the next call.
    let (more, why) = read(&mut stream, 1000);
    all.extend(more);
    (all, why)
}

const ENDED: StreamReadError = StreamReadError::Kernel(Errno::PIPE);

/// As `docs/wire/tcp.md` has it.
#[test]
fn a_record_has_the_bytes_that_are_documented() {
    const HI: u128 = 0xf13d_e9c9_ba82_2adf_c0ea_7d54_6f21_b228;
    let expected = [&[2, 0, 0xd7, 0x5c][..], &HI.to_be_bytes()].concat();
    assert_eq!(ScriptedPeer::caller(9).record(b"hi"), expected);
}

/// No bit of three records can be another without notice, and nothing of its record is read.
pub(super) fn every_bit_counts() {
    let sealed = ScriptedPeer::caller(30).seal(&text(90));
    assert_eq!(outcome(&sealed), (text(90), ENDED));
    for bit in 0..8 * sealed.len() {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (read, why) = outcome(&changed);
        let before = bit / 8 / (30 + AROUND) * 30;
        assert_eq!(read, text(90)[..before], "bit {bit}");
        assert!(
            matches!(why, StreamReadError::Wrong(_) | StreamReadError::Cut),
            "bit {bit}: {why:?}"
        );
    }
}

#[test]
fn a_bit_that_was_changed_is_noticed_wherever_it_is() {
    every_bit_counts();
}

pub(super) fn order_counts() {
    let mut peer = ScriptedPeer::caller(30);
    let records: Vec<Vec<u8>> = (0..4).map(|at| peer.record(&[at; 30])).collect();
    let orders: [(&[usize], usize); 4] =
        [(&[0, 0], 1), (&[1, 0], 0), (&[0, 1, 1, 2], 2), (&[0, 2, 3], 1)];
    for (order, opened) in orders {
        let bytes = order.iter().map(|at| &records[*at][..]).collect::<Vec<_>>().concat();
        let (read, why) = outcome(&bytes);
        assert_eq!((read.len(), why), (30 * opened, FORGED), "{order:?}");
    }
}

#[test]
fn records_that_are_repeated_left_out_or_in_another_order_are_noticed() {
    order_counts();
}

#[test]
fn a_stream_that_ends_inside_of_a_record_says_so() {
    let sealed = ScriptedPeer::caller(30).seal(&text(90));
    for len in 0..sealed.len() {
        let whole = len / (30 + AROUND);
        let is_between = len % (30 + AROUND) == 0;
        let why = if is_between { ENDED } else { StreamReadError::Cut };
        assert_eq!(outcome(&sealed[..len]), (text(90)[..30 * whole].to_vec(), why), "{len} bytes");
    }
}

#[test]
fn lengths_that_no_record_has_are_wrong() {
    for len in [0, RECORD_MAX + 1, 0xffff] {
        let head = u16::try_from(len).unwrap().to_le_bytes();
        let (mut stream, wire) = ends();
        wire.say(&head);
        assert!(
            matches!(read(&mut stream, 10), (read, StreamReadError::Wrong(_)) if read.is_empty())
        );
    }
}

/// What comes of these bytes, all there at once, where there is room for all of them.
fn placed(bytes: &[u8]) -> (Vec<u8>, StreamReadError) {
    let (mut stream, wire) = ends();
    wire.say(bytes);
    wire.end();
    let (mut all, mut other) = (vec![0; bytes.len()], [0; 24]);
    let mut n = 0;
    loop {
        match stream.read_both(&mut all[n..], &mut other) {
            Ok(0) => break (all[..n].to_vec(), ENDED),
            Ok(now) => n += now,
            Err(why) if why == StreamReadError::Kernel(Errno::AGAIN) => {}
            Err(why) => break (all[..n].to_vec(), why),
        }
    }
}

/// Of records that are read to their place none that was changed is read, and all before it are.
pub(super) fn places_are_proven() {
    let (one, len) = (PIECE + AROUND, 3 * PIECE);
    let sealed = ScriptedPeer::caller(PIECE).seal(&text(len));
    assert_eq!(placed(&sealed), (text(len), ENDED));
    for at in [2, 5000, one - 17, one - 16, one - 1, one + 2, 2 * one - 1, 3 * one - 1] {
        let mut changed = sealed.clone();
        changed[at] ^= 4;
        let (read, why) = placed(&changed);
        assert_eq!((read.len(), why), (at / one * PIECE, FORGED), "byte {at}");
        assert_eq!(read, text(len)[..read.len()], "byte {at}");
    }
}

#[test]
fn a_large_record_that_was_changed_is_noticed_in_its_place() {
    places_are_proven();
}

/// Records of a length that is not the one that a large payload has.
pub(super) fn other_lengths_are_read() {
    for most in [1000, PIECE - 1, PIECE + 1, RECORD_MAX] {
        let sealed = ScriptedPeer::caller(most).seal(&text(100_000));
        assert_eq!(placed(&sealed), (text(100_000), ENDED), "records of {most} bytes");
    }
}

#[test]
fn a_length_that_was_guessed_wrong_is_put_right() {
    other_lengths_are_read();
}

#[test]
fn a_large_record_may_come_in_two_parts() {
    let sealed = ScriptedPeer::caller(PIECE).seal(&text(PIECE + 40));
    for cut in (0..60).chain([4000, 4097, 4098, 4099, 4100, 9000]).chain(PIECE - 5..PIECE + 80) {
        let (mut stream, wire) = ends();
        let (now, later) = sealed.split_at(cut.min(sealed.len()));
        let (mut to, mut other) = (vec![0; PIECE], [0; 24]);
        wire.say(now);
        let first = stream.read_both(&mut to, &mut other);
        wire.say(later);
        let n = match first {
            Ok(n) => n,
            Err(why) => {
                assert_eq!(why, StreamReadError::Kernel(Errno::AGAIN), "{cut} bytes");
                stream.read_both(&mut to, &mut other).unwrap()
            }
        };
        let rest = read(&mut stream, 100).0;
        let all = [&to[..n.min(PIECE)], &other[..n.saturating_sub(PIECE)], &rest].concat();
        assert_eq!(all, text(PIECE + 40), "{cut} bytes");
    }
}

#[test]
fn a_large_slice_begins_with_a_record() {
    let (mut stream, wire) = ends();
    wire.make_room(usize::MAX);
    let (head, payload) = (text(24), text(PIECE * 2 + 5000));
    let slices = [&head, &payload, &head, &payload].map(|slice| IoSlice::new(slice));
    assert_eq!(stream.write_all(&slices), Ok(2 * (24 + PIECE * 2 + 5000)));
    let (heard, mut lens) = (wire.heard(), Vec::new());
    let mut left = &heard[..];
    while let Some(len) = len_of(left) {
        lens.push(len.unwrap());
        left = &left[len.unwrap() + AROUND..];
    }
    assert_eq!(lens, [24, PIECE, PIECE, 5000, 24, PIECE, PIECE, 5000]);
    // What fits into one record is in one.
    let slices = [&head[..], &payload[..PIECE]].map(IoSlice::new);
    assert_eq!(stream.write_all(&slices), Ok(RECORD_MAX));
    assert_eq!(wire.heard().len(), RECORD_MAX + AROUND);
}

#[test]
fn bytes_that_go_first_are_not_sealed_and_go_first() {
    let wire = MemoryStream::default();
    let mut stream = ByteStream::Memory(wire.clone()).sealed(keys_of_callee(), b"welcome");
    assert!(stream.has_unsent());
    wire.make_room(3);
    assert_eq!(stream.write(b"text"), Err(Errno::AGAIN));
    assert_eq!(wire.heard(), b"wel");
    wire.make_room(1000);
    assert_eq!(stream.write(b"text"), Ok(4));
    let heard = wire.heard();
    assert_eq!(&heard[..4], b"come");
    assert_eq!(ScriptedPeer::caller(30).open(&heard[4..]), b"text");
}

#[test]
fn records_that_came_behind_the_handshake_are_ready() {
    let sealed = ScriptedPeer::caller(30).seal(&text(90));
    for held in 0..=sealed.len() {
        let (mut stream, wire) = ends();
        assert!(stream.hold(&sealed[..held]).is_empty());
        assert_eq!(stream.is_ready(), held >= 30 + AROUND, "{held} bytes");
        wire.say(&sealed[held..]);
        wire.end();
        assert_eq!(read(&mut stream, 7), (text(90), ENDED), "{held} bytes");
    }
}

/// Last words of which the kernel takes a part: the stream is shut behind the rest of them.
pub(super) fn last_words() {
    let (stream, wire) = ends();
    let mut closing = TcpClosing { stream, bytes: text(100) };
    for room in [0, 5, 20] {
        wire.make_room(room);
        assert!(!closing.push() && !wire.is_over(), "it was shut with {room} bytes of room");
    }
    wire.make_room(1000);
    assert!(closing.push() && wire.is_over(), "it was not shut");
    assert_eq!(ScriptedPeer::caller(1).open(&wire.heard()), text(100));
}

#[test]
fn last_words_are_said_before_a_stream_is_shut() {
    last_words();
}

#[test]
fn numbers_that_end_are_the_end_of_writing() {
    let (mut stream, wire) = ends();
    wire.make_room(usize::MAX);
    let ByteStream::Sealed(sealed) = &mut stream else { unreachable!("it is sealed") };
    sealed.skip_to(u64::MAX - 1);
    assert_eq!(stream.write(b"last"), Ok(4));
    assert!(!stream.is_worn());
    assert_eq!(stream.write(b"more"), Err(Errno::OVERFLOW));
    assert!(stream.is_worn() && !stream.has_unsent());
    assert_eq!(wire.heard().len(), 4 + AROUND, "nothing leaves that is not sealed");
}

#[test]
fn an_end_that_sleeps_keeps_what_it_has_not_read() {
    let sealed = ScriptedPeer::caller(usize::MAX).seal(&text(200_000));
    let (mut stream, wire) = ends();
    let mut all = Vec::new();
    for piece in sealed.chunks(9_999) {
        wire.say(piece);
        all.extend(read(&mut stream, 4000).0);
        stream.trim();
    }
    assert_eq!(all, text(200_000));
}

proptest! {
    /// Whatever the kernel takes of it and when.
    #[test]
    fn what_counts_as_written_arrives(
        steps in proptest::collection::vec((1_usize..150_000, 0_usize..200_000), 1..8),
        cut in 1_usize..50_000,
    ) {
        let ((mut stream, wire), mut peer) = (ends(), ScriptedPeer::caller(1));
        let (bytes, mut written, mut heard) = (text(1 << 20), 0, Vec::new());
        for (len, room) in steps {
            wire.make_room(room);
            let now = &bytes[written..bytes.len().min(written + len)];
            let slices: Vec<IoSlice<'_>> = now.chunks(cut).map(IoSlice::new).collect();
            match stream.write_all(&slices) {
                Ok(n) => written += n,
                Err(why) => prop_assert_eq!(why, Errno::AGAIN),
            }
            heard.extend(peer.open(&wire.heard()));
            prop_assert!(heard.len() == written || stream.has_unsent());
        }
        wire.make_room(usize::MAX);
        prop_assert_eq!(stream.flush(), Ok(true));
        heard.extend(peer.open(&wire.heard()));
        prop_assert!(heard == bytes[..written], "{} of {} bytes", heard.len(), written);
    }

    /// Whatever comes at once, and whatever is wanted of it.
    #[test]
    fn what_was_sealed_is_read(
        pieces in proptest::collection::vec(1_usize..80_000, 1..8),
        most in prop_oneof![1_usize..=RECORD_MAX, Just(PIECE)],
        places in (1_usize..70_000, 0_usize..100),
    ) {
        let ((mut stream, wire), len) = (ends(), 200_000);
        let sealed = ScriptedPeer::caller(most.max(50)).seal(&text(len));
        let (mut left, mut all) = (&sealed[..], Vec::<u8>::new());
        let (mut one, mut other) = (vec![0; places.0], vec![0; places.1]);
        for piece in pieces.into_iter().chain([usize::MAX]) {
            let (now, later) = left.split_at(piece.min(left.len()));
            wire.say(now);
            left = later;
            loop {
                match stream.read_both(&mut one, &mut other) {
                    Ok(n) => {
                        all.extend(one.iter().chain(&other).take(n));
                        // Less than was asked for is all that is ready.
                        prop_assert!(n == one.len() + other.len() || !stream.is_ready());
                    }
                    Err(why) => {
                        prop_assert_eq!(why, StreamReadError::Kernel(Errno::AGAIN));
                        break;
                    }
                }
            }
            prop_assert!(!stream.is_ready() && stream.is_drained(false));
        }
        prop_assert!(all == text(len));
    }
}
