//! `Rc`, `Arc` and their `Weak`s: each value once, and its number where it is met
//! again.

use std::any::type_name;

use crate::describe::{Describe, PlanCursor};
use crate::error::WireError;
use crate::reader::Reader;
use crate::share::SharedProgress;
use crate::wire::{Boxed, FromWire, Stop, Wire, WireSize, Written};
use crate::writer::Writer;

/// A number that says: nothing is there.
const DEAD: u32 = u32::MAX;
/// A number that says: here it comes.
const NEW: u32 = 0;

/// The memory that a reader takes for a shared value besides its contents: its counts, and what
/// the table of shared values has of it.
const SHARED_BYTES: usize = 128;

/// Writes a shared value, or its number if it was met.
#[inline]
fn write<'w, T: Wire + ?Sized>(
    address: usize,
    is_weak: bool,
    w: &mut Writer<'w>,
    contents: impl FnOnce(&mut Writer<'w>) -> Written,
) -> Written {
    match w.shared().meet(address, type_name::<T>()) {
        Ok(SharedProgress::New(number)) => {
            w.array(NEW.to_le_bytes())?;
            contents(w)?;
            w.shared().finish(number);
            Ok(())
        }
        Ok(SharedProgress::Open(_)) if !is_weak && !T::is_fillable() => {
            Err(w.fail(WireError::StrongCycle(type_name::<T>())))
        }
        Ok(SharedProgress::Open(number) | SharedProgress::Done(number)) => {
            w.array((number + 1).to_le_bytes())
        }
        Err(first) => Err(w.fail(WireError::TwoViews { first, second: type_name::<T>() })),
    }
}

macro_rules! shared {
    ($($name:ident $shared:ident $std:path, $read:ident $state:ident $of:ident
        $(, $give:item)?;)*) => {$(
        mod $name {
            use super::*;
            use $std::{$shared, Weak};

            /// Reads a value that is met first, and notes it.
            fn first<'a, T: Boxed<'a> + ?Sized + 'static>(
                r: &mut Reader<'a>,
            ) -> Result<$shared<T>, Stop> {
                r.charge::<$shared<T>>(SHARED_BYTES)?;
                let id = r.shared().open();
                let shared = T::$read(r, id)?;
                r.shared().set_strong::<T>(id, || T::$state(&shared));
                Ok(shared)
            }

            /// A value that was met.
            #[inline]
            fn again<'a, T: Boxed<'a> + ?Sized + 'static>(
                r: &mut Reader<'a>,
                number: u32,
            ) -> Result<$shared<T>, Stop> {
                let found = r.shared().strong(number - 1, type_name::<T>(), T::$of);
                found.map_err(|why| r.fail(why))
            }

            /// A weak reference to a value that was met.
            fn weak_again<'a, T: Boxed<'a> + 'static>(
                r: &mut Reader<'a>,
                number: u32,
            ) -> Result<Weak<T>, Stop> {
                let weak = r.shared().weak(number - 1, type_name::<T>(), |state| {
                    T::$of(state).as_ref().map($shared::downgrade)
                });
                weak.map_err(|why| r.fail(why))
            }

            impl<T: Wire + ?Sized> Wire for $shared<T> {
                const SIZE: WireSize = WireSize::at_least(4);
                fn describe(d: &mut Describe) {
                    d.group("shared", T::describe);
                }
                fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                    let address = $shared::as_ptr(self).addr();
                    super::write::<T>(address, false, w, |w| {
                        w.nested::<T, _>(|w| (**self).write(w))
                    })
                }
                $($give)?
            }

            /// Reads as `plan` says if the value is met first.
            fn planned<'a, T: ?Sized, R>(
                r: &mut Reader<'a>,
                plan: PlanCursor<'_>,
                read: impl FnOnce(&mut Reader<'a>) -> Result<R, Stop>,
            ) -> Result<R, Stop> {
                if !plan.is_same() {
                    r.plan_contents(plan.part(0));
                }
                let read = read(r)?;
                r.contents_are_read::<T>()?;
                Ok(read)
            }

            impl<'a, T: Boxed<'a> + ?Sized + 'static> FromWire<'a> for $shared<T> {
                fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
                    match u32::from_le_bytes(r.array()?) {
                        NEW => planned::<T, _>(r, plan, first),
                        number => again(r, number),
                    }
                }
                #[inline]
                fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                    match u32::from_le_bytes(r.array()?) {
                        NEW => first(r),
                        number => again(r, number),
                    }
                }
            }

            impl<T: Wire + 'static> Wire for Weak<T> {
                const SIZE: WireSize = WireSize::at_least(4);
                fn describe(d: &mut Describe) {
                    d.group("weak", T::describe);
                }
                fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
                    let Some(shared) = self.upgrade() else {
                        return w.array(DEAD.to_le_bytes());
                    };
                    let address = $shared::as_ptr(&shared).addr();
                    w.shared().keep(Box::new($shared::clone(&shared)));
                    w.copied(|w| {
                        super::write::<T>(address, true, w, |w| {
                            w.nested::<T, _>(|w| w.copied(|w| (*shared).write(w)))
                        })
                    })
                }
                fn blank() -> Option<Self> {
                    Some(Self::new())
                }
            }

            impl<'a, T: FromWire<'a> + 'static> FromWire<'a> for Weak<T> {
                fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
                    match u32::from_le_bytes(r.array()?) {
                        DEAD => Ok(Self::new()),
                        NEW => first(r).map(|shared| $shared::downgrade(&shared)),
                        number => weak_again(r, number),
                    }
                }
                fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
                    match u32::from_le_bytes(r.array()?) {
                        DEAD => Ok(Self::new()),
                        NEW => planned::<T, _>(r, plan, |r| {
                            first(r).map(|shared| $shared::downgrade(&shared))
                        }),
                        number => weak_again(r, number),
                    }
                }
            }
        }
    )*};
}

shared! {
    rc Rc std::rc, read_rc rc_state rc_of;
    arc Arc std::sync, read_arc arc_state arc_of, fn give(&mut self, w: &mut Writer<'static>) -> Written {
        let address = Arc::as_ptr(self).addr();
        write::<T>(address, false, w, |w| {
            w.nested::<T, _>(|w| T::give_arc(self, w))
        })
    };
}
