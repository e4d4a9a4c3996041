//! A connection: two queues of descriptors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ops::{Unposted, ViOps};
use super::queue::Inbox;
use super::{
    CompletionQueue, Descriptor, Nic, Op, OpKind, PostError, Posted, Refused, Reliability,
    RemoteSlice, Ticket, ViError, ViId, ViOptions,
};

/// One end of a connection.
///
/// Posting takes the descriptor and its memory; the completion returns them.
/// After an error the connection stays in the error state: everything
/// outstanding completes with the error, later posts are refused with it.
/// Dropping a `Vi` closes it in the same way.
#[derive(Debug)]
pub struct Vi {
    id: ViId,
    nic: Nic,
    ops: Box<dyn ViOps>,
    send_queue: CompletionQueue,
    recv_queue: CompletionQueue,
    next_ticket: AtomicU64,
}

impl Vi {
    pub(super) fn new(nic: Nic, ops: Box<dyn ViOps>, options: &ViOptions) -> Self {
        let own = |queue: &Option<CompletionQueue>| {
            // Room for a full queue, and for as many completions not yet taken.
            let capacity = 2 * nic.limits().queue_depth as usize;
            queue.clone().unwrap_or_else(|| nic.completion_queue(capacity))
        };
        Self {
            id: ViId::unused(),
            send_queue: own(&options.send_queue),
            recv_queue: own(&options.recv_queue),
            next_ticket: AtomicU64::new(0),
            nic,
            ops,
        }
    }

    /// What its completions carry.
    #[must_use]
    pub const fn id(&self) -> ViId {
        self.id
    }

    /// The nic it was made on.
    #[must_use]
    pub const fn nic(&self) -> &Nic {
        &self.nic
    }

    /// The other end's host.
    #[must_use]
    pub fn peer(&self) -> &str {
        self.ops.peer()
    }

    /// The level both sides asked for.
    #[must_use]
    pub fn reliability(&self) -> Reliability {
        self.ops.reliability()
    }

    /// Where sends, reads and writes complete.
    #[must_use]
    pub const fn send_queue(&self) -> &CompletionQueue {
        &self.send_queue
    }

    /// Where receives complete.
    #[must_use]
    pub const fn recv_queue(&self) -> &CompletionQueue {
        &self.recv_queue
    }

    /// Why it is in the error state, if it is.
    #[must_use]
    pub fn error(&self) -> Option<ViError> {
        self.ops.error()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.ops.counters()
    }

    /// Sends the descriptor's bytes as one message.
    ///
    /// # Errors
    ///
    /// Whatever [`Refused`] names; the descriptor is inside.
    pub fn post_send(&self, descriptor: Descriptor) -> Result<Ticket, PostError> {
        self.post(Op::Send, descriptor, self.send_queue.inbox())
    }

    /// Receives the next message into the descriptor's memory.
    ///
    /// # Errors
    ///
    /// Whatever [`Refused`] names; the descriptor is inside.
    pub fn post_recv(&self, descriptor: Descriptor) -> Result<Ticket, PostError> {
        self.post(Op::Recv, descriptor, self.recv_queue.inbox())
    }

    /// Fills the descriptor's memory from the peer's. Consumes no receive
    /// there; reads may overtake one another.
    ///
    /// # Errors
    ///
    /// Whatever [`Refused`] names; the descriptor is inside.
    pub fn post_read(
        &self,
        descriptor: Descriptor,
        from: RemoteSlice,
    ) -> Result<Ticket, PostError> {
        self.post(Op::Read(from), descriptor, self.send_queue.inbox())
    }

    /// Copies the descriptor's bytes into the peer's memory.
    ///
    /// # Errors
    ///
    /// Whatever [`Refused`] names; the descriptor is inside.
    pub fn post_write(&self, descriptor: Descriptor, to: RemoteSlice) -> Result<Ticket, PostError> {
        self.post(Op::Write { to, notify: false }, descriptor, self.send_queue.inbox())
    }

    /// Like [`post_write`](Self::post_write), and then consumes one of the
    /// peer's receives, which completes with the descriptor's tag and no bytes.
    ///
    /// # Errors
    ///
    /// Whatever [`Refused`] names; the descriptor is inside.
    pub fn post_write_notify(
        &self,
        descriptor: Descriptor,
        to: RemoteSlice,
    ) -> Result<Ticket, PostError> {
        self.post(Op::Write { to, notify: true }, descriptor, self.send_queue.inbox())
    }

    /// Takes back a descriptor that has not begun; it completes with
    /// [`ViError::Cancelled`]. `false` if it has begun or is gone.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        self.ops.cancel(ticket)
    }

    /// Closes the connection. Everything outstanding completes with
    /// [`ViError::Closed`] before this returns; the peer sees
    /// [`ViError::ClosedByPeer`].
    pub fn disconnect(&self) {
        self.ops.disconnect();
    }

    pub(super) fn post(
        &self,
        op: Op,
        mut descriptor: Descriptor,
        inbox: &Arc<Inbox>,
    ) -> Result<Ticket, PostError> {
        if let Err(reason) = self.check(&op, &mut descriptor) {
            return Err(PostError { reason, descriptor: Box::new(descriptor) });
        }
        if !inbox.reserve() {
            let reason = Refused::CompletionsFull { capacity: inbox.capacity() };
            return Err(PostError { reason, descriptor: Box::new(descriptor) });
        }
        let ticket = Ticket::new(self.id, self.next_ticket.fetch_add(1, Ordering::Relaxed));
        let posted = Posted::new(ticket, op, descriptor, Arc::clone(inbox));
        match self.ops.post(posted) {
            Ok(()) => Ok(ticket),
            Err(Unposted { reason, posted }) => {
                Err(PostError { reason, descriptor: Box::new(posted.withdraw()) })
            }
        }
    }

    fn check(&self, op: &Op, descriptor: &mut Descriptor) -> Result<(), Refused> {
        let limits = self.nic.limits();
        let (have, max) = (descriptor.segment_count(), limits.segments_max);
        if have > max as usize {
            return Err(Refused::TooManySegments { have, max });
        }
        let (len, max) = (descriptor.len(), limits.transfer_max);
        if len > max && op.kind() != OpKind::Recv {
            return Err(Refused::TooLarge { len, max });
        }
        if descriptor.has_fresh() && (op.kind() != OpKind::Recv || have > 1) {
            return Err(Refused::Fresh);
        }
        if matches!(op, Op::Recv | Op::Read(_)) && !descriptor.is_writable() {
            return Err(Refused::ReadOnly);
        }
        if matches!(op, Op::Read(_) | Op::Write { .. }) && !self.reliability().is_reliable() {
            return Err(Refused::Unreliable);
        }
        Ok(())
    }
}

/// What a connection has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Messages sent, remote reads and writes not counted.
    pub sent: u64,
    /// Messages received into posted memory.
    pub received: u64,
    /// Unreliable messages that found no receive posted.
    pub dropped: u64,
}
