//! The types of the standard library, and of the layer below.

mod cell;
mod map;
mod number;
mod sequence;
mod shared;
mod system;
mod text;
mod tuple;

pub use map::canonical;
pub use number::{give_elements, give_vec, read_cow};

/// Writes `bytes` to the front of `run`.
#[inline(always)]
fn put<const N: usize>(run: &mut &mut [u8], bytes: [u8; N]) {
    let (head, rest) = std::mem::take(run).split_at_mut(N);
    head.copy_from_slice(&bytes);
    *run = rest;
}

/// Takes bytes from the front of `run`, which is long enough.
#[inline(always)]
fn pick<const N: usize>(run: &mut &[u8]) -> [u8; N] {
    let (head, rest) = run.split_first_chunk().expect("a run has the length of its values");
    *run = rest;
    *head
}

/// Writes and reads a type as another one that it converts to and from.
macro_rules! through {
    ($([$($generics:tt)*])? $type:ty as $other:ty, $name:literal,
     |$value:ident| $to:expr, |$read:ident| $from:expr) => {
        impl<$($($generics)*)?> $crate::Wire for $type {
            const SIZE: $crate::WireSize = <$other as $crate::Wire>::SIZE;
            fn describe(d: &mut $crate::Describe) {
                d.word($name);
            }
            #[inline]
            fn write<'w>(&'w self, w: &mut $crate::Writer<'w>) -> $crate::Written {
                let $value = self;
                let other: $other = $to;
                if const { <$other as $crate::Wire>::SIZE.is_fixed } {
                    return w.fixed(&other);
                }
                w.copied(|w| $crate::Wire::write(&other, w))
            }
            #[inline(always)]
            fn write_fixed(&self, run: &mut &mut [u8]) {
                let $value = self;
                let other: $other = $to;
                $crate::Wire::write_fixed(&other, run);
            }
        }
        impl<'a, $($($generics)*)?> $crate::FromWire<'a> for $type {
            #[inline]
            fn read(r: &mut $crate::Reader<'a>) -> Result<Self, $crate::Stop> {
                let $read: $other = $crate::FromWire::read(r)?;
                let value: Option<Self> = $from;
                value.ok_or_else(|| r.fail($crate::Invalid::new($name)))
            }
            #[inline(always)]
            fn read_fixed(run: &mut &[u8]) -> Result<Self, $crate::Invalid> {
                let $read: $other = $crate::FromWire::read_fixed(run)?;
                let value: Option<Self> = $from;
                value.ok_or($crate::Invalid::new($name))
            }
        }
    };
}
use through;
