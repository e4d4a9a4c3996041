//! Shared values: who was met already, on both sides.

use std::any::Any;

use crate::error::ReadError;
use crate::fault::{Fault, planted};

/// The shared values that a writer has met in one value, by address.
#[derive(Default)]
pub(crate) struct Addresses {
    met: Vec<Met>,
    /// Places in `met` plus one, by the hash of the address; a power of two of them.
    slots: Vec<u32>,
    /// Values that only weak references lead to, so that no other comes to lie there.
    kept: Vec<Box<dyn Any>>,
}

struct Met {
    address: usize,
    name: &'static str,
    is_open: bool,
}

/// What a writer knows of a shared value.
pub(crate) enum Seen {
    /// It was not met before and is now, under this number.
    New(u32),
    /// It is being written: this is within it.
    Open(u32),
    /// It was written.
    Done(u32),
}

impl Addresses {
    /// Looks a value up that is reached as a type of that name; the other name if it
    /// was reached as another type.
    pub(crate) fn meet(
        &mut self,
        address: usize,
        name: &'static str,
    ) -> Result<Seen, &'static str> {
        if (self.met.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash(address) & mask;
        while let Some(index) = self.slots[slot].checked_sub(1) {
            let met = &self.met[index as usize];
            if met.address == address && !planted(Fault::Unshared) {
                return match (met.name == name, met.is_open) {
                    (false, _) => Err(met.name),
                    (true, true) => Ok(Seen::Open(index)),
                    (true, false) => Ok(Seen::Done(index)),
                };
            }
            slot = (slot + 1) & mask;
        }
        self.met.push(Met { address, name, is_open: true });
        let number = u32::try_from(self.met.len()).expect("fewer than 2^32 in memory");
        self.slots[slot] = number;
        Ok(Seen::New(number - 1))
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
pub(crate) struct Found {
    all: Vec<Entry>,
    /// Those that were filled and are known as objects of a trait since.
    hidden: Vec<(Box<dyn Any>, Unravel)>,
}

type Unravel = fn(&dyn Any);

#[derive(Default)]
struct Entry {
    /// The `Weak` of a value that is being read.
    weak: Option<Box<dyn Any>>,
    /// The `Rc` or `Arc` of one that is there.
    strong: Option<Box<dyn Any>>,
    /// Takes the contents out of the strong one, so that no cycle stays.
    unravel: Option<Unravel>,
}

impl Found {
    /// A number for a value that is read now.
    pub(crate) fn open(&mut self) -> usize {
        self.all.push(Entry::default());
        self.all.len() - 1
    }

    /// Weak references to it can be made.
    pub(crate) fn set_weak(&mut self, id: usize, weak: Box<dyn Any>) {
        self.all[id].weak = Some(weak);
    }

    /// It is there, as an `S`.
    pub(crate) fn set_strong<S: Any>(&mut self, id: usize, strong: S) {
        let entry = &mut self.all[id];
        entry.weak = None;
        let is_hollow = entry.strong.as_ref().is_some_and(|known| known.is::<S>());
        if is_hollow {
            return;
        }
        let hollow = entry.strong.replace(Box::new(strong));
        if let (Some(strong), Some(unravel)) = (hollow, entry.unravel.take()) {
            self.hidden.push((strong, unravel));
        }
    }

    /// It is there, and will be filled later.
    pub(crate) fn set_hollow(&mut self, id: usize, strong: Box<dyn Any>, unravel: Unravel) {
        self.all[id].strong = Some(strong);
        self.all[id].unravel = Some(unravel);
    }

    /// The strong reference `number`, of type `S`.
    pub(crate) fn strong<S: Clone + 'static>(
        &self,
        number: u32,
        wanted: &'static str,
    ) -> Result<S, ReadError> {
        let entry = self.all.get(number as usize).ok_or(ReadError::NoSuchShared(number))?;
        let Some(strong) = &entry.strong else { return Err(ReadError::StrongCycle(wanted)) };
        let as_wanted = strong.downcast_ref::<S>().cloned();
        as_wanted.ok_or(ReadError::SharedAsOther { id: number, wanted })
    }

    /// The weak reference `number`, of type `W`, made by `downgrade` where the value
    /// is there.
    pub(crate) fn weak<S: 'static, W: Clone + 'static>(
        &self,
        number: u32,
        wanted: &'static str,
        downgrade: impl FnOnce(&S) -> W,
    ) -> Result<W, ReadError> {
        let entry = self.all.get(number as usize).ok_or(ReadError::NoSuchShared(number))?;
        let weak = match (&entry.strong, &entry.weak) {
            (Some(strong), _) => strong.downcast_ref::<S>().map(downgrade),
            (None, Some(weak)) => weak.downcast_ref::<W>().cloned(),
            (None, None) => return Err(ReadError::StrongCycle(wanted)),
        };
        weak.ok_or(ReadError::SharedAsOther { id: number, wanted })
    }

    /// Ends every cycle that was closed, for a value that is not handed out.
    pub(crate) fn unravel(&mut self) {
        let all = self.all.drain(..).filter_map(|entry| entry.strong.zip(entry.unravel));
        for (strong, unravel) in all.chain(self.hidden.drain(..)) {
            if !planted(Fault::Leaked) {
                unravel(&*strong);
            }
        }
    }
}
