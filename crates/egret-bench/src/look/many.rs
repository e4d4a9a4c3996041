//! A nic with many connections over which next to nothing goes, for `egret bench look`.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::limit::Stopwatch;
use anyhow::{Context, Result, ensure};
use egret::fabric::Fabrics;
use egret::rt;
use egret::vi::{
    Address, Completion, CompletionQueue, Descriptor, Listener, Nic, NicOptions, Vi, ViId,
    ViOptions,
};
use serde::{Deserialize, Serialize};

use crate::measure::{Probe, Sample};
use crate::peer::{Follower, FollowerProcess, PeerFigures, PeerStation, PeerTask};
use crate::side::{PATIENCE, acknowledge, fill, mark};
use crate::vi::duo::{WaitMode, options};

/// What the two processes have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ManyPlan {
    pub(crate) fabric: String,
    pub(crate) wait: WaitMode,
    pub(crate) connections: u32,
    /// What the nic of the one who listens is opened with.
    pub(crate) host: String,
}

/// One side: its connections, all with the same queues. So what comes is looked for
/// everywhere, and not where it is known to come.
#[derive(Debug)]
struct ManySide {
    nic: Nic,
    vis: Vec<Vi>,
    by_id: BTreeMap<ViId, usize>,
    options: ViOptions,
    /// Free to be sent.
    spare: Vec<Descriptor>,
}

impl ManySide {
    fn new(plan: &ManyPlan, host: &str) -> Result<Self> {
        let nic = NicOptions::new(host).wait(plan.wait.of_nic());
        let nic = Fabrics::default().open(&plan.fabric, nic)?;
        let capacity = 2 * plan.connections.max(1) as usize;
        let queue = || Some(nic.completion_queue(capacity));
        let (send_queue, recv_queue) = (queue(), queue());
        let options = ViOptions { send_queue, recv_queue, ..options(&nic) };
        let (vis, by_id, spare) = (Vec::new(), BTreeMap::new(), Vec::new());
        Ok(Self { nic, vis, by_id, options, spare })
    }

    fn add(&mut self, vi: Vi) -> Result<()> {
        vi.post_recv(Descriptor::new(vec![0_u8; BYTES]))?;
        self.by_id.insert(vi.id(), self.vis.len());
        self.vis.push(vi);
        Ok(())
    }

    fn send(&mut self, on: usize, round: u64) -> Result<()> {
        while let Some(sent) = self.sent().take() {
            self.spare.push(sent.ok()?.into_descriptor());
        }
        let spare = self.spare.pop();
        let mut descriptor = spare.unwrap_or_else(|| Descriptor::new(vec![0_u8; BYTES]));
        fill(descriptor.bytes_mut().context("memory of its own")?, round);
        self.vis[on].post_send(descriptor.with_tag(round))?;
        Ok(())
    }

    /// Waits for a message on any connection; on which it came.
    fn take(&self, round: u64) -> Result<(usize, Completion)> {
        let queue = self.options.recv_queue.as_ref().context("it has one")?;
        let got = queue.wait(PATIENCE)?.ok()?;
        ensure!(got.tag == round && got.bytes() == [mark(round); BYTES], "a message was damaged");
        let on = self.by_id.get(&got.vi).context("a message of no connection")?;
        Ok((*on, got))
    }

    fn repost(&self, on: usize, got: Completion) -> Result<()> {
        self.vis[on].post_recv(got.into_descriptor())?;
        Ok(())
    }

    fn sent(&self) -> &CompletionQueue {
        self.options.send_queue.as_ref().expect("it has one")
    }
}

/// The side that looks, and the station of the other.
pub(crate) struct ManyLeader {
    side: ManySide,
    station: PeerStation,
    round: u64,
}

impl ManyLeader {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, plan: &ManyPlan) -> Result<Self> {
        let station = peer.open(&MANY, plan, &[])?;
        let mut side = ManySide::new(plan, &format!("{}-looks", plan.host))?;
        let to = Address::new(&station.host, SERVICE, 0);
        station.run(0, || -> Result<()> {
            for _ in 0..plan.connections {
                let vi = side.nic.wait_connect(&to, &side.options, PATIENCE)?;
                side.add(vi)?;
            }
            Ok(())
        })?;
        Ok(Self { side, station, round: 0 })
    }

    /// Polls that find nothing: how long so many take.
    pub(crate) fn look(&self, polls: usize) -> Duration {
        let start = rt::now();
        for _ in 0..polls {
            self.side.nic.poll();
        }
        rt::now() - start
    }
}

/// A message over one connection and its answer, each time over another one.
impl Probe for ManyLeader {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let Self { side, station, round } = self;
        station.run(rounds, || {
            let mut times = Vec::with_capacity(usize::try_from(rounds)?);
            for _ in 0..rounds {
                *round += 1;
                let on = usize::try_from(*round)? * STRIDE % side.vis.len();
                let start = Stopwatch::start();
                side.send(on, *round)?;
                let (came_on, got) = side.take(*round)?;
                times.push(start.nanos());
                ensure!(came_on == on, "an answer came over another connection");
                side.repost(on, got)?;
            }
            acknowledge(&side.nic);
            Ok::<_, anyhow::Error>(Sample::Times(times))
        })
    }
}

/// The other side, in the second process.
pub(crate) const MANY: PeerTask<ManyPlan> =
    PeerTask { name: "many", start: |plan, _| Ok(Box::new(ManyFollower::new(&plan)?)) };

/// The other side, which answers.
struct ManyFollower {
    side: ManySide,
    listener: Listener,
    connections: u32,
    round: u64,
}

impl ManyFollower {
    fn new(plan: &ManyPlan) -> Result<Self> {
        let side = ManySide::new(plan, &plan.host)?;
        let listener = side.nic.listen(SERVICE, 0, &side.options)?;
        Ok(Self { side, listener, connections: plan.connections, round: 0 })
    }
}

impl Follower for ManyFollower {
    fn host(&self) -> &str {
        self.side.nic.host()
    }

    /// Answers so many messages; the first run connects.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        while self.side.vis.len() < self.connections as usize {
            self.side.add(self.listener.wait_accept(PATIENCE)?)?;
        }
        for _ in 0..rounds {
            self.round += 1;
            let (on, got) = self.side.take(self.round)?;
            self.side.send(on, self.round)?;
            self.side.repost(on, got)?;
        }
        acknowledge(&self.side.nic);
        Ok(PeerFigures::new())
    }
}

const SERVICE: &str = "look";
const BYTES: usize = 4;
/// From one connection to the next, so that neighbours are not used one after the other.
const STRIDE: usize = 61;
