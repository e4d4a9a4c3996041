//! Cells and locks: what is in them.

use std::any::type_name;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};

use crate::describe::{Describe, PlanCursor};
use crate::error::{Invalid, WireError};
use crate::reader::{Reader, build_arc, build_rc};
use crate::share::SharedState;
use crate::wire::{Boxed, FromWire, Stop, Wire, WireSize, Written};
use crate::writer::Writer;

impl<T: Wire + Copy> Wire for Cell<T> {
    const SIZE: WireSize = T::SIZE;
    fn describe(d: &mut Describe) {
        T::describe(d);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        let value = self.get();
        w.copied(|w| value.write(w))
    }
    fn write_fixed(&self, run: &mut &mut [u8]) {
        self.get().write_fixed(run);
    }
    fn blank() -> Option<Self> {
        T::blank().map(Self::new)
    }
}

impl<'a, T: FromWire<'a> + Copy> FromWire<'a> for Cell<T> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        T::read(r).map(Self::new)
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        T::read_planned(r, plan).map(Self::new)
    }
    fn read_fixed(run: &mut &[u8]) -> Result<Self, Invalid> {
        T::read_fixed(run).map(Self::new)
    }
}

/// What a lock holds, unless someone else has it: writing does not wait.
fn unlocked<G>(taken: Result<G, TryLockError<G>>) -> Option<G> {
    match taken {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

macro_rules! cells {
    ($($type:ident |$cell:ident| $look:expr, |$full:ident| $fill:expr;)*) => {$(
        impl<T: Wire> Wire for $type<T> {
            const SIZE: WireSize = WireSize::at_least(T::SIZE.min);
            fn describe(d: &mut Describe) {
                T::describe(d);
            }
            fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                let $cell = self;
                match $look {
                    Some(value) => w.copied(|w| value.write(w)),
                    None => Err(w.fail(WireError::InUse(type_name::<Self>()))),
                }
            }
            fn give(&mut self, w: &mut Writer<'static>) -> Written {
                w.copied(|w| Wire::write(self, w))
            }
            fn blank() -> Option<Self> {
                T::blank().map(Self::new)
            }
            fn is_fillable() -> bool {
                T::blank().is_some()
            }
        }

        impl<'a, T: FromWire<'a>> FromWire<'a> for $type<T> {
            fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                T::read(r).map(Self::new)
            }
            fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
                T::read_planned(r, plan).map(Self::new)
            }
            fn read_shared_rc(r: &mut Reader<'a>, id: usize) -> Result<Rc<Self>, Stop>
            where
                Self: 'static,
            {
                let Some(blank) = Self::blank() else { return build_rc(r, id) };
                let shared = Rc::new(blank);
                let unravel = |state: &SharedState| {
                    if let Some(shared) = Self::rc_of(state) {
                        drop(T::blank().map(|blank| swap(&*shared, blank)));
                    }
                };
                r.shared().set_hollow(id, Self::rc_state(&shared), unravel);
                let value = r.contents::<T>()?;
                filled(r, swap(&*shared, value).is_some()).map(|()| shared)
            }
            fn read_shared_arc(r: &mut Reader<'a>, id: usize) -> Result<Arc<Self>, Stop>
            where
                Self: 'static,
            {
                let Some(blank) = Self::blank() else { return build_arc(r, id) };
                let shared = Arc::new(blank);
                let unravel = |state: &SharedState| {
                    if let Some(shared) = Self::arc_of(state) {
                        drop(T::blank().map(|blank| swap(&*shared, blank)));
                    }
                };
                r.shared().set_hollow(id, Self::arc_state(&shared), unravel);
                let value = r.contents::<T>()?;
                filled(r, swap(&*shared, value).is_some()).map(|()| shared)
            }
        }

        impl<T> Swap<T> for $type<T> {
            fn swap(&self, value: T) -> Option<T> {
                let $full = self;
                let old = {
                    let mut guard = $fill?;
                    std::mem::replace(&mut *guard, value)
                };
                Some(old)
            }
        }
    )*};
}

/// Something whose contents can be exchanged behind a shared reference.
trait Swap<T> {
    /// Puts `value` in and gives the old one back; `None` if it is in use.
    fn swap(&self, value: T) -> Option<T>;
}

fn swap<T, C: Swap<T>>(cell: &C, value: T) -> Option<T> {
    cell.swap(value)
}

fn filled(r: &mut Reader<'_>, was_free: bool) -> Result<(), Stop> {
    if was_free {
        return Ok(());
    }
    Err(r.fail(WireError::Custom("a cell was in use while it was read".to_owned())))
}

cells! {
    RefCell |cell| cell.try_borrow().ok(), |cell| cell.try_borrow_mut().ok();
    Mutex |cell| unlocked(cell.try_lock()), |cell| unlocked(cell.try_lock());
    RwLock |cell| unlocked(cell.try_read()), |cell| unlocked(cell.try_write());
}
