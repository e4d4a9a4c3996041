//! `aead`: what the cipher of sealed connections takes, without a connection.
//!
//! A payload is sealed in pieces of 16 KiB, each copied to a buffer first, as a sender must that
//! keeps what it sends, and opened in place.

use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::end::{LimitLink, LimitTime};
use super::ticks::Stopwatch;
use super::wait::WaitLimit;
use super::{LimitError, payload, system};
use egret::rt;
use egret_net::fabric::Alone;

/// One end: its cipher and its memory, and a word to the other end.
#[derive(Debug)]
pub(super) struct Aead {
    flow: AeadFlow,
    cipher: Alone,
    /// What is sealed, or what was sealed and is opened, with the tags.
    private: Vec<u8>,
    tags: Vec<[u8; 16]>,
    /// Where a piece is sealed or opened.
    piece: Vec<u8>,
    stream: UnixStream,
    next: u64,
}

/// What the two ends do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AeadFlow {
    /// One seals a payload and opens it, twice; the other has nothing to do.
    Trip,
    /// One seals, and the other opens at the same time.
    OneWay,
}

/// Bytes that are sealed at once.
const PIECE: usize = 16 << 10;

impl Aead {
    pub(super) fn prepare(
        flow: AeadFlow,
        bytes: usize,
    ) -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (mine, theirs) = UnixStream::pair().map_err(system("a pair of sockets"))?;
        Ok((Self::over(flow, bytes, mine), [theirs.into()]))
    }

    pub(super) fn join(flow: AeadFlow, bytes: usize, fd: OwnedFd) -> Self {
        let mut joined = Self::over(flow, bytes, fd.into());
        let Self { cipher, private, tags, .. } = &mut joined;
        *tags = private.chunks_mut(PIECE).map(|piece| cipher.seal(piece)).collect();
        joined
    }

    fn over(flow: AeadFlow, bytes: usize, stream: UnixStream) -> Self {
        let (private, piece) = (vec![1; bytes], vec![0; bytes.min(PIECE)]);
        Self { flow, cipher: Alone::default(), private, tags: Vec::new(), piece, stream, next: 1 }
    }

    /// Seals the payload, and passes on what each piece has become.
    fn seal(&mut self, mut sealed: impl FnMut(&Alone, &mut [u8], [u8; 16]) -> bool) -> bool {
        let Self { cipher, private, piece, .. } = self;
        private.chunks(PIECE).all(|from| {
            let to = &mut piece[..from.len()];
            to.copy_from_slice(from);
            let tag = cipher.seal(to);
            sealed(cipher, to, tag)
        })
    }

    /// Opens the payload.
    fn open(&mut self) -> bool {
        let Self { cipher, private, tags, piece, .. } = self;
        private.chunks(PIECE).zip(tags).all(|(from, tag)| {
            let to = &mut piece[..from.len()];
            to.copy_from_slice(from);
            cipher.open(to, tag)
        })
    }

    fn trips(&mut self, rounds: u64) -> Result<LimitTime, LimitError> {
        let mut times = Vec::new();
        for _ in 0..rounds {
            self.next += 1;
            payload::rewrite(&mut self.private, self.next);
            let start = Stopwatch::start();
            let is_open = self.seal(Alone::open_of) && self.seal(Alone::open_of);
            times.push(start.nanos());
            if !is_open {
                return Err(LimitError::Corrupt(self.next));
            }
        }
        Ok(LimitTime::RoundTrips(times))
    }
}

impl Aead {
    fn say(&mut self) -> Result<(), LimitError> {
        self.stream.write_all(&[0]).map_err(system("a word"))
    }

    /// Waits for the word of the other end.
    fn hear(&mut self, patience: &WaitLimit) -> Result<(), LimitError> {
        loop {
            let left = Some(patience.left()?);
            self.stream.set_read_timeout(left).map_err(system("SO_RCVTIMEO"))?;
            match self.stream.read(&mut [0]) {
                Ok(0) => return Err(LimitError::Gone),
                Ok(_) => return Ok(()),
                Err(why) if matches!(why.kind(), WouldBlock | Interrupted) => {}
                Err(why) => return Err(system("a word")(why)),
            }
        }
    }
}

impl LimitLink for Aead {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        self.hear(&patience)?;
        if self.flow == AeadFlow::Trip {
            return self.trips(rounds);
        }
        let start = rt::machine_now();
        self.say()?;
        for _ in 0..rounds {
            self.seal(|_, _, _| true);
        }
        self.hear(&patience)?;
        Ok(LimitTime::OneWay(rt::machine_now() - start))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        self.say()?;
        if self.flow == AeadFlow::Trip {
            return Ok(());
        }
        self.hear(&patience)?;
        for round in 0..rounds {
            if !self.open() {
                return Err(LimitError::Corrupt(round));
            }
        }
        self.say()
    }
}
