//! Bare processes in pairs: what `egret bench pairs` is held against.

use std::rc::Rc;

use anyhow::Result;
use egret::net::limit::Limit;

use super::measure::{Probe, Sample};
use super::pairs::{Pair, run};
use super::peer::{Opening, Peer};

/// Pairs of processes that have nothing of egret in between: a cache line each way in
/// shared memory, and the kernel.
pub(crate) struct Bare {
    /// Who waits lets others run.
    yielding: Vec<Pair>,
    /// Who waits sleeps. These are the same processes.
    sleeping: Vec<Pair>,
}

impl Bare {
    /// Starts the processes, on any of these cores.
    pub(crate) fn start(pairs: u32, cores: &[usize]) -> Result<Self> {
        let (mut yielding, mut sleeping) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            let peer = || Ok::<_, anyhow::Error>(Rc::new(Peer::start_on(cores)?));
            let (leads, follows) = (peer()?, peer()?);
            yielding.push(pair(&leads, &follows, Limit::SwitchYield)?);
            sleeping.push(pair(&leads, &follows, Limit::SwitchFutex)?);
        }
        Ok(Self { yielding, sleeping })
    }
}

fn pair(leads: &Rc<Peer>, follows: &Rc<Peer>, limit: Limit) -> Result<Pair> {
    let (key, bytes) = (limit.to_string(), limit.fixed_bytes().unwrap_or(0));
    let leader = leads.open(Opening::LimitLeader { key: key.clone(), bytes }, &[])?;
    let follower = follows.open(Opening::Limit { key, bytes }, &leader.fds)?;
    Ok(Pair { leader, follower, _registry: None })
}

impl Probe for Bare {
    /// Both ways; the better one counts.
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let yielding = run(&self.yielding, rounds)?;
        Ok(Sample::Total(yielding.min(run(&self.sleeping, rounds)?)))
    }
}
