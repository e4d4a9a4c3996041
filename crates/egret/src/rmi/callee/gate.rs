//! Gate of an object: lets in any number of shared calls, or one exclusive call.
//!
//! A call that must wait waits here and not on a worker. Calls enter in the order they came,
//! but for one: a shared call that is part of a call which is inside already enters at once,
//! for the call before it may wait for that.
//!
//! Every call inside has a number, and a call that it makes carries the numbers of all calls
//! it is a part of. So a call that comes back to an object that waits for it is known: if
//! either of the two is exclusive, it could only wait for ever, and is refused.

use std::collections::VecDeque;

use crate::rmi::fault::{Fault, planted};

#[cfg(test)]
mod tests;

/// The gate of an object; `T` is what waits.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    /// Numbers of the calls inside.
    inside: Vec<u64>,
    is_exclusive: bool,
    waiting: VecDeque<GateWaiter<T>>,
}

#[derive(Debug)]
struct GateWaiter<T> {
    number: u64,
    access: MethodAccess,
    call: T,
}

/// How a method uses its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodAccess {
    /// `&self`
    Shared,
    /// `&mut self`
    Exclusive,
}

/// The decision of a gate about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateVerdict {
    Enter,
    Wait,
    /// The call is a part of one inside, and one of both is exclusive.
    Reentered,
}

impl<T> Default for Gate<T> {
    fn default() -> Self {
        Self { inside: Vec::new(), is_exclusive: false, waiting: VecDeque::new() }
    }
}

impl<T> Gate<T> {
    /// Lets a call in that is part of the calls `within`, if it may enter now.
    pub(crate) fn try_enter(
        &mut self,
        number: u64,
        access: MethodAccess,
        within: &[u64],
    ) -> GateVerdict {
        let verdict = self.verdict(access, within);
        if verdict == GateVerdict::Enter {
            self.inside.push(number);
            self.is_exclusive = access == MethodAccess::Exclusive;
        }
        verdict
    }

    /// Puts a call behind those that wait.
    pub(crate) fn wait(&mut self, number: u64, access: MethodAccess, call: T) {
        self.waiting.push_back(GateWaiter { number, access, call });
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
        while let Some(next) = self.take_next() {
            self.inside.push(next.number);
            self.is_exclusive = next.access == MethodAccess::Exclusive;
            enters(next.call);
        }
    }

    /// The first waiting call, if there is room for it.
    fn take_next(&mut self) -> Option<GateWaiter<T>> {
        let next = self.waiting.front()?;
        let enters = self.has_room(next.access) && !planted(Fault::NobodyNext);
        if enters { self.waiting.pop_front() } else { None }
    }

    /// Whether no call is inside and none waits.
    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        self.inside.is_empty() && self.waiting.is_empty()
    }

    fn verdict(&self, access: MethodAccess, within: &[u64]) -> GateVerdict {
        let shares = access == MethodAccess::Shared && !self.is_exclusive;
        if self.is_inside(within) {
            return if shares { GateVerdict::Enter } else { GateVerdict::Reentered };
        }
        match self.has_room(access) && self.is_first() {
            true => GateVerdict::Enter,
            false => GateVerdict::Wait,
        }
    }

    /// Whether a call is a part of one that is inside.
    fn is_inside(&self, within: &[u64]) -> bool {
        within.iter().any(|number| self.inside.contains(number)) && !planted(Fault::NoChain)
    }

    fn is_first(&self) -> bool {
        self.waiting.is_empty() || planted(Fault::JumpsQueue)
    }

    fn has_room(&self, access: MethodAccess) -> bool {
        let shares = access == MethodAccess::Shared && !self.is_exclusive;
        self.inside.is_empty() || shares || planted(Fault::TwoInside)
    }
}
