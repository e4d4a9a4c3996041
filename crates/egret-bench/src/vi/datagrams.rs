//! Messages between two processes that may be lost: what arrives is counted.
//!
//! The follower cannot know by counting that a run is over. The leader ends the run with a message,
//! which it repeats until the follower reports, over the channel between the processes, what
//! arrived before.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use crate::limit::Stopwatch;
use anyhow::{Context, Result};
use egret::rt::{self, Deadline};
use egret::vi::{Completion, Descriptor, ViError};

use super::duo::{Answers, DuoPlan, Followed, Leader};
use crate::measure::{Probe, Sample};
use crate::peer::{Follower, FollowerProcess, PeerFigures, PeerStation, PeerTask};
use crate::side::{BenchConnection, Mode, PATIENCE};

/// A leader in this process, and the station of its follower.
#[derive(Debug)]
pub(crate) struct CountedDatagrams {
    leader: Leader,
    station: PeerStation,
    bytes: usize,
    answers: Answers,
}

impl CountedDatagrams {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, mut plan: DuoPlan) -> Result<Self> {
        let (bytes, answers) = (plan.bytes, plan.answers);
        let station = peer.open(&DATAGRAMS, &plan, &[])?;
        plan.to.clone_from(&station.host);
        let mut leader = Leader::new(plan)?;
        station.run(0, || leader.connect())?;
        Ok(Self { leader, station, bytes, answers })
    }

    /// Both halves of a run; what the follower says about it goes to `told`.
    fn lead(&mut self, rounds: u64, told: &mut PeerFigures) -> Result<Sample> {
        let (numbers, station) = (self.leader.numbers(rounds), &self.station);
        let (last, side) = (*numbers.end(), self.leader.side()?);
        if self.answers == Answers::Never {
            let start = rt::now();
            for round in numbers {
                side.rewrite(round)?;
                side.send(round)?;
            }
            side.settle()?;
            *told = end(side, station, last)?;
            let arrived = told.first().copied().context("nothing was counted")?;
            return Ok(Sample::Arrived { took: rt::now() - start, arrived, bytes: self.bytes });
        }
        let (mut times, mut lost) = (Vec::new(), 0.0);
        for round in numbers {
            times.push(there_and_back(side, round, &mut lost)?);
        }
        *told = end(side, station, last)?;
        Ok(Sample::Survived(times, lost))
    }
}

impl Probe for CountedDatagrams {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.station.begin(rounds)?;
        let mut told = PeerFigures::new();
        let led = self.lead(rounds, &mut told);
        match (led, told.is_empty()) {
            // Its reason is the cause more often than not.
            (Err(mine), true) => {
                let theirs = self.station.end().err();
                Err(theirs.map_or(mine, |theirs| theirs.context("the first one failed too")))
            }
            (led, _) => led,
        }
    }
}

/// Nanoseconds of a message and its answer. One that is lost is tried again, and the clock starts
/// anew.
fn there_and_back(side: &mut BenchConnection, round: u64, lost: &mut f64) -> Result<f64> {
    loop {
        side.rewrite(round)?;
        let start = Stopwatch::start();
        side.send(round)?;
        loop {
            let got = match side.vi.recv_queue().wait(Deadline::In(LOST)) {
                Err(ViError::NoCompletion { .. }) => break,
                got => got?,
            };
            let nanos = start.nanos();
            // The answer to what was thought lost comes late, and is of an earlier one.
            if got.tag == round {
                side.take_in(got, round)?;
                side.repost()?;
                return Ok(nanos);
            }
            side.put_back(got)?;
        }
        *lost += 1.0;
    }
}

/// Sends the end of the run until the follower has reported what arrived.
fn end(side: &mut BenchConnection, station: &PeerStation, last: u64) -> Result<PeerFigures> {
    let until = PATIENCE.until_from(rt::now());
    loop {
        side.tell(END | last)?;
        side.settle()?;
        let is_late = until.is_some_and(|until| rt::now() >= until);
        if is_late || station.is_over(ASKED_AGAIN)? {
            return station.end();
        }
    }
}

/// The follower's half, in the second process.
pub(crate) const DATAGRAMS: PeerTask<DuoPlan> = PeerTask {
    name: "datagrams",
    start: |plan, _| {
        let answers = plan.answers;
        Ok(Box::new(DatagramCounter { followed: Followed::new(plan)?, answers }))
    },
};

/// The follower's half.
struct DatagramCounter {
    followed: Followed,
    answers: Answers,
}

impl Follower for DatagramCounter {
    /// How many messages arrived; the first run connects.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        let (side, numbers) = self.followed.next(rounds)?;
        if rounds == 0 { Ok(PeerFigures::new()) } else { count(side, numbers, self.answers) }
    }

    fn host(&self) -> &str {
        self.followed.host()
    }

    fn needs_driving(&self) -> bool {
        true
    }

    fn drive(&self) {
        self.followed.drive();
    }
}

/// What arrived of these.
fn count(
    side: &mut BenchConnection,
    rounds: RangeInclusive<u64>,
    answers: Answers,
) -> Result<PeerFigures> {
    let mut arrived = 0.0;
    loop {
        let got = side.vi.recv_queue().wait(PATIENCE)?;
        let tag = got.tag;
        if tag == END | *rounds.end() {
            side.put_back(got)?;
            return Ok(vec![arrived]);
        }
        if !rounds.contains(&tag) {
            side.put_back(got)?;
            continue;
        }
        side.take_in(got, tag)?;
        arrived += 1.0;
        if answers != Answers::Never {
            side.answer(tag)?;
            side.send(tag)?;
        }
        side.repost()?;
    }
}

impl BenchConnection {
    /// Posts the memory of a message that is not looked at again.
    fn put_back(&mut self, got: Completion) -> Result<()> {
        let got = got.ok()?;
        self.vi.post_recv(match self.mode {
            Mode::Fresh => Descriptor::fresh(self.taken as u64),
            _ => got.into_descriptor(),
        })?;
        Ok(())
    }
}

/// No answer for so long is a message that was lost.
const LOST: Duration = Duration::from_millis(20);
/// How often the follower is told that a run is over.
const ASKED_AGAIN: Duration = Duration::from_millis(1);
/// The tag of the message that says so has this bit, and the number of the last one.
const END: u64 = 1 << 63;
