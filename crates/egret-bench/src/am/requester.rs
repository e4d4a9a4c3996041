//! Active messages between two processes: the one that sends requests.

use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::limit::Stopwatch;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use egret::am::{Call, CallReply, Endpoint, EndpointName, Message, MessageError, RemoteEndpoint};
use egret::buf::{Buf, Pool};
use egret::fabric::Fabrics;
use egret::link::Links;
use egret::rt::{self, GivenBack};
use egret::vi::{Nic, NicOptions};

use super::served::{
    DATA, ECHO, ECHO_BYTES, MARK, NAME, REQUESTS, ROOM, RequestMeasure, RequestServer, RequestTask,
    SETTLE, TAKE, marked,
};
use crate::links;
use crate::measure::{Probe, Sample};
use crate::peer::{FollowerProcess, PeerStation};
use crate::side::{PATIENCE, fill};

/// The one that sends requests, and the station of the one that serves.
#[derive(Debug)]
pub(crate) struct RequestSender {
    requester: Requester,
    station: PeerStation,
}

impl RequestSender {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, task: RequestTask) -> Result<Self> {
        let station = peer.open(&REQUESTS, &task, &[])?;
        let requester = station.run(0, || Requester::far(task, &station.host))?;
        Ok(Self { requester, station })
    }
}

impl Probe for RequestSender {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.station.run(rounds, || self.requester.run(rounds))
    }
}

/// The one that sends requests.
#[derive(Debug)]
pub(crate) struct Requester {
    task: RequestTask,
    remote: RemoteEndpoint,
    _mine: Endpoint,
    /// The one that serves, if it is in this process.
    beside: Option<OneThreadRequests>,
    round: u64,
    /// What to send, those that are under way not among them.
    spare: Vec<Buf>,
    calls: VecDeque<Call>,
}

impl Requester {
    /// Sends to another process, which is at `host`.
    fn far(task: RequestTask, host: &str) -> Result<Self> {
        let nic = NicOptions::new(&format!("{}-asks", task.host)).wait(task.wait.of_nic());
        let nic = Fabrics::default().open(&task.fabric, nic)?;
        let mine = links::open(nic)?.bundle().endpoint(0);
        let remote = mine.wait_map(&EndpointName::new(host, NAME, 0), PATIENCE)?;
        let requester = Self::new(task, remote, mine, None)?;
        requester.settle()?;
        Ok(requester)
    }

    /// Sends to this process, on one thread.
    pub(crate) fn near(task: RequestTask) -> Result<Self> {
        let fabrics = Fabrics::default();
        let nic = fabrics.open(&task.fabric, "asks")?;
        let (here, there) =
            (links::open(nic.clone())?, links::open(fabrics.open(&task.fabric, "serves")?)?);
        let mine = here.bundle().endpoint(0);
        let to = EndpointName::new(there.host(), NAME, 0);
        let beside = OneThreadRequests { nic, here, served: RequestServer::over(there, &task)? };
        let remote = beside.run(mine.map(&to, &[], PATIENCE))??;
        Self::new(task, remote, mine, Some(beside))
    }

    fn new(
        task: RequestTask,
        remote: RemoteEndpoint,
        mine: Endpoint,
        beside: Option<OneThreadRequests>,
    ) -> Result<Self> {
        let mut spare = Vec::new();
        if task.bytes > 0 {
            let pool = Pool::builder().class(task.bytes, task.window).shareable().build()?;
            let bufs = (0..task.window).map(|_| Ok(pool.take(task.bytes)?));
            spare = bufs.collect::<Result<_>>()?;
        }
        Ok(Self { task, remote, _mine: mine, beside, round: 0, spare, calls: VecDeque::new() })
    }

    /// One at a time; the words are rewritten before the clock starts.
    fn requests(&mut self, rounds: u64) -> Result<Sample> {
        let mut times = Vec::with_capacity(usize::try_from(rounds)?);
        let mut words = vec![0; self.task.words];
        for _ in 0..rounds {
            self.round += 1;
            words.fill(self.round);
            let start = Stopwatch::start();
            let reply = self.call(Message::to(ECHO).words(&words))?;
            ensure!(reply.words() == words, "an answer arrived damaged");
            times.push(start.nanos());
        }
        self.settle()?;
        Ok(Sample::Times(times))
    }

    /// As many as the window lets through, until the other side has them all.
    fn one_way(&mut self, rounds: u64) -> Result<Sample> {
        let mut words = vec![0; self.task.words];
        let start = rt::now();
        for _ in 0..rounds {
            self.round += 1;
            words.fill(self.round);
            self.send(Message::to(TAKE).words(&words))?;
        }
        self.settle()?;
        Ok(Sample::Total(rt::now() - start))
    }

    /// As many at once as there are buffers, rewritten before each send, until the
    /// other side has them all.
    fn data(&mut self, rounds: u64) -> Result<Sample> {
        let start = rt::now();
        for _ in 0..rounds {
            let mut buf = match self.spare.pop() {
                Some(buf) => buf,
                None => self.wait_back()?,
            };
            self.round += 1;
            fill(buf.bytes_mut(), self.round);
            let call = self.transfer(Message::to(DATA).data(buf))?;
            self.calls.push_back(call);
        }
        while !self.calls.is_empty() {
            let buf = self.wait_back()?;
            self.spare.push(buf);
        }
        let took = rt::now() - start;
        self.settle()?;
        Ok(Sample::Total(took))
    }

    /// Requests one at a time, while as much data is under way as there are buffers.
    fn medium(&mut self, rounds: u64) -> Result<Sample> {
        let mut times = Vec::with_capacity(usize::try_from(rounds)?);
        let (began, first) = (rt::now(), self.round);
        let mut bytes = vec![0; self.task.copied];
        for number in 0..rounds {
            self.stream()?;
            fill(&mut bytes, number);
            let start = Stopwatch::start();
            let reply = self.call(Message::to(ECHO_BYTES).bytes(&bytes))?;
            times.push(start.nanos());
            ensure!(reply.bytes() == bytes, "an answer arrived damaged");
        }
        while !self.calls.is_empty() {
            let buf = self.wait_back()?;
            self.spare.push(buf);
        }
        let streamed = (self.round - first) * self.task.bytes as u64;
        let mb_s = streamed as f64 * 1e3 / (rt::now() - began).as_nanos() as f64;
        self.settle()?;
        Ok(if streamed > 0 { Sample::Streamed(times, mb_s) } else { Sample::Times(times) })
    }

    /// One at a time, each answered by a word of it.
    fn marked(&mut self, rounds: u64) -> Result<Sample> {
        let mut times = Vec::with_capacity(usize::try_from(rounds)?);
        let (mut bytes, mut words) = (vec![0; self.task.copied], vec![0; self.task.words]);
        for number in 0..rounds {
            fill(&mut bytes, number);
            words.fill(number);
            let start = Stopwatch::start();
            let reply = self.call(Message::to(MARK).words(&words).bytes(&bytes))?;
            times.push(start.nanos());
            let sent = marked(&words, &bytes);
            ensure!(reply.words() == [sent], "an answer arrived damaged");
        }
        self.settle()?;
        Ok(Sample::Times(times))
    }

    /// Sends with the buffers that are free, without waiting for any.
    fn stream(&mut self) -> Result<()> {
        while let Some(reply) = self.calls.front_mut().and_then(Call::poll_reply) {
            self.calls.pop_front();
            self.spare.push(sent_back(reply?)?);
        }
        while let Some(mut buf) = self.spare.pop() {
            fill(buf.bytes_mut(), self.round + 1);
            match self.remote.try_transfer(Message::to(DATA).data(buf)) {
                Ok(call) => self.calls.push_back(call),
                Err(GivenBack { why: MessageError::Full { .. }, what: message }) => {
                    let unsent = message.into_segments().pop().context("it had data")?;
                    self.spare.push(unsent.into_buf().map_err(|_| anyhow!("it was a buffer"))?);
                    return Ok(());
                }
                Err(unsent) => return Err(unsent.why.into()),
            }
            self.round += 1;
        }
        Ok(())
    }

    /// Sends data. Memory is free before a handler has run, and then there may be no room.
    fn transfer(&self, mut message: Message<'_>) -> Result<Call> {
        loop {
            match self.remote.try_transfer(message) {
                Ok(call) => return Ok(call),
                Err(GivenBack { why: MessageError::Full { .. }, what: unsent }) => message = unsent,
                Err(unsent) => return Err(unsent.why.into()),
            }
            match &self.beside {
                // Which waits for room itself.
                None => drop(self.remote.wait_call(ROOM, PATIENCE)?),
                Some(beside) => beside.step(),
            }
        }
    }

    /// Waits for the oldest message that is under way; its buffer.
    fn wait_back(&mut self) -> Result<Buf> {
        let call = self.calls.pop_front().context("nothing is under way")?;
        sent_back(match &self.beside {
            None => call.wait(PATIENCE)?,
            Some(beside) => beside.run(call)??,
        })
    }

    /// Says that the run is over, when all of it has come: short messages overtake data.
    fn settle(&self) -> Result<()> {
        let until = PATIENCE.until_from(rt::now());
        loop {
            let reply = self.call((SETTLE, &[self.round]).into())?;
            let [came] = reply.words() else { bail!("an answer without its number") };
            if *came == self.round {
                break;
            }
            let is_late = until.is_some_and(|until| rt::now() >= until);
            ensure!(*came < self.round && !is_late, "{came} messages came of {}", self.round);
        }
        self.beside.as_ref().map_or(Ok(()), |beside| beside.served.check())
    }

    #[inline]
    fn call(&self, message: Message<'_>) -> Result<CallReply> {
        let Some(beside) = &self.beside else {
            return Ok(self.remote.wait_call(message, PATIENCE)?);
        };
        let call = self.remote.try_request(message).map_err(|unsent| unsent.why)?;
        Ok(beside.run(call)??)
    }

    #[inline]
    fn send(&self, message: Message<'_>) -> Result<()> {
        let Some(beside) = &self.beside else {
            return Ok(self.remote.wait_send(message, PATIENCE)?);
        };
        let mut message = message;
        loop {
            match self.remote.try_send(message) {
                Ok(()) => return Ok(()),
                Err(GivenBack { why: MessageError::Full { .. }, what: unsent }) => message = unsent,
                Err(unsent) => return Err(unsent.why.into()),
            }
            beside.step();
        }
    }
}

impl Probe for Requester {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        match self.task.what {
            RequestMeasure::Requests => self.requests(rounds),
            RequestMeasure::OneWay => self.one_way(rounds),
            RequestMeasure::Data => self.data(rounds),
            RequestMeasure::Medium => self.medium(rounds),
            RequestMeasure::Marked => self.marked(rounds),
        }
    }
}

/// Both on one thread, of a fabric that never sleeps.
#[derive(Debug)]
struct OneThreadRequests {
    nic: Nic,
    here: Links,
    served: RequestServer,
}

impl OneThreadRequests {
    /// Lets both do what they can, and the network what is due.
    fn step(&self) {
        let seen = self.nic.poll();
        self.here.poll();
        self.served.links.poll();
        let next = [self.here.next_event(), self.served.links.next_event()];
        let soon = self.nic.now() + SOON;
        self.nic.wait(seen, next.into_iter().flatten().chain([soon]).min());
    }

    fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        let mut future = pin!(future);
        let until = PATIENCE.until_from(rt::now());
        loop {
            let context = &mut Context::from_waker(Waker::noop());
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Ok(output);
            }
            self.step();
            ensure!(until.is_none_or(|until| rt::now() < until), "no answer for too long");
        }
    }
}

/// The buffer that was sent.
fn sent_back(mut reply: CallReply) -> Result<Buf> {
    let sent = reply.take_sent().context("what was sent did not come back")?;
    sent.into_buf().map_err(|_| anyhow!("what came back is no buffer"))
}

/// How far a simulated clock goes on if nothing is due.
const SOON: Duration = Duration::from_millis(1);
