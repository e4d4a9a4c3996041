//! Peers that lie: it ends their connection, with the reason, and nothing else.

use super::raw::{COUNTS, Raw, counted, frame};
use crate::buf::Pool;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::DrainedUnits;
use crate::fabric::tcp::wire::{CHUNK, TcpFrame};
use crate::vi::{Access, Descriptor, EAGER_MAX, Lane, Reliability, ViError};

const NO_RECEIVE: &str = "a message that there is no receive for";
const NONSENSE: &str = "a malformed frame";
const MORE: &str = "more bytes than were announced";
const NEVER_SENT: &str = "an acknowledgement of frames that were never sent";

/// Says this to a nic with two receives of 100,000 bytes posted. Why that is the end.
fn end_of(what: &str, bytes: &[u8]) -> ViError {
    let mut raw = Raw::new(Reliability::Reception);
    let pool = Pool::new(100_000, 2).unwrap();
    for _ in 0..2 {
        raw.vi.post_recv(Descriptor::new(pool.take(100_000).unwrap())).unwrap();
    }
    raw.write(bytes);
    raw.until(what, |raw| raw.vi.error().is_some());
    assert_eq!(raw.vi.recv_queue().outstanding(), 0, "{what}: receives are not back");
    while raw.vi.recv_queue().poll().is_some() {}
    assert_eq!(pool.available(100_000), 2, "{what}: buffers are not back");
    raw.vi.error().unwrap()
}

fn lies(lies: &[(&str, Vec<u8>, &'static str)]) {
    for (what, bytes, why) in lies {
        assert_eq!(end_of(what, bytes), ViError::Protocol(why), "{what}");
    }
}

const MESSAGE: TcpFrame = TcpFrame::Message { tag: 0, kind: None };

pub(super) fn receives() {
    lies(&[("three messages for two receives", frame(MESSAGE, b"x").repeat(3), NO_RECEIVE)]);
}

pub(super) fn lengths() {
    let begin = TcpFrame::Begin { tag: 0, kind: None, len: 70_000 };
    let chunk = vec![0; CHUNK];
    let more = [frame(begin, &chunk), frame(TcpFrame::Piece, &chunk)].concat();
    let write = frame(TcpFrame::Write { secret: 1, offset: 0, len: 3 }, b"");
    let written = [write, frame(TcpFrame::Piece, b"four")].concat();
    lies(&[("a message that is longer", more, MORE), ("a write that is longer", written, MORE)]);
}

pub(super) fn counts() {
    let taken = ReceiveCounts { taken: 1, ..ReceiveCounts::default() };
    let placed = ReceiveCounts { placed: 1, ..ReceiveCounts::default() };
    lies(&[
        ("frames taken that were never sent", counted(COUNTS, b"", taken), NEVER_SENT),
        ("messages placed that were never sent", counted(COUNTS, b"", placed), NEVER_SENT),
    ]);
}

/// More eager messages than a lane holds.
pub(super) fn lanes() {
    let eager = |lane, drained| TcpFrame::Eager { lane, tag: 0, drained: DrainedUnits(drained) };
    let many = |lane, count| frame(eager(lane, 0), &[7; EAGER_MAX]).repeat(count);
    lies(&[
        ("talk", many(Lane::Talk, 64), "more eager messages than its window"),
        ("bulk", many(Lane::Bulk, 8), "more eager messages than its window"),
    ]);
}

pub(super) fn drained() {
    const NEVER: &str = "an acknowledgement of eager messages that were never sent";
    let counts = TcpFrame::Counts { drained: DrainedUnits(1 << 32), asks: false };
    let eager = TcpFrame::Eager { lane: Lane::Talk, tag: 0, drained: DrainedUnits(1) };
    lies(&[
        ("counts of what was drained", frame(counts, b""), NEVER),
        ("an eager message with them", frame(eager, b"x"), NEVER),
        ("one in two parts", [frame(COUNTS, b""), frame(eager, &[1; 4000])].concat(), NEVER),
    ]);
}

#[test]
fn lies_about_lanes_are_the_end() {
    lanes();
    drained();
}

#[test]
fn lies_about_receives_lengths_and_counts_are_the_end() {
    receives();
    lengths();
    counts();
}

#[test]
fn nonsense_is_the_end() {
    nonsense();
}

pub(super) fn nonsense() {
    let begin = |len| TcpFrame::Begin { tag: 0, kind: None, len };
    let endless = frame(begin(u64::MAX), b"x");
    let short = [
        frame(TcpFrame::Write { secret: 1, offset: 0, len: 5 }, b""),
        frame(TcpFrame::WriteEnd { id: 0, notify: None }, b""),
    ];
    let inside = [frame(begin(9), b"x"), frame(MESSAGE, b"x")];
    let mut words = frame(MESSAGE, b"");
    words[2] = 4;
    let mut flags = frame(MESSAGE, b"");
    flags[1] = 0x80;
    let mut zero = frame(MESSAGE, b"");
    zero[3] = 1;
    let mut long = frame(MESSAGE, b"");
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    lies(&[
        ("bytes that are no frame", vec![0xee; 100], NONSENSE),
        ("zeros", vec![0; 100], NONSENSE),
        ("other words than its kind has", words, NONSENSE),
        ("unknown flags", flags, NONSENSE),
        ("what must be zero", zero, NONSENSE),
        ("four gigabytes in a frame", long, NONSENSE),
        ("a message without end", endless, "a message longer than any may be"),
        ("a piece of nothing", frame(TcpFrame::Piece, b"x"), "a data record outside a message"),
        ("a message in a message", inside.concat(), "a message or write inside another one"),
        (
            "an answer to a read that was not requested",
            frame(TcpFrame::ReadPiece { id: 7 }, b"x"),
            "an answer to a read that was not requested",
        ),
        (
            "the end of no read",
            frame(TcpFrame::ReadEnd { id: 7, result: Ok(()) }, b""),
            "an answer to a read that was not requested",
        ),
        (
            "an answer to no write",
            frame(TcpFrame::Written { id: 0, result: Ok(()) }, b""),
            "an answer to a request that was not made",
        ),
        (
            "the end of a write that has not begun",
            frame(TcpFrame::WriteEnd { id: 0, notify: None }, b""),
            "the end of a write that has not begun",
        ),
        ("a write that is shorter", short.concat(), "fewer bytes than were announced"),
        (
            "a name that is no text",
            frame(TcpFrame::Kind { fingerprint: 1 }, b"\x02\xff\xff"),
            "a text that is not UTF-8",
        ),
        (
            "a goodbye without a known reason",
            frame(TcpFrame::Goodbye, b"\x09"),
            "an unknown reason",
        ),
    ]);
}

#[test]
fn a_message_too_long_for_its_receive_fails_with_both_sizes() {
    let begin = TcpFrame::Begin { tag: 0, kind: None, len: 100_001 };
    let why = end_of("a message too long", &frame(begin, b"x"));
    assert_eq!(why, ViError::TooLong { sent: 100_001, posted: 100_000 });
}

#[test]
fn requests_beyond_the_outstanding_limit_end_the_connection() {
    let mut raw = Raw::new(Reliability::Reception);
    let pool = Pool::new(1 << 20, 1).unwrap();
    let memory = raw.nic.expose(pool.take(1 << 20).unwrap(), Access::READ).unwrap();
    let secret = memory.key().secret();
    // The answers are never read, so they stay outstanding.
    for id in 0..2_000 {
        raw.write(&frame(TcpFrame::Read { id, secret, offset: 0, len: 1 << 20 }, b""));
        if raw.vi.error().is_some() {
            break;
        }
    }
    let why = ViError::Protocol("more requests than may be outstanding");
    assert_eq!(raw.vi.error(), Some(why));
}

#[test]
fn many_names_of_types_cost_a_bounded_amount() {
    let mut raw = Raw::new(Reliability::Reception);
    for fingerprint in 0..5_000 {
        raw.write(&frame(TcpFrame::Kind { fingerprint }, b"\x03any"));
    }
    raw.vi.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
    raw.write(&frame(TcpFrame::Message { tag: 0, kind: Some(4_999) }, b"x"));
    let mut got = None;
    raw.until("the message behind them", |raw| {
        got = got.take().or_else(|| raw.vi.recv_queue().poll());
        got.is_some()
    });
    let kind = got.and_then(|got| got.kind.clone()).unwrap();
    assert_eq!((kind.fingerprint, &*kind.name), (4_999, "an unnamed type"));
}

#[test]
fn what_waits_for_a_receive_that_was_taken_back_is_kept_and_bounded() {
    let mut raw = Raw::new(Reliability::Reception);
    let ticket = raw.vi.post_recv(Descriptor::new(vec![0_u8; 200_000])).unwrap();
    drop(raw.frames(|frame| matches!(frame, TcpFrame::Counts { .. })));
    assert!(raw.vi.cancel(ticket));
    let begin = TcpFrame::Begin { tag: 8, kind: None, len: 3 * CHUNK as u64 };
    let chunk = vec![5; CHUNK];
    raw.write(&frame(begin, &chunk));
    raw.write(&frame(TcpFrame::Piece, &chunk));
    // What belongs to remote reads does not wait with it.
    raw.write(&frame(TcpFrame::Read { id: 1, secret: 0, offset: 0, len: 1 }, b""));
    drop(raw.frames(|frame| matches!(frame, TcpFrame::ReadEnd { id: 1, result: Err(_) })));
    raw.vi.post_recv(Descriptor::new(vec![0_u8; 200_000])).unwrap();
    raw.write(&frame(TcpFrame::Piece, &chunk));
    let mut got = None;
    raw.until("the message", |raw| {
        got = got.take().or_else(|| raw.vi.recv_queue().poll().filter(|got| got.status.is_ok()));
        got.is_some()
    });
    let got = got.unwrap();
    assert_eq!((got.tag, got.len), (8, 3 * CHUNK as u64));
    assert!(got.bytes().iter().all(|byte| *byte == 5));

    let ticket = raw.vi.post_recv(Descriptor::new(vec![0_u8; 200_000])).unwrap();
    drop(raw.frames(|frame| matches!(frame, TcpFrame::Counts { .. })));
    assert!(raw.vi.cancel(ticket));
    raw.write(&frame(TcpFrame::Begin { tag: 9, kind: None, len: 1 << 30 }, &chunk));
    for _ in 0..600 {
        raw.write(&frame(TcpFrame::Piece, &chunk));
    }
    assert_eq!(raw.vi.error(), Some(ViError::Protocol("more than may be outstanding")));
}
