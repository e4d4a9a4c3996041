//! One operation as a future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::inbox::InboxOwner;
use super::{Completion, Descriptor, Nic, Op, PostError, RemoteSlice, Ticket, Vi};
use crate::rt::GivenBack;

/// The completion of one posted descriptor, as a future that is tied to no
/// runtime.
///
/// An operation has a completion queue of one place of its own. Dropping the future
/// leaves the descriptor with the fabric until the operation ends, and then
/// drops the buffers, which returns them to their pools.
///
/// ```
/// use egret_net::rt::Deadline;
/// use egret_net::vi::{Address, Descriptor, ViOptions};
///
/// # let sim = egret_net::fabric::sim::Sim::new(1);
/// # let (a, b) = (sim.nic("a"), sim.nic("b"));
/// # let listener = b.listen("x", 0, &ViOptions::default())?;
/// # let to = Address::new("b", "x", 0);
/// # let connecting = a.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
/// # let there = listener.wait_accept(Deadline::DEFAULT)?;
/// # let here = a.block_on(connecting)?;
/// let received = there.async_recv(Descriptor::new(vec![0_u8; 5]))?;
/// let sent = here.async_send(Descriptor::new(b"hello".to_vec()))?;
/// a.block_on(sent).done()?;
/// assert_eq!(b.block_on(received).bytes(), b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a dropped future still transfers, and then drops the buffers"]
pub struct Operation {
    inbox_owner: InboxOwner,
    nic: Nic,
    ticket: Ticket,
}

impl Operation {
    /// Its number on its connection, to [cancel](Vi::cancel) it with.
    #[must_use]
    pub const fn ticket(&self) -> Ticket {
        self.ticket
    }
}

impl Future for Operation {
    type Output = Completion;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        if let Some(completion) = self.inbox_owner.inbox().take() {
            return Poll::Ready(completion);
        }
        self.nic.poll();
        self.inbox_owner.inbox().poll_pop(context)
    }
}

impl Vi {
    /// Posts a send whose completion is the future's.
    ///
    /// # Errors
    ///
    /// As [`post_send`](Self::post_send).
    pub fn async_send(
        &self,
        descriptor: Descriptor,
    ) -> Result<Operation, GivenBack<Descriptor, PostError>> {
        self.start(Op::Send, descriptor)
    }

    /// Posts a receive whose completion is the future's.
    ///
    /// # Errors
    ///
    /// As [`post_recv`](Self::post_recv).
    pub fn async_recv(
        &self,
        descriptor: Descriptor,
    ) -> Result<Operation, GivenBack<Descriptor, PostError>> {
        self.start(Op::Recv, descriptor)
    }

    /// Posts a remote read whose completion is the future's.
    ///
    /// # Errors
    ///
    /// As [`post_read`](Self::post_read).
    pub fn async_read(
        &self,
        descriptor: Descriptor,
        from: RemoteSlice,
    ) -> Result<Operation, GivenBack<Descriptor, PostError>> {
        self.start(Op::Read(from), descriptor)
    }

    /// Posts a remote write whose completion is the future's.
    ///
    /// # Errors
    ///
    /// As [`post_write`](Self::post_write).
    pub fn async_write(
        &self,
        descriptor: Descriptor,
        to: RemoteSlice,
    ) -> Result<Operation, GivenBack<Descriptor, PostError>> {
        self.start(Op::Write { to, notify: false }, descriptor)
    }

    fn start(
        &self,
        op: Op,
        descriptor: Descriptor,
    ) -> Result<Operation, GivenBack<Descriptor, PostError>> {
        let inbox_owner = InboxOwner::single(&self.nic().hub);
        let ticket = self.post(op, descriptor, inbox_owner.inbox())?;
        Ok(Operation { inbox_owner, nic: self.nic().clone(), ticket })
    }
}
