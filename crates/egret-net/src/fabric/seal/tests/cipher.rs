//! Both implementations are AES-256-GCM.

use proptest::prelude::*;

use super::key;
use crate::fabric::seal::cipher::Cipher;
use crate::fabric::seal::{SealError, SealKey, SealKeys};

#[test]
fn a_record_has_the_bytes_that_the_standard_says() {
    let zeros = SealKey::new([0; 32]);
    for cipher in [Cipher::new(&zeros), Cipher::portable(&zeros)] {
        let mut bytes = [0; 16];
        let tag = cipher.seal(0, &[], &mut bytes);
        assert_eq!(u128::from_be_bytes(bytes), 0xcea7_403d_4d60_6b6e_074e_c5d3_baf3_9d18);
        assert_eq!(u128::from_be_bytes(tag), 0xd0d1_c8a7_9999_6bf0_265b_98b5_d48a_b919);
    }
}

#[test]
fn a_key_is_not_printed() {
    let keys = SealKeys { outgoing: key(1), incoming: key(2) };
    assert_eq!(format!("{keys:?}"), "SealKeys { outgoing: SealKey(..), incoming: SealKey(..) }");
    assert!(!format!("{:?}", Cipher::new(&key(1))).contains(|c: char| c.is_ascii_digit()));
}

#[test]
fn the_next_key_is_32_zeros_sealed_under_the_last_number() {
    let cipher = Cipher::portable(&key(1));
    let mut bytes = [0; 32];
    cipher.seal(u64::MAX, &[], &mut bytes);
    assert_eq!(key(1).next(&Cipher::new(&key(1))).bytes(), &bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn one_implementation_opens_what_the_other_has_sealed(
        plain in proptest::collection::vec(any::<u8>(), 0..3000),
        beside in proptest::collection::vec(any::<u8>(), 0..20),
        number in any::<u64>(),
        flipped in any::<usize>(),
    ) {
        let ciphers = [Cipher::new(&key(3)), Cipher::portable(&key(3))];
        for (one, other) in [(0, 1), (1, 0)] {
            let mut bytes = plain.clone();
            let mut tag = ciphers[one].seal(number, &beside, &mut bytes);
            let sealed = bytes.clone();
            prop_assert!(ciphers[other].open(number, &beside, &mut bytes, &tag).is_ok());
            prop_assert_eq!(&bytes, &plain);
            bytes.copy_from_slice(&sealed);
            prop_assert!(ciphers[other].open(number ^ 1, &beside, &mut bytes, &tag).is_err());
            bytes.copy_from_slice(&sealed);
            let bit = flipped % (8 * (bytes.len() + tag.len()));
            match bytes.get_mut(bit / 8) {
                Some(byte) => *byte ^= 1 << (bit % 8),
                None => tag[bit / 8 - plain.len()] ^= 1 << (bit % 8),
            }
            let opened = ciphers[other].open(number, &beside, &mut bytes, &tag);
            prop_assert_eq!(opened, Err(SealError::Forged));
        }
    }
}
