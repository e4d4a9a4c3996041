//! Records of datagrams: each says its number, and they may be lost, repeated and late.
//!
//! The key of a record follows from its number, so the loss of some parts no ends. The end that opens
//! keeps the key of the epoch that it is in and of the one before it, and makes the next one when a
//! record asks for it; that key takes over once a record has opened with it. Where all records of an
//! epoch are lost, 2²⁰ in a row, none opens any more, and the connection ends by silence.

use super::SealError;
use super::cipher::Tag;
use super::epoch::{self, KeyEpoch};
use super::fault::{Fault, planted};
use super::key::SealKey;
use super::window::{ReplayVerdict, ReplayWindow};

/// Seals records under numbers that go up.
#[derive(Debug)]
pub(in crate::fabric) struct NumberedSealer {
    epoch: KeyEpoch,
    /// The lowest number that may come.
    next: u64,
}

/// Opens them in any order, each once.
#[derive(Debug)]
pub(in crate::fabric) struct NumberedOpener {
    now: KeyEpoch,
    before: Option<KeyEpoch>,
    /// The one behind `now`, once a record has asked for it: to make it anew for each that is
    /// forged would cost more than to forge.
    after: Option<KeyEpoch>,
    window: ReplayWindow,
}

impl NumberedSealer {
    pub(in crate::fabric) fn new(key: SealKey) -> Self {
        Self { epoch: KeyEpoch::first(key), next: 0 }
    }

    /// Seals in place under a number above all before it, in this epoch or the next.
    pub(in crate::fabric) fn seal(
        &mut self,
        number: u64,
        beside: &[u8],
        bytes: &mut [u8],
    ) -> Result<Tag, SealError> {
        if number == u64::MAX {
            return Err(SealError::Worn);
        }
        // A nonce that is used twice gives away both records, and the key of the tags.
        if number < self.next {
            return Err(SealError::Repeated);
        }
        let epoch = epoch::of(number);
        if epoch > self.epoch.number + 1 {
            return Err(SealError::Far);
        }
        if epoch > self.epoch.number {
            self.epoch = self.epoch.next();
        }
        self.next = number + 1;
        Ok(self.epoch.cipher.seal(number, beside, bytes))
    }
}

impl NumberedOpener {
    pub(in crate::fabric) fn new(key: SealKey) -> Self {
        Self { now: KeyEpoch::first(key), before: None, after: None, window: ReplayWindow::new() }
    }

    /// Opens in place. A record that does not open changes nothing, and costs no more than one
    /// that does.
    pub(in crate::fabric) fn open(
        &mut self,
        number: u64,
        beside: &[u8],
        bytes: &mut [u8],
        tag: &Tag,
    ) -> Result<(), SealError> {
        // Keys are made under this one.
        if number == u64::MAX {
            return Err(SealError::Worn);
        }
        match self.look(number) {
            ReplayVerdict::New => {}
            ReplayVerdict::Come => return Err(SealError::Repeated),
            ReplayVerdict::Old => return Err(SealError::Old),
        }
        let (epoch, now) = (epoch::of(number), self.now.number);
        if epoch == now {
            self.now.cipher.open(number, beside, bytes, tag)?;
        } else if epoch + 1 == now {
            let before = self.before.as_ref().ok_or(SealError::Old)?;
            before.cipher.open(number, beside, bytes, tag)?;
        } else if epoch == now + 1 {
            let after = self.after.get_or_insert_with(|| self.now.next());
            after.cipher.open(number, beside, bytes, tag)?;
            self.turn();
        } else {
            return Err(if epoch < now { SealError::Old } else { SealError::Far });
        }
        self.window.mark(number);
        Ok(())
    }

    /// Whether this number has come; it will have when its datagram has proven to be genuine.
    #[inline]
    fn look(&mut self, number: u64) -> ReplayVerdict {
        let verdict = self.window.look(number);
        match verdict {
            ReplayVerdict::New if planted(Fault::MarkedUnproven) => self.window.mark(number),
            ReplayVerdict::Come if planted(Fault::RepeatTaken) => return ReplayVerdict::New,
            _ => {}
        }
        verdict
    }

    /// The next epoch has begun.
    #[cold]
    fn turn(&mut self) {
        if let Some(after) = self.after.take() {
            let before = std::mem::replace(&mut self.now, after);
            self.before = (!planted(Fault::KeyDropped)).then_some(before);
        }
    }
}

#[cfg(test)]
impl NumberedSealer {
    /// Goes on from this number, with the key that it has.
    pub(super) fn skip_to(&mut self, number: u64) {
        (self.next, self.epoch.number) = (number, epoch::of(number));
    }
}

#[cfg(test)]
impl NumberedOpener {
    pub(super) fn skip_to(&mut self, number: u64) {
        self.now.number = epoch::of(number);
    }
}
