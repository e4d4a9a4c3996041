//! Faults that the trials find.

use egret_net::fabric::sim::{Sim, check};

use super::trials::{a_link_dies, both_begin_anew, letters_arrive, one_dies, one_lies};
use crate::graph::fault::{Fault, caught};

type Trial = fn(&Sim);

#[test]
fn each_fault_is_noticed() {
    let all: [(Fault, Trial); 11] = [
        (Fault::LastFirst, letters_arrive),
        (Fault::OtherSender, letters_arrive),
        (Fault::OthersToo, letters_arrive),
        (Fault::NotPosted, letters_arrive),
        (Fault::AnyChannel, both_begin_anew),
        (Fault::Kept, both_begin_anew),
        (Fault::GoneUnheard, one_dies),
        (Fault::DiedUnheard, a_link_dies),
        (Fault::AnySize, one_lies),
        (Fault::Halves, letters_arrive),
        (Fault::NotBack, one_dies),
    ];
    for (fault, trial) in all {
        assert!(caught(fault, || check(0..30, trial)), "{fault:?} was not noticed");
    }
}
