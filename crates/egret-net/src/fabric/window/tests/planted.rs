//! Every fault that can be planted is caught by a test that is not about it.

use super::super::fault::{Fault, caught};
use super::{asleep, conformance, hostile, leaving};

#[test]
fn every_fault_is_caught() {
    for fault in [Fault::EagerBehind, Fault::ReceivesIgnored, Fault::CountsUntold] {
        let run = || assert!(conformance::failures(1, |_| {}).is_empty());
        assert!(caught(fault, run), "{fault:?} goes unnoticed");
    }
    let tests: [(Fault, fn()); 3] = [
        (Fault::LeavesAtOnce, leaving::what_was_sent_before_the_end_arrives_before_it),
        (Fault::CountsBelieved, hostile::nobody_takes_what_was_never_sent),
        (Fault::SleepsOn, asleep::a_sleeper_is_told_of_a_repeat_that_comes_sooner),
    ];
    for (fault, test) in tests {
        assert!(caught(fault, test), "{fault:?} goes unnoticed");
        test();
    }
}
