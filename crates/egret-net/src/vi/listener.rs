//! Accepting connections.

use std::future::poll_fn;
use std::task::Poll;

use super::ops::ListenerOps;
use super::{ListenError, Nic, Vi, ViOptions};
use crate::rt::Deadline;

/// Listens for connections to one service and tag; made by [`Nic::listen`].
/// Dropping it stops listening and refuses whoever is waiting.
#[derive(Debug)]
pub struct Listener {
    nic: Nic,
    ops: Box<dyn ListenerOps>,
    options: ViOptions,
    name: (String, u64),
}

impl Listener {
    pub(super) fn new(
        nic: Nic,
        ops: Box<dyn ListenerOps>,
        options: ViOptions,
        name: (String, u64),
    ) -> Self {
        Self { nic, ops, options, name }
    }

    /// Accepts a connection if one is waiting. Never blocks.
    ///
    /// # Errors
    ///
    /// If the nic is down.
    pub fn poll_accept(&self) -> Result<Option<Vi>, ListenError> {
        self.nic.poll();
        let (options, spec) = self.options.spec(&self.nic);
        let accepted = self.ops.try_accept(spec)?;
        Ok(accepted.map(|ops| Vi::new(self.nic.clone(), ops, &options, spec.vi)))
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    ///
    /// If the nic is down.
    pub async fn accept(&self) -> Result<Vi, ListenError> {
        poll_fn(|context| {
            // Registered first: who arrives after the look wakes.
            self.ops.wake_on_arrival(context.waker());
            self.poll_accept().transpose().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the next connection and accepts it.
    ///
    /// # Errors
    ///
    /// If the deadline passes, or the nic is down.
    pub fn wait_accept(&self, deadline: impl Into<Deadline>) -> Result<Vi, ListenError> {
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
                return Err(ListenError::TimedOut { service, tag, waited: now - started });
            }
            self.nic.wait(seen, until);
        }
    }
}
