//! A process that hands its buffers to another and gets those of the other, and
//! keeps, drops and hands on what it has, as chance will have it.

use super::super::hand_over::peers::Chance;
use super::{ANY, LARGE, SMALL, home, pool};
use crate::buf::{Buf, Pool};
use crate::fabric::shm::tests::conformance::trusting;
use crate::rt::{Deadline, GivenBack};
use crate::vi::{
    Address, Completion, Descriptor, Handed, Nic, PostError, Trust, Vi, ViError, ViOptions,
};

pub(super) const SERVICE: &str = "players";
const RECEIVES: usize = 8;
const SENDS: usize = 8;
/// More than this is parted with.
const HELD: usize = 5;

pub(super) struct Player {
    pub(super) nic: Nic,
    pub(super) vi: Vi,
    pub(super) pool: Pool,
    held: Vec<Filled>,
    chance: Chance,
    pub(super) got: u64,
}

/// A buffer, and what is in each of its words.
type Filled = (Buf, u64);

impl Player {
    /// The one who connects.
    pub(super) fn calls(name: &str, other: &str, chance: Chance) -> Self {
        let nic = trusting(name, Trust::Cooperating);
        let to = Address::new(other, SERVICE, 0);
        let vi = nic.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT).unwrap();
        Self::new(nic, vi, chance)
    }

    pub(super) fn new(nic: Nic, vi: Vi, chance: Chance) -> Self {
        assert_eq!(vi.trust(), Trust::Cooperating);
        Self { nic, vi, pool: pool(), held: Vec::new(), chance, got: 0 }
    }

    /// Takes what came, and parts with something.
    pub(super) fn turn(&mut self) -> Result<(), ViError> {
        self.nic.poll();
        self.take_all()?;
        while self.vi.recv_queue().outstanding() < RECEIVES {
            self.vi.post_recv(Descriptor::handed(ANY)).map_err(reason)?;
        }
        self.part_with_something()
    }

    fn take_all(&mut self) -> Result<(), ViError> {
        while let Some(sent) = self.vi.send_queue().poll() {
            sent.done()?;
        }
        while let Some(got) = self.vi.recv_queue().poll() {
            self.take(got.ok()?);
        }
        Ok(())
    }

    /// What came is what was sent, and is written over.
    fn take(&mut self, got: Completion) {
        let content = got.tag;
        // One who is about to leave gets copies.
        if let Handed::Buffer(buf) = got.into_handed() {
            verify(&buf, content);
            self.held.push(filled(buf, !content));
        }
        self.got += 1;
    }

    fn part_with_something(&mut self) -> Result<(), ViError> {
        let is_full = self.held.len() > HELD;
        match self.chance.below(4) {
            _ if self.vi.send_queue().outstanding() >= SENDS && !is_full => Ok(()),
            0 if !is_full => {
                let len = if self.chance.below(2) == 0 { SMALL } else { LARGE };
                let content = self.chance.below(u64::MAX);
                match self.pool.take(len) {
                    Ok(buf) => self.hand_over(filled(buf, content)),
                    Err(_) => Ok(()),
                }
            }
            what => match self.any() {
                Some((buf, content)) => {
                    verify(&buf, content);
                    if what == 1 { Ok(()) } else { self.hand_over((buf, content)) }
                }
                None => Ok(()),
            },
        }
    }

    fn any(&mut self) -> Option<Filled> {
        let held = self.held.len() as u64;
        let at = if held == 0 { return None } else { self.chance.below(held) };
        Some(self.held.swap_remove(usize::try_from(at).unwrap()))
    }

    fn hand_over(&mut self, (buf, content): Filled) -> Result<(), ViError> {
        self.vi.hand_over(buf, content).map(drop).map_err(reason)
    }

    /// How many of its own it has not.
    pub(super) fn away(&self) -> usize {
        2 * super::EACH - home(&self.pool)
    }

    /// Keeps nothing, and says what its buffers are.
    pub(super) fn leave(self) -> Pool {
        let Self { nic, vi, pool, held, .. } = self;
        drop((vi, nic));
        // They are its own until they are dropped.
        held.iter().for_each(|(buf, content)| verify(buf, *content));
        pool
    }
}

fn filled(mut buf: Buf, content: u64) -> Filled {
    buf.bytes_mut().as_chunks_mut().0.fill(content.to_ne_bytes());
    (buf, content)
}

fn verify(buf: &Buf, content: u64) {
    let words = buf.bytes().as_chunks().0;
    assert!(words.iter().all(|word| *word == content.to_ne_bytes()), "another wrote it");
}

fn reason(error: GivenBack<Descriptor, PostError>) -> ViError {
    match error.why {
        PostError::Broken(why) => why,
        other => panic!("{other}"),
    }
}
