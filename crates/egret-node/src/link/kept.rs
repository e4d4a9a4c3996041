//! Short frames that nothing answers, for as long as they may not have arrived.
//!
//! A request that is lost is known by its answer that does not come. A message that is not
//! answered is copied here when it is sent: if its link ends, its endpoint is told what has become
//! of it. The peer is asked seldom how far it is, for that takes a line away from it.

use std::collections::VecDeque;

use egret_net::vi::{Descriptor, Position};

/// The frames, one behind another.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    frames: VecDeque<Frame>,
    bytes: VecDeque<u8>,
}

#[derive(Debug)]
struct Frame {
    /// How far the lane was written with it.
    end: Position,
    tag: u64,
    len: usize,
}

impl Kept {
    /// Copies a frame that was sent.
    #[inline]
    pub(crate) fn push(&mut self, end: Position, tag: u64, parts: &[&[u8]]) {
        let before = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend(*part));
        self.frames.push_back(Frame { end, tag, len: self.bytes.len() - before });
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Forgets those that have arrived.
    pub(crate) fn arrived(&mut self, position: Position) {
        let count = self.frames.partition_point(|frame| frame.end <= position);
        let bytes: usize = self.frames.drain(..count).map(|frame| frame.len).sum();
        self.bytes.drain(..bytes);
    }

    /// A frame like this has come back: it has arrived, and all before it.
    pub(crate) fn came_back(&mut self, tag: u64, parts: &[&[u8]]) {
        let mut at = 0;
        let found = self.frames.iter().find(|frame| {
            let bytes = self.bytes.range(at..at + frame.len);
            at += frame.len;
            frame.tag == tag && bytes.eq(parts.iter().copied().flatten())
        });
        if let Some(Frame { end, .. }) = found {
            let end = *end;
            self.arrived(end);
        }
    }

    /// Takes out all, each as it would be posted.
    pub(crate) fn take_all(&mut self) -> Vec<Descriptor> {
        let Self { frames, bytes } = std::mem::take(self);
        let mut bytes = bytes.into_iter();
        let frame = |Frame { tag, len, .. }| {
            Descriptor::new(bytes.by_ref().take(len).collect::<Vec<u8>>()).with_tag(tag)
        };
        frames.into_iter().map(frame).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_arrived_is_forgotten_and_the_rest_is_whole() {
        let mut kept = Kept::default();
        for number in 1..=9_u8 {
            let part = vec![number; usize::from(number)];
            kept.push(Position::new(number.into()), number.into(), &[&part, b"end"]);
        }
        kept.arrived(Position::new(0));
        assert_eq!(kept.len(), 9);
        kept.came_back(5, &[&[5; 4], b"5end"]);
        assert_eq!(kept.len(), 9, "another one");
        kept.came_back(5, &[&[5; 4], b"\x05end"]);
        assert_eq!(kept.len(), 4, "and all before it");
        kept.arrived(Position::new(7));
        assert_eq!(kept.len(), 2);
        let rest = kept.take_all();
        let of = |number: u8| [&vec![number; usize::from(number)][..], b"end"].concat();
        assert_eq!(rest.iter().map(Descriptor::tag).collect::<Vec<_>>(), [8, 9]);
        assert_eq!(rest[0].bytes(), of(8));
        assert_eq!(rest[1].bytes(), of(9));
        assert_eq!(kept.len(), 0);
    }
}
