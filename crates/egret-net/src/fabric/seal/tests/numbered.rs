//! Records of datagrams.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::key;
use crate::fabric::seal::SealError;
use crate::fabric::seal::cipher::Tag;
use crate::fabric::seal::epoch::RECORDS;
use crate::fabric::seal::numbered::{NumberedOpener, NumberedSealer};
use crate::fabric::seal::window::{ReplayVerdict, ReplayWindow, TRACKED};

type Record = (u64, Vec<u8>, Tag);

fn ends() -> (NumberedSealer, NumberedOpener) {
    (NumberedSealer::new(key(1)), NumberedOpener::new(key(1)))
}

fn sealed(sealer: &mut NumberedSealer, number: u64) -> Record {
    let mut bytes = number.to_le_bytes().to_vec();
    let tag = sealer.seal(number, b"beside", &mut bytes).unwrap();
    (number, bytes, tag)
}

fn opened(opener: &mut NumberedOpener, (number, bytes, tag): &Record) -> Result<(), SealError> {
    let mut bytes = bytes.clone();
    opener.open(*number, b"beside", &mut bytes, tag)?;
    assert_eq!(bytes, number.to_le_bytes(), "the bytes are others");
    Ok(())
}

fn forged((number, bytes, tag): &Record) -> Record {
    let mut tag = *tag;
    tag[3] ^= 1;
    (*number, bytes.clone(), tag)
}

pub(super) fn once() {
    let (mut sealer, mut opener) = ends();
    let records: Vec<_> = (0..5).map(|number| sealed(&mut sealer, number)).collect();
    for at in [4, 0, 2, 1, 3] {
        assert_eq!(opened(&mut opener, &forged(&records[at])), Err(SealError::Forged));
        assert_eq!(opened(&mut opener, &records[at]), Ok(()));
        assert_eq!(opened(&mut opener, &records[at]), Err(SealError::Repeated));
    }
}

#[test]
fn a_record_opens_once_and_a_forged_one_does_not_count() {
    once();
}

#[test]
fn a_record_that_is_long_ago_does_not_open() {
    let (mut sealer, mut opener) = ends();
    let old: Vec<_> = (0..3).map(|number| sealed(&mut sealer, number)).collect();
    assert_eq!(opened(&mut opener, &sealed(&mut sealer, TRACKED + 1)), Ok(()));
    assert_eq!(opened(&mut opener, &old[1]), Err(SealError::Old));
    assert_eq!(opened(&mut opener, &old[2]), Ok(()));
}

#[test]
fn a_number_is_sealed_under_once() {
    let (mut sealer, _) = ends();
    sealed(&mut sealer, 7);
    for number in [7, 6, 0] {
        assert_eq!(sealer.seal(number, &[], &mut [0; 4]), Err(SealError::Repeated));
    }
    assert_eq!(sealer.seal(2 * RECORDS, &[], &mut [0; 4]), Err(SealError::Far));
    assert_eq!(sealer.seal(u64::MAX, &[], &mut [0; 4]), Err(SealError::Worn));
    sealed(&mut sealer, 8);
}

/// Records on both sides of a change of keys, late and lost.
pub(super) fn late_over_a_change() {
    let (mut sealer, mut opener) = ends();
    let numbers = RECORDS - 4..RECORDS + 4;
    let records: Vec<_> = numbers.map(|number| sealed(&mut sealer, number)).collect();
    assert_eq!(opened(&mut opener, &records[0]), Ok(()));
    // A forged record of the next key is not a reason to take it.
    assert_eq!(opened(&mut opener, &forged(&records[6])), Err(SealError::Forged));
    for at in [1, 6, 2, 4, 3, 7, 5] {
        assert_eq!(opened(&mut opener, &records[at]), Ok(()), "record {at}");
    }
    for record in &records {
        assert_eq!(opened(&mut opener, record), Err(SealError::Repeated));
    }
}

#[test]
fn records_open_whatever_is_late_when_keys_change() {
    late_over_a_change();
}

#[test]
fn records_of_keys_that_are_gone_or_far_do_not_open() {
    let (mut sealer, mut opener) = ends();
    let [first, second, third] =
        [5, RECORDS + 5, 2 * RECORDS + 5].map(|number| sealed(&mut sealer, number));
    assert_eq!(opened(&mut opener, &third), Err(SealError::Far));
    assert_eq!(opened(&mut opener, &second), Ok(()));
    assert_eq!(opened(&mut opener, &third), Ok(()));
    assert_eq!(opened(&mut opener, &first), Err(SealError::Old));
    assert_eq!(opened(&mut opener, &(u64::MAX, vec![0; 32], [0; 16])), Err(SealError::Worn));
}

#[test]
fn the_last_numbers_open() {
    let (mut sealer, mut opener) = ends();
    sealer.skip_to(u64::MAX - 2);
    opener.skip_to(u64::MAX - 2);
    let records = [u64::MAX - 2, u64::MAX - 1].map(|number| sealed(&mut sealer, number));
    for record in [&records[1], &records[0]] {
        assert_eq!(opened(&mut opener, record), Ok(()));
    }
    assert_eq!(sealer.seal(u64::MAX, &[], &mut [0; 4]), Err(SealError::Worn));
}

proptest! {
    /// Against a set of all numbers that have come.
    #[test]
    fn a_window_knows_what_has_come(
        steps in proptest::collection::vec((0_u64..3 * TRACKED, any::<bool>()), 1..400),
        base in prop_oneof![Just(0), Just(1 << 40)],
    ) {
        let (mut window, mut come, mut end) = (ReplayWindow::new(), BTreeSet::new(), 0);
        for (step, ahead) in steps {
            // Mostly near the end, sometimes far ahead.
            let near = (end + 100_u64).saturating_sub(step % (TRACKED + 200));
            let number = base.max(if ahead { end + step / 8 } else { near });
            let expected = if number >= end {
                ReplayVerdict::New
            } else if end - number > TRACKED {
                ReplayVerdict::Old
            } else if come.contains(&number) {
                ReplayVerdict::Come
            } else {
                ReplayVerdict::New
            };
            prop_assert_eq!(window.look(number), expected, "{} of {}", number, end);
            if expected == ReplayVerdict::New {
                window.mark(number);
                come.insert(number);
                end = end.max(number + 1);
            }
        }
    }

    #[test]
    fn each_record_opens_at_most_once_in_any_order(
        order in proptest::collection::vec((0_usize..64, any::<bool>()), 1..300),
    ) {
        let (mut sealer, mut opener) = ends();
        let numbers = RECORDS - 32..RECORDS + 32;
        let records: Vec<_> = numbers.map(|number| sealed(&mut sealer, number)).collect();
        let mut come = BTreeSet::new();
        for (at, is_forged) in order {
            let outcome = if is_forged {
                opened(&mut opener, &forged(&records[at]))
            } else {
                opened(&mut opener, &records[at])
            };
            let expected = match (come.contains(&at), is_forged) {
                (true, _) => Err(SealError::Repeated),
                (false, true) => Err(SealError::Forged),
                (false, false) => Ok(()),
            };
            // Before the first of the later key all of the earlier are open to come, after it too.
            prop_assert_eq!(outcome, expected);
            if outcome.is_ok() {
                come.insert(at);
            }
        }
    }
}
