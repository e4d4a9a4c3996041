//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside the code of each area.

use std::sync::atomic::Ordering::{self, Relaxed};

use rustix::io::Errno;

use super::doorbell::WakeupCertainty;
use crate::atomics::Atomics;
use crate::fabric::handshake::HandshakeLimits;
#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;
use crate::vi::{AgreedTrust, Posted};

/// A fault of the shared-memory fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A copy leaves out the bytes after the last whole word.
    TailForgotten,
    /// The last byte of a foreign range may lie behind its end.
    BoundsOffByOne,
    /// A peer's memory is mapped without a check of its seals.
    SealsIgnored,
    /// An item that waits for a receive counts as done with.
    ReleasedEarly,
    /// An item is delivered by rings of eager messages too.
    ItemsAnywhere,
    /// The bytes of a waiting record are looked for in the next record.
    KeptForgotten,
    /// The head of a record is stored without releasing the record.
    HeadRelaxed,
    /// A record is copied without acquiring what its head stands for.
    TakeUnfenced,
    /// Lines that hold payload, or were skipped, are not remembered as such.
    StaleForgotten,
    /// The next head line is cleared after the record before it is published.
    ClearLate,
    /// A record counts as consumed, and then is copied.
    ConsumedEarly,
    /// The length that a sender claims is not checked.
    LengthUnchecked,
    /// The consumed position that a receiver claims is not checked.
    ConsumedUnchecked,
    /// Positions stop at the last one that 32 bits hold.
    PositionStops,
    /// A record runs over the end of its ring.
    SkipForgotten,
    /// A receiver that is asked publishes nothing.
    AskIgnored,
    /// A record that takes nothing but its stores leaves what is stale behind it.
    ShortUncleared,
    /// A record that takes nothing but its stores is written also into a full ring.
    RoomUnchecked,
    /// What was written counts as arrived.
    ArrivedAhead,
    /// Records of bulk are drained before those of talk.
    BulkFirst,
    /// A record of more than one line goes by the other lane.
    LaneMistaken,
    /// The consumed position of a lane is read from the word of the other lane.
    ConsumedCrossed,
    /// Waiting threads are told of records once, and not of later ones.
    ToldForGood,
    /// Room in bulk is no reason to wake the peer.
    BulkRoomSilent,
    /// What has arrived is forgotten when the connection ends.
    ArrivedForgotten,
    /// Records kept from a connection that has ended count as arrived.
    KeptArrived,
    /// Records kept from a connection that has ended are drained in reverse order.
    KeptTurned,
    /// An operation at a resting connection does not wake it.
    Undisturbed,
    /// An end that rests does not say so.
    RestUnsaid,
    /// An end that rests may read its rings before its peer can see that it rests.
    RestUnfenced,
    /// A doorbell event is read by a thread that does not wake the sleeping one.
    HeardByOthers,
    /// A ringer may look at the flag before its record is seen.
    RingUnfenced,
    /// A sleeper may look at its rings before its flag is seen.
    ArmUnfenced,
    /// A ringer does not see that the peer sleeps, as where the kernel's fence has missed it.
    SleepUnseen,
    /// A sleeper behind the kernel's fence does not look again.
    FenceTrusted,
    /// A ringer relies on a fence that the sleeper does not promise.
    LightUnasked,
    /// A sleeper looks at its rings for the last time before it raises its flag.
    #[cfg(test)]
    LookBeforeArm,
    /// A sleeper drains its doorbell socket only when its flag is raised again.
    #[cfg(test)]
    DrainAfterArm,
    /// Signals of the peer are left in the doorbell socket.
    NotDrained,
    /// Bytes of a peer that has left count like any others.
    LeftIgnored,
    /// The kernel does not let this process read another's memory.
    ReachForbidden,
    /// Bytes read at a peer's address are taken for the peer's without a check of its mark.
    MarkIgnored,
    /// A process that has ended counts as the one that has its number now.
    EndIgnored,
    /// Bytes that the kernel left out count as read.
    ShortReadEnds,
    /// A return is counted without releasing what came before.
    ReturnRelaxed,
    /// A return is read without acquiring what came before it.
    ReturnsUnfenced,
    /// A buffer that is dropped is not returned.
    ReturnForgotten,
    /// A leaving receiver of buffers lists what it holds while it drops some of it.
    LeaveUnlocked,
    /// A leaving receiver of buffers forgets one of those it holds.
    HeldForgotten,
    /// Buffers lent when a connection ends are taken back at once.
    OrphansDropped,
    /// Buffers of a peer are taken back without asking the kernel whether its process has ended.
    GoneUnasked,
    /// A buffer that comes back counts as one of the peer's.
    BackIgnored,
    /// A hand-over that the peer does not receive is not looked at.
    UnreceivedForgotten,
    /// A poll that takes messages does not look at returns.
    ReturnsLate,
    /// A return does not wake the owner.
    ReturnSilent,
    /// A hand-over says how many bytes are left where it was.
    HandedLength,
    /// A region is announced on isolated connections too.
    FileForAll,
    /// A writer looks whether a gate is open before it says that it is inside.
    GateBeforeInside,
    /// A writer may look at a gate before its entering is visible.
    EnterUnfenced,
    /// A writer may look at a gate before its leaving is visible.
    LeaveUnfenced,
    /// An owner may look who is inside before its shutting of the gate is visible.
    ShutUnfenced,
    /// An owner sees a writer outside without acquiring what it wrote.
    OutUnfenced,
    /// A write goes into memory under a key while older ones are on their way.
    WriteOvertakes,
    /// A close reason ends the connection before the data sent before it is taken.
    FarewellFirst,
    /// A key ends while a peer is inside.
    InsideIgnored,
    /// Processes of any user are accepted.
    UserUnchecked,
    /// A user is known by its number alone.
    NamespaceUnchecked,
    /// Descriptors beyond those declared stay open.
    SurplusLeaked,
    /// The end of a connection looks like silence.
    EndIsSilence,
    /// A reset hides what the peer said before it left.
    ResetIsEnd,
    /// Any executable counts as the same one.
    ExecutableUnchecked,
    /// A side's own request to cooperate counts as the agreement of both.
    VerdictIgnored,
    /// A process in between is taken for the peer.
    ProcessesForgotten,
    /// One process may take all places of unproven peers.
    SharesForgotten,
    /// A turn begins any number of handshakes.
    HandshakesUnbounded,
    /// A handshake that fails does not count as begun.
    LostUncounted,
    /// The operating system refuses to watch another socket.
    WatchRefused,
}

// What follows returns the value, or passes the fence, that it is given, unless a fault is planted.

/// The order in which the head of a record is stored.
#[inline(always)]
pub(super) fn publish_order(order: Ordering) -> Ordering {
    if planted(Fault::HeadRelaxed) { Relaxed } else { order }
}

/// The lane whose consumed position is read for that of this lane.
pub(super) fn lane_of_consumed(lane: usize) -> usize {
    lane ^ usize::from(planted(Fault::ConsumedCrossed))
}

/// The lane of a record of several lines.
#[inline(always)]
pub(super) fn lane_of_long(lane: usize) -> usize {
    lane ^ usize::from(planted(Fault::LaneMistaken))
}

/// The bytes of a send that has gone.
#[inline]
pub(super) fn len_sent(len: u64, posted: &Posted) -> u64 {
    if planted(Fault::HandedLength) { posted.descriptor().len() } else { len }
}

/// The bytes of a copy behind its last whole word.
#[inline]
pub(super) fn tail(tail: &[u8]) -> &[u8] {
    if planted(Fault::TailForgotten) { &[] } else { tail }
}

/// What the kernel says of a read of another process.
pub(super) fn reading<T>(read: Result<T, Errno>) -> Result<T, Errno> {
    if planted(Fault::ReachForbidden) { Err(Errno::PERM) } else { read }
}

/// What the kernel says that it read, of so many bytes; less than zero for an error.
pub(super) fn got(got: isize, asked: usize) -> isize {
    match () {
        () if planted(Fault::ShortReadEnds) => asked.cast_signed(),
        () => got,
    }
}

/// How far a nic relies on its bells.
pub(super) fn certainty(bells: WakeupCertainty) -> WakeupCertainty {
    let trusts = bells == WakeupCertainty::Likely && planted(Fault::FenceTrusted);
    if trusts { WakeupCertainty::Sure } else { bells }
}

/// The order in which the count of returns is stored.
#[inline]
pub(super) fn return_order(order: Ordering) -> Ordering {
    if planted(Fault::ReturnRelaxed) { Relaxed } else { order }
}

/// What a receiver of buffers holds when it leaves.
pub(super) fn held<T>(all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    all.skip(usize::from(planted(Fault::HeldForgotten)))
}

/// The same, looked at while nothing returns.
pub(super) fn held_at_lock<T>(mut held: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let before: Vec<T> =
        if planted(Fault::LeaveUnlocked) { held.by_ref().collect() } else { Vec::new() };
    before.into_iter().chain(held)
}

/// The places of unproven peers.
pub(super) fn limits(limits: HandshakeLimits) -> HandshakeLimits {
    let of_one = if planted(Fault::SharesForgotten) { limits.all } else { limits.of_one };
    HandshakeLimits { of_one, ..limits }
}

/// How much a handshake that has just begun counts.
pub(super) fn begun<T, E>(news: &Result<T, E>) -> usize {
    let is_counted = news.is_ok() || !planted(Fault::LostUncounted);
    usize::from(is_counted && !planted(Fault::HandshakesUnbounded))
}

/// What a side that asked to cooperate, or did not, was told.
pub(super) fn agreed(said: AgreedTrust, asked: bool) -> AgreedTrust {
    let is_ignored = asked && planted(Fault::VerdictIgnored);
    if is_ignored { AgreedTrust::Cooperating } else { said }
}

/// What a process of another user is answered.
pub(super) fn refused_user<E>(why: E) -> Result<(), E> {
    if planted(Fault::UserUnchecked) { Ok(()) } else { Err(why) }
}

macro_rules! fences {
    ($($fence:ident unless $fault:ident,)+) => {
        $(
            #[inline(always)]
            pub(super) fn $fence<A: Atomics>(order: Ordering) {
                if !planted(Fault::$fault) {
                    A::fence(order);
                }
            }
        )+
    };
}

fences! {
    arm_fence unless ArmUnfenced,
    rest_fence unless RestUnfenced,
    shut_fence unless ShutUnfenced,
    out_fence unless OutUnfenced,
    enter_fence unless EnterUnfenced,
    leave_fence unless LeaveUnfenced,
    returns_fence unless ReturnsUnfenced,
}

/// The fence over processes of a nic that sleeps. Whether it was granted.
pub(super) fn global_arm_fence<A: Atomics>() -> bool {
    planted(Fault::ArmUnfenced) || A::global_fence()
}

/// A point at which a test may have the process killed; nothing otherwise.
#[cfg(not(test))]
#[inline(always)]
pub(super) const fn step() {}

#[cfg(test)]
pub(super) fn step() {
    use rustix::process::Signal;
    if STEPS_LEFT.load(Relaxed) != u64::MAX && STEPS_LEFT.fetch_sub(1, Relaxed) == 0 {
        let own = rustix::process::getpid();
        let signal = if STOPS.load(Relaxed) { Signal::STOP } else { Signal::KILL };
        rustix::process::kill_process(own, signal).unwrap();
        // The kernel takes its time to stop a thread that runs.
        crate::rt::sleep(std::time::Duration::from_secs(2));
    }
}

/// Has the kernel kill this process at the step with this number.
#[cfg(test)]
pub(super) fn kill_at(number: u64) {
    STEPS_LEFT.store(number, Relaxed);
}

#[cfg(test)]
static STEPS_LEFT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(u64::MAX);

/// Has the kernel stop this process at the step with this number, once.
#[cfg(test)]
pub(super) fn stop_at(number: u64) {
    STOPS.store(true, Relaxed);
    kill_at(number);
}

#[cfg(test)]
static STOPS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
