//! A message that is sent while it is written.

use std::fmt;
use std::sync::Arc;

use egret_net::rt::Deadline;
use egret_stream::graph::{Graph, Object};
use egret_stream::{Bulk, Names, Wire, WireError, Writer};

use super::connection::{EndedFlag, MessageWay, OutboundConnection};
use super::local::LocalPipeWriter;
use super::{PortEnd, PortError, ReceiverId};
use crate::am::MEDIUM_MAX;
use crate::channel::ChannelError;
use crate::links::clock::DeadlineClock;
use crate::links::core::WaitStopped;
use crate::node::NodeHandle;

/// A message that is written in pieces, and leaves while it is written: values, slices, graphs. What is kept of it at this side
/// is 64 KiB for each receive port. Its receiver reads the same pieces in the same order
/// ([`Incoming`](super::Incoming)). Made by [`SendPort::message`](super::SendPort::message).
///
/// A message that is dropped before it is [finished](Self::finish) is aborted: its receivers are told so, and the next
/// message is not affected.
///
/// ```
/// use egret_net::rt::Deadline;
/// use egret_node::port::PortType;
///
/// let pool = egret_node::local::pool(2)?;
/// let rows = PortType::many_to_one();
/// let mut sink = pool[0].receive_port::<()>("rows", &rows)?;
/// let mut port = pool[1].send_port::<()>(&rows)?;
/// port.connect("rows", Deadline::DEFAULT)?;
///
/// let mut message = port.message();
/// message.write("temperatures")?;
/// message.write_slice(&vec![0.5_f64; 100_000])?; // goes from where it lies
/// let bytes = message.finish()?;
///
/// let mut message = sink.receive_message(Deadline::DEFAULT)?;
/// assert_eq!(message.read::<String>()?, "temperatures");
/// assert_eq!(message.array::<f64>()?.len(), 100_000); // stays where it arrived
/// assert_eq!(message.bytes(), bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a message that is dropped before it is finished is aborted"]
pub struct Outgoing<'p> {
    node: &'p NodeHandle,
    deadline: Deadline,
    stage: OutgoingStage<'p>,
    /// Bytes that were written.
    bytes: usize,
    /// Receive ports that do not get the message.
    lost: Vec<(ReceiverId, PortEnd)>,
    /// Why nothing more can be written.
    broken: Option<PortError>,
}

enum OutgoingStage<'p> {
    /// All of it is here, and may turn out to be short.
    Collected(Vec<u8>, &'p mut [OutboundConnection]),
    /// It leaves.
    Leaves(Vec<LeavingMessage<'p>>),
}

/// A message on its way to one receive port.
struct LeavingMessage<'p> {
    port: ReceiverId,
    ended: Arc<EndedFlag>,
    window: u32,
    way: Option<MessageWay<'p>>,
}

impl<'p> Outgoing<'p> {
    pub(super) const fn new(
        node: &'p NodeHandle,
        connections: &'p mut [OutboundConnection],
        deadline: Deadline,
        lost: Vec<(ReceiverId, PortEnd)>,
    ) -> Self {
        let stage = OutgoingStage::Collected(Vec::new(), connections);
        Self { node, deadline, stage, bytes: 0, lost, broken: None }
    }

    /// A message that cannot be written.
    pub(super) const fn broken(node: &'p NodeHandle, deadline: Deadline, why: PortError) -> Self {
        let stage = OutgoingStage::Leaves(Vec::new());
        Self { node, deadline, stage, bytes: 0, lost: Vec::new(), broken: Some(why) }
    }

    /// Writes a value.
    ///
    /// # Errors
    ///
    /// If the value cannot be written, no receive port takes it in time, or none is left. The message is aborted then.
    pub fn write<T: Wire + ?Sized>(&mut self, value: &T) -> Result<(), PortError> {
        self.usable()?;
        let (at, mut why) = (self.bytes, None);
        let sink = |pieces: &[&[u8]]| {
            let put = pieces.iter().try_for_each(|piece| self.put(piece));
            put.map_err(|cause| {
                let said = cause.to_string();
                why = Some(cause);
                said
            })
        };
        let writer = Writer::flushing(CHUNK, sink).behind(at);
        let mut writer = writer.with_names(Names::until_acknowledged());
        let written = writer.write(value).and_then(|()| writer.finish());
        match (written, why) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some(why)) => Err(self.breaks(why)),
            (Err(why), None) => Err(self.breaks(PortError::Unwritable(why))),
        }
    }

    /// Writes a slice; one of 16 KiB and more goes from where it lies, and this call waits until it has arrived.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_slice<T: Bulk>(&mut self, slice: &[T]) -> Result<(), PortError>
    where
        [T]: Wire,
    {
        self.write(slice)
    }

    /// Writes a graph, as the memory it is.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_graph<R: Object>(&mut self, graph: &mut Graph<R>) -> Result<(), PortError> {
        let message = graph.message();
        let words: Vec<u64>;
        let words = match bytemuck::try_cast_slice(&message) {
            Ok(words) => words,
            Err(_) => {
                let (whole, _) = message.as_chunks::<8>();
                words = whole.iter().map(|word| u64::from_le_bytes(*word)).collect();
                &words
            }
        };
        self.write_slice::<u64>(words)
    }

    /// Sends what was written so far.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn flush(&mut self) -> Result<(), PortError> {
        self.usable()?;
        if self.bytes == 0 {
            return Ok(());
        }
        self.leave_now().map_err(|why| self.breaks(why))?;
        let deadline = self.deadline;
        let OutgoingStage::Leaves(all) = &mut self.stage else { return Ok(()) };
        let mut failed = None;
        for one in all {
            if let Some(MessageWay::Link(writer)) = &mut one.way
                && let Err(why) = writer.wait_flush(deadline)
            {
                failed = failed.or(one.failed(why, &mut self.lost));
            }
        }
        failed.map_or(Ok(()), |why| Err(self.breaks(why)))
    }

    /// Ends the message, and returns how many bytes it has.
    ///
    /// # Errors
    ///
    /// [`PortError::Lost`] names the receive ports that do not get the message; all others get it. Any other error: the message
    /// is aborted.
    pub fn finish(mut self) -> Result<usize, PortError> {
        self.usable()?;
        let deadline = self.deadline;
        match &mut self.stage {
            OutgoingStage::Collected(bytes, connections) => {
                for connection in &**connections {
                    match connection.send_short(self.node, bytes, true, deadline) {
                        Err(PortError::Lost { receivers }) => self.lost.extend(receivers),
                        sent => sent?,
                    }
                }
            }
            OutgoingStage::Leaves(all) => {
                let mut failed = None;
                for one in all {
                    let ended = match one.way.take() {
                        Some(MessageWay::Link(writer)) => writer.wait_finish(deadline),
                        Some(MessageWay::Local(pipe)) => {
                            pipe.finish();
                            Ok(())
                        }
                        None => Ok(()),
                    };
                    if let Err(why) = ended {
                        failed = failed.or(one.failed(why, &mut self.lost));
                    }
                }
                if let Some(why) = failed {
                    return Err(why);
                }
            }
        }
        match std::mem::take(&mut self.lost) {
            none if none.is_empty() => Ok(self.bytes),
            receivers => Err(PortError::Lost { receivers }),
        }
    }

    /// Aborts the message: its receivers are told so, and the next message is not affected.
    pub fn abort(self) {}

    /// How many bytes were written.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn usable(&self) -> Result<(), PortError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn breaks(&mut self, why: PortError) -> PortError {
        self.broken = Some(why.clone());
        if let OutgoingStage::Leaves(all) = &mut self.stage {
            all.iter_mut().for_each(|one| one.way = None);
        }
        why
    }

    /// Writes bytes as they are.
    fn put(&mut self, bytes: &[u8]) -> Result<(), PortError> {
        if let OutgoingStage::Collected(collected, _) = &mut self.stage {
            if collected.len() + bytes.len() <= MEDIUM_MAX {
                collected.extend_from_slice(bytes);
                self.bytes += bytes.len();
                return Ok(());
            }
            self.leave_now()?;
        }
        self.put_on(bytes)?;
        self.bytes += bytes.len();
        Ok(())
    }

    /// From now on what is written leaves.
    pub(super) fn leave_now(&mut self) -> Result<(), PortError> {
        let OutgoingStage::Collected(bytes, connections) = &mut self.stage else { return Ok(()) };
        let (bytes, connections) = (std::mem::take(bytes), std::mem::take(connections));
        let mut all = Vec::with_capacity(connections.len());
        for connection in connections {
            let (port, ended) = (connection.port.clone(), Arc::clone(&connection.ended));
            let window = connection.window;
            match connection.begin_message(self.node, self.deadline) {
                Ok(way) => all.push(LeavingMessage { port, ended, window, way: Some(way) }),
                Err(PortError::Lost { receivers }) => self.lost.extend(receivers),
                Err(why) => return Err(why),
            }
        }
        self.stage = OutgoingStage::Leaves(all);
        self.put_on(&bytes)
    }

    fn put_on(&mut self, bytes: &[u8]) -> Result<(), PortError> {
        let OutgoingStage::Leaves(all) = &mut self.stage else { return Ok(()) };
        let mut is_written = false;
        for one in &mut *all {
            let written = match &mut one.way {
                Some(MessageWay::Link(writer)) => writer.wait_write(bytes, self.deadline),
                Some(MessageWay::Local(pipe)) => {
                    let written = write_local(pipe, self.node, bytes, self.deadline);
                    // Who skips the rest of a message may do so; who is closed has not got it.
                    written.and(match one.ended.is_set() {
                        true => Err(ChannelError::ReaderGone),
                        false => Ok(()),
                    })
                }
                None => continue,
            };
            match written {
                Ok(()) => is_written = true,
                Err(why) => {
                    if let Some(why) = one.failed(why, &mut self.lost) {
                        return Err(why);
                    }
                }
            }
        }
        if is_written {
            return Ok(());
        }
        Err(PortError::Lost { receivers: std::mem::take(&mut self.lost) })
    }
}

impl LeavingMessage<'_> {
    /// The message does not go to this receive port: what that means for all.
    fn failed(
        &mut self,
        why: ChannelError,
        lost: &mut Vec<(ReceiverId, PortEnd)>,
    ) -> Option<PortError> {
        self.way = None;
        let port = self.port.clone();
        match why {
            ChannelError::InHandler => return Some(PortError::InHandler),
            ChannelError::WriteTimedOut { waited, broken: false } => {
                return Some(PortError::NoRoomInTime { port, window: self.window, waited });
            }
            ChannelError::PartTooLarge { .. } | ChannelError::NoMemory { .. } => {
                return Some(PortError::Unwritable(WireError::Custom(why.to_string())));
            }
            ChannelError::ReaderGone => self.ended.set(PortEnd::Closed),
            why => self.ended.set(PortEnd::Link { why: why.to_string() }),
        }
        lost.push((port, self.ended.why()));
        None
    }
}

fn write_local(
    pipe: &LocalPipeWriter,
    node: &NodeHandle,
    bytes: &[u8],
    deadline: Deadline,
) -> Result<(), ChannelError> {
    match pipe.write(node, bytes, &mut DeadlineClock::of(deadline)) {
        Ok(true) => Ok(()),
        // Its receiver skips the rest, as it may.
        Ok(false) => Ok(()),
        Err(WaitStopped::InHandler) => Err(ChannelError::InHandler),
        Err(WaitStopped::TimedOut { waited }) => {
            Err(ChannelError::WriteTimedOut { waited, broken: false })
        }
    }
}

impl fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Bytes that a value is collected to before they leave.
const CHUNK: usize = 16 << 10;
