//! How soon to look again.
//!
//! Looking for a message takes the cache line away from the peer that is about to
//! write it. Who answers each message looks as soon as it can: the peer writes but
//! one, and the sooner it is seen the better. Who only listens leaves the peer time
//! to write several, and then takes them all.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::vi::{Op, Posted};

#[derive(Debug, Default)]
pub(super) struct Stride {
    /// Looks that found something since this side last said something.
    heard: AtomicU32,
}

impl Stride {
    /// How often to pause between two looks.
    #[inline]
    pub(super) fn pauses(&self) -> u32 {
        if self.heard.load(Relaxed) < LISTENS { 1 } else { PAUSES }
    }

    /// A look has found nothing: leaves the peer its time, if this side only listens.
    #[inline]
    pub(super) fn listen(&self) {
        if self.heard.load(Relaxed) >= LISTENS {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
    }

    /// A look has found something.
    #[inline]
    pub(super) fn heard(&self) {
        let heard = self.heard.load(Relaxed);
        if heard < LISTENS {
            self.heard.store(heard + 1, Relaxed);
        }
    }

    /// This side says something, unless it is about to listen more.
    #[inline]
    pub(super) fn posted(&self, posted: &Posted) {
        if !matches!(posted.op(), Op::Recv) {
            self.spoke();
        }
    }

    /// This side says something.
    #[inline]
    pub(super) fn spoke(&self) {
        // Seldom written: it lies beside what other threads read.
        if self.heard.load(Relaxed) != 0 {
            self.heard.store(0, Relaxed);
        }
    }
}

/// So many in a row are one-way traffic.
const LISTENS: u32 = 4;
/// About the time in which a few messages are written.
const PAUSES: u32 = 16;
