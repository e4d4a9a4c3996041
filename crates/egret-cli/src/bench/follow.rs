//! The second process itself.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use egret::net::limit::{End, Limit};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::channel::Channel;
use super::channels::Reading;
use super::connect::Callee;
use super::duo::{DRIVEN, Followed, Leader};
use super::graph_trip::Receiver;
use super::machine;
use super::many::Answering;
use super::peer::{Opening, Order, PATIENCE, Reply, Told};
use super::quiet::Quiet;
use super::rmi_calls::{CalledOn, Caller};
use super::served::Served;
use super::space;
use super::still::Still;

/// How `egret bench` starts its second process.
#[derive(Debug, clap::Args)]
pub(crate) struct PeerArgs {
    /// The cores to stay on
    #[arg(long, value_delimiter = ',')]
    core: Vec<usize>,
    /// The network namespace to be in
    #[arg(long)]
    space: Option<String>,
}

/// Does what it is told until the first process is gone.
pub(crate) fn serve(args: &PeerArgs) -> Result<()> {
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
            Err(error) => channel.send(&Reply::Failed(format!("{error:#}")), &[])?,
        }
    }
}

/// The follower's half of what is measured.
trait Follower {
    fn follow(&mut self, rounds: u64) -> Result<Told>;

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

impl Follower for End {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        Self::follow(self, rounds, PATIENCE)?;
        Ok(Told::new())
    }
}

/// Leads a limit for somebody else than the first process.
struct LimitLeader {
    end: End,
    fds: Vec<OwnedFd>,
}

impl Follower for LimitLeader {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        self.end.lead(rounds, PATIENCE)?;
        Ok(Told::new())
    }

    fn fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }
}

/// A socket of the second process for a limit.
struct Bound(Option<UdpSocket>);

impl Follower for Bound {
    fn follow(&mut self, _: u64) -> Result<Told> {
        Ok(Told::new())
    }

    fn fds(&mut self) -> Vec<OwnedFd> {
        self.0.take().map(OwnedFd::from).into_iter().collect()
    }
}

impl Follower for Followed {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
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
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        self.lead(rounds)?;
        Ok(Told::new())
    }

    fn needs_driving(&self) -> bool {
        self.needs_driving()
    }

    fn drive(&self) {
        self.drive();
    }
}

impl Follower for Served {
    fn follow(&mut self, _: u64) -> Result<Told> {
        self.serve()?;
        Ok(Told::new())
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for CalledOn {
    fn follow(&mut self, _: u64) -> Result<Told> {
        self.serve()?;
        Ok(Told::new())
    }
}

impl Follower for Caller {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        self.call(rounds)?;
        Ok(Told::new())
    }
}

impl Follower for Reading {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        Self::follow(self, rounds)?;
        Ok(Told::new())
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Receiver {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        Self::follow(self, rounds)
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Answering {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        Self::follow(self, rounds)?;
        Ok(Told::new())
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Quiet {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        Self::follow(self, rounds)
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Callee {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
        Self::follow(self, rounds)
    }

    fn host(&self) -> String {
        self.host().to_owned()
    }
}

impl Follower for Still {
    fn follow(&mut self, rounds: u64) -> Result<Told> {
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
    fn obey(&mut self, order: Order, fds: Vec<OwnedFd>) -> Result<Option<(Reply, Vec<OwnedFd>)>> {
        match order {
            Order::Open { station, opening } => {
                let mut follower = follower(opening, fds)?;
                let (host, fds) = (follower.host(), follower.fds());
                self.0.insert(station, follower);
                Ok(Some((Reply::Open(host), fds)))
            }
            Order::Run { station, rounds } => {
                let follower = self.0.get_mut(&station).context("nothing is open there")?;
                Ok(Some((Reply::Done(follower.follow(rounds)?), Vec::new())))
            }
            Order::Close { station } => {
                self.0.remove(&station);
                Ok(None)
            }
        }
    }
}

fn follower(opening: Opening, fds: Vec<OwnedFd>) -> Result<Box<dyn Follower>> {
    Ok(match opening {
        Opening::Vi(plan) => Box::new(Followed::new(plan)?),
        Opening::Leader(plan) => Box::new(Leader::new(plan)?),
        Opening::Idle(stillness) => Box::new(Still::new(stillness)?),
        Opening::Am(task) => Box::new(Served::new(&task)?),
        Opening::Calls(pooled) => Box::new(CalledOn::new(&pooled)?),
        Opening::Caller(pooled) => Box::new(Caller::new(&pooled)?),
        Opening::Channel(stream) => Box::new(Reading::new(&stream)?),
        Opening::Graph(trip) => Box::new(Receiver::new(trip)?),
        Opening::Many(meeting) => Box::new(Answering::new(&meeting)?),
        Opening::Quiet(quietness) => Box::new(Quiet::new(quietness)?),
        Opening::Connect(called) => Box::new(Callee::new(&called)?),
        Opening::Socket => Box::new(Bound(Some(space::bind()?))),
        Opening::LimitLeader { key, bytes } => {
            let (end, fds) = key.parse::<Limit>()?.prepare(bytes)?;
            Box::new(LimitLeader { end, fds })
        }
        Opening::Limit { key, bytes } => Box::new(key.parse::<Limit>()?.join(bytes, fds)?),
    })
}
