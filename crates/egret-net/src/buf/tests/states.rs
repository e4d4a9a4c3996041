use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use crate::buf::{Buf, Held, MemoryError, Pool, Shared, Typed};

#[test]
fn parts_go_home_together() {
    let pool = Pool::new(64, 1).unwrap();
    let mut buf = pool.take(60).unwrap();
    buf.bytes_mut().iter_mut().zip(0..).for_each(|(byte, i)| *byte = i);
    let (a, rest) = buf.split_at(10);
    let (b, c) = rest.split_at(0);
    assert_eq!([a.len(), b.len(), c.len()], [10, 0, 50]);
    assert_eq!([a.capacity(), b.capacity(), c.capacity()], [10, 0, 54]);
    assert_eq!((a.bytes()[9], c.bytes()[0], c.bytes()[49]), (9, 10, 59));
    drop((a, c));
    assert_eq!(pool.available(1), 0);
    drop(b);
    assert_eq!(pool.available(1), 1);
}

#[test]
fn only_neighbours_without_a_gap_join() {
    let pool = Pool::new(64, 2).unwrap();
    let (a, rest) = pool.take(60).unwrap().split_at(10);
    let (b, c) = rest.split_at(20);
    let other = pool.take(64).unwrap();
    let (a, c) = Buf::join(a, c).unwrap_err();
    let (c, other) = Buf::join(c, other).unwrap_err();
    drop(other);
    let (mut a, b) = (a, b);
    a.resize(9);
    let (mut a, b) = Buf::join(a, b).unwrap_err();
    a.resize(10);
    let whole = Buf::join(Buf::join(a, b).unwrap(), c).unwrap();
    assert_eq!((whole.len(), whole.capacity()), (60, 64));
    drop(whole);
    assert_eq!(pool.available(1), 2);
}

#[test]
#[should_panic(expected = "split at byte 11 of 10")]
fn a_split_beyond_the_end_is_the_callers_error() {
    let _ = Pool::new(64, 1).unwrap().take(10).unwrap().split_at(11);
}

#[test]
#[should_panic(expected = "resize to 65 of 64 bytes")]
fn a_resize_beyond_the_capacity_is_the_callers_error() {
    Pool::new(64, 1).unwrap().take(10).unwrap().resize(65);
}

#[test]
fn a_misfit_comes_back_with_its_reason() {
    let pool = Pool::new(64, 1).unwrap();
    let (head, rest) = pool.take(64).unwrap().split_at(4);
    let offset = rest.offset_in_region();
    let error = rest.typed::<u64>().unwrap_err();
    assert!(matches!(error.why, MemoryError::Partial { bytes: 60, element: 8 }));
    let mut rest = error.what;
    rest.resize(56);
    let error = rest.typed::<u64>().unwrap_err();
    assert!(matches!(error.why, MemoryError::Misaligned { offset: at, align: 8 } if at == offset));
    assert!(error.to_string().contains("multiple of 8"), "{error}");
    assert_eq!(error.what.typed::<[u16; 2]>().unwrap().len(), 14);
    drop(head);
    assert_eq!(pool.available(1), 1);
}

#[test]
fn parts_have_types_of_their_own() {
    let pool = Pool::new(4096, 1).unwrap();
    let mut words = pool.take_typed::<u32>(100).unwrap();
    words.fill(7);
    let (mut header, body) = words.split_at(10);
    let mut body = body.typed::<f64>().unwrap();
    (header[9], body[44]) = (8, 0.25);
    assert_eq!((header.len(), body.len(), header[0]), (10, 45, 7));
    let whole = Buf::join(header.into(), body.into()).unwrap().typed::<u32>().unwrap();
    assert_eq!((whole[8], whole[9], whole[10]), (7, 8, 7));
    assert_eq!(f64::from_ne_bytes(bytemuck::cast([whole[98], whole[99]])), 0.25);
}

#[test]
fn the_last_clone_returns_the_buffer() {
    let pool = Pool::new(64, 1).unwrap();
    let mut data = pool.take_typed::<u16>(3).unwrap();
    data.copy_from_slice(&[1, 2, 3]);
    let shared: Shared<u16> = data.into();
    let clones: Vec<_> = (0..5).map(|_| shared.clone()).collect();
    let bytes = shared.erase();
    assert_eq!(bytes.len(), 6);
    let bytes = bytes.try_unique().unwrap_err();
    assert!(clones.iter().all(|clone| clone[..] == [1, 2, 3]));
    drop(clones);
    let unique: Typed<u8> = bytes.try_unique().unwrap();
    assert_eq!(unique.into_buf().typed::<u16>().unwrap()[..], [1, 2, 3]);
    assert_eq!(pool.available(1), 1);
}

#[test]
fn the_callback_gets_the_buffer_of_the_last_clone() {
    let pool = Pool::new(64, 1).unwrap();
    let (sender, reclaimed) = mpsc::channel();
    for len in 1..4 {
        let back = sender.clone();
        let data = pool.take_typed::<u32>(len).unwrap();
        let shared = data.share_with(move |buf| back.send(buf).unwrap());
        let bytes = shared.clone().erase();
        drop(shared);
        assert!(reclaimed.try_recv().is_err());
        drop(bytes);
        let buf = reclaimed.try_recv().unwrap();
        assert_eq!((buf.len(), buf.capacity(), pool.available(1)), (len * 4, 64, 0));
        drop(buf);
        assert_eq!(pool.available(1), 1);
    }
}

/// Each part has its own readers, its own callback, and its own last one.
#[test]
fn parts_are_shared_apart() {
    let pool = Pool::new(64, 1).unwrap();
    let (sender, reclaimed) = mpsc::channel();
    let (a, b) = pool.take(64).unwrap().split_at(24);
    let share = |buf: Buf| {
        let back = sender.clone();
        Typed::from(buf).share_with(move |buf| back.send(buf).unwrap())
    };
    let (a, b) = (share(a), share(b));
    let clone = b.clone();
    let clone = clone.try_unique().unwrap_err();
    drop(b);
    let b = clone.try_unique().expect("the other part does not count");
    assert_eq!(b.len(), 40);
    drop(a);
    assert_eq!(reclaimed.try_recv().unwrap().len(), 24);
    drop(b);
    assert!(reclaimed.try_recv().is_err(), "a unique buffer has no callback");
    assert_eq!(pool.available(1), 1);
}

#[test]
fn a_callback_that_panics_costs_nothing_but_the_panic() {
    let pool = Pool::new(64, 2).unwrap();
    for split in [false, true] {
        let (a, b) = pool.take(64).unwrap().split_at(32);
        let other = split.then_some(b);
        let shared = Typed::from(a).share_with(|_buf| panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(shared))).is_err());
        drop(other);
        assert_eq!(pool.available(1), 2);
        let plain = pool.take(64).unwrap().share();
        drop(plain);
    }
    let bufs = [pool.take(1).unwrap(), pool.take(1).unwrap()];
    assert_ne!(bufs[0].offset_in_region(), bufs[1].offset_in_region());
}

#[test]
fn a_callback_outlives_the_pool() {
    let (sender, reclaimed) = mpsc::channel();
    let data = Pool::new(64, 1).unwrap().take_typed::<u8>(3).unwrap();
    let shared = data.share_with(move |buf| sender.send(buf).unwrap());
    drop(shared);
    assert_eq!(reclaimed.try_recv().unwrap().len(), 3);
}

/// A pool of 100 keeps a quarter free: 75 messages stay where they are, and of
/// 1,000 exactly the other 925 are copied.
#[test]
fn a_thousand_messages_held_on_a_pool_of_a_hundred() {
    let pool = Pool::new(256, 100).unwrap();
    let receive = |i: u64| {
        let mut message = pool.take_typed::<u64>(32).unwrap();
        message.fill(i);
        message.hold()
    };
    let mut held: Vec<Held<u64>> = (0..1000).map(receive).collect();
    let intact = |held: &[Held<u64>]| {
        (0..).zip(held).all(|(i, data)| data.len() == 32 && data.iter().all(|word| *word == i))
    };
    assert!(intact(&held));
    assert_eq!(held.iter().filter(|data| data.is_resident()).count(), 75);
    let stats = pool.stats();
    assert_eq!((stats.held_resident, stats.held_copied, stats.evacuated), (75, 925, 0));
    assert_eq!((stats.exhausted, pool.available(1)), (0, 25));
    held.iter_mut().for_each(Held::evacuate);
    assert!(intact(&held));
    assert_eq!((pool.stats().evacuated, pool.available(1)), (75, 100));
    held[999][31] = 0;
    assert_eq!(held.pop().map(Vec::from).unwrap()[30..], [999, 0]);
}

#[test]
fn the_low_water_mark_can_be_all_or_nothing() {
    let never = Pool::builder().class(64, 2).low_water(0).build().unwrap();
    let held = [never.take(1).unwrap().hold(), never.take(1).unwrap().hold()];
    assert!(held.iter().all(Held::is_resident));
    let always = Pool::builder().class(64, 2).low_water(2).build().unwrap();
    assert!(!always.take(1).unwrap().hold().is_resident());
    assert_eq!(always.available(1), 2);
}

#[test]
fn everything_can_be_shown_and_sent() {
    fn sendable<T: Send + Sync + std::fmt::Debug>(value: &T) -> String {
        format!("{value:?}")
    }
    let pool = Pool::new(64, 4).unwrap();
    assert!(sendable(&pool).contains("(64, 4, 4)"));
    assert!(sendable(pool.region()).contains("Region"));
    let data = pool.take_typed::<u32>(2).unwrap();
    assert!(sendable(&data).contains("u32"));
    assert!(sendable(&data.share()).contains("len: 2"));
    assert!(sendable(&pool.take(3).unwrap()).contains("capacity: 64"));
    assert!(sendable(&pool.take(3).unwrap().hold()).contains("resident: true"));
}
