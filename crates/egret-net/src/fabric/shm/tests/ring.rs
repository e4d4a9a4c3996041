use std::sync::atomic::Ordering::{Acquire, Release};

use loom::thread;

use super::checker::memory;
use super::shared;
use crate::atomics::checker::check;
use crate::fabric::shm::memory::LINE;
use crate::fabric::shm::ring::{Consumer, Payload, Producer, RingError};
use crate::rt;

#[test]
fn loom_messages_arrive_whole_and_in_order_around_a_ring() {
    check(around_a_ring);
}

/// Three messages through two slots; the third only when the first is taken.
pub(super) fn around_a_ring() {
    const MESSAGES: u32 = 3;
    let (slots, taken) = (memory(2), memory(1));
    let mut producer = Producer::new(slots, 0, 2);
    let sending = thread::spawn(move || {
        for number in 0..MESSAGES {
            while u64::from(number) - taken[0][0].load(Acquire) == 2 {
                thread::yield_now();
            }
            producer.put(number, &content(u64::from(number)));
        }
    });
    let mut consumer = Consumer::new(slots, 0, 2).unwrap();
    for number in 0..MESSAGES {
        let (head, words) = loop {
            match consumer.poll() {
                Some(message) => break message,
                None => thread::yield_now(),
            }
        };
        assert_eq!((head, words), (number, content(u64::from(number))));
        taken[0][0].store(consumer.taken_count(), Release);
    }
    sending.join().unwrap();
}

#[test]
fn a_million_messages_go_through_real_memory() {
    const MESSAGES: u64 = 1 << 20;
    const SLOTS: usize = 1 << 14;
    let (sent, received) = shared(SLOTS * LINE);
    let (counter, counted) = shared(LINE);
    let mut consumer = Consumer::new(received, 0, SLOTS as u64).unwrap();
    let receiving = rt::spawn("receiver", move || {
        while consumer.taken_count() < MESSAGES {
            let number = consumer.taken_count();
            let Some((head, words)) = consumer.poll() else { continue };
            assert_eq!((u64::from(head), words), (number, content(number)));
            if number % 256 == 255 {
                counter.word(0).store(consumer.taken_count(), Release);
            }
        }
    })
    .unwrap();
    let mut producer = Producer::new(sent, 0, SLOTS);
    while producer.put_count() < MESSAGES {
        let number = producer.put_count();
        if number - counted.load(0, Acquire).unwrap() < SLOTS as u64 {
            producer.put(u32::try_from(number).unwrap(), &content(number));
        }
    }
    receiving.join().unwrap();
}

#[test]
fn a_ring_begins_where_it_is_told() {
    let (own, foreign) = shared(4 * LINE);
    let mut producer = Producer::new(own.clone(), LINE, 2);
    let mut consumer = Consumer::new(foreign, LINE as u64, 2).unwrap();
    assert_eq!(consumer.poll(), None);
    for number in 0..3 {
        producer.put(number, &content(7));
        assert_eq!(consumer.poll(), Some((number, content(7))));
        assert_eq!(consumer.poll(), None);
    }
    for outside in [0, 3 * LINE] {
        assert_eq!(own.word(outside).load(Acquire), 0);
    }
}

#[test]
fn what_a_slot_looks_like_is_for_ever() {
    let (own, _) = shared(LINE);
    Producer::new(own.clone(), 0, 1).put(0xAABB_CCDD, &[1, 2, 3, 4, 5, 6, 7]);
    let words: Vec<u64> = (0..8).map(|word| own.word(word * 8).load(Acquire)).collect();
    assert_eq!(words, [0xAABB_CCDD_0000_0001, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_ring_that_is_not_there_is_an_error() {
    let (_own, foreign) = shared(4096);
    let ring = |offset, slots| Consumer::new(foreign.clone(), offset, slots).map(drop).unwrap_err();
    for slots in [0, 3, 1 << 32, u64::MAX] {
        assert_eq!(ring(0, slots), RingError::Slots { slots });
    }
    for offset in [1, 8, 63, u64::MAX] {
        assert_eq!(ring(offset, 1), RingError::Unaligned { offset });
    }
    let len = foreign.len();
    for (offset, slots) in [(0, 128), (64, 64), (4096, 1), (u64::MAX - 63, 1), (0, 1 << 31)] {
        assert_eq!(ring(offset, slots), RingError::Outside { offset, slots, len });
    }
    assert!(Consumer::new(foreign, 0, 64).is_ok());
}

#[test]
#[should_panic(expected = "a ring of 128 slots at 0 of 4096 bytes")]
fn a_ring_too_large_for_our_own_memory_asserts() {
    let (own, _) = shared(4096);
    drop(Producer::new(own, 0, 128));
}

fn content(number: u64) -> Payload {
    std::array::from_fn(|word| number << 8 | word as u64)
}
