//! A check that cannot fail is no check: each fault planted here is found by the one named here.

use super::{model, posts, rules};
use crate::channel_table::fault::{Fault, caught};
use crate::flow::fault as of_flow;

#[test]
fn checks_find_planted_faults() {
    let faults: [(Fault, fn()); 6] = [
        (Fault::DroppedCharged, model::any_sequence),
        (Fault::LateAbort, model::any_sequence),
        (Fault::AbortedSent, rules::an_abort_takes_back_what_waits),
        (Fault::AbortedSent, model::any_sequence),
        (Fault::RefusalKept, rules::a_refusal_is_for_one_message),
        (Fault::LastPosted, posts::they_go_in_order),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
    let faults: [(of_flow::Fault, fn()); 5] = [
        (of_flow::Fault::Unchecked, rules::credit_is_checked),
        (of_flow::Fault::Spendthrift, model::any_sequence),
        (of_flow::Fault::WantForgotten, model::any_sequence),
        (of_flow::Fault::NotRecalled, rules::idle_credit_is_asked_for),
        (of_flow::Fault::AskedBack, rules::promises_are_kept),
    ];
    for (fault, scene) in faults {
        assert!(of_flow::caught(fault, scene), "{fault:?} was not found");
    }
}
