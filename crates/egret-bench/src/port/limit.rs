//! What a stream of trees is held against.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use egret::buf::{Buf, Pool};
use egret::rt;
use egret::wire;

use crate::measure::{Probe, Sample};
use crate::serialize::values::{NODES, TreeNode, nodes};
use crate::side::mark;

/// The slowest of three that a stream of trees goes through, each alone: the tree written to memory, its bytes over the
/// virtual interface, and the tree read there.
pub(crate) struct SlowestPart<P> {
    bytes: P,
    tree: TreeNode,
    buf: Buf,
    round: u64,
}

impl<P: Probe> SlowestPart<P> {
    /// `bytes` is the probe of messages of `len` bytes, as many as the tree has.
    pub(crate) fn new(bytes: P, len: usize) -> Result<Self> {
        let tree = *nodes(NODES).context("it has nodes")?;
        Ok(Self { bytes, tree, buf: Pool::new(len, 1)?.take(len)?, round: 0 })
    }

    /// The time to write so many trees.
    fn write(&mut self, rounds: u64) -> Result<Duration> {
        let start = rt::now();
        for _ in 0..rounds {
            self.round += 1;
            self.tree.set_mark(mark(self.round));
            wire::write(black_box(&self.tree), self.buf.bytes_mut())?;
        }
        Ok(rt::now() - start)
    }

    /// The time to read so many trees; they are dropped while the clock is stopped.
    fn read(&self, rounds: u64) -> Result<Duration> {
        let mut took = Duration::ZERO;
        for _ in 0..rounds {
            let start = rt::now();
            let read: TreeNode = wire::read(black_box(self.buf.bytes()))?;
            took += rt::now() - start;
            ensure!(read.mark() == self.tree.mark(), "a tree was read that was not written");
        }
        Ok(took)
    }
}

impl<P: Probe> Probe for SlowestPart<P> {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let Sample::Total(sent) = self.bytes.run(rounds)? else {
            bail!("messages one way have a time");
        };
        let wrote = self.write(rounds)?;
        Ok(Sample::Total(sent.max(wrote).max(self.read(rounds)?)))
    }
}
