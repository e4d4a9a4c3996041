//! Receive ports: their handles.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Poll;

use egret_net::rt::Deadline;
use egret_net::rt::waits::{self, WaitHint};
use egret_stream::{FromWire, Names, Reader, WireError};

use super::incoming::{Incoming, unreadable};
use super::local::wait_at;
use super::names;
use super::ports::PortNames;
use super::receiver::{ArrivalKind, Arrived, PortReceiver};
use super::{PortError, PortEvent, ReceiverId, SenderId};
use crate::links::clock::DeadlineClock;

/// A port from which the program takes messages when it wants them; made by
/// [`NodeHandle::receive_port`](crate::node::NodeHandle::receive_port). [`port`](crate::port) has an example.
///
/// Dropping it closes the port: its senders are told, and messages that were not received are dropped.
#[derive(Debug)]
pub struct ReceivePort<T> {
    control: PortControl,
    current: Option<Arrived>,
    types: PhantomData<fn() -> T>,
}

/// A port that calls a function of the program with each message; made by
/// [`NodeHandle::receive_port_with`](crate::node::NodeHandle::receive_port_with), which has an example. Dropping it closes the port; an upcall
/// that runs comes to its end.
#[derive(Debug)]
#[must_use = "dropped, the port is closed"]
pub struct UpcallPort {
    pub(super) control: PortControl,
}

/// What the handles of all receive ports can do. [`poll_event`](Self::poll_event) has an example.
pub struct PortControl {
    pub(super) receiver: Arc<PortReceiver>,
}

/// A value that was received, with its sender; it dereferences to the value. [`port`](crate::port) has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received<T> {
    /// The value.
    pub value: T,
    /// Who sent the value.
    pub origin: SenderId,
    /// The number of the message, as [`Incoming::sequence`] has it.
    pub sequence: u64,
}

impl<T: for<'a> FromWire<'a>> ReceivePort<T> {
    pub(super) const fn new(control: PortControl) -> Self {
        Self { control, current: None, types: PhantomData }
    }

    /// Waits for the next message, and reads the value in it. Each part of a long one that has begun may take as long as the
    /// [deadline](crate::node::NodeHandle::deadline) of the node says.
    ///
    /// # Errors
    ///
    /// If no message has come in time, the port is closed, the sender gave the message up, or the message is no such value.
    #[track_caller]
    pub fn receive(&mut self, deadline: impl Into<Deadline>) -> Result<Received<T>, PortError> {
        let mut arrived = self.wait(deadline.into())?;
        value_of(&mut arrived, self.control.receiver.node.deadline())
    }

    /// Waits for the next message, to read it piece by piece, also while the rest of it still arrives, of which each part may take as
    /// long as the [deadline](crate::node::NodeHandle::deadline) of the node says.
    ///
    /// # Errors
    ///
    /// If no message has come in time, the port is closed, or the sender gave the message up.
    #[track_caller]
    pub fn receive_message(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<Incoming<'_>, PortError> {
        let arrived = self.wait(deadline.into())?;
        let rest = self.control.receiver.node.deadline();
        Incoming::begin(self.current.insert(arrived), rest)
    }

    /// The next message, if it has come; the rest of a long one is waited for.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive), but for the time.
    pub fn poll(&mut self) -> Result<Option<Received<T>>, PortError> {
        match self.wait(Deadline::NOW) {
            Err(PortError::TimedOut { .. }) => Ok(None),
            Err(why) => Err(why),
            Ok(mut arrived) => {
                value_of(&mut arrived, self.control.receiver.node.deadline()).map(Some)
            }
        }
    }

    /// The next message, without blocking a thread: it is awaited until all of it is here.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive), but for the time.
    pub async fn next(&mut self) -> Result<Received<T>, PortError> {
        self.current = None;
        let receiver = &self.control.receiver;
        let mut arrived = loop {
            let popped = poll_fn(|context| {
                for (_, links) in receiver.node.links() {
                    links.core.poll();
                }
                receiver.poll(Some(context.waker())).map_or(Poll::Pending, Poll::Ready)
            });
            let mut arrived = popped.await.map_err(|()| self.control.closed())?;
            if !arrived.is_noted() {
                break arrived;
            }
        };
        if !matches!(arrived.what, Some(ArrivalKind::Streamed(_))) {
            return value_of(&mut arrived, receiver.node.deadline());
        }
        streamed_value(&mut arrived).await
    }

    fn wait(&mut self, deadline: Deadline) -> Result<Arrived, PortError> {
        self.current = None;
        let PortControl { receiver } = &self.control;
        let mut clock = DeadlineClock::of(deadline);
        loop {
            let popped = match receiver.poll(None) {
                Some(popped) => popped,
                None => self.control.wait_for(&mut clock, |waker| receiver.poll(waker))?,
            };
            let mut arrived = popped.map_err(|()| self.control.closed())?;
            if !arrived.is_noted() {
                return Ok(arrived);
            }
        }
    }
}

impl PortControl {
    /// The node and the name of the port.
    #[must_use]
    pub fn id(&self) -> &ReceiverId {
        &self.receiver.id
    }

    /// Lets senders connect; those that have asked meanwhile are connected now.
    pub fn enable(&self) {
        self.receiver.set_enabled(true);
    }

    /// Lets senders that ask from now on wait. Connections that there are stay.
    pub fn disable(&self) {
        self.receiver.set_enabled(false);
    }

    /// The senders that are connected.
    #[must_use]
    pub fn senders(&self) -> Vec<SenderId> {
        self.receiver.senders()
    }

    /// Ends the connection of a sender: messages of it that were not received are dropped. Whether there was one.
    pub fn disconnect(&self, sender: SenderId) -> bool {
        self.receiver.disconnect(sender)
    }

    /// The next change of the connections, if there is one. The last 4,096 are kept.
    ///
    /// ```
    /// use egret_net::rt::Deadline;
    /// use egret_node::port::{PortEvent, PortType};
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let numbers = PortType::many_to_one();
    /// let mut sink = pool[0].receive_port::<u32>("numbers", &numbers)?;
    /// let mut source = pool[1].send_port::<u32>(&numbers)?;
    /// source.connect("numbers", Deadline::DEFAULT)?;
    /// assert!(matches!(sink.poll_event(), Some(PortEvent::Connected { .. })));
    /// source.send(&7)?;
    /// drop(source);
    /// assert_eq!(*sink.receive(Deadline::DEFAULT)?, 7);
    /// while !sink.senders().is_empty() {
    ///     assert!(sink.poll()?.is_none(), "nothing else comes"); // the end has its place among the messages
    /// }
    /// assert!(matches!(sink.poll_event(), Some(PortEvent::Disconnected { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn poll_event(&self) -> Option<PortEvent> {
        self.receiver.poll_event(None)
    }

    /// Waits for the next change of the connections.
    ///
    /// # Errors
    ///
    /// [`PortError::TimedOut`].
    #[track_caller]
    pub fn wait_event(&self, deadline: impl Into<Deadline>) -> Result<PortEvent, PortError> {
        let mut clock = DeadlineClock::of(deadline.into());
        self.wait_for(&mut clock, |waker| self.receiver.poll_event(waker))
    }

    /// Waits on the calling thread, which drives the links meanwhile that the last message came by.
    #[track_caller]
    fn wait_for<R>(
        &self,
        clock: &mut DeadlineClock,
        mut poll: impl FnMut(Option<&std::task::Waker>) -> Option<R>,
    ) -> Result<R, PortError> {
        let PortReceiver { node, id, waited, .. } = &*self.receiver;
        let hint = node.wait_hint("message at port", None);
        // The name is looked up only if somebody asks what the thread waits for.
        let _waits = waits::scope(WaitHint { object: Some((&PortNames, *waited)), ..hint });
        let links = self.receiver.links_to_drive();
        let found = wait_at(node, links, clock, &mut poll);
        found.map_err(|stopped| PortError::of_wait(stopped, &id.name))
    }

    fn closed(&self) -> PortError {
        PortError::Closed { port: self.receiver.id.name.clone() }
    }
}

/// The value of a message that has arrived.
pub(super) fn value_of<T: for<'a> FromWire<'a>>(
    arrived: &mut Arrived,
    deadline: Deadline,
) -> Result<Received<T>, PortError> {
    let (origin, sequence) = (arrived.sender, arrived.sequence);
    let value = if arrived.receiver.has_dynamic() {
        None
    } else {
        let plan = arrived.reader.as_ref().map(|reader| &reader.plan);
        let bytes = match &arrived.what {
            Some(ArrivalKind::Short(kept) | ArrivalKind::Explained(kept)) => Some(kept.bytes()),
            Some(ArrivalKind::Local(message)) => Some(&*message.bytes),
            Some(ArrivalKind::Datagram { bytes, .. }) => Some(&**bytes),
            _ => None,
        };
        bytes.map(|bytes| {
            let mut reader = Reader::new(bytes);
            let read = match plan {
                Some(plan) => reader.read_planned(plan),
                None => reader.read(),
            };
            let read = read.and_then(|value| match reader.left() {
                0 => Ok(value),
                left => Err(WireError::Rest(left)),
            });
            read.map_err(|why| unreadable(origin, why))
        })
    };
    let value = match value {
        Some(value) => value?,
        None => {
            let mut message = Incoming::begin(arrived, deadline)?;
            let value = message.read_planned()?;
            message.ends_here()?;
            value
        }
    };
    arrived.what = None;
    Ok(Received { value, origin, sequence })
}

/// The value of a message that comes by its channel, awaited until all of it is here.
async fn streamed_value<T: for<'a> FromWire<'a>>(
    arrived: &mut Arrived,
) -> Result<Received<T>, PortError> {
    let (origin, sequence) = (arrived.sender, arrived.sequence);
    arrived.what = None;
    let aborted = || PortError::Aborted { origin };
    let reader = arrived.reader.as_mut().ok_or_else(aborted)?;
    let plan = reader.plan.clone();
    reader.channel().ok_or_else(aborted)?;
    // Until it has begun it is one of those to be skipped, also if this future is dropped.
    reader.to_skip += 1;
    while reader.to_skip > 1 {
        let channel = reader.channel().ok_or_else(aborted)?;
        drop(channel.next().await.map_err(|_| aborted())?);
        reader.to_skip -= 1;
    }
    let (channel, to_skip) = reader.channel_and_skips().ok_or_else(aborted)?;
    let message = channel.next().await.map_err(|_| aborted())?;
    *to_skip -= 1;
    let mut message = message.ok_or_else(aborted)?;
    let mut parts = Vec::new();
    while let Some(part) = message.next_part().await.map_err(|_| aborted())? {
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(aborted());
    }
    let parts: Vec<_> = parts.iter().map(crate::channel::Part::bytes).collect();
    let mut reader = Reader::chunks(&parts).with_names(Names::until_acknowledged());
    let value = reader.read_planned(&plan).map_err(|why| unreadable(origin, why))?;
    match reader.left() {
        0 => Ok(Received { value, origin, sequence }),
        left => Err(unreadable(origin, WireError::Rest(left))),
    }
}

impl Drop for PortControl {
    fn drop(&mut self) {
        self.receiver.close();
        PortNames::remove(self.receiver.waited);
        names::unbind(&self.receiver.node, &self.receiver.id, self.receiver.number);
    }
}

impl<T> Deref for ReceivePort<T> {
    type Target = PortControl;

    fn deref(&self) -> &PortControl {
        &self.control
    }
}

impl Deref for UpcallPort {
    type Target = PortControl;

    fn deref(&self) -> &PortControl {
        &self.control
    }
}

impl<T> Deref for Received<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl fmt::Debug for PortControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortControl").field("id", self.id()).finish_non_exhaustive()
    }
}
