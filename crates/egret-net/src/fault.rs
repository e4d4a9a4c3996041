//! Faults that tests plant, to show that the checks find them.
//!
//! Each protocol has an enum of its own, one variant for each way to get it
//! wrong. Outside of tests [`planted`] is the constant `false` and nothing
//! remains of a fault.

#[cfg(test)]
use std::any::Any;
#[cfg(test)]
use std::cell::RefCell;

/// Whether `fault` is planted on this thread.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted<F: Copy>(_fault: F) -> bool {
    false
}

/// Whether `fault` is planted on this thread.
#[cfg(test)]
pub(crate) fn planted<F: Copy + PartialEq + 'static>(fault: F) -> bool {
    let is_it = |planted: &RefCell<Option<Box<dyn Any>>>| {
        planted.borrow().as_ref().is_some_and(|planted| planted.downcast_ref() == Some(&fault))
    };
    // A thread that ends has none any more.
    PLANTED.try_with(is_it).unwrap_or(false)
}

/// Runs `body` with `fault` planted on this thread, and says whether the checks
/// in it noticed (by a panic).
#[cfg(test)]
pub(crate) fn caught<F: 'static>(fault: F, body: impl FnOnce()) -> bool {
    PLANTED.set(Some(Box::new(fault)));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    PLANTED.set(None);
    outcome.is_err()
}

/// Whether any fault is planted on this thread.
#[cfg(test)]
pub(crate) fn is_any_planted() -> bool {
    PLANTED.with_borrow(Option::is_some)
}

#[cfg(test)]
thread_local! {
    static PLANTED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Declares the faults of a protocol of another crate: the enum, and beside it `planted` and,
/// in tests of that crate, `caught`, as they are here.
#[doc(hidden)]
#[macro_export]
macro_rules! faults {
    ($(#[$about:meta])* $see:vis enum $Fault:ident { $($(#[$way:meta])* $Way:ident,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $see enum $Fault {
            $($(#[$way])* $Way,)+
        }

        /// Whether `fault` is planted on this thread.
        #[cfg(not(test))]
        #[inline(always)]
        $see const fn planted(_fault: $Fault) -> bool {
            false
        }

        /// Whether `fault` is planted on this thread.
        #[cfg(test)]
        $see fn planted(fault: $Fault) -> bool {
            $crate::rt::fault() == Some((::std::any::TypeId::of::<$Fault>(), fault as u32))
        }

        /// Runs `body` with `fault` planted on this thread and on those of simulated worlds in it,
        /// and says whether the checks in it noticed (by a panic).
        #[cfg(test)]
        $see fn caught(fault: $Fault, body: impl FnOnce()) -> bool {
            let fault = (::std::any::TypeId::of::<$Fault>(), fault as u32);
            let before = $crate::rt::fault();
            $crate::rt::set_fault(Some(fault));
            let outcome = ::std::panic::catch_unwind(::std::panic::AssertUnwindSafe(body));
            $crate::rt::set_fault(before);
            outcome.is_err()
        }
    };
}
