//! Faults that tests plant in the launcher, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret::__private::net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// The exit code is that of the last process that failed.
        LastCode,
        /// A failure does not end the others.
        OthersGoOn,
        /// The failures that a job has outlived are not told at its end.
        FailuresUntold,
        /// Processes that outlive a failure are ended at once.
        NoGrace,
        /// Processes that ignore TERM are waited for.
        NeverKills,
        /// The end of the guard goes unnoticed.
        GuardForgotten,
        /// A second Ctrl-C is only passed on.
        SecondPassedOn,
        /// The job is over when its processes are, whatever they left behind.
        LeftBehind,
        /// A process with the number of one from before the job passes for it.
        NumbersKept,
        /// A process with the number of a rank that ended passes for the rank.
        RanksKept,
        /// A job that was too slow says what its processes say.
        TimeoutUntold,
        /// A line is passed on as far as it has come.
        HalfLines,
        /// What follows the last newline is dropped.
        TailDropped,
        /// A line has no end that memory would set.
        Boundless,
        /// An outpost says as much output as there is, whether or not the launcher passes it on.
        WindowIgnored,
        /// An outpost says no more output when its processes have ended.
        OutputCut,
        /// The processes of an outpost that is lost are not reported.
        LossUntold,
        /// An outpost reports the ends of processes that run elsewhere.
        ForeignRanks,
        /// An outpost of which nothing is heard counts as there.
        SilenceForgiven,
        /// A process that was told to end has failed if it obeys.
        RemovalFails,
    }
}

/// The bytes that are passed on of those that have come.
#[inline]
pub(super) fn passed(whole: usize, come: usize) -> usize {
    if planted(Fault::HalfLines) { come } else { whole }
}

/// What is given of the bytes behind the last newline.
#[inline]
pub(super) fn tail(bytes: usize) -> usize {
    if planted(Fault::TailDropped) { 0 } else { bytes }
}

/// Whether the exit code of a process that failed is that of the job.
#[inline]
pub(super) fn sets_exit_code(is_cause: bool) -> bool {
    is_cause || planted(Fault::LastCode)
}
