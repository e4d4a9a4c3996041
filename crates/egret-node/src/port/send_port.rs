//! Send ports.

use std::fmt;
use std::marker::PhantomData;

use egret_net::rt::{Deadline, Instant, now};
use egret_stream::{Names, Schema, Wire, WireError, Writer};

use super::connection::OutboundConnection;
use super::outgoing::Outgoing;
use super::port_type::{PortCount, PortType};
use super::ports::NodePorts;
use super::wire::{PortDatagramHead, PortRequest};
use super::{DATAGRAM_MAX, NAME_MAX, PortEnd, PortError, ReceiverId, SenderId, names};
use crate::am::MEDIUM_MAX;
use crate::node::NodeHandle;
use crate::pool::NodeId;

/// A port that sends messages to the receive ports it is connected to; made by
/// [`NodeHandle::send_port`]. [`port`](crate::port) has an example.
///
/// A message goes to all of them. Calls wait no longer than the [deadline](Self::set_deadline) of the port, which is that of its
/// node if nothing is said. Dropping the port disconnects it, behind what was sent.
pub struct SendPort<T> {
    node: NodeHandle,
    id: SenderId,
    port_type: PortType,
    schema: Schema,
    /// Whether values need names of types.
    has_dynamic: bool,
    connections: Vec<OutboundConnection>,
    lost: Vec<(ReceiverId, PortEnd)>,
    deadline: Deadline,
    /// Where short values are written.
    short: Vec<u8>,
    /// Names of types that all receive ports were told.
    names: Option<Names>,
    /// Whether the short value that was written last explains the types of `dyn` values.
    is_explained: bool,
    /// Whether some receive ports were not told of names.
    is_untold: bool,
    sent: u64,
    types: PhantomData<fn(&T)>,
}

impl<T: Wire> SendPort<T> {
    pub(super) fn open(
        node: &NodeHandle,
        port_type: &PortType,
        id: SenderId,
    ) -> Result<Self, PortError> {
        super::suits(node, port_type)?;
        let schema = Schema::of::<T>();
        Ok(Self {
            node: node.clone(),
            id,
            port_type: port_type.clone(),
            has_dynamic: schema.has_dynamic(),
            schema,
            connections: Vec::new(),
            lost: Vec::new(),
            deadline: node.deadline(),
            short: vec![0; MEDIUM_MAX],
            names: Some(Names::new()),
            is_explained: false,
            is_untold: false,
            sent: 0,
            types: PhantomData,
        })
    }

    /// The port, as its receivers know it.
    #[must_use]
    pub const fn id(&self) -> SenderId {
        self.id
    }

    /// Lets calls wait so long for room at a receive port.
    pub fn set_deadline(&mut self, deadline: impl Into<Deadline>) {
        self.deadline = deadline.into();
    }

    /// Connects to the receive port of a name, and waits until there is one: the one that was opened first, if several nodes have one.
    ///
    /// # Errors
    ///
    /// If there is none within the deadline, it refuses the connection, or it cannot be reached.
    #[track_caller]
    pub fn connect(&mut self, name: &str, deadline: impl Into<Deadline>) -> Result<(), PortError> {
        let until = deadline.into().until();
        check_name(name)?;
        let port = names::find(&self.node, name, left(until))?;
        self.connect_by(port, until)
    }

    /// Connects to the receive port of a name at a node, and waits until there is one.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    #[track_caller]
    pub fn connect_to(
        &mut self,
        node: NodeId,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<(), PortError> {
        let until = deadline.into().until();
        check_name(name)?;
        let port = ReceiverId { node, name: name.to_owned() };
        names::find_at(&self.node, &port, left(until))?;
        self.connect_by(port, until)
    }

    fn connect_by(&mut self, port: ReceiverId, until: Option<Instant>) -> Result<(), PortError> {
        self.sweep();
        let has_one = self.port_type.receivers == PortCount::One && !self.connections.is_empty();
        let other = self.connections.iter().find(|other| has_one || other.port == port);
        if let Some(other) = other {
            return Err(PortError::AlreadyConnected { port: other.port.clone() });
        }
        let table = self.names.as_ref().filter(|names| !names.is_empty()).map(Names::table);
        let request = PortRequest {
            sender: self.id,
            port_type: self.port_type.clone(),
            fingerprint: self.schema.fingerprint(),
            schema: String::new(),
            names: table.unwrap_or_default(),
        };
        let schema = || self.schema.as_str().to_owned();
        let connection = if port.node == self.node.id() {
            let not_there = || PortError::NotReached {
                port: port.clone(),
                why: "the node has no such receive port any more".to_owned(),
            };
            let receiver = NodePorts::of(&self.node).find(&port.name).ok_or_else(not_there)?;
            OutboundConnection::local((port, &request), &schema, receiver, left(until))?
        } else {
            self.node.wait_known(port.node, left(until));
            let route = self.node.link(port.node, &self.port_type.requirement, left(until))?;
            let asked = (port, &request);
            OutboundConnection::to_node(&self.node, asked, &schema, route, left(until))?
        };
        self.connections.push(connection);
        Ok(())
    }

    /// Disconnects from a receive port, behind what was sent. Whether the port was connected to it.
    pub fn disconnect(&mut self, port: &ReceiverId) -> bool {
        let at = self.connections.iter().position(|connection| connection.port == *port);
        let Some(at) = at else { return false };
        drop(self.connections.remove(at));
        true
    }

    /// The receive ports that the port is connected to.
    ///
    /// ```
    /// use egret_net::rt::Deadline;
    /// use egret_node::port::PortType;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let news = PortType::one_to_many();
    /// let mut port = pool[0].send_port::<String>(&news)?;
    /// for node in &*pool {
    ///     let sink = node.receive_port::<String>("news", &news)?;
    ///     port.connect_to(node.id(), "news", Deadline::DEFAULT)?;
    ///     assert_eq!(port.connected().last(), Some(sink.id()));
    ///     assert!(port.disconnect(sink.id()));
    /// }
    /// assert!(port.connected().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn connected(&self) -> Vec<ReceiverId> {
        let all = self.connections.iter().filter(|connection| !connection.ended.is_set());
        all.map(|connection| connection.port.clone()).collect()
    }

    /// The receive ports whose connections were lost since this was asked last, and why.
    pub fn lost(&mut self) -> Vec<(ReceiverId, PortEnd)> {
        self.sweep();
        std::mem::take(&mut self.lost)
    }

    /// The fabric that leads to a receive port which the port is connected to; none inside of one node.
    #[must_use]
    pub fn fabric(&self, port: &ReceiverId) -> Option<&str> {
        self.connections.iter().find(|connection| connection.port == *port)?.fabric()
    }

    /// Sends a value, and waits until there is room for it at each receive port. A large one is received while it is written; slices of
    /// 16 KiB and more go from where they lie.
    ///
    /// # Errors
    ///
    /// [`PortError::Lost`] names the receive ports that do not get the message, of which all others get it. Any other error: the
    /// message was not sent, or was aborted.
    #[inline]
    pub fn send(&mut self, value: &T) -> Result<(), PortError> {
        let lost = self.begin()?;
        match self.encode(value)? {
            Some(len) if self.port_type.is_reliable => self.send_short(len, lost),
            Some(len) => self.send_datagram(len, lost),
            None => self.send_long(value, lost),
        }
    }

    /// Sends a value if there is room for it now at each receive port.
    ///
    /// # Errors
    ///
    /// [`PortError::Full`] if not, and nothing was sent to that receive port and those behind it; else as [`send`](Self::send). A value of more
    /// than 3,960 bytes is sent piece by piece, and what its receivers have no room for yet is waited for.
    pub fn try_send(&mut self, value: &T) -> Result<(), PortError> {
        let mut lost = self.begin()?;
        let len = match self.encode(value)? {
            Some(len) if self.port_type.is_reliable => len,
            Some(len) => return self.send_datagram(len, lost),
            None => return self.send_long(value, lost),
        };
        for connection in &self.connections {
            let sent = connection.try_send_short(&self.short[..len], self.is_explained);
            note(sent, &mut lost)?;
        }
        self.done(lost)
    }

    /// Begins a message that is written in pieces. [`Outgoing`] has an example.
    pub fn message(&mut self) -> Outgoing<'_> {
        let lost = self.begin();
        let deadline = self.deadline;
        match lost {
            Ok(lost) => Outgoing::new(&self.node, &mut self.connections, deadline, lost),
            Err(why) => Outgoing::broken(&self.node, deadline, why),
        }
    }

    /// Notes connections that have ended. Those that this message is the first to miss.
    #[inline]
    fn begin(&mut self) -> Result<Vec<(ReceiverId, PortEnd)>, PortError> {
        let mut lost = Vec::new();
        if self.connections.iter().any(|connection| connection.ended.is_set()) {
            lost = self.sweep();
        }
        match self.connections.is_empty() {
            true if lost.is_empty() => Err(PortError::NotConnected { sender: self.id }),
            true => Err(PortError::Lost { receivers: lost }),
            false => Ok(lost),
        }
    }

    #[cold]
    fn sweep(&mut self) -> Vec<(ReceiverId, PortEnd)> {
        let ended = self.connections.extract_if(.., |connection| connection.ended.is_set());
        let ended: Vec<_> = ended.map(|it| (it.port.clone(), it.ended.why())).collect();
        self.lost.extend_from_slice(&ended);
        ended
    }

    /// Writes a short value: how long it is; none if it is long.
    #[inline]
    fn encode(&mut self, value: &T) -> Result<Option<usize>, PortError> {
        let is_long = |why: &WireError| matches!(why, WireError::Full { .. });
        if self.has_dynamic {
            return self.encode_dynamic(value);
        }
        match egret_stream::write(value, &mut self.short) {
            Ok(len) => Ok(Some(len)),
            Err(why) if is_long(&why) => Ok(None),
            Err(why) => Err(PortError::Unwritable(why)),
        }
    }

    /// The same of values whose types have names, which all receive ports are told first.
    fn encode_dynamic(&mut self, value: &T) -> Result<Option<usize>, PortError> {
        let names = self.names.take().unwrap_or_default();
        let is_told = !self.is_untold
            && self.port_type.is_reliable
            && self.connections.iter().all(OutboundConnection::is_remote);
        let (mut writer, kept) = match is_told {
            true => (Writer::new().with_names(names), None),
            false => (Writer::new().with_names(Names::until_acknowledged()), Some(names)),
        };
        let written = writer.write_copy(value);
        let mut names = kept.or_else(|| writer.take_names()).unwrap_or_default();
        let len = writer.len();
        let is_short = written.is_ok() && len <= MEDIUM_MAX;
        // What is not told now is told with the next short value.
        let news = if is_told && is_short { names.news() } else { None };
        self.names = Some(names);
        written.map_err(PortError::Unwritable)?;
        if !is_short {
            return Ok(None);
        }
        self.is_explained = !is_told;
        if let Some(news) = news {
            for connection in &self.connections {
                match connection.tell_names(&news, self.deadline) {
                    // The value does not get there either.
                    Ok(()) | Err(PortError::Lost { .. }) => {}
                    Err(why) => {
                        // Some know the names and others do not: from now on each value explains its own.
                        self.is_untold = true;
                        return Err(why);
                    }
                }
            }
        }
        writer.copy_to(&mut self.short);
        Ok(Some(len))
    }

    #[inline]
    fn send_short(
        &mut self,
        len: usize,
        mut lost: Vec<(ReceiverId, PortEnd)>,
    ) -> Result<(), PortError> {
        for connection in &self.connections {
            let (short, deadline) = (&self.short[..len], self.deadline);
            let sent = connection.send_short(&self.node, short, self.is_explained, deadline);
            note(sent, &mut lost)?;
        }
        self.done(lost)
    }

    fn send_datagram(
        &mut self,
        len: usize,
        mut lost: Vec<(ReceiverId, PortEnd)>,
    ) -> Result<(), PortError> {
        if len > DATAGRAM_MAX {
            return Err(PortError::TooLarge { bytes: len });
        }
        self.sent += 1;
        for connection in &self.connections {
            note(connection.send_datagram(self.sent, &self.short[..len]), &mut lost)?;
        }
        self.done(lost)
    }

    fn send_long(&mut self, value: &T, lost: Vec<(ReceiverId, PortEnd)>) -> Result<(), PortError> {
        if !self.port_type.is_reliable {
            let mut writer = Writer::new();
            let written = writer.write(value);
            return Err(written
                .err()
                .map_or(PortError::TooLarge { bytes: writer.len() }, PortError::Unwritable));
        }
        let Self { node, connections, deadline, .. } = self;
        let mut message = Outgoing::new(node, connections, *deadline, lost);
        message.leave_now()?;
        message.write(value)?;
        message.finish().map(drop)
    }

    #[inline]
    fn done(&mut self, lost: Vec<(ReceiverId, PortEnd)>) -> Result<(), PortError> {
        match lost.is_empty() {
            true => Ok(()),
            false => Err(PortError::Lost { receivers: lost }),
        }
    }
}

/// Notes that a receive port does not get a message; other errors stop.
#[inline]
fn note(
    sent: Result<(), PortError>,
    lost: &mut Vec<(ReceiverId, PortEnd)>,
) -> Result<(), PortError> {
    match sent {
        Err(PortError::Lost { receivers }) => {
            lost.extend(receivers);
            Ok(())
        }
        sent => sent,
    }
}

pub(super) const fn check_name(name: &str) -> Result<(), PortError> {
    match name.len() > NAME_MAX {
        true => Err(PortError::NameTooLong { bytes: name.len() }),
        false => Ok(()),
    }
}

/// What is left of a deadline.
fn left(until: Option<Instant>) -> Deadline {
    until.map_or(Deadline::UntilDead, |until| Deadline::In(until.since(now())))
}

const _: () = assert!(DATAGRAM_MAX + PortDatagramHead::BYTES <= crate::PATH_MAX);

impl<T> fmt::Debug for SendPort<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = &self.connections;
        f.debug_struct("SendPort").field("id", &self.id).field("connections", connections).finish()
    }
}
