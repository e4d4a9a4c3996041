//! Where the stack of a thread ends.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

/// How many bytes of the calling thread's stack lie below `address`, which is an address of
/// something on it: so much further it can grow.
///
/// `None` if `address` does not lie on the stack that the operating system knows for the thread,
/// as in a coroutine with a stack of its own, or if the system does not know it. It is asked once
/// for each thread.
#[must_use]
pub fn stack_below(address: usize) -> Option<usize> {
    let stack = STACK.get().unwrap_or_else(|| {
        let stack = ask().unwrap_or((0, 0));
        STACK.set(Some(stack));
        stack
    });
    let stack = Range { start: stack.0, end: stack.1 };
    stack.contains(&address).then(|| address - stack.start)
}

thread_local! {
    /// Where the thread's stack starts and ends, or nowhere; once it was asked for.
    static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// The lowest address of the calling thread's stack behind its guard, and its end. Of the first
/// thread of a process it is as far as the limit on its growth lets it come.
fn ask() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: it may be called by any thread.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the thread asks about itself, so it lives, and the call has room to write to.
    let known = unsafe { libc::pthread_getattr_np(this, attributes.as_mut_ptr()) };
    if known != 0 {
        return None;
    }
    let (mut start, mut bytes, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: the call above has written the attributes, as its result says.
    let told = unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut bytes) };
    // SAFETY: as above.
    let guarded = unsafe { libc::pthread_attr_getguardsize(attributes.as_ptr(), &mut guard) };
    // SAFETY: as above; the attributes are not used after this.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    if told != 0 || guarded != 0 {
        return None;
    }
    // Whether the guard is part of what is told differs between C libraries: it is taken off.
    let start = start.addr();
    Some((start.checked_add(guard)?, start.checked_add(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> usize {
        let mark = 0_u8;
        ptr::from_ref(&mark).addr()
    }

    #[test]
    fn a_thread_has_the_stack_that_it_was_given() {
        for bytes in [64 << 10, 256 << 10, 1 << 20, 8 << 20] {
            #[expect(clippy::disallowed_methods, reason = "a stack of its own size")]
            let asking = std::thread::Builder::new().stack_size(bytes).spawn(|| {
                let (here, first) = (here(), stack_below(here()));
                assert_eq!(stack_below(here), stack_below(here), "asked once");
                (first.unwrap(), stack_below(here - first.unwrap() - (64 << 10)))
            });
            let (left, below) = asking.unwrap().join().unwrap();
            // A thread's own data and the frames so far are taken off. It may get a larger stack
            // than it asked for, one that another has left.
            assert!(left <= 4 * bytes && left >= bytes - (24 << 10), "{left} of {bytes}");
            assert_eq!(below, None, "behind the end");
        }
    }

    #[test]
    fn memory_elsewhere_is_on_no_stack() {
        let elsewhere = Box::new(0_u8);
        assert_eq!(stack_below(ptr::from_ref(&*elsewhere).addr()), None);
        assert!(stack_below(here()).is_some());
    }
}
