//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use egret_net::rt::Instant;

/// Whether a call that ended without an answer may have run.
pub(super) fn may_have_run(is_sent: bool) -> bool {
    is_sent && !planted(Fault::SaidNotRun)
}

/// The moment until which a call may take, as those inherit it that it makes.
#[inline]
pub(super) fn inherited(until: Option<Instant>) -> Option<Instant> {
    until.filter(|_| !planted(Fault::Timeless))
}

/// Whether a method of an object is the one that a stub needs, which has its name.
pub(super) fn is_method(is_named: bool, is_at_place: bool) -> bool {
    if planted(Fault::MethodsByPlace) { is_at_place } else { is_named }
}

egret_net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// An exclusive call enters while others are inside.
        TwoInside,
        /// A call that leaves an object lets no other in.
        NobodyNext,
        /// A call enters before those that wait.
        JumpsQueue,
        /// A call that comes back to an object that waits for it is not recognised.
        NoChain,
        /// A call is sent though others that were begun before it wait to be.
        BegunOvertakes,
        /// A caller that was woken to send, and is dropped, does not wake the next.
        NextUntold,
        /// Waiting callers are not woken though the one woken first does not come.
        OthersUntold,
        /// A call runs that came over a fabric which does not give what its object requires.
        AnyFabric,
        /// A call that was cancelled runs.
        CancelLost,
        /// A call whose deadline has passed runs.
        RunsExpired,
        /// The calls of a caller that is gone go on.
        GoneUnheard,
        /// A call that may have run is said not to have.
        SaidNotRun,
        /// A call does not inherit the time that is left.
        Timeless,
        /// A method that takes long runs on the thread that receives its calls.
        NeverExiled,
        /// A method that takes long keeps others waiting, though a core is idle.
        NeverPassed,
        /// A thread that waits runs calls that are none of its own.
        ServesOthers,
        /// A worker that goes on stays among those that are idle.
        IdleTwice,
        /// A worker that ends wakes no other for what it was woken for.
        WakeLost,
        /// A thread that was lent, and does not come or runs one call alone, wakes no worker for the others.
        LentLost,
        /// A call that a thread may not run itself is never left to an idle one in the background.
        NeverLent,
        /// A worker that waits for a call of its own counts as busy.
        AwayBusy,
        /// What waits for workers waits on though none can be started.
        MissUnheard,
        /// No second worker can be started; for which nothing is wrong.
        OneWorker,
        /// A worker does not hear that all is closed.
        CloseUnheard,
        /// Methods are found by their places, not by their names.
        MethodsByPlace,
        /// An answer does not say that its type is another than the caller's.
        AnswerUnmarked,
        /// A call does not say which version of the types its caller has.
        VersionUnsaid,
        /// The schemas of a caller are taken for known by its next connection.
        SchemasUnsent,
        /// The schemas of a caller are kept when it is gone.
        SchemasKept,
        /// The schemas of a caller have no limit.
        SchemasUnbounded,
    }
}
