//! Values of which only a trait is known: which types there are, and their numbers.
//!
//! ```
//! use egret_stream::{Dynamic, Reader, Wire, Writer, dynamic, register};
//!
//! trait Shape: Dynamic {
//!     fn area(&self) -> f64;
//! }
//! dynamic!(Shape); // `Box`, `Rc` and `Arc<dyn Shape>` can travel
//!
//! #[derive(Wire)]
//! struct Square(f64);
//! impl Shape for Square {
//!     fn area(&self) -> f64 {
//!         self.0 * self.0
//!     }
//! }
//! register!(Square as dyn Shape); // known wherever this program is linked
//!
//! let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(2.0)), Box::new(Square(3.0))];
//! let mut writer = Writer::new();
//! writer.write(&shapes)?;
//! let message = writer.to_vec();
//! let back: Vec<Box<dyn Shape>> = Reader::new(&message).read()?;
//! assert_eq!(back[1].area(), 9.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod names;

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};

#[doc(hidden)]
pub use inventory;
pub use names::Names;
#[doc(hidden)]
pub use names::{read_type, write_type};

use crate::describe::{Schema, fingerprint};
use crate::reader::Reader;
use crate::wire::{Stop, Wire, Written};
use crate::writer::Writer;

/// What a trait needs as a supertrait so that its objects can travel: see
/// [`dynamic!`](crate::dynamic!). Every type that can be written has it.
pub trait Dynamic: Any {
    /// Which type this is.
    #[doc(hidden)]
    fn wire_type(&self) -> TypeOf;
    /// Writes the value as what it is.
    #[doc(hidden)]
    fn write_dyn<'w>(&'w self, w: &mut Writer<'w>) -> Written;
}

impl<T: Wire + Any> Dynamic for T {
    fn wire_type(&self) -> TypeOf {
        TypeOf {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
            fingerprint: fingerprint::<T>,
            schema: Schema::of::<T>,
        }
    }
    fn write_dyn<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        self.write(w)
    }
}

/// The type of a value of which only a trait is known.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct TypeOf {
    id: TypeId,
    name: &'static str,
    fingerprint: fn() -> u64,
    schema: fn() -> Schema,
}

/// A type that can be read as objects of a trait; made by [`entry!`](crate::entry!).
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct DynamicEntry {
    name: fn() -> &'static str,
    fingerprint: fn() -> u64,
    schema: fn() -> Schema,
    wanted: fn() -> TypeId,
    ways: &'static (dyn Any + Sync),
}

/// How to read a type as objects of `D`.
#[doc(hidden)]
#[derive(Debug)]
pub struct DynamicReaders<D: ?Sized> {
    /// Into a box.
    pub boxed: fn(&mut Reader<'_>) -> Result<Box<D>, Stop>,
    /// Into an `Rc`.
    pub rc: fn(&mut Reader<'_>, usize) -> Result<Rc<D>, Stop>,
    /// Into an `Arc`.
    pub arc: fn(&mut Reader<'_>, usize) -> Result<Arc<D>, Stop>,
}

impl DynamicEntry {
    #[doc(hidden)]
    #[must_use]
    pub const fn new<T: Wire + 'static, D: ?Sized + 'static>(
        ways: &'static DynamicReaders<D>,
    ) -> Self {
        Self {
            name: type_name::<T>,
            fingerprint: fingerprint::<T>,
            schema: Schema::of::<T>,
            wanted: TypeId::of::<D>,
            ways,
        }
    }
}

impl fmt::Debug for DynamicEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &(self.name)()).finish_non_exhaustive()
    }
}

inventory::collect!(DynamicEntry);

static ADDED: RwLock<Vec<DynamicEntry>> = RwLock::new(Vec::new());

/// Makes a type known at run time: `add(entry!(Square as dyn Shape))`. Types that
/// [`register!`](crate::register!) names are known from the start.
///
/// ```
/// # use egret_stream::{Dynamic, Wire, dynamic::add, entry};
/// # trait Shape: Dynamic {}
/// # egret_stream::dynamic!(Shape);
/// # #[derive(Wire)]
/// # struct Square(f64);
/// # impl Shape for Square {}
/// add(entry!(Square as dyn Shape));
/// ```
pub fn add(entry: DynamicEntry) {
    ADDED.write().unwrap_or_else(PoisonError::into_inner).push(entry);
}

fn find(mut is_it: impl FnMut(&DynamicEntry) -> bool) -> Option<DynamicEntry> {
    let linked = inventory::iter::<DynamicEntry>.into_iter().copied().find(|entry| is_it(entry));
    linked.or_else(|| {
        let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
        added.iter().copied().find(is_it)
    })
}

/// Lets objects of a trait travel as `Box`, `Rc` and `Arc<dyn Trait>`; the trait has
/// [`Dynamic`] as a supertrait. See the [module](mod@crate::dynamic).
#[macro_export]
macro_rules! dynamic {
    ($($name:path),+ $(,)?) => {$(
        impl $crate::Wire for dyn $name {
            const SIZE: $crate::WireSize = $crate::WireSize::at_least(4);
            fn describe(d: &mut $crate::Describe) {
                d.word(concat!("dyn ", stringify!($name)));
            }
            fn write<'w>(&'w self, w: &mut $crate::Writer<'w>) -> $crate::Written {
                $crate::dynamic::write_type(&$crate::Dynamic::wire_type(self), w)?;
                $crate::Dynamic::write_dyn(self, w)
            }
        }
        impl<'a> $crate::Boxed<'a> for dyn $name {
            fn read_box(
                r: &mut $crate::Reader<'a>,
            ) -> ::core::result::Result<::std::boxed::Box<Self>, $crate::Stop> {
                ($crate::dynamic::read_type::<Self>(r)?.boxed)(r)
            }
            fn read_rc(
                r: &mut $crate::Reader<'a>,
                id: usize,
            ) -> ::core::result::Result<::std::rc::Rc<Self>, $crate::Stop> {
                ($crate::dynamic::read_type::<Self>(r)?.rc)(r, id)
            }
            fn read_arc(
                r: &mut $crate::Reader<'a>,
                id: usize,
            ) -> ::core::result::Result<::std::sync::Arc<Self>, $crate::Stop> {
                ($crate::dynamic::read_type::<Self>(r)?.arc)(r, id)
            }
        }
    )+};
}

/// An [`DynamicEntry`] for a type and a trait: `entry!(Square as dyn Shape)`.
/// [`add`](crate::dynamic::add) takes it, and has an example.
#[macro_export]
macro_rules! entry {
    ($type:ty as $wanted:ty) => {{
        static WAYS: $crate::dynamic::DynamicReaders<$wanted> = $crate::dynamic::DynamicReaders {
            boxed: |r| Ok(r.boxed_contents::<$type>()?),
            rc: |r, id| Ok(<$type as $crate::Boxed<'_>>::read_rc(r, id)?),
            arc: |r, id| Ok(<$type as $crate::Boxed<'_>>::read_arc(r, id)?),
        };
        $crate::dynamic::DynamicEntry::new::<$type, $wanted>(&WAYS)
    }};
}

/// Makes types known wherever the program is linked:
/// `register!(Square as dyn Shape, Circle as dyn Shape);`
/// The [module](mod@crate::dynamic) has an example.
#[macro_export]
macro_rules! register {
    ($($type:ty as $wanted:ty),+ $(,)?) => {$(
        $crate::dynamic::inventory::submit! { $crate::entry!($type as $wanted) }
    )+};
}
