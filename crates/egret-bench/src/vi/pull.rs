//! Remote reads between two processes: the leader fetches, the follower has the
//! memory ready.
//!
//! The leader asks for a round with an empty message that has its number; the
//! follower rewrites the round's memory and answers with the same. Then it waits
//! for the next question, and while it waits its nic executes the read.

use crate::limit::Stopwatch;
use anyhow::{Context, Result};
use egret::rt;
use egret::vi::{Completion, Descriptor, OpKind};

use crate::measure::Sample;
use crate::side::{BenchConnection, PATIENCE};

/// One at a time: the clock runs from the post of a read to its completion.
pub(crate) fn one_by_one(
    side: &mut BenchConnection,
    rounds: impl Iterator<Item = u64>,
) -> Result<Sample> {
    let mut times = Vec::new();
    for round in rounds {
        side.tell(round)?;
        side.receive(round)?;
        let start = Stopwatch::start();
        side.fetch(round)?;
        times.push(start.nanos());
    }
    side.part()?;
    Ok(Sample::Times(times))
}

/// Asks for as many as the window holds, and fetches each as it is ready. The
/// follower's rewriting is part of it, as the sender's is in the other modes.
pub(crate) fn streamed(side: &mut BenchConnection, first: u64, last: u64) -> Result<Sample> {
    let start = rt::now();
    let (mut asked, mut begun, mut ended) = (first - 1, first - 1, first - 1);
    while ended < last {
        while asked < last && asked - ended < side.window() {
            asked += 1;
            side.tell(asked)?;
        }
        let is_ready = match (begun == asked, begun == ended) {
            (true, _) => false,
            (false, true) => side.receive(begun + 1).map(|()| true)?,
            (false, false) => side.try_receive(begun + 1)?,
        };
        if is_ready {
            begun += 1;
            side.begin_fetch(begun)?;
        } else {
            ended += 1;
            side.end_fetch(ended)?;
        }
    }
    let took = rt::now() - start;
    side.part()?;
    Ok(Sample::Total(took))
}

/// The follower's half of both.
pub(crate) fn have_ready(
    side: &mut BenchConnection,
    rounds: impl Iterator<Item = u64>,
) -> Result<()> {
    for round in rounds {
        side.receive(round)?;
        side.rewrite(round)?;
        side.tell(round)?;
    }
    side.part()
}

impl BenchConnection {
    /// An empty message that says `round`.
    pub(crate) fn tell(&mut self, round: u64) -> Result<()> {
        while let Some(done) = self.vi.send_queue().poll() {
            self.sort(done)?;
        }
        self.vi.post_send(Descriptor::empty().with_tag(round))?;
        Ok(())
    }

    /// Reads a round's bytes out of the peer's memory.
    pub(crate) fn fetch(&mut self, round: u64) -> Result<()> {
        self.begin_fetch(round)?;
        self.end_fetch(round)
    }

    fn begin_fetch(&mut self, round: u64) -> Result<()> {
        let descriptor = self.spare.pop().context("no more reads than buffers")?;
        self.vi.post_read(descriptor, self.remote(round))?;
        Ok(())
    }

    fn end_fetch(&mut self, round: u64) -> Result<()> {
        let fetched = loop {
            if let Some(fetched) = self.fetched.pop_front() {
                break fetched;
            }
            let done = self.vi.send_queue().wait(PATIENCE)?;
            self.sort(done)?;
        };
        self.check(fetched.bytes(), round)?;
        self.spare.push(fetched);
        Ok(())
    }

    /// Keeps what was read apart from what was sent.
    fn sort(&mut self, done: Completion) -> Result<()> {
        let done = done.ok()?;
        match done.op {
            OpKind::Read => self.fetched.push_back(done.into_descriptor()),
            _ => self.keep(done),
        }
        Ok(())
    }
}
