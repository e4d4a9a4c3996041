//! Graphs that go to one rank, one after the other.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_net::vi::Segment;
use egret_node::channel::{WriteError, Writer};

use super::GraphError;
use super::address::{Address, Open};
use super::bell::{Bell, wait};
use super::fault::{Fault, planted};
use crate::shelf::Shelf;

/// Graphs that go to one rank.
#[derive(Debug)]
pub(super) struct Line {
    address: Address,
    posted: Mutex<VecDeque<Posted>>,
    channel: Shelf<Channel>,
    bell: Arc<Bell>,
    /// Has it pumped.
    waker: Waker,
}

/// Pumps a line when there is more to do, on whichever thread finds so.
struct Pump(Weak<Line>);

/// What a line has of the channel.
#[derive(Debug, Default)]
struct Channel {
    open: Option<Open>,
    task: Option<Task>,
}

/// A graph on its way.
struct Task {
    posted: Posted,
    future: Pin<Box<dyn Future<Output = Carried> + Send>>,
}

/// The channel, if it can be used again, and what became of the graph.
type Carried = (Option<Open>, Result<(), GraphError>);

#[derive(Debug)]
struct Posted {
    /// Nothing, if the channel is only to be opened.
    memory: Option<Arc<Segment>>,
    outcome: Arc<Outcome>,
}

/// What became of a graph, when that is known.
#[derive(Debug, Default)]
pub(super) struct Outcome(Mutex<Option<Result<(), Failed>>>);

/// Why a graph did not go, with its memory.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) why: GraphError,
    pub(super) memory: Option<Arc<Segment>>,
}

impl Line {
    pub(super) fn new(address: Address, bell: &Arc<Bell>) -> Arc<Self> {
        Arc::new_cyclic(|line| {
            let waker = Waker::from(Arc::new(Pump(Weak::clone(line))));
            let channel = Shelf::new(Channel::default(), waker.clone());
            Self { address, posted: Mutex::default(), channel, bell: Arc::clone(bell), waker }
        })
    }

    /// Puts a graph behind those that are to go.
    pub(super) fn post(&self, memory: Option<Segment>) -> Arc<Outcome> {
        let (memory, outcome) = (memory.map(Arc::new), Arc::<Outcome>::default());
        self.posted.lock().push_back(Posted { memory, outcome: Arc::clone(&outcome) });
        outcome
    }

    /// Goes on with what was posted. The bell rings when something of it is over.
    pub(super) fn pump(&self) {
        let Some(mut channel) = self.channel.take() else { return };
        let context = &mut Context::from_waker(&self.waker);
        let mut is_any = false;
        while let Some(mut task) = channel.task.take().or_else(|| self.next(&mut channel.open)) {
            match task.future.as_mut().poll(context) {
                Poll::Ready((open, outcome)) => {
                    channel.open = open;
                    task.over(outcome);
                    is_any = true;
                }
                Poll::Pending => match self.address.still_there() {
                    Err(why) => {
                        task.over(Err(why));
                        is_any = true;
                    }
                    Ok(()) => {
                        channel.task = Some(task);
                        break;
                    }
                },
            }
        }
        drop(channel);
        if is_any {
            Arc::clone(&self.bell).wake();
        }
    }

    /// Sends memory that is lent, after what was posted.
    pub(super) fn wait_send(&self, bytes: &[u8], deadline: Deadline) -> Result<(), GraphError> {
        let (started, until) = (rt::now(), deadline.until());
        loop {
            self.wait_idle(until).ok_or_else(|| self.timed_out(started))??;
            let Some(mut channel) = self.channel.take() else { continue };
            let is_idle = channel.task.is_none();
            let Some(mut open) = channel.open.take_if(|_| is_idle) else { continue };
            let sent = open.send(bytes, left(until));
            let (sent, is_open) = match sent {
                Ok(()) => (Ok(()), true),
                Err(WriteError::TimedOut { broken, .. }) => (Err(self.timed_out(started)), !broken),
                Err(why) => {
                    let is_open = matches!(why, WriteError::TooLarge(_));
                    (Err(self.address.not_written(why, bytes.len() as u64)), is_open)
                }
            };
            channel.open = is_open.then_some(open);
            return sent;
        }
    }

    /// Waits until all that was posted is gone, and there is a channel.
    fn wait_idle(&self, until: Option<Instant>) -> Option<Result<(), GraphError>> {
        let place = self.bell.place();
        let is_idle = self.channel.take().is_some_and(|it| it.open.is_some() && it.task.is_none());
        if is_idle && self.posted.lock().is_empty() {
            return Some(Ok(()));
        }
        let outcome = self.post(None);
        wait(until, |context| {
            place.wait(context);
            self.pump();
            outcome
                .take()
                .map_or(Poll::Pending, |outcome| Poll::Ready(outcome.map_err(|failed| failed.why)))
        })
    }

    pub(super) fn timed_out(&self, started: Instant) -> GraphError {
        let (rank, waited) = (self.address.rank, rt::now() - started);
        let is_open = self.address.is_known.load(Ordering::Relaxed);
        GraphError::SendTimedOut { rank, waited, is_open }
    }

    fn next(&self, open: &mut Option<Open>) -> Option<Task> {
        let mut posted = self.posted.lock();
        let last = if planted(Fault::LastFirst) { posted.pop_back() } else { None };
        let first = last.or_else(|| posted.pop_front())?;
        drop(posted);
        let future = Box::pin(carry(self.address.clone(), open.take(), first.memory.clone()));
        Some(Task { posted: first, future })
    }
}

impl Task {
    /// Tells what became of the graph, with its memory if it did not go.
    fn over(self, outcome: Result<(), GraphError>) {
        let Self { posted: Posted { memory, outcome: told }, future } = self;
        // It has parts of the memory.
        drop(future);
        let memory = memory.filter(|_| !planted(Fault::NotBack));
        told.set(outcome.map_err(|why| Failed { why, memory }));
    }
}

impl Open {
    fn send(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), WriteError> {
        let (len, most) = (bytes.len() as u64, self.bytes_max);
        if len > most {
            return Err(WriteError::TooLarge(egret_node::flow::NeverFits { bytes: len, most }));
        }
        let until = deadline.until();
        match bytes.len() {
            LENT_MIN..=WHOLE_MAX => match self.writer.wait_send_slice(bytes, deadline) {
                // So many send to its node that it never holds as much of one of them.
                Err(WriteError::TooLarge(_)) => wait_parts(&mut self.writer, bytes, until)?,
                sent => return sent,
            },
            ..LENT_MIN => {
                self.writer.wait_send(bytes.to_vec(), deadline).map_err(|not| not.why)?;
            }
            _ => wait_parts(&mut self.writer, bytes, until)?,
        }
        self.writer.wait_arrived(left(until))
    }
}

/// Sends lent memory in parts, behind one that says how many bytes they have.
fn wait_parts(writer: &mut Writer, bytes: &[u8], until: Option<Instant>) -> Result<(), WriteError> {
    let mut message = writer.message();
    message.wait_write(&(bytes.len() as u64).to_le_bytes(), left(until))?;
    for part in bytes.chunks(PART_BYTES) {
        message.wait_write(part, left(until))?;
    }
    message.wait_finish(left(until))
}

/// The same of memory that is kept, without a thread.
async fn parts(writer: &mut Writer, memory: &Arc<Segment>) -> Result<(), WriteError> {
    let len = memory.bytes().len();
    let mut message = writer.message();
    message.write(&(len as u64).to_le_bytes()).await?;
    for start in (0..len).step_by(PART_BYTES) {
        let part = Segment::part_of(memory, start..len.min(start + PART_BYTES));
        message.write_owned(part).await.map_err(|not| not.why)?;
    }
    message.finish().await
}

/// Carries a graph.
async fn carry(to: Address, open: Option<Open>, memory: Option<Arc<Segment>>) -> Carried {
    let mut open = match open {
        Some(open) => open,
        None => match to.open().await {
            Ok(open) => open,
            Err(why) => return (None, Err(why)),
        },
    };
    let Some(memory) = memory else { return (Some(open), Ok(())) };
    let (rank, bytes, most) = (to.rank, memory.len(), open.bytes_max);
    if bytes > most {
        return (Some(open), Err(GraphError::TooLarge { rank, bytes, most }));
    }
    let sent = match memory.bytes().len() {
        len @ ..=WHOLE_MAX => {
            let sent = open.writer.send(Segment::part_of(&memory, 0..len)).await;
            match sent.map_err(|not| not.why) {
                Err(WriteError::TooLarge(_)) => parts(&mut open.writer, &memory).await,
                sent => sent,
            }
        }
        _ => parts(&mut open.writer, &memory).await,
    };
    // Who leaves takes with it what is still under way.
    let sent = match sent {
        Ok(()) => open.writer.arrived().await,
        failed => failed,
    };
    match sent {
        Ok(()) => (Some(open), Ok(())),
        Err(why) => {
            let is_open = matches!(why, WriteError::TooLarge(_)) || planted(Fault::Kept);
            (is_open.then_some(open), Err(to.not_written(why, bytes)))
        }
    }
}

/// What is left until a moment.
fn left(until: Option<Instant>) -> Deadline {
    until.map_or(Deadline::UntilDead, |at| Deadline::In(at.since(rt::now())))
}

impl Wake for Pump {
    fn wake(self: Arc<Self>) {
        if planted(Fault::NotPumped) {
            return;
        }
        self.0.upgrade().into_iter().for_each(|line| line.pump());
    }
}

impl Outcome {
    fn set(&self, outcome: Result<(), Failed>) {
        *self.0.lock() = Some(outcome);
    }

    pub(super) fn take(&self) -> Option<Result<(), Failed>> {
        self.0.lock().take()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("posted", &self.posted).finish_non_exhaustive()
    }
}

/// From so many bytes on, memory that is lent goes from where it lies, as one part.
const LENT_MIN: usize = 16 << 10;
/// More bytes than this go in parts: those of a graph that lands whole are held by its receiver's
/// node, which holds so much for all that others send.
const WHOLE_MAX: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };
/// Bytes of such a part, of which a channel can have several under way.
const PART_BYTES: usize = if cfg!(test) { 16 << 10 } else { 1 << 20 };
