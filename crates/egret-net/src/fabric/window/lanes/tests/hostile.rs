//! A peer that is none: what it sends is a lie, said in words, and costs little.

use std::sync::Arc;

use crate::rt::Instant;

use super::super::WindowLane;
use super::super::WindowViolation;
use super::super::fuzzing::shelf::Shelved as Window;
use super::super::lane::LANES;
use super::super::wire::{self, Ack, DatagramHead, MessageStart, WindowPiece};
use super::run::{Ground, LEN_MAX, QueuedMessage, terms};

const NOW: Instant = Instant::from_nanos(1_000_000);

pub(super) fn datagram(acks: [Ack; LANES], pieces: &[WindowPiece<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    DatagramHead { number: 7, held: false, answer: false, acks }.write(&mut out);
    for piece in pieces {
        let len = u32::try_from(piece.bytes.len()).unwrap();
        WindowPiece::write_head(piece.lane, piece.number, piece.begins, len, &mut out);
        out.extend_from_slice(piece.bytes);
    }
    wire::seal(&mut out);
    out
}

fn pieces(pieces: &[WindowPiece<'_>]) -> Vec<u8> {
    datagram([Ack::default(); LANES], pieces)
}

fn first(number: u32, len: u64, bytes: &[u8]) -> WindowPiece<'_> {
    WindowPiece {
        lane: WindowLane::Eager,
        number,
        begins: Some(MessageStart { len, tag: 0 }),
        bytes,
    }
}

fn more(number: u32, bytes: &[u8]) -> WindowPiece<'_> {
    WindowPiece { lane: WindowLane::Eager, number, begins: None, bytes }
}

fn window(messages: u32) -> Window {
    Window::new(terms(messages), Ground::new())
}

/// A window that has sent `sent` pieces of talk.
fn talking(sent: u64) -> Window {
    let mut window = window(8);
    for tag in 0..sent {
        window.send(WindowLane::Eager, QueuedMessage { tag, len: 1 }.descriptor());
    }
    while window.poll_datagram(NOW, &mut Vec::new()) {}
    window
}

fn acks(next: u32, bits: u64) -> Vec<u8> {
    datagram([Ack::default(), Ack { next, bits }, Ack::default(), Ack::default()], &[])
}

#[test]
pub(super) fn acknowledgements_of_unsent_pieces_are_refused() {
    for (sent, next, bits) in
        [(0, 1, 0), (3, 4, 0), (3, 1, 0b100), (3, 0, 1 << 63), (3, 3, 2), (3, u32::MAX, 0)]
    {
        let outcome = talking(sent).hear(NOW, &acks(next, bits));
        assert!(matches!(outcome, Err(WindowViolation::NeverSent { .. })), "{sent} {next} {bits}");
    }
    talking(3).hear(NOW, &acks(1, 0b10)).unwrap();
    talking(3).hear(NOW, &acks(3, 0)).unwrap();
}

#[test]
fn an_acknowledgement_that_was_overtaken_changes_nothing() {
    let mut window = talking(5);
    window.hear(NOW, &acks(3, 0)).unwrap();
    window.hear(NOW, &acks(1, 0b1100)).unwrap();
    assert_eq!(std::iter::from_fn(|| window.poll_sent()).count(), 3);
    window.hear(NOW, &acks(5, 0)).unwrap();
    assert_eq!(std::iter::from_fn(|| window.poll_sent()).count(), 2);
    assert_eq!(window.next_event(), None, "nothing is under way");
}

#[test]
fn an_acknowledgement_cannot_be_taken_back() {
    let mut window = talking(5);
    window.hear(NOW, &acks(1, 0b100)).unwrap();
    window.hear(NOW, &acks(1, 0)).unwrap();
    let outcome = window.hear(NOW, &acks(3, 0));
    assert_eq!(outcome, Err(WindowViolation::TakenBack { lane: WindowLane::Eager, number: 3 }));
}

#[test]
fn pieces_beyond_the_window_are_lies() {
    let mut window = window(8);
    window.hear(NOW, &pieces(&[first(7, 0, &[])])).unwrap();
    for number in [8, 9, 1 << 31, u32::MAX] {
        let outcome = window.hear(NOW, &pieces(&[first(number, 0, &[])]));
        assert_eq!(outcome, Err(WindowViolation::Outside { lane: WindowLane::Eager, number }));
    }
}

#[test]
fn the_window_moves_when_the_peer_is_told_and_not_before() {
    let mut window = window(2);
    window.hear(NOW, &pieces(&[first(0, 0, &[]), first(1, 0, &[])])).unwrap();
    let third = pieces(&[first(2, 0, &[])]);
    assert!(matches!(window.hear(NOW, &third), Err(WindowViolation::Outside { .. })));
    assert!(window.poll_datagram(NOW, &mut Vec::new()));
    window.hear(NOW, &third).unwrap();
}

#[test]
fn no_more_bytes_wait_than_may_be_under_way() {
    let mut terms = terms(64);
    terms.bytes = 1000;
    let mut window = Window::new(terms, Ground::new());
    for number in 1..=10 {
        window.hear(NOW, &pieces(&[more(number, &[0; 100])])).unwrap();
    }
    let outcome = window.hear(NOW, &pieces(&[more(11, &[0; 1])]));
    assert_eq!(outcome, Err(WindowViolation::TooMuch { lane: WindowLane::Eager, max: 1000 }));
}

#[test]
pub(super) fn a_piece_has_the_bytes_of_its_place() {
    let size = |len, due| Err(WindowViolation::Size { lane: WindowLane::Eager, len, due });
    let hear = |row: &[WindowPiece<'_>]| window(8).hear(NOW, &pieces(row));
    assert_eq!(hear(&[first(0, 3, &[1; 4])]), size(4, 3));
    assert_eq!(hear(&[first(0, 3, &[])]), size(0, 3));
    assert_eq!(hear(&[first(0, 10, &[1; 4]), more(1, &[1; 3])]), size(3, 4));
    assert_eq!(hear(&[first(0, 10, &[1; 4]), more(2, &[1; 4])]), size(4, 2));
    assert_eq!(hear(&[more(1, &[1; 5]), first(0, 10, &[1; 4])]), size(5, 4));
    assert_eq!(hear(&[first(0, 10, &[1; 4]), more(2, &[1; 2]), more(1, &[1; 4])]), Ok(()));
}

#[test]
fn messages_begin_where_the_last_one_ends() {
    let hear = |row: &[WindowPiece<'_>]| window(8).hear(NOW, &pieces(row));
    let (interrupts, headless) = (
        Err(WindowViolation::Interrupts(WindowLane::Eager)),
        Err(WindowViolation::Headless(WindowLane::Eager)),
    );
    assert_eq!(hear(&[first(0, 10, &[1; 4]), first(1, 10, &[1; 4])]), interrupts);
    assert_eq!(hear(&[first(1, 10, &[1; 4]), first(0, 10, &[1; 4])]), interrupts);
    assert_eq!(hear(&[more(0, &[1; 4])]), headless);
    assert_eq!(hear(&[more(1, &[1; 4]), first(0, 4, &[1; 4])]), headless);
    assert_eq!(hear(&[first(1, 4, &[1; 4]), first(0, 4, &[1; 4])]), Ok(()));
}

#[test]
fn a_length_is_the_landings_to_judge() {
    for len in [LEN_MAX as u64 + 1, u64::from(u32::MAX), u64::MAX] {
        let outcome = window(8).hear(NOW, &pieces(&[first(0, len, &[1; 300])]));
        let why = "nobody expects so much";
        assert_eq!(outcome, Err(WindowViolation::Refused { lane: WindowLane::Eager, len, why }));
    }
}

#[test]
fn one_message_of_a_lane_has_memory_at_a_time() {
    let ground = Ground::new();
    let mut window = Window::new(terms(64), Arc::clone(&ground) as _);
    let firsts: Vec<_> = (0..64).step_by(8).map(|at| first(at, 8000, &[1; 300])).collect();
    for piece in &firsts {
        let _ = window.hear(NOW, &pieces(&[*piece]));
    }
    assert_eq!(ground.0.available(8000), Ground::BUFFERS - 1);
    drop(window);
    assert!(ground.is_whole());
}

#[test]
fn what_was_damaged_is_dropped() {
    let mut window = window(8);
    let mut out = acks(0, 0);
    out[0] ^= 1;
    window.hear(NOW, &out).unwrap();
    window.hear(NOW, &[]).unwrap();
    assert_eq!((window.counters().damaged, window.counters().heard), (2, 2));
    assert!(!window.poll_datagram(NOW, &mut out));
}

/// Pieces that can never become messages: what is kept of them is bounded.
#[test]
pub(super) fn early_pieces_take_bounded_memory() {
    let mut window = window(64);
    let mut taken = 0;
    for number in 1..100_000 {
        if window.hear(NOW, &pieces(&[more(number, &[0; 400])])).is_err() {
            break;
        }
        taken += 400;
    }
    assert!(taken <= terms(64).bytes, "{taken} bytes were kept");
}
