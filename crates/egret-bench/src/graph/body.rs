//! What `egret bench graph` sends from one process to another: graphs, and bytes that the
//! receiver does not read.

use anyhow::{Result, anyhow};
use egret::buf::{Buf, Kind, Plain, flat};
use egret::vi::Vi;

use super::map::{Crossroads, Road, Town, Tree, grow};
use super::shape::GraphShape;
use super::walk::{Walk, over_graph};
use crate::side::PATIENCE;
use crate::stream::graph::{Graph, Object, Ref};

/// Something that can be told from what was sent before.
pub(crate) trait GraphBody: Sized {
    fn mark(&mut self, round: u64);
    fn has_mark(&self, round: u64) -> bool;
    /// Of all that is in it but for the mark.
    fn sum(&self) -> f64;
}

/// One on the heap, received into fresh memory.
pub(crate) trait OnHeap: GraphBody {
    fn send(&self, vi: &Vi, round: u64) -> Result<()>;
    fn recv(vi: &Vi, bytes_max: usize) -> Result<(Self, u64)>;
}

/// One in a buffer of a pool.
pub(crate) trait InPool: GraphBody {
    fn kind() -> Kind;
    fn into_buf(self) -> Result<Buf>;
    fn from_buf(buf: Buf) -> Result<Self>;
}

/// A root with a number by which its graph can be told from others.
pub(crate) trait Root: Object {
    /// Makes the objects; there is room for these and no others.
    fn fill(which: GraphShape, graph: &mut Graph<Self>) -> Ref<Self>;
    fn mark(&mut self, round: u64);
    fn has_mark(&self, round: u64) -> bool;
    /// Over all objects that can be visited, without the mark.
    fn sum(graph: &Graph<Self>) -> f64;
}

impl Root for Town {
    fn fill(which: GraphShape, graph: &mut Graph<Self>) -> Ref<Self> {
        let map = which.map().expect("a map");
        graph.reserve::<Town>(map.towns);
        graph.reserve::<Crossroads>(map.crossroads);
        graph.reserve::<Road>(map.roads.len());
        map.make(graph).0[0]
    }

    fn mark(&mut self, round: u64) {
        self.y = number(round);
    }

    fn has_mark(&self, round: u64) -> bool {
        self.y.to_bits() == number(round).to_bits()
    }

    fn sum(graph: &Graph<Self>) -> f64 {
        let objects = graph.len::<Town>() + graph.len::<Crossroads>() + graph.len::<Road>();
        Walk::new(objects).visit(graph)
    }
}

impl Root for Tree {
    fn fill(which: GraphShape, graph: &mut Graph<Self>) -> Ref<Self> {
        graph.reserve::<Tree>(which.objects());
        grow(graph, which.objects())
    }

    fn mark(&mut self, round: u64) {
        self.values[1] = number(round).to_bits().cast_signed();
    }

    fn has_mark(&self, round: u64) -> bool {
        self.values[1] == number(round).to_bits().cast_signed()
    }

    fn sum(graph: &Graph<Self>) -> f64 {
        over_graph(graph, &mut Vec::new()) as f64
    }
}

impl<R: Root> GraphBody for Graph<R> {
    fn mark(&mut self, round: u64) {
        self.root_mut().mark(round);
    }

    fn has_mark(&self, round: u64) -> bool {
        self.root().has_mark(round)
    }

    fn sum(&self) -> f64 {
        R::sum(self)
    }
}

/// A number that is exact.
fn number(round: u64) -> f32 {
    (round % (1 << 20)) as f32
}

impl<R: Root> OnHeap for Graph<R> {
    fn send(&self, vi: &Vi, round: u64) -> Result<()> {
        Ok(Self::send(self, vi, round, PATIENCE)?)
    }

    fn recv(vi: &Vi, bytes_max: usize) -> Result<(Self, u64)> {
        Ok(Self::recv(vi, bytes_max, PATIENCE)?)
    }
}

impl<R: Root> InPool for Graph<R> {
    fn kind() -> Kind {
        Self::kind()
    }

    fn into_buf(self) -> Result<Buf> {
        self.into_segment().into_buf().map_err(|_| anyhow!("it does not lie in a pool"))
    }

    fn from_buf(buf: Buf) -> Result<Self> {
        Ok(Self::from_buf(buf).map_err(|refused| refused.why)?)
    }
}

impl GraphBody for Vec<u64> {
    fn mark(&mut self, round: u64) {
        self[0] = round;
    }

    fn has_mark(&self, round: u64) -> bool {
        self[0] == round
    }

    fn sum(&self) -> f64 {
        self[1..].iter().sum::<u64>() as f64
    }
}

impl OnHeap for Vec<u64> {
    fn send(&self, vi: &Vi, round: u64) -> Result<()> {
        Ok(vi.send_pieces(&[flat::bytes_of(self)], u64::kind(), round, PATIENCE)?)
    }

    fn recv(vi: &Vi, bytes_max: usize) -> Result<(Self, u64)> {
        Ok(vi.recv_of(u64::kind(), bytes_max as u64, PATIENCE)?)
    }
}

impl GraphBody for Buf {
    fn mark(&mut self, round: u64) {
        self.bytes_mut()[..8].copy_from_slice(&round.to_le_bytes());
    }

    fn has_mark(&self, round: u64) -> bool {
        self.bytes().starts_with(&round.to_le_bytes())
    }

    fn sum(&self) -> f64 {
        self.bytes()[8..].iter().map(|byte| f64::from(*byte)).sum()
    }
}

impl InPool for Buf {
    fn kind() -> Kind {
        u64::kind()
    }

    fn into_buf(self) -> Result<Buf> {
        Ok(self)
    }

    fn from_buf(buf: Buf) -> Result<Self> {
        Ok(buf)
    }
}
