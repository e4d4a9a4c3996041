//! What changes hands as it is, what is copied, and how it comes home.

use std::time::Duration;

use super::{
    ANY, EACH, LARGE, LONG, Pair, SMALL, assert_all_home, connect, done, fill, hand, home, is_all,
    mappings,
};
use crate::buf::{Buf, Pool, PoolStats};
use crate::fabric::shm::cooperating::returns::LENT_MAX;
use crate::fabric::shm::tests::watched::readable;
use crate::rt;
use crate::vi::{Arming, Descriptor, Handed, Reliability, Trust, ViError};

/// The same slot, seen from two mappings of one file, there and back.
pub(super) fn the_very_buffer() {
    let pair = Pair::new();
    let mut buf = pair.pool.take(LARGE).unwrap();
    fill(&mut buf, 7);
    let place = buf.offset_in_region();
    let mut theirs = pair.hand(buf).into_buf().expect("the buffer itself");
    assert_eq!(theirs.offset_in_region(), place);
    assert_ne!(theirs.region().id(), pair.pool.region().id(), "the visitor's own mapping");
    assert!(is_all(theirs.bytes(), 7) && theirs.len() == LARGE);
    theirs.resize(LARGE - 1);
    fill(&mut theirs, 8);
    let ours = pair.back(theirs).into_buf().expect("the buffer itself");
    assert_eq!((ours.offset_in_region(), ours.region().id()), (place, pair.pool.region().id()));
    assert!(is_all(ours.bytes(), 8) && ours.len() == LARGE - 1);
    assert_eq!((home(&pair.pool), mappings(&pair.pool)), (2 * EACH - 1, 2));
    assert_eq!(pair.pool.stats(), PoolStats::default());
    drop(ours);
    assert_all_home(&pair.pool);
}

#[test]
fn the_very_buffer_goes_and_comes_back() {
    the_very_buffer();
}

/// A copy would have the kernel find memory for it.
#[test]
fn no_byte_is_touched() {
    let pair = Pair::new();
    let large = Pool::builder().class(64 << 20, 1).cooperating().build().unwrap();
    let blocks = || rustix::fs::fstat(large.region().cooperating_fd().unwrap()).unwrap().st_blocks;
    let mut buf = large.take(64 << 20).unwrap();
    for _ in 0..10 {
        let theirs = pair.hand(buf).into_buf().expect("the buffer itself");
        buf = pair.back(theirs).into_buf().expect("the buffer itself");
    }
    assert_eq!((buf.len(), blocks()), (64 << 20, 0));
    fill(&mut buf, 1);
    assert_eq!(blocks(), (64 << 20) / 512, "so this can be seen");
}

#[test]
fn what_is_dropped_comes_home_when_its_home_polls() {
    let pair = Pair::new();
    let [one, other] = [pair.lend(SMALL), pair.lend(LARGE)];
    drop(one);
    assert_eq!(home(&pair.pool), 2 * EACH - 2, "nobody looked");
    pair.home.poll();
    assert_eq!(home(&pair.pool), 2 * EACH - 1);
    drop(other.share().clone());
    pair.home.poll();
    assert_all_home(&pair.pool);
}

/// Each return rings, and the home has its buffer back.
pub(super) fn sleeping_home() {
    let pair = Pair::new();
    let all = [(); EACH].map(|()| pair.lend(LARGE));
    for (number, buf) in all.into_iter().enumerate() {
        while pair.home.arm(pair.home.poll()) == Arming::Ready {}
        assert!(!readable(&pair.home, Duration::ZERO), "nothing has happened");
        drop(buf);
        assert!(readable(&pair.home, Duration::ZERO), "it slept on");
        pair.home.disarm();
        assert_eq!(home(&pair.pool), EACH + number + 1);
    }
    assert_all_home(&pair.pool);
}

#[test]
fn a_home_that_sleeps_is_woken() {
    sleeping_home();
}

/// Also while messages keep coming.
pub(super) fn exhausted() {
    let pair = Pair::new();
    let all = [(); EACH].map(|()| pair.lend(SMALL));
    assert!(pair.pool.take(SMALL).is_err());
    for _ in 0..100 {
        pair.here.post_recv(Descriptor::empty()).unwrap();
    }
    for _ in 0..100 {
        pair.there.post_send(Descriptor::empty()).unwrap();
    }
    drop(all);
    pair.home.poll();
    assert_eq!(pair.pool.available(SMALL), EACH);
}

#[test]
fn a_pool_that_was_exhausted_has_its_buffers_back() {
    exhausted();
}

#[test]
fn more_than_can_be_lent_is_copied() {
    let pair = Pair::new();
    let many = Pool::builder().class(SMALL, LENT_MAX + 3).cooperating().build().unwrap();
    let take = |byte| {
        let mut buf = many.take(SMALL).unwrap();
        fill(&mut buf, byte);
        buf
    };
    let mut lent: Vec<Buf> =
        (0..LENT_MAX).map(|_| pair.hand(take(1)).into_buf().expect("the buffer itself")).collect();
    let copy = pair.hand(take(2)).into_buf().expect_err("a copy");
    assert!(is_all(&copy, 2));
    assert_eq!(many.available(SMALL), 3, "what was copied is home");
    assert!(lent.iter().all(|buf| is_all(buf.bytes(), 1)));
    lent.pop();
    lent.push(pair.hand(take(3)).into_buf().expect("there is room again"));
    drop(lent);
    pair.home.poll();
    assert_eq!(many.available(SMALL), LENT_MAX + 3);
}

#[test]
fn a_buffer_of_a_third_is_copied() {
    let (pair, other) = (Pair::new(), Pair::new());
    let mut theirs = pair.lend(LARGE);
    fill(&mut theirs, 5);
    let copy = other.hand(theirs).into_buf().expect_err("a copy");
    assert!(is_all(&copy, 5));
    pair.home.poll();
    assert_all_home(&pair.pool);
    // Over another connection it is not the one it came from either.
    let (_here, there) = connect(&pair.home, &pair.visitor, Reliability::Reception);
    let theirs = pair.lend(LARGE);
    assert!(matches!(hand(&there, &_here, theirs), Handed::Copy(_)));
    pair.home.poll();
    assert_all_home(&pair.pool);
}

#[test]
fn parts_are_copied() {
    let pair = Pair::new();
    let mut whole = pair.pool.take(LARGE).unwrap();
    fill(&mut whole, 6);
    let (head, rest) = whole.split_at(1_000);
    for part in [head, rest] {
        let len = part.len();
        let copy = pair.hand(part).into_buf().expect_err("a copy");
        assert!(is_all(&copy, 6) && copy.len() == len);
    }
    assert_all_home(&pair.pool);
    let shared = pair.lend(LARGE).share();
    let (head, rest) = shared.try_unique().expect("nobody else has it").into_buf().split_at(9);
    let copy = pair.back(head).into_buf().expect_err("a copy");
    assert!(copy.len() == 9 && pair.pool.available(LARGE) == EACH - 1);
    drop(rest);
    let (head, rest) = pair.lend(LARGE).split_at(9);
    let whole = Buf::join(head, rest).unwrap();
    assert!(pair.back(whole).into_buf().is_ok(), "whole again");
    pair.home.poll();
    assert_all_home(&pair.pool);
}

/// Other memory than that of a cooperating pool is copied on any connection.
#[test]
fn private_memory_is_copied() {
    let pair = Pair::new();
    for pool in [Pool::new(LARGE, 1), Pool::builder().class(LARGE, 1).shareable().build()] {
        let pool = pool.unwrap();
        let mut buf = pool.take(LARGE).unwrap();
        fill(&mut buf, 4);
        let copy = pair.hand(buf).into_buf().expect_err("a copy");
        assert!(is_all(&copy, 4) && pool.available(LARGE) == 1);
    }
}

pub(super) fn isolated() {
    let pair = Pair::with(Trust::Isolated, Reliability::Reception);
    for byte in 0..10 {
        let mut buf = pair.pool.take(LARGE).unwrap();
        fill(&mut buf, byte);
        let copy = pair.hand(buf).into_buf().expect_err("a copy");
        assert!(is_all(&copy, byte));
        assert_all_home(&pair.pool);
    }
    assert_eq!(mappings(&pair.pool), 1, "nobody else has the file");
}

#[test]
fn isolated_ends_get_no_file() {
    isolated();
}

/// At the unreliable level what nobody receives is dropped.
pub(super) fn unreceived() {
    let pair = Pair::with(Trust::Cooperating, Reliability::Unreliable);
    for tag in 0..3 {
        pair.here.hand_over(pair.pool.take(LARGE).unwrap(), tag).unwrap();
    }
    pair.visitor.poll();
    assert_eq!(pair.there.counters().dropped, 3);
    pair.home.poll();
    assert_all_home(&pair.pool);
    // One that is too long for its receive, too.
    pair.there.post_recv(Descriptor::handed(10)).unwrap();
    pair.here.hand_over(pair.pool.take(11).unwrap(), 0).unwrap();
    let failed = pair.there.recv_queue().wait(LONG).unwrap();
    assert_eq!(failed.status, Err(ViError::TooLong { sent: 11, posted: 10 }));
    for _ in 0..4 {
        assert!(done(pair.here.send_queue()).descriptor().is_empty());
    }
    pair.home.poll();
    assert_all_home(&pair.pool);
}

#[test]
fn what_nobody_receives_goes_home() {
    unreceived();
}

/// Memory that was posted gets the bytes, and the buffer goes home at once.
#[test]
fn posted_memory_gets_a_copy() {
    let pair = Pair::new();
    let mut buf = pair.pool.take(LARGE).unwrap();
    fill(&mut buf, 3);
    pair.there.post_recv(Descriptor::new(vec![0_u8; LARGE])).unwrap();
    pair.here.hand_over(buf, 0).unwrap();
    assert!(is_all(&done(pair.there.recv_queue()).into_vec::<u8>(), 3));
    drop(done(pair.here.send_queue()));
    assert_all_home(&pair.pool);
    // A blocking receive makes its vector.
    let typed = pair.pool.take_typed::<u32>(10).unwrap();
    let there = pair.there;
    let receiving = rt::spawn("receiving", move || there.recv::<u32>(100, LONG).unwrap());
    pair.here.hand_over_typed(typed, 6).unwrap();
    drop(done(pair.here.send_queue()));
    let (words, tag) = receiving.unwrap().join().unwrap();
    assert_eq!((words.len(), tag), (10, 6));
}

/// A receive for a hand-over takes any other message, too.
#[test]
fn what_is_sent_is_received_as_a_copy() {
    let pair = Pair::new();
    for len in [0, 5, SMALL, LARGE] {
        pair.there.post_recv(Descriptor::handed(ANY)).unwrap();
        pair.here.post_send(Descriptor::new(vec![9_u8; len])).unwrap();
        let copy = done(pair.there.recv_queue()).into_handed().into_buf().expect_err("a copy");
        assert!(copy.len() == len && is_all(&copy, 9));
        drop(done(pair.here.send_queue()));
    }
}
