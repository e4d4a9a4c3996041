//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside the code of each area.

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

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
    /// An end that rests may look at its rings before it is seen to.
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
    /// A return is counted before it is stored.
    ReturnEarly,
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
    /// As many handshakes are begun at once as there are callers.
    HandshakesUnbounded,
    /// A handshake that comes to nothing does not count as begun.
    LostUncounted,
    /// The operating system refuses to watch another socket.
    WatchRefused,
}

/// The questions by which hot paths ask for a fault, so that they read as their protocol.
macro_rules! questions {
    ($($fault:ident => $question:ident,)+) => {
        $(
            #[inline(always)]
            pub(super) fn $question() -> bool {
                planted(Fault::$fault)
            }
        )+
    };
}

questions! {
    RoomUnchecked => full_ring_is_written,
    ShortUncleared => short_leaves_stale,
    ArrivedAhead => written_is_arrived,
    ConsumedUnchecked => believes_consumed,
    SkipForgotten => runs_over_the_end,
    StaleForgotten => forgets_stale,
    HeadEarly => head_comes_first,
    HeadRelaxed => head_is_relaxed,
    ClearLate => clears_late,
    TakeUnfenced => copies_unfenced,
    ConsumedEarly => consumes_before_copy,
    ItemsAnywhere => items_anywhere,
    LengthUnchecked => believes_length,
    AskIgnored => ignores_asks,
    ConsumedCrossed => crosses_consumed,
    LaneMistaken => mistakes_lane,
    ToldForGood => tells_once,
    BulkFirst => drains_bulk_first,
    BulkRoomSilent => hides_bulk_room,
    KeptArrived => kept_counts_as_arrived,
    ArrivedForgotten => forgets_arrived,
    KeptTurned => drains_kept_backwards,
    RestUnfenced => rests_unfenced,
    ArmUnfenced => arms_unfenced,
    LightUnasked => relies_on_unpromised_fence,
    RingUnfenced => rings_unfenced,
    SleepUnseen => misses_sleep,
    FarewellFirst => closes_before_data,
    ReturnsLate => returns_wait_for_silence,
    ReleasedEarly => releases_waiting_items,
    KeptForgotten => forgets_waiting_bytes,
    FileForAll => announces_to_all,
    HandedLength => completes_with_length_left,
    WriteOvertakes => writes_overtake,
    UnreceivedForgotten => forgets_unreceived,
    ShutUnfenced => shuts_unfenced,
    OutUnfenced => believes_out_unfenced,
    GateBeforeInside => looks_before_inside,
    EnterUnfenced => enters_unfenced,
    LeaveUnfenced => leaves_unfenced,
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
