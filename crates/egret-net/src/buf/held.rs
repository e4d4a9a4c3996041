//! Received data that is kept.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::Relaxed;

use super::plain::Plain;
use super::slot::SlotHandle;
use super::typed::Typed;

/// Data kept for as long as one likes, in its buffer while the pool can spare
/// it and on the heap otherwise.
///
/// Where it is was decided by [`Typed::hold`]; afterwards only
/// [`evacuate`](Self::evacuate) moves it, so references into it stay good for
/// as long as the borrow checker says.
///
/// ```
/// use egret_net::buf::Pool;
///
/// let pool = Pool::builder().class(64, 4).low_water(2).build()?;
/// let mut held = Vec::new();
/// for i in 0..10u32 {
///     let mut message = pool.take_typed::<u32>(1)?;
///     message[0] = i;
///     held.push(message.hold());
/// }
/// assert!(held.iter().enumerate().all(|(i, data)| data[0] == i as u32));
/// assert_eq!(held.iter().filter(|data| data.is_resident()).count(), 2);
/// assert_eq!(pool.available(64), 2, "never below the mark for long");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Held<T: Plain> {
    place: HeldStorage<T>,
}

enum HeldStorage<T: Plain> {
    Resident(Typed<T>),
    Copied(Box<[T]>),
}

impl<T: Plain> Held<T> {
    pub(super) fn new(data: Typed<T>) -> Self {
        let slot: &SlotHandle = data.buf().slot();
        let counters = &slot.core().counters;
        if slot.class().is_low() {
            counters.held_copied.fetch_add(1, Relaxed);
            return Self { place: HeldStorage::Copied(data.as_ref().into()) };
        }
        counters.held_resident.fetch_add(1, Relaxed);
        Self { place: HeldStorage::Resident(data) }
    }

    /// Whether it is still in its buffer.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        matches!(self.place, HeldStorage::Resident(_))
    }

    /// Copies it to the heap and returns its buffer, if it is still there.
    pub fn evacuate(&mut self) {
        if let HeldStorage::Resident(data) = &self.place {
            data.buf().slot().core().counters.evacuated.fetch_add(1, Relaxed);
            self.place = HeldStorage::Copied(data.as_ref().into());
        }
    }

    /// The data as a vector; copied if it is still in its buffer.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        match self.place {
            HeldStorage::Resident(data) => data.to_vec(),
            HeldStorage::Copied(data) => data.into_vec(),
        }
    }
}

impl<T: Plain> Deref for Held<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.place {
            HeldStorage::Resident(data) => data,
            HeldStorage::Copied(data) => data,
        }
    }
}

impl<T: Plain> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.place {
            HeldStorage::Resident(data) => data,
            HeldStorage::Copied(data) => data,
        }
    }
}

impl<T: Plain> AsRef<[T]> for Held<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Plain> From<Typed<T>> for Held<T> {
    fn from(typed: Typed<T>) -> Self {
        typed.hold()
    }
}

impl<T: Plain> From<Held<T>> for Vec<T> {
    fn from(held: Held<T>) -> Self {
        held.into_vec()
    }
}

impl<T: Plain> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("element", &T::kind().name)
            .field("len", &self.len())
            .field("resident", &self.is_resident())
            .finish()
    }
}
