//! What a future awaits that a thread runs by `block_on`, as far as the layer above says so: chains of calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use egret_net::sync::Mutex;

use crate::in_handler::in_handler;

/// A call that is awaited by the future which a thread runs by [`Links::block_on`](crate::Links::block_on), until this is dropped; for the
/// layer above, which has that thread run what belongs to the same chain of calls.
///
/// ```
/// use egret_node::Awaited;
///
/// assert_eq!(Awaited::depth(), 0);
/// assert!(Awaited::here(7, 1).is_none(), "no future is polled by `block_on`");
/// assert!(!Awaited::has(7));
/// ```
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "dropped, the call is not awaited"]
pub struct Awaited {
    by: Arc<AwaitedChains>,
    call: (u64, u64),
}

impl Awaited {
    /// Of a chain, the call of a number, which is one call's. None if the calling thread does not poll a future
    /// of `block_on` just now, or runs a handler meanwhile.
    pub fn here(chain: u64, number: u64) -> Option<Self> {
        let depth = DEPTH.get();
        if depth == 0 || POLLS.get() != depth || in_handler() {
            return None;
        }
        let by = innermost(Arc::clone)?;
        let call = (chain, number);
        by.0.lock().add(call);
        Some(Self { by, call })
    }

    /// Whether the calling thread polls the future that awaits the call.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let is_own = |run: &Arc<AwaitedChains>| Arc::ptr_eq(run, &self.by);
        POLLS.get() == DEPTH.get() && innermost(is_own).unwrap_or(false)
    }

    /// Whether the future that the calling thread runs, the innermost if there are several, awaits a call of
    /// a chain.
    #[must_use]
    pub fn has(chain: u64) -> bool {
        innermost(|run| run.0.lock().has(chain)).unwrap_or(false)
    }

    /// How many futures the calling thread runs by `block_on`, each inside the one before.
    #[must_use]
    #[inline]
    pub fn depth() -> u32 {
        DEPTH.get()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.by.0.lock().remove(self.call);
    }
}

/// What one future awaits.
#[derive(Debug, Default)]
struct AwaitedChains(Mutex<AwaitedCalls>);

/// Chains and numbers of calls. One alone, as mostly, is not allocated for.
#[derive(Debug, Default)]
struct AwaitedCalls {
    one: Option<(u64, u64)>,
    more: BTreeSet<(u64, u64)>,
}

impl AwaitedCalls {
    fn add(&mut self, call: (u64, u64)) {
        match self.one {
            None => self.one = Some(call),
            Some(_) => _ = self.more.insert(call),
        }
    }

    fn remove(&mut self, call: (u64, u64)) {
        if self.one == Some(call) {
            self.one = None;
        } else {
            self.more.remove(&call);
        }
    }

    fn has(&self, chain: u64) -> bool {
        self.one.is_some_and(|(one, _)| one == chain)
            || self.more.range((chain, 0)..=(chain, u64::MAX)).next().is_some()
    }
}

/// The calling thread runs a future, until this is dropped.
pub(super) struct FutureRun;

impl FutureRun {
    pub(super) fn begin() -> Self {
        let outer = DEPTH.get();
        DEPTH.set(outer + 1);
        RUNS.with_borrow_mut(|runs| {
            runs.truncate(outer as usize + 1);
            // The one before may be used again, if nothing is awaited by it any more.
            if let Some(before) = runs.get_mut(outer as usize) {
                if Arc::strong_count(before) > 1 {
                    *before = Arc::default();
                }
            } else {
                runs.push(Arc::default());
            }
        });
        Self
    }

    /// The thread polls the future in `body`, and drives outside of it.
    #[inline]
    pub(super) fn poll<R>(&self, body: impl FnOnce() -> R) -> R {
        let _before = RestorePolled(POLLS.replace(DEPTH.get()));
        body()
    }
}

impl Drop for FutureRun {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Does something with what the innermost future awaits, if the thread runs one.
fn innermost<R>(body: impl FnOnce(&Arc<AwaitedChains>) -> R) -> Option<R> {
    let at = DEPTH.get().checked_sub(1)?;
    RUNS.with_borrow(|runs| runs.get(at as usize).map(body))
}

/// Runs `body`, in which the calling thread polls for others.
pub(super) fn for_others<R>(body: impl FnOnce() -> R) -> R {
    let _before = RestorePolled(POLLS.replace(0));
    body()
}

/// Says again what was polled before.
struct RestorePolled(u32);

impl Drop for RestorePolled {
    #[inline]
    fn drop(&mut self) {
        POLLS.set(self.0);
    }
}

thread_local! {
    /// What the futures await that the thread runs, each inside the one before; and what one awaited that is over.
    static RUNS: RefCell<Vec<Arc<AwaitedChains>>> = const { RefCell::new(Vec::new()) };
    /// How many there are.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// How many there were when the thread began to poll the one that it polls just now; 0 if none.
    static POLLS: Cell<u32> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use egret_net::rt;

    use super::*;

    #[test]
    fn a_call_is_awaited_by_the_innermost_future_that_has_polled_it() {
        let outer = FutureRun::begin();
        assert!(Awaited::here(1, 1).is_none(), "it drives");
        let (first, second) = outer.poll(|| (Awaited::here(1, 1), Awaited::here(1, 2)));
        assert!(Awaited::has(1) && !Awaited::has(2));
        drop(first);
        assert!(Awaited::has(1), "the second is of the same chain");
        outer.poll(|| {
            let inner = FutureRun::begin();
            assert!(!Awaited::has(1), "another future waits");
            let third = inner.poll(|| Awaited::here(2, 3)).expect("it is polled");
            assert!(inner.poll(|| third.is_here()));
            assert!(Awaited::has(2));
            assert!(inner.poll(|| for_others(|| Awaited::here(3, 4))).is_none());
            drop(inner);
            assert!(Awaited::has(1) && !Awaited::has(2));
            assert!(!third.is_here());
        });
        drop(second);
        assert!(!Awaited::has(1));
        drop(outer);
        assert_eq!((DEPTH.get(), POLLS.get()), (0, 0));
    }

    #[test]
    fn a_call_that_goes_to_another_thread_is_given_up_there() {
        let runs = FutureRun::begin();
        let awaited = runs.poll(|| Awaited::here(5, 6)).expect("it is polled");
        let many = runs.poll(|| (0..100).map(|n| Awaited::here(5 + n % 7, n)).collect::<Vec<_>>());
        let other = rt::spawn("other", move || {
            assert!(!awaited.is_here() && !Awaited::has(5));
            drop((awaited, many));
        });
        other.expect("a thread").join().expect("it does not panic");
        assert!(!(5..12).any(Awaited::has));
        drop(runs);
    }
}
