//! The carrier over a lossy fabric: one connection, and the window that makes three lanes
//! of it.

use std::fmt;
use std::sync::Arc;

use egret_net::rt::Instant;
use egret_net::vi::{Completion, Descriptor, Landing, OpKind, Vi};

use super::Head;
use super::arrived::Arrived;
use super::window::{Lie, Pace, Terms, Window};

/// One connection of a lossy fabric, and its window.
pub(crate) struct Windowed {
    pub(crate) vi: Vi,
    pub(crate) window: Window,
    /// Memory of datagrams, to be used again.
    spare: Vec<Vec<u8>>,
    under_way: u32,
    depth: u32,
    /// Whether a datagram was not taken.
    pub(crate) refused: bool,
}

impl Windowed {
    /// A link of this number over a connection that has its receives.
    pub(crate) fn new(vi: Vi, link: u64, landing: Arc<dyn Landing>) -> Self {
        let depth = vi.nic().limits().queue_depth;
        let window = Window::new(terms(link), landing);
        Self { vi, window, spare: Vec::new(), under_way: 0, depth, refused: false }
    }

    /// Sends the datagrams that are due.
    pub(crate) fn flush(&mut self, now: Instant) {
        while self.under_way < self.depth {
            let mut datagram = self.spare.pop().unwrap_or_default();
            if !self.window.poll_datagram(now, &mut datagram) {
                self.spare.push(datagram);
                return;
            }
            if self.vi.post_send(Descriptor::new(datagram)).is_err() {
                self.refused = true;
                return;
            }
            self.under_way += 1;
        }
    }

    /// Takes what completed on the connection.
    ///
    /// # Errors
    ///
    /// What no honest peer sends.
    pub(crate) fn completed(&mut self, now: Instant, completion: Completion) -> Result<(), Lie> {
        if completion.op == OpKind::Recv {
            let heard = self.window.hear(now, completion.bytes());
            drop(self.vi.post_recv(completion.into_descriptor()));
            return heard;
        }
        self.under_way -= 1;
        if self.spare.len() < SPARE_MAX {
            self.spare.push(completion.into_vec());
        }
        Ok(())
    }

    /// The next frame that has arrived, or is none.
    pub(crate) fn poll_arrived(&mut self) -> Option<Result<Arrived, &'static str>> {
        let arrived = self.window.poll_arrived()?;
        let head = Head::from_bits(arrived.tag).ok_or("a frame of no kind");
        let memory = arrived.memory;
        Some(head.and_then(|head| {
            if head.kind.lane() != arrived.lane {
                return Err("a frame on the wrong lane");
            }
            Ok(Arrived::from_parts(head, memory.landed, memory.rest))
        }))
    }

    /// Acknowledges now what else could wait a little.
    pub(crate) fn acknowledge(&mut self, now: Instant) {
        self.window.acknowledge(now);
        self.flush(now);
    }
}

/// Posts what a connection receives into.
pub(crate) fn post_datagrams(vi: &Vi, count: u32) {
    for _ in 0..count {
        drop(vi.post_recv(Descriptor::new(vec![0_u8; DATAGRAM])));
    }
}

/// What both ends of a link go by.
fn terms(link: u64) -> Terms {
    let (messages, bytes) = (Terms::MESSAGES_MAX, u64::from(Terms::MESSAGES_MAX) * DATAGRAM as u64);
    Terms { link, messages, bytes, datagram: DATAGRAM, pace: Pace::default() }
}

impl fmt::Debug for Windowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windowed").field("vi", &self.vi).finish_non_exhaustive()
    }
}

/// Bytes of a datagram: with the fabric's own heads it fits the 1,500 of an Ethernet frame,
/// so that a frame that is lost loses one datagram.
const DATAGRAM: usize = 1400;
const SPARE_MAX: usize = 64;
