//! Bare processes in pairs: what `egret bench pairs` is held against.

use std::rc::Rc;

use crate::limit::MachineLimit;
use anyhow::Result;

use super::measure::{Probe, Sample};
use super::pairs::{ConnectedPair, run};
use super::peer::{FollowerProcess, PeerTask};

/// Pairs of processes that have nothing of egret in between: a cache line each way in
/// shared memory, and the kernel.
pub(crate) struct Bare {
    /// Who waits lets others run.
    yielding: Vec<ConnectedPair>,
    /// Who waits sleeps. These are the same processes.
    sleeping: Vec<ConnectedPair>,
}

impl Bare {
    /// Starts the processes, on any of these cores.
    pub(crate) fn start(pairs: u32, cores: &[usize]) -> Result<Self> {
        let (mut yielding, mut sleeping) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            let peer = || Ok::<_, anyhow::Error>(Rc::new(FollowerProcess::start_on(cores)?));
            let (leads, follows) = (peer()?, peer()?);
            yielding.push(pair(&leads, &follows, MachineLimit::SwitchYield)?);
            sleeping.push(pair(&leads, &follows, MachineLimit::SwitchFutex)?);
        }
        Ok(Self { yielding, sleeping })
    }
}

fn pair(
    leads: &Rc<FollowerProcess>,
    follows: &Rc<FollowerProcess>,
    limit: MachineLimit,
) -> Result<ConnectedPair> {
    let (key, bytes) = (limit.to_string(), limit.fixed_bytes().unwrap_or(0));
    let leader = leads.open(PeerTask::LimitLeader { key: key.clone(), bytes }, &[])?;
    let follower = follows.open(PeerTask::Limit { key, bytes }, &leader.fds)?;
    Ok(ConnectedPair { leader, follower, _registry: None })
}

impl Probe for Bare {
    /// Both ways; the better one counts.
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let yielding = run(&self.yielding, rounds)?;
        Ok(Sample::Total(yielding.min(run(&self.sleeping, rounds)?)))
    }
}
