//! One side of a connection under measurement.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use egret::buf::Pool;
use egret::fabric::Fabrics;
use egret::rt::{self, Deadline};
use egret::vi::{
    Access, Address, Completion, Descriptor, Exposed, Handed, Nic, RemoteKey, RemoteSlice, Vi,
    ViOptions,
};
use serde::{Deserialize, Serialize};

/// How memory is sent and received: the thesis's variants.
///
/// What a mode is stands in the matches of this file; the rest of the
/// benchmarks asks about it through [`is_remote`](Self::is_remote) and
/// [`is_pulled`](Self::is_pulled).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Mode {
    /// Pool buffers posted on both sides (Javia-II)
    Posted,
    /// A slice sent from a copy (Javia-I, send-copy)
    Copy,
    /// A slice sent from where it lies (Javia-I, send-pin)
    Pinned,
    /// Received into memory made on arrival (Javia-I, alloc)
    Fresh,
    /// Read out of the peer's exposed memory
    Read,
    /// Written into the peer's exposed memory, which hears of it
    Write,
    /// A pool buffer given to the peer, which gives it back
    Handover,
    /// An eager message: copied on its way in and out, nothing posted
    Eager,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Posted => "posted",
            Self::Copy => "copy",
            Self::Pinned => "pinned",
            Self::Fresh => "fresh",
            Self::Read => "read",
            Self::Write => "write",
            Self::Handover => "handover",
            Self::Eager => "eager",
        }
    }

    /// Whether it goes by keys, to or from exposed memory.
    const fn is_remote(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Whether the side that measures fetches, and the other only has it ready.
    pub(crate) const fn is_pulled(self) -> bool {
        matches!(self, Self::Read)
    }

    /// Messages that may be under way at once, of as many as there are buffers; a
    /// blocking call has one.
    const fn window(self, buffers: usize) -> u64 {
        match self {
            Self::Copy | Self::Pinned | Self::Handover => 1,
            Self::Posted | Self::Fresh | Self::Read | Self::Write | Self::Eager => buffers as u64,
        }
    }

    /// Buffers to send for messages of so many bytes. Where they are `counted`, not
    /// weighed: enough to fill a write with, and the time until one comes back. Otherwise
    /// no more than stay in a cache.
    pub(crate) const fn many(self, counted: bool, bytes: usize) -> usize {
        match self {
            Self::Posted | Self::Fresh if counted => MANY,
            _ if bytes > IN_CACHE / WINDOW => FEW,
            _ => WINDOW,
        }
    }
}

/// Polls of a side that has nothing more to do.
const LAST_POLLS: usize = 32;

/// A connection with what one side needs to send and receive in its mode.
#[derive(Debug)]
pub(crate) struct BenchConnection {
    pub(crate) vi: Vi,
    pub(crate) mode: Mode,
    /// Of a message that is sent.
    bytes: usize,
    /// Of one that comes.
    pub(crate) taken: usize,
    /// Messages to send, and receives posted, at once.
    window: usize,
    /// What to send with, those that are under way not among them.
    pub(crate) spare: Vec<Descriptor>,
    /// The next send.
    ready: Option<Descriptor>,
    /// What was received into, to be posted again.
    again: Option<Descriptor>,
    /// What a slice send borrows.
    pub(crate) slice: Vec<u8>,
    /// What the peer may read and write, taken in turn.
    exposed: Vec<Exposed>,
    /// The same of the peer.
    remote: Vec<RemoteKey>,
    /// What was read out of the peer's memory, and not yet looked at.
    pub(crate) fetched: VecDeque<Descriptor>,
    /// The buffer that goes from hand to hand, if it is here.
    held: Option<Handed>,
    /// The last eager message that was drained.
    pub(crate) came: u64,
}

/// Bytes of each message, seen from one side. They differ in [`Mode::Posted`] alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) sent: usize,
    pub(crate) taken: usize,
}

impl Sizes {
    /// Seen from the other side.
    pub(crate) const fn turned(self) -> Self {
        Self { sent: self.taken, taken: self.sent }
    }
}

/// Two connected sides on one fabric of this process.
pub(crate) fn connected(
    fabric: &str,
    mode: Mode,
    bytes: usize,
) -> Result<(BenchConnection, BenchConnection)> {
    let fabrics = Fabrics::default();
    let (a, b) = (fabrics.open(fabric, "here")?, fabrics.open(fabric, "there")?);
    let options = ViOptions::default();
    let listener = b.listen("bench", 0, &options)?;
    let connecting = a.connect(&Address::new("there", "bench", 0), &options, PATIENCE);
    let there = listener.wait_accept(PATIENCE)?;
    let here = a.block_on(connecting)?;
    let pool = Pool::new(bytes.max(1), 2 * buffers(WINDOW))?;
    let sizes = Sizes { sent: bytes, taken: bytes };
    let mut here = BenchConnection::new(here, mode, &pool, sizes, WINDOW)?;
    let mut there = BenchConnection::new(there, mode, &pool, sizes, WINDOW)?;
    (here.remote, there.remote) = (there.keys().collect(), here.keys().collect());
    here.post_receives(&pool)?;
    there.post_receives(&pool)?;
    Ok((here, there))
}

impl BenchConnection {
    /// One side of a connection to another process; the two sides send each other their keys.
    pub(crate) fn exchange_keys(
        vi: Vi,
        mode: Mode,
        pool: &Pool,
        sizes: Sizes,
        window: usize,
    ) -> Result<Self> {
        let mut side = Self::new(vi, mode, pool, sizes, window)?;
        if mode.is_remote() {
            let mine: Vec<u8> = side.keys().flat_map(RemoteKey::to_bytes).collect();
            side.vi.post_recv(Descriptor::new(vec![0_u8; mine.len()]))?;
            side.vi.post_send(Descriptor::new(mine))?;
            let theirs = side.vi.recv_queue().wait(PATIENCE)?.ok()?.into_vec::<u8>();
            drop(side.vi.send_queue().wait(PATIENCE)?.ok()?);
            let keys = theirs.as_chunks::<{ RemoteKey::BYTES }>().0;
            side.remote = keys.iter().map(RemoteKey::from_bytes).collect();
        }
        side.post_receives(pool)?;
        Ok(side)
    }

    fn new(vi: Vi, mode: Mode, pool: &Pool, sizes: Sizes, window: usize) -> Result<Self> {
        let Sizes { sent: bytes, taken } = sizes;
        let expose = |_| -> Result<Exposed> {
            Ok(vi.nic().expose(pool.take(bytes)?, Access::READ | Access::WRITE)?)
        };
        let slots = if mode.is_remote() { SLOTS } else { 0 };
        let exposed = (0..slots).map(expose).collect::<Result<_>>()?;
        let spare = (0..window).map(|_| Ok(Descriptor::new(pool.take(bytes)?)));
        let spare = spare.collect::<Result<_>>()?;
        let (slice, fetched) = (vec![0; bytes], VecDeque::new());
        let remote = Vec::new();
        let (ready, again, held, came) = (None, None, None, 0);
        Ok(Self {
            vi,
            mode,
            bytes,
            taken,
            window,
            spare,
            ready,
            again,
            slice,
            exposed,
            remote,
            fetched,
            held,
            came,
        })
    }

    fn keys(&self) -> impl Iterator<Item = RemoteKey> {
        self.exposed.iter().map(Exposed::key)
    }

    fn post_receives(&self, pool: &Pool) -> Result<()> {
        if self.mode == Mode::Eager {
            return Ok(());
        }
        for _ in 0..self.window {
            let receive = match self.mode {
                Mode::Fresh => Descriptor::fresh(self.bytes as u64),
                Mode::Handover => Descriptor::handed(self.bytes as u64),
                Mode::Write | Mode::Read => Descriptor::empty(),
                Mode::Posted | Mode::Copy | Mode::Pinned | Mode::Eager => {
                    Descriptor::new(pool.take(self.taken)?)
                }
            };
            self.vi.post_recv(receive)?;
        }
        Ok(())
    }

    /// Waits until everything sent has arrived.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while self.vi.send_queue().outstanding() > 0 {
            let sent = self.vi.send_queue().wait(PATIENCE)?.ok()?;
            self.keep(sent);
        }
        // The other side waits to hear that what it sent is here; a network says so
        // when its nic is driven.
        for _ in 0..LAST_POLLS {
            self.vi.nic().poll();
        }
        Ok(())
    }

    /// Ends a run: both sides have everything that they sent to the other.
    ///
    /// A remote write is complete when its target says so, and the target says it
    /// while it drives its nic. So neither side leaves before the other is done.
    pub(crate) fn part(&mut self) -> Result<()> {
        self.settle()?;
        if self.mode.is_remote() {
            self.tell(END)?;
            self.receive(END)?;
            self.settle()?;
        }
        acknowledge(self.vi.nic());
        Ok(())
    }

    /// Takes back what was sent, if it had memory.
    pub(crate) fn keep(&mut self, sent: Completion) {
        if sent.descriptor().segments().next().is_some() {
            self.spare.push(sent.into_descriptor());
        }
    }

    /// Messages that may be under way at once.
    pub(crate) const fn window(&self) -> u64 {
        self.mode.window(self.window)
    }

    /// Whether the peer takes part: a remote read is over without it.
    pub(crate) const fn needs_answer(&self) -> bool {
        !self.mode.is_pulled()
    }

    /// Where a round's bytes lie in the exposed memory of either side.
    const fn slot(round: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "less than the slots")]
        let slot = (round % SLOTS as u64) as usize;
        slot
    }

    pub(crate) fn remote(&self, round: u64) -> RemoteSlice {
        self.remote[Self::slot(round)].at(0)
    }

    /// Writes every byte of the next message, or of what the peer will read.
    pub(crate) fn rewrite(&mut self, round: u64) -> Result<()> {
        match self.mode {
            Mode::Copy | Mode::Pinned | Mode::Eager => fill(&mut self.slice, round),
            Mode::Read => {
                fill(&mut self.slice, round);
                self.exposed[Self::slot(round)].write_at(0, &self.slice);
            }
            Mode::Handover => {
                if self.held.is_none() {
                    let spare = self.spare.pop().expect("one for the first round");
                    let only = spare.into_segments().next().expect("a pool buffer");
                    self.held = Some(Handed::Buffer(only.into_buf().expect("a pool buffer")));
                }
                fill(self.held.as_mut().expect("set just now"), round);
            }
            Mode::Posted | Mode::Fresh | Mode::Write => {
                let mut descriptor = self.take_spare()?;
                fill(descriptor.bytes_mut().expect("memory of a pool"), round);
                self.ready = Some(descriptor);
            }
        }
        Ok(())
    }

    /// Makes the answer to a message. What is handed back is not written anew, but
    /// for its ends.
    pub(crate) fn answer(&mut self, round: u64) -> Result<()> {
        match &mut self.held {
            Some(held) if self.mode == Mode::Handover => {
                let last = held.len() - 1;
                (held[0], held[last]) = (mark(round + 1), mark(round + 1));
                Ok(())
            }
            _ => self.rewrite(round),
        }
    }

    /// Something that is not under way, waiting for it to come back if need be:
    /// what is hottest in the cache, the one that came back last.
    pub(crate) fn take_spare(&mut self) -> Result<Descriptor> {
        while self.spare.is_empty() {
            // A message that has no memory leaves none.
            let sent = self.vi.send_queue().wait(PATIENCE)?.ok()?;
            self.keep(sent);
            while let Some(sent) = self.vi.send_queue().poll() {
                self.keep(sent.ok()?);
            }
        }
        Ok(self.spare.pop().expect("one at least"))
    }

    /// Sends what was rewritten.
    pub(crate) fn send(&mut self, round: u64) -> Result<()> {
        match self.mode {
            Mode::Eager => self.send_eager(round)?,
            Mode::Copy => self.vi.send_copy(&self.slice, round, PATIENCE)?,
            Mode::Pinned => self.vi.send_pinned(&self.slice, round, PATIENCE)?,
            Mode::Posted | Mode::Fresh => {
                let descriptor = self.descriptor().with_tag(round);
                self.vi.post_send(descriptor)?;
            }
            Mode::Write => {
                let descriptor = self.descriptor().with_tag(round);
                self.vi.post_write_notify(descriptor, self.remote(round))?;
            }
            Mode::Read => self.fetch(round)?,
            Mode::Handover => {
                let held = self.held.take().expect("rewritten before it is sent");
                let buf = held.into_buf().map_err(|_| anyhow!("it was copied"))?;
                self.vi.hand_over(buf, round)?;
                while let Some(sent) = self.vi.send_queue().poll() {
                    sent.done()?;
                }
            }
        }
        Ok(())
    }

    fn descriptor(&mut self) -> Descriptor {
        self.ready.take().expect("rewritten before it is sent")
    }

    /// Receives a message, looks at it, and posts its memory again.
    pub(crate) fn receive(&mut self, round: u64) -> Result<()> {
        self.take(round)?;
        self.repost()
    }

    /// Receives a message and looks at it. Others are posted: who is waited for
    /// answers first, and then [posts](Self::repost) its memory again.
    pub(crate) fn take(&mut self, round: u64) -> Result<()> {
        if self.mode == Mode::Eager {
            return self.drain(round);
        }
        let got = self.vi.recv_queue().wait(PATIENCE)?;
        self.take_in(got, round)
    }

    pub(crate) fn repost(&mut self) -> Result<()> {
        if let Some(again) = self.again.take() {
            self.vi.post_recv(again)?;
        }
        Ok(())
    }

    /// Receives a message if one is there; whether it was.
    pub(crate) fn try_receive(&mut self, round: u64) -> Result<bool> {
        let Some(got) = self.vi.recv_queue().poll() else { return Ok(false) };
        self.take_in(got, round)?;
        self.repost()?;
        Ok(true)
    }

    pub(crate) fn take_in(&mut self, got: Completion, round: u64) -> Result<()> {
        let got = got.ok()?;
        ensure!(got.tag == round, "message {} came, {round} was due", got.tag);
        let again = match self.mode {
            Mode::Write if round == END => got.into_descriptor(),
            Mode::Write => {
                let (exposed, mut ends) = (&self.exposed[Self::slot(round)], [0; 2]);
                exposed.read_at(0, &mut ends[..1]);
                exposed.read_at(self.bytes - 1, &mut ends[1..]);
                ensure!(ends == [mark(round); 2], "a message arrived damaged");
                got.into_descriptor()
            }
            Mode::Handover => {
                let held = got.into_handed();
                // As the leader made it, or what the other side made of that.
                let is_answer = held.first() == Some(&mark(round + 1));
                self.check(&held, if is_answer { round + 1 } else { round })?;
                self.held = Some(held);
                Descriptor::handed(self.bytes as u64)
            }
            Mode::Fresh => {
                self.check(&got.into_vec::<u8>(), round)?;
                Descriptor::fresh(self.bytes as u64)
            }
            // A word between the sides, see `pull`.
            Mode::Read => got.into_descriptor(),
            Mode::Posted | Mode::Copy | Mode::Pinned | Mode::Eager => {
                self.check(got.bytes(), round)?;
                got.into_descriptor()
            }
        };
        self.again = Some(again);
        Ok(())
    }

    pub(crate) fn check(&self, bytes: &[u8], round: u64) -> Result<()> {
        ensure!(bytes.len() == self.taken, "{} bytes came, {} were sent", bytes.len(), self.taken);
        let ends = [bytes.first(), bytes.last()];
        let right = ends.iter().flatten().all(|end| **end == mark(round));
        ensure!(right, "a message arrived damaged");
        Ok(())
    }
}

/// Drives the nic until it has acknowledged what it has received. A network acknowledges
/// with the next message, or when there is nothing else to do.
pub(crate) fn acknowledge(nic: &Nic) {
    let until = rt::now() + ACKNOWLEDGED;
    let mut polls = 0;
    while polls < POLLS || rt::now() < until {
        polls += 1;
        nic.wait(nic.poll(), Some(until));
    }
}

pub(crate) fn fill(bytes: &mut [u8], round: u64) {
    bytes.fill(mark(round));
}

/// What every byte of a round's message is.
pub(crate) const fn mark(round: u64) -> u8 {
    (round % 251) as u8
}

/// No round: there is nothing more to come.
pub(crate) const END: u64 = 0;
/// Messages under way, and receives posted, on each side.
const WINDOW: usize = 16;
/// Exposed buffers of a side. A write may begin before the receive that will
/// tell of it is posted, so the buffer it goes to is one more than those that
/// are still to be looked at.
const SLOTS: usize = WINDOW + 1;
/// After this, and so many looks, there was nothing else to do.
const ACKNOWLEDGED: Duration = Duration::from_millis(1);
const POLLS: u32 = 64;
/// The same where messages are counted.
const MANY: usize = 256;
/// And where they are large.
const FEW: usize = 2;
const IN_CACHE: usize = 4 << 20;

/// What a side takes from its pool: to send, and to receive or to expose.
pub(crate) const fn buffers(window: usize) -> usize {
    if window > SLOTS { 2 * window } else { window + SLOTS }
}

pub(crate) const PATIENCE: Deadline = Deadline::In(Duration::from_secs(10));
