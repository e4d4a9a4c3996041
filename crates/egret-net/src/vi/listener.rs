//! Accepting connections.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::handle::ViHandle;
use super::machine::ListenerName;
use super::{Nic, OpenError, Vi, ViOptions};
use crate::rt::Deadline;

/// Listens for connections to one service and tag; made by [`Nic::listen`].
/// Dropping it stops listening and refuses the peers that wait. The [module](super) has an example.
#[derive(Debug)]
pub struct Listener {
    nic: Nic,
    options: ViOptions,
    name: ListenerName,
}

impl Listener {
    pub(super) const fn new(nic: Nic, options: ViOptions, name: ListenerName) -> Self {
        Self { nic, options, name }
    }

    /// Accepts a connection if one is waiting. Never blocks.
    ///
    /// # Errors
    ///
    /// If the nic is down.
    pub fn poll_accept(&self) -> Result<Option<Vi>, OpenError> {
        self.nic.poll();
        let (options, spec) = self.options.spec(&self.nic);
        let hub = &self.nic.hub;
        let accepted = hub.work(|machine, after| machine.accept(&self.name, spec, after))?;
        Ok(accepted.map(|made| {
            let handle = ViHandle::new(Arc::clone(hub), made);
            Vi::new(self.nic.clone(), handle, &options, spec.vi)
        }))
    }

    /// Has `waker` woken once when a peer connects.
    fn wake_on_arrival(&self, waker: &Waker) {
        // Cloned and, if it is not kept, dropped outside the lock.
        let waker = waker.clone();
        drop(self.nic.hub.quietly(|machine| machine.wake_on_arrival(&self.name, waker)));
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    ///
    /// If the nic is down.
    pub async fn accept(&self) -> Result<Vi, OpenError> {
        poll_fn(|context| {
            // Registered first: who arrives after the look wakes.
            self.wake_on_arrival(context.waker());
            self.poll_accept().transpose().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the next connection and accepts it.
    ///
    /// # Errors
    ///
    /// If the deadline passes, or the nic is down.
    pub fn wait_accept(&self, deadline: impl Into<Deadline>) -> Result<Vi, OpenError> {
        let deadline = deadline.into();
        let started = self.nic.now();
        let until = deadline.until_from(started);
        loop {
            let seen = self.nic.poll();
            if let Some(vi) = self.poll_accept()? {
                return Ok(vi);
            }
            let now = self.nic.now();
            if until.is_some_and(|until| now >= until) {
                let (service, tag) = self.name.clone();
                return Err(OpenError::NotConnected { service, tag, waited: now - started });
            }
            self.nic.wait(seen, until);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.nic.hub.work(|machine, after| machine.unlisten(&self.name, after));
    }
}
