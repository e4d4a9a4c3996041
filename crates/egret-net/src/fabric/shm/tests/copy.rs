use proptest::prelude::*;

use crate::fabric::shm::copy::{copy_in, copy_out};

#[test]
fn a_copy_of_any_length_is_exact_at_any_place() {
    every_place_and_length();
}

pub(super) fn every_place_and_length() {
    for len in 0..200 {
        for place in 0..64 {
            let (shared_at, private_at) = (place % 8, place / 8);
            copies_exactly(shared_at, private_at, len);
        }
    }
}

proptest! {
    #[test]
    fn long_copies_are_exact(shared_at in 0..64_usize, private_at in 0..64_usize, len in 0..9000_usize) {
        copies_exactly(shared_at, private_at, len);
    }
}

/// Both ways, against what a plain copy does, with the bytes around them.
fn copies_exactly(shared_at: usize, private_at: usize, len: usize) {
    let source = Arena::counting(private_at + len);
    let mut shared = Arena::blank(shared_at + len);
    let mut expected = shared.bytes().to_vec();
    let from = &source.bytes()[private_at..][..len];
    expected[shared_at..][..len].copy_from_slice(from);
    let to = shared.base().wrapping_add(shared_at);
    // SAFETY: the arena is longer, of whole words, and nobody else has it.
    unsafe { copy_in(from, to) };
    assert_eq!(shared.bytes(), expected, "in: {len} bytes from {private_at} to {shared_at}");

    let mut private = Arena::blank(private_at + len);
    let mut expected = private.bytes().to_vec();
    expected[private_at..][..len].copy_from_slice(from);
    let from = shared.base().wrapping_add(shared_at);
    // SAFETY: the arena is longer, and nobody writes it.
    unsafe { copy_out(from, &mut private.bytes_mut()[private_at..][..len]) };
    assert_eq!(private.bytes(), expected, "out: {len} bytes from {shared_at} to {private_at}");
}

/// Aligned memory with some room behind.
struct Arena(Vec<u64>);

impl Arena {
    fn blank(bytes: usize) -> Self {
        Self(vec![0xEEEE_EEEE_EEEE_EEEE; bytes.div_ceil(8) + ROOM])
    }

    fn counting(bytes: usize) -> Self {
        let mut arena = Self::blank(bytes);
        for (index, byte) in arena.bytes_mut().iter_mut().enumerate() {
            *byte = u8::try_from(index % 251).unwrap();
        }
        arena
    }

    fn base(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

const ROOM: usize = 16;
