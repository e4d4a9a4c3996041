//! Records of a stream.

use super::key;
use crate::fabric::seal::cipher::{Cipher, Tag};
use crate::fabric::seal::epoch::RECORDS;
use crate::fabric::seal::{Opener, SealError, Sealer};

fn ends() -> (Sealer, Opener) {
    (Sealer::new(key(1)), Opener::new(key(1)))
}

fn sealed(sealer: &mut Sealer, text: &[u8]) -> (Vec<u8>, Tag) {
    let mut bytes = text.to_vec();
    let tag = sealer.seal(b"beside", &mut bytes).unwrap();
    (bytes, tag)
}

fn opened(opener: &mut Opener, (bytes, tag): &(Vec<u8>, Tag)) -> Result<Vec<u8>, SealError> {
    let mut bytes = bytes.clone();
    opener.open(b"beside", &mut bytes, tag).map(|()| bytes)
}

pub(super) fn in_order_and_once() {
    let (mut sealer, mut opener) = ends();
    let records: Vec<_> = (0..4).map(|at| sealed(&mut sealer, &[at; 20])).collect();
    for (at, record) in records.iter().enumerate() {
        assert_eq!(opened(&mut opener, record), Ok(vec![at.to_le_bytes()[0]; 20]));
    }
    for wrong in [&[0, 0][..], &[1], &[0, 2], &[3, 2, 1, 0]] {
        let mut opener = Opener::new(key(1));
        let failed = wrong.iter().find_map(|at| opened(&mut opener, &records[*at]).err());
        assert_eq!(failed, Some(SealError::Forged), "{wrong:?}");
    }
}

#[test]
fn records_open_in_their_order_and_once() {
    in_order_and_once();
}

pub(super) fn what_is_beside() {
    let (mut sealer, mut opener) = ends();
    let (mut bytes, tag) = sealed(&mut sealer, b"text");
    assert_eq!(opener.open(b"others", &mut bytes, &tag), Err(SealError::Forged));
}

#[test]
fn what_is_beside_a_record_is_proven_too() {
    what_is_beside();
}

#[test]
fn the_key_of_the_other_direction_opens_nothing() {
    let (mut sealer, _) = ends();
    let record = sealed(&mut sealer, b"text");
    assert_eq!(opened(&mut Opener::new(key(2)), &record), Err(SealError::Forged));
}

/// Both ends take the next key at the same record, and who has that opens no record before it.
pub(super) fn keys_change() {
    let (mut sealer, mut opener) = ends();
    sealer.skip_to(RECORDS - 2);
    opener.skip_to(RECORDS - 2);
    let records: Vec<_> = (0..4).map(|at| sealed(&mut sealer, &[at; 20])).collect();
    for record in &records {
        assert!(opened(&mut opener, record).is_ok());
    }
    let first = Cipher::new(&key(1));
    let second = Cipher::new(&key(1).next(&first));
    for (number, cipher) in (RECORDS - 2..).zip([&first, &first, &second, &second]) {
        let at = usize::try_from(number + 2 - RECORDS).unwrap();
        let (mut bytes, tag) = records[at].clone();
        let opened = cipher.open(number, b"beside", &mut bytes, &tag);
        assert_eq!(opened, Ok(()), "record {number}");
    }
    for (number, (bytes, tag)) in (RECORDS - 2..RECORDS).zip(&records) {
        let opened = second.open(number, b"beside", &mut bytes.clone(), tag);
        assert_eq!(opened, Err(SealError::Forged), "record {number} by the next key");
    }
}

#[test]
fn both_ends_take_the_next_key_at_the_same_record() {
    keys_change();
}

#[test]
fn numbers_that_end_are_an_error() {
    let (mut sealer, mut opener) = ends();
    sealer.skip_to(u64::MAX - 1);
    opener.skip_to(u64::MAX - 1);
    let last = sealed(&mut sealer, b"last");
    assert_eq!(opened(&mut opener, &last), Ok(b"last".to_vec()));
    for _ in 0..2 {
        assert_eq!(sealer.seal(&[], &mut [0; 9]), Err(SealError::Worn));
        assert_eq!(opened(&mut opener, &last), Err(SealError::Worn));
    }
}
