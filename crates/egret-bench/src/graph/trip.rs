//! Graphs from one process to another.

use std::rc::Rc;

use crate::limit::Stopwatch;
use anyhow::{Context, Result, ensure};
use egret::fabric::Fabrics;
use egret::vi::{Address, Descriptor, Listener, Nic, NicOptions, Trust, Vi};
use serde::{Deserialize, Serialize};

use super::load::{self, Cargo, TripLoad};
use super::shape::GraphShape;
use crate::measure::{Probe, Sample};
use crate::peer::{Follower, FollowerProcess, PeerFigures, PeerStation, PeerTask};
use crate::side::{PATIENCE, acknowledge};
use crate::vi::duo::{WaitMode, options};

/// What goes from the one to the other, and over what.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trip {
    pub(crate) fabric: String,
    pub(crate) wait: WaitMode,
    pub(crate) which: GraphShape,
    pub(crate) cargo: Cargo,
    /// Of the message.
    pub(crate) bytes: usize,
    /// What the follower's nic is opened with.
    pub(crate) host: String,
}

impl Trip {
    /// Whether all that is in it is looked at after a run that begins with this round: a large
    /// one once, or there would be more looking than sending.
    const fn is_summed(&self, round: u64) -> bool {
        round == 0 || self.bytes < LARGE
    }

    fn load(&self, is_sender: bool) -> Result<Box<dyn TripLoad>> {
        load::of(self.which, self.cargo, self.bytes, is_sender)
    }

    fn nic(&self, host: &str) -> Result<Nic> {
        let trust = if self.cargo == Cargo::Handed { Trust::Cooperating } else { Trust::Isolated };
        let options = NicOptions::new(host).wait(self.wait.of_nic()).trust(trust);
        Ok(Fabrics::default().open(&self.fabric, options)?)
    }
}

/// The one who sends, and takes the time until the other can use what it got and has said so.
pub(crate) struct GraphSender {
    trip: Trip,
    station: PeerStation,
    nic: Nic,
    vi: Option<Vi>,
    load: Box<dyn TripLoad>,
    sum: f64,
    round: u64,
}

impl GraphSender {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, trip: Trip) -> Result<Self> {
        let nic = trip.nic(&format!("{}-sender", trip.host))?;
        let station = peer.open(&GRAPHS, &trip, &[])?;
        let load = trip.load(true)?;
        let sum = load.sum();
        let mut sender = Self { trip, station, nic, vi: None, load, sum, round: 0 };
        sender.run(0)?;
        Ok(sender)
    }

    fn lead(&mut self, rounds: u64) -> Result<Sample> {
        if self.vi.is_none() {
            let (to, options) = (Address::new(&self.station.host, SERVICE, 0), options(&self.nic));
            let vi = self.nic.wait_connect(&to, &options, PATIENCE)?;
            self.load.begin(&vi)?;
            self.vi = Some(vi);
        }
        let vi = self.vi.as_ref().context("connected just now")?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            self.round += 1;
            self.load.rewrite(self.round)?;
            if !self.load.comes_back() {
                vi.post_recv(Descriptor::new(vec![0_u8; ANSWER]))?;
            }
            let start = Stopwatch::start();
            self.load.send(vi, self.round)?;
            if self.load.comes_back() {
                self.load.take(vi, self.round)?;
                times.push(start.nanos());
            } else {
                let answer = vi.recv_queue().wait(PATIENCE)?.ok()?;
                times.push(start.nanos());
                ensure!(answer.tag == self.round, "another answer than the one that is due");
            }
            self.load.settle(vi)?;
        }
        acknowledge(&self.nic);
        Ok(Sample::Times(times))
    }
}

impl Probe for GraphSender {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let is_summed = rounds > 0 && self.trip.is_summed(self.round);
        self.station.begin(rounds)?;
        let led = self.lead(rounds);
        let mut sums = self.station.end()?;
        let sample = led?;
        if is_summed {
            sums.push(self.load.sum());
        }
        ensure!(sums.iter().all(|sum| *sum == self.sum), "it arrived as something else");
        Ok(sample)
    }
}

/// The one who receives, in the second process.
pub(crate) const GRAPHS: PeerTask<Trip> =
    PeerTask { name: "graphs", start: |trip, _| Ok(Box::new(GraphReceiver::new(trip)?)) };

/// The one who receives.
struct GraphReceiver {
    trip: Trip,
    nic: Nic,
    listener: Listener,
    vi: Option<Vi>,
    load: Box<dyn TripLoad>,
    round: u64,
}

impl GraphReceiver {
    fn new(trip: Trip) -> Result<Self> {
        let nic = trip.nic(&trip.host)?;
        let listener = nic.listen(SERVICE, 0, &options(&nic))?;
        let load = trip.load(false)?;
        Ok(Self { trip, nic, listener, vi: None, load, round: 0 })
    }
}

impl Follower for GraphReceiver {
    fn host(&self) -> &str {
        self.nic.host()
    }

    /// Follows `rounds` rounds; says what is in the last thing that came.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        if self.vi.is_none() {
            let vi = self.listener.wait_accept(PATIENCE)?;
            self.load.begin(&vi)?;
            self.vi = Some(vi);
        }
        let vi = self.vi.as_ref().context("connected just now")?;
        let mut told = PeerFigures::new();
        let is_summed = self.trip.is_summed(self.round);
        for left in (0..rounds).rev() {
            self.round += 1;
            self.load.take(vi, self.round)?;
            if self.load.comes_back() {
                self.load.send(vi, self.round)?;
            } else {
                vi.post_send(Descriptor::new(vec![0_u8; ANSWER]).with_tag(self.round))?;
                if is_summed && left == 0 {
                    told.push(self.load.sum());
                }
            }
            self.load.settle(vi)?;
        }
        acknowledge(&self.nic);
        Ok(told)
    }
}

const LARGE: usize = 1 << 20;
const SERVICE: &str = "graph";
/// Bytes of an answer.
const ANSWER: usize = 8;
