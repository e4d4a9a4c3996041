//! What can be an object, part of one, or what a reference leads to.

use std::any::TypeId;

use egret_net::buf::{Flat, Ref};

use super::class::{DescribeObject, GraphClass};
use super::hint::ClassHint;
use super::slot;
use super::store::Store;

/// A type whose values can be objects of a [`Graph`](super::Graph), or parts of such: numbers,
/// `bool`, `char`, references and optional ones, arrays, and what derives it.
///
/// ```
/// use egret_stream::graph::{Graph, Object, Ref, Text};
///
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Town {
///     name: Text,
///     people: u32,
///     kind: Kind,
///     is_port: bool,
///     _reserved: [u8; 2],
///     next: Option<Ref<Town>>,
/// }
///
/// #[derive(Clone, Copy, PartialEq, Debug, Object)]
/// #[repr(u8)]
/// enum Kind {
///     Village,
///     City,
/// }
/// ```
///
/// An enum may also have fields, and numbers of one's own:
///
/// ```
/// use egret_stream::graph::{Object, Ref};
///
/// #[derive(Clone, Copy, Object)]
/// #[repr(u32)]
/// #[object(check = is_sound)]
/// enum Shape {
///     Point([u8; 12]) = 1,
///     Circle { radius: f32, middle: Ref<[f32; 2]> },
/// }
///
/// fn is_sound(shape: &Shape) -> bool {
///     !matches!(shape, Shape::Circle { radius, .. } if *radius < 0.0)
/// }
/// ```
///
/// The derive needs a layout that is the same everywhere (`#[repr(C)]`, or of an enum the type
/// of its tag) and leaves no holes. The one after `kind` has to have a name:
///
/// ```compile_fail,E0080
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Town {
///     kind: u8,
///     people: u32, // padding in `Town` before field `people`
/// }
/// ```
///
/// Each variant by itself has none, and all are of one size:
///
/// ```compile_fail,E0080
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(u32)]
/// enum Shape {
///     Point, // padding in variant `Point` of `Shape` after its tag
///     Circle { radius: f32 },
/// }
/// ```
///
/// ```compile_fail,E0080
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(u8)]
/// enum Shape {
///     Circle { radius: f32 }, // padding in variant `Circle` of `Shape` before field `radius`
/// }
/// ```
///
/// All parts are objects, and none is aligned to more than 8 bytes:
///
/// ```compile_fail,E0277
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Town {
///     people: usize, // `usize` cannot be an object of a graph or part of one
/// }
/// ```
///
/// ```compile_fail,E0080
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(C, align(16))] // `Place` is aligned to more than 8 bytes
/// struct Place {
///     at: [f64; 2],
/// }
/// ```
///
/// The number of a variant with fields is a literal. An expression could have another value where
/// the derive repeats it, and bytes that are no value would be taken for one:
///
/// ```
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(u8)]
/// enum Shape { Point(u8) = 1, Circle(u8) = 7 }
/// ```
///
/// ```compile_fail
/// # use egret_stream::graph::Object;
/// macro_rules! tag { (Self) => { 1 }; ($name:ident) => { 2 } }
/// #[derive(Clone, Copy, Object)]
/// #[repr(u8)]
/// enum Shape { Point(u8) = tag!(Self), Circle(u8) = 7 }
/// ```
///
/// ```compile_fail
/// # use egret_stream::graph::Object;
/// struct __Variant0; // the derive has one, too
/// #[derive(Clone, Copy, Object)]
/// #[repr(u8)]
/// enum Shape { Point(u8) = 1 + size_of::<__Variant0>() as u8, Circle(u8) = 7 }
/// ```
///
/// Nor can it be a struct or an enum that the compiler lays out as it likes, one that is not
/// `Copy`, one with parameters, one that is packed, or a union:
///
/// ```compile_fail
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// struct Place(f64, f64); // `Place` needs `#[repr(C)]`
/// ```
///
/// ```compile_fail
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// enum Kind { Village, City } // `Kind` needs the type of its tag
/// ```
///
/// ```compile_fail,E0277
/// # use egret_stream::graph::Object;
/// #[derive(Object)]
/// #[repr(C)]
/// struct Place(f64, f64); // the trait bound `Place: Copy` is not satisfied
/// ```
///
/// ```compile_fail
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Place<T>(T, T); // `Place` cannot derive `Object` with generics
/// ```
///
/// ```compile_fail
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(C, packed)]
/// struct Place(u8, f64); // `Place` cannot be packed
/// ```
///
/// ```compile_fail
/// # use egret_stream::graph::Object;
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// union Bits { number: u32, bytes: [u8; 4] } // `Bits` cannot be an object
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an object of a graph or part of one",
    label = "no object",
    note = "objects are numbers of fixed width, `bool`, `char`, `Ref<T>`, `Option<Ref<T>>`, \
            arrays of objects, and `#[repr(C)]` structs and enums that derive `Object`; for a \
            `Vec` there is `Slice<T>`, for a `String` there is `Text`"
)]
pub trait Object: Flat {
    /// Whether there is a reference in it.
    const REFS: bool;
    /// Whether the references of every value lie at the same places.
    const EVEN: bool = false;
    /// Whether it has an invariant of its own, which [`check`](Self::check) checks.
    const CHECKED: bool = false;

    /// Says what it looks like, and which types it refers to.
    fn describe(describe: &mut DescribeObject<'_>);

    /// Where the number of its class is remembered, to find an object without waiting for what
    /// its reference says.
    #[doc(hidden)]
    #[inline]
    fn hint() -> &'static ClassHint {
        static HINT: ClassHint = ClassHint::new();
        &HINT
    }

    /// Shows each reference in it to `see`, and stops where that refuses one.
    ///
    /// # Errors
    ///
    /// What `see` says.
    fn refs<S: SeeRefs>(&self, see: &mut S) -> Result<(), S::Stop>;

    /// Has each reference in it replaced.
    ///
    /// # Errors
    ///
    /// What `renew` says.
    fn renew_refs<R: RenewRefs>(&mut self, renew: &mut R) -> Result<(), R::Stop>;

    /// Whether the type's own invariant holds.
    ///
    /// # Errors
    ///
    /// In words, why not.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Where `bytes`, which are no value of it, begin to be none: an offset, and what it is not.
    fn fault(bytes: &[u8]) -> (usize, &'static str);
}

/// What a [`Ref`] can lead to: an [`Object`], a slice of them, a text, or one of which a trait
/// is known.
pub trait Target: 'static {
    /// Words of its slots; 0 if that is known of each alone.
    #[doc(hidden)]
    const SLOT_WORDS: usize = 0;
    /// Adds the classes that it can be of.
    #[doc(hidden)]
    fn enter(describe: &mut DescribeObject<'_>);
    /// Whether an object of the class is one; `id` is that of the class.
    #[doc(hidden)]
    fn is_class(id: TypeId, class: &GraphClass) -> bool;
    /// Finds it.
    #[doc(hidden)]
    fn find(store: &Store, reference: Ref<Self>) -> Option<&Self>;
    /// Finds it, to be written.
    #[doc(hidden)]
    fn find_mut(store: &mut Store, reference: Ref<Self>) -> Option<&mut Self>;
}

/// Sees references; see [`Object::refs`].
pub trait SeeRefs {
    /// Why one is not seen any more.
    type Stop;
    /// Sees one, where it lies.
    ///
    /// # Errors
    ///
    /// If there is no point in going on.
    fn see<T: Target + ?Sized>(&mut self, reference: &Ref<T>) -> Result<(), Self::Stop>;

    /// Sees one that may be none, where it lies.
    ///
    /// # Errors
    ///
    /// If there is no point in going on.
    #[inline]
    fn see_option<T: Target + ?Sized>(
        &mut self,
        reference: &Option<Ref<T>>,
    ) -> Result<(), Self::Stop> {
        match reference {
            None => Ok(()),
            Some(reference) => self.see(reference),
        }
    }
}

/// Replaces references; see [`Object::renew_refs`].
pub trait RenewRefs {
    /// Why one is not replaced.
    type Stop;
    /// Replaces one.
    ///
    /// # Errors
    ///
    /// If there is no point in going on.
    fn renew<T: ?Sized>(&mut self, reference: &mut Ref<T>) -> Result<(), Self::Stop>;
    /// Replaces one that may also be taken away.
    ///
    /// # Errors
    ///
    /// If there is no point in going on.
    fn renew_option<T: ?Sized>(&mut self, reference: &mut Option<Ref<T>>)
    -> Result<(), Self::Stop>;
}

impl<T: Object> Target for T {
    const SLOT_WORDS: usize = slot::stride(size_of::<T>()) / slot::ALIGN;

    fn enter(describe: &mut DescribeObject<'_>) {
        describe.enter_object::<T>();
    }

    #[inline]
    fn is_class(id: TypeId, _: &GraphClass) -> bool {
        id == TypeId::of::<T>()
    }

    #[inline]
    fn find(store: &Store, reference: Ref<T>) -> Option<&T> {
        store.object(reference)
    }

    #[inline]
    fn find_mut(store: &mut Store, reference: Ref<T>) -> Option<&mut T> {
        store.object_mut(reference)
    }
}

impl<T: Object> Target for [T] {
    fn enter(describe: &mut DescribeObject<'_>) {
        describe.enter_slice::<T>();
    }

    #[inline]
    fn is_class(id: TypeId, _: &GraphClass) -> bool {
        id == TypeId::of::<[T]>()
    }

    fn find(store: &Store, reference: Ref<[T]>) -> Option<&[T]> {
        store.slice(reference)
    }

    fn find_mut(store: &mut Store, reference: Ref<[T]>) -> Option<&mut [T]> {
        store.slice_mut(reference)
    }
}

impl Target for str {
    fn enter(describe: &mut DescribeObject<'_>) {
        describe.enter_text();
    }

    #[inline]
    fn is_class(id: TypeId, _: &GraphClass) -> bool {
        id == TypeId::of::<str>()
    }

    fn find(store: &Store, reference: Ref<str>) -> Option<&str> {
        store.text(reference)
    }

    fn find_mut(store: &mut Store, reference: Ref<str>) -> Option<&mut str> {
        store.text_mut(reference)
    }
}

macro_rules! words {
    ($($word:ident $fault:literal)*) => {$(
        impl Object for $word {
            const REFS: bool = false;
            const EVEN: bool = true;

            fn describe(describe: &mut DescribeObject<'_>) {
                describe.word(stringify!($word));
            }

            #[inline]
            fn refs<S: SeeRefs>(&self, _: &mut S) -> Result<(), S::Stop> {
                Ok(())
            }

            #[inline]
            fn renew_refs<R: RenewRefs>(&mut self, _: &mut R) -> Result<(), R::Stop> {
                Ok(())
            }

            fn fault(_: &[u8]) -> (usize, &'static str) {
                (0, $fault)
            }
        }
    )*};
}

words! {
    u8 "a number" u16 "a number" u32 "a number" u64 "a number"
    i8 "a number" i16 "a number" i32 "a number" i64 "a number"
    f32 "a number" f64 "a number"
    bool "a `bool`, which is 0 or 1" char "a `char`"
}

impl<T: Target + ?Sized> Object for Ref<T> {
    const REFS: bool = true;
    const EVEN: bool = true;

    fn describe(describe: &mut DescribeObject<'_>) {
        describe.reference::<T>("ref");
    }

    #[inline]
    fn refs<S: SeeRefs>(&self, see: &mut S) -> Result<(), S::Stop> {
        see.see(self)
    }

    #[inline]
    fn renew_refs<R: RenewRefs>(&mut self, renew: &mut R) -> Result<(), R::Stop> {
        renew.renew(self)
    }

    fn fault(_: &[u8]) -> (usize, &'static str) {
        (0, "a reference, which is not 0")
    }
}

impl<T: Target + ?Sized> Object for Option<Ref<T>> {
    const REFS: bool = true;
    const EVEN: bool = true;

    fn describe(describe: &mut DescribeObject<'_>) {
        describe.reference::<T>("optional ref");
    }

    #[inline]
    fn refs<S: SeeRefs>(&self, see: &mut S) -> Result<(), S::Stop> {
        see.see_option(self)
    }

    #[inline]
    fn renew_refs<R: RenewRefs>(&mut self, renew: &mut R) -> Result<(), R::Stop> {
        renew.renew_option(self)
    }

    fn fault(_: &[u8]) -> (usize, &'static str) {
        (0, "a reference or none")
    }
}

impl<T: Object, const N: usize> Object for [T; N] {
    const REFS: bool = T::REFS;
    const EVEN: bool = T::EVEN;
    const CHECKED: bool = T::CHECKED;

    fn describe(describe: &mut DescribeObject<'_>) {
        describe.word(&format!("{N} of"));
        T::describe(describe);
    }

    #[inline]
    fn refs<S: SeeRefs>(&self, see: &mut S) -> Result<(), S::Stop> {
        self.iter().try_for_each(|element| element.refs(see))
    }

    #[inline]
    fn renew_refs<R: RenewRefs>(&mut self, renew: &mut R) -> Result<(), R::Stop> {
        self.iter_mut().try_for_each(|element| element.renew_refs(renew))
    }

    fn check(&self) -> Result<(), String> {
        self.iter().try_for_each(Object::check)
    }

    fn fault(bytes: &[u8]) -> (usize, &'static str) {
        let size = size_of::<T>().max(1);
        let elements = bytes.chunks_exact(size).zip((0..).step_by(size));
        let wrong = elements.filter(|(element, _)| !T::is_value(element)).map(|(element, at)| {
            let (offset, what) = T::fault(element);
            (at + offset, what)
        });
        wrong.min_by_key(|(at, _)| *at).unwrap_or((0, "an array"))
    }
}
