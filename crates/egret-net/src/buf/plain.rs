//! Types that are nothing but their bytes, and the names they carry on the wire.

use std::borrow::Cow;
use std::fmt;

use bytemuck::Pod;

/// A type that any bytes of its size are a value of, without padding and
/// without pointers: what a buffer can be viewed as.
///
/// Implemented for the primitive numbers, arrays of them, and by
/// `#[derive(Plain)]` for `#[repr(C)]` structs of plain fields without holes.
///
/// ```
/// use egret_net::buf::Plain;
///
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Sample {
///     at: f64,
///     value: [f32; 2],
/// }
/// assert_eq!(Sample::NAME, "Sample");
/// ```
///
/// A hole between two fields does not compile (reordered, or with the hole
/// named as a `[u8; 4]` field, it does):
///
/// ```compile_fail,E0080
/// # use egret_net::buf::Plain;
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Sample {
///     count: u32,
///     at: f64, // padding in `Sample` before field `at`
/// }
/// ```
///
/// Nor does one after the last field:
///
/// ```compile_fail,E0080
/// # use egret_net::buf::Plain;
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Sample {
///     at: f64,
///     count: u32, // padding in `Sample` after its last field `count`
/// }
/// ```
///
/// Nor a struct whose layout is the compiler's choice:
///
/// ```compile_fail
/// # use egret_net::buf::Plain;
/// #[derive(Clone, Copy, Plain)]
/// struct Sample {
///     at: f64,
/// }
/// ```
///
/// Nor an enum, most of whose bytes are no value of it:
///
/// ```compile_fail
/// # use egret_net::buf::Plain;
/// #[derive(Clone, Copy, Plain)]
/// #[repr(u8)]
/// enum Switch {
///     Off,
///     On,
/// }
/// ```
///
/// Nor a type that means one thing in the struct and another where the derive names it:
///
/// ```compile_fail,E0308
/// # use egret_net::buf::Plain;
/// # trait Returns { type Type; }
/// # impl<T> Returns for fn() -> T { type Type = T; }
/// macro_rules! part {
///     (Self) => { <fn() -> ! as Returns>::Type };
///     ($name:ident) => { [u8; 0] };
/// }
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Sample {
///     never: part!(Self), // with `part!(Sample)` it compiles
///     at: f64,
/// }
/// ```
///
/// ```
/// # use egret_net::buf::Plain;
/// macro_rules! part {
///     ($name:ident) => { [u8; 0] };
/// }
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Sample {
///     never: part!(Sample),
///     at: f64,
/// }
/// ```
///
/// Nor a hole that the program's own `core` denies: the derive asks the language's. Without the
/// hole, it compiles in such a program too:
///
/// ```compile_fail,E0080
/// extern crate self as core; // and `::core::mem::size_of` is the one below
/// pub mod cell {
///     pub use ::std::cell::Cell;
/// }
/// pub mod mem {
///     pub use crate::offset_of;
///     pub const fn size_of<T>() -> usize {
///         16
///     }
/// }
/// pub mod primitive {
///     pub use ::std::primitive::{str, u64};
/// }
/// #[macro_export]
/// macro_rules! offset_of {
///     ($of:ty, at) => { 0 };
///     ($of:ty, count) => { 16 };
/// }
/// #[macro_export]
/// macro_rules! assert {
///     ($($all:tt)*) => {};
/// }
/// #[derive(Clone, Copy, egret_net::buf::Plain)]
/// #[repr(C)]
/// struct Sample {
///     at: f64,
///     count: u32, // padding in `Sample` after its last field `count`
/// }
/// fn main() {}
/// ```
///
/// ```standalone_crate
/// # #![allow(dead_code)]
/// extern crate self as core;
/// # use egret_net::buf::Plain;
/// pub mod mem {
///     pub const fn size_of<T>() -> usize {
///         16
///     }
/// }
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Sample {
///     at: f64,
///     count: u64,
/// }
/// fn main() {}
/// ```
///
/// Nor a field that is not plain itself:
///
/// ```compile_fail,E0277
/// # use egret_net::buf::Plain;
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Sample {
///     valid: bool,
/// }
/// ```
///
/// Nor a struct that is not `Copy`:
///
/// ```compile_fail,E0277
/// # use egret_net::buf::Plain;
/// #[derive(Plain)]
/// #[repr(C)]
/// struct Sample {
///     at: f64,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain: not all bytes of its size are a value of it, the same everywhere",
    label = "not plain",
    note = "plain are the numbers of fixed width, arrays of plain types, and `#[repr(C)]` structs \
            that derive `Plain`; `bool`, `char`, `usize`, enums, references and `Vec` are not"
)]
pub trait Plain: Pod + Send + Sync {
    /// Names the type in errors.
    const NAME: &'static str;
    /// Tells the type from all others on the wire: a hash of its structure
    /// (names, order and types of its fields).
    const FINGERPRINT: u64;

    /// What a send of this type says it carries.
    #[must_use]
    fn kind() -> Kind {
        Kind { fingerprint: Self::FINGERPRINT, name: Cow::Borrowed(Self::NAME) }
    }
}

/// The element type of a message: its fingerprint, and its name for the error
/// that a mismatch becomes. Equal if the fingerprints are.
///
/// ```
/// use egret_net::buf::Plain;
///
/// assert_eq!(f64::kind(), f64::kind());
/// assert_ne!(f64::kind(), u64::kind());
/// ```
#[derive(Debug, Clone)]
pub struct Kind {
    /// See [`Plain::FINGERPRINT`].
    pub fingerprint: u64,
    /// See [`Plain::NAME`].
    pub name: Cow<'static, str>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Kind {}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:016x})", self.name, self.fingerprint)
    }
}

/// FNV-1a over `bytes`, continuing from `hash`; start with [`FINGERPRINT_SEED`].
///
/// A fingerprint catches mistakes, not malice, so a simple hash that a `const`
/// can compute is the right one.
#[doc(hidden)]
#[must_use]
pub const fn fingerprint(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// Where [`fingerprint`] starts.
#[doc(hidden)]
pub const FINGERPRINT_SEED: u64 = 0xcbf2_9ce4_8422_2325;

macro_rules! primitives {
    ($($name:ident),*) => {$(
        impl Plain for $name {
            const NAME: &'static str = stringify!($name);
            const FINGERPRINT: u64 = fingerprint(FINGERPRINT_SEED, stringify!($name).as_bytes());
        }
    )*};
}

primitives!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl<T: Plain, const N: usize> Plain for [T; N]
where
    [T; N]: Pod,
{
    const NAME: &'static str = "array";
    const FINGERPRINT: u64 =
        fingerprint(fingerprint(T::FINGERPRINT, b"["), &(N as u64).to_le_bytes());

    fn kind() -> Kind {
        let name = format!("[{}; {N}]", T::kind().name);
        Kind { fingerprint: Self::FINGERPRINT, name: Cow::Owned(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_these_for_ever() {
        assert_eq!(u8::FINGERPRINT, 0x08c4_8207_b567_53d8);
        assert_eq!(f64::FINGERPRINT, 0xdd74_4c18_ff7e_a1ab);
        assert_eq!(<[u8; 4]>::FINGERPRINT, 0xa778_dd0e_e576_3d3d);
        assert_ne!(<[u8; 4]>::FINGERPRINT, u32::FINGERPRINT);
        assert_ne!(<[u8; 4]>::FINGERPRINT, <[u8; 5]>::FINGERPRINT);
        assert_eq!(<[u8; 4]>::kind().to_string()[..7], *"[u8; 4]");
    }
}
