//! What a visitor believes of how a pool is cut.

use proptest::prelude::*;

use crate::buf::Pool;
use crate::buf::plan::{PlanError, PoolPlan};

#[test]
fn a_plan_is_what_the_pool_is() {
    let pool = Pool::builder().class(10, 3).class(5000, 2).cooperating().build().unwrap();
    let plan = PoolPlan::of(&pool.take(1).unwrap()).unwrap();
    let words = plan.words();
    assert_eq!(words, [10, 64, 0, 3, 5000, 8192, 4096, 2]);
    let read = PoolPlan::read(&words, pool.region().len()).unwrap();
    assert_eq!(read.words(), words);
}

#[test]
fn a_plan_that_cannot_be_is_an_error() {
    wrong_plans();
}

pub(super) fn wrong_plans() {
    let len = 4096;
    assert_eq!(PoolPlan::read(&[], len), Err(PlanError::Words { words: 0 }));
    assert_eq!(PoolPlan::read(&[64, 64, 0], len), Err(PlanError::Words { words: 3 }));
    assert!(PoolPlan::read(&[64; 65 * 4], len).is_err(), "too many classes");
    let wrong: [&[u64]; 12] = [
        &[0, 64, 0, 1],
        &[64, 64, 0, 0],
        &[65, 64, 0, 1],
        &[64, 65, 0, 1],
        &[64, 64, 1, 1],
        &[64, 64, 0, 65],
        &[64, 64, 4096, 1],
        &[64, 64, 0, 1 << 24],
        &[64, 1 << 63, 0, 2],
        &[64, 64, u64::MAX - 63, 1],
        &[64, 64, 0, 2, 128, 128, 64, 1],
        &[64, 64, 0, 2, 64, 64, 128, 1],
    ];
    for words in wrong {
        let why = PoolPlan::read(words, len);
        assert!(matches!(why, Err(PlanError::Class { .. })), "{words:?}: {why:?}");
    }
    assert!(PoolPlan::read(&[64, 64, 0, 64], len).is_ok());
}

proptest! {
    /// Whatever comes: no slot outside, none over another.
    #[test]
    fn slots_of_a_plan_lie_apart(words in prop::collection::vec(word(), 4..=12)) {
        let Ok(plan) = PoolPlan::read(&words, LEN) else { return Ok(()) };
        let mut end = 0;
        for class in plan.words().as_chunks::<4>().0 {
            let [bytes, stride, offset, count] = *class;
            prop_assert!(offset >= end && bytes <= stride && bytes > 0);
            end = offset + stride * count;
        }
        prop_assert!(end <= LEN as u64);
    }
}

const LEN: usize = 1 << 16;

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (0..40_u64).prop_map(|n| n * 64), 4 => 1..4_u64, 1 => any::<u64>()]
}
