//! One side of a connection under measurement.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use egret::net::buf::{Buf, Pool};
use egret::net::fabric::Fabrics;
use egret::net::rt::Deadline;
use egret::net::vi::{Access, Address, Completion, Descriptor, Exposed, RemoteKey, Vi, ViOptions};
use serde::{Deserialize, Serialize};

/// How memory is sent and received: the thesis's variants.
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
        }
    }
}

/// A connection with what one side needs to send and receive in its mode.
#[derive(Debug)]
pub(crate) struct Side {
    vi: Vi,
    mode: Mode,
    bytes: usize,
    /// Buffers to send, those that are under way not among them.
    spare: Vec<Buf>,
    /// The buffer of the next send.
    ready: Option<Buf>,
    /// What a slice send borrows.
    slice: Vec<u8>,
    /// What the peer may read and write.
    exposed: Exposed,
    /// The same of the peer.
    remote: RemoteKey,
    window: u64,
}

/// Two connected sides on one fabric of this process.
pub(crate) fn connected(fabric: &str, mode: Mode, bytes: usize) -> Result<(Side, Side)> {
    let fabrics = Fabrics::default();
    let (a, b) = (fabrics.open(fabric, "here")?, fabrics.open(fabric, "there")?);
    let options = ViOptions::default();
    let listener = b.listen("bench", 0, &options)?;
    let connecting = a.connect(&Address::new("there", "bench", 0), &options, PATIENCE);
    let there = listener.wait_accept(PATIENCE)?;
    let here = a.block_on(connecting)?;
    let pool = Pool::new(bytes, 2 * (2 * WINDOW + 1))?;
    let expose = |vi: &Vi| {
        vi.nic().expose(pool.take(bytes)?, Access::READ | Access::WRITE).map_err(anyhow::Error::new)
    };
    let (mine, theirs) = (expose(&here)?, expose(&there)?);
    let (to_mine, to_theirs) = (mine.key(), theirs.key());
    let here = Side::new(here, mode, &pool, mine, to_theirs)?;
    let there = Side::new(there, mode, &pool, theirs, to_mine)?;
    Ok((here, there))
}

impl Side {
    /// One side of a connection whose other side does the same elsewhere: they
    /// tell each other their keys.
    pub(crate) fn met(vi: Vi, mode: Mode, pool: &Pool) -> Result<Self> {
        let bytes = pool.largest();
        let exposed = vi.nic().expose(pool.take(bytes)?, Access::READ | Access::WRITE)?;
        vi.post_recv(Descriptor::new(vec![0_u8; RemoteKey::BYTES]))?;
        vi.post_send(Descriptor::new(exposed.key().to_bytes().to_vec()))?;
        let theirs = vi.recv_queue().wait(PATIENCE)?.ok()?.into_vec::<u8>();
        drop(vi.send_queue().wait(PATIENCE)?.ok()?);
        let remote = RemoteKey::from_bytes(theirs.as_slice().try_into()?);
        Self::new(vi, mode, pool, exposed, remote)
    }

    /// Waits until everything sent has arrived.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while self.vi.send_queue().outstanding() > 0 {
            let sent = self.vi.send_queue().wait(PATIENCE)?.ok()?;
            self.spare.push(sent.into_buf());
        }
        Ok(())
    }

    fn new(vi: Vi, mode: Mode, pool: &Pool, exposed: Exposed, remote: RemoteKey) -> Result<Self> {
        let bytes = usize::try_from(remote.len())?;
        for _ in 0..WINDOW {
            let receive = match mode {
                Mode::Fresh => Descriptor::fresh(bytes as u64),
                Mode::Write => Descriptor::empty(),
                _ => Descriptor::new(pool.take(bytes)?),
            };
            vi.post_recv(receive)?;
        }
        let spare = (0..WINDOW).map(|_| pool.take(bytes)).collect::<Result<_, _>>()?;
        let window = match mode {
            // A blocking call has one message under way.
            Mode::Copy | Mode::Pinned | Mode::Read | Mode::Write => 1,
            Mode::Posted | Mode::Fresh => WINDOW as u64,
        };
        let slice = vec![0; bytes];
        Ok(Self { vi, mode, bytes, spare, ready: None, slice, exposed, remote, window })
    }

    /// Messages that may be under way at once.
    pub(crate) const fn window(&self) -> u64 {
        self.window
    }

    /// Whether the peer takes part: a remote read is over without it.
    pub(crate) const fn needs_answer(&self) -> bool {
        !matches!(self.mode, Mode::Read)
    }

    /// Writes every byte of the next message, or of what the peer will read.
    pub(crate) fn rewrite(&mut self, round: u64) -> Result<()> {
        match self.mode {
            Mode::Copy | Mode::Pinned => fill(&mut self.slice, round),
            Mode::Read => {
                fill(&mut self.slice, round);
                self.exposed.write_at(0, &self.slice);
            }
            Mode::Posted | Mode::Fresh | Mode::Write => {
                let mut buf = self.spare_buf()?;
                fill(buf.bytes_mut(), round);
                self.ready = Some(buf);
            }
        }
        Ok(())
    }

    /// A buffer that is not under way, waiting for one to come back if need be.
    fn spare_buf(&mut self) -> Result<Buf> {
        while let Some(sent) = self.vi.send_queue().poll() {
            self.spare.push(sent.ok()?.into_buf());
        }
        if self.spare.is_empty() {
            self.spare.push(self.vi.send_queue().wait(PATIENCE)?.ok()?.into_buf());
        }
        Ok(self.spare.swap_remove(0))
    }

    /// Sends what was rewritten.
    pub(crate) fn send(&mut self, round: u64) -> Result<()> {
        match self.mode {
            Mode::Copy => self.vi.send_copy(&self.slice, round, PATIENCE)?,
            Mode::Pinned => self.vi.send_pinned(&self.slice, round, PATIENCE)?,
            Mode::Posted | Mode::Fresh => {
                let descriptor = self.descriptor().with_tag(round);
                self.vi.post_send(descriptor)?;
            }
            Mode::Write => {
                let descriptor = self.descriptor().with_tag(round);
                self.vi.post_write_notify(descriptor, self.remote.at(0))?;
            }
            Mode::Read => {
                let descriptor = Descriptor::new(self.spare_buf()?);
                self.vi.post_read(descriptor, self.remote.at(0))?;
                let buf = self.vi.send_queue().wait(PATIENCE)?.ok()?.into_buf();
                self.check(buf.bytes(), round)?;
                self.spare.push(buf);
            }
        }
        Ok(())
    }

    fn descriptor(&mut self) -> Descriptor {
        Descriptor::new(self.ready.take().expect("rewritten before it is sent"))
    }

    /// Receives a message, looks at it, and posts its memory again.
    pub(crate) fn receive(&mut self, round: u64) -> Result<()> {
        let got = self.vi.recv_queue().wait(PATIENCE)?.ok()?;
        ensure!(got.tag == round, "message {} came, {round} was due", got.tag);
        let again = match self.mode {
            Mode::Write => {
                let mut ends = [0; 2];
                self.exposed.read_at(0, &mut ends[..1]);
                self.exposed.read_at(self.bytes - 1, &mut ends[1..]);
                ensure!(ends == [mark(round); 2], "a message arrived damaged");
                got.descriptor
            }
            Mode::Fresh => {
                self.check(&got.into_vec::<u8>(), round)?;
                Descriptor::fresh(self.bytes as u64)
            }
            _ => {
                let got = Completion::into_buf(got);
                self.check(got.bytes(), round)?;
                Descriptor::new(got)
            }
        };
        self.vi.post_recv(again)?;
        Ok(())
    }

    fn check(&self, bytes: &[u8], round: u64) -> Result<()> {
        ensure!(bytes.len() == self.bytes, "{} bytes came, {} were sent", bytes.len(), self.bytes);
        let ends = [bytes.first(), bytes.last()];
        ensure!(ends == [Some(&mark(round)); 2], "a message arrived damaged");
        Ok(())
    }
}

fn fill(bytes: &mut [u8], round: u64) {
    bytes.fill(mark(round));
}

/// What every byte of a round's message is.
const fn mark(round: u64) -> u8 {
    (round % 251) as u8
}

/// Messages under way, and receives posted, on each side.
pub(crate) const WINDOW: usize = 16;
pub(crate) const PATIENCE: Deadline = Deadline::In(std::time::Duration::from_secs(10));
