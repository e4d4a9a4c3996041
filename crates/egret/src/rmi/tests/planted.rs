//! Faults that the trials find.

use std::time::Duration;

use egret_net::rt::{self, Deadline};

use super::seeds::try_seeds;
use super::thing::Thing;
use crate::rmi::NodeId;
use crate::rmi::context::{CallFrame, Inherited, MethodName};
use crate::rmi::fault::{Fault, caught};
use crate::rmi::head::EnclosingCalls;
use crate::rmi::interface_table::StubInterface;

fn is_found(fault: Fault) {
    assert!(caught(fault, || _ = try_seeds(0..150)), "{fault:?} was not noticed");
}

#[test]
fn a_call_that_was_cancelled_and_runs_is_noticed() {
    is_found(Fault::CancelLost);
}

#[test]
fn a_call_that_runs_after_its_deadline_is_noticed() {
    is_found(Fault::RunsExpired);
}

#[test]
fn calls_of_a_caller_that_is_gone_are_noticed() {
    is_found(Fault::GoneUnheard);
}

#[test]
fn an_object_that_lets_nobody_else_in_is_noticed() {
    is_found(Fault::NobodyNext);
}

#[test]
fn two_calls_that_exclude_each_other_are_noticed() {
    is_found(Fault::TwoInside);
}

#[test]
fn a_call_that_ran_and_is_said_not_to_is_noticed() {
    is_found(Fault::SaidNotRun);
}

#[test]
fn a_call_that_forgets_the_time_it_has_left_is_noticed() {
    inherits();
    assert!(caught(Fault::Timeless, inherits));
}

/// A call that is made inside of another waits no longer than that.
fn inherits() {
    let second = Duration::from_secs(1);
    let (node, interface) = (NodeId { rank: 0, incarnation: 0 }, StubInterface::of::<dyn Thing>());
    let method = MethodName { node, object: 0, interface, method: 0 };
    let frame = CallFrame::here(method, Some(rt::now() + second), EnclosingCalls::default(), 0);
    frame.run(|| {
        for own in [Deadline::UntilDead, Deadline::In(2 * second)] {
            let Deadline::In(left) = Inherited::by(own).deadline else { panic!("no deadline") };
            assert!(left <= second, "{left:?}");
        }
        let short = Deadline::In(second / 1000);
        assert_eq!(Inherited::by(short).deadline, short);
    });
    assert_eq!(Inherited::by(Deadline::UntilDead).deadline, Deadline::UntilDead);
}
