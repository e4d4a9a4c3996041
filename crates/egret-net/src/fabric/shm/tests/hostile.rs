//! A peer that writes anything at all.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use proptest::collection::vec;
use proptest::prelude::*;

use super::shared;
use crate::fabric::shm::memory::WORD;
use crate::rt;

/// What the peer does next, and what this side does.
#[derive(Debug, Clone)]
enum Step {
    Write { offset: usize, bytes: Vec<u8> },
    CopyOut { offset: u64, bytes: usize },
    Load { offset: u64 },
}

proptest! {
    #[test]
    fn nonsense_is_read_as_it_is(steps in vec(step(), 1..60)) {
        let (own, foreign) = shared(BYTES);
        let mut model = vec![0; BYTES];
        for step in steps {
            match step {
                Step::Write { offset, bytes } => {
                    own.copy_in(offset, &bytes);
                    model[offset..][..bytes.len()].copy_from_slice(&bytes);
                }
                Step::CopyOut { offset, bytes } => {
                    let mut copied = vec![0; bytes];
                    let outcome = foreign.copy_out(offset, &mut copied);
                    let inside = inside(&model, offset, bytes);
                    prop_assert_eq!(outcome.ok().map(|()| &copied[..]), inside);
                }
                Step::Load { offset } => {
                    let inside = inside(&model, offset, WORD).filter(|_| offset % 8 == 0);
                    let expected = inside.map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
                    prop_assert_eq!(foreign.load(offset, Relaxed), expected);
                }
            }
        }
    }
}

/// A writer that never stops: whatever is read is one of the things that were
/// written, byte by byte, and the reader comes to an end.
#[test]
fn a_peer_that_keeps_writing_changes_nothing_but_bytes() {
    let (own, foreign) = shared(BYTES);
    own.copy_in(0, &[1; BYTES]);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let writing = rt::spawn("peer", move || {
        for value in (1..=3).cycle() {
            own.copy_in(0, &[value; BYTES]);
            if told.load(Relaxed) {
                return;
            }
        }
    })
    .unwrap();
    let mut copied = vec![0; BYTES];
    for round in 0..2000 {
        let (at, len) = (round % 16, 1 + round * 7 % 2000);
        foreign.copy_out(at as u64, &mut copied[..len]).unwrap();
        assert!(copied[..len].iter().all(|byte| (1..=3).contains(byte)));
    }
    stop.store(true, Relaxed);
    writing.join().unwrap();
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = vec(any::<u8>(), 0..200);
    let offset = prop_oneof![0..BYTES as u64 + 70, any::<u64>()];
    prop_oneof![
        2 => (0..BYTES - 200, bytes).prop_map(|(offset, bytes)| Step::Write { offset, bytes }),
        2 => (offset.clone(), 0..BYTES + 2).prop_map(|(offset, bytes)| Step::CopyOut { offset, bytes }),
        1 => offset.prop_map(|offset| Step::Load { offset }),
    ]
}

fn inside(model: &[u8], offset: u64, bytes: usize) -> Option<&[u8]> {
    let offset = usize::try_from(offset).ok()?;
    model.get(offset..offset.checked_add(bytes)?)
}

const BYTES: usize = 4096;
