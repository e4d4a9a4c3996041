//! Connections that end while buffers are away.

use super::{ANY, EACH, LARGE, LONG, Pair, SMALL, assert_all_home, fill, home, is_all};
use crate::fabric::shm::tests::hand_over::until;
use crate::vi::{Descriptor, ViError};

/// The visitor keeps one for as long as it likes.
#[test]
fn what_is_kept_comes_home_when_it_is_dropped() {
    for home_first in [true, false] {
        let pair = Pair::new();
        let mut kept = pair.lend(LARGE);
        drop(pair.lend(SMALL));
        let Pair { home: nic, visitor, here, there, pool } = pair;
        if home_first {
            drop((here, nic));
            drop((there, visitor));
        } else {
            drop((there, visitor));
            drop((here, nic));
        }
        until(|| home(&pool) == 2 * EACH - 1, "all but one are home");
        fill(&mut kept, 9);
        assert!(is_all(kept.bytes(), 9));
        drop(kept);
        until(|| home(&pool) == 2 * EACH, "the last is dropped");
        assert_all_home(&pool);
    }
}

/// Nobody reads them, for the visitor is gone first.
#[test]
fn what_was_on_its_way_comes_home() {
    let pair = Pair::new();
    for _ in 0..2 {
        pair.there.post_recv(Descriptor::handed(ANY)).unwrap();
    }
    for tag in 0..4 {
        pair.here.hand_over(pair.pool.take(LARGE).unwrap(), tag).unwrap();
    }
    pair.here.disconnect();
    let mut on_their_way = 0;
    for tag in 0..4 {
        let back = pair.here.send_queue().wait(LONG).unwrap();
        assert_eq!((&back.status, back.tag), (&Err(ViError::Closed), tag));
        on_their_way += usize::from(back.descriptor().segment_count() == 0);
    }
    assert!((1..=2).contains(&on_their_way), "{on_their_way} of two that could");
    assert_eq!(home(&pair.pool), 2 * EACH - on_their_way, "the visitor may still read them");
    drop(pair.there);
    drop(pair.visitor);
    until(|| home(&pair.pool) == 2 * EACH, "the visitor has left");
    assert_all_home(&pair.pool);
}

/// What the visitor reads after the home has left is its own all the same.
#[test]
fn what_is_read_late_is_there() {
    let pair = Pair::new();
    let mut buf = pair.pool.take(LARGE).unwrap();
    fill(&mut buf, 4);
    pair.there.post_recv(Descriptor::handed(ANY)).unwrap();
    pair.here.hand_over(buf, 1).unwrap();
    drop(pair.here);
    drop(pair.home);
    let got = pair.there.recv_queue().wait(LONG).unwrap().ok().unwrap();
    let theirs = got.into_handed().into_buf().expect("the buffer itself");
    assert!(is_all(theirs.bytes(), 4));
    until(
        || {
            pair.visitor.poll();
            pair.there.error().is_some()
        },
        "the visitor hears of the end",
    );
    assert_eq!(home(&pair.pool), 2 * EACH - 1);
    drop(theirs);
    until(|| home(&pair.pool) == 2 * EACH, "it is dropped");
    assert_all_home(&pair.pool);
}

/// It was handed back, and the home leaves before it looks.
#[test]
fn what_was_on_its_way_back_comes_home() {
    let pair = Pair::new();
    let theirs = pair.lend(LARGE);
    pair.here.post_recv(Descriptor::handed(ANY)).unwrap();
    pair.there.hand_over(theirs, 1).unwrap();
    pair.here.disconnect();
    assert_eq!(pair.here.recv_queue().wait(LONG).unwrap().status, Err(ViError::Closed));
    let failed = pair.there.send_queue().wait(LONG).unwrap();
    assert_eq!(failed.status, Err(ViError::ClosedByPeer));
    until(|| home(&pair.pool) == 2 * EACH, "neither has it");
    assert_all_home(&pair.pool);
}

/// The pool is gone before its buffers are home.
#[test]
fn a_pool_that_is_dropped_waits() {
    let pair = Pair::new();
    let file = crate::fabric::shm::tests::hand_over::inode(&pair.pool);
    let mut kept = pair.lend(LARGE);
    drop(pair);
    fill(&mut kept, 1);
    let has_file = crate::fabric::shm::tests::hand_over::has_file;
    assert!(has_file(file));
    drop(kept);
    until(|| !has_file(file), "nobody has the memory");
}
