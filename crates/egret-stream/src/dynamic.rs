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

use std::any::{Any, TypeId, type_name};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};

#[doc(hidden)]
pub use inventory;

use crate::describe::{Schema, fingerprint};
use crate::error::WireError;
use crate::fault::{Fault, planted};
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

/// The numbers that types have on one connection, in one direction.
///
/// A writer that has none explains each type where it is first met, so that its
/// stream can be read by itself. One that is given those of a connection writes
/// the number alone; the explanation crosses the connection once, ahead of the
/// first message that needs it: [`news`](Self::news) at the sender, and
/// [`learn`](Self::learn) at the receiver.
///
/// ```
/// # use egret_stream::{Dynamic, Names, Reader, Wire, Writer, dynamic, register};
/// # trait Shape: Dynamic {}
/// # dynamic!(Shape);
/// # #[derive(Wire)]
/// # struct Square(f64);
/// # impl Shape for Square {}
/// # register!(Square as dyn Shape);
/// let shape: Box<dyn Shape> = Box::new(Square(2.0));
/// let mut writer = Writer::new().with_names(Names::new());
/// writer.write(&shape)?;
/// let message = writer.to_vec();
/// let news = writer.take_names().and_then(|mut names| names.news());
///
/// let mut known = Names::new();
/// known.learn(&news.expect("a type that the reader does not know yet"))?;
/// let back: Box<dyn Shape> = Reader::new(&message).with_names(known).read()?;
/// # let _ = back;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Names {
    known: Vec<KnownType>,
    numbers: BTreeMap<TypeId, u32>,
    is_of_connection: bool,
    /// How many the other side was told, or how many a finished value needs.
    settled: usize,
}

#[derive(Debug)]
struct KnownType {
    id: Option<TypeId>,
    name: Cow<'static, str>,
    fingerprint: u64,
    /// Its structure, from when it is to be announced or was, until that is of no use.
    schema: Option<Schema>,
    /// The way to read it that was looked up last.
    entry: Option<DynamicEntry>,
}

impl Names {
    /// No names yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the other side must [learn](Self::learn) before it reads what was
    /// written since the last time; `None` if nothing.
    pub fn news(&mut self) -> Option<Vec<u8>> {
        if !self.is_of_connection || self.settled == self.known.len() {
            return None;
        }
        let schemas: Vec<String> = self.known[self.settled..]
            .iter_mut()
            .map(|known| known.schema.take().map_or_else(String::new, |schema| schema.to_string()))
            .collect();
        let fresh: Vec<(u32, u64, &str, &str)> = (0..)
            .zip(&self.known)
            .skip(self.settled)
            .zip(&schemas)
            .map(|((number, known), schema)| (number, known.fingerprint, &*known.name, &**schema))
            .collect();
        let mut writer = Writer::new();
        writer.write(&fresh).expect("numbers and names can be written");
        let news = writer.to_vec();
        self.settled = self.known.len();
        Some(news)
    }

    /// Takes what the other side's [`news`](Self::news) tell.
    ///
    /// # Errors
    ///
    /// If they are not understood, or too many; nothing is learned then.
    pub fn learn(&mut self, news: &[u8]) -> Result<(), WireError> {
        let fresh: Vec<(u32, u64, String, String)> = Reader::new(news).read_last()?;
        let expected = self.known.len()..;
        let in_order = fresh.iter().zip(expected).all(|((number, ..), at)| *number as usize == at);
        if !in_order || self.known.len() + fresh.len() > TYPES_MAX {
            return Err(WireError::Custom("names of types that do not follow".to_owned()));
        }
        let known = |(_, fingerprint, name, schema): (_, _, _, String)| KnownType {
            id: None,
            name: Cow::Owned(name),
            fingerprint,
            schema: Some(Schema::from_text(&schema)),
            entry: None,
        };
        self.known.extend(fresh.into_iter().map(known));
        Ok(())
    }

    pub(crate) fn of_connection(mut self) -> Self {
        self.is_of_connection = true;
        self
    }

    pub(crate) const fn is_of_connection(&self) -> bool {
        self.is_of_connection
    }

    /// A value is written: what it explained stays explained.
    pub(crate) fn settle(&mut self) {
        if !self.is_of_connection {
            self.settled = self.known.len();
        }
    }

    /// A value was not written: what it explained was not.
    pub(crate) fn undo(&mut self) {
        if self.is_of_connection {
            return;
        }
        for known in self.known.drain(self.settled..) {
            if let Some(id) = known.id {
                self.numbers.remove(&id);
            }
        }
    }

    /// The stream begins anew.
    pub(crate) fn clear_inline(&mut self) {
        if !self.is_of_connection {
            *self = Self::default();
        }
    }

    /// The number of a type, and its fingerprint if it has to be explained here.
    fn number(&mut self, of: &TypeOf) -> (u32, Option<u64>) {
        if let Some(&number) = self.numbers.get(&of.id) {
            return (number, None);
        }
        let number = u32::try_from(self.known.len()).expect("fewer than 2^32 types");
        let fingerprint = (of.fingerprint)();
        let name = Cow::Borrowed(of.name);
        let schema = self.is_of_connection.then(of.schema);
        self.known.push(KnownType { id: Some(of.id), name, fingerprint, schema, entry: None });
        self.numbers.insert(of.id, number);
        (number, (!self.is_of_connection).then_some(fingerprint))
    }

    /// How to read type `number` as `D`.
    fn ways<D: ?Sized + 'static>(
        &mut self,
        number: u32,
    ) -> Result<&'static DynamicReaders<D>, WireError> {
        let known = self.known.get_mut(number as usize).ok_or(WireError::NoSuchType(number))?;
        let wanted = TypeId::of::<D>();
        let is_found = |entry: &DynamicEntry| (entry.wanted)() == wanted;
        let entry = match known.entry.filter(is_found) {
            Some(entry) => entry,
            None => known.look_up::<D>()?,
        };
        known.entry = Some(entry);
        known.schema = None;
        let ways: &'static dyn Any = entry.ways;
        ways.downcast_ref().ok_or_else(|| known.is_no::<D>())
    }
}

impl KnownType {
    fn look_up<D: ?Sized + 'static>(&self) -> Result<DynamicEntry, WireError> {
        let wanted = TypeId::of::<D>();
        let mut same_name = None;
        let found = find(|entry| {
            let is_named = (entry.name)() == self.name;
            same_name = same_name.or(is_named.then_some(*entry));
            is_named && (entry.wanted)() == wanted
        });
        let Some(entry) = found else {
            return Err(match same_name {
                Some(_) => self.is_no::<D>(),
                None => WireError::UnknownType(self.name.to_string()),
            });
        };
        let (theirs, ours) = (self.fingerprint, (entry.fingerprint)());
        if differ(theirs, ours) {
            let words = self.schema.as_ref().and_then(|there| (entry.schema)().difference(there));
            let difference = words.unwrap_or_else(|| {
                format!("its fingerprint is {theirs:016x} there and {ours:016x} here")
            });
            return Err(WireError::Differs { name: self.name.to_string(), difference });
        }
        Ok(entry)
    }

    fn is_no<D: ?Sized>(&self) -> WireError {
        WireError::NotA { name: self.name.to_string(), wanted: type_name::<D>() }
    }
}

/// Writes which type follows.
#[doc(hidden)]
pub fn write_type(of: &TypeOf, w: &mut Writer<'_>) -> Written {
    let (number, explained) = w.names().number(of);
    w.array(number.to_le_bytes())?;
    if let Some(fingerprint) = explained {
        w.array(fingerprint.to_le_bytes())?;
        w.length(of.name.len())?;
        w.claim(of.name.len())?.copy_from_slice(of.name.as_bytes());
    }
    Ok(())
}

/// Reads which type follows, and how it becomes a `D`.
#[doc(hidden)]
pub fn read_type<D: ?Sized + 'static>(
    r: &mut Reader<'_>,
) -> Result<&'static DynamicReaders<D>, Stop> {
    let number = u32::from_le_bytes(r.array()?);
    let names = r.names();
    if !names.is_of_connection && number as usize == names.known.len() {
        explained(r)?;
    }
    r.names().ways(number).map_err(|why| r.fail(why))
}

/// The explanation of a new type.
fn explained(r: &mut Reader<'_>) -> Result<(), Stop> {
    let fingerprint = u64::from_le_bytes(r.array()?);
    // The list of types may have room for as many again.
    r.charge::<Names>(2 * size_of::<KnownType>())?;
    let len = r.length(1)?;
    let name = match str::from_utf8(r.run(len)?) {
        Ok(name) => Cow::Owned(name.to_owned()),
        Err(_) => return Err(r.fail(WireError::NotUtf8)),
    };
    r.names().known.push(KnownType { id: None, name, fingerprint, schema: None, entry: None });
    Ok(())
}

fn differ(theirs: u64, ours: u64) -> bool {
    theirs != ours && !planted(Fault::AnyStructure)
}

/// How many types a connection may announce.
const TYPES_MAX: usize = 1 << 16;

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
            boxed: |r| Ok(<$type as $crate::Boxed<'_>>::read_box(r)?),
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
