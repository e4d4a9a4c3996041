//! Tuples, options, results, ranges.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::describe::{Describe, PlanCursor};
use crate::error::Invalid;
use crate::reader::Reader;
use crate::wire::{FromWire, Stop, Wire, WireSize, Written};
use crate::writer::Writer;

macro_rules! tuples {
    ($(($($name:ident $at:tt),*))*) => {$(
        impl<$($name: Wire),*> Wire for ($($name,)*) {
            const SIZE: WireSize = WireSize::fixed(0)$(.and($name::SIZE))*;
            fn describe(d: &mut Describe) {
                d.group("tuple", |_d| { $(_d.field::<$name>(stringify!($at));)* });
            }
            #[inline]
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                if const { Self::SIZE.is_fixed } {
                    return w.fixed(self);
                }
                $(self.$at.write(w)?;)*
                Ok(())
            }
            #[inline(always)]
            fn write_fixed(&self, _run: &mut &mut [u8]) {
                $(self.$at.write_fixed(_run);)*
            }
            fn give(&mut self, _w: &mut Writer<'static>) -> Written {
                $(self.$at.give(_w)?;)*
                Ok(())
            }
            fn blank() -> Option<Self> {
                Some(($($name::blank()?,)*))
            }
        }
        impl<'a, $($name: FromWire<'a>),*> FromWire<'a> for ($($name,)*) {
            #[inline]
            fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                if const { Self::SIZE.is_fixed } {
                    return r.fixed();
                }
                Ok(($($name::read(r)?,)*))
            }
            fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
                if plan.is_same() {
                    return Self::read(r);
                }
                Ok(($($name::read_planned(r, plan.part($at))?,)*))
            }
            #[inline(always)]
            fn read_fixed(_run: &mut &[u8]) -> Result<Self, Invalid> {
                Ok(($($name::read_fixed(_run)?,)*))
            }
        }
    )*};
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
}

impl<T: Wire> Wire for Option<T> {
    const SIZE: WireSize = WireSize::at_least(1);
    fn describe(d: &mut Describe) {
        d.group("option", T::describe);
    }
    #[inline(always)]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        match self {
            None => w.array([0]),
            Some(value) => {
                w.array([1])?;
                value.write(w)
            }
        }
    }
    #[inline]
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        match self {
            None => w.array([0]),
            Some(value) => {
                w.array([1])?;
                value.give(w)
            }
        }
    }
    fn blank() -> Option<Self> {
        Some(None)
    }
}

impl<'a, T: FromWire<'a>> FromWire<'a> for Option<T> {
    #[inline(always)]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        match r.array()? {
            [0] => Ok(None),
            [1] => T::read(r).map(Some),
            _ => Err(r.fail(Invalid::new("option"))),
        }
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        if plan.is_same() {
            return Self::read(r);
        }
        match r.array()? {
            [0] => Ok(None),
            [1] => T::read_planned(r, plan.part(0)).map(Some),
            _ => Err(r.fail(Invalid::new("option"))),
        }
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    const SIZE: WireSize = WireSize::at_least(1);
    fn describe(d: &mut Describe) {
        d.group("result", |d| {
            d.field::<T>("Ok");
            d.field::<E>("Err");
        });
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        match self {
            Ok(value) => {
                w.array([0])?;
                value.write(w)
            }
            Err(error) => {
                w.array([1])?;
                error.write(w)
            }
        }
    }
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        match self {
            Ok(value) => {
                w.array([0])?;
                value.give(w)
            }
            Err(error) => {
                w.array([1])?;
                error.give(w)
            }
        }
    }
}

impl<'a, T: FromWire<'a>, E: FromWire<'a>> FromWire<'a> for Result<T, E> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        match r.array()? {
            [0] => T::read(r).map(Ok),
            [1] => E::read(r).map(Err),
            _ => Err(r.fail(Invalid::new("result"))),
        }
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        if plan.is_same() {
            return Self::read(r);
        }
        match r.array()? {
            [0] => T::read_planned(r, plan.part(0)).map(Ok),
            [1] => E::read_planned(r, plan.part(1)).map(Err),
            _ => Err(r.fail(Invalid::new("result"))),
        }
    }
}

macro_rules! ranges {
    ($($type:ident $name:literal ($($part:ident),*) |$range:ident| $parts:expr, $make:expr;)*) => {$(
        impl<T: Wire> Wire for $type<T> {
            const SIZE: WireSize = WireSize::fixed(0)$(.and({ let $part = T::SIZE; $part }))*;
            fn describe(d: &mut Describe) {
                d.group($name, T::describe);
            }
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                let $range = self;
                let ($($part,)*) = $parts;
                $($part.write(w)?;)*
                Ok(())
            }
            fn write_fixed(&self, run: &mut &mut [u8]) {
                let $range = self;
                let ($($part,)*) = $parts;
                $($part.write_fixed(run);)*
            }
        }
        impl<'a, T: FromWire<'a>> FromWire<'a> for $type<T> {
            fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                $(let $part = T::read(r)?;)*
                Ok($make)
            }
            fn read_fixed(run: &mut &[u8]) -> Result<Self, Invalid> {
                $(let $part = T::read_fixed(run)?;)*
                Ok($make)
            }
        }
    )*};
}

ranges! {
    Range "range" (start, end) |range| (&range.start, &range.end), start..end;
    RangeInclusive "range inclusive" (start, end) |range| (range.start(), range.end()), start..=end;
    RangeFrom "range from" (start) |range| (&range.start,), start..;
    RangeTo "range to" (end) |range| (&range.end,), ..end;
    RangeToInclusive "range to inclusive" (end) |range| (&range.end,), ..=end;
}

impl Wire for RangeFull {
    const SIZE: WireSize = WireSize::fixed(0);
    fn describe(d: &mut Describe) {
        d.word("range full");
    }
    fn write<'w>(&'w self, _: &mut Writer<'w>) -> Written {
        Ok(())
    }
    fn write_fixed(&self, _: &mut &mut [u8]) {}
}

impl<'a> FromWire<'a> for RangeFull {
    fn read(_: &mut Reader<'a>) -> Result<Self, Stop> {
        Ok(..)
    }
    fn read_fixed(_: &mut &[u8]) -> Result<Self, Invalid> {
        Ok(..)
    }
}
