//! The memory of a message that arrives.

use egret_net::buf::Buf;
use egret_net::vi::Landing;

use super::lie::Lie;
use super::wire::Begins;
use crate::link::Lane;

/// Where the bytes of a message are: as of a receive with a landing, the first ones in
/// the buffer that was supplied, if any, and the rest in memory of its own.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The first bytes of a message of more than [`Self::OWN`].
    pub(crate) landed: Option<Buf>,
    /// The bytes behind, or all of a shorter message.
    pub(crate) rest: Vec<u8>,
}

impl Memory {
    /// Bytes of a message that lands nowhere else, and of what a landing leaves over.
    pub(crate) const OWN: usize = 256;

    /// Memory for a message that begins.
    pub(super) fn begin(lane: Lane, begins: Begins, landing: &dyn Landing) -> Result<Self, Lie> {
        let Begins { len, tag } = begins;
        let refused = |why| Lie::Refused { lane, len, why };
        let whole = usize::try_from(len).map_err(|_| refused("there is no such memory"))?;
        if whole <= Self::OWN {
            return Ok(Self { landed: None, rest: vec![0; whole] });
        }
        let buf = landing.land(len, tag).map_err(refused)?;
        let rest = whole.checked_sub(buf.len()).ok_or_else(|| refused("it landed in more"))?;
        if rest > Self::OWN {
            return Err(refused("it landed in less"));
        }
        Ok(Self { landed: Some(buf), rest: vec![0; rest] })
    }

    /// Bytes of the message.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn len(&self) -> usize {
        self.landed.as_ref().map_or(0, Buf::len) + self.rest.len()
    }

    /// Writes bytes that belong at `at`, inside.
    pub(super) fn place(&mut self, at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).expect("inside of memory");
        let landed = self.landed.as_mut().map_or(&mut [][..], Buf::bytes_mut);
        let split = landed.len().saturating_sub(at).min(bytes.len());
        let (first, rest) = bytes.split_at(split);
        if !first.is_empty() {
            landed[at..at + split].copy_from_slice(first);
        }
        if !rest.is_empty() {
            let at = at + split - landed.len();
            self.rest[at..at + rest.len()].copy_from_slice(rest);
        }
    }
}
