//! Around the ring over the virtual interface.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::ops::Deref;
use std::rc::Rc;

use egret::buf::{Pool, Shared, Typed};
use egret::rt::{self, Deadline};
use egret::vi::{Completion, CompletionQueue, Descriptor, Vi, ViOptions};

use super::{BlockRing, columns, here, memory, neighbours, whose};
use crate::AppError;
use crate::pmm::matrix::MatrixColumns;
use crate::rounds::TrafficTotals;
use crate::team::AppTeam;

/// A connection to each neighbour, and buffers that go around with the blocks: one is
/// computed with and sent, the others are posted for the blocks that come next.
#[derive(Debug)]
pub(crate) struct PostedRing {
    own: PostedBlock,
    size: usize,
    pool: Pool,
    /// Memory for a block that is copied from where it arrived.
    spare: RefCell<Vec<f64>>,
    /// From the left and to the right; none for a process alone.
    vis: Option<(Vi, Vi)>,
}

/// A block, as a process computes with it.
#[derive(Debug, Clone)]
enum PostedBlock {
    /// In memory that is posted as it is.
    Posted(Shared<f64>),
    /// In memory of the program, sent from a copy and copied from where it arrived.
    Copied(Rc<Vec<f64>>),
}

impl Deref for PostedBlock {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        match self {
            Self::Posted(shared) => shared,
            Self::Copied(values) => values,
        }
    }
}

impl PostedRing {
    /// Connects to the neighbours; all processes do it together. Nothing is ever copied.
    pub(crate) fn new(team: &mut AppTeam, own: &MatrixColumns) -> Result<Self, AppError> {
        let mut ring = Self::copying(team, own.clone())?;
        ring.own = PostedBlock::Posted(ring.copy(team, own.values())?);
        Ok(ring)
    }

    /// The same, and every block is copied before it is sent and after it has arrived.
    pub(crate) fn copying(team: &mut AppTeam, own: MatrixColumns) -> Result<Self, AppError> {
        let size = own.size();
        let pool = memory(team, size, BUFFERS)?;
        let vis = if team.size() > 1 { Some(connect(team)?) } else { None };
        let own = PostedBlock::Copied(Rc::new(own.into_values()));
        Ok(Self { own, size, pool, spare: RefCell::default(), vis })
    }

    fn take(&self, team: &AppTeam, count: usize) -> Result<Typed<f64>, AppError> {
        self.pool.take_typed(count).map_err(|why| here(team, &why))
    }

    fn copy(&self, team: &AppTeam, block: &[f64]) -> Result<Shared<f64>, AppError> {
        let mut memory = self.take(team, block.len())?;
        memory.copy_from_slice(block);
        Ok(memory.share())
    }

    /// Posts a receive for the block of a step, if there is one.
    fn expect(&self, team: &AppTeam, left: &Vi, step: u32) -> Result<(), AppError> {
        if step >= team.size() {
            return Ok(());
        }
        let count = columns(self.size, whose(team, step), team.size()).len() * self.size;
        let memory = self.take(team, count)?;
        let posted = left.post_recv(Descriptor::typed(memory));
        posted.map(drop).map_err(|why| beside(team, false, &why))
    }

    fn send(&self, team: &AppTeam, right: &Vi, block: &PostedBlock) -> Result<(), AppError> {
        let memory = match block {
            PostedBlock::Posted(shared) => shared.clone(),
            PostedBlock::Copied(values) => self.copy(team, values)?,
        };
        let posted = right.post_send(Descriptor::shared(memory));
        posted.map(drop).map_err(|why| beside(team, true, &why))
    }

    /// The next block, when it has arrived and the last one is sent: then its memory is
    /// free for another.
    fn receive(
        &self,
        team: &AppTeam,
        (left, right): &(Vi, Vi),
        last: PostedBlock,
    ) -> Result<PostedBlock, AppError> {
        let arrived = wait(team, false, left.recv_queue())?;
        drop(wait(team, true, right.send_queue())?);
        let arrived = arrived.into_typed::<f64>().map_err(|why| beside(team, false, &why))?;
        Ok(match last {
            PostedBlock::Posted(_) => PostedBlock::Posted(arrived.share()),
            PostedBlock::Copied(last) => {
                let mut values = Rc::try_unwrap(last).unwrap_or_else(|_| self.spare.take());
                values.clear();
                values.extend_from_slice(&arrived);
                PostedBlock::Copied(Rc::new(values))
            }
        })
    }
}

impl BlockRing for PostedRing {
    fn around(
        &mut self,
        team: &AppTeam,
        each: &mut dyn FnMut(u32, &[f64]),
    ) -> Result<TrafficTotals, AppError> {
        let mut talk = TrafficTotals::default();
        let mut block = self.own.clone();
        let Some(vis) = &self.vis else {
            each(0, &block);
            return Ok(talk);
        };
        let began = rt::now();
        (1..=AHEAD).try_for_each(|step| self.expect(team, &vis.0, step))?;
        talk.time += rt::now() - began;
        for step in 0..team.size() - 1 {
            let began = rt::now();
            self.send(team, &vis.1, &block)?;
            talk.count(&block);
            talk.time += rt::now() - began;
            each(whose(team, step), &block);
            let began = rt::now();
            block = self.receive(team, vis, block)?;
            self.expect(team, &vis.0, step + 1 + AHEAD)?;
            talk.time += rt::now() - began;
        }
        each(whose(team, team.size() - 1), &block);
        if let PostedBlock::Copied(last) = block {
            self.spare.replace(Rc::into_inner(last).unwrap_or_default());
        }
        Ok(talk)
    }
}

/// Receives that are posted before what they are for is sent.
const AHEAD: u32 = 2;
/// Those, the own block, and the one that is computed with or a copy of it.
const BUFFERS: usize = AHEAD as usize + 2;

/// The left neighbour calls, the right one is called.
fn connect(team: &mut AppTeam) -> Result<(Vi, Vi), AppError> {
    let (left, right) = neighbours(team);
    let (from, to) =
        (team.node().route(team.member(left))?, team.node().route(team.member(right))?);
    let options = ViOptions::default();
    let listener = from.links.nic().listen(SERVICE, 0, &options);
    let listener = listener.map_err(|why| here(team, &why))?;
    team.barrier()?;
    let deadline = team.node().deadline();
    let connecting = to.links.nic().connect(&to.address(SERVICE, 0), &options, deadline);
    let accepted = loop {
        let vi = listener.wait_accept(deadline).map_err(|why| beside(team, false, &why))?;
        if from.is_with(&vi) {
            break vi;
        }
    };
    let connected = to.links.nic().block_on(connecting);
    let connected = connected.map_err(|why| beside(team, true, &why))?;
    Ok((accepted, connected))
}

fn wait(team: &AppTeam, right: bool, queue: &CompletionQueue) -> Result<Completion, AppError> {
    let waited = queue.wait(Deadline::UntilDead).map_err(|why| beside(team, right, &why))?;
    waited.ok().map_err(|why| beside(team, right, &why))
}

/// Something went wrong with a neighbour, which may be gone.
fn beside(team: &AppTeam, right: bool, why: &dyn StdError) -> AppError {
    let neighbours = neighbours(team);
    let rank = if right { neighbours.1 } else { neighbours.0 };
    team.gone(rank).unwrap_or_else(|| AppError::Peer { rank, why: why.to_string() })
}

const SERVICE: &str = "pmm";
