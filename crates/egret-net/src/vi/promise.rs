//! A value that one side owes another.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A promise and what waits for it.
#[must_use]
pub(super) fn pending<T>() -> (Promise<T>, Pending<T>) {
    let state = Arc::new(Mutex::new(State { value: Value::Owed, waker: None }));
    (Promise { state: Some(Arc::clone(&state)) }, Pending { state })
}

/// The side that owes. Dropping it unfulfilled says so.
#[derive(Debug)]
pub(super) struct Promise<T> {
    /// `None` once fulfilled.
    state: Option<Arc<Mutex<State<T>>>>,
}

/// The side that waits.
#[derive(Debug)]
pub(super) struct Pending<T> {
    state: Arc<Mutex<State<T>>>,
}

#[derive(Debug)]
struct State<T> {
    value: Value<T>,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Value<T> {
    Owed,
    Kept(T),
    /// Broken, or taken already.
    Gone,
}

impl<T> Promise<T> {
    /// Keeps the promise.
    ///
    /// # Errors
    ///
    /// The value, if nobody waits any more.
    pub(super) fn fulfil(mut self, value: T) -> Result<(), T> {
        let state = self.state.take().expect("fulfilled once");
        if Arc::strong_count(&state) == 1 {
            return Err(value);
        }
        settle(&state, Value::Kept(value));
        Ok(())
    }

    /// Whether nobody waits any more.
    #[must_use]
    pub(super) fn is_abandoned(&self) -> bool {
        self.state.as_ref().is_none_or(|state| Arc::strong_count(state) == 1)
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            settle(&state, Value::Gone);
        }
    }
}

impl<T> Pending<T> {
    /// The value once it is there; `None` if the promise was broken.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Wakers are cloned and dropped outside the lock.
        let waker = context.waker().clone();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut state.value, Value::Gone) {
            Value::Owed => {
                state.value = Value::Owed;
                let old = state.waker.replace(waker);
                drop(state);
                drop(old);
                Poll::Pending
            }
            Value::Kept(value) => Poll::Ready(Some(value)),
            Value::Gone => Poll::Ready(None),
        }
    }
}

fn settle<T>(state: &Mutex<State<T>>, value: Value<T>) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.value = value;
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look<T>(pending: &mut Pending<T>) -> Poll<Option<T>> {
        pending.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn kept_broken_and_abandoned() {
        let (promise, mut waiting) = pending();
        assert_eq!(look(&mut waiting), Poll::Pending);
        promise.fulfil(5).unwrap();
        assert_eq!(look(&mut waiting), Poll::Ready(Some(5)));

        let (promise, mut waiting) = pending::<u8>();
        drop(promise);
        assert_eq!(look(&mut waiting), Poll::Ready(None));

        let (promise, waiting) = pending();
        drop(waiting);
        assert!(promise.is_abandoned());
        assert_eq!(promise.fulfil(5), Err(5));
    }
}
