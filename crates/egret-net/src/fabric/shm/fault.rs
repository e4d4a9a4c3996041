//! Faults that tests plant here; see [`crate::fault`].

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A copy leaves out the bytes after the last whole word.
    TailForgotten,
    /// The last byte of a foreign range may lie behind its end.
    BoundsOffByOne,
    /// A peer's memory is mapped as it comes.
    SealsIgnored,
    /// An item that waits for a receive counts as done with.
    ReleasedEarly,
    /// An item is delivered by rings of eager messages too.
    ItemsAnywhere,
    /// The bytes of a record that waits are looked for where the next one is.
    KeptForgotten,
    /// The head of a record is stored before the record.
    HeadEarly,
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
    /// A record has the length that its sender says.
    LengthUnchecked,
    /// A receiver has consumed what it says.
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
    /// Which of a lane's records have arrived is read where the other lane's is.
    ConsumedCrossed,
    /// Who was told of records is not told of those that come later.
    ToldForGood,
    /// Room in bulk is no reason to wake the peer.
    BulkRoomSilent,
    /// What has arrived is forgotten when the connection ends.
    ArrivedForgotten,
    /// What is kept of a connection that has ended counts as arrived.
    KeptArrived,
    /// What is kept of a connection that has ended is drained in another order.
    KeptTurned,
    /// What begins at a connection that rests does not end that.
    Undisturbed,
    /// An end that rests does not say so.
    RestUnsaid,
    /// An end that rests may look at its rings before it is seen to.
    RestUnfenced,
    /// What rings for who sleeps is heard by somebody else.
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
    /// A sleeper drains its cord only when its flag is raised again.
    #[cfg(test)]
    DrainAfterArm,
    /// What the peer rang is left in the cord.
    NotDrained,
    /// Bytes of a peer that has left count like any others.
    LeftIgnored,
    /// The kernel does not let this process read another's memory.
    ReachForbidden,
    /// Whatever is read at a peer's address is taken for the peer's.
    MarkIgnored,
    /// A process that has ended counts as the one that has its number now.
    EndIgnored,
    /// Bytes that the kernel left out count as read.
    ShortReadEnds,
    /// A return is counted before it is stored.
    ReturnEarly,
    /// A return is counted without releasing what came before.
    ReturnRelaxed,
    /// A return is read without acquiring what came before it.
    ReturnsUnfenced,
    /// A buffer that is dropped is not returned.
    ReturnForgotten,
    /// A visitor that leaves looks at what it holds while it drops it.
    LeaveUnlocked,
    /// A visitor that leaves forgets one of the buffers it holds.
    HeldForgotten,
    /// What is lent when a connection ends is taken home at once.
    OrphansDropped,
    /// What a peer has is taken home without asking the kernel about it.
    GoneUnasked,
    /// A buffer that comes back counts as one of the peer's.
    BackIgnored,
    /// A hand-over that nobody receives is not looked at.
    UnreceivedForgotten,
    /// Returns are looked at only while no messages come.
    ReturnsLate,
    /// A return wakes nobody.
    ReturnSilent,
    /// A hand-over says how many bytes are left where it was.
    HandedLength,
    /// A region is announced on isolated connections too.
    FileForAll,
    /// Who enters a gate looks whether it is open, and then says so.
    GateBeforeInside,
    /// Who enters a gate may look at it before it is seen.
    EnterUnfenced,
    /// Who leaves a gate may look at it before it is seen to be out.
    LeaveUnfenced,
    /// Who shuts a gate may look who is inside before it is seen to be shut.
    ShutUnfenced,
    /// Who is out of a gate is believed without acquiring what it wrote.
    OutUnfenced,
    /// A write goes into memory under a key while older ones are on their way.
    WriteOvertakes,
    /// A farewell ends the connection before what was sent before it is taken.
    FarewellFirst,
    /// A key ends while a peer is inside.
    InsideIgnored,
}

/// A point at which a test may have the process killed; nothing otherwise.
#[cfg(not(test))]
#[inline(always)]
pub(super) const fn step() {}

#[cfg(test)]
pub(super) fn step() {
    use std::sync::atomic::Ordering::Relaxed;

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
    STEPS_LEFT.store(number, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(test)]
static STEPS_LEFT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(u64::MAX);

/// Has the kernel stop this process at the step with this number, once.
#[cfg(test)]
pub(super) fn stop_at(number: u64) {
    STOPS.store(true, std::sync::atomic::Ordering::Relaxed);
    kill_at(number);
}

#[cfg(test)]
static STOPS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
