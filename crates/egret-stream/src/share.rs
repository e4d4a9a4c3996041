//! Shared values: who was met already, on both sides.

use std::any::Any;
use std::rc::Rc;

use crate::error::WireError;
use crate::fault::{Fault, planted};

/// The shared values that a writer has met in one value, by address.
#[derive(Default)]
pub(crate) struct WrittenShares {
    met: Vec<SharedAddress>,
    /// Places in `met` plus one, by the hash of the address; a power of two of them.
    slots: Vec<u32>,
    /// Values that only weak references lead to, so that no other comes to lie there.
    kept: Vec<Box<dyn Any>>,
}

struct SharedAddress {
    address: usize,
    name: &'static str,
    is_open: bool,
}

impl SharedAddress {
    fn is_at(&self, address: usize) -> bool {
        self.address == address && !planted(Fault::Unshared)
    }
}

/// What a writer knows of a shared value.
pub(crate) enum SharedProgress {
    /// The value was not met before and is now, under this number.
    New(u32),
    /// The value is being written: this is within it.
    Open(u32),
    /// The value was written.
    Done(u32),
}

impl WrittenShares {
    /// Looks a value up that is reached as a type of that name; the other name if it
    /// was reached as another type.
    pub(crate) fn meet(
        &mut self,
        address: usize,
        name: &'static str,
    ) -> Result<SharedProgress, &'static str> {
        if (self.met.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash(address) & mask;
        while let Some(index) = self.slots[slot].checked_sub(1) {
            let met = &self.met[index as usize];
            if met.is_at(address) {
                return match (met.name == name, met.is_open) {
                    (false, _) => Err(met.name),
                    (true, true) => Ok(SharedProgress::Open(index)),
                    (true, false) => Ok(SharedProgress::Done(index)),
                };
            }
            slot = (slot + 1) & mask;
        }
        self.met.push(SharedAddress { address, name, is_open: true });
        let number = u32::try_from(self.met.len()).expect("fewer than 2^32 in memory");
        self.slots[slot] = number;
        Ok(SharedProgress::New(number - 1))
    }

    pub(crate) fn finish(&mut self, number: u32) {
        self.met[number as usize].is_open = false;
    }

    pub(crate) fn keep(&mut self, value: Box<dyn Any>) {
        self.kept.push(value);
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(16);
        self.slots = vec![0; len];
        for (index, met) in (1..).zip(&self.met) {
            let mut slot = hash(met.address) & (len - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (len - 1);
            }
            self.slots[slot] = index;
        }
    }
}

/// Fibonacci hashing: the upper bits know all of the lower ones.
fn hash(address: usize) -> usize {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// The shared values that a reader has found in one value.
#[derive(Default)]
pub(crate) struct ReadShares {
    all: Vec<ReadShare>,
    /// Shared values that were filled and are known as objects of a trait since.
    hidden: Vec<(SharedState, Unravel)>,
}

/// Takes the contents out of a shared value, so that no cycle stays.
type Unravel = fn(&SharedState);

struct ReadShare {
    state: SharedState,
    unravel: Option<Unravel>,
}

/// What there is of a shared value.
#[doc(hidden)]
#[derive(Debug)]
pub enum SharedState {
    /// Nothing yet: it is being read.
    Open,
    /// Passed without being read.
    Skipped,
    /// The `Weak` of one that is being read.
    Weak(Box<dyn Any>),
    /// One that is there, if its type has a size: it needs no memory of its own.
    Rc(Rc<dyn Any>),
    /// The `Rc` or `Arc` of another one that is there.
    Other(Box<dyn Any>),
}

impl SharedState {
    /// The value, of a type that has a size.
    #[inline]
    pub(crate) fn rc<T: 'static>(&self) -> Option<Rc<T>> {
        match self {
            Self::Rc(shared) => Rc::clone(shared).downcast().ok(),
            _ => None,
        }
    }

    /// The value, of another type.
    pub(crate) fn other<S: Clone + 'static>(&self) -> Option<S> {
        match self {
            Self::Other(shared) => shared.downcast_ref::<S>().cloned(),
            _ => None,
        }
    }

    fn is_there(&self) -> bool {
        matches!(self, Self::Rc(_) | Self::Other(_))
    }
}

impl ReadShares {
    /// A number for a value that is read now.
    #[inline]
    pub(crate) fn open(&mut self) -> usize {
        self.all.push(ReadShare { state: SharedState::Open, unravel: None });
        self.all.len() - 1
    }

    /// Weak references to it can be made.
    pub(crate) fn set_weak(&mut self, id: usize, weak: Box<dyn Any>) {
        self.all[id].state = SharedState::Weak(weak);
    }

    /// The value is passed: no reference to it can be made.
    pub(crate) fn set_skipped(&mut self, id: usize) {
        self.all[id].state = SharedState::Skipped;
    }

    /// Records that a value is there, as a `T`.
    pub(crate) fn set_strong<T: ?Sized>(&mut self, id: usize, state: impl FnOnce() -> SharedState) {
        let entry = &mut self.all[id];
        // What has a size and is there was hollow, and is filled.
        if entry.state.is_there() && size_of::<&T>() == size_of::<usize>() {
            return;
        }
        let before = std::mem::replace(&mut entry.state, state());
        if let Some(unravel) = entry.unravel.take() {
            self.hidden.push((before, unravel));
        }
    }

    /// Records that a value is there, and will be filled later.
    #[inline]
    pub(crate) fn set_hollow(&mut self, id: usize, state: SharedState, unravel: Unravel) {
        self.all[id] = ReadShare { state, unravel: Some(unravel) };
    }

    /// The strong reference `number`, if it is what `of` finds in it.
    #[inline]
    pub(crate) fn strong<S>(
        &self,
        number: u32,
        wanted: &'static str,
        of: impl FnOnce(&SharedState) -> Option<S>,
    ) -> Result<S, WireError> {
        let entry = self.all.get(number as usize).ok_or(WireError::NoSuchShared(number))?;
        match of(&entry.state) {
            Some(strong) => Ok(strong),
            None if entry.state.is_there() => Err(WireError::SharedAsOther { id: number, wanted }),
            None if matches!(entry.state, SharedState::Skipped) => {
                Err(WireError::NoSuchShared(number))
            }
            None => Err(WireError::StrongCycle(wanted)),
        }
    }

    /// The weak reference `number`, made by `downgraded` where the value is there.
    pub(crate) fn weak<W: Clone + 'static>(
        &self,
        number: u32,
        wanted: &'static str,
        downgraded: impl FnOnce(&SharedState) -> Option<W>,
    ) -> Result<W, WireError> {
        let entry = self.all.get(number as usize).ok_or(WireError::NoSuchShared(number))?;
        let weak = match &entry.state {
            SharedState::Open => return Err(WireError::StrongCycle(wanted)),
            SharedState::Skipped => return Err(WireError::NoSuchShared(number)),
            SharedState::Weak(weak) => weak.downcast_ref::<W>().cloned(),
            there => downgraded(there),
        };
        weak.ok_or(WireError::SharedAsOther { id: number, wanted })
    }

    /// Ends every cycle that was closed, for a value that is not handed out.
    pub(crate) fn unravel(&mut self) {
        let all = self.all.drain(..);
        let all = all.filter_map(|entry| Some((entry.state, entry.unravel?)));
        for (state, unravel) in all.chain(self.hidden.drain(..)) {
            if !planted(Fault::Leaked) {
                unravel(&state);
            }
        }
    }
}
