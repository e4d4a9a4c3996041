//! The second process itself.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use crate::limit::{LimitEnd, MachineLimit};
use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::channel::Channel;
use super::channels::ChannelReading;
use super::connect::ConnectCallee;
use super::duo::{DRIVEN, Followed, Leader};
use super::graph_trip::GraphReceiver;
use super::machine;
use super::many::ManyFollower;
use super::peer::{PATIENCE, PeerFigures, PeerOrder, PeerReply, PeerTask};
use super::quiet::Quiet;
use super::rmi_calls::{CalledOn, CallerProcess};
use super::served::RequestServer;
use super::space;
use super::still::Still;

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

/// Does what it is told until the first process is gone.
///
/// # Errors
///
/// If it cannot do it.
pub fn serve(args: &BenchPeerArgs) -> Result<()> {
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
    let mut stations = Stations::default();
    let strange = "bench-peer is started by `egret bench`, not by hand";
    loop {
        // A nic that loses may have to say again what it said last.
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

/// The follower's half of what is measured.
trait Follower {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures>;

    /// Where its nic is, if it has one.
    fn host(&self) -> String {
        String::new()
    }

    /// Whether its nic has something to do between two runs.
    fn needs_driving(&self) -> bool {
        false
    }

    /// Has it do that.
    fn drive(&self) {}

    /// What its other side needs, if that is not the first process.
    fn fds(&mut self) -> Vec<OwnedFd> {
        Vec::new()
    }
}

impl Follower for LimitEnd {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds, PATIENCE)?;
        Ok(PeerFigures::new())
    }
}

/// Leads a limit for somebody else than the first process.
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

/// A socket of the second process for a limit.
struct Bound(Option<UdpSocket>);

impl Follower for Bound {
    fn follow(&mut self, _: u64) -> Result<PeerFigures> {
        Ok(PeerFigures::new())
    }

    fn fds(&mut self) -> Vec<OwnedFd> {
        self.0.take().map(OwnedFd::from).into_iter().collect()
    }
}

impl Follower for Followed {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds)
    }

    fn needs_driving(&self) -> bool {
        self.needs_driving()
    }

    fn drive(&self) {
        self.drive();
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Leader {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        self.lead(rounds)?;
        Ok(PeerFigures::new())
    }

    fn needs_driving(&self) -> bool {
        self.needs_driving()
    }

    fn drive(&self) {
        self.drive();
    }
}

impl Follower for RequestServer {
    fn follow(&mut self, _: u64) -> Result<PeerFigures> {
        self.serve()?;
        Ok(PeerFigures::new())
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for CalledOn {
    fn follow(&mut self, _: u64) -> Result<PeerFigures> {
        self.serve()?;
        Ok(PeerFigures::new())
    }
}

impl Follower for CallerProcess {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        self.call(rounds)?;
        Ok(PeerFigures::new())
    }
}

impl Follower for ChannelReading {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds)?;
        Ok(PeerFigures::new())
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for GraphReceiver {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds)
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for ManyFollower {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds)?;
        Ok(PeerFigures::new())
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Quiet {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds)
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for ConnectCallee {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds)
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Still {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        Self::follow(self, rounds)
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

/// Everything that is open, by number.
#[derive(Default)]
struct Stations(BTreeMap<u32, Box<dyn Follower>>);

impl Stations {
    fn need_driving(&self) -> bool {
        self.0.values().any(|follower| follower.needs_driving())
    }

    fn drive(&self) {
        self.0.values().for_each(|follower| follower.drive());
    }

    /// What to answer, if the order is one to be answered.
    fn obey(
        &mut self,
        order: PeerOrder,
        fds: Vec<OwnedFd>,
    ) -> Result<Option<(PeerReply, Vec<OwnedFd>)>> {
        match order {
            PeerOrder::Open { station, opening } => {
                let mut follower = follower(opening, fds)?;
                let (host, fds) = (follower.host(), follower.fds());
                self.0.insert(station, follower);
                Ok(Some((PeerReply::Open(host), fds)))
            }
            PeerOrder::Run { station, rounds } => {
                let follower = self.0.get_mut(&station).context("nothing is open there")?;
                Ok(Some((PeerReply::Done(follower.follow(rounds)?), Vec::new())))
            }
            PeerOrder::Close { station } => {
                self.0.remove(&station);
                Ok(None)
            }
        }
    }
}

fn follower(opening: PeerTask, fds: Vec<OwnedFd>) -> Result<Box<dyn Follower>> {
    Ok(match opening {
        PeerTask::Vi(plan) => Box::new(Followed::new(plan)?),
        PeerTask::Leader(plan) => Box::new(Leader::new(plan)?),
        PeerTask::Idle(stillness) => Box::new(Still::new(stillness)?),
        PeerTask::Am(task) => Box::new(RequestServer::new(&task)?),
        PeerTask::Calls(pooled) => Box::new(CalledOn::new(&pooled)?),
        PeerTask::Caller(pooled) => Box::new(CallerProcess::new(&pooled)?),
        PeerTask::Channel(stream) => Box::new(ChannelReading::new(&stream)?),
        PeerTask::Graph(trip) => Box::new(GraphReceiver::new(trip)?),
        PeerTask::Many(meeting) => Box::new(ManyFollower::new(&meeting)?),
        PeerTask::Quiet(quietness) => Box::new(Quiet::new(quietness)?),
        PeerTask::Connect(called) => Box::new(ConnectCallee::new(&called)?),
        PeerTask::Socket => Box::new(Bound(Some(space::bind()?))),
        PeerTask::LimitLeader { key, bytes } => {
            let (end, fds) = key.parse::<MachineLimit>()?.prepare(bytes)?;
            Box::new(LimitLeader { end, fds })
        }
        PeerTask::Limit { key, bytes } => Box::new(key.parse::<MachineLimit>()?.join(bytes, fds)?),
    })
}
