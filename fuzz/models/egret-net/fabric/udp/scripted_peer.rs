//! A network without sockets, for tests and fuzzers: a script says what arrives, and decides what
//! there is room for of what is sent.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::SocketAddrAny;

use super::send::SendBlocked;
use super::socket::UndeliveredDatagram;

/// What is behind a socket that is none.
#[derive(Debug, Default)]
pub(super) struct MemoryNetwork(Mutex<NetworkState>);

#[derive(Debug, Default)]
struct NetworkState {
    arriving: VecDeque<(Vec<u8>, SocketAddr)>,
    /// What was sent last.
    sent: VecDeque<Vec<u8>>,
    /// Datagrams that are taken before one is refused.
    capacity: usize,
    /// Bytes of a datagram that the path carries.
    room: usize,
    undelivered_datagrams: VecDeque<UndeliveredDatagram>,
}

/// Datagrams that are kept of what was sent.
const SENT_MAX: usize = 8;

impl MemoryNetwork {
    /// Forgets everything. The path carries so much.
    pub(super) fn reset(&self, room: usize) {
        let mut network = self.network();
        network.arriving.clear();
        network.sent.clear();
        network.undelivered_datagrams.clear();
        (network.capacity, network.room) = (usize::MAX, room);
    }

    /// There is room for so many datagrams, of so many bytes each.
    pub(super) fn make_room(&self, capacity: usize, room: usize) {
        let mut network = self.network();
        (network.capacity, network.room) = (capacity, room);
    }

    /// A datagram arrives.
    pub(super) fn say(&self, bytes: Vec<u8>, from: SocketAddr) {
        self.network().arriving.push_back((bytes, from));
    }

    /// The system says that a datagram found nobody.
    pub(super) fn complain(&self, undelivered: UndeliveredDatagram) {
        self.network().undelivered_datagrams.push_back(undelivered);
    }

    /// The oldest of what was sent and is still kept.
    pub(super) fn next_sent(&self) -> Option<Vec<u8>> {
        self.network().sent.pop_front()
    }

    pub(super) fn room(&self) -> usize {
        self.network().room
    }

    pub(super) fn send(&self, slices: &[IoSlice<'_>], size: usize) -> Result<(), SendBlocked> {
        let mut network = self.network();
        if size > network.room {
            return Err(SendBlocked::TooLong { room: network.room });
        }
        if network.capacity == 0 {
            return Err(SendBlocked::Full);
        }
        network.capacity -= 1;
        let mut bytes = match network.sent.len() {
            SENT_MAX.. => network.sent.pop_front().unwrap_or_default(),
            _ => Vec::new(),
        };
        bytes.clear();
        bytes.reserve(size);
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        network.sent.push_back(bytes);
        Ok(())
    }

    pub(super) fn recv(&self, space: &mut [u8]) -> Option<(usize, SocketAddrAny)> {
        let (bytes, from) = self.network().arriving.pop_front()?;
        let len = bytes.len().min(space.len());
        space[..len].copy_from_slice(&bytes[..len]);
        Some((len, from.into()))
    }

    pub(super) fn undelivered(&self) -> Option<UndeliveredDatagram> {
        self.network().undelivered_datagrams.pop_front()
    }

    fn network(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
