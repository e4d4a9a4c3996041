//! Numbers, and what is a number on the wire.

use std::borrow::Cow;
use std::num::{NonZero, Wrapping};
use std::sync::Arc;

use egret_net::vi::Segment;

use super::{pick, put, through};
use crate::describe::{Describe, PlanCursor};
use crate::error::Invalid;
use crate::reader::{Reader, ShortReader};
use crate::wire::{Bulk, FromWire, Stop, Wire, WireSize, Written};
use crate::writer::{ShortWriter, Writer};

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Wire for $type {
            const SIZE: WireSize = WireSize::fixed(size_of::<$type>());
            fn describe(d: &mut Describe) {
                d.word(stringify!($type));
            }
            #[inline(always)]
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                w.array(self.to_le_bytes())
            }
            #[inline(always)]
            fn write_fixed(&self, run: &mut &mut [u8]) {
                put(run, self.to_le_bytes());
            }
            #[inline(always)]
            fn write_fixed_slice(slice: &[Self], run: &mut &mut [u8]) {
                let (head, rest) = std::mem::take(run).split_at_mut(size_of_val(slice));
                head.copy_from_slice(bytemuck::cast_slice(slice));
                *run = rest;
            }
            #[inline(always)]
            fn write_short_list(slice: &[Self], room: &mut ShortWriter<'_>) -> bool {
                room.list(slice)
            }
            #[inline]
            fn write_list<'w>(slice: &'w [Self], w: &mut Writer<'w>) -> Written {
                w.list(slice)
            }
            #[inline]
            fn give_vec(vec: &mut Vec<Self>, w: &mut Writer<'static>) -> Written {
                give_vec(vec, w)
            }
            #[inline]
            fn give_elements(arc: &Arc<[Self]>, w: &mut Writer<'static>) -> Written {
                give_elements(arc, w)
            }
            fn blank() -> Option<Self> {
                Some(Self::default())
            }
        }
        impl<'a> FromWire<'a> for $type {
            #[inline(always)]
            fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                Ok(Self::from_le_bytes(r.array()?))
            }
            #[inline(always)]
            fn read_fixed(run: &mut &[u8]) -> Result<Self, Invalid> {
                Ok(Self::from_le_bytes(pick(run)))
            }
            #[inline(always)]
            fn read_fixed_array<const N: usize>(run: &mut &[u8]) -> Result<[Self; N], Invalid> {
                let (head, rest) = run.split_at(N * size_of::<Self>());
                *run = rest;
                Ok(bytemuck::pod_read_unaligned(head))
            }
            #[inline(always)]
            fn read_short_list(rest: &mut ShortReader<'a>) -> Option<Vec<Self>> {
                rest.list().map(<[Self]>::to_vec)
            }
            #[inline]
            fn read_list(r: &mut Reader<'a>) -> Result<Vec<Self>, Stop> {
                r.list()
            }
            #[inline]
            fn read_cow(r: &mut Reader<'a>) -> Result<Cow<'a, [Self]>, Stop> {
                read_cow(r)
            }
        }
        impl Bulk for $type {}
    )*};
}

numbers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

/// What [`Wire::give_vec`] is for types that travel as their bytes.
#[doc(hidden)]
pub fn give_vec<T: Bulk>(vec: &mut Vec<T>, w: &mut Writer<'static>) -> Written {
    if !w.keeps(size_of_val(&vec[..])) {
        return w.copied(|w| w.bulk(vec));
    }
    let vec = std::mem::take(vec);
    w.keep::<T>(vec.len(), Segment::from(vec))
}

/// What [`Wire::give_elements`] is for types that travel as their bytes.
#[doc(hidden)]
pub fn give_elements<T: Bulk>(arc: &Arc<[T]>, w: &mut Writer<'static>) -> Written {
    if !w.keeps(size_of_val(&arc[..])) {
        return w.copied(|w| w.bulk(arc));
    }
    w.keep::<T>(arc.len(), Segment::from(Arc::clone(arc)))
}

/// What [`FromWire::read_cow`] is for types that travel as their bytes.
#[doc(hidden)]
#[inline]
pub fn read_cow<'a, T: Bulk>(r: &mut Reader<'a>) -> Result<Cow<'a, [T]>, Stop> {
    Ok(match r.try_list()? {
        Ok(elements) => Cow::Borrowed(elements),
        Err(elements) => Cow::Owned(elements),
    })
}

macro_rules! non_zero {
    ($($type:ident $name:literal)*) => {$(
        through!(NonZero<$type> as $type, $name, |value| value.get(), |read| NonZero::new(read));
    )*};
}

non_zero!(u8 "non-zero u8" u16 "non-zero u16" u32 "non-zero u32" u64 "non-zero u64"
    u128 "non-zero u128" usize "non-zero usize" i8 "non-zero i8" i16 "non-zero i16"
    i32 "non-zero i32" i64 "non-zero i64" i128 "non-zero i128" isize "non-zero isize");

through!(usize as u64, "usize", |value| *value as u64, |read| usize::try_from(read).ok());
through!(isize as i64, "isize", |value| *value as i64, |read| isize::try_from(read).ok());
through!(bool as u8, "bool", |value| u8::from(*value), |read| match read {
    0 => Some(false),
    1 => Some(true),
    _ => None,
});
through!(char as u32, "char", |value| u32::from(*value), |read| char::from_u32(read));

impl<T: Wire> Wire for Wrapping<T> {
    const SIZE: WireSize = T::SIZE;
    fn describe(d: &mut Describe) {
        T::describe(d);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        self.0.write(w)
    }
    #[inline]
    fn write_fixed(&self, run: &mut &mut [u8]) {
        self.0.write_fixed(run);
    }
}

impl<'a, T: FromWire<'a>> FromWire<'a> for Wrapping<T> {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        T::read(r).map(Wrapping)
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        T::read_planned(r, plan).map(Wrapping)
    }
    #[inline]
    fn read_fixed(run: &mut &[u8]) -> Result<Self, Invalid> {
        T::read_fixed(run).map(Wrapping)
    }
}
