//! What happened last, for the report of a failure, and a digest of everything
//! that happened, to tell whether two runs were the same.

use std::collections::VecDeque;
use std::fmt::Write;

use crate::buf::{FINGERPRINT_SEED, fingerprint};
use crate::rt::Instant;

const KEPT: usize = 60;
/// An odd number with half its bits set.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub(super) struct Trace {
    last: VecDeque<TraceEntry>,
    digest: u64,
}

/// One event: formatted only if it is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceEntry {
    pub at: Instant,
    pub from: usize,
    pub to: usize,
    pub what: &'static str,
    pub number: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { last: VecDeque::with_capacity(KEPT), digest: FINGERPRINT_SEED }
    }
}

impl Trace {
    pub(super) fn add(&mut self, entry: TraceEntry) {
        let numbers = [entry.at.as_nanos(), entry.from as u64, entry.to as u64, entry.number];
        self.mix(&numbers);
        self.digest = fingerprint(self.digest, entry.what.as_bytes());
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(entry);
    }

    /// Takes something into the digest alone.
    pub(super) fn mix(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.digest = (self.digest ^ number).wrapping_mul(MIX).rotate_left(29);
        }
    }

    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn print(&self, name: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for TraceEntry { at, from, to, what, number } in &self.last {
            let (from, to) = (name(*from), name(*to));
            writeln!(text, "{at:>14?}  {from} -> {to}  {what} {number}")
                .expect("a string takes all");
        }
        text
    }
}
