//! How a window ends.

use crate::rt::Instant;
use crate::vi::Descriptor;

use super::super::fuzzing::shelf::Shelved as Window;
use super::super::{WindowLane, WindowTerms, WindowTiming};
use super::run::{Ground, QueuedMessage, terms};

fn message(tag: u64, len: usize) -> QueuedMessage {
    QueuedMessage { tag, len }
}

#[test]
fn what_is_not_acknowledged_comes_back_lane_by_lane() {
    let mut window = Window::new(terms(2), Ground::new());
    for (tag, len) in [(1, 0), (2, 2000), (3, 5)] {
        window.send(WindowLane::Eager, message(tag, len).descriptor());
    }
    window.send(WindowLane::Posted, message(4, 5).descriptor());
    let mut out = Vec::new();
    while window.poll_datagram(Instant::from_nanos(0), &mut out) {}
    window.send(WindowLane::Control, message(5, 5).descriptor());
    let ended: Vec<_> = window.end().iter().map(Descriptor::tag).collect();
    assert_eq!(ended, [5, 1, 2, 3, 4]);
    assert_eq!((window.end().len(), window.next_event()), (0, None));
    assert!(!window.poll_datagram(Instant::from_nanos(1 << 40), &mut out));
}

#[test]
fn what_is_acknowledged_comes_back_also_after_the_end() {
    let now = Instant::from_nanos(0);
    let mut windows = [0, 1].map(|_| Window::new(terms(1), Ground::new()));
    let mut out = Vec::new();
    windows[0].send(WindowLane::Eager, message(1, 5).descriptor());
    windows[0].send(WindowLane::Eager, message(2, 5).descriptor());
    assert!(windows[0].poll_datagram(now, &mut out));
    windows[1].hear(now, &out).unwrap();
    assert!(windows[1].poll_datagram(now, &mut out));
    windows[0].hear(now, &out).unwrap();
    let ended: Vec<_> = windows[0].end().iter().map(Descriptor::tag).collect();
    assert_eq!(ended, [2]);
    assert_eq!(windows[0].poll_sent().unwrap().tag(), 1);
    assert!(windows[0].poll_sent().is_none());
    windows[0].hear(now, &out).unwrap();
}

#[test]
pub(super) fn silence_is_found_after_so_many_repeats_and_bounded_time() {
    let pace = WindowTiming { repeats_max: 5, ..WindowTiming::default() };
    let mut window = Window::new(WindowTerms { pace, ..terms(16) }, Ground::new());
    for tag in 0..10 {
        window.send(WindowLane::Eager, message(tag, 5).descriptor());
    }
    let (mut now, mut out) = (Instant::from_nanos(0), Vec::new());
    while window.poll_datagram(now, &mut out) {}
    for _ in 0..5 {
        assert!(!window.is_silent(now));
        now = window.next_event().unwrap();
        assert!(window.poll_datagram(now, &mut out));
        assert!(!window.poll_datagram(now, &mut out), "one piece, and no more");
    }
    assert!(!window.is_silent(now), "the last one may still be answered");
    now = window.next_event().unwrap();
    assert!(!window.poll_datagram(now, &mut out), "it was asked often enough");
    assert!(window.is_silent(now));
    assert!(now.as_nanos() <= 6 * 500_000_000);
    assert_eq!(window.counters().repeated, 5);
}

#[test]
fn a_repeat_waits_twice_as_long_as_the_last_up_to_a_bound() {
    let mut window = Window::new(terms(4), Ground::new());
    window.send(WindowLane::Posted, message(1, 5).descriptor());
    let (mut now, mut out) = (Instant::from_nanos(0), Vec::new());
    let mut waits = Vec::new();
    while waits.len() < 7 {
        while window.poll_datagram(now, &mut out) {}
        let next = window.next_event().unwrap();
        waits.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(waits, [50, 100, 200, 400, 500, 500, 500]);
}

/// A peer that is not scheduled for a while says nothing about the path.
#[test]
fn a_path_is_doubted_only_if_the_peer_is_heard() {
    // Several pieces each, one, and one that every path carries.
    for (messages, len, is_doubted) in [(2, 5000, true), (1, 1200, true), (1, 900, false)] {
        doubts(messages, len, is_doubted);
    }
}

fn doubts(messages: u64, len: usize, is_doubted: bool) {
    let terms = WindowTerms { datagram: 1500, ..terms(16) };
    let mut windows = [0, 1].map(|_| Window::new(terms, Ground::new()));
    let (mut now, mut out) = (Instant::from_nanos(0), Vec::new());
    for tag in 0..messages {
        windows[0].send(WindowLane::Posted, message(tag, len).descriptor());
    }
    let repeat = |window: &mut Window, now: &mut Instant, out: &mut Vec<u8>| {
        while window.poll_datagram(*now, out) {}
        *now = window.next_event().unwrap();
        window.poll_datagram(*now, out)
    };
    for _ in 0..4 {
        assert!(repeat(&mut windows[0], &mut now, &mut out));
    }
    assert!(!windows[0].window.loses_long(), "nobody was there");
    // What is short arrives.
    windows[1].send(WindowLane::Control, message(9, 5).descriptor());
    assert!(windows[1].poll_datagram(now, &mut out));
    windows[0].hear(now, &out).unwrap();
    assert_eq!(windows[0].window.loses_long(), is_doubted, "{messages} of {len}");
}
