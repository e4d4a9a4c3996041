//! What is over against a set that forgets nothing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::fabric::udp::message_history::{MessageHistory, SPAN};

/// Numbers near each other, and now and then a leap.
fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![8 => 0..5_u64, 2 => 0..200_u64, 1 => 900..1200_u64, 1 => any::<u32>().prop_map(u64::from)];
    proptest::collection::vec((step, 0..40_u64), 1..200).prop_map(|steps| {
        let mut top = 0;
        let numbers = steps.into_iter().map(|(step, back)| {
            top += step;
            u64::saturating_sub(top, back)
        });
        numbers.collect()
    })
}

proptest! {
    #[test]
    fn what_is_over_stays_so_and_nothing_else_near_is(numbers in numbers()) {
        let (mut window, mut over) = (MessageHistory::default(), BTreeSet::new());
        let mut top = 0;
        for number in numbers {
            let is_old = number + SPAN < top;
            prop_assert_eq!(window.is_over(number), is_old || over.contains(&number), "{}", number);
            window.end(number);
            over.insert(number);
            top = top.max(number + 1);
            prop_assert!(window.is_over(number));
        }
        for number in over {
            prop_assert!(window.is_over(number), "{} was forgotten", number);
        }
    }
}

#[test]
fn the_largest_numbers_are_numbers() {
    let mut window = MessageHistory::default();
    window.end(u64::MAX - 1);
    assert!(window.is_over(u64::MAX - 1) && window.is_over(0));
    assert!(!window.is_over(u64::MAX - 2));
}
