//! Items with more bytes than are to be copied at once.

use super::wire::{Item, Place};

/// Bytes copied at one poll, and so between two looks at eager messages or at a deadline: a piece,
/// some 10 µs.
pub(super) const PIECE: u64 = 64 << 10;

impl Item {
    /// The item, if it brings no more than `most` bytes; otherwise two that say the same one
    /// after the other.
    pub(super) fn cut(self, most: u64) -> (Self, Option<Self>) {
        if self.place().is_none_or(|bytes| bytes.len() <= most) {
            return (self, None);
        }
        match self {
            Self::Message { tag, kind, bytes } => {
                (Self::Begin { tag, kind, len: bytes.len() }, Some(Self::Piece { bytes }))
            }
            Self::Piece { bytes } => {
                let [now, later] = bytes.split_at(most).map(|bytes| Self::Piece { bytes });
                (now, Some(later))
            }
            Self::ReadPiece { id, bytes } => {
                let piece = |bytes| Self::ReadPiece { id, bytes };
                let [now, later] = bytes.split_at(most).map(piece);
                (now, Some(later))
            }
            other => (other, None),
        }
    }
}

impl Place {
    /// The first `most` of its bytes, of which it has more, and the others. A peer may have
    /// said anything: what lies outside its memory is found when it is read.
    const fn split_at(self, most: u64) -> [Self; 2] {
        let left = self.len().saturating_sub(most);
        match self {
            // No more than a record holds, which is less than anybody cuts at.
            Self::Inline { at, .. } => [self, Self::Inline { at, len: 0 }],
            Self::Region { number, offset, .. } => [
                Self::Region { number, offset, len: most },
                Self::Region { number, offset: offset.saturating_add(most), len: left },
            ],
            Self::Bounce { offset, .. } => [
                Self::Bounce { offset, len: most },
                Self::Bounce { offset: offset.saturating_add(most), len: left },
            ],
            Self::Process { at, .. } => [
                Self::Process { at, len: most },
                Self::Process { at: at.wrapping_add(most), len: left },
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_say_what_the_whole_said() {
        let bytes = Place::Region { number: 3, offset: 100, len: 2_500 };
        let mut item = Item::Message { tag: 7, kind: None, bytes };
        assert_eq!(item.cut(2_500), (item, None), "small enough");
        let mut parts = Vec::new();
        while let (now, Some(later)) = item.cut(1_000) {
            parts.push(now);
            item = later;
        }
        parts.push(item);
        let piece = |offset, len| Item::Piece { bytes: Place::Region { number: 3, offset, len } };
        let begin = Item::Begin { tag: 7, kind: None, len: 2_500 };
        assert_eq!(parts, [begin, piece(100, 1_000), piece(1_100, 1_000), piece(2_100, 500)]);
    }
}
