//! A reference from one object of a graph to another.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

/// A reference to an object of a graph: a number that the graph can look up, which stays
/// right wherever the graph is moved or sent.
///
/// A reference says which *class* of the graph's types the object is of, its *index* among them, and a
/// *stamp* by which the graph tells it from what lay there before, and its own objects from
/// those of other graphs. It does nothing alone: the graph checks all three at each use.
///
/// ```
/// use egret_net::buf::Ref;
///
/// let reference: Ref<u64> = Ref::new(3, 70_000, 0xbeef).unwrap();
/// assert_eq!((reference.class(), reference.index(), reference.stamp()), (3, 70_000, 0xbeef));
/// assert_eq!(size_of::<Option<Ref<u64>>>(), 8);
/// assert_eq!(Ref::from_bits(reference.to_bits()), Some(reference));
/// ```
#[repr(transparent)]
pub struct Ref<T: ?Sized> {
    /// Index in the lower half, then the stamp, the class on top.
    bits: NonZeroU64,
    _to: PhantomData<fn(*const T)>,
}

/// That `Self` can be seen as a `D`, an object of a trait; see [`Ref::upcast`].
pub trait IsA<D: ?Sized> {}

impl<T: ?Sized> Ref<T> {
    /// The largest stamp there is: they have 24 bits.
    pub const STAMP_MAX: u32 = (1 << 24) - 1;

    /// A reference to the object of a class that has an index and a stamp. `None` if the stamp
    /// is 0 or too large: there is no such object.
    #[inline]
    #[must_use]
    pub const fn new(class: u8, index: u32, stamp: u32) -> Option<Self> {
        if stamp == 0 || stamp > Self::STAMP_MAX {
            return None;
        }
        let head = (class as u64) << 24 | stamp as u64;
        Self::from_bits(head << 32 | index as u64)
    }

    /// The reference that was these [bits](Self::to_bits).
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self { bits, _to: PhantomData }),
            None => None,
        }
    }

    /// All that it is.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.bits.get()
    }

    /// The number of the object's class in its graph.
    #[inline]
    #[must_use]
    pub const fn class(self) -> u8 {
        (self.bits.get() >> 56) as u8
    }

    /// Which of its class it is.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u32 {
        (self.bits.get() & 0xffff_ffff) as u32
    }

    /// What tells it from others that have or had this place.
    #[inline]
    #[must_use]
    pub const fn stamp(self) -> u32 {
        (self.bits.get() >> 32) as u32 & Self::STAMP_MAX
    }

    /// Class and stamp, as they stand before the object.
    #[inline]
    #[must_use]
    pub const fn head(self) -> u64 {
        self.bits.get() >> 32
    }

    /// The same object, taken for another type: what the graph makes of that it decides when
    /// the reference is used.
    #[inline]
    #[must_use]
    pub const fn cast<U: ?Sized>(self) -> Ref<U> {
        Ref { bits: self.bits, _to: PhantomData }
    }

    /// The same object, known as one of a trait.
    #[inline]
    #[must_use]
    pub const fn upcast<D: ?Sized>(self) -> Ref<D>
    where
        T: IsA<D>,
    {
        self.cast()
    }
}

impl<T: ?Sized> Clone for Ref<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Ref<T> {}

impl<T: ?Sized> PartialEq for Ref<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<T: ?Sized> Eq for Ref<T> {}

impl<T: ?Sized> PartialOrd for Ref<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: ?Sized> Ord for Ref<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bits.cmp(&other.bits)
    }
}

impl<T: ?Sized> Hash for Ref<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl<T: ?Sized> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({}:{}#{:06x})", self.class(), self.index(), self.stamp())
    }
}
