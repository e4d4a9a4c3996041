//! The graphs of one name that a node sends and receives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use egret_net::buf::Kind;
use egret_net::sync::Mutex;
use egret_net::vi::Segment;
use egret_node::node::{self, Handle};

use super::address::{Address, gone};
use super::bell::Bell;
use super::inbox::{Inbox, Memory};
use super::line::{Failed, Line};
use super::{GraphError, GraphsOptions, Source};
use crate::shelf::Shelf;

/// The graphs of one name that a node sends and receives.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) handle: Handle,
    pub(super) bytes_max: u64,
    pub(super) bell: Arc<Bell>,
    name: String,
    fingerprint: u64,
    inbox: Shelf<Inbox>,
    /// What this node has sent to itself.
    own: Mutex<VecDeque<Segment>>,
    lines: Mutex<BTreeMap<u32, Arc<Line>>>,
    is_closed: AtomicBool,
}

/// The graphs of a node, to be closed with it.
#[derive(Debug, Default)]
struct Part(Mutex<Vec<Weak<Mail>>>);

impl Mail {
    /// Takes graphs of a kind from now on; nobody knows yet.
    pub(super) fn open(
        handle: &Handle,
        kind: &Kind,
        options: GraphsOptions,
    ) -> Result<Arc<Self>, GraphError> {
        let GraphsOptions { name, bytes_max } = options;
        let name = name.unwrap_or_else(|| kind.name.to_string());
        let bell = Arc::<Bell>::default();
        let inbox = Shelf::new(Inbox::open(handle, &name, bytes_max)?, Arc::clone(&bell).into());
        let mail = Arc::new(Self {
            handle: handle.clone(),
            bytes_max,
            bell,
            name,
            fingerprint: kind.fingerprint,
            inbox,
            own: Mutex::default(),
            lines: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let part = handle.part(Part::default);
        let mut all = part.0.lock();
        all.retain(|mail| mail.strong_count() > 0);
        all.push(Arc::downgrade(&mail));
        Ok(mail)
    }

    /// The name and the bytes by which the registry tells others.
    pub(super) fn bound(&self) -> (String, [u8; 16]) {
        let name = Address::bound_name(&self.name, self.handle.rank());
        (name, Address::bound_bytes(self.fingerprint, self.bytes_max))
    }

    /// Takes and receives nothing any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.inbox.close();
        Arc::clone(&self.bell).wake();
    }

    /// The line to a rank; none if that is this node.
    pub(super) fn line(&self, rank: u32) -> Result<Option<Arc<Line>>, GraphError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(GraphError::Closed);
        }
        self.check(rank)?;
        if rank == self.handle.rank() {
            return Ok(None);
        }
        let mut lines = self.lines.lock();
        let line = lines.entry(rank).or_insert_with(|| {
            let (handle, name) = (self.handle.clone(), self.name.clone());
            let (fingerprint, is_known) = (self.fingerprint, Arc::default());
            let address = Address { handle, rank, name, fingerprint, is_known };
            Line::new(address, &self.bell)
        });
        Ok(Some(Arc::clone(line)))
    }

    /// Keeps a graph for this node itself.
    pub(super) fn keep(&self, memory: Segment) -> Result<(), Failed> {
        let (rank, bytes, most) = (self.handle.rank(), memory.len(), self.bytes_max);
        if bytes > most {
            let (why, memory) = (GraphError::TooLarge { rank, bytes, most }, Some(memory.into()));
            return Err(Failed { why, memory });
        }
        self.own.lock().push_back(memory);
        Arc::clone(&self.bell).wake();
        Ok(())
    }

    /// Goes on with all that was posted.
    pub(super) fn pump(&self) {
        let lines: Vec<_> = self.lines.lock().values().cloned().collect();
        lines.iter().for_each(|line| line.pump());
    }

    /// The next graph from there, with its sender's rank.
    pub(super) fn poll_take(&self, from: Source) -> Poll<Result<(Memory, u32), GraphError>> {
        self.pump();
        if let Source::Rank(rank) = from {
            self.check(rank)?;
        }
        let rank = self.handle.rank();
        if from.is(rank)
            && let Some(memory) = self.own.lock().pop_front()
        {
            return Poll::Ready(Ok((Memory::Own(memory), rank)));
        }
        if self.is_closed.load(Ordering::SeqCst) {
            return Poll::Ready(Err(GraphError::Closed));
        }
        // Asked before: who is gone by now has opened all its channels, and what came by them
        // counts.
        let gone = self.gone(from);
        let Some(mut inbox) = self.inbox.take() else { return Poll::Pending };
        let bell = Waker::from(Arc::clone(&self.bell));
        match inbox.poll(&self.handle, from, &mut Context::from_waker(&bell)) {
            Poll::Ready(Ok(came)) => Poll::Ready(Ok(came)),
            Poll::Ready(Err((rank, why))) => {
                let link_says = || GraphError::Gone { rank, why: why.to_string() };
                Poll::Ready(Err(gone.or_else(|| self.gone(from)).unwrap_or_else(link_says)))
            }
            Poll::Pending if inbox.is_open(from) => Poll::Pending,
            Poll::Pending => gone.map_or(Poll::Pending, |why| Poll::Ready(Err(why))),
        }
    }

    /// Why nothing can come from there any more.
    fn gone(&self, from: Source) -> Option<GraphError> {
        let (own, size) = (self.handle.rank(), self.handle.size());
        match from {
            Source::Rank(rank) => {
                let fate = gone(&self.handle, rank)?;
                Some(GraphError::Gone { rank, why: fate.why().to_owned() })
            }
            Source::Any if size == 1 => None,
            Source::Any => {
                let mut others = (0..size).filter(|rank| *rank != own);
                others.all(|rank| gone(&self.handle, rank).is_some()).then_some(GraphError::AllGone)
            }
        }
    }

    fn check(&self, rank: u32) -> Result<(), GraphError> {
        let size = self.handle.size();
        if rank < size { Ok(()) } else { Err(GraphError::NoSuchRank { rank, size }) }
    }
}

impl node::Part for Part {}

impl Drop for Part {
    fn drop(&mut self) {
        let all = std::mem::take(self.0.get_mut());
        all.iter().filter_map(Weak::upgrade).for_each(|mail| mail.close());
    }
}
