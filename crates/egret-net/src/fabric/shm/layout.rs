//! Where things lie in the region that each end of a connection writes and the
//! other reads.

/// Slots taken from the peer's ring.
pub(super) const TAKEN: usize = 64;
/// Receives posted, ever.
pub(super) const RECEIVES: usize = 72;
/// Messages placed in posted memory, ever.
pub(super) const PLACED: usize = 80;
/// Not zero once this end takes part no more: its buffers may have new contents.
pub(super) const LEFT: usize = 88;
/// The ring of slots to the peer.
pub(super) const RING: usize = 128;
/// How many slots it has.
pub(super) const SLOTS: usize = 256;
/// Where bytes lie that are in no region the peer could read.
pub(super) const BOUNCE: usize = 20 << 10;
/// The bounce area is handed out in pieces of this size, in turn.
pub(super) const CHUNK: usize = 16 << 10;
/// How many pieces it has.
pub(super) const CHUNKS: usize = 8;
/// The whole: 148 KiB, of which an idle connection has touched two pages.
pub(super) const BYTES: usize = BOUNCE + CHUNK * CHUNKS;

/// Descriptors that may be outstanding on each queue.
pub(super) const DEPTH: u32 = 1024;
/// Regions that an end may have the other map.
pub(super) const REGIONS_MAX: u32 = 64;

const _: () = assert!(RING + SLOTS * 64 <= BOUNCE && BYTES.is_multiple_of(4096));

/// The word in a nic's bell page that says whether it sleeps.
pub(super) const BELL: usize = 0;
/// The size of the bell page.
pub(super) const BELL_BYTES: usize = 4096;
