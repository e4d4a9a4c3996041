//! Arrays, slices, vectors, boxes, references.

use std::borrow::{Borrow, Cow};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use egret_net::buf::{Held, Shared, Typed};
use egret_net::vi::Segment;

use crate::describe::{Describe, PlanCursor};
use crate::error::Invalid;
use crate::reader::{Reader, ShortReader};
use crate::share::SharedState;
use crate::wire::{Boxed, Bulk, FromWire, InPlace, Stop, Wire, WireSize, Written};
use crate::writer::{ShortWriter, Writer};

impl<T: Wire> Wire for [T] {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        d.group("list", T::describe);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        T::write_list(self, w)
    }
    #[inline(always)]
    fn write_short(&self, room: &mut ShortWriter<'_>) -> bool {
        T::write_short_list(self, room)
    }
    fn give_arc(arc: &Arc<Self>, w: &mut Writer<'static>) -> Written {
        w.length(arc.len())?;
        T::give_elements(arc, w)
    }
}

impl<T: Wire> Wire for Vec<T> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        <[T]>::describe(d);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        self.as_slice().write(w)
    }
    #[inline(always)]
    fn write_short(&self, room: &mut ShortWriter<'_>) -> bool {
        T::write_short_list(self, room)
    }
    #[inline]
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        w.length(self.len())?;
        w.nested::<[T], _>(|w| T::give_vec(self, w))
    }
    fn blank() -> Option<Self> {
        Some(Self::new())
    }
}

impl<'a, T: FromWire<'a>> FromWire<'a> for Vec<T> {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        T::read_list(r)
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        match plan.is_same() {
            true => T::read_list(r),
            false => r.planned_list(plan),
        }
    }
    #[inline(always)]
    fn read_short(rest: &mut ShortReader<'a>) -> Option<Self> {
        T::read_short_list(rest)
    }
}

impl<'a: 'b, 'b, T: Bulk> FromWire<'a> for &'b [T] {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        r.list_in_place()
    }
    #[inline(always)]
    fn read_short(rest: &mut ShortReader<'a>) -> Option<Self> {
        rest.list()
    }
}

impl<'a: 'b, 'b, T: InPlace> FromWire<'a> for &'b T {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        match r.in_place(1)? {
            [value] => Ok(value),
            _ => Err(r.fail(Invalid::new("value in place"))),
        }
    }
}

impl<'a: 'b, 'b, T: FromWire<'a> + Clone + 'a> FromWire<'a> for Cow<'b, [T]> {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        T::read_cow(r)
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        match plan.is_same() {
            true => T::read_cow(r),
            false => r.planned_list(plan).map(Cow::Owned),
        }
    }
}

impl<B: Wire + ToOwned + ?Sized> Wire for Cow<'_, B> {
    const SIZE: WireSize = B::SIZE;
    fn describe(d: &mut Describe) {
        B::describe(d);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        match self {
            Cow::Borrowed(value) => value.write(w),
            Cow::Owned(value) => Borrow::<B>::borrow(value).write(w),
        }
    }
}

impl<T: Wire + ?Sized> Wire for &T {
    const SIZE: WireSize = T::SIZE;
    fn describe(d: &mut Describe) {
        T::describe(d);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        (**self).write(w)
    }
    #[inline(always)]
    fn write_short(&self, room: &mut ShortWriter<'_>) -> bool {
        (**self).write_short(room)
    }
    #[inline(always)]
    fn write_fixed(&self, run: &mut &mut [u8]) {
        (**self).write_fixed(run);
    }
}

impl<T: Wire + ?Sized> Wire for Box<T> {
    const SIZE: WireSize = WireSize::at_least(T::SIZE.min);
    fn describe(d: &mut Describe) {
        T::describe(d);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        w.nested::<T, _>(|w| (**self).write(w))
    }
    #[inline]
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        w.nested::<T, _>(|w| (**self).give(w))
    }
}

impl<'a, T: Boxed<'a> + ?Sized> FromWire<'a> for Box<T> {
    #[inline(always)]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        T::read_box(r)
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        T::read_box_planned(r, plan)
    }
}

impl<'a, T: FromWire<'a>> Boxed<'a> for T {
    #[inline(always)]
    fn read_box(r: &mut Reader<'a>) -> Result<Box<Self>, Stop> {
        r.charge::<T>(size_of::<T>())?;
        r.nested::<T, _, _>(|r| T::read(r).map(Box::new))
    }
    fn read_box_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Box<Self>, Stop> {
        r.charge::<T>(size_of::<T>())?;
        r.nested::<T, _, _>(|r| T::read_planned(r, plan).map(Box::new))
    }
    fn read_rc(r: &mut Reader<'a>, id: usize) -> Result<Rc<Self>, Stop>
    where
        Self: 'static,
    {
        r.charge::<T>(size_of::<T>())?;
        r.nested::<T, _, _>(|r| T::read_shared_rc(r, id))
    }
    fn read_arc(r: &mut Reader<'a>, id: usize) -> Result<Arc<Self>, Stop>
    where
        Self: 'static,
    {
        r.charge::<T>(size_of::<T>())?;
        r.nested::<T, _, _>(|r| T::read_shared_arc(r, id))
    }
    fn rc_state(shared: &Rc<Self>) -> SharedState
    where
        Self: 'static,
    {
        let shared: Rc<Self> = Rc::clone(shared);
        SharedState::Rc(shared)
    }
    fn rc_of(state: &SharedState) -> Option<Rc<Self>>
    where
        Self: 'static,
    {
        state.rc()
    }
}

impl<'a, T: FromWire<'a>> Boxed<'a> for [T] {
    fn read_box(r: &mut Reader<'a>) -> Result<Box<Self>, Stop> {
        Vec::read(r).map(Vec::into_boxed_slice)
    }
    fn read_box_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Box<Self>, Stop> {
        Vec::read_planned(r, plan).map(Vec::into_boxed_slice)
    }
    fn read_rc(r: &mut Reader<'a>, _: usize) -> Result<Rc<Self>, Stop>
    where
        Self: 'static,
    {
        let elements: Vec<T> = r.contents()?;
        r.charge::<Self>(size_of_val(&elements[..]))?;
        Ok(elements.into())
    }
    fn read_arc(r: &mut Reader<'a>, _: usize) -> Result<Arc<Self>, Stop>
    where
        Self: 'static,
    {
        let elements: Vec<T> = r.contents()?;
        r.charge::<Self>(size_of_val(&elements[..]))?;
        Ok(elements.into())
    }
}

impl<T: Wire, const N: usize> Wire for [T; N] {
    const SIZE: WireSize = T::SIZE.times(N);
    fn describe(d: &mut Describe) {
        d.group(&format!("array of {N}"), T::describe);
    }
    #[inline]
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        if const { Self::SIZE.is_fixed } {
            return w.fixed(self);
        }
        self.iter().try_for_each(|element| element.write(w))
    }
    #[inline(always)]
    fn write_fixed(&self, run: &mut &mut [u8]) {
        T::write_fixed_slice(self, run);
    }
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        self.iter_mut().try_for_each(|element| element.give(w))
    }
}

impl<'a, T: FromWire<'a>, const N: usize> FromWire<'a> for [T; N] {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        if const { Self::SIZE.is_fixed } {
            return r.fixed();
        }
        let mut slots = [const { None::<T> }; N];
        for slot in &mut slots {
            *slot = Some(T::read(r)?);
        }
        Ok(slots.map(|slot| slot.expect("every slot was filled")))
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        if plan.is_same() {
            return Self::read(r);
        }
        let mut slots = [const { None::<T> }; N];
        for slot in &mut slots {
            *slot = Some(T::read_planned(r, plan.part(0))?);
        }
        Ok(slots.map(|slot| slot.expect("every slot was filled")))
    }
    #[inline(always)]
    fn read_fixed(run: &mut &[u8]) -> Result<Self, Invalid> {
        T::read_fixed_array(run)
    }
}

impl<T: Wire> Wire for VecDeque<T> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        d.group("deque", T::describe);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        w.length(self.len())?;
        w.nested::<Self, _>(|w| {
            self.iter().try_for_each(|element| w.element(|w| element.write(w), T::SIZE))
        })
    }
    fn blank() -> Option<Self> {
        Some(Self::new())
    }
}

impl<'a, T: FromWire<'a>> FromWire<'a> for VecDeque<T> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        let len = r.length(T::SIZE.of_element())?;
        r.nested::<Self, _, _>(|r| r.elements(len).map(Self::from))
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        match plan.is_same() {
            true => Self::read(r),
            false => r.planned_list(plan).map(Self::from),
        }
    }
}

impl Wire for Infallible {
    const SIZE: WireSize = WireSize::at_least(0);

    fn describe(d: &mut Describe) {
        d.word("never");
    }

    fn write<'w>(&'w self, _: &mut Writer<'w>) -> Written {
        match *self {}
    }
}

impl<'a> FromWire<'a> for Infallible {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        Err(r.fail(Invalid::new("value of a type that has none")))
    }
}

impl<T: ?Sized> Wire for PhantomData<T> {
    const SIZE: WireSize = WireSize::fixed(0);
    fn describe(d: &mut Describe) {
        d.word("nothing");
    }
    fn write<'w>(&'w self, _: &mut Writer<'w>) -> Written {
        Ok(())
    }
    fn write_fixed(&self, _: &mut &mut [u8]) {}
}

impl<'a, T: ?Sized> FromWire<'a> for PhantomData<T> {
    fn read(_: &mut Reader<'a>) -> Result<Self, Stop> {
        Ok(Self)
    }
    fn read_fixed(_: &mut &[u8]) -> Result<Self, Invalid> {
        Ok(Self)
    }
}

/// Buffers of a pool are written as the slices they hold.
macro_rules! buffers {
    ($($type:ident)*) => {$(
        impl<T: Bulk> Wire for $type<T> {
            const SIZE: WireSize = WireSize::at_least(4);
            fn describe(d: &mut Describe) {
                <[T]>::describe(d);
            }
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                let elements: &[T] = self;
                elements.write(w)
            }
        }
    )*};
}

buffers!(Typed Held);

impl<T: Bulk> Wire for Shared<T> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        <[T]>::describe(d);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        let elements: &[T] = self;
        elements.write(w)
    }
    fn give(&mut self, w: &mut Writer<'static>) -> Written {
        if !w.keeps(size_of_val(&self[..])) {
            return w.copied(|w| self.write(w));
        }
        w.length(self.len())?;
        w.keep::<T>(self.len(), Segment::from(self.clone()))
    }
}
