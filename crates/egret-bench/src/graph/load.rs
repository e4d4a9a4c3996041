//! The ways in which `egret bench graph` sends something from one process to another.

use anyhow::{Context, Result, ensure};
use egret::buf::{Buf, Pool};
use egret::vi::{Descriptor, Vi};
use serde::{Deserialize, Serialize};

use super::body::{GraphBody, InPool, OnHeap, Root};
use super::map::{Town, Tree};
use super::shape::GraphShape;
use crate::side::PATIENCE;
use crate::stream::graph::{Graph, GraphTrust};

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cargo {
    /// A graph on the heap, gathered from there and received into fresh memory.
    Fresh(TripContent),
    /// One in a pool, received into a buffer of a pool.
    Posted(TripContent),
    /// One in a pool, handed over and back.
    Handed,
}

/// A graph, or for comparison as many bytes that the receiver does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TripContent {
    Graph,
    Bytes,
}

/// One side's part in a trip.
pub(crate) trait TripLoad {
    /// Gets ready to receive.
    fn begin(&mut self, vi: &Vi) -> Result<()>;
    /// Writes what tells this round from others.
    fn rewrite(&mut self, round: u64) -> Result<()>;
    fn send(&mut self, vi: &Vi, round: u64) -> Result<()>;
    /// Receives it, up to the moment in which it can be used, and looks at it.
    fn take(&mut self, vi: &Vi, round: u64) -> Result<()>;
    /// Of all that is in what was sent or received last.
    fn sum(&self) -> f64;
    /// Gives back what the round has used.
    fn settle(&mut self, vi: &Vi) -> Result<()>;
    /// Whether it is sent back, rather than answered.
    fn comes_back(&self) -> bool {
        false
    }
}

/// The load of one side; a message has so many bytes.
pub(crate) fn of(
    which: GraphShape,
    cargo: Cargo,
    bytes: usize,
    is_sender: bool,
) -> Result<Box<dyn TripLoad>> {
    match which {
        GraphShape::Tree1023 => of_root::<Tree>(which, cargo, bytes, is_sender),
        _ => of_root::<Town>(which, cargo, bytes, is_sender),
    }
}

fn of_root<R: Root>(
    which: GraphShape,
    cargo: Cargo,
    bytes: usize,
    is_sender: bool,
) -> Result<Box<dyn TripLoad>> {
    let pool = Pool::builder().class(bytes, BUFFERS);
    let in_pool = |pool: &Pool| {
        let make = || Graph::<R>::build_in(pool, bytes, |graph| R::fill(which, graph));
        is_sender.then(make).transpose()
    };
    Ok(match cargo {
        Cargo::Fresh(TripContent::Graph) => {
            let make = || Graph::<R>::build(|graph| R::fill(which, graph));
            Box::new(Fresh { mine: is_sender.then(make), got: None, bytes })
        }
        Cargo::Fresh(TripContent::Bytes) => {
            let make = || vec![1_u64; bytes / size_of::<u64>()];
            Box::new(Fresh { mine: is_sender.then(make), got: None, bytes })
        }
        Cargo::Posted(TripContent::Graph) => {
            let pool = pool.shareable().build()?;
            Box::new(PostedLoad { held: in_pool(&pool)?, pool, bytes })
        }
        Cargo::Posted(TripContent::Bytes) => {
            let pool = pool.shareable().build()?;
            let held: Option<Buf> = is_sender.then(|| pool.take(bytes)).transpose()?;
            Box::new(PostedLoad { held, pool, bytes })
        }
        Cargo::Handed => {
            let pool = pool.cooperating().build()?;
            let held = in_pool(&pool)?;
            Box::new(HandedLoad { held, _pool: pool, bytes, leads: is_sender })
        }
    })
}

struct Fresh<B> {
    mine: Option<B>,
    got: Option<B>,
    bytes: usize,
}

impl<B: OnHeap> TripLoad for Fresh<B> {
    fn begin(&mut self, _: &Vi) -> Result<()> {
        Ok(())
    }

    fn rewrite(&mut self, round: u64) -> Result<()> {
        self.mine.as_mut().context(NOTHING)?.mark(round);
        Ok(())
    }

    fn send(&mut self, vi: &Vi, round: u64) -> Result<()> {
        self.mine.as_ref().context(NOTHING)?.send(vi, round)
    }

    fn take(&mut self, vi: &Vi, round: u64) -> Result<()> {
        let (got, tag) = B::recv(vi, self.bytes)?;
        ensure!(tag == round && got.has_mark(round), "it is another than is due");
        self.got = Some(got);
        Ok(())
    }

    fn sum(&self) -> f64 {
        self.got.as_ref().or(self.mine.as_ref()).map_or(0.0, B::sum)
    }

    fn settle(&mut self, vi: &Vi) -> Result<()> {
        self.got = None;
        reap(vi)
    }
}

struct PostedLoad<B> {
    held: Option<B>,
    pool: Pool,
    bytes: usize,
}

impl<B: InPool> PostedLoad<B> {
    fn post(&self, vi: &Vi) -> Result<()> {
        vi.post_recv(Descriptor::new(self.pool.take(self.bytes)?).of_kind(B::kind()))?;
        Ok(())
    }
}

impl<B: InPool> TripLoad for PostedLoad<B> {
    fn begin(&mut self, vi: &Vi) -> Result<()> {
        if self.held.is_none() { self.post(vi) } else { Ok(()) }
    }

    fn rewrite(&mut self, round: u64) -> Result<()> {
        self.held.as_mut().context(NOTHING)?.mark(round);
        Ok(())
    }

    fn send(&mut self, vi: &Vi, round: u64) -> Result<()> {
        let buf = self.held.take().context(NOTHING)?.into_buf()?;
        vi.post_send(Descriptor::new(buf).of_kind(B::kind()).with_tag(round))?;
        Ok(())
    }

    fn take(&mut self, vi: &Vi, round: u64) -> Result<()> {
        let got = vi.recv_queue().wait(PATIENCE)?.ok()?;
        let tag = got.tag;
        let got = B::from_buf(got.into_buf())?;
        ensure!(tag == round && got.has_mark(round), "it is another than is due");
        self.held = Some(got);
        Ok(())
    }

    fn sum(&self) -> f64 {
        self.held.as_ref().map_or(0.0, B::sum)
    }

    /// The sender gets the graph back; the receiver makes room for the next.
    fn settle(&mut self, vi: &Vi) -> Result<()> {
        match self.held.take() {
            None => {
                let sent = vi.send_queue().wait(PATIENCE)?.ok()?;
                self.held = Some(B::from_buf(sent.into_buf())?);
                Ok(())
            }
            Some(_) => {
                self.post(vi)?;
                reap(vi)
            }
        }
    }
}

struct HandedLoad<R> {
    held: Option<Graph<R>>,
    _pool: Pool,
    bytes: usize,
    leads: bool,
}

impl<R: Root> HandedLoad<R> {
    fn post(&self, vi: &Vi) -> Result<()> {
        vi.post_recv(Descriptor::handed(self.bytes as u64))?;
        Ok(())
    }
}

impl<R: Root> TripLoad for HandedLoad<R> {
    fn begin(&mut self, vi: &Vi) -> Result<()> {
        self.post(vi)?;
        self.post(vi)
    }

    fn rewrite(&mut self, round: u64) -> Result<()> {
        self.held.as_mut().context(NOTHING)?.mark(round);
        Ok(())
    }

    fn send(&mut self, vi: &Vi, round: u64) -> Result<()> {
        let mut graph = self.held.take().context(NOTHING)?;
        if !self.leads {
            graph.mark(round + 1);
        }
        graph.hand_over(vi, round).map_err(|refused| refused.why)?;
        reap(vi)
    }

    fn take(&mut self, vi: &Vi, round: u64) -> Result<()> {
        let got = vi.recv_queue().wait(PATIENCE)?.ok()?;
        ensure!(got.tag == round, "it is another than is due");
        let graph = Graph::<R>::from_handed(got.into_handed(), vi, GraphTrust::SameProcessImage)
            .map_err(|refused| refused.why)?;
        ensure!(graph.buf().is_some(), "it was copied");
        // What comes back was changed there.
        let mark = if self.leads { round + 1 } else { round };
        ensure!(graph.has_mark(mark), "it is another than is due");
        self.held = Some(graph);
        Ok(())
    }

    fn sum(&self) -> f64 {
        self.held.as_ref().map_or(0.0, Graph::sum)
    }

    fn settle(&mut self, vi: &Vi) -> Result<()> {
        self.post(vi)?;
        reap(vi)
    }

    fn comes_back(&self) -> bool {
        true
    }
}

/// Takes back what was sent, as far as it was.
fn reap(vi: &Vi) -> Result<()> {
    while let Some(sent) = vi.send_queue().poll() {
        sent.done()?;
    }
    Ok(())
}

const NOTHING: &str = "there is nothing to send";
/// One that is sent, or two to receive into.
const BUFFERS: usize = 2;
