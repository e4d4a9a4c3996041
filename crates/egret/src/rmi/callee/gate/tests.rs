//! Any sequence of calls against what a gate promises.

use proptest::prelude::*;

use super::*;
use crate::rmi::fault::caught;

/// A gate, and all that came to it.
#[derive(Default)]
struct Model {
    gate: Gate<u64>,
    /// What each call needs the object for, by its number less one.
    calls: Vec<MethodAccess>,
    inside: Vec<u64>,
    waiting: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Act {
    /// A call, part of some of those inside (by their place).
    Come { access: MethodAccess, within: Vec<usize> },
    /// One of those inside ends.
    Leave(usize),
    /// One of those that wait does not want to any more.
    GiveUp(usize),
}

impl Model {
    fn access(&self, number: u64) -> MethodAccess {
        self.calls[usize::try_from(number).unwrap() - 1]
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Come { access, within } => self.come(*access, within),
            Act::Leave(at) => self.leave(*at),
            Act::GiveUp(at) => self.give_up(*at),
        }
        self.check();
    }

    fn come(&mut self, access: MethodAccess, within: &[usize]) {
        let number = self.calls.len() as u64 + 1;
        let within: Vec<u64> = within
            .iter()
            .map(|at| {
                // Of a call that is inside, of one that is over, or of another object.
                self.inside.get(*at).copied().unwrap_or(1_000_000)
            })
            .collect();
        self.calls.push(access);
        let is_part = within.iter().any(|number| self.inside.contains(number));
        let shares = access == MethodAccess::Shared
            && self.inside.iter().all(|inside| self.access(*inside) == MethodAccess::Shared);
        let verdict = self.gate.try_enter(number, access, &within);
        let expected = match (is_part, shares) {
            (true, true) => GateVerdict::Enter,
            (true, false) => GateVerdict::Reentered,
            (false, _) if self.inside.is_empty() => GateVerdict::Enter,
            (false, true) if self.waiting.is_empty() => GateVerdict::Enter,
            (false, _) => GateVerdict::Wait,
        };
        assert_eq!(verdict, expected, "{access:?} within {within:?}, {:?} inside", self.inside);
        match verdict {
            GateVerdict::Enter => self.inside.push(number),
            GateVerdict::Wait => {
                self.gate.wait(number, access, number);
                self.waiting.push(number);
            }
            GateVerdict::Reentered => {}
        }
    }

    fn leave(&mut self, at: usize) {
        if self.inside.is_empty() {
            return;
        }
        let number = self.inside.remove(at % self.inside.len());
        self.over(number);
    }

    fn give_up(&mut self, at: usize) {
        if !self.waiting.is_empty() {
            let number = self.waiting.remove(at % self.waiting.len());
            self.over(number);
        }
    }

    fn over(&mut self, number: u64) {
        let mut entered = Vec::new();
        self.gate.leave(number, |call| entered.push(call));
        for call in entered {
            assert_eq!(self.waiting.first(), Some(&call), "in the order they came");
            self.waiting.remove(0);
            self.inside.push(call);
        }
    }

    /// What holds at any time.
    fn check(&self) {
        let exclusive =
            self.inside.iter().filter(|it| self.access(**it) == MethodAccess::Exclusive);
        if exclusive.count() > 0 {
            assert_eq!(self.inside.len(), 1, "an exclusive call is alone");
        }
        if self.inside.is_empty() {
            assert!(self.waiting.is_empty(), "somebody waits for nobody");
        }
    }

    /// Everybody leaves, and everybody has been inside.
    fn end(mut self) {
        while !self.inside.is_empty() {
            self.leave(0);
            self.check();
        }
        assert!(self.gate.is_free());
    }
}

fn run(acts: &[Act]) {
    let mut model = Model::default();
    acts.iter().for_each(|act| model.act(act));
    model.end();
}

fn act() -> impl Strategy<Value = Act> {
    let access = prop_oneof![3 => Just(MethodAccess::Shared), 2 => Just(MethodAccess::Exclusive)];
    let within =
        prop_oneof![3 => Just(Vec::new()), 1 => proptest::collection::vec(0..4_usize, 1..3)];
    prop_oneof![
        3 => (access, within).prop_map(|(access, within)| Act::Come { access, within }),
        2 => (0..4_usize).prop_map(Act::Leave),
        1 => (0..4_usize).prop_map(Act::GiveUp),
    ]
}

proptest! {
    #[test]
    fn whatever_comes_a_gate_keeps_its_promises(acts in proptest::collection::vec(act(), 0..60)) {
        run(&acts);
    }
}

#[test]
fn a_call_that_comes_back_is_known() {
    let mut gate = Gate::<u64>::default();
    assert_eq!(gate.try_enter(1, MethodAccess::Exclusive, &[]), GateVerdict::Enter);
    assert_eq!(gate.try_enter(2, MethodAccess::Shared, &[7, 1]), GateVerdict::Reentered);
    assert_eq!(gate.try_enter(3, MethodAccess::Exclusive, &[1]), GateVerdict::Reentered);
    assert_eq!(gate.try_enter(4, MethodAccess::Shared, &[7]), GateVerdict::Wait);
    gate.leave(1, |_| panic!("nobody waits"));
    assert_eq!(gate.try_enter(5, MethodAccess::Shared, &[]), GateVerdict::Enter);
    gate.wait(6, MethodAccess::Exclusive, 6);
    assert_eq!(
        gate.try_enter(7, MethodAccess::Shared, &[5]),
        GateVerdict::Enter,
        "before who waits"
    );
    assert_eq!(gate.try_enter(8, MethodAccess::Shared, &[]), GateVerdict::Wait, "behind who waits");
}

#[test]
fn planted_faults_are_caught() {
    let come = |access, within: &[usize]| Act::Come { access, within: within.to_vec() };
    let acts = [
        come(MethodAccess::Shared, &[]),
        come(MethodAccess::Exclusive, &[]),
        come(MethodAccess::Shared, &[]),
        come(MethodAccess::Exclusive, &[0]),
        Act::Leave(0),
        come(MethodAccess::Shared, &[]),
    ];
    run(&acts);
    for fault in [Fault::TwoInside, Fault::NobodyNext, Fault::JumpsQueue, Fault::NoChain] {
        assert!(caught(fault, || run(&acts)), "{fault:?} was not noticed");
    }
}
