//! Messages between two processes: this one leads, the other follows.

use std::rc::Rc;

use anyhow::{Context, Result};
use egret::net::buf::Pool;
use egret::net::fabric::Fabrics;
use egret::net::rt;
use egret::net::vi::{Address, Listener, Nic, NicOptions, ViOptions, Wait};
use serde::{Deserialize, Serialize};

use super::measure::{Probe, Sample};
use super::peer::{Opening, Peer, Station};
use super::side::{Mode, PATIENCE, Side, WINDOW};

/// What the two measure, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub fabric: String,
    pub mode: Mode,
    pub bytes: usize,
    pub wait: Waiting,
    /// Whether each message is answered.
    pub round_trips: bool,
    /// The follower's host.
    pub host: String,
}

/// How to wait for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Waiting {
    /// Look again and again
    Spin,
    /// Look for a while, then sleep
    Balanced,
    /// Sleep until woken
    Frugal,
}

impl Waiting {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Balanced => "balanced",
            Self::Frugal => "frugal",
        }
    }

    const fn of_nic(self) -> Wait {
        match self {
            Self::Spin => Wait::Spin,
            Self::Balanced => Wait::Balanced,
            Self::Frugal => Wait::Frugal,
        }
    }
}

impl Plan {
    fn nic(&self, host: &str) -> Result<Nic> {
        let options = NicOptions::new(host).wait(self.wait.of_nic());
        Ok(Fabrics::default().open(&self.fabric, options)?)
    }

    /// Where the peer can read it, or where it cannot: a slice is the program's.
    fn pool(&self) -> Result<Pool> {
        Ok(Pool::builder().class(self.bytes, 2 * WINDOW + 1).shareable().build()?)
    }
}

/// The leader's half.
#[derive(Debug)]
pub(crate) struct Led {
    plan: Plan,
    side: Side,
    station: Station,
    round: u64,
}

impl Led {
    pub(crate) fn new(peer: &Rc<Peer>, plan: Plan) -> Result<Self> {
        let station = peer.open(Opening::Vi(plan.clone()), &[])?;
        let nic = plan.nic(&format!("{}-leader", plan.host))?;
        let to = Address::new(&plan.host, SERVICE, 0);
        let side = station.run(0, || -> Result<Side> {
            let vi = nic.wait_connect(&to, &ViOptions::default(), PATIENCE)?;
            Side::met(vi, plan.mode, &plan.pool()?)
        })?;
        Ok(Self { plan, side, station, round: 0 })
    }
}

impl Probe for Led {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let (side, first) = (&mut self.side, self.round + 1);
        self.round += rounds;
        let all = first..=self.round;
        self.station.run(rounds, || match self.plan.round_trips {
            true => there_and_back(side, all),
            false => one_way(side, all),
        })
    }
}

/// One at a time; the payload is rewritten before the clock starts.
fn there_and_back(side: &mut Side, rounds: impl Iterator<Item = u64>) -> Result<Sample> {
    let mut times = Vec::new();
    for round in rounds {
        side.rewrite(round)?;
        let start = rt::now();
        side.send(round)?;
        side.receive(round)?;
        times.push((rt::now() - start).as_nanos() as f64);
    }
    Ok(Sample::Times(times))
}

/// As many at once as there are buffers, rewritten before each send, until the
/// other side has them all.
fn one_way(side: &mut Side, rounds: impl Iterator<Item = u64>) -> Result<Sample> {
    let start = rt::now();
    for round in rounds {
        side.rewrite(round)?;
        side.send(round)?;
    }
    side.settle()?;
    Ok(Sample::Total(rt::now() - start))
}

/// The follower's half.
#[derive(Debug)]
pub(crate) struct Followed {
    plan: Plan,
    listener: Listener,
    side: Option<Side>,
    round: u64,
}

impl Followed {
    pub(crate) fn new(plan: Plan) -> Result<Self> {
        let listener = plan.nic(&plan.host)?.listen(SERVICE, 0, &ViOptions::default())?;
        Ok(Self { plan, listener, side: None, round: 0 })
    }

    /// Follows `rounds` rounds; the first run is for meeting.
    pub(crate) fn follow(&mut self, rounds: u64) -> Result<()> {
        if self.side.is_none() {
            let vi = self.listener.wait_accept(PATIENCE)?;
            self.side = Some(Side::met(vi, self.plan.mode, &self.plan.pool()?)?);
        }
        let side = self.side.as_mut().context("met just now")?;
        for round in self.round + 1..=self.round + rounds {
            side.receive(round)?;
            if self.plan.round_trips {
                side.rewrite(round)?;
                side.send(round)?;
            }
        }
        self.round += rounds;
        side.settle()
    }
}

const SERVICE: &str = "bench";
