//! How the blocks of the left factor go around.

mod posted;
mod remote;

use std::error::Error as StdError;
use std::ops::Range;

pub(crate) use posted::PostedRing;
pub(crate) use remote::CalledRing;

use egret::buf::Pool;

use crate::AppError;
use crate::fault::{Fault, planted};
use crate::rounds::TrafficTotals;
use crate::team::AppTeam;

/// A way around the ring: every process gives its block to the right and gets the next
/// one from the left, until it has had all of them.
pub(crate) trait BlockRing {
    /// Goes around once, and shows every block to `each`, by whose it is.
    fn around(
        &mut self,
        team: &AppTeam,
        each: &mut dyn FnMut(u32, &[f64]),
    ) -> Result<TrafficTotals, AppError>;
}

/// The columns of a process.
pub(crate) fn columns(size: usize, rank: u32, processes: u32) -> Range<usize> {
    let first = |rank: u32| size * rank as usize / processes as usize;
    first(rank)..first(rank + 1)
}

/// The neighbours of a process: left and right.
pub(crate) fn neighbours(team: &AppTeam) -> (u32, u32) {
    let (rank, size) = (team.rank(), team.size());
    ((rank + size - 1) % size, (rank + 1) % size)
}

/// Whose block it is that a process has in a step.
pub(crate) fn whose(team: &AppTeam, step: u32) -> u32 {
    let step = if planted(Fault::OtherBlock) && step > 0 { step + 1 } else { step };
    (team.rank() + 2 * team.size() - step) % team.size()
}

/// Memory for so many blocks of the columns of a matrix. All of it is used once, so that the
/// system has given it before blocks go around.
fn memory(team: &AppTeam, size: usize, blocks: usize) -> Result<Pool, AppError> {
    let values = size.div_ceil(team.size() as usize) * size;
    let pool = Pool::new(values * size_of::<f64>(), blocks).map_err(|why| here(team, &why))?;
    let all: Result<Vec<_>, _> = (0..blocks).map(|_| pool.take_typed::<f64>(values)).collect();
    all.map_err(|why| here(team, &why))?.iter_mut().for_each(|block| block.fill(0.0));
    Ok(pool)
}

/// Something went wrong at this process.
fn here(team: &AppTeam, why: &dyn StdError) -> AppError {
    AppError::Peer { rank: team.rank(), why: why.to_string() }
}

/// Bytes of a block at most.
pub(crate) const BLOCK_MAX: u64 = 160 << 20;
