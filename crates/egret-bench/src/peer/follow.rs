//! The second process itself.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::channel::Channel;
use super::process::{DRIVEN, Follower, NamedTask, PeerOrder, PeerReply};
use super::space;
use crate::machine;

/// How `egret bench` starts its second process.
#[derive(Debug, clap::Args)]
pub struct BenchPeerArgs {
    /// The cores to stay on
    #[arg(long, value_delimiter = ',')]
    core: Vec<usize>,
    /// The network namespace to be in
    #[arg(long)]
    space: Option<String>,
}

/// Obeys orders until the first process is gone; `tasks` are those that it can take part in.
pub(crate) fn serve(args: &BenchPeerArgs, tasks: &[&dyn NamedTask]) -> Result<()> {
    // A first process that is killed while this one spins takes it along. If it died before
    // this call, the channel is closed and the loop below ends at once.
    set_parent_process_death_signal(Some(Signal::KILL)).context("tying the processes together")?;
    if !args.core.is_empty() {
        machine::pin(&args.core)?;
    }
    if let Some(name) = &args.space {
        space::enter(name)?;
    }
    machine::open_many();
    let channel = Channel::inherited()?;
    let mut stations = Stations { tasks, open: BTreeMap::new() };
    let strange = "bench-peer is started by `egret bench`, not by hand";
    loop {
        // A nic that loses datagrams may have to send its last ones again.
        while stations.need_driving() && !channel.has_come(DRIVEN)? {
            stations.drive();
        }
        let Some((order, fds)) = channel.receive().context(strange)? else { return Ok(()) };
        match stations.obey(order, fds) {
            Ok(None) => {}
            Ok(Some((reply, fds))) => channel.send(&reply, &fds)?,
            Err(error) => channel.send(&PeerReply::Failed(format!("{error:#}")), &[])?,
        }
    }
}

struct Stations<'a> {
    tasks: &'a [&'a dyn NamedTask],
    /// By number.
    open: BTreeMap<u32, Box<dyn Follower>>,
}

impl Stations<'_> {
    fn need_driving(&self) -> bool {
        self.open.values().any(|follower| follower.needs_driving())
    }

    fn drive(&self) {
        self.open.values().for_each(|follower| follower.drive());
    }

    /// What to answer, if the order is one to be answered.
    fn obey(
        &mut self,
        order: PeerOrder,
        fds: Vec<OwnedFd>,
    ) -> Result<Option<(PeerReply, Vec<OwnedFd>)>> {
        match order {
            PeerOrder::Open { station, task, plan } => {
                let found = self.tasks.iter().find(|known| known.name() == task);
                let found = found.with_context(|| format!("there is no task {task:?}"))?;
                let mut follower = found.start(&plan, fds)?;
                let (host, fds) = (follower.host().to_owned(), follower.fds());
                self.open.insert(station, follower);
                Ok(Some((PeerReply::Open(host), fds)))
            }
            PeerOrder::Run { station, rounds } => {
                let follower = self.open.get_mut(&station).context("nothing is open there")?;
                Ok(Some((PeerReply::Done(follower.follow(rounds)?), Vec::new())))
            }
            PeerOrder::Close { station } => {
                self.open.remove(&station);
                Ok(None)
            }
        }
    }
}
