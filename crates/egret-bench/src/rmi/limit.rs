//! What a remote call is held against, where that is more than a message.

use std::hint::black_box;

use crate::limit::Stopwatch;
use anyhow::{Context, Result, bail};
use egret::buf::{Buf, Pool};
use egret::wire::{self, Writer};

use crate::measure::{Probe, Sample};
use crate::serialize::values::{NODES, TreeNode, nodes};
use crate::side::mark;

/// A message, and besides that the writing and the reading of a tree that is as long.
pub(crate) struct WithTree<P> {
    message: P,
    tree: TreeNode,
    buf: Buf,
    round: u64,
}

impl<P: Probe> WithTree<P> {
    /// `message` makes the probe of a message of so many bytes.
    pub(crate) fn new(message: impl FnOnce(usize) -> Result<P>) -> Result<Self> {
        let tree = *nodes(NODES).context("it has nodes")?;
        let len = tree_bytes()?;
        let buf = Pool::new(len, 1)?.take(len)?;
        Ok(Self { message: message(len)?, tree, buf, round: 0 })
    }

    fn write_and_read(&mut self) -> Result<f64> {
        self.round += 1;
        self.tree.set_mark(mark(self.round));
        let start = Stopwatch::start();
        wire::write(black_box(&self.tree), self.buf.bytes_mut())?;
        let wrote = start.nanos();
        let start = Stopwatch::start();
        let read: TreeNode = wire::read(black_box(self.buf.bytes()))?;
        let took = start.nanos();
        if read.mark() != self.tree.mark() {
            bail!("a tree was read that was not written");
        }
        Ok(wrote + took)
    }
}

impl<P: Probe> Probe for WithTree<P> {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let Sample::Times(mut times) = self.message.run(rounds)? else {
            bail!("a message there and one back has a time");
        };
        for time in &mut times {
            *time += self.write_and_read()?;
        }
        Ok(Sample::Times(times))
    }
}

/// The bytes of the tree.
pub(crate) fn tree_bytes() -> Result<usize> {
    let tree = nodes(NODES).context("it has nodes")?;
    let mut writer = Writer::new();
    writer.write(&*tree)?;
    Ok(writer.len())
}
