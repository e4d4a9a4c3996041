//! A home and a visitor, each in its process, that hand buffers to each other as
//! fast as they can.
//!
//! They meet over a socket by naming descriptors, which the other opens by way
//! of `/proc`. Whoever has a buffer finds in each of its words what the one
//! before it said it would.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::{EACH, LARGE, REGION, SMALL, pool};
use crate::buf::{Buf, LendError, Pool};
use crate::fabric::shm::cooperating::lent::{BufferTicket, LentBuffers};
use crate::fabric::shm::cooperating::received::ReceivedBuffers;
use crate::fabric::shm::cooperating::returns::{LENT_MAX, SlotPlace, bytes};
use crate::fabric::shm::fault::step;
use crate::fabric::shm::foreign::ForeignMemory;
use crate::fabric::shm::memory::{LINE, OwnMemory};
use crate::fabric::shm::records::{RingReceiver, RingSender, Scratch};

/// More than there are buffers, so there is always room.
const LINES: usize = 256;
/// How far a process is in the ring of the other.
const CONSUMED: usize = LINES * LINE;
const RETURNS: usize = CONSUMED + LINE;

/// Numbers, and what to decide by chance.
#[derive(Debug, Clone, Copy)]
pub(in crate::fabric::shm::tests) struct Chance(pub(in crate::fabric::shm::tests) u64);

impl Chance {
    pub(in crate::fabric::shm::tests) fn below(&mut self, end: u64) -> u64 {
        // An xorshift: any seed but zero does.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// One process's end of the two rings.
struct Rings {
    own: OwnMemory,
    foreign: ForeignMemory,
    out: RingSender,
    into: RingReceiver,
    scratch: Scratch,
}

impl Rings {
    fn new(own: OwnMemory, foreign: ForeignMemory) -> Self {
        let (own_again, seen) = (own.clone(), foreign.clone());
        let out = RingSender::new(own_again, 0, LINES, seen, CONSUMED as u64).unwrap();
        let (own_again, seen) = (own.clone(), foreign.clone());
        let into = RingReceiver::new(seen, 0, LINES as u64, own_again, CONSUMED).unwrap();
        Self { own, foreign, out, into, scratch: Scratch::new() }
    }

    fn tell(&mut self, BufferTicket { place, len }: BufferTicket, content: u64) {
        step();
        let words = [place.encode(), len, content];
        self.out.send(0, &[bytemuck::bytes_of(&words)]).unwrap();
        step();
    }

    fn hear(&mut self) -> Option<(BufferTicket, u64)> {
        let (_, payload) = self.into.take(&mut self.scratch).unwrap()?;
        let [place, len, content]: [u64; 3] = bytemuck::pod_read_unaligned(payload);
        step();
        Some((BufferTicket { place: SlotPlace::decode(place).unwrap(), len }, content))
    }
}

fn own() -> OwnMemory {
    OwnMemory::new(RETURNS + bytes(LENT_MAX)).unwrap()
}

/// A buffer, and what is in each of its words.
type Filled = (Buf, u64);

fn fill(mut buf: Buf, content: u64) -> Filled {
    buf.bytes_mut().as_chunks_mut().0.fill(content.to_ne_bytes());
    (buf, content)
}

fn verify((buf, content): &Filled) {
    let words = buf.bytes().as_chunks().0;
    assert!(words.iter().all(|word| *word == content.to_ne_bytes()), "another wrote it");
}

/// The process with the pool.
pub(super) struct Home {
    pub(super) pool: Pool,
    pub(super) loans: LentBuffers,
    rings: Rings,
    mine: Vec<Filled>,
    chance: Chance,
}

impl Home {
    /// Meets the visitor with number `pid`; `process` is its pidfd.
    pub(super) fn meet(mut socket: UnixStream, pid: u32, process: OwnedFd, chance: Chance) -> Self {
        let (pool, own) = (pool(), own());
        let any = pool.take(1).unwrap();
        let (fd, plan) = LentBuffers::announcement(&any).unwrap();
        let fds = [own.fd().as_raw_fd(), fd.as_raw_fd()].map(|fd| fd.unsigned_abs().into());
        say(&mut socket, &fds);
        say(&mut socket, &[plan.len() as u64]);
        say(&mut socket, &plan);
        let [theirs] = listen(&mut socket);
        let foreign = ForeignMemory::map(open(pid, theirs, false), own.len() as u64).unwrap();
        // The visitor waits until its memory is open here.
        say(&mut socket, &[0]);
        let loans = LentBuffers::new(process, foreign.clone(), RETURNS as u64).unwrap();
        drop(any);
        Self { pool, loans, rings: Rings::new(own, foreign), mine: Vec::new(), chance }
    }

    /// How many were lent in it.
    pub(super) fn turn(&mut self) -> u64 {
        self.loans.poll();
        self.hear();
        let len = if self.chance.below(2) == 0 { SMALL } else { LARGE };
        let content = self.chance.below(u64::MAX);
        if let Ok(buf) = self.pool.take(len) {
            self.mine.push(fill(buf, content));
        }
        let surplus = self.mine.len().saturating_sub(2);
        for _ in 0..surplus {
            let at = self.chance.below(self.mine.len() as u64);
            let filled = self.mine.swap_remove(usize::try_from(at).unwrap());
            verify(&filled);
            match self.loans.lend(REGION, filled.0) {
                Ok(ticket) => self.rings.tell(ticket, filled.1),
                // One that dies while it leaves has left.
                Err((buf, why)) => {
                    assert_eq!(why, LendError::Gone);
                    self.mine.push((buf, filled.1));
                }
            }
        }
        surplus as u64
    }

    /// Takes what was handed back.
    fn hear(&mut self) {
        while let Some((ticket, content)) = self.rings.hear() {
            let back = (self.loans.came_back(ticket).unwrap(), content);
            verify(&back);
            if self.chance.below(2) == 0 {
                self.mine.push(back);
            }
        }
    }

    /// The visitor is dead: takes home what it had, and keeps nothing.
    pub(super) fn mourn(mut self) -> Pool {
        self.hear();
        self.loans.poll();
        assert!(self.loans.owner_gone(), "the kernel said so");
        assert_eq!((self.loans.count(), self.loans.ignored()), (0, 0));
        self.mine.iter().for_each(verify);
        self.pool
    }
}

/// The process without.
pub(super) struct Visitor {
    pub(super) visiting: ReceivedBuffers,
    rings: Rings,
    held: Vec<Filled>,
    chance: Chance,
    /// The home's region, by the kernel's number.
    pub(super) file: u64,
}

impl Visitor {
    /// Meets the home with number `pid`.
    pub(super) fn meet(mut socket: UnixStream, pid: u32, chance: Chance) -> Self {
        let [ring, region] = listen(&mut socket);
        let [words] = listen(&mut socket);
        let mut plan = vec![0; usize::try_from(words).unwrap() * 8];
        socket.read_exact(&mut plan).unwrap();
        let plan: Vec<u64> =
            plan.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let own = own();
        let foreign = ForeignMemory::map(open(pid, ring, false), own.len() as u64).unwrap();
        let mut visiting = ReceivedBuffers::new(own.clone(), RETURNS, || ());
        let region = open(pid, region, true);
        let file = rustix::fs::fstat(&region).unwrap().st_ino;
        visiting.announced(REGION, &region, &plan, 1 << 20).unwrap();
        say(&mut socket, &[own.fd().as_raw_fd().unsigned_abs().into()]);
        let [_] = listen(&mut socket);
        Self { visiting, rings: Rings::new(own, foreign), held: Vec::new(), chance, file }
    }

    /// How many came in it.
    pub(super) fn turn(&mut self) -> u64 {
        let came = self.rings.hear();
        if let Some((ticket, content)) = came {
            let came = (self.visiting.arrived(ticket).unwrap(), content);
            verify(&came);
            self.held.push(fill(came.0, !content));
        }
        if self.held.len() as u64 > self.chance.below(2 * EACH as u64) {
            let at = self.chance.below(self.held.len() as u64);
            let (buf, content) = self.held.swap_remove(usize::try_from(at).unwrap());
            self.part_with(buf, content);
        }
        came.is_some().into()
    }

    fn part_with(&mut self, buf: Buf, content: u64) {
        let filled = (buf, content);
        verify(&filled);
        match self.chance.below(4) {
            0 => drop(filled),
            1 => {
                let shared = filled.0.share();
                drop((shared.clone(), shared));
            }
            _ => {
                let ticket = self.visiting.give_back(filled.0).unwrap();
                self.rings.tell(ticket, content);
            }
        }
    }

    /// The home is dead: what is here is still here.
    pub(super) fn mourn(mut self) {
        while let Some((ticket, content)) = self.rings.hear() {
            self.held.push((self.visiting.arrived(ticket).unwrap(), content));
        }
        let Self { visiting, rings, held, .. } = self;
        held.iter().for_each(verify);
        drop((visiting, rings.own, rings.foreign));
        held.iter().for_each(verify);
        let refilled: Vec<Filled> = held.into_iter().map(|(buf, word)| fill(buf, !word)).collect();
        refilled.iter().for_each(verify);
    }
}

fn say(socket: &mut UnixStream, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    socket.write_all(&bytes).unwrap();
}

fn listen<const N: usize>(socket: &mut UnixStream) -> [u64; N] {
    std::array::from_fn(|_| {
        let mut word = [0; 8];
        socket.read_exact(&mut word).unwrap();
        u64::from_ne_bytes(word)
    })
}

/// A descriptor of another process.
fn open(pid: u32, fd: u64, write: bool) -> OwnedFd {
    let file = OpenOptions::new().read(true).write(write).open(format!("/proc/{pid}/fd/{fd}"));
    file.map(|file: File| OwnedFd::from(file)).unwrap()
}
