//! What a type must say to travel: how it is written, read and described.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use egret_net::buf::Plain;

use crate::describe::{Describe, PlanCursor};
use crate::error::Invalid;
use crate::reader::{Reader, ShortReader, read_same};
use crate::share::SharedState;
use crate::writer::{ShortWriter, Writer};

/// A type that can be written to a stream.
///
/// Derived for structs and enums; the code is generated, and nothing is looked up
/// at run time:
///
/// ```
/// use egret_stream::{Reader, Wire, Writer};
///
/// #[derive(Wire, Debug, PartialEq)]
/// struct Order {
///     item: String,
///     prices: Vec<f64>,
///     note: Option<Box<Order>>,
/// }
///
/// let order = Order { item: "tea".into(), prices: vec![1.5, 2.0], note: None };
/// let mut writer = Writer::new();
/// writer.write(&order)?;
/// let message = writer.to_vec();
/// assert_eq!(Reader::new(&message).read::<Order>()?, order);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel in a stream",
    note = "derive `Wire` for it: `#[derive(egret::wire::Wire)]`; \
            if it has serde's traits, wrap it in `egret::wire::Serde`, or say \
            `#[wire(with = egret::wire::serde)]` at the field",
    note = "a program that depends on `egret_stream` says `egret_stream` instead of `egret::wire`"
)]
pub trait Wire {
    /// How many bytes a value takes.
    const SIZE: WireSize;

    /// Tells the structure of the type.
    fn describe(d: &mut Describe);

    /// Writes the value. What is large and lies together may be left where it is.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written;

    /// Writes a value of a fixed size to the front of `run`, which has room for it.
    #[inline(always)]
    fn write_fixed(&self, run: &mut &mut [u8]) {
        let _ = run;
        debug_assert!(false, "called for fixed sizes only");
    }

    /// Writes values as [`write_fixed`](Self::write_fixed) does.
    #[inline(always)]
    fn write_fixed_slice(slice: &[Self], run: &mut &mut [u8])
    where
        Self: Sized,
    {
        slice.iter().for_each(|element| element.write_fixed(run));
    }

    /// Writes a value that takes one look at the room, all of it or nothing: says
    /// whether it is written.
    #[inline(always)]
    fn write_short(&self, room: &mut ShortWriter<'_>) -> bool {
        room.fixed(self)
    }

    /// Writes a slice as [`write_short`](Self::write_short) does, with its number of
    /// elements.
    #[inline(always)]
    fn write_short_list(slice: &[Self], room: &mut ShortWriter<'_>) -> bool
    where
        Self: Sized,
    {
        let _ = (slice, room);
        false
    }

    /// Writes the value and may move arrays out of it, which stay alive in the
    /// writer.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        w.copied(|w| self.write(w))
    }

    /// Writes a slice, with its number of elements.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    fn write_list<'w>(slice: &'w [Self], w: &mut Writer<'w>) -> Written
    where
        Self: Sized,
    {
        w.length(slice.len())?;
        w.nested::<[Self], _>(|w| w.elements(slice))
    }

    /// Writes a vector's elements and may take it away, as [`give`](Self::give) does.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    fn give_vec(vec: &mut Vec<Self>, w: &mut Writer<'static>) -> Written
    where
        Self: Sized,
    {
        for element in vec {
            w.element(|w| element.give(w), Self::SIZE)?;
        }
        Ok(())
    }

    /// Writes a value that others share, and may keep it alive in the writer.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    fn give_arc(arc: &Arc<Self>, w: &mut Writer<'static>) -> Written {
        w.copied(|w| arc.as_ref().write(w))
    }

    /// Writes elements as [`give_arc`](Self::give_arc) does, without their number.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    fn give_elements(arc: &Arc<[Self]>, w: &mut Writer<'static>) -> Written
    where
        Self: Sized,
    {
        w.copied(|w| w.elements(arc))
    }

    /// A value to stand in for one that is being read, so that a cycle through it
    /// can be closed.
    #[must_use]
    fn blank() -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Whether a cycle of strong references may go through a shared value of this
    /// type: it can be filled in later.
    #[must_use]
    fn is_fillable() -> bool {
        false
    }
}

/// A type that can be read from a stream of lifetime `'a`, from which it may borrow.
///
/// Derived together with [`Wire`]. Types that borrow nothing implement it for
/// every lifetime.
///
/// A type whose reading the derive cannot write has both traits by hand:
///
/// ```
/// use egret_stream::{Describe, FromWire, Invalid, Reader, Stop, Wire, WireSize, Writer, Written};
///
/// /// A fraction of one, which travels as hundredths.
/// #[derive(Debug, PartialEq)]
/// struct Percent(f64);
///
/// impl Wire for Percent {
///     const SIZE: WireSize = WireSize::at_least(1);
///     fn describe(d: &mut Describe) {
///         d.word("percent");
///     }
///     fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
///         w.array([(self.0 * 100.0) as u8])
///     }
/// }
///
/// impl<'a> FromWire<'a> for Percent {
///     fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
///         match r.array()? {
///             [hundredths @ 0..=100] => Ok(Self(f64::from(hundredths) / 100.0)),
///             _ => Err(r.fail(Invalid::new("percent"))),
///         }
///     }
/// }
///
/// let mut writer = Writer::new();
/// writer.write(&Percent(0.5))?;
/// assert_eq!(writer.to_vec(), [50]);
/// assert_eq!(Reader::new(&[50]).read::<Percent>()?, Percent(0.5));
/// assert!(Reader::new(&[101]).read::<Percent>().is_err());
/// # Ok::<(), egret_stream::WireError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a stream",
    note = "derive `Wire` for it: `#[derive(egret::wire::Wire)]`; \
            if it has serde's traits, wrap it in `egret::wire::Serde`",
    note = "`&[T]` and `&str` can be read in place, `&T` if `T` is plain",
    note = "a program that depends on `egret_stream` says `egret_stream` instead of `egret::wire`"
)]
pub trait FromWire<'a>: Wire + Sized {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop>;

    /// Reads a value that another version of the type has written, or of parts of which that is so:
    /// as `plan` says. A type whose code does not have this is read only if it is the same at the
    /// writer.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        read_same(r, plan)
    }

    /// Reads a value that takes one look at what is left, all of it or nothing.
    #[inline(always)]
    fn read_short(rest: &mut ShortReader<'a>) -> Option<Self> {
        rest.fixed()
    }

    /// Reads a vector as [`read_short`](Self::read_short) does, with its number of
    /// elements.
    #[inline(always)]
    fn read_short_list(rest: &mut ShortReader<'a>) -> Option<Vec<Self>> {
        let _ = rest;
        None
    }

    /// Reads a value of a fixed size from the front of `run`, which is long enough.
    ///
    /// # Errors
    ///
    /// If the bytes are no value.
    #[inline(always)]
    fn read_fixed(run: &mut &[u8]) -> Result<Self, Invalid> {
        let _ = run;
        Err(Invalid::new("value of fixed size"))
    }

    /// Reads `N` values as [`read_fixed`](Self::read_fixed) does.
    ///
    /// # Errors
    ///
    /// If the bytes are no values.
    #[inline]
    fn read_fixed_array<const N: usize>(run: &mut &[u8]) -> Result<[Self; N], Invalid> {
        let mut slots = [const { None::<Self> }; N];
        for slot in &mut slots {
            *slot = Some(Self::read_fixed(run)?);
        }
        Ok(slots.map(|slot| slot.expect("every slot was filled")))
    }

    /// Reads a vector, with its number of elements.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    fn read_list(r: &mut Reader<'a>) -> Result<Vec<Self>, Stop> {
        let len = r.length(Self::SIZE.of_element())?;
        r.nested::<[Self], _, _>(|r| r.elements(len))
    }

    /// Reads what [`read_list`](Self::read_list) does, in place if it lies so.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    fn read_cow(r: &mut Reader<'a>) -> Result<Cow<'a, [Self]>, Stop>
    where
        Self: Clone,
    {
        Self::read_list(r).map(Cow::Owned)
    }

    /// Reads a value into shared memory; the reader's table knows it as `id`.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    fn read_shared_rc(r: &mut Reader<'a>, id: usize) -> Result<Rc<Self>, Stop>
    where
        Self: 'static,
    {
        crate::reader::build_rc(r, id)
    }

    /// As [`read_shared_rc`](Self::read_shared_rc).
    ///
    /// # Errors
    ///
    /// The reader knows why.
    fn read_shared_arc(r: &mut Reader<'a>, id: usize) -> Result<Arc<Self>, Stop>
    where
        Self: 'static,
    {
        crate::reader::build_arc(r, id)
    }
}

/// What can be read behind a pointer, sized or not.
///
/// ```
/// use egret_stream::{Boxed, Reader, Wire, WireError};
///
/// /// Reads a box of any type that a box can have, sized or not.
/// fn boxed<'a, T: Boxed<'a> + ?Sized>(bytes: &'a [u8]) -> Result<Box<T>, WireError> {
///     Reader::new(bytes).read()
/// }
///
/// assert_eq!(&*boxed::<str>(b"\x02\0\0\0hi")?, "hi");
/// assert_eq!(*boxed::<u16>(&[1, 0])?, 1);
/// # Ok::<(), WireError>(())
/// ```
pub trait Boxed<'a>: Wire {
    /// Reads a value into a box.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    fn read_box(r: &mut Reader<'a>) -> Result<Box<Self>, Stop>;

    /// Reads a value into a box as [`FromWire::read_planned`] does.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    fn read_box_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Box<Self>, Stop> {
        match plan.is_same() {
            true => Self::read_box(r),
            false => Err(r.unplanned::<Self>()),
        }
    }

    /// Reads a value that is shared, the reader's `id`.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    fn read_rc(r: &mut Reader<'a>, id: usize) -> Result<Rc<Self>, Stop>
    where
        Self: 'static;

    /// As [`read_rc`](Self::read_rc).
    ///
    /// # Errors
    ///
    /// The reader knows why.
    fn read_arc(r: &mut Reader<'a>, id: usize) -> Result<Arc<Self>, Stop>
    where
        Self: 'static;

    /// What the reader's table keeps of it.
    #[doc(hidden)]
    fn rc_state(shared: &Rc<Self>) -> SharedState
    where
        Self: 'static,
    {
        SharedState::Other(Box::new(Rc::clone(shared)))
    }

    /// The value out of the reader's table.
    #[doc(hidden)]
    fn rc_of(state: &SharedState) -> Option<Rc<Self>>
    where
        Self: 'static,
    {
        state.other()
    }

    /// What the reader's table keeps of it.
    #[doc(hidden)]
    fn arc_state(shared: &Arc<Self>) -> SharedState
    where
        Self: 'static,
    {
        SharedState::Other(Box::new(Arc::clone(shared)))
    }

    /// The value out of the reader's table.
    #[doc(hidden)]
    fn arc_of(state: &SharedState) -> Option<Arc<Self>>
    where
        Self: 'static,
    {
        state.other()
    }
}

/// A type whose slices travel as the bytes they are: the numbers, and plain structs
/// that derive with `#[wire(plain)]`.
/// [`InPlace`] has an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read in place, so `&[{Self}]` cannot be read from a stream",
    note = "read a `Vec` of it (of a remote method, the argument is a `Vec` or a `&Vec`); in place \
            are numbers, and `#[repr(C)]` structs that derive `Plain` and `Wire` with \
            `#[wire(plain)]`"
)]
pub trait Bulk: Plain + Wire {}

/// A plain struct that travels as the bytes it is, aligned, so that a reference to
/// it can be read: `#[wire(plain)]`.
///
/// ```
/// use egret_stream::{Reader, Wire, Writer};
/// use egret_stream::net::buf::Plain;
///
/// #[derive(Clone, Copy, Debug, PartialEq, Plain, Wire)]
/// #[repr(C)]
/// #[plain(crate = egret_stream::net)]
/// #[wire(plain)]
/// struct Cell {
///     at: u64,
///     value: f64,
/// }
///
/// let cells = vec![Cell { at: 2, value: 0.5 }; 10];
/// let mut writer = Writer::new();
/// writer.write(&cells)?;
/// let message = writer.to_vec();
/// let in_place: &[Cell] = Reader::new(&message).read()?;
/// assert_eq!(in_place, cells);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait InPlace: Bulk {}

/// How many bytes the values of a type take.
/// [`FromWire`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireSize {
    /// The fewest.
    pub min: usize,
    /// Whether it is always as many, wherever the value stands.
    pub is_fixed: bool,
}

impl WireSize {
    /// Always `bytes`.
    #[must_use]
    pub const fn fixed(bytes: usize) -> Self {
        Self { min: bytes, is_fixed: true }
    }

    /// `bytes` or more.
    #[must_use]
    pub const fn at_least(bytes: usize) -> Self {
        Self { min: bytes, is_fixed: false }
    }

    /// Of two values, one after the other.
    #[must_use]
    pub const fn and(self, next: Self) -> Self {
        let min = self.min.saturating_add(next.min);
        Self { min, is_fixed: self.is_fixed && next.is_fixed }
    }

    /// Of `count` values.
    #[must_use]
    pub const fn times(self, count: usize) -> Self {
        Self { min: self.min.saturating_mul(count), is_fixed: self.is_fixed }
    }

    /// Of an element of a sequence. One that has no bytes takes one there, so that
    /// a length can be checked against the bytes that are left.
    #[must_use]
    pub const fn of_element(self) -> usize {
        if self.min == 0 { 1 } else { self.min }
    }
}

/// Whether something was written.
/// [`FromWire`] has an example.
pub type Written = Result<(), Stop>;

/// Writing or reading ended; the writer or reader knows why.
///
/// The error has no bytes, so that results stay in registers.
/// [`FromWire`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Stop(());

impl Stop {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(())
    }
}
