//! Where things lie in the region that each end of a connection writes and the
//! other reads.

/// A random word, by which memory of this process is known to be just that.
pub(super) const MARK: usize = 0;
/// The address of that word in this process.
pub(super) const MARK_AT: usize = 8;
/// One if this end reads memory of the peer's process by its address.
pub(super) const REACHES: usize = 16;
/// Lines of the peer's ring of posted messages that this end is done with.
pub(super) const TAKEN: usize = 64;
/// Receives posted, ever.
pub(super) const RECEIVES: usize = 72;
/// Messages placed in posted memory, ever.
pub(super) const PLACED: usize = 80;
/// Not zero once this end has left the connection: its buffers may have new contents.
pub(super) const LEFT: usize = 88;
/// The ring of posted messages to the peer.
pub(super) const RING: usize = 128;
/// How many lines it has.
pub(super) const RING_LINES: usize = 256;
/// How far this end is in the peer's rings of eager messages, a line of its own for each lane.
pub(super) const CONSUMED: [usize; 2] = [RING + RING_LINES * 64, RING + RING_LINES * 64 + 128];
/// The doorbell word of this end, in a line of its own.
pub(super) const BELL: usize = CONSUMED[1] + 128;
/// Where bytes lie that are in no region the peer could read.
pub(super) const BOUNCE: usize = 20 << 10;
/// The bounce area is handed out in pieces of this size, in turn.
pub(super) const CHUNK: usize = 16 << 10;
/// How many pieces it has.
pub(super) const CHUNKS: usize = 8;
/// The buffers of the peer that this end has dropped, on a connection that
/// cooperates.
pub(super) const RETURNS: usize = BOUNCE + CHUNK * CHUNKS;
/// The gates to memory under keys of this end, and where this end is inside, on a
/// connection that cooperates.
pub(super) const GATES: usize =
    RETURNS + super::cooperating::returns::bytes(super::cooperating::returns::LENT_MAX);
/// The rings of eager messages to the peer, one for each lane: talk and bulk.
pub(super) const LANES: [usize; 2] = [FIRST_LANE, FIRST_LANE + LANE_LINES * 64];
/// Lines of each: 64 KiB.
pub(super) const LANE_LINES: usize = 1024;
const FIRST_LANE: usize = (GATES
    + super::cooperating::gate::bytes(super::cooperating::gate::GATES))
.next_multiple_of(4096);
/// The whole: 300 KiB. The five pages of counts and posted messages are there from the
/// start; those behind them come when they are used.
pub(super) const BYTES: usize = FIRST_LANE + 2 * LANE_LINES * 64;

/// Bytes copied at one poll, and so between two looks at eager messages or at a deadline: a piece,
/// some 10 µs.
pub(super) const PIECE: u64 = 64 << 10;
/// Descriptors that may be outstanding on each queue.
pub(super) const DEPTH: u32 = 1024;
/// Bytes of the longest message.
pub(super) const TRANSFER_MAX: u64 = 1 << 40;
/// Largest region of a peer's that is mapped here.
pub(super) const REGION_MAX: u64 = 1 << 38;
/// Regions that an end may have the other map.
pub(super) const REGIONS_MAX: u32 = 64;

const _: () = assert!(BELL + 64 <= BOUNCE && GATES.is_multiple_of(64));
