//! Around the ring by remote calls.

use std::sync::Arc;

use egret::buf::{MemoryError, Pool, Shared};
use egret::prelude::*;
use egret::rt;
use egret::wire::Wire;

use super::{BlockRing, here, memory, neighbours, whose};
use crate::AppError;
use crate::fault::{Fault, planted};
use crate::pmm::matrix::MatrixColumns;
use crate::rounds::TrafficTotals;
use crate::slots::{Ahead, NumberedSlots};
use crate::team::{AppTeam, failed};

/// Where the left neighbour puts blocks.
#[egret::remote]
pub(crate) trait BlockReceiver {
    /// Nothing: a stub connects when it is called first, and calls that are only begun
    /// should find it connected.
    #[nonblocking]
    fn connect(&self);

    /// Takes a block as soon as there is room: the caller is at most two ahead.
    fn put_block(&self, number: u32, block: &[f64]) -> Result<(), BlockRefused>;
}

/// A block that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire, thiserror::Error)]
pub(crate) enum BlockRefused {
    /// The block is not the next one.
    #[error(transparent)]
    Ahead(#[from] Ahead),
    /// The block is too large, or there was no room in time.
    #[error("there is no memory for a block of {values} values")]
    NoMemory {
        /// How many it has.
        values: u64,
    },
}

struct ReceivedBlocks {
    pool: Pool,
    arrived: Arc<NumberedSlots<Shared<f64>>>,
}

#[egret::remote]
impl BlockReceiver for ReceivedBlocks {
    fn connect(&self) {}

    fn put_block(&self, number: u32, block: &[f64]) -> Result<(), BlockRefused> {
        let deadline = egret::rmi::current().map_or(Deadline::DEFAULT, |call| call.deadline());
        let values = block.len() as u64;
        let kept =
            kept(&self.pool, block, deadline).map_err(|_| BlockRefused::NoMemory { values })?;
        Ok(self.arrived.wait_put(number, &kept, deadline)?)
    }
}

/// A copy of a block in memory that is used again and again, and sent on from there.
fn kept(pool: &Pool, block: &[f64], deadline: Deadline) -> Result<Shared<f64>, MemoryError> {
    let buf = pool.wait_take(size_of_val(block), deadline)?;
    let mut memory = buf.typed::<f64>().expect("buffers are aligned, and this one is whole");
    memory.copy_from_slice(block);
    Ok(memory.share())
}

/// The neighbours, as objects.
#[derive(Debug)]
pub(crate) struct CalledRing {
    own: Shared<f64>,
    right: BlockReceiverStub,
    arrived: Arc<NumberedSlots<Shared<f64>>>,
    sent: u32,
    _station: Exported,
}

impl CalledRing {
    /// Lets the left neighbour find this process, and finds the right one.
    pub(crate) fn new(team: &mut AppTeam, own: &MatrixColumns) -> Result<Self, AppError> {
        let pool = memory(team, own.size(), BUFFERS)?;
        let own = kept(&pool, own.values(), team.node().deadline());
        let own = own.map_err(|why| here(team, &why))?;
        let arrived = Arc::<NumberedSlots<_>>::default();
        let how = Export::default().bytes_max(super::BLOCK_MAX);
        let object = Box::new(ReceivedBlocks { pool, arrived: Arc::clone(&arrived) });
        let station = team.node().export_as::<dyn BlockReceiver>(object, how)?;
        station.bind(&format!("station.{}", team.rank()))?;
        // No process finds the station of a ring before this one.
        team.barrier()?;
        let (_, rank) = neighbours(team);
        let right: BlockReceiverStub = team.find("station", rank)?;
        right.connect().map_err(|why| failed(rank, why))?;
        Ok(Self { own, right, arrived, sent: 0, _station: station })
    }
}

impl BlockRing for CalledRing {
    fn around(
        &mut self,
        team: &AppTeam,
        each: &mut dyn FnMut(u32, &[f64]),
    ) -> Result<TrafficTotals, AppError> {
        let (left, right) = neighbours(team);
        let mut talk = TrafficTotals::default();
        let mut block = self.own.clone();
        for step in 0..team.size() {
            let began = rt::now();
            let last = step + 1 == team.size();
            let sending = (!last).then(|| {
                talk.count(&block);
                let number = self.sent;
                self.sent = number.wrapping_add(1);
                self.right.begin().put_block(number, sent(&block))
            });
            talk.time += rt::now() - began;
            each(whose(team, step), &block);
            let began = rt::now();
            if let Some(sending) = sending {
                team.wait_ready(left, &self.arrived, team.node().deadline())?;
                sending.wait().map_err(|why| failed(right, why))?;
                block = self.arrived.take_out().expect("it is ready, and nobody else takes it");
            }
            talk.time += rt::now() - began;
        }
        Ok(talk)
    }
}

/// What is sent of a block: itself, while it is computed with.
fn sent(block: &Shared<f64>) -> Shared<f64> {
    if planted(Fault::WrongBlock) {
        return changed(block);
    }
    block.clone()
}

/// Another with one value changed.
#[cold]
fn changed(block: &[f64]) -> Shared<f64> {
    let pool = Pool::new(size_of_val(block), 1).expect("memory for a block");
    let mut memory = pool.take_typed::<f64>(block.len()).expect("the only one");
    memory.copy_from_slice(block);
    memory[block.len() / 2] += 1.0;
    memory.share()
}

/// The own block, the one that is computed with, two that have arrived, one that waits for
/// its place, and one that was sent and is not given back yet.
const BUFFERS: usize = 6;
