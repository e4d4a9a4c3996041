//! A message, as its receiver reads it: whole, or while the rest of it still arrives.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use egret_net::buf::{Plain, Typed};
use egret_net::rt::Deadline;
use egret_net::sync::Mutex;
use egret_stream::graph::{Graph, Object};
use egret_stream::{Bulk, FromWire, Names, ReadPlan, Reader, WireError};

use super::local::{LocalPipeEnd, LocalPipeReader};
use super::receiver::{ArrivalKind, Arrived};
use super::{PortError, SenderId};
use crate::am::KeptMessage;
use crate::channel::{ChannelError, MessageReader, Part};
use crate::links::clock::DeadlineClock;
use crate::node::NodeHandle;

/// A message that is being received, which is read in the pieces in which it was written
/// ([`Outgoing`](super::Outgoing), which has an example). The rest of it may still be on its way.
///
/// What is not read of a message that is dropped is skipped.
pub struct Incoming<'p> {
    sender: SenderId,
    sequence: u64,
    plan: ReadPlan,
    source: Rc<RefCell<IncomingSource<'p>>>,
    reader: Reader<'p>,
    /// Where the names of the connection are put back, if the reader has them.
    names: Option<Arc<Mutex<Option<Names>>>>,
}

/// Where the bytes of a message come from.
struct IncomingSource<'p> {
    body: IncomingBody<'p>,
    node: NodeHandle,
    /// How long each part may take.
    deadline: Deadline,
    /// Why no more bytes come, but for the end.
    why: Option<PortError>,
    sender: SenderId,
}

enum IncomingBody<'p> {
    Short(KeptMessage, usize),
    Bytes(Vec<u8>, usize),
    /// Parts of a channel: the one that is being read, and how much of it was.
    Parts(MessageReader<'p>, Option<(Part, usize)>, Deadline),
    Pipe(LocalPipeReader),
    /// There is none: its sender was lost before it began.
    Lost,
}

impl<'p> Incoming<'p> {
    /// Begins to read what has arrived.
    pub(super) fn begin(arrived: &'p mut Arrived, deadline: Deadline) -> Result<Self, PortError> {
        let (sender, sequence) = (arrived.sender, arrived.sequence);
        let node = arrived.receiver.node.clone();
        let Some(what) = arrived.what.take() else {
            return Err(PortError::Aborted { origin: sender });
        };
        let mut plan = ReadPlan::default();
        let mut names = None;
        if let Some(reader) = &arrived.reader {
            plan = reader.plan.clone();
            if let ArrivalKind::Short(_) = &what {
                names = Some(Arc::clone(&reader.names));
            }
        }
        let body = match what {
            ArrivalKind::Short(kept) | ArrivalKind::Explained(kept) => IncomingBody::Short(kept, 0),
            ArrivalKind::Local(message) => IncomingBody::Bytes(message.bytes, 0),
            ArrivalKind::Datagram { bytes, .. } => IncomingBody::Bytes(bytes, 0),
            ArrivalKind::LocalStream(pipe) => IncomingBody::Pipe(pipe),
            ArrivalKind::Streamed(kept) => {
                drop(kept);
                let timed_out = |waited| {
                    let port = arrived.receiver.id.name.clone();
                    Err(PortError::TimedOut { port, waited })
                };
                match arrived.reader.as_mut().map(|reader| reader.begin_message(deadline)) {
                    Some(Ok(Some(mut message))) => match message.wait_next_part(deadline) {
                        Ok(Some(part)) => IncomingBody::Parts(message, Some((part, 0)), deadline),
                        Err(ChannelError::ReadTimedOut { waited }) => return timed_out(waited),
                        // An empty one stands in the place of one that was given up before anything left.
                        _ => IncomingBody::Lost,
                    },
                    Some(Err(ChannelError::InHandler)) => return Err(PortError::InHandler),
                    Some(Err(ChannelError::ReadTimedOut { waited })) => return timed_out(waited),
                    _ => IncomingBody::Lost,
                }
            }
            ArrivalKind::Names(_) | ArrivalKind::End(_) => IncomingBody::Lost,
        };
        if matches!(body, IncomingBody::Lost) {
            return Err(PortError::Aborted { origin: sender });
        }
        let source = IncomingSource { body, node, deadline, why: None, sender };
        let source = Rc::new(RefCell::new(source));
        let pulled = Rc::clone(&source);
        let reader = Reader::pulling(move |to: &mut [u8]| pulled.borrow_mut().fill(to));
        let known = names.as_ref().and_then(|names| names.lock().take());
        let reader = reader.with_names(known.unwrap_or_else(Names::until_acknowledged));
        Ok(Self { sender, sequence, plan, source, reader, names })
    }

    /// Who sent the message.
    #[must_use]
    pub const fn origin(&self) -> SenderId {
        self.sender
    }

    /// The number of the message among those of its connection, from 1. Of an unreliable port it is the number that the
    /// sender has given the message, so a gap says how many were lost.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many bytes of the message were read.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.reader.position()
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// If the next piece is no such value, the sender gave the message up, or the deadline passed.
    pub fn read<T: for<'a> FromWire<'a>>(&mut self) -> Result<T, PortError> {
        let read = self.reader.read();
        read.map_err(|why| self.failed(why))
    }

    /// Reads a value of the type of the port, also if the sender has another version of it.
    pub(super) fn read_planned<T: for<'a> FromWire<'a>>(&mut self) -> Result<T, PortError> {
        let read = self.reader.read_planned(&self.plan);
        read.map_err(|why| self.failed(why))
    }

    /// Reads a slice into the front of `to`, without another copy of it on the way if it is long, and returns how many elements it
    /// has.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), or if there are more elements than `to` has room for.
    pub fn read_into<T: Bulk>(&mut self, to: &mut [T]) -> Result<usize, PortError> {
        let read = self.reader.read_into(to);
        read.map_err(|why| self.failed(why))
    }

    /// Reads a slice as a buffer. A long one that its sender wrote as one piece is not copied: it stays in the buffer that it
    /// arrived in.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), or if there is no memory for the buffer.
    pub fn array<T: Bulk + Plain>(&mut self) -> Result<Typed<T>, PortError> {
        let begun = self.reader.begin_list::<T>();
        let len = begun.map_err(|why| self.failed(why))?;
        let bytes = len.saturating_mul(size_of::<T>());
        let taken = match self.reader.left() {
            0 => self.source.borrow_mut().take_part(bytes)?,
            _ => None,
        };
        if let Some(part) = taken {
            self.reader.passed(bytes);
            return part.into_typed().map_err(|why| self.no_array(&why));
        }
        let elements = self.reader.rest_of_list::<T>(len);
        let elements = elements.map_err(|why| self.failed(why))?;
        let taken = self.source.borrow().node.links()[0].1.core.depot.take(bytes);
        let typed = taken.map_err(|why| self.no_array(&why))?.typed::<T>();
        let mut typed = typed.map_err(|_| self.no_array(&"a buffer of another size"))?;
        typed.copy_from_slice(&elements);
        Ok(typed)
    }

    fn no_array(&self, why: &dyn fmt::Display) -> PortError {
        unreadable(self.sender, WireError::Custom(why.to_string()))
    }

    /// Reads a graph, which stays in the buffer that it arrived in, and is checked once.
    ///
    /// # Errors
    ///
    /// As [`array`](Self::array), or if the bytes are no such graph.
    pub fn graph<R: Object>(&mut self) -> Result<Graph<R>, PortError> {
        let words = self.array::<u64>()?;
        let graph = Graph::from_buf(words.into_buf());
        graph.map_err(|refused| unreadable(self.sender, WireError::Custom(refused.why.to_string())))
    }

    /// Reads what is left of the message, as the bytes they are.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_to_end(&mut self, to: &mut Vec<u8>) -> Result<(), PortError> {
        let read = self.reader.read_to_end(to);
        read.map_err(|why| self.failed(why))
    }

    /// Sees that nothing is left to be read.
    pub(super) fn ends_here(&mut self) -> Result<(), PortError> {
        let over = self.reader.is_over();
        match over.map_err(|why| self.failed(why))? {
            true => Ok(()),
            false => Err(unreadable(self.sender, WireError::Rest(self.reader.left()))),
        }
    }

    fn failed(&self, why: WireError) -> PortError {
        match &self.source.borrow().why {
            Some(of_source) => of_source.clone(),
            _ => unreadable(self.sender, why),
        }
    }
}

impl IncomingSource<'_> {
    fn fill(&mut self, to: &mut [u8]) -> Result<usize, String> {
        if let Some(why) = &self.why {
            return Err(why.to_string());
        }
        let filled = match &mut self.body {
            IncomingBody::Short(kept, at) => Ok(copied(kept.bytes(), at, to)),
            IncomingBody::Bytes(bytes, at) => Ok(copied(bytes, at, to)),
            IncomingBody::Pipe(pipe) => {
                match pipe.read(&self.node, to, &mut DeadlineClock::of(self.deadline)) {
                    Ok(Ok(count)) => Ok(count),
                    Ok(Err(LocalPipeEnd::Whole)) => Ok(0),
                    Ok(Err(LocalPipeEnd::Aborted)) => {
                        Err(PortError::Aborted { origin: self.sender })
                    }
                    Err(stopped) => Err(PortError::of_wait(stopped, "")),
                }
            }
            IncomingBody::Parts(..) => self.fill_of_parts(to),
            IncomingBody::Lost => Ok(0),
        };
        filled.map_err(|why| {
            let said = why.to_string();
            self.why = Some(why);
            said
        })
    }

    fn fill_of_parts(&mut self, to: &mut [u8]) -> Result<usize, PortError> {
        self.wait_part()?;
        let IncomingBody::Parts(_, Some((part, at)), _) = &mut self.body else { return Ok(0) };
        Ok(copied(part.bytes(), at, to))
    }

    /// Waits for a part that has unread bytes, or the end.
    fn wait_part(&mut self) -> Result<(), PortError> {
        let IncomingBody::Parts(message, part, deadline) = &mut self.body else { return Ok(()) };
        while part.as_ref().is_none_or(|(part, at)| *at == part.bytes().len()) {
            match message.wait_next_part(*deadline) {
                Ok(Some(next)) => *part = Some((next, 0)),
                Ok(None) => {
                    *part = None;
                    return Ok(());
                }
                Err(ChannelError::ReadTimedOut { waited }) => {
                    let port = String::new();
                    return Err(PortError::TimedOut { port, waited });
                }
                Err(ChannelError::InHandler) => return Err(PortError::InHandler),
                Err(_) => return Err(PortError::Aborted { origin: self.sender }),
            }
        }
        Ok(())
    }

    /// The next part, if it is just as long as this and nothing of it was read.
    fn take_part(&mut self, bytes: usize) -> Result<Option<Part>, PortError> {
        if let Err(why) = self.wait_part() {
            self.why = Some(why.clone());
            return Err(why);
        }
        let IncomingBody::Parts(_, part, _) = &mut self.body else { return Ok(None) };
        let is_it = part.as_ref().is_some_and(|(part, at)| *at == 0 && part.bytes().len() == bytes);
        Ok(if is_it { part.take().map(|(part, _)| part) } else { None })
    }
}

fn copied(bytes: &[u8], at: &mut usize, to: &mut [u8]) -> usize {
    let count = to.len().min(bytes.len() - *at);
    to[..count].copy_from_slice(&bytes[*at..*at + count]);
    *at += count;
    count
}

pub(super) const fn unreadable(origin: SenderId, why: WireError) -> PortError {
    PortError::Unreadable { origin, why }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if let Some(names) = &self.names {
            *names.lock() = self.reader.take_names();
        }
    }
}

impl fmt::Debug for Incoming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, sequence, .. } = self;
        f.debug_struct("Incoming")
            .field("origin", sender)
            .field("sequence", sequence)
            .finish_non_exhaustive()
    }
}
