//! One connection of a send port, from the side of the sender.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use egret_net::rt::Deadline;
use egret_stream::read;

use super::local::{LocalMessage, LocalPipe, LocalPipeWriter, LocalPlace, LocalWindow, wait_at};
use super::ports::NodePorts;
use super::receiver::{ArrivalKind, PortReceiver, datagram_port};
use super::wire::{
    CONNECT, EXPLAINED, LEAVE, NAMES, PortAnswer, PortDatagramHead, PortRequest, PortTerms, SHORT,
    STREAMED, TAG, WATCH, channel_name, endpoint_name,
};
use super::{PortEnd, PortError, PortRefusal, ReceiverId};
use crate::am::{Endpoint, EndpointName, Message, MessageError, RemoteEndpoint};
use crate::channel::{ChannelError, ChannelWriter};
use crate::links::clock::DeadlineClock;
use crate::links::core::WaitStopped;
use crate::node::{NodeHandle, Route};
use crate::{Path, Task};

/// A connection to a receive port. Dropped, it disconnects.
pub(super) struct OutboundConnection {
    pub(super) port: ReceiverId,
    pub(super) ended: Arc<EndedFlag>,
    pub(super) window: u32,
    way: ConnectionWay,
}

enum ConnectionWay {
    Link(Box<LinkWay>),
    Local { receiver: Arc<PortReceiver>, connection: u64, window: Arc<LocalWindow> },
}

/// A connection to another node.
struct LinkWay {
    node: NodeHandle,
    remote: Arc<RemoteEndpoint>,
    route: Route,
    channel: String,
    writer: Option<ChannelWriter>,
    /// Of an unreliable port.
    path: Option<(Path, u64)>,
    connection: u64,
    /// Waits for the receive port to end the connection.
    _watch: Task,
    /// What the mapping is of.
    endpoint: Arc<Endpoint>,
}

/// Whether a connection has ended, as all its handlers say it.
#[derive(Debug, Default)]
pub(super) struct EndedFlag {
    is_set: AtomicBool,
    why: OnceLock<PortEnd>,
}

impl EndedFlag {
    pub(super) fn set(&self, why: PortEnd) {
        self.why.get_or_init(|| why);
        self.is_set.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    pub(super) fn why(&self) -> PortEnd {
        self.why.get().cloned().unwrap_or(PortEnd::Closed)
    }
}

/// Where the bytes of a message go that is written piece by piece.
pub(super) enum MessageWay<'p> {
    Link(crate::channel::MessageWriter<'p>),
    Local(LocalPipeWriter),
}

impl OutboundConnection {
    /// Connects to a port of another node.
    pub(super) fn to_node(
        node: &NodeHandle,
        (port, request): (ReceiverId, &PortRequest),
        schema: &dyn Fn() -> String,
        route: Route,
        deadline: Deadline,
    ) -> Result<Self, PortError> {
        let not_reached = |why: MessageError| match why {
            MessageError::InHandler => PortError::InHandler,
            why => PortError::NotReached { port: port.clone(), why: why.to_string() },
        };
        let ended = Arc::<EndedFlag>::default();
        let endpoint = route.links.bundle().endpoint(TAG);
        let flag = Arc::clone(&ended);
        endpoint.on_error(move |_| flag.set(PortEnd::Closed));
        let flag = Arc::clone(&ended);
        endpoint.on_end(move |link| flag.set(PortEnd::Link { why: link.why.to_string() }));
        let there = EndpointName::new(&route.host, &endpoint_name(&port.name), TAG);
        let remote = Arc::new(endpoint.wait_map(&there, deadline).map_err(not_reached)?);
        // Who gives up after it has asked says so: it may be connected meanwhile.
        let asking = AskingGuard(Some((node, Arc::clone(&remote), Arc::new(endpoint))));
        let mut asked = request.clone();
        let terms = loop {
            let bytes = encoded(&asked);
            // What is long goes by a lane of its own; nothing of this connection is sent before the answer.
            let message = match bytes.len() <= crate::am::MEDIUM_MAX {
                true => Message::to(CONNECT).bytes(&bytes),
                false => Message::to(CONNECT).data(bytes),
            };
            let reply = remote.wait_call(message, deadline).map_err(not_reached)?;
            match read::<PortAnswer>(reply.bytes()) {
                Ok(PortAnswer::Connected(terms)) => break terms,
                Ok(PortAnswer::TellSchema) if asked.schema.is_empty() => asked.schema = schema(),
                Ok(PortAnswer::Refused(why)) => {
                    return Err(PortError::Refused { port, why });
                }
                Ok(PortAnswer::TellSchema) | Err(_) => {
                    return Err(PortError::Refused { port, why: PortRefusal::Malformed });
                }
            }
        };
        let path = match request.port_type.is_reliable {
            true => None,
            false => {
                let path = route.links.wait_path(&route.host, deadline);
                let not_there = |why: crate::link::LinkError| PortError::NotReached {
                    port: port.clone(),
                    why: why.to_string(),
                };
                Some((path.map_err(not_there)?, datagram_port(&port.name)))
            }
        };
        let watch = watch(&remote, &ended).map_err(not_reached)?;
        let PortTerms { connection, window } = terms;
        let endpoint = asking.connected();
        let way = LinkWay {
            node: node.clone(),
            remote,
            route,
            channel: channel_name(connection),
            writer: None,
            path,
            connection,
            _watch: watch,
            endpoint,
        };
        Ok(Self { port, ended, window, way: ConnectionWay::Link(Box::new(way)) })
    }

    /// Connects to a port of the same node.
    pub(super) fn local(
        (port, request): (ReceiverId, &PortRequest),
        schema: &dyn Fn() -> String,
        receiver: Arc<PortReceiver>,
        deadline: Deadline,
    ) -> Result<Self, PortError> {
        let mut clock = DeadlineClock::of(deadline);
        let is_enabled =
            wait_at(&receiver.node, 0, &mut clock, &mut |waker| receiver.poll_enabled(waker));
        is_enabled.map_err(|stopped| match stopped {
            WaitStopped::InHandler => PortError::InHandler,
            WaitStopped::TimedOut { waited } => {
                let why = format!("the port was not enabled within {waited:?}");
                PortError::NotReached { port: port.clone(), why }
            }
        })?;
        let mut asked = request.clone();
        asked.schema = schema();
        let ended = Arc::<EndedFlag>::default();
        let flag = Arc::clone(&ended);
        match receiver.admit_local(&asked, Arc::new(move |why| flag.set(why))) {
            PortAnswer::Connected(PortTerms { connection, window: most }) => {
                let window = LocalWindow::new(&receiver.node, most);
                let way = ConnectionWay::Local { receiver, connection, window };
                Ok(Self { port, ended, window: most, way })
            }
            PortAnswer::Refused(why) => Err(PortError::Refused { port, why }),
            PortAnswer::TellSchema => Err(PortError::Refused { port, why: PortRefusal::Malformed }),
        }
    }

    /// The fabric that leads to the port; none inside of one node.
    pub(super) fn fabric(&self) -> Option<&str> {
        match &self.way {
            ConnectionWay::Link(way) => Some(&way.route.fabric),
            ConnectionWay::Local { .. } => None,
        }
    }

    /// Sends a whole message of a few bytes when there is room.
    #[inline]
    pub(super) fn send_short(
        &self,
        node: &NodeHandle,
        bytes: &[u8],
        is_explained: bool,
        deadline: Deadline,
    ) -> Result<(), PortError> {
        match &self.way {
            ConnectionWay::Link(way) => {
                let handler = if is_explained { EXPLAINED } else { SHORT };
                let sent = way.remote.wait_send(Message::to(handler).bytes(bytes), deadline);
                sent.map_err(|why| self.failed(why))
            }
            ConnectionWay::Local { receiver, connection, .. } => {
                let place = self.local_place(node, deadline)?;
                let message = LocalMessage::new(bytes.to_vec(), place);
                self.pushed(receiver.push_local(*connection, ArrivalKind::Local(message)))
            }
        }
    }

    /// Sends a whole message of a few bytes, if there is room.
    pub(super) fn try_send_short(&self, bytes: &[u8], is_explained: bool) -> Result<(), PortError> {
        match &self.way {
            ConnectionWay::Link(way) => {
                let handler = if is_explained { EXPLAINED } else { SHORT };
                let sent = way.remote.try_send(Message::to(handler).bytes(bytes));
                sent.map_err(|unsent| self.failed(unsent.why))
            }
            ConnectionWay::Local { receiver, connection, window } => {
                let place = window.poll_place(None).ok_or_else(|| self.full())?;
                let message = LocalMessage::new(bytes.to_vec(), place);
                self.pushed(receiver.push_local(*connection, ArrivalKind::Local(message)))
            }
        }
    }

    /// Sends a datagram, which may be lost.
    pub(super) fn send_datagram(&self, number: u64, bytes: &[u8]) -> Result<(), PortError> {
        match &self.way {
            ConnectionWay::Link(way) => {
                let Some((path, port)) = &way.path else { return Ok(()) };
                let head = PortDatagramHead { connection: way.connection, number }.to_bytes();
                path.send(*port, &[&head, bytes]).map_err(|why| {
                    self.ended.set(PortEnd::Link { why: why.to_string() });
                    self.lost()
                })
            }
            ConnectionWay::Local { receiver, connection, window } => {
                // As on a network, what finds no room is lost.
                let Some(place) = window.poll_place(None) else { return Ok(()) };
                let message = LocalMessage::new(bytes.to_vec(), place);
                self.pushed(receiver.push_local(*connection, ArrivalKind::Local(message)))
            }
        }
    }

    /// Tells the names of types before the messages that need them.
    pub(super) fn tell_names(&self, names: &[u8], deadline: Deadline) -> Result<(), PortError> {
        let ConnectionWay::Link(way) = &self.way else { return Ok(()) };
        if names.len() <= crate::am::MEDIUM_MAX {
            let told = way.remote.wait_send(Message::to(NAMES).bytes(names), deadline);
            return told.map_err(|why| self.failed(why));
        }
        match way.remote.wait_call(Message::to(NAMES).data(names.to_vec()), deadline) {
            // They are kept, and not answered.
            Ok(_) | Err(MessageError::NoReply) => Ok(()),
            Err(why) => Err(self.failed(why)),
        }
    }

    /// Whether names of types are told to the other side.
    pub(super) const fn is_remote(&self) -> bool {
        matches!(self.way, ConnectionWay::Link(_))
    }

    /// Begins a message that is written piece by piece: gives the message its place among the others.
    pub(super) fn begin_message(
        &mut self,
        node: &NodeHandle,
        deadline: Deadline,
    ) -> Result<MessageWay<'_>, PortError> {
        let Self { port, ended, window, way } = self;
        match way {
            ConnectionWay::Link(way) => {
                if way.writer.is_none() {
                    let LinkWay { route, channel, .. } = &**way;
                    let opened = route.links.wait_channel(&route.host, channel, deadline);
                    way.writer = Some(opened.map_err(|why| not_opened(port, ended, why))?);
                }
                let Some(writer) = &mut way.writer else { unreachable!("it was just opened") };
                let mut message = writer.message();
                message.wait_place(deadline).map_err(|why| match why {
                    ChannelError::WriteTimedOut { waited, .. } => {
                        PortError::NoRoomInTime { port: port.clone(), window: *window, waited }
                    }
                    ChannelError::InHandler => PortError::InHandler,
                    why => {
                        ended.set(PortEnd::Link { why: why.to_string() });
                        lost(port, ended)
                    }
                })?;
                match way.remote.wait_send(Message::to(STREAMED), deadline) {
                    Ok(()) => Ok(MessageWay::Link(message)),
                    Err(why) => {
                        message.leave_place();
                        Err(failed(port, ended, *window, why))
                    }
                }
            }
            ConnectionWay::Local { receiver, connection, window: places } => {
                let place = local_place((port, *window), places, node, deadline)?;
                let (writer, reader) = LocalPipe::open(node, place);
                match receiver.push_local(*connection, ArrivalKind::LocalStream(reader)) {
                    true => Ok(MessageWay::Local(writer)),
                    false => {
                        ended.set(PortEnd::Closed);
                        Err(lost(port, ended))
                    }
                }
            }
        }
    }

    fn local_place(&self, node: &NodeHandle, deadline: Deadline) -> Result<LocalPlace, PortError> {
        match &self.way {
            ConnectionWay::Local { window, .. } => {
                local_place((&self.port, self.window), window, node, deadline)
            }
            ConnectionWay::Link(_) => Err(self.full()),
        }
    }

    fn pushed(&self, is_there: bool) -> Result<(), PortError> {
        if !is_there {
            self.ended.set(PortEnd::Closed);
            return Err(self.lost());
        }
        Ok(())
    }

    fn full(&self) -> PortError {
        PortError::Full { port: self.port.clone(), window: self.window }
    }

    fn lost(&self) -> PortError {
        lost(&self.port, &self.ended)
    }

    fn failed(&self, why: MessageError) -> PortError {
        failed(&self.port, &self.ended, self.window, why)
    }

    /// Tells the receive port that no more messages come, behind all that were sent, when there is room for that.
    fn leave(&self) {
        if self.ended.is_set() {
            return;
        }
        self.ended.set(PortEnd::Disconnected);
        match &self.way {
            ConnectionWay::Link(way) => leave_behind(&way.node, &way.remote, &way.endpoint),
            ConnectionWay::Local { receiver, connection, .. } => {
                let end = ArrivalKind::End(PortEnd::Disconnected);
                receiver.push_local(*connection, end);
            }
        }
    }
}

impl Drop for OutboundConnection {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A sender that has asked to be connected; dropped before it is, it leaves.
struct AskingGuard<'a>(Option<(&'a NodeHandle, Arc<RemoteEndpoint>, Arc<Endpoint>)>);

impl AskingGuard<'_> {
    fn connected(mut self) -> Arc<Endpoint> {
        match self.0.take() {
            Some((_, _, endpoint)) => endpoint,
            None => unreachable!("taken once"),
        }
    }
}

impl Drop for AskingGuard<'_> {
    fn drop(&mut self) {
        if let Some((node, remote, endpoint)) = self.0.take() {
            leave_behind(node, &remote, &endpoint);
        }
    }
}

/// Says that the sender leaves, behind what it has sent. If there is no room, a task does so when there is, which keeps the mapping.
fn leave_behind(node: &NodeHandle, remote: &Arc<RemoteEndpoint>, endpoint: &Arc<Endpoint>) {
    let is_full = |remote: &RemoteEndpoint| {
        let sent = remote.try_send(Message::to(LEAVE));
        matches!(sent.map_err(|unsent| unsent.why), Err(MessageError::Full { .. }))
    };
    if !is_full(remote) {
        return;
    }
    let (remote, endpoint) = (Arc::clone(remote), Arc::clone(endpoint));
    let leaves = poll_fn(move |context| {
        while is_full(&remote) {
            match remote.poll_room(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => break,
            }
        }
        Poll::Ready(())
    });
    NodePorts::of(node).leave(async move {
        leaves.await;
        drop(endpoint);
    });
}

/// Has the other side say when it ends the connection.
fn watch(remote: &RemoteEndpoint, ended: &Arc<EndedFlag>) -> Result<Task, MessageError> {
    let call = remote.try_request(Message::to(WATCH)).map_err(|unsent| unsent.why)?;
    let flag = Arc::clone(ended);
    Ok(Task::new(async move {
        let end = match call.await {
            Ok(reply) => read(reply.bytes()).unwrap_or(PortEnd::Closed),
            // It was closed before it knew of the watch, perhaps.
            Err(MessageError::NoReply | MessageError::EndpointGone) => PortEnd::Closed,
            Err(why) => PortEnd::Link { why: why.to_string() },
        };
        flag.set(end);
    }))
}

fn local_place(
    (port, most): (&ReceiverId, u32),
    window: &Arc<LocalWindow>,
    node: &NodeHandle,
    deadline: Deadline,
) -> Result<LocalPlace, PortError> {
    let mut clock = DeadlineClock::of(deadline);
    let place = wait_at(node, 0, &mut clock, &mut |waker| window.poll_place(waker));
    place.map_err(|stopped| PortError::of_room(stopped, port, most))
}

fn lost(port: &ReceiverId, ended: &EndedFlag) -> PortError {
    PortError::Lost { receivers: vec![(port.clone(), ended.why())] }
}

/// Why a connection has no channel.
fn not_opened(port: &ReceiverId, ended: &EndedFlag, why: ChannelError) -> PortError {
    match why {
        ChannelError::InHandler => return PortError::InHandler,
        ChannelError::NoListener { .. } => ended.set(PortEnd::Closed),
        ChannelError::Link(why) => ended.set(PortEnd::Link { why: why.to_string() }),
        why => return PortError::NotReached { port: port.clone(), why: why.to_string() },
    }
    lost(port, ended)
}

/// What the links say of a message that was not sent.
fn failed(port: &ReceiverId, ended: &EndedFlag, window: u32, why: MessageError) -> PortError {
    let port = port.clone();
    match why {
        MessageError::Full { .. } => PortError::Full { port, window },
        MessageError::NoRoomInTime { waited, .. } | MessageError::TimedOut { waited } => {
            PortError::NoRoomInTime { port, window, waited }
        }
        MessageError::InHandler => PortError::InHandler,
        MessageError::EndpointGone => {
            ended.set(PortEnd::Closed);
            lost(&port, ended)
        }
        why => {
            ended.set(PortEnd::Link { why: why.to_string() });
            lost(&port, ended)
        }
    }
}

fn encoded(request: &PortRequest) -> Vec<u8> {
    let mut writer = egret_stream::Writer::new();
    let written = writer.write_copy(request);
    debug_assert_eq!(written, Ok(()), "lists and numbers can be written");
    writer.to_vec()
}

impl fmt::Debug for OutboundConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundConnection").field("port", &self.port).finish_non_exhaustive()
    }
}
