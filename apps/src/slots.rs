//! What a process has been sent and has not used yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use egret::rt::{self, Deadline, Thread};
use egret::wire::Wire;

/// What one process sends to another for one purpose, numbered from 0: two places, so
/// that the sender may be one ahead of who uses it, and no more.
#[derive(Debug)]
pub(crate) struct NumberedSlots<M> {
    inner: Mutex<NumberedSlotsState<M>>,
}

#[derive(Debug)]
struct NumberedSlotsState<M> {
    /// The number that is used next.
    next: u32,
    places: [Option<M>; 2],
    /// Memory of what was used.
    spare: Vec<M>,
    /// The thread that waits for room.
    waiting: Option<Thread>,
}

/// A process has sent a number without room for it: it must not be so far ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire, thiserror::Error)]
#[error("number {number} was sent, and {next} is the one to be used next")]
pub(crate) struct Ahead {
    /// What was sent.
    pub(crate) number: u32,
    /// What is used next.
    pub(crate) next: u32,
}

impl<M> Default for NumberedSlots<M> {
    fn default() -> Self {
        let (places, spare) = ([None, None], Vec::new());
        Self { inner: Mutex::new(NumberedSlotsState { next: 0, places, spare, waiting: None }) }
    }
}

impl<T: Copy> NumberedSlots<Vec<T>> {
    /// Takes a copy of what was sent.
    pub(crate) fn put(&self, number: u32, values: &[T]) -> Result<(), Ahead> {
        self.lock().put(number, |spare| {
            let mut memory = spare.unwrap_or_default();
            memory.clear();
            memory.extend_from_slice(values);
            memory
        })
    }

    /// Uses the next one, if it is here.
    pub(crate) fn take<R>(&self, body: impl FnOnce(&[T]) -> R) -> Option<R> {
        let mut inner = self.lock();
        let values = inner.take()?;
        let used = body(&values);
        inner.spare.push(values);
        Some(used)
    }
}

impl<M: Clone> NumberedSlots<M> {
    /// Takes what was sent as soon as there is room; who must wait is woken by
    /// [`take_out`](Self::take_out).
    pub(crate) fn wait_put(&self, number: u32, sent: &M, deadline: Deadline) -> Result<(), Ahead> {
        let until = deadline.until();
        loop {
            let put = self.lock().put(number, |_| sent.clone());
            let refused = match put {
                Err(ahead) if number.wrapping_sub(ahead.next) == 2 => ahead,
                done => return done,
            };
            if until.is_some_and(|until| rt::now() >= until) {
                return Err(refused);
            }
            self.lock().waiting = Some(rt::current());
            // It may have been taken before that.
            if self.lock().next == refused.next {
                rt::park(until);
            }
        }
    }
}

impl<M> NumberedSlots<M> {
    /// The next one, if it is here.
    pub(crate) fn take_out(&self) -> Option<M> {
        self.lock().take()
    }

    /// Whether the next one is here.
    pub(crate) fn is_ready(&self) -> bool {
        let inner = self.lock();
        inner.places[inner.next as usize % 2].is_some()
    }

    fn lock(&self) -> MutexGuard<'_, NumberedSlotsState<M>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> NumberedSlotsState<M> {
    /// Puts what is made, perhaps of spare memory, in its place.
    fn put(&mut self, number: u32, make: impl FnOnce(Option<M>) -> M) -> Result<(), Ahead> {
        let (next, place) = (self.next, number as usize % 2);
        if number.wrapping_sub(next) > 1 || self.places[place].is_some() {
            return Err(Ahead { number, next });
        }
        self.places[place] = Some(make(self.spare.pop()));
        Ok(())
    }

    fn take(&mut self) -> Option<M> {
        let taken = self.places[self.next as usize % 2].take()?;
        self.next = self.next.wrapping_add(1);
        self.waiting.take().iter().for_each(Thread::unpark);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_at_most_one_ahead() {
        let slots = NumberedSlots::default();
        assert!(!slots.is_ready());
        assert_eq!(slots.put(1, &[10]), Ok(()));
        assert!(!slots.is_ready(), "the first comes first");
        assert_eq!(slots.put(0, &[7, 8]), Ok(()));
        assert_eq!(slots.put(0, &[9]), Err(Ahead { number: 0, next: 0 }), "twice");
        assert_eq!(slots.put(2, &[9]), Err(Ahead { number: 2, next: 0 }), "two ahead");
        assert_eq!(slots.take(<[_]>::to_vec), Some(vec![7, 8]));
        assert_eq!(slots.put(0, &[9]), Err(Ahead { number: 0, next: 1 }), "long used");
        assert_eq!(slots.put(2, &[1, 2, 3]), Ok(()));
        assert_eq!(slots.take(<[_]>::to_vec), Some(vec![10]));
        assert_eq!(slots.take(<[_]>::to_vec), Some(vec![1, 2, 3]));
        assert_eq!(slots.take(<[_]>::to_vec), None);
    }
}
