//! A connection: two queues of descriptors.

use std::sync::Arc;

use super::handle::ViHandle;
use super::inbox::CompletionInbox;
use super::machine::ConnId;
use super::over_posted::{EmulatedVi, OverPosted};
use super::{
    CompletionQueue, Descriptor, Drain, Lane, Limits, Nic, Op, OpKind, Position, PostError, Posted,
    Reliability, RemoteSlice, Ticket, ViError, ViId, ViOptions,
};
use crate::buf::{Buf, Kind, Plain, Typed};
use crate::rt::GivenBack;

/// One end of a connection.
///
/// Posting takes the descriptor and its memory; the completion returns them.
/// After an error the connection stays in the error state: everything
/// outstanding completes with the error, later posts are refused with it.
/// Dropping a `Vi` closes it in the same way. A `Vi` keeps its nic: to drop a [`Nic`] ends
/// nothing while one of its connections is left.
///
/// # Two nics on one thread
///
/// A nic makes progress only when it is driven itself, and a connection takes both nics.
/// [`Nic::wait_connect`] drives the nic that connects, and
/// [`Listener::wait_accept`](super::Listener::wait_accept) the nic that listens. A thread that has
/// both nics drives them in turn:
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
///
/// use egret_net::fabric::{Fabric, shm::ShmFabric};
/// use egret_net::rt::Deadline;
/// use egret_net::vi::{Address, NicOptions, ViOptions};
///
/// let open = |host: String| ShmFabric.open(&NicOptions::new(&host));
/// let [near, far] = ["near", "far"].map(|side| open(format!("{side}-{}", std::process::id())));
/// let (near, far, options) = (near?, far?, ViOptions::default());
/// let listener = far.listen("echo", 0, &options)?;
/// let to = Address::new(far.host(), "echo", 0);
/// let mut connecting = pin!(near.connect(&to, &options, Deadline::DEFAULT));
/// let (mut context, mut there) = (Context::from_waker(Waker::noop()), None);
/// let here = loop {
///     there = there.or(listener.poll_accept()?); // Drives `far`.
///     if let Poll::Ready(made) = connecting.as_mut().poll(&mut context) {
///         break made?; // That poll drives `near`.
///     }
/// };
/// assert_eq!((here.peer(), there.expect("accepted").peer()), (far.host(), near.host()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Less will do over `sim`: there [`Nic::connect`] has sent its request when it returns. After `listen` and `connect` the thread
/// calls `wait_accept`, and then [`Nic::block_on`] with what `connect` returned.
#[derive(Debug)]
pub struct Vi {
    id: ViId,
    nic: Nic,
    conn: ConnId,
    pub(super) handle: Arc<ViHandle>,
    reliability: Reliability,
    send_queue: CompletionQueue,
    recv_queue: CompletionQueue,
    drain: Drain,
    /// Its eager messages, where the fabric does not carry them itself.
    member: Option<(Arc<OverPosted>, Arc<EmulatedVi>)>,
    /// The nic's, which stay as they are.
    limits: Limits,
}

impl Vi {
    pub(super) fn new(nic: Nic, handle: ViHandle, options: &ViOptions, id: ViId) -> Self {
        let (handle, reliability) = (Arc::new(handle), options.reliability);
        let drain = options.drain.clone().expect("each connection has one");
        let over = drain.posted(reliability);
        let member = over.map(|over| (Arc::clone(over), over.add(id, &handle, reliability)));
        let limits = nic.limits();
        let own = |queue: &Option<CompletionQueue>| {
            // Room for a full queue, and for as many completions not yet taken.
            let capacity = 2 * limits.queue_depth as usize;
            queue.clone().unwrap_or_else(|| nic.completion_queue(capacity))
        };
        Self {
            id,
            send_queue: own(&options.send_queue),
            recv_queue: own(&options.recv_queue),
            drain,
            member,
            limits,
            nic,
            conn: handle.made.conn,
            handle,
            reliability,
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

    /// The level both sides asked for.
    #[must_use]
    pub const fn reliability(&self) -> Reliability {
        self.reliability
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

    /// What drains its eager messages.
    #[must_use]
    pub const fn drain(&self) -> &Drain {
        &self.drain
    }

    /// Sends the bytes of `parts`, behind each other, as one eager message of at most
    /// [`EAGER_MAX`](super::EAGER_MAX) bytes. The bytes are out of the caller's hands when this
    /// returns: there is no completion. The position says how far the lane is then; once as much
    /// has [arrived](Self::arrived), the peer has the message, or has lost it at the unreliable level.
    ///
    /// # A full lane
    ///
    /// A lane holds a bounded amount that the peer has not drained. A message that finds no room is
    /// refused with [`PostError::LaneFull`]. The peer makes room by draining; a peer that only polls
    /// makes none. This side hears of the room, and sends again:
    ///
    /// | fabric | what a lane holds | this side hears of room |
    /// |---|---|---|
    /// | `shm` | 1,024 lines of 64 bytes: one for a message of up to 48 bytes, one more for each 64 bytes beyond | in `send_eager`, of each quarter of the lane that the peer has drained |
    /// | `sim` | 256 messages | when a nic of the world is driven |
    /// | `tcp`, `udp` | 4,096 units of talk, 512 of bulk: one for a message, one more for each 64 bytes that it begins | when this side polls, or drains otherwise than by [`take`](Drain::take): the peer tells with each of its messages, for each half of the lane, and when it is asked |
    /// | fabrics that do not [carry](Drain::is_native) eager messages, `udp` at the unreliable level | 32 messages of talk, 4 of bulk | when this side drains, and not when it polls: the peer tells with each of its messages, and sends one for each quarter of the lane |
    ///
    /// A question of [`arrived`](Self::arrived) takes a line, or the room of a message; none over
    /// `sim`, `tcp` and `udp`. At the unreliable level no lane is full. A message without room is
    /// dropped, and [counted](Counters::dropped) by the side that drops it.
    ///
    /// # A peer that is gone
    ///
    /// `send_eager` does not look for the end of the connection. The nic finds the end when it is
    /// driven: by a poll or a wait of any thread, or by a [drain](Drain::poll) that finds nothing.
    /// Until then messages leave without a receiver, and the lane may become full. From then on the answer
    /// is [`PostError::Broken`] with
    ///
    /// * [`ViError::ClosedByPeer`] if the peer has disconnected, or dropped its `Vi`;
    /// * [`ViError::PeerDied`] if the peer's process has ended without that. Over `shm` and `tcp`
    ///   the kernel tells at once, over `udp` when something is sent to the peer. Where the kernel
    ///   does not tell, for the machine or the network is gone, the end is known over `tcp` after
    ///   20 s at the latest, over `udp` when what is sent is not acknowledged for about 6 s, or after
    ///   10 s of silence, over `sim` after 5 s without an answer. Over `udp` a peer that does not drive
    ///   its nic is silent, too;
    /// * [`ViError::Closed`] if this side has closed the connection.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; nothing has left then.
    #[inline]
    pub fn send_eager(&self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        match &self.member {
            None => self.nic.hub.send(self.conn, lane, tag, parts),
            Some((over, member)) => over.send(member, lane, tag, parts),
        }
    }

    /// How much of a lane the peer has drained, as far as it has said so; it is asked to, and a
    /// later call knows more: the peer answers when it drains next, not when it only polls. Where
    /// the fabric does not [carry](Drain::is_native) eager messages, this side hears the answer
    /// when it drains. When the connection ends, what was never sent is not delivered; of what was
    /// sent and has not arrived is unknown.
    ///
    /// At the unreliable level what is at or below the answer was drained or lost, or was overtaken
    /// on the way; nothing above the answer was drained when the peer said so. A peer that drains,
    /// and is heard, brings every position to have arrived. Who asks again after a while has a
    /// question repeated that was lost.
    #[must_use]
    pub fn arrived(&self, lane: Lane) -> Position {
        self.arrived_if_asked(lane, true)
    }

    /// Like [`arrived`](Self::arrived), without asking the peer.
    #[must_use]
    pub fn arrived_so_far(&self, lane: Lane) -> Position {
        self.arrived_if_asked(lane, false)
    }

    fn arrived_if_asked(&self, lane: Lane, asked: bool) -> Position {
        match &self.member {
            Some((over, member)) => over.arrived(member, lane, asked),
            None => {
                let hub = &self.nic.hub;
                hub.work(|machine, after| machine.arrived(self.conn, lane, asked, after))
            }
        }
    }

    /// Why it is in the error state, if it is.
    #[must_use]
    pub fn error(&self) -> Option<ViError> {
        self.handle.error()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.handle.counters();
        counters.dropped += self.member.as_ref().map_or(0, |(_, member)| member.dropped());
        counters
    }

    /// Sends the descriptor's bytes as one message.
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the descriptor is inside.
    pub fn post_send(
        &self,
        descriptor: Descriptor,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.post(Op::Send, descriptor, self.send_queue.inbox())
    }

    /// Sends a buffer away for good. The peer receives it by
    /// [`Descriptor::handed`], and between processes that
    /// [cooperate](super::Trust::Cooperating) it gets the very buffer, whatever its
    /// size, if that is a whole one of a pool built
    /// [`cooperating`](crate::buf::PoolBuilder::cooperating) or one that came from
    /// the peer. Everywhere else, and for a peer that posted memory of its own, the
    /// bytes are copied and the buffer goes back to its pool.
    ///
    /// The completion has no memory. One that failed has, unless the buffer was on
    /// its way already: then it comes home by itself, at the latest when the peer's
    /// process ends. What the peer drops is home when this side's nic next looks:
    /// by any poll or wait, but not by [waiting](crate::buf::Pool::wait_take) for the
    /// pool alone.
    ///
    /// ```
    /// use egret_net::buf::Pool;
    /// use egret_net::fabric::{Fabric, shm::ShmFabric};
    /// use egret_net::rt::{self, Deadline};
    /// use egret_net::vi::{Address, Descriptor, NicOptions, Trust, ViOptions};
    ///
    /// // Two nics of one process cooperate as two processes of one program do.
    /// let names = ["a", "b"].map(|name| format!("{name}-{}", std::process::id()));
    /// let open = |name: &str| ShmFabric.open(&NicOptions::new(name).trust(Trust::Cooperating));
    /// let (a, b) = (open(&names[0])?, open(&names[1])?);
    /// let listener = b.listen("work", 0, &ViOptions::default())?;
    /// let to = Address::new(&names[1], "work", 0);
    /// let connecting = rt::spawn("connecting", move || {
    ///     a.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT)
    /// })?;
    /// let there = listener.wait_accept(Deadline::DEFAULT)?;
    /// let here = connecting.join().expect("it does not panic")?;
    ///
    /// let pool = Pool::builder().class(1 << 20, 4).cooperating().build()?;
    /// let buf = pool.take(1 << 20)?;
    /// let place = buf.offset_in_region();
    /// there.post_recv(Descriptor::handed(1 << 20))?;
    /// here.hand_over(buf, 7)?;
    /// let got = there.recv_queue().wait(Deadline::DEFAULT)?.ok()?;
    /// assert_eq!((got.tag, got.len), (7, 1 << 20));
    /// let buf = got.into_handed().into_buf().expect("the buffer itself, no copy");
    /// assert_eq!((buf.offset_in_region(), pool.available(1 << 20)), (place, 3));
    ///
    /// drop(buf);
    /// here.send_queue().wait(Deadline::DEFAULT)?.done()?;
    /// assert_eq!(pool.available(1 << 20), 4, "home again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the buffer is inside.
    pub fn hand_over(
        &self,
        buf: impl Into<Buf>,
        tag: u64,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.give(Descriptor::new(buf.into()).with_tag(tag))
    }

    /// Like [`hand_over`](Self::hand_over), and says what the elements are: a
    /// receive for others does not take it.
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the buffer is inside.
    pub fn hand_over_typed<T: Plain>(
        &self,
        typed: Typed<T>,
        tag: u64,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.give(Descriptor::typed(typed).with_tag(tag))
    }

    /// Like [`hand_over`](Self::hand_over), and says what it is: a receive for something else does
    /// not take it.
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the buffer is inside.
    pub fn hand_over_of(
        &self,
        buf: impl Into<Buf>,
        kind: Kind,
        tag: u64,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.give(Descriptor::new(buf.into()).with_tag(tag).of_kind(kind))
    }

    fn give(&self, mut descriptor: Descriptor) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        descriptor.note_mut().set_gives(true);
        let posted = self.post(Op::Send, descriptor, self.send_queue.inbox());
        posted.map_err(|mut refused| {
            // Posted again it is what it is posted as.
            refused.what.note_mut().set_gives(false);
            refused
        })
    }

    /// Receives the next message into the descriptor's memory.
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the descriptor is inside.
    pub fn post_recv(
        &self,
        descriptor: Descriptor,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.post(Op::Recv, descriptor, self.recv_queue.inbox())
    }

    /// Fills the descriptor's memory from the peer's. Consumes no receive
    /// there; reads may overtake one another.
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the descriptor is inside.
    pub fn post_read(
        &self,
        descriptor: Descriptor,
        from: RemoteSlice,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.post(Op::Read(from), descriptor, self.send_queue.inbox())
    }

    /// Copies the descriptor's bytes into the peer's memory. A peer that
    /// [cooperates](super::Trust::Cooperating) does not take part in that, where the
    /// memory is of a pool built [`cooperating`](crate::buf::PoolBuilder::cooperating);
    /// it may see the bytes before messages that were posted earlier.
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the descriptor is inside.
    pub fn post_write(
        &self,
        descriptor: Descriptor,
        to: RemoteSlice,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.post(Op::Write { to, notify: false }, descriptor, self.send_queue.inbox())
    }

    /// Like [`post_write`](Self::post_write), and then consumes one of the
    /// peer's receives, which completes with the descriptor's tag and no bytes.
    ///
    /// # Errors
    ///
    /// Whatever [`PostError`] names; the descriptor is inside.
    pub fn post_write_notify(
        &self,
        descriptor: Descriptor,
        to: RemoteSlice,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        self.post(Op::Write { to, notify: true }, descriptor, self.send_queue.inbox())
    }

    /// Takes back a descriptor that has not begun; it completes with
    /// [`ViError::Cancelled`]. `false` if it has begun or is gone.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        self.handle.cancel(ticket)
    }

    /// Closes the connection. Everything outstanding completes with
    /// [`ViError::Closed`] before this returns; the peer sees
    /// [`ViError::ClosedByPeer`].
    pub fn disconnect(&self) {
        self.handle.close();
    }

    /// Inlined, so that the kind of the operation is known to what follows.
    #[inline(always)]
    pub(super) fn post(
        &self,
        op: Op,
        mut descriptor: Descriptor,
        inbox: &Arc<CompletionInbox>,
    ) -> Result<Ticket, GivenBack<Descriptor, PostError>> {
        if let Err(why) = self.check(&op, &mut descriptor) {
            return Err(GivenBack { why, what: descriptor });
        }
        let Some(number) = inbox.reserve() else {
            let why = PostError::CompletionsFull { capacity: inbox.capacity() };
            return Err(GivenBack { why, what: descriptor });
        };
        let ticket = Ticket::new(self.id, number, matches!(op, Op::Recv));
        match self.nic.hub.post(self.conn, Posted::new(ticket, op, descriptor, inbox)) {
            Ok(()) => Ok(ticket),
            Err(unposted) => {
                let (why, posted) = unposted.into_parts();
                Err(GivenBack { why, what: posted.withdraw() })
            }
        }
    }

    /// What there is to object to. Most posts are a send or a receive of one segment.
    #[inline]
    fn check(&self, op: &Op, descriptor: &mut Descriptor) -> Result<(), PostError> {
        let simple = match (op, descriptor.only()) {
            (Op::Send, Some(only)) => !only.is_fresh() && only.len() <= self.limits.transfer_max,
            (Op::Recv, Some(only)) => only.bytes_mut().is_some(),
            _ => false,
        };
        if simple { Ok(()) } else { self.check_all(op, descriptor) }
    }

    #[cold]
    fn check_all(&self, op: &Op, descriptor: &mut Descriptor) -> Result<(), PostError> {
        let limits = &self.limits;
        descriptor.unland();
        let (have, max) = (descriptor.segment_count(), limits.segments_max);
        if have > max as usize {
            return Err(PostError::TooManySegments { have, max });
        }
        let (len, max) = (descriptor.len(), limits.transfer_max);
        if len > max && op.kind() != OpKind::Recv {
            return Err(PostError::TooLarge { len, max });
        }
        if descriptor.is_landing() && (have > 1 || descriptor.has_fresh()) {
            return Err(PostError::Fresh);
        }
        if descriptor.has_fresh() && (op.kind() != OpKind::Recv || have > 1) {
            return Err(PostError::Fresh);
        }
        if matches!(op, Op::Recv | Op::Read(_)) && !descriptor.is_writable() {
            return Err(PostError::ReadOnly);
        }
        if matches!(op, Op::Read(_) | Op::Write { .. }) && !self.reliability().is_reliable() {
            return Err(PostError::Unreliable);
        }
        Ok(())
    }
}

impl Drop for Vi {
    fn drop(&mut self) {
        if let Some((over, _)) = &self.member {
            self.handle.close();
            over.remove(self.id);
        }
    }
}

/// What a connection has done so far.
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
/// there.post_recv(Descriptor::new(vec![0_u8; 8]))?;
/// here.post_send(Descriptor::new(vec![7_u8; 8]))?;
/// here.send_queue().wait(Deadline::DEFAULT)?.done()?;
/// assert_eq!((here.counters().sent, there.counters().received), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Posted messages sent, remote reads and writes not counted.
    pub sent: u64,
    /// Messages received into posted memory.
    pub received: u64,
    /// Unreliable messages that found no receive posted, and eager ones that found no room.
    pub dropped: u64,
}
