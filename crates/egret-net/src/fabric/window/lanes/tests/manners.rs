//! When a window speaks, and when it is quiet.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::buf::{Buf, Pool};
use crate::rt::Instant;
use crate::vi::DirectPlacement;

use super::super::WindowLane;
use super::super::fuzzing::shelf::Shelved as Window;
use super::super::{WindowCounters, WindowTerms, WindowTiming};
use super::network::{Network, Random, Weather};
use super::run::{Ground, QueuedMessage, Run, terms};

const NOW: Instant = Instant::from_nanos(0);

fn message(tag: u64, len: usize) -> QueuedMessage {
    QueuedMessage { tag, len }
}

fn pair(messages: u32) -> [Window; 2] {
    [0, 1].map(|_| Window::new(terms(messages), Ground::new()))
}

/// All that is due now.
fn datagrams(window: &mut Window, now: Instant) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    std::iter::from_fn(|| window.poll_datagram(now, &mut out).then(|| out.clone())).collect()
}

fn hear(window: &mut Window, now: Instant, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        window.hear(now, datagram).unwrap();
    }
}

fn tags(window: &mut Window) -> Vec<u64> {
    std::iter::from_fn(|| window.poll_arrived()).map(|arrived| arrived.tag).collect()
}

fn calm() -> Network {
    Network::new(Weather::default(), Random::new(1))
}

#[test]
fn an_idle_link_sends_nothing() {
    let mut run = Run::new(terms(8), calm(), 8);
    run.finish();
    run.say(0, WindowLane::Eager, message(1, 5));
    run.finish();
    for end in &mut run.ends {
        assert_eq!(end.window.next_event(), None);
        let later = run.now + Duration::from_secs(100);
        assert!(!end.window.poll_datagram(later, &mut Vec::new()));
    }
    let [there, back] = run.ends.each_ref().map(|end| end.window.counters());
    let counters = WindowCounters { datagrams: 1, heard: 1, ..WindowCounters::default() };
    assert_eq!(there, WindowCounters { sent: 1, ..counters });
    assert_eq!(back, WindowCounters { acks: 1, ..counters });
}

#[test]
pub(super) fn an_acknowledgement_waits_for_company_and_not_for_long() {
    let [mut a, mut b] = pair(8);
    a.send(WindowLane::Eager, message(1, 5).descriptor());
    hear(&mut b, NOW, &datagrams(&mut a, NOW));
    assert!(datagrams(&mut b, NOW).is_empty(), "half a quarter has come");
    let due = b.next_event().unwrap();
    assert_eq!(due - NOW, Duration::from_millis(1));
    b.send(WindowLane::Posted, message(2, 5).descriptor());
    let reply = datagrams(&mut b, NOW);
    hear(&mut a, NOW, &reply);
    assert_eq!(a.poll_sent().unwrap().tag(), 1, "it came with the message");
    assert!(datagrams(&mut b, due).is_empty(), "and not again");
    let due = a.next_event().unwrap();
    assert_eq!(datagrams(&mut a, due).len(), 1);
}

#[test]
fn a_quarter_of_the_window_is_acknowledged_at_once() {
    for window in [1, 3, 4, 7, 8, 16, 32_u32] {
        let [mut a, mut b] = pair(window);
        let quarter = (window / 4).max(1);
        for tag in 1..=u64::from(quarter) {
            assert!(datagrams(&mut b, NOW).is_empty(), "{tag} of {window}");
            a.send(WindowLane::Eager, message(tag, 5).descriptor());
            hear(&mut b, NOW, &datagrams(&mut a, NOW));
        }
        assert_eq!(datagrams(&mut b, NOW).len(), 1, "a window of {window}");
    }
}

#[test]
fn a_held_up_sender_asks_and_is_answered_at_once() {
    let [mut a, mut b] = pair(64);
    for tag in 0..9 {
        a.send(WindowLane::Eager, message(tag, 5).descriptor());
    }
    let sent = datagrams(&mut a, NOW);
    assert_eq!(a.counters().sent, 8, "the network's window begins with eight");
    hear(&mut b, NOW, &sent);
    hear(&mut a, NOW, &datagrams(&mut b, NOW));
    assert_eq!(datagrams(&mut a, NOW).len(), 1, "and goes on");
}

#[test]
pub(super) fn a_lost_last_acknowledgement_is_sent_again() {
    let [mut a, mut b] = pair(8);
    a.send(WindowLane::Eager, message(1, 5).descriptor());
    hear(&mut b, NOW, &datagrams(&mut a, NOW));
    let later = b.next_event().unwrap();
    assert_eq!(datagrams(&mut b, later).len(), 1, "which is lost");
    let later = a.next_event().unwrap();
    hear(&mut b, later, &datagrams(&mut a, later));
    hear(&mut a, later, &datagrams(&mut b, later));
    assert_eq!(a.poll_sent().unwrap().tag(), 1);
    assert_eq!((tags(&mut b), b.counters().doubles), (vec![1], 1));
    assert_eq!((a.next_event(), b.next_event()), (None, None));
}

#[test]
fn the_urgent_lane_goes_first_and_none_waits_for_another() {
    let [mut a, mut b] = pair(4);
    for tag in 0..20 {
        a.send(WindowLane::Posted, message(tag, 400).descriptor());
    }
    let lost = datagrams(&mut a, NOW);
    assert_eq!(lost.len(), 4, "its window is full");
    a.send(WindowLane::Eager, message(100, 5).descriptor());
    a.send(WindowLane::Control, message(101, 5).descriptor());
    hear(&mut b, NOW, &datagrams(&mut a, NOW));
    assert_eq!(tags(&mut b), [101, 100]);
}

#[test]
fn short_messages_share_a_datagram() {
    let [mut a, mut b] = pair(8);
    for tag in 0..8 {
        a.send(WindowLane::Eager, message(tag, 16).descriptor());
    }
    let sent = datagrams(&mut a, NOW);
    assert_eq!(sent.len(), 1);
    hear(&mut b, NOW, &sent);
    assert_eq!(tags(&mut b), (0..8).collect::<Vec<_>>());
}

#[test]
fn what_three_overtake_is_repeated_before_its_time() {
    let [mut a, mut b] = pair(16);
    let mut sent = Vec::new();
    for tag in 0..5 {
        a.send(WindowLane::Posted, message(tag, 400).descriptor());
        sent.extend(datagrams(&mut a, NOW));
    }
    let repeated = |a: &mut Window| datagrams(a, NOW).len();
    for (overtaking, expected) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
        hear(&mut b, NOW, &sent[overtaking..=overtaking]);
        hear(&mut a, NOW, &datagrams(&mut b, NOW));
        assert_eq!(repeated(&mut a), expected, "overtaken by {overtaking}");
    }
    assert_eq!((a.counters().repeated, a.counters().timeouts), (1, 0));
}

#[test]
pub(super) fn after_silence_one_piece_is_repeated_and_then_twice_as_many_each_round() {
    let [mut a, mut b] = pair(64);
    for tag in 0..8 {
        a.send(WindowLane::Posted, message(tag, 400).descriptor());
    }
    assert_eq!(datagrams(&mut a, NOW).len(), 8, "which are lost");
    let mut now = a.next_event().unwrap();
    let mut rounds = Vec::new();
    while a.next_event().is_some() {
        let round = datagrams(&mut a, now);
        rounds.push(round.len());
        now = now + Duration::from_micros(100);
        hear(&mut b, now, &round);
        hear(&mut a, now, &datagrams(&mut b, now + Duration::from_millis(1)));
    }
    assert_eq!(rounds, [1, 2, 4, 1]);
    assert_eq!(tags(&mut b), (0..8).collect::<Vec<_>>());
    assert_eq!((a.counters().repeated, a.counters().timeouts), (8, 1));
}

/// Lost acknowledgements look like long round trips, and must not be taken for such.
#[test]
fn patience_does_not_grow_with_loss() {
    for window in [1, 4, 16, 64] {
        let weather = Weather { loss: 20, ..Weather::default() };
        let mut run = Run::new(terms(window), Network::new(weather, Random::new(7)), 1000);
        for tag in 0..500 {
            run.say(0, WindowLane::Posted, message(tag, 400));
        }
        run.finish();
        let repeats = run.ends[0].window.counters().timeouts;
        let each = Duration::from_nanos(run.now.as_nanos() / repeats);
        assert!(each < Duration::from_millis(40), "{each:?} with a window of {window}");
    }
}

#[test]
fn a_round_trip_longer_than_expected_is_learnt() {
    let weather = Weather { distance_ms: 100, ..Weather::default() };
    let mut run = Run::new(terms(8), Network::new(weather, Random::new(1)), 1);
    for tag in 0..100 {
        run.say(0, WindowLane::Eager, message(tag, 5));
    }
    run.finish();
    assert!(run.ends[0].window.counters().repeated < 6, "{:?}", run.ends[0].window.counters());
}

/// Notes what it is asked.
#[derive(Debug)]
struct Notes(Mutex<Vec<(u64, u64)>>, Pool);

impl DirectPlacement for Notes {
    fn land(&self, len: u64, tag: u64) -> Result<Buf, &'static str> {
        self.0.lock().unwrap().push((len, tag));
        self.1.take(usize::try_from(len).unwrap()).map_err(|_| "none is left")
    }
}

#[test]
pub(super) fn memory_is_asked_for_once_for_each_message_in_order_and_for_long_ones_only() {
    let notes = Arc::new(Notes(Mutex::default(), Pool::new(2000, 4).unwrap()));
    let mut a = Window::new(terms(16), Ground::new());
    let mut b = Window::new(terms(16), Arc::clone(&notes) as _);
    for (tag, len) in [(1, 257), (2, 256), (3, 1200), (4, 0), (5, 300)] {
        a.send(WindowLane::Posted, message(tag, len).descriptor());
    }
    let mut sent = datagrams(&mut a, NOW);
    sent.reverse();
    let (last, others) = sent.split_last().unwrap();
    hear(&mut b, NOW, others);
    hear(&mut b, NOW, others);
    assert!(notes.0.lock().unwrap().is_empty(), "nothing is in order");
    hear(&mut b, NOW, std::slice::from_ref(last));
    assert_eq!(*notes.0.lock().unwrap(), [(257, 1), (1200, 3), (300, 5)]);
    assert_eq!(tags(&mut b), [1, 2, 3, 4, 5]);
}

#[test]
fn numbers_go_on_when_their_lower_half_is_used_up() {
    for before in [10, 1 << 31, (1 << 32) + 5] {
        let weather = Weather { loss: 10, doubling: 5, overtaking: 20, damage: 5, distance_ms: 0 };
        let mut run = Run::new(terms(16), Network::new(weather, Random::new(before)), 20);
        for end in &mut run.ends {
            end.window.skip((1 << 33) - before);
        }
        for tag in 0..60 {
            run.say(
                usize::from(tag % 2 == 0),
                WindowLane::ALL[tag % 4],
                message(tag as u64, tag * 20),
            );
        }
        run.finish();
    }
}

#[test]
fn a_damaged_datagram_is_as_good_as_lost() {
    let weather = Weather { damage: 30, ..Weather::default() };
    let mut run = Run::new(terms(8), Network::new(weather, Random::new(3)), 20);
    for tag in 0..50 {
        run.say(0, WindowLane::Eager, message(tag, 100));
    }
    run.finish();
    let [a, b] = run.ends.each_ref().map(|end| end.window.counters());
    assert!(a.damaged + b.damaged > 0, "{a:?} {b:?}");
}

/// A message without a place keeps its lane waiting, and no other; the peer knows that this side
/// lives.
#[test]
pub(super) fn a_message_that_has_to_wait_is_not_taken_for_silence() {
    let pace = WindowTiming { repeats_max: 3, ..WindowTiming::default() };
    let [mut a, mut b] =
        [0, 1].map(|_| Window::new(WindowTerms { pace, ..terms(8) }, Ground::new()));
    b.shelf.places = 0;
    for tag in 0..20 {
        a.send(WindowLane::Posted, message(tag, 400).descriptor());
    }
    let mut now = NOW;
    for _ in 0..20 {
        assert!(!a.is_silent(now), "it has heard that a message waits");
        hear(&mut b, now, &datagrams(&mut a, now));
        b.check();
        hear(&mut a, now, &datagrams(&mut b, now));
        now = a.next_event().unwrap();
    }
    assert!(tags(&mut b).is_empty());
    a.send(WindowLane::Eager, message(99, 5).descriptor());
    hear(&mut b, now, &datagrams(&mut a, now));
    b.admit(usize::MAX, now).unwrap();
    let mut came = tags(&mut b);
    while let Some(next) = a.next_event() {
        hear(&mut a, now, &datagrams(&mut b, now));
        hear(&mut b, now, &datagrams(&mut a, now));
        came.extend(tags(&mut b));
        now = next.max(now + Duration::from_millis(1));
    }
    came.retain(|tag| *tag != 99);
    assert_eq!(came, (0..20).collect::<Vec<_>>());
}

/// What came early is acknowledged; when it is its turn it may have to wait.
#[test]
pub(super) fn a_message_that_came_early_may_have_to_wait() {
    let [mut a, mut b] = pair(8);
    b.shelf.places = 0;
    for tag in 0..3 {
        a.send(WindowLane::Eager, message(tag, 5).descriptor());
    }
    let mut now = NOW;
    for tag in 0..3 {
        hear(&mut b, now, &datagrams(&mut a, now));
        hear(&mut a, now, &datagrams(&mut b, now));
        assert!(tags(&mut b).is_empty());
        b.admit(1, now).unwrap();
        assert_eq!(tags(&mut b), [tag]);
        hear(&mut a, now, &datagrams(&mut b, now));
        a.window.check();
        assert_eq!(a.poll_sent().map(|sent| sent.tag()), Some(tag));
        now = now + Duration::from_millis(1);
    }
    assert_eq!(a.next_event(), None, "all has come");
}

/// Datagrams become smaller in the middle of a message.
#[test]
fn a_message_that_was_begun_keeps_the_size_of_its_pieces() {
    let [mut a, mut b] = pair(16);
    a.send(WindowLane::Posted, message(1, 4000).descriptor());
    a.send(WindowLane::Posted, message(2, 1000).descriptor());
    let mut sent = datagrams(&mut a, NOW);
    assert!(sent.iter().all(|datagram| datagram.len() > 200));
    a.window.resize(200);
    hear(&mut b, NOW, &sent.split_off(1));
    let mut now = NOW;
    while let Some(next) = a.next_event() {
        now = next.max(now + Duration::from_millis(1));
        hear(&mut a, now, &datagrams(&mut b, now));
        hear(&mut b, now, &datagrams(&mut a, now));
    }
    assert_eq!(tags(&mut b), [1, 2]);
}
