//! The limits as things to measure.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use crate::limit::{LimitEnd, LimitTime, MachineLimit};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::case::{Against, Further, Probe, Sample};
use super::report::Of;
use crate::peer::space;
use crate::peer::{Follower, FollowerProcess, PATIENCE, PeerFigures, PeerStation, PeerTask};

/// A limit between this process and the other.
#[derive(Debug)]
pub(crate) struct Linked {
    end: LimitEnd,
    station: PeerStation,
}

impl Linked {
    pub(crate) fn new(
        peer: &Rc<FollowerProcess>,
        limit: MachineLimit,
        bytes: usize,
    ) -> Result<Self> {
        Self::over(peer, limit, bytes, limit.prepare(bytes)?)
    }

    /// One of UDP, between addresses that others reach, in whatever namespaces the two are.
    pub(crate) fn reachable(
        peer: &Rc<FollowerProcess>,
        limit: MachineLimit,
        bytes: usize,
    ) -> Result<Self> {
        let mut theirs = peer.open(&SOCKET, &(), &[])?;
        let far = theirs.fds.pop().context("a socket comes back")?;
        let made = limit.prepare_over(bytes, [space::bind()?, far.into()])?;
        Self::over(peer, limit, bytes, made)
    }

    fn over(
        peer: &Rc<FollowerProcess>,
        limit: MachineLimit,
        bytes: usize,
        (end, fds): (LimitEnd, Vec<OwnedFd>),
    ) -> Result<Self> {
        let plan = LimitPlan { key: limit.to_string(), bytes };
        Ok(Self { end, station: peer.open(&LIMIT, &plan, &fds)? })
    }
}

impl Probe for Linked {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let measured = self.station.run(rounds, || self.end.lead(rounds, PATIENCE))?;
        Ok(match measured {
            LimitTime::RoundTrips(times) => Sample::Times(times),
            LimitTime::OneWay(total) => Sample::Total(total),
            LimitTime::Arrived { took, messages, bytes } => {
                Sample::Arrived { took, arrived: messages as f64, bytes }
            }
        })
    }
}

/// A limit for the second process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LimitPlan {
    /// The name of a [`MachineLimit`].
    pub(crate) key: String,
    pub(crate) bytes: usize,
}

/// The one who follows a limit, in the second process; its descriptors come along.
pub(crate) const LIMIT: PeerTask<LimitPlan> = PeerTask {
    name: "limit",
    start: |plan, fds| Ok(Box::new(plan.key.parse::<MachineLimit>()?.join(plan.bytes, fds)?)),
};

impl Follower for LimitEnd {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds, PATIENCE)?;
        Ok(PeerFigures::new())
    }
}

/// The one who leads, for somebody else than the first process; its descriptors come back.
pub(crate) const LIMIT_LEADER: PeerTask<LimitPlan> = PeerTask {
    name: "limit-leader",
    start: |plan, _| {
        let (end, fds) = plan.key.parse::<MachineLimit>()?.prepare(plan.bytes)?;
        Ok(Box::new(LimitLeader { end, fds }))
    },
};

struct LimitLeader {
    end: LimitEnd,
    fds: Vec<OwnedFd>,
}

impl Follower for LimitLeader {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        self.end.lead(rounds, PATIENCE)?;
        Ok(PeerFigures::new())
    }

    fn fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }
}

/// A socket of the second process for a limit, which comes back.
pub(crate) const SOCKET: PeerTask<()> =
    PeerTask { name: "socket", start: |(), _| Ok(Box::new(Bound(Some(space::bind()?)))) };

struct Bound(Option<UdpSocket>);

impl Follower for Bound {
    fn follow(&mut self, _: u64) -> Result<PeerFigures> {
        Ok(PeerFigures::new())
    }

    fn fds(&mut self) -> Vec<OwnedFd> {
        self.0.take().map(OwnedFd::from).into_iter().collect()
    }
}

/// A message over `fabric` is held against `limit`, and if the fabric is shared memory against
/// `shm-slot` of so many bytes too: the word of an empty message has some.
pub(crate) fn with_slot(
    peer: &Rc<FollowerProcess>,
    limit: (&str, Box<dyn Probe>),
    fabric: &str,
    bytes: usize,
) -> Result<Against> {
    with(peer, limit, fabric, (Of::Slot, MachineLimit::ShmSlot, bytes.max(SLOT_BYTES_MIN)))
}

/// The same with another limit of shared memory.
pub(crate) fn with(
    peer: &Rc<FollowerProcess>,
    (name, limit): (&str, Box<dyn Probe>),
    fabric: &str,
    (of, other, bytes): (Of, MachineLimit, usize),
) -> Result<Against> {
    if fabric != "shm" {
        return Ok(Against::Limit(limit));
    }
    let probe: Option<Box<dyn Probe>> = match other.name() == name {
        true => None,
        false => Some(Box::new(Linked::new(peer, other, bytes)?)),
    };
    Ok(Against::Limits(limit, vec![Further { of, probe }]))
}

/// What an empty message is counted as.
const SLOT_BYTES_MIN: usize = 4;

/// Work of one process that is too short to time alone: a round is a batch,
/// and its time that of the batch over its size.
pub(crate) struct Batches {
    size: usize,
    /// A box, so that what repeats batches is compiled once.
    work: Box<dyn FnMut(usize) -> Duration>,
}

impl Batches {
    /// `work` does what is measured as often as it is told, and takes the time.
    pub(crate) fn new(size: usize, work: impl FnMut(usize) -> Duration + 'static) -> Self {
        Self { size, work: Box::new(work) }
    }
}

impl Probe for Batches {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let batch = |_| (self.work)(self.size).as_nanos() as f64 / self.size as f64;
        Ok(Sample::Times((0..rounds).map(batch).collect()))
    }
}
