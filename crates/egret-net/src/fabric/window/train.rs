//! Datagrams on their way to the machine below.

use super::lanes::Window;
use super::send::Parcel;
use crate::rt::Instant;

/// Datagrams that leave together: one behind the other, each with room for what the
/// machine below writes before and behind it. A system that cuts datagrams itself takes those of one size in one call.
#[derive(Debug, Default)]
pub(super) struct Train {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// How many have left.
    left: usize,
}

/// Datagrams of a train, and their bytes: what a system takes in one call.
const LONGEST: usize = 64;
const BYTES_MAX: usize = 60 << 10;

impl Train {
    /// Takes as many datagrams as are due and have room, when all before have left. Whether there are
    /// any.
    pub(super) fn fill(
        &mut self,
        now: Instant,
        [before, behind]: [usize; 2],
        window: &mut Window<Parcel>,
    ) -> bool {
        self.clear();
        while !self.is_full() {
            let start = self.bytes.len();
            self.bytes.resize(start + before, 0);
            if !window.append_datagram(now, &mut self.bytes) {
                self.bytes.truncate(start);
                break;
            }
            self.bytes.resize(self.bytes.len() + behind, 0);
            self.ends.push(self.bytes.len());
        }
        !self.ends.is_empty()
    }

    /// Whether there may be more datagrams than it took.
    pub(super) fn is_full(&self) -> bool {
        self.ends.len() >= LONGEST || self.bytes.len() >= BYTES_MAX
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.left = 0;
    }

    /// Sends what has not left, as many at once as have one size: all of that size, but the last, which
    /// may be shorter. `send` says how many bytes have left. Whether all have.
    pub(super) fn leave(&mut self, mut send: impl FnMut(&mut [u8], usize) -> usize) -> bool {
        while self.left < self.ends.len() {
            let (first, end, size) = self.run();
            let start = self.start(first);
            let gone = send(&mut self.bytes[start..self.ends[end - 1]], size);
            while self.left < end && self.ends[self.left] <= start + gone {
                self.left += 1;
            }
            if self.left < end {
                return false;
            }
        }
        true
    }

    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] }
    }

    /// The datagrams that leave together next, and their size.
    fn run(&self) -> (usize, usize, usize) {
        let first = self.left;
        let len = |index: usize| self.ends[index] - self.start(index);
        let size = len(first);
        let same = (first..self.ends.len()).take_while(|index| len(*index) == size).count();
        let end = first + same;
        let has_shorter = end < self.ends.len() && len(end) < size;
        (first, end + usize::from(has_shorter), size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(sizes: &[usize]) -> Train {
        let mut train = Train::default();
        for (index, size) in sizes.iter().enumerate() {
            train.bytes.resize(train.bytes.len() + size, u8::try_from(index).unwrap());
            train.ends.push(train.bytes.len());
        }
        train
    }

    #[test]
    fn those_of_one_size_leave_together_with_a_shorter_one_behind() {
        let mut train = train(&[90, 70, 70, 70, 20, 20, 90]);
        let mut sent = Vec::new();
        assert!(train.leave(|bytes, size| {
            sent.push((bytes.len(), size));
            bytes.len()
        }));
        assert_eq!(sent, [(160, 90), (160, 70), (20, 20), (90, 90)]);
    }

    #[test]
    fn datagrams_without_room_leave_later_and_once() {
        let mut train = train(&[50; 10]);
        let mut got = Vec::new();
        let mut room = 3;
        while !train.leave(|bytes, size| {
            let gone = bytes.len().min(room * size);
            got.extend_from_slice(&bytes[..gone]);
            gone
        }) {
            room = if room == 3 { 0 } else { 3 };
        }
        assert_eq!(got, train.bytes);
    }
}
