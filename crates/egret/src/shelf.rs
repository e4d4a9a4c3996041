//! What one at a time uses, and nobody waits for.

use std::ops::{Deref, DerefMut};
use std::task::Waker;

use egret_net::sync::Mutex;

/// Has something that is taken to be used, and put back. To use it may run handlers, and those
/// may want the same: they find nothing, and somebody is woken when it is back.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    inner: Mutex<Inner<T>>,
    waker: Waker,
}

#[derive(Debug)]
struct Inner<T> {
    thing: Option<T>,
    /// Somebody found nothing.
    is_missed: bool,
}

/// What was taken. Dropped, it is put back.
pub(crate) struct Taken<'a, T> {
    shelf: &'a Shelf<T>,
    thing: Option<T>,
}

impl<T> Shelf<T> {
    pub(crate) fn new(thing: T, waker: Waker) -> Self {
        let inner = Inner { thing: Some(thing), is_missed: false };
        Self { inner: Mutex::new(inner), waker }
    }

    /// Takes it, if it is there.
    pub(crate) fn take(&self) -> Option<Taken<'_, T>> {
        let mut inner = self.inner.lock();
        let thing = inner.thing.take();
        inner.is_missed |= thing.is_none();
        thing.map(|thing| Taken { shelf: self, thing: Some(thing) })
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect("it is put back when this is dropped")
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect("it is put back when this is dropped")
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let mut inner = self.shelf.inner.lock();
        let is_missed = std::mem::take(&mut inner.is_missed);
        let thing = self.thing.take();
        inner.thing = thing;
        drop(inner);
        if is_missed {
            self.shelf.waker.wake_by_ref();
        }
    }
}
