//! Send ports and receive ports, after Ibis: messages of values, arrays and graphs from one port to others, received when
//! the program asks for them or by calls of a function.
//!
//! ```
//! use egret_net::rt::Deadline;
//! use egret_node::port::PortType;
//!
//! // Two nodes of one process; under `egret run` each is a process of its own.
//! let pool = egret_node::local::pool(2)?;
//! let (here, there) = (&pool[0], &pool[1]);
//!
//! let results = PortType::many_to_one(); // a value, the same at both sides
//! let mut sink = here.receive_port::<(u32, String)>("results", &results)?;
//!
//! let mut port = there.send_port::<(u32, String)>(&results)?;
//! port.connect("results", Deadline::DEFAULT)?; // waits until there is one
//! port.send(&(7, "seven".to_owned()))?;
//!
//! let result = sink.receive(Deadline::DEFAULT)?;
//! assert_eq!((result.0, &*result.1, result.origin), (7, "seven", port.id()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A connection leads from one send port to one receive port. Messages of a connection are received in the order in which they were
//! sent, each once. Ports of one node, of one machine and of two machines are connected in the same way.
//!
//! **What waits.** A message that its receiver has not taken keeps its place in the window of its connection, 256 unless the
//! [type](PortType::window) says otherwise; what is long has bytes on top, which the receiver's node
//! [grants](crate::Config::budget). So who sends to a port that nobody reads waits, up to its deadline, and nobody else does.
//!
//! **How it travels.** A message of at most 3,960 bytes is one active message. A longer one has its place among these, and goes by a
//! channel of the connection while it is written: neither side has more than a few chunks of it in memory, and arrays go
//! from where they lie to the buffer where they stay. [Ports](../../../../docs/design/ports.md) has the functions.
//!
//! **What ends it.** A connection ends when its sender disconnects or dies, or its receive port is closed, dies, or panics in an upcall. Who
//! sends is told by the next message ([`PortError::Lost`], [`SendPort::lost`]), who receives by an event
//! ([`PortControl::poll_event`]).

mod connection;
mod error;
mod events;
mod fault;
mod incoming;
mod local;
mod names;
mod options;
mod outgoing;
mod port_type;
mod ports;
mod receive_port;
mod receiver;
mod send_port;
#[cfg(test)]
mod tests;
mod upcalls;
mod wire;

use egret_stream::{FromWire, Schema, Wire};

pub use error::{PortEnd, PortError, PortRefusal, ReceiverId, SenderId};
pub use events::PortEvent;
pub use incoming::Incoming;
pub use options::ReceiveOptions;
pub use outgoing::Outgoing;
pub use port_type::PortType;
pub use receive_port::{PortControl, ReceivePort, Received, UpcallPort};
pub use send_port::SendPort;
pub use upcalls::PortUpcall;

use crate::node::NodeHandle;
use crate::pool::NodeError;
use ports::{NodePorts, PortNames};
use receiver::{PortReceiver, UpcallBody};

/// Bytes of the longest message of an unreliable port.
pub const DATAGRAM_MAX: usize = crate::am::MEDIUM_MAX;
/// Bytes of the longest name of a port.
pub const NAME_MAX: usize = 200;

/// Whether a fabric of the node gives what a type requires.
fn suits(node: &NodeHandle, port_type: &PortType) -> Result<(), PortError> {
    let unsupported = |why: NodeError| PortError::Unsupported { missing: vec![why.to_string()] };
    node.can(&port_type.requirement).map_err(unsupported)
}

impl NodeHandle {
    /// Makes a port that sends values of one type. It is connected to nothing yet.
    ///
    /// # Errors
    ///
    /// If no fabric of the node gives what the type asks for.
    pub fn send_port<T: Wire>(&self, port_type: &PortType) -> Result<SendPort<T>, PortError> {
        let port = NodePorts::of(self).next_sender();
        SendPort::open(self, port_type, SenderId { node: self.id(), port })
    }

    /// Makes a port whose messages the program takes when it wants them. [`port`](crate::port) has an example.
    ///
    /// # Errors
    ///
    /// If the node has a receive port of this name, the name is longer than [`NAME_MAX`], or the registry does not answer.
    #[track_caller]
    pub fn receive_port<T: for<'a> FromWire<'a>>(
        &self,
        options: impl Into<ReceiveOptions>,
        port_type: &PortType,
    ) -> Result<ReceivePort<T>, PortError> {
        self.open_port::<T>(options.into(), port_type, None).map(ReceivePort::new)
    }

    /// Makes a port that calls `upcall` with each value, one at a time unless the
    /// [type](PortType::concurrent_upcalls) says otherwise. An upcall may wait, call, connect and send. One that panics ends the connection of its
    /// message, whose sender is told.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// use egret_net::rt::Deadline;
    /// use egret_node::port::PortType;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let lines = PortType::many_to_one();
    /// let (tell, told) = mpsc::channel();
    /// let log = pool[0].receive_port_with("log", &lines, move |line: String, from| {
    ///     let _ = tell.send((from.origin().node.rank, line));
    /// })?;
    /// let mut port = pool[1].send_port::<String>(&lines)?;
    /// port.connect("log", Deadline::DEFAULT)?;
    /// port.send(&"it rains".to_owned())?;
    /// assert_eq!(told.recv_timeout(Duration::from_secs(10))?, (1, "it rains".to_owned()));
    /// # drop(log);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`receive_port`](Self::receive_port).
    #[track_caller]
    pub fn receive_port_with<T: for<'a> FromWire<'a> + 'static>(
        &self,
        options: impl Into<ReceiveOptions>,
        port_type: &PortType,
        upcall: impl Fn(T, &mut PortUpcall<'_>) + Send + Sync + 'static,
    ) -> Result<UpcallPort, PortError> {
        let upcalls = upcalls::with_values(upcall);
        let control = self.open_port::<T>(options.into(), port_type, Some(upcalls))?;
        Ok(UpcallPort { control })
    }

    /// Makes a port that calls `upcall` with each message, which is read piece by piece while the rest of it still arrives.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// use egret_net::rt::Deadline;
    /// use egret_node::port::PortType;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let rows = PortType::many_to_one();
    /// let (tell, told) = mpsc::channel();
    /// let sums = pool[0].receive_port_streaming::<()>("rows", &rows, move |message| {
    ///     let mut row = [0.0_f64; 100];
    ///     let sum = message.read_into(&mut row).map(|len| row[..len].iter().sum::<f64>());
    ///     let _ = tell.send(sum);
    /// })?;
    /// let mut port = pool[1].send_port::<()>(&rows)?;
    /// port.connect("rows", Deadline::DEFAULT)?;
    /// let mut message = port.message();
    /// message.write_slice(&[0.5; 100])?;
    /// message.finish()?;
    /// assert_eq!(told.recv_timeout(Duration::from_secs(10))??, 50.0);
    /// # drop(sums);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`receive_port`](Self::receive_port).
    #[track_caller]
    pub fn receive_port_streaming<T: Wire>(
        &self,
        options: impl Into<ReceiveOptions>,
        port_type: &PortType,
        upcall: impl Fn(&mut Incoming<'_>) + Send + Sync + 'static,
    ) -> Result<UpcallPort, PortError> {
        let upcalls = upcalls::with_messages(upcall);
        let control = self.open_port::<T>(options.into(), port_type, Some(upcalls))?;
        Ok(UpcallPort { control })
    }

    #[track_caller]
    fn open_port<T: Wire>(
        &self,
        options: ReceiveOptions,
        port_type: &PortType,
        upcalls: Option<UpcallBody>,
    ) -> Result<PortControl, PortError> {
        send_port::check_name(&options.name)?;
        suits(self, port_type)?;
        let receiver = PortReceiver::open(self, options, port_type, Schema::of::<T>(), upcalls)?;
        // Closed, if the names cannot be bound.
        let control = PortControl { receiver };
        let receiver = &control.receiver;
        PortNames::add(receiver.waited, &receiver.id.name);
        NodePorts::of(self).add(receiver);
        names::bind(self, &receiver.id, receiver.number)?;
        Ok(control)
    }
}
