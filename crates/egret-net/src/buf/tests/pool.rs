use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::buf::{Buf, MemoryError, Pool};
use crate::rt::{self, Deadline};

#[test]
fn a_take_is_served_by_the_smallest_class_that_fits() {
    let pool = Pool::builder().class(4096, 2).class(100, 3).class(1000, 1).build().unwrap();
    assert_eq!(pool.take(0).unwrap().capacity(), 100);
    assert_eq!(pool.take(100).unwrap().capacity(), 100);
    assert_eq!(pool.take(101).unwrap().capacity(), 1000);
    assert_eq!(pool.take(1001).unwrap().capacity(), 4096);
    assert_eq!((pool.capacity(1), pool.capacity(500), pool.capacity(4096)), (3, 1, 2));
    assert_eq!((pool.capacity(4097), pool.available(4097), pool.largest()), (0, 0, 4096));
    let small: Vec<_> = (0..3).map(|_| pool.take(100).unwrap()).collect();
    let error = pool.take(100).unwrap_err();
    assert!(
        matches!(error, MemoryError::Exhausted { class: 100, count: 3 }),
        "no larger one instead"
    );
    let too_large = pool.take(5000);
    assert!(matches!(too_large, Err(MemoryError::NoLargeClass { asked: 5000, largest: 4096 })));
    assert_eq!(pool.stats().exhausted, 1);
    drop(small);
    assert_eq!(pool.available(100), 3);
}

#[test]
fn slots_are_aligned_and_apart() {
    let pool = Pool::builder().class(100, 5).class(4096, 3).class(5000, 3).build().unwrap();
    let mut bufs: Vec<Buf> = Vec::new();
    for len in [100, 4096, 5000] {
        bufs.extend((0..pool.capacity(len)).map(|_| pool.take(len).unwrap()));
    }
    bufs.sort_by_key(Buf::offset_in_region);
    for buf in &bufs {
        let align = if buf.capacity() >= 4096 { 4096 } else { 64 };
        assert_eq!(buf.offset_in_region() % align, 0);
        assert_eq!(buf.bytes().as_ptr().addr() % align, 0);
    }
    for pair in bufs.windows(2) {
        assert!(pair[0].offset_in_region() + pair[0].capacity() <= pair[1].offset_in_region());
    }
    let last = bufs.last().unwrap();
    assert!(last.offset_in_region() + last.capacity() <= last.region().len());
}

#[test]
fn classes_that_make_no_sense_are_refused() {
    let same = Pool::builder().class(64, 1).class(32, 1).class(64, 2).build();
    assert!(matches!(same, Err(MemoryError::SameClass { bytes: 64 })));
    assert!(matches!(Pool::new(0, 1), Err(MemoryError::EmptyClass { bytes: 0, count: 1 })));
    let many = Pool::new(1, 1 << 24).unwrap_err();
    assert!(many.to_string().contains("16777215"), "{many}");
}

#[test]
fn buffers_outlive_their_pool() {
    let pool = Pool::builder().class(64, 4).class(128, 4).build().unwrap();
    let other = pool.clone();
    let mut bufs = [pool.take(64).unwrap(), pool.take(64).unwrap(), pool.take(100).unwrap()];
    drop(pool);
    assert_eq!(other.available(64), 2);
    drop(other);
    for (i, buf) in (0u8..).zip(&mut bufs) {
        buf.bytes_mut().fill(i);
    }
    let region = bufs[0].region().clone();
    for (i, buf) in (0u8..).zip(bufs) {
        assert!(buf.bytes().iter().all(|byte| *byte == i));
    }
    assert_eq!(region.handles(), 1, "the pool is gone");
}

#[test]
fn a_pool_with_all_home_goes_with_its_handle() {
    let pool = Pool::new(64, 4).unwrap();
    let region = pool.region().clone();
    drop(pool.take(1).unwrap());
    drop(pool);
    assert_eq!(region.handles(), 1);
}

#[test]
fn a_wait_ends_with_the_deadline_and_says_how_long_it_was() {
    let pool = Pool::new(64, 1).unwrap();
    let only = pool.wait_take(64, Deadline::NOW).unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        match pool.wait_take(64, wait).unwrap_err() {
            MemoryError::TimedOut { class: 64, count: 1, waited } => assert!(waited >= wait),
            other => panic!("{other}"),
        }
    }
    assert!(matches!(
        pool.wait_take(65, Deadline::UntilDead),
        Err(MemoryError::NoLargeClass { .. })
    ));
    drop(only);
    assert!(pool.wait_take(64, Deadline::NOW).is_ok());
    assert_eq!(pool.stats().exhausted, 2);
}

#[test]
fn waiters_get_what_comes_home() {
    let pool = Pool::new(64, 2).unwrap();
    let out = [pool.take(1).unwrap(), pool.take(1).unwrap()];
    let waiter = |i: usize| {
        let pool = pool.clone();
        rt::spawn(&format!("waiter {i}"), move || {
            drop(pool.wait_take(64, Deadline::UntilDead).unwrap());
        })
    };
    let waiters: Vec<_> = (0..4).map(|i| waiter(i).unwrap()).collect();
    while pool.stats().exhausted < 4 {
        rt::sleep(Duration::from_millis(1));
    }
    drop(out);
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert_eq!(pool.available(1), 2);
}

/// Whoever of the two is last, the pool goes once.
#[test]
fn a_waiter_that_gives_up_and_a_giver_race_to_free_the_pool() {
    for _ in 0..300 {
        let pool = Pool::new(64, 1).unwrap();
        let region = pool.region().clone();
        let buf = pool.take(1).unwrap();
        let waiter =
            rt::spawn("waiter", move || pool.wait_take(64, Duration::from_micros(50)).is_ok());
        let giver = rt::spawn("giver", move || drop(buf));
        waiter.unwrap().join().unwrap();
        giver.unwrap().join().unwrap();
        assert_eq!(region.handles(), 1);
    }
}

/// Threads that take, fill, pass on, check and return; each byte is written
/// by one holder at a time or the checks below see it.
#[test]
fn many_threads_keep_out_of_each_others_buffers() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 5_000;
    let pool = Pool::builder().class(64, 3).class(256, 2).build().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let work = |thread: usize| {
        let (pool, done) = (pool.clone(), Arc::clone(&done));
        rt::spawn(&format!("holder {thread}"), move || {
            for round in 0..ROUNDS {
                round_of_a_holder(&pool, thread, round);
                done.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(|thread| work(thread).unwrap()).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(done.load(Ordering::Relaxed), THREADS * ROUNDS);
    assert_eq!((pool.available(64), pool.available(256)), (3, 2));
}

/// One thread has the cache and uses it all the time; the other takes whatever
/// is left, which revokes, and finds all but the one that the first may hold.
#[test]
fn a_stash_in_use_is_revoked_exactly() {
    const COUNT: usize = 9;
    for round in 0..ROUNDS_OF_REVOKING {
        let pool = Pool::new(64, COUNT).unwrap();
        drop((0..round % COUNT).map(|_| pool.take(64).unwrap()).collect::<Vec<_>>());
        let other = pool.clone();
        let taker = rt::spawn("taker", move || {
            let taken: Vec<Buf> = (0..COUNT - 1).map(|_| other.take(64).unwrap()).collect();
            for (i, buf) in taken.into_iter().enumerate() {
                assert!(buf.bytes()[..32].iter().all(|byte| *byte == 0), "buffer {i} is in use");
            }
        });
        let taker = taker.unwrap();
        while !taker.is_finished() {
            // Whoever has it next finds zeroes, unless it was in use by two.
            let Ok(mut buf) = pool.take(64) else { continue };
            buf.bytes_mut().fill(1);
            buf.bytes_mut().fill(0);
        }
        taker.join().unwrap();
        assert_eq!(pool.available(64), COUNT);
    }
}

/// The handle goes on one thread while the owner of the cache returns its last
/// buffers: whoever is last frees the pool, once.
#[test]
fn a_pool_is_closed_while_the_owner_of_its_stash_returns() {
    for round in 0..ROUNDS_OF_REVOKING {
        let pool = Pool::new(64, 8).unwrap();
        let region = pool.region().clone();
        let mut bufs: Vec<Buf> = (0..8).map(|_| pool.take(64).unwrap()).collect();
        bufs.truncate(1 + round % 8);
        let closer = rt::spawn("closer", move || drop(pool)).unwrap();
        drop(bufs);
        closer.join().unwrap();
        assert_eq!(region.handles(), 1, "the pool is gone");
    }
}

#[test]
fn a_stash_outlives_its_thread() {
    let pool = Pool::new(64, 8).unwrap();
    let other = pool.clone();
    let owner = rt::spawn("owner", move || {
        drop((0..8).map(|_| other.take(64).unwrap()).collect::<Vec<_>>());
    });
    owner.unwrap().join().unwrap();
    assert_eq!(pool.available(64), 8);
    let all: Vec<Buf> = (0..8).map(|_| pool.take(64).unwrap()).collect();
    assert!(pool.take(64).is_err());
    drop(all);
    assert_eq!(pool.available(64), 8);
}

const ROUNDS_OF_REVOKING: usize = 200;

fn round_of_a_holder(pool: &Pool, thread: usize, round: usize) {
    let len = if round.is_multiple_of(2) { 64 } else { 256 };
    let mut buf = pool.wait_take(len, Deadline::DEFAULT).unwrap();
    let mark = u8::try_from((thread * 64 + round) % 251).unwrap();
    buf.bytes_mut().fill(mark);
    let (head, rest) = buf.split_at(16);
    let shared = rest.share();
    let clone = shared.clone();
    assert!(head.bytes().iter().chain(&shared[..]).all(|byte| *byte == mark));
    drop(shared);
    drop(head);
    assert!(clone.iter().all(|byte| *byte == mark));
}
