//! Datagrams of a connection that is sealed.
//!
//! A plain datagram becomes a sealed one where it lies, with [`BEFORE`] bytes before it and a tag
//! behind it: what says to whom it is goes in clear, all else is sealed (`docs/wire/udp.md`). Every
//! datagram that leaves has a number of its own, also if its bytes have left before.

use std::io::IoSlice;

use super::fault::{Fault, planted};
use super::send::{DatagramPort, SendBlocked};
use super::socket::SegmentedSend;
use super::wire::{ConnectionNumber, UdpHead, is_sealed};
use crate::fabric::DATAGRAM_HEAD;
use crate::fabric::seal::{NumberedOpener, NumberedSealer, SealError, SealKeys, TAG};

/// What the datagrams of one end are sealed and opened by.
#[derive(Debug)]
pub(super) struct DatagramSeal {
    pub outgoing: DatagramSealer,
    incoming: NumberedOpener,
}

/// What seals.
#[derive(Debug)]
pub(super) struct DatagramSealer {
    sealer: NumberedSealer,
    /// The number of the next datagram.
    next: u64,
    /// Where datagrams lie that are gathered.
    staging: Vec<u8>,
}

/// A port whose datagrams are sealed on their way to another one.
#[derive(Debug)]
pub(super) struct SealingPort<'a, P> {
    pub outgoing: &'a mut DatagramSealer,
    pub port: P,
}

/// Bytes of a sealed datagram before the plain one that it is made of.
pub(super) const BEFORE: usize = 16;
/// Bytes that a sealed datagram has more than the plain one.
pub(super) const MORE: usize = BEFORE + TAG;
/// Bytes before those of a window, and behind them.
pub(super) const EDGES: [usize; 2] = [BEFORE + DATAGRAM_HEAD, TAG];
/// What is not sealed.
const CLEAR: usize = 24;
/// Memory that is kept for what may be gathered.
const KEEP: usize = 2 << 10;

impl DatagramSeal {
    pub(super) fn new(keys: SealKeys) -> Self {
        Self {
            outgoing: DatagramSealer {
                sealer: NumberedSealer::new(keys.outgoing),
                next: 0,
                staging: Vec::new(),
            },
            incoming: NumberedOpener::new(keys.incoming),
        }
    }

    /// Opens a datagram where it lies: behind it, the plain one is there between the [edges](BEFORE).
    #[inline]
    pub(super) fn open(&mut self, datagram: &mut [u8]) -> Result<(), SealError> {
        let Some((clear, rest)) = datagram.split_first_chunk_mut::<CLEAR>() else {
            return Err(SealError::Forged);
        };
        let Some((inner, tag)) = rest.split_last_chunk_mut::<TAG>() else {
            return Err(SealError::Forged);
        };
        let number = u64::from_le_bytes(word(clear, 16));
        self.incoming.open(number, clear, inner, tag)?;
        let (what, to) = (word(inner, 0), word(clear, 8));
        clear[16..24].copy_from_slice(&what);
        inner[..8].copy_from_slice(&to);
        Ok(())
    }
}

impl DatagramSealer {
    /// Seals a plain datagram that lies between the [edges](BEFORE).
    #[inline]
    fn seal(&mut self, datagram: &mut [u8]) {
        let (clear, rest) = datagram.split_at_mut(CLEAR);
        let (inner, tag) = rest.split_at_mut(rest.len() - TAG);
        let (what, to) = (word(clear, 16), ConnectionNumber(u64::from_le_bytes(word(inner, 0))));
        inner[..8].copy_from_slice(&what);
        clear[..16].copy_from_slice(&UdpHead::sealed(to, inner.len()));
        clear[16..].copy_from_slice(&self.next.to_le_bytes());
        match self.sealer.seal(self.next, clear, inner) {
            Ok(shows) => tag.copy_from_slice(&shows),
            // There is no number left: nothing leaves any more that could be read.
            Err(_) => inner.fill(0),
        }
        self.next = self.next.saturating_add(1);
    }

    /// Seals a datagram of a window, which has the [edges](EDGES), if it was not sealed before: one
    /// that has found no room comes again.
    #[inline]
    pub(super) fn seal_window(&mut self, to: ConnectionNumber, datagram: &mut [u8]) {
        if was_sealed(datagram) {
            return;
        }
        let len = datagram.len() - DATAGRAM_HEAD - MORE;
        datagram[BEFORE..BEFORE + DATAGRAM_HEAD].copy_from_slice(&UdpHead::window(to, len));
        self.seal(datagram);
    }

    /// Seals what is said in one piece.
    pub(super) fn seal_small(&mut self, bytes: &[u8]) -> &[u8] {
        self.gather(&[IoSlice::new(bytes)], bytes.len())
    }

    /// Gathers plain datagrams of `size` bytes, the last of which may have less, and seals each.
    fn gather(&mut self, slices: &[IoSlice<'_>], size: usize) -> &[u8] {
        let mut staging = std::mem::take(&mut self.staging);
        staging.clear();
        let (mut start, mut end) = (0, 0);
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                if start == end {
                    staging.resize(start + BEFORE, 0);
                    end = start + BEFORE + size;
                }
                let (now, later) = rest.split_at(rest.len().min(end - staging.len()));
                staging.extend_from_slice(now);
                rest = later;
                if staging.len() == end {
                    staging.resize(end + TAG, 0);
                    self.seal(&mut staging[start..]);
                    start = staging.len();
                    end = start;
                }
            }
        }
        if start < end {
            // The last one is shorter.
            staging.resize(staging.len() + TAG, 0);
            self.seal(&mut staging[start..]);
        }
        self.staging = staging;
        &self.staging
    }

    /// Gives memory back that few need.
    fn tidy(&mut self) {
        if self.staging.capacity() > KEEP {
            self.staging = Vec::new();
        }
    }
}

impl<P: DatagramPort> DatagramPort for SealingPort<'_, P> {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), SendBlocked> {
        let size = slices.iter().map(|slice| slice.len()).sum();
        let sent = self.port.send_small(self.outgoing.gather(slices, size));
        self.outgoing.tidy();
        sent
    }

    #[inline]
    fn send_small(&mut self, bytes: &[u8]) -> Result<(), SendBlocked> {
        self.port.send_small(self.outgoing.seal_small(bytes))
    }

    fn cuts(&self) -> bool {
        self.port.cuts()
    }

    fn send_cut(
        &mut self,
        slices: &[IoSlice<'_>],
        size: u16,
    ) -> Result<SegmentedSend, SendBlocked> {
        let Ok(sealed) = u16::try_from(usize::from(size) + MORE) else {
            return Ok(SegmentedSend::NotHere);
        };
        let train = self.outgoing.gather(slices, size.into());
        let sent = self.port.send_cut(&[IoSlice::new(train)], sealed);
        self.outgoing.tidy();
        sent
    }
}

/// Eight bytes.
#[inline]
fn word(bytes: &[u8], at: usize) -> [u8; 8] {
    *bytes[at..].first_chunk().expect("a datagram has a head")
}

/// Whether a datagram of a window was sealed before.
#[inline]
fn was_sealed(datagram: &[u8]) -> bool {
    is_sealed(datagram) && !planted(Fault::SealedTwice)
}
