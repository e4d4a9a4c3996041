//! Who may run on an object now: any number of shared calls, or one that is exclusive.
//!
//! A call that must wait waits here and not on a worker. Calls enter in the order they came,
//! but for one: a shared call that is part of a call which is inside already enters at once,
//! for whoever stands before it may wait for that.
//!
//! Every call inside has a number, and a call that it makes carries the numbers of all calls
//! it is a part of. So a call that comes back to an object that waits for it is known: if
//! either of the two is exclusive, it could only wait for ever, and is refused.

use std::collections::VecDeque;

use super::fault::{Fault, planted};

#[cfg(test)]
mod tests;

/// The gate of an object; `T` is what waits.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    /// Numbers of the calls inside.
    inside: Vec<u64>,
    is_exclusive: bool,
    waiting: VecDeque<Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    access: Access,
    call: T,
}

/// What a call needs an object for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// `&self`
    Shared,
    /// `&mut self`
    Exclusive,
}

/// What a gate says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Enter,
    Wait,
    /// It is part of a call inside.
    Reentered,
}

impl<T> Default for Gate<T> {
    fn default() -> Self {
        Self { inside: Vec::new(), is_exclusive: false, waiting: VecDeque::new() }
    }
}

impl<T> Gate<T> {
    /// Lets a call in that is part of the calls `within`, if it may enter now.
    pub(crate) fn try_enter(&mut self, number: u64, access: Access, within: &[u64]) -> Verdict {
        let verdict = self.verdict(access, within);
        if verdict == Verdict::Enter {
            self.inside.push(number);
            self.is_exclusive = access == Access::Exclusive;
        }
        verdict
    }

    /// Puts a call behind those that wait.
    pub(crate) fn wait(&mut self, number: u64, access: Access, call: T) {
        self.waiting.push_back(Waiting { number, access, call });
    }

    /// A call that is inside, or waits, is over. Those that enter now are given to `enters`.
    pub(crate) fn leave(&mut self, number: u64, mut enters: impl FnMut(T)) {
        if let Some(at) = self.inside.iter().position(|inside| *inside == number) {
            self.inside.swap_remove(at);
        } else {
            self.waiting.retain(|waiting| waiting.number != number);
        }
        if self.inside.is_empty() {
            self.is_exclusive = false;
        }
        while let Some(next) = self.waiting.front() {
            if !self.has_room(next.access) || planted(Fault::NobodyNext) {
                return;
            }
            let next = self.waiting.pop_front().expect("just looked at");
            self.inside.push(next.number);
            self.is_exclusive = next.access == Access::Exclusive;
            enters(next.call);
        }
    }

    /// Whether nobody is inside and nobody waits.
    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        self.inside.is_empty() && self.waiting.is_empty()
    }

    fn verdict(&self, access: Access, within: &[u64]) -> Verdict {
        let shares = access == Access::Shared && !self.is_exclusive;
        if within.iter().any(|number| self.inside.contains(number)) && !planted(Fault::NoChain) {
            return if shares { Verdict::Enter } else { Verdict::Reentered };
        }
        let is_first = self.waiting.is_empty() || planted(Fault::JumpsQueue);
        match self.has_room(access) && is_first {
            true => Verdict::Enter,
            false => Verdict::Wait,
        }
    }

    fn has_room(&self, access: Access) -> bool {
        let shares = access == Access::Shared && !self.is_exclusive;
        self.inside.is_empty() || shares || planted(Fault::TwoInside)
    }
}
