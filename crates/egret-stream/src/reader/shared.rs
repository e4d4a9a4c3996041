//! Shared values that weak references within them lead to.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{rc, sync};

use super::Reader;
use crate::wire::{FromWire, Stop};

macro_rules! build {
    ($($name:ident $module:ident::$shared:ident;)*) => {$(
        /// Reads a value of which there can be weak references within itself.
        ///
        /// `new_cyclic` wants a value of its closure. Where reading fails there is none, and the only
        /// way out is to unwind to here; no message is printed and no hook runs. A program that aborts
        /// instead cannot have such references.
        pub(crate) fn $name<'a, T: FromWire<'a> + 'static>(
            r: &mut Reader<'a>,
            id: usize,
        ) -> Result<$module::$shared<T>, Stop> {
            if cfg!(panic = "abort") {
                return r.contents::<T>().map($module::$shared::new);
            }
            let read = |weak: &$module::Weak<T>| {
                r.shared().set_weak(id, Box::new(weak.clone()));
                r.contents::<T>().unwrap_or_else(|stop| resume_unwind(Box::new(stop)))
            };
            let built = catch_unwind(AssertUnwindSafe(|| $module::$shared::new_cyclic(read)));
            built.map_err(|other| match other.downcast::<Stop>() {
                Ok(stop) => *stop,
                Err(panic) => resume_unwind(panic),
            })
        }
    )*};
}

build! {
    build_rc rc::Rc;
    build_arc sync::Arc;
}
