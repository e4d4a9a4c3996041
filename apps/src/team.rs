//! The processes of an application: who they are, and how they agree.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Departure, NodeError, NodeId};
use egret::prelude::*;
use egret::rmi::{CallError, Proxy};
use egret::rt;
use egret::vi::Secret;

use crate::AppError;
use crate::slots::{Ahead, NumberedSlots};

/// One process among those of its application.
#[derive(Debug)]
pub(crate) struct AppTeam {
    members: Vec<NodeId>,
    /// The desk of process 0; of process 0 those of all others, by rank less one.
    desks: Vec<DeskStub>,
    told: Arc<TeamMessages>,
    /// How often they have met.
    met: u32,
    _desk: Exported,
    node: Node,
    _registry: Option<Registry>,
}

/// Where a process is told what others bring to a meeting, or what came of it.
#[egret::remote]
trait Desk {
    #[nonblocking]
    fn tell(&self, from: u32, meeting: u32, values: &[u64]) -> Result<(), Ahead>;
    /// Returns when this process needs no other any more.
    fn leave(&self);
}

/// What was told here.
#[derive(Debug)]
struct TeamMessages {
    /// By who told it.
    from: Vec<NumberedSlots<Vec<u64>>>,
    over: AtomicBool,
    left: AtomicU32,
}

struct Reception(Arc<TeamMessages>);

#[egret::remote]
impl Desk for Reception {
    fn tell(&self, from: u32, meeting: u32, values: &[u64]) -> Result<(), Ahead> {
        let slots = self.0.from.get(from as usize).ok_or(Ahead { number: meeting, next: 0 })?;
        slots.put(meeting, values)
    }

    fn leave(&self) {
        let is_wanted = || egret::rmi::current().is_none_or(|call| !call.is_cancelled());
        while !self.0.over.load(Ordering::Acquire) && is_wanted() {
            rt::sleep(PAUSE);
        }
        self.0.left.fetch_add(1, Ordering::Release);
    }
}

impl AppTeam {
    /// Joins the processes that were started together; without any, is alone.
    pub(crate) fn join() -> Result<Self, AppError> {
        let config = Config::from_env()?;
        let started = |setting: &egret::node::settings::Setting| {
            setting.name == "registry" && setting.value.is_some()
        };
        if config.settings().all().iter().any(started) {
            return Self::of(Node::join(config)?, None);
        }
        // No other process is to join.
        let secret = Secret::random();
        let options = RegistryOptions::new("alone", 1).secret(secret.clone());
        let registry = Registry::open(options)?;
        let config = Config::new("alone").registry(registry.address());
        let node = Node::join(config.secret(secret))?;
        Self::of(node, Some(registry))
    }

    /// Meets the others.
    pub(crate) fn of(node: Node, registry: Option<Registry>) -> Result<Self, AppError> {
        if node.is_open() {
            let why = "an application divides its work among the ranks of a closed pool, and this pool is \
                       open; start it without --open";
            return Err(AppError::Usage(why.to_owned()));
        }
        node.wait_all(node.deadline())?;
        let (rank, size) = (node.rank(), node.size());
        let member = |rank: u32| match node.id_of(rank).filter(|id| node.member(*id).is_some()) {
            Some(id) => Ok(id),
            None => Err(AppError::Gone { rank, why: "it has not stayed".to_owned() }),
        };
        let members = (0..size).map(member).collect::<Result<_, _>>()?;
        let from = (0..size).map(|_| NumberedSlots::default()).collect();
        let told = TeamMessages { from, over: AtomicBool::new(false), left: AtomicU32::new(0) };
        let told = Arc::new(told);
        let how = Export::default().bytes_max(TOLD_MAX);
        let desk = node.export_as::<dyn Desk>(Box::new(Reception(Arc::clone(&told))), how)?;
        desk.bind(&format!("desk.{rank}"))?;
        let (desks, met) = (Vec::new(), 0);
        let mut team = Self { members, desks, told, met, _desk: desk, node, _registry: registry };
        let others = if rank == 0 { 1..size } else { 0..1_u32.min(size - 1) };
        team.desks = others.map(|rank| team.find("desk", rank)).collect::<Result<_, _>>()?;
        // No process leaves before all have been found.
        team.barrier()?;
        Ok(team)
    }

    /// Leaves, when the others need this process no more: no process is gone while another
    /// waits for it to answer.
    pub(crate) fn leave(self) {
        if self.rank() != 0 {
            // Whatever becomes of it, there is nothing left to do.
            _ = self.desks[0].leave();
            return;
        }
        self.told.over.store(true, Ordering::Release);
        for rank in 1..self.size() {
            while self.told.left.load(Ordering::Acquire) < rank && self.alive(rank).is_ok() {
                rt::sleep(PAUSE);
            }
        }
    }

    /// The object of another process that has this name there; waits until there is one,
    /// or the process is gone.
    pub(crate) fn find<S: Proxy>(&self, name: &str, rank: u32) -> Result<S, AppError> {
        let name = format!("{name}.{rank}");
        loop {
            match self.node.lookup(&name, Deadline::In(GLANCE)) {
                Err(CallError::Registry(
                    NodeError::NotBound { .. } | NodeError::NobodyLeft { .. },
                )) => self.alive(rank)?,
                // The rank that a name ends with is its owner's.
                Err(CallError::Registry(NodeError::OwnerGone { fate, .. })) => {
                    return Err(gone(rank, fate));
                }
                found => return Ok(found?),
            }
        }
    }

    /// This process.
    pub(crate) fn rank(&self) -> u32 {
        self.node.rank()
    }

    /// How many there are.
    pub(crate) fn size(&self) -> u32 {
        self.node.size()
    }

    /// The node that this process is.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The node that another process is.
    pub(crate) fn member(&self, rank: u32) -> NodeId {
        self.members[rank as usize]
    }

    /// Everybody brings some values; process 0 makes of all of them, by rank, what
    /// everybody gets.
    pub(crate) fn meet(
        &mut self,
        values: &[u64],
        agree: impl FnOnce(Vec<Vec<u64>>) -> Vec<u64>,
    ) -> Result<Vec<u64>, AppError> {
        let meeting = self.met;
        self.met += 1;
        let tell = |desk: &DeskStub, to: u32, values: &[u64]| {
            let desk = desk.with_deadline(Deadline::UntilDead);
            desk.tell(self.rank(), meeting, values).map_err(|why| failed(to, why))
        };
        let heard = |from: u32| {
            let slots = &self.told.from[from as usize];
            // It may compute alone meanwhile.
            self.wait_ready(from, slots, Deadline::UntilDead)?;
            Ok::<_, AppError>(slots.take(<[u64]>::to_vec).unwrap_or_default())
        };
        if self.rank() != 0 {
            tell(&self.desks[0], 0, values)?;
            return heard(0);
        }
        let mut all = vec![values.to_vec()];
        for rank in 1..self.size() {
            all.push(heard(rank)?);
        }
        let agreed = agree(all);
        for (desk, rank) in self.desks.iter().zip(1..) {
            tell(desk, rank, &agreed)?;
        }
        Ok(agreed)
    }

    /// Waits until everybody has come here.
    pub(crate) fn barrier(&mut self) -> Result<(), AppError> {
        self.meet(&[], |_| Vec::new()).map(drop)
    }

    /// The largest of everybody's values, none of which is below 0. What is not a number is
    /// larger than all numbers.
    pub(crate) fn max(&mut self, value: f64) -> Result<f64, AppError> {
        let largest = |all: Vec<Vec<u64>>| {
            // Their bits are in the same order.
            let values = all.iter().flatten().map(|bits| f64::from_bits(*bits).abs().to_bits());
            let largest = values.max().unwrap_or_default();
            if all.iter().all(|values| values.len() == 1) { vec![largest] } else { Vec::new() }
        };
        let agreed = self.meet(&[value.to_bits()], largest)?;
        let astray = || AppError::Wrong("the processes are not all at the same step".to_owned());
        agreed.first().map(|bits| f64::from_bits(*bits)).ok_or_else(astray)
    }

    /// Everybody's value by rank, which process 0 gets to know.
    pub(crate) fn collect(&mut self, values: &[u64]) -> Result<Vec<Vec<u64>>, AppError> {
        let mut kept = Vec::new();
        self.meet(values, |all| {
            kept = all;
            Vec::new()
        })?;
        Ok(kept)
    }

    /// Waits for what another process sends, as long as it lives.
    pub(crate) fn wait_ready<M>(
        &self,
        from: u32,
        slots: &NumberedSlots<M>,
        deadline: Deadline,
    ) -> Result<(), AppError> {
        let until = deadline.until();
        while !slots.is_ready() {
            if until.is_some_and(|until| rt::now() >= until) {
                let why = format!("it has not sent what it should within {deadline:?}");
                return Err(AppError::Peer { rank: from, why });
            }
            let route = match self.node.route(self.member(from)) {
                Ok(route) => route,
                Err(why) => return self.alive(from).and(Err(why.into())),
            };
            if !route.links.drive(Deadline::In(GLANCE), || slots.is_ready()) {
                self.alive(from)?;
            }
        }
        Ok(())
    }

    /// Fails if a process is gone, or the one that started them all.
    pub(crate) fn all_well(&self) -> Result<(), AppError> {
        (0..self.size()).try_for_each(|rank| self.alive(rank))
    }

    /// Fails if a process is gone, or any has died, or the one that started them all.
    fn alive(&self, rank: u32) -> Result<(), AppError> {
        if let Some(fate) = self.node.fate(self.member(rank)) {
            return Err(gone(rank, fate));
        }
        match self.node.all_here() {
            Some(Err(NodeError::Gone { node, fate })) => Err(gone(node.rank, fate)),
            Some(Err(why)) => Err(why.into()),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// What became of a process whose connection has ended, if it is known soon.
    pub(crate) fn gone(&self, rank: u32) -> Option<AppError> {
        let fate = self.node.wait_fate(self.member(rank), Deadline::In(PATIENCE));
        fate.map(|fate| gone(rank, fate))
    }
}

fn gone(rank: u32, fate: Departure) -> AppError {
    let why = match fate {
        Departure::Left => "it has left".to_owned(),
        Departure::Died { why } => why,
    };
    AppError::Gone { rank, why }
}

/// A call to another process failed.
pub(crate) fn failed<E: fmt::Display>(rank: u32, why: CallError<E>) -> AppError {
    match why {
        CallError::PeerDied { why, .. } => AppError::Gone { rank, why },
        // Objects are exported until a process ends: it has just done so.
        why @ CallError::UnknownObject { .. } => AppError::Gone { rank, why: why.to_string() },
        why => AppError::Peer { rank, why: why.to_string() },
    }
}

/// How often is looked whether those who are waited for live.
const GLANCE: Duration = Duration::from_millis(50);
/// Between two looks whether everybody has left.
const PAUSE: Duration = Duration::from_millis(1);
/// So long after the end of a connection it is known what became of the process.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Bytes that a process brings to a meeting at most.
const TOLD_MAX: u64 = 160 << 20;
