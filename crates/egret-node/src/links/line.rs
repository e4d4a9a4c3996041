//! One link: its machine, and what carries its frames.

use egret_net::vi::Descriptor;

use crate::link::carrier::Carrier;
use crate::link::machine::Machine;
use crate::link::{Head, Lane, LinkError};

/// A link: its machine, and what carries its frames.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) machine: Machine,
    pub(crate) carrier: Carrier,
    /// Which of the peer's lives it is with, once that is known.
    pub(crate) incarnation: Option<u64>,
    /// Which of all links it is.
    pub(crate) made: u64,
    /// Whether this side called.
    pub(crate) called: bool,
    /// Whether this side has said why it closes it.
    pub(crate) parts: bool,
    /// Why it is no more, if it is not.
    pub(crate) ended: Option<LinkError>,
}

impl Line {
    pub(crate) const fn new(machine: Machine, carrier: Carrier, called: bool) -> Self {
        let (incarnation, ended, parts, made) = (None, None, false, 0);
        Self { machine, carrier, incarnation, made, called, parts, ended }
    }

    /// Whether the peer called, and nothing is mapped by either side.
    pub(crate) fn is_unused(&self) -> bool {
        !self.called && self.machine.am.incoming.len() + self.machine.am.outgoing.len() == 0
    }

    /// Whether the peer has everything that was sent.
    pub(crate) fn is_through(&self) -> bool {
        self.machine.is_idle() && !self.machine.has_waiting() && self.carrier.is_through()
    }

    /// Sends a frame of words and bytes: now, or behind those that wait, which is to be
    /// [pumped](super::state::State::pump) then. Whether it has gone.
    #[inline]
    pub(crate) fn say(&mut self, head: Head, words: &[u64], bytes: &[u8]) -> bool {
        let mut space = [0; Head::WORDS_MAX * 8];
        let words = as_bytes(words, &mut space);
        let tag = head.to_bits();
        let has_gone = self.machine.is_quiet()
            && if bytes.is_empty() {
                self.carrier.send(tag, &[words])
            } else {
                self.carrier.send(tag, &[words, bytes])
            };
        if !has_gone {
            self.say_later(tag, &[words, bytes]);
        }
        has_gone
    }

    /// The same, of several pieces of bytes.
    pub(crate) fn say_pieces(&mut self, head: Head, words: &[u64], pieces: &[&[u8]]) -> bool {
        let mut space = [0; Head::WORDS_MAX * 8];
        let words = as_bytes(words, &mut space);
        let tag = head.to_bits();
        let has_gone = self.machine.is_quiet()
            && match pieces {
                [] => self.carrier.send(tag, &[words]),
                [bytes] => self.carrier.send(tag, &[words, bytes]),
                [a, b] => self.carrier.send(tag, &[words, a, b]),
                [a, b, c] => self.carrier.send(tag, &[words, a, b, c]),
                _ => false,
            };
        if !has_gone {
            self.say_later(tag, &[&[words], pieces].concat());
        }
        has_gone
    }

    #[cold]
    fn say_later(&mut self, tag: u64, parts: &[&[u8]]) {
        self.machine.push(Lane::Talk, Descriptor::new(parts.concat()).with_tag(tag));
    }

    /// Whether [`pump`](Self::pump) has something to do.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        !self.machine.is_idle() || !self.carrier.is_open()
    }

    /// Sends what there is room for. Whether short frames wait for more.
    pub(crate) fn pump(&mut self) -> bool {
        let mut waits = false;
        for lane in Lane::ALL {
            while let Some(frame) = self.machine.pop(lane) {
                if let Err(frame) = self.carrier.post(lane, frame) {
                    self.machine.unpop(lane, frame);
                    waits |= lane != Lane::Bulk;
                    break;
                }
            }
        }
        waits
    }
}

/// Words as they travel, at the beginning of `space`.
#[inline]
fn as_bytes<'a>(words: &[u64], space: &'a mut [u8; Head::WORDS_MAX * 8]) -> &'a [u8] {
    for (to, word) in space.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    &space[..words.len() * 8]
}
