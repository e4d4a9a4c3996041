//! The end of a connection that a fuzzer's peer writes to: it posts and cancels, and
//! must neither panic nor keep a buffer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::buf::{Buf, Pool};
use crate::rt::{self, Instant, Runtime, SplitMix64};
use crate::vi::{Access, Descriptor, DirectPlacement, Exposed, Lane, Nic, Position, Ticket, Vi};

/// What is left of an input.
pub(in crate::fabric) struct Input<'a>(pub(in crate::fabric) &'a [u8]);

/// The end that is written to.
pub(in crate::fabric) struct Victim<'a> {
    nic: &'a Nic,
    pool: &'a Pool,
    vi: Vi,
    exposed: [Exposed; 2],
    tickets: Vec<Ticket>,
    /// Of each lane, how far it was written and how far that has arrived.
    lanes: [[Position; 2]; 2],
}

pub(in crate::fabric) const BUFFER: usize = 64;
pub(in crate::fabric) const BUFFERS: usize = 32;

/// Memory for one victim after the other.
pub(in crate::fabric) fn pool() -> Pool {
    Pool::new(BUFFER, BUFFERS).expect("memory")
}

/// Where messages land that are longer than their receives.
#[derive(Debug)]
pub(in crate::fabric) struct Ground {
    pub pool: Pool,
    /// Bytes of one of its buffers.
    pub most: usize,
}

impl DirectPlacement for Ground {
    fn land(&self, len: u64, _tag: u64) -> Result<Buf, &'static str> {
        let len = usize::try_from(len).map_err(|_| "more than there is memory")?;
        self.pool.take(len.min(self.most)).map_err(|_| "no buffer is left")
    }
}

impl<'a> Victim<'a> {
    pub(in crate::fabric) fn new(
        nic: &'a Nic,
        pool: &'a Pool,
        vi: Vi,
        input: &mut Input<'_>,
    ) -> Self {
        let exposed = [Access::READ, Access::READ_WRITE].map(|access| {
            let buf = pool.take(BUFFER).expect("all are back");
            nic.expose(buf, access).expect("it is small")
        });
        let lanes = Default::default();
        let mut victim = Self { nic, pool, vi, exposed, tickets: Vec::new(), lanes };
        for _ in 0..4 {
            victim.post(0, input);
        }
        victim
    }

    /// A word: a byte below 128 is the word itself, one below 192 picks a key or one that is
    /// `known` to matter, and any other is followed by the eight bytes.
    pub(in crate::fabric) fn word(&self, known: &[u64], input: &mut Input<'_>) -> u64 {
        let small = input.byte();
        match small {
            0..128 => small.into(),
            128..192 => match usize::from(small) % (2 + known.len()) {
                key @ 0..2 => self.exposed[key].key().secret(),
                at => known[at - 2],
            },
            _ => u64::from_le_bytes(input.array()),
        }
    }

    /// Posts what may be posted; the connection may be over.
    pub(in crate::fabric) fn post(&mut self, what: u8, input: &mut Input<'_>) {
        while self.vi.recv_queue().poll().is_some() || self.vi.send_queue().poll().is_some() {}
        let Ok(buf) = self.pool.take(BUFFER) else { return };
        let descriptor = Descriptor::new(buf);
        let theirs = self.exposed[1].key().at(u64::from(input.byte()));
        let posted = match what % 5 {
            0 => self.vi.post_recv(descriptor),
            1 => self.vi.post_send(descriptor),
            2 => self.vi.post_read(descriptor, theirs),
            3 => self.vi.post_write(descriptor, theirs),
            _ => self.vi.post_write_notify(descriptor, theirs),
        };
        self.tickets.extend(posted);
    }

    /// Sends an eager message, or asks for what has arrived: positions grow, and what was not sent
    /// does not arrive.
    pub(in crate::fabric) fn send_eager(&mut self, what: u8) {
        let lane = Lane::ALL[usize::from(what % 2)];
        let [written, arrived] = &mut self.lanes[lane as usize];
        if let Ok(position) = self.vi.send_eager(lane, 7, &[&[what; 40]]) {
            let before = *written.max(arrived);
            assert!(position > before, "{position:?} is sent, {before:?} was or has arrived");
            *written = position;
        }
        let now = self.vi.arrived(lane);
        assert!(now >= *arrived, "{now:?} has arrived, and {arrived:?} before");
        *arrived = now;
    }

    /// Takes the eager messages that are there, and answers some.
    pub(in crate::fabric) fn drain(&self, what: u8) {
        self.vi.drain().poll(1 + usize::from(what % 8), |reply, tag, bytes| {
            if what >= 128 {
                _ = reply.send(Lane::ALL[usize::from(what % 2)], tag, &[bytes]);
            }
        });
    }

    pub(in crate::fabric) fn cancel(&self, index: u8) {
        self.tickets.get(usize::from(index)).map(|ticket| self.vi.cancel(*ticket));
    }

    pub(in crate::fabric) fn poll(&self) {
        self.nic.poll();
    }

    /// Until it has looked at everything, which takes so many polls.
    pub(in crate::fabric) fn look(&self, polls: usize) {
        (0..polls).for_each(|_| self.poll());
    }

    /// Ends it: everything must be back.
    pub(in crate::fabric) fn end(self) {
        let Self { nic, pool, vi, exposed, .. } = self;
        let queues = [vi.recv_queue().clone(), vi.send_queue().clone()];
        nic.poll();
        drop((vi, exposed));
        nic.poll();
        for queue in queues {
            while queue.poll().is_some() {}
            assert_eq!(queue.outstanding(), 0, "everything has completed");
        }
        assert_eq!(pool.available(BUFFER), BUFFERS, "all buffers are back");
    }
}

/// A world for inputs: its clock stands unless it is moved, its random numbers are the same for each
/// input, and neither takes a system call. The clock goes on from one input to the next, as a nic
/// that plays several has to see it.
#[derive(Debug, Default)]
pub(in crate::fabric) struct Still {
    now: AtomicU64,
    drawn: AtomicU64,
}

impl Still {
    /// Enters it, for one input.
    pub(in crate::fabric) fn begin(self: &Arc<Self>) -> rt::EnteredRuntime {
        self.drawn.store(0, Relaxed);
        self.pass(Duration::from_secs(1));
        rt::enter(Arc::<Self>::clone(self))
    }

    /// Time passes.
    pub(in crate::fabric) fn pass(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).expect("a while");
        self.now.fetch_add(nanos, Relaxed);
    }
}

impl Runtime for Still {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.load(Relaxed))
    }

    fn park(&self, _until: Option<Instant>) {
        self.pass(Duration::from_millis(1));
    }

    /// Numbers that differ in all bytes.
    fn random(&self) -> u64 {
        SplitMix64(self.drawn.fetch_add(SplitMix64::STEP, Relaxed)).next()
    }
}

impl<'a> Input<'a> {
    /// The next byte; zero at the end.
    pub(in crate::fabric) fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    pub(in crate::fabric) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub(in crate::fabric) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
