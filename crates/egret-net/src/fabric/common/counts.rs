//! How far an end is, in one word.

/// How far an end is, ever. [Packed](ReceiveCounts::pack) these are modulo 2²¹; what may lie between
/// two of them is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::fabric) struct ReceiveCounts {
    /// Slots or frames taken from the other.
    pub taken: u64,
    /// Receives that the other may count on.
    pub receives: u64,
    /// Messages placed in posted memory.
    pub placed: u64,
}

const COUNT_BITS: u32 = 21;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

impl ReceiveCounts {
    /// The low bits of all three in one word.
    #[inline]
    pub(in crate::fabric) const fn pack(self) -> u64 {
        (self.taken & COUNT_MASK) << (2 * COUNT_BITS)
            | (self.receives & COUNT_MASK) << COUNT_BITS
            | self.placed & COUNT_MASK
    }

    /// What these were and `packed` says they are. A word older than what is
    /// known changes nothing.
    #[inline]
    pub(in crate::fabric) const fn advanced(self, packed: u64) -> Self {
        Self {
            taken: advance(self.taken, packed >> (2 * COUNT_BITS)),
            receives: advance(self.receives, packed >> COUNT_BITS),
            placed: advance(self.placed, packed),
        }
    }

    /// What these were or `other` says they are, whichever is later.
    #[inline]
    pub(in crate::fabric) fn latest(self, other: Self) -> Self {
        Self {
            taken: self.taken.max(other.taken),
            receives: self.receives.max(other.receives),
            placed: self.placed.max(other.placed),
        }
    }
}

#[inline]
const fn advance(known: u64, low: u64) -> u64 {
    let ahead = low.wrapping_sub(known) & COUNT_MASK;
    if ahead < 1 << (COUNT_BITS - 1) { known.saturating_add(ahead) } else { known }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_are_known_from_their_low_bits(
            known in proptest::array::uniform3(0..u64::MAX / 2),
            ahead in proptest::array::uniform3(0..1_u64 << 20),
        ) {
            let [taken, receives, placed] = known;
            let old = ReceiveCounts { taken, receives, placed };
            let [more, receives, placed] = std::array::from_fn(|i| known[i] + ahead[i]);
            let new = ReceiveCounts { taken: more, receives, placed };
            prop_assert_eq!(old.advanced(new.pack()), new);
            prop_assert_eq!(new.advanced(old.pack()), new, "an older word");
        }
    }
}
