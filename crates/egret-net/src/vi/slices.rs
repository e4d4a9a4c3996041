//! Blocking sends and receives of slices: the paper's Javia-I.
//!
//! A slice is borrowed for as long as the call blocks. It goes out from a copy
//! or from where it lies ("pinned": the paper stopped the collector meanwhile,
//! here the borrow keeps it in place; a fabric with a card would register the
//! pages too); [`send`](Vi::send) chooses by the fabric's measured threshold. If the deadline passes, a transfer that has not begun is taken
//! back, and one that has begun takes the connection with it: the call never
//! returns while the fabric may touch the slice.

use bytemuck::{cast_slice, cast_slice_mut};

use super::inbox::{CompletionInbox, InboxOwner};
use super::lend::Lender;
use super::{Completion, Descriptor, Op, Segment, Ticket, Vi, ViError};
use crate::buf::{Kind, Plain};
use crate::rt::{Deadline, Instant};

impl Vi {
    /// Sends a slice and waits until it is complete: at a [reliable](super::Reliability) level,
    /// until the peer's nic has said that the message is there, or in posted memory.
    ///
    /// A nic says so when it is driven. Over `tcp` a peer that has taken
    /// the message and then only computes leaves this waiting, and at the deadline it fails
    /// although the message arrived; the connection is given up then. So a program that
    /// computes for long polls its nic in between ([`Nic::poll`](super::Nic::poll)), or has a
    /// thread that drives it; or the sender's deadline is longer than the computation. Over
    /// `shm` the counts lie where this side reads them, as soon as the message is taken.
    ///
    /// # Errors
    ///
    /// See [`ViError`].
    pub fn send<T: Plain>(
        &self,
        data: &[T],
        tag: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<(), ViError> {
        let deadline = deadline.into();
        if (size_of_val(data) as u64) < self.nic().limits().pin_threshold {
            self.send_copy(data, tag, deadline)
        } else {
            self.send_pinned(data, tag, deadline)
        }
    }

    /// Like [`send`](Self::send), always from a copy.
    ///
    /// # Errors
    ///
    /// See [`ViError`].
    pub fn send_copy<T: Plain>(
        &self,
        data: &[T],
        tag: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<(), ViError> {
        let deadline = deadline.into();
        let descriptor = Descriptor::new(data.to_vec()).with_tag(tag).of_kind(T::kind());
        drop(self.transfer(Op::Send, descriptor, deadline)?.ok()?);
        Ok(())
    }

    /// Like [`send`](Self::send), always from where the slice lies.
    ///
    /// # Errors
    ///
    /// See [`ViError`].
    pub fn send_pinned<T: Plain>(
        &self,
        data: &[T],
        tag: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<(), ViError> {
        let deadline = deadline.into();
        let (lender, lent) = Lender::read(cast_slice(data));
        let descriptor = Descriptor::new(Segment::lent(lent)).with_tag(tag).of_kind(T::kind());
        self.transfer_lent(Op::Send, descriptor, lender, deadline)?;
        Ok(())
    }

    /// Sends pieces of memory as one message, and waits until it is complete: from a copy if that
    /// is faster or they are too many for a descriptor, else from where they lie.
    ///
    /// # Errors
    ///
    /// See [`ViError`].
    pub fn send_pieces(
        &self,
        pieces: &[&[u8]],
        kind: Kind,
        tag: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<(), ViError> {
        let deadline = deadline.into();
        let (limits, bytes) = (self.nic().limits(), pieces.iter().map(|piece| piece.len()));
        let is_small = (bytes.sum::<usize>() as u64) < limits.pin_threshold;
        if is_small || pieces.len() > limits.segments_max as usize {
            let descriptor = Descriptor::new(pieces.concat()).with_tag(tag).of_kind(kind);
            drop(self.transfer(Op::Send, descriptor, deadline)?.ok()?);
            return Ok(());
        }
        let (lender, lent) = Lender::read_all(pieces);
        let segments = lent.into_iter().map(Segment::lent);
        let descriptor = segments.fold(Descriptor::empty(), Descriptor::and);
        let descriptor = descriptor.with_tag(tag).of_kind(kind);
        self.transfer_lent(Op::Send, descriptor, lender, deadline)?;
        Ok(())
    }

    /// Receives the next message into fresh memory of whole `T`s, of at most `bytes_max`, if it
    /// is of this kind or does not say; gives it with its tag.
    ///
    /// # Errors
    ///
    /// See [`ViError`].
    pub fn recv_of<T: Plain>(
        &self,
        kind: Kind,
        bytes_max: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<(Vec<T>, u64), ViError> {
        let deadline = deadline.into();
        let descriptor = Descriptor::new(Segment::fresh::<T>(bytes_max)).of_kind(kind);
        let completion = self.transfer(Op::Recv, descriptor, deadline)?.ok()?;
        let (tag, _) = (completion.tag, elements::<T>(completion.len)?);
        Ok((completion.into_vec(), tag))
    }

    /// Receives the next message into a slice, and gives the number of whole elements received and
    /// the sender's tag. A message may bring no bytes: a
    /// [write with notice](Self::post_write_notify) is one of zero elements with its tag.
    ///
    /// The deadline is looked at between pieces of the message, so that a long copy does not
    /// outlast it by much. If a message has begun by then the connection is given up, and part
    /// of it may be in the slice; the fabric does not touch it after this returns.
    ///
    /// The sender hears that its message was received when this side's nic is driven next: see
    /// [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// See [`ViError`].
    pub fn recv_into<T: Plain>(
        &self,
        into: &mut [T],
        deadline: impl Into<Deadline>,
    ) -> Result<(usize, u64), ViError> {
        let deadline = deadline.into();
        let (lender, lent) = Lender::write(cast_slice_mut(into));
        let descriptor = Descriptor::new(Segment::lent(lent)).of_kind(T::kind());
        let (bytes, tag) = self.transfer_lent(Op::Recv, descriptor, lender, deadline)?;
        Ok((elements::<T>(bytes)?, tag))
    }

    /// Receives the next message into a fresh vector of at most `max` elements. A
    /// [write with notice](Self::post_write_notify) is an empty one, with its tag.
    ///
    /// The sender hears that its message was received when this side's nic is driven next: a
    /// program that receives and then only computes makes a blocking [`send`](Self::send) at
    /// the other side fail, over `tcp` for example.
    ///
    /// # Errors
    ///
    /// See [`ViError`].
    pub fn recv<T: Plain>(
        &self,
        max: usize,
        deadline: impl Into<Deadline>,
    ) -> Result<(Vec<T>, u64), ViError> {
        let bytes = (max as u64).saturating_mul(size_of::<T>() as u64);
        self.recv_of(T::kind(), bytes, deadline)
    }

    /// Posts lent memory and does not return before it is back.
    fn transfer_lent(
        &self,
        op: Op,
        descriptor: Descriptor,
        lender: Lender<'_>,
        deadline: Deadline,
    ) -> Result<(u64, u64), ViError> {
        // Dropped last, after every completion below: then the memory is home.
        let home = LentGuard { vi: self, inbox_owner: InboxOwner::single(&self.nic().hub), lender };
        let completion = self.transfer_in(&home.inbox_owner, op, descriptor, deadline)?.ok()?;
        Ok((completion.len, completion.tag))
    }

    fn transfer(
        &self,
        op: Op,
        descriptor: Descriptor,
        deadline: Deadline,
    ) -> Result<Completion, ViError> {
        self.transfer_in(&InboxOwner::single(&self.nic().hub), op, descriptor, deadline)
    }

    fn transfer_in(
        &self,
        inbox_owner: &InboxOwner,
        op: Op,
        descriptor: Descriptor,
        deadline: Deadline,
    ) -> Result<Completion, ViError> {
        let (started, inbox) = (self.nic().now(), inbox_owner.inbox());
        let doing = if op == Op::Send { "sending to" } else { "receiving from" };
        let ticket = self.post(op, descriptor, inbox).map_err(|refused| refused.why)?;
        let until = deadline.until_from(started);
        loop {
            let seen = self.nic().poll();
            if let Some(completion) = inbox.take() {
                return Ok(completion);
            }
            if until.is_some_and(|until| self.nic().now() >= until) {
                return self.give_up(ticket, inbox, (doing, started));
            }
            self.nic().wait(seen, until);
        }
    }

    /// Ends a transfer whose deadline has passed. It may be done after all.
    fn give_up(
        &self,
        ticket: Ticket,
        inbox: &CompletionInbox,
        (doing, started): (&'static str, Instant),
    ) -> Result<Completion, ViError> {
        let taken_back = self.cancel(ticket);
        if !taken_back {
            self.disconnect();
        }
        // What was done before either took effect is done.
        if let Some(completion) = inbox.pop().filter(|completion| completion.status.is_ok()) {
            return Ok(completion);
        }
        let waited = self.nic().now() - started;
        let peer = self.peer().to_owned();
        Err(ViError::TransferTimedOut { doing, peer, waited, broken: !taken_back })
    }
}

/// Waits for lent memory to come home, also when the wait above unwinds.
struct LentGuard<'a> {
    vi: &'a Vi,
    inbox_owner: InboxOwner,
    lender: Lender<'a>,
}

impl Drop for LentGuard<'_> {
    fn drop(&mut self) {
        // A completion that was not taken holds the memory.
        drop(self.inbox_owner.inbox().pop());
        if !self.lender.is_returned() {
            // Everything outstanding completes before this returns.
            self.vi.disconnect();
            drop(self.inbox_owner.inbox().pop());
        }
    }
}

/// How many elements a message is. One without a type may end inside one.
fn elements<T: Plain>(bytes: u64) -> Result<usize, ViError> {
    const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
    let element = size_of::<T>() as u64;
    if bytes.is_multiple_of(element) {
        Ok(usize::try_from(bytes / element).expect("it fitted memory of this process"))
    } else {
        Err(ViError::PartialElement { bytes, element })
    }
}
