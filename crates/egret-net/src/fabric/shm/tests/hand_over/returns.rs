//! The way home in memory, and what a visitor can do to it.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use crate::fabric::shm::cooperating::returns::{ReturnsReader, ReturnsWriter, SlotPlace, bytes};
use crate::fabric::shm::tests::shared;

#[test]
fn what_returns_look_like_is_for_ever() {
    let (own, foreign) = shared(4096);
    let returner = ReturnsWriter::new(own.clone(), 64, 4);
    let place = SlotPlace { region: 0x1234, class: 0x5678, number: 0x9ABC_DEF0 };
    returner.put(place);
    returner.put(SlotPlace { region: 0, class: 0, number: 0 });
    returner.leave([place].into_iter());
    let word = |at: usize| own.word(64 + at * 8).load(Relaxed);
    assert_eq!([word(0), word(1)], [2, 2]);
    assert_eq!([word(8), word(9), word(10)], [0x9234_5678_9ABC_DEF0, 1 << 63, 0]);
    assert_eq!([word(12), word(13)], [0x9234_5678_9ABC_DEF0, 0]);
    let mut returned = ReturnsReader::new(foreign, 64, 4).unwrap();
    assert_eq!(returned.held(), Some(vec![place]));
    let mut seen = Vec::new();
    assert!(returned.poll(|place| seen.push(place)) && !returned.poll(|_| ()));
    assert_eq!(seen, [Some(place), Some(SlotPlace { region: 0, class: 0, number: 0 })]);
}

#[test]
fn returns_that_are_not_there_are_an_error() {
    let (_own, foreign) = shared(4096);
    let at = |offset, capacity| ReturnsReader::new(foreign.clone(), offset, capacity);
    for (offset, capacity) in [(0, 0), (0, 3), (8, 4), (0, 256), (4096, 1), (u64::MAX, 4)] {
        assert!(at(offset, capacity).is_err(), "{capacity} at {offset}");
    }
    assert!(at(0, 1 << 40).is_err());
    assert_eq!(bytes(128), 2112);
    assert!(at(4096 - 2112, 128).is_ok());
}

proptest! {
    #[test]
    fn a_place_is_its_word(region in 0..1_u16 << 15, class: u16, number: u32) {
        let place = SlotPlace { region, class, number };
        prop_assert_eq!(SlotPlace::decode(place.encode()), Some(place));
    }

    /// Whatever a visitor stores: as many words as were counted, at most the
    /// capacity, and never one outside.
    #[test]
    fn nonsense_is_read_as_it_is(steps in prop::collection::vec((0..26_usize, any::<u64>()), 1..40)) {
        let (own, foreign) = shared(4096);
        let mut returned = ReturnsReader::new(foreign, 0, 8).unwrap();
        let mut counted = 0_u64;
        for (at, word) in steps {
            let small = word % 20;
            own.word(at * 8).store(if at < 2 && word % 3 > 0 { small } else { word }, Relaxed);
            let (count, mut seen) = (own.word(0).load(Relaxed), 0);
            let some = returned.poll(|_| seen += 1);
            prop_assert_eq!(some, count != counted);
            prop_assert_eq!(seen, count.wrapping_sub(counted).min(8));
            counted = count;
            let held = returned.held().map(|held| held.len());
            prop_assert!(held.is_none_or(|held| held <= 8));
            prop_assert_eq!(held.is_some(), own.word(8).load(Relaxed) != 0);
        }
    }
}
