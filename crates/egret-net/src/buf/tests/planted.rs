//! A check that cannot fail is no check: each fault planted in the protocol is
//! found by the one named here.

use super::{bias, model, plan, protocol};
use crate::atomics::checker::check;
use crate::buf::fault::{Fault, caught};

#[test]
fn the_model_checker_finds_planted_faults() {
    let faults: [(Fault, fn()); 8] = [
        (Fault::NoTag, protocol::head_came_back),
        (Fault::LinkUnreleased, protocol::gives_at_once),
        (Fault::WakeForgotten, protocol::waiter_woken),
        (Fault::RaiseBeforeQueue, protocol::waiter_woken),
        (Fault::QueueAfterGive, protocol::wake_after_close),
        (Fault::LetGoRelaxed, protocol::last_reader),
        (Fault::LetGoTorn, protocol::last_reader),
        (Fault::CloseMiscounts, protocol::closed_pool),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, || check(scene)), "{fault:?} was not found");
        check(scene);
    }
}

#[test]
fn the_model_checker_finds_faults_of_the_stash() {
    let faults: [(Fault, fn()); 8] = [
        (Fault::CheckBeforeBusy, bias::one_holder_of_a_stash),
        (Fault::NoLightFence, bias::one_holder_of_a_stash),
        (Fault::RevokeUnawaited, bias::one_holder_of_a_stash),
        (Fault::BusyRelaxed, bias::taker_revokes),
        (Fault::RevokedEarly, bias::two_revokers),
        (Fault::CacheForgotten, bias::taker_revokes),
        (Fault::SleepUnrevoked, bias::owner_wakes),
        (Fault::CloseUnrevoked, bias::closed_over_a_stash),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, || check(scene)), "{fault:?} was not found");
    }
}

#[test]
fn random_histories_find_planted_faults() {
    for fault in [Fault::CountNotRestored, Fault::SplitForgotten, Fault::JoinForgotten] {
        assert!(caught(fault, model::random_histories), "{fault:?} was not found");
    }
}

#[test]
fn a_plan_that_is_believed_is_found() {
    assert!(caught(Fault::PlanUnchecked, plan::wrong_plans));
}
