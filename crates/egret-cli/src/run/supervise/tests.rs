//! The life of a job, event by event; and what the checks make of planted faults.

use super::super::fault::caught;
use super::*;

/// A job of three at a moment in milliseconds.
#[derive(Debug)]
struct Story {
    supervisor: Supervisor,
    now: u64,
}

impl Story {
    fn new(timeout: Option<u64>) -> Self {
        Self::of(timeout, OnDeath::End)
    }

    fn of(timeout: Option<u64>, on_death: OnDeath) -> Self {
        let timeout = timeout.map(Duration::from_millis);
        Self { supervisor: Supervisor::new(3, timeout, (on_death, GRACE), at(0)), now: 0 }
    }

    fn on(&mut self, event: SupervisorEvent) -> Vec<Action> {
        self.supervisor.on(event, at(self.now))
    }

    fn exit(&mut self, rank: u32, status: Status) -> Vec<Action> {
        self.on(SupervisorEvent::Exited(vec![(rank, status)]))
    }

    /// Lets the time come that was asked for, and gives it with what is done then.
    fn wait(&mut self) -> (u64, Vec<Action>) {
        let wake_at = self.supervisor.wake_at().expect("something to wait for");
        assert!(wake_at > at(self.now), "no time passes");
        self.now = wake_at.as_nanos() / 1_000_000;
        (self.now, self.on(SupervisorEvent::Tick))
    }

    /// Everybody who runs ends like this.
    fn all_end(&mut self, status: Status) {
        for rank in self.supervisor.running().collect::<Vec<_>>() {
            let actions = self.exit(rank, status);
            assert!(
                !actions.iter().any(|action| matches!(action, Action::Finish { .. })),
                "alone?"
            );
        }
    }

    #[track_caller]
    fn ends_with(&mut self, code: u8) {
        assert_eq!(self.on(SupervisorEvent::Alone), [Action::Finish { code }]);
        assert_eq!(self.on(SupervisorEvent::Alone), [], "once");
    }
}

const GRACE: Duration = Duration::from_secs(2);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn term() -> Action {
    Action::End { signal: Signal::TERM, spare: None }
}

fn kill() -> Action {
    Action::End { signal: Signal::KILL, spare: None }
}

fn tell(what: &str) -> Action {
    Action::Tell(what.to_owned())
}

const KILLED_HARD: Status = Status::Signal(9);
const TERMED: Status = Status::Signal(15);

fn all_well() {
    let mut story = Story::new(None);
    assert_eq!(story.on(SupervisorEvent::Tick), []);
    assert_eq!(story.exit(1, Status::Code(0)), []);
    assert_eq!(story.on(SupervisorEvent::Alone), [], "others run");
    story.all_end(Status::Code(0));
    story.ends_with(0);
}

fn first_failure() {
    let mut story = Story::new(None);
    let said = tell("rank 1 exited with code 3; the other 2 have 2s to finish");
    assert_eq!(story.exit(1, Status::Code(3)), [said]);
    assert_eq!(story.exit(0, Status::Code(7)), [], "an effect, not a cause");
    let said = tell("rank 2 has not finished in 2s; ending it");
    assert_eq!(story.wait(), (2000, vec![said, term()]), "whoever does not hear of it");
    assert_eq!(story.wait(), (3000, vec![kill()]), "whoever ignores TERM");
    assert_eq!(story.wait(), (3020, vec![kill()]), "and is forking");
    story.all_end(KILLED_HARD);
    story.ends_with(3);
}

fn outlived() {
    let mut story = Story::of(Some(9000), OnDeath::GoOn);
    assert_eq!(story.on(SupervisorEvent::Failed(2)), [], "the registry may be the first to know");
    let said = tell("rank 2 was ended by signal 9 (KILL); the other 2 go on");
    assert_eq!(story.exit(2, KILLED_HARD), [said]);
    assert_eq!(story.supervisor.wake_at(), Some(at(9000)), "as if nothing had happened");
    let said = tell("rank 0 exited with code 3; the other goes on");
    assert_eq!(story.exit(0, Status::Code(3)), [said]);
    assert_eq!(story.exit(1, Status::Code(0)), []);
    let said =
        "2 of 3 processes failed: rank 2 was ended by signal 9 (KILL), rank 0 exited with code 3";
    let over = [tell(said), Action::Finish { code: 137 }];
    assert_eq!(story.on(SupervisorEvent::Alone), over);
}

fn outlived_and_asked_to_end() {
    let mut story = Story::of(None, OnDeath::GoOn);
    story.exit(1, Status::Code(4));
    assert_eq!(story.on(SupervisorEvent::Signal(Signal::INT)), [Action::Pass(Signal::INT)]);
    story.all_end(Status::Signal(2));
    let over =
        [tell("1 of 3 processes failed: rank 1 exited with code 4"), Action::Finish { code: 4 }];
    assert_eq!(story.on(SupervisorEvent::Alone), over, "what they were told to do is no failure");
}

fn left_behind() {
    let mut story = Story::new(None);
    story.all_end(Status::Code(0));
    assert_eq!(story.wait(), (1000, vec![kill()]), "what they left had a second");
    story.ends_with(0);
}

fn asked_to_end() {
    let mut story = Story::new(None);
    let usr1 = story.on(SupervisorEvent::Signal(Signal::USR1));
    assert_eq!(usr1, [Action::Pass(Signal::USR1)]);
    assert_eq!(story.supervisor.wake_at(), None, "it goes on");
    assert_eq!(story.on(SupervisorEvent::Signal(Signal::INT)), [Action::Pass(Signal::INT)]);
    assert_eq!(story.on(SupervisorEvent::Signal(Signal::TERM)), [Action::Pass(Signal::TERM)]);
    assert_eq!(story.exit(2, Status::Signal(2)), []);
    assert!(!story.supervisor.is_hurried());
    assert_eq!(story.on(SupervisorEvent::Signal(Signal::INT)), [kill()]);
    assert!(story.supervisor.is_hurried(), "the output need not be read to its end");
    story.all_end(KILLED_HARD);
    story.ends_with(130);
}

fn asked_and_deaf() {
    let mut story = Story::new(None);
    story.on(SupervisorEvent::Signal(Signal::TERM));
    assert_eq!(story.wait(), (5000, vec![kill()]));
    story.all_end(KILLED_HARD);
    story.ends_with(143);
}

fn too_slow() {
    let mut story = Story::new(Some(700));
    assert_eq!(story.on(SupervisorEvent::Tick), []);
    assert_eq!(story.wait(), (700, vec![tell("not done in 700ms; ending the job"), term()]));
    story.all_end(TERMED);
    story.ends_with(124);
}

fn guard_gone() {
    let mut story = Story::new(None);
    assert_eq!(story.on(SupervisorEvent::GuardGone), [term()]);
    assert_eq!(story.on(SupervisorEvent::GuardGone), [], "it is gone for ever");
    assert_eq!(story.wait(), (1000, vec![kill()]));
    let mut story = Story::new(None);
    story.on(SupervisorEvent::Signal(Signal::HUP));
    assert_eq!(story.on(SupervisorEvent::GuardGone), [term()]);
    assert_eq!(story.wait(), (1000, vec![kill()]), "no patience without a guard");
}

#[test]
fn a_job_that_is_well() {
    all_well();
}

#[test]
fn the_first_failure_ends_the_others_and_gives_the_code() {
    first_failure();
    let mut story = Story::new(None);
    let both = vec![(0, Status::Code(1)), (2, Status::Signal(11))];
    let said = tell("rank 2 was ended by signal 11 (SEGV); the other has 2s to finish");
    assert_eq!(story.on(SupervisorEvent::Exited(both)), [said], "a signal is the cause");
    assert_eq!(story.exit(1, Status::Code(4)), [term()], "what they left behind");
    assert_eq!(story.wait(), (1000, vec![kill()]));
    story.ends_with(139);
}

#[test]
fn without_grace_the_others_are_ended_at_once() {
    let mut story = Story::new(None);
    story.supervisor.grace = Duration::ZERO;
    let said = tell("rank 1 exited with code 3; ending the other 2");
    assert_eq!(story.exit(1, Status::Code(3)), [said, term()]);
    assert_eq!(story.wait(), (1000, vec![kill()]));
    story.all_end(KILLED_HARD);
    story.ends_with(3);
}

#[test]
fn grace_ends_with_the_time_of_the_job() {
    let mut story = Story::new(Some(1500));
    let said = tell("rank 1 exited with code 3; the other 2 have 1.5s to finish");
    assert_eq!(story.exit(1, Status::Code(3)), [said]);
    let said = tell("2 processes have not finished in 1.5s; ending them");
    assert_eq!(story.wait(), (1500, vec![said, term()]));
    story.all_end(TERMED);
    story.ends_with(3);
}

#[test]
fn grace_ends_with_a_signal_or_the_guard() {
    let mut story = Story::new(None);
    story.exit(1, Status::Code(3));
    assert_eq!(story.on(SupervisorEvent::Signal(Signal::USR1)), [Action::Pass(Signal::USR1)]);
    assert_eq!(story.on(SupervisorEvent::Signal(Signal::INT)), [Action::Pass(Signal::INT)]);
    assert_eq!(story.exit(0, Status::Signal(2)), []);
    assert_eq!(story.on(SupervisorEvent::Signal(Signal::INT)), [kill()], "the second Ctrl-C");
    story.all_end(KILLED_HARD);
    story.ends_with(3);

    let mut story = Story::new(None);
    story.on(SupervisorEvent::Failed(2));
    story.exit(1, Status::Code(3));
    story.on(SupervisorEvent::Signal(Signal::TERM));
    assert_eq!(story.exit(2, TERMED), [], "that was our signal");
    assert_eq!(story.wait(), (1000, vec![kill()]));
    story.all_end(KILLED_HARD);
    story.ends_with(3);

    let mut story = Story::new(None);
    story.exit(1, Status::Code(3));
    assert_eq!(story.on(SupervisorEvent::GuardGone), [term()]);
    assert_eq!(story.wait(), (1000, vec![kill()]));
}

#[test]
fn a_broken_pipe_is_not_reported() {
    let mut story = Story::new(None);
    assert_eq!(story.exit(0, Status::Signal(13)), []);
    assert_eq!(story.wait(), (2000, vec![term()]));
    story.all_end(TERMED);
    story.ends_with(141);
}

#[test]
fn a_job_that_goes_on_outlives_failures_and_tells_of_them() {
    outlived();
    outlived_and_asked_to_end();
    let mut story = Story::of(None, OnDeath::GoOn);
    story.all_end(Status::Code(0));
    story.ends_with(0);
}

#[test]
fn what_is_left_has_a_moment() {
    left_behind();
}

#[test]
fn signals_end_a_job() {
    asked_to_end();
    asked_and_deaf();
    let mut story = Story::new(None);
    story.on(SupervisorEvent::Signal(Signal::TERM));
    story.all_end(Status::Code(0));
    story.ends_with(0);
    let mut story = Story::new(None);
    story.on(SupervisorEvent::Signal(Signal::TERM));
    story.exit(0, Status::Code(5));
    story.all_end(TERMED);
    story.ends_with(5);
}

#[test]
fn time_ends_a_job() {
    too_slow();
}

#[test]
fn the_end_of_the_guard_ends_a_job() {
    guard_gone();
}

#[test]
fn what_cannot_be_killed_does_not_keep_the_job() {
    let mut story = Story::new(None);
    story.exit(1, KILLED_HARD);
    let (mut rounds, mut done) = (0, Vec::new());
    while !done.iter().any(|action| matches!(action, Action::Finish { .. })) {
        (_, done) = story.wait();
        rounds += 1;
        assert!(rounds < 1000);
    }
    assert_eq!((story.now, done), (5000, vec![Action::Finish { code: 137 }]));
}

/// Rank 2 panics and tells its peers; they fail of that and are gone before it is.
#[test]
fn the_first_failure_is_known_before_its_process_ends() {
    let spare = Action::End { signal: Signal::TERM, spare: Some(2) };
    let mut story = Story::new(None);
    story.on(SupervisorEvent::Failed(2));
    story.on(SupervisorEvent::Failed(0));
    story.exit(0, Status::Code(1));
    let before = tell("rank 2 exited with code 101 before that");
    assert_eq!(story.exit(2, Status::Code(101)), [before]);
    story.all_end(TERMED);
    story.ends_with(101);

    let mut story = Story::new(None);
    story.exit(1, Status::Code(0));
    story.on(SupervisorEvent::Failed(1));
    story.on(SupervisorEvent::Failed(2));
    story.exit(0, Status::Code(1));
    assert_eq!(story.wait().1[1], spare, "rank 1 was done");
    assert_eq!(story.wait().1, [kill()]);
    story.all_end(KILLED_HARD);
    story.ends_with(1);
}

/// Rank 2 is killed from outside; its peers hear of that before its end is known.
#[test]
fn a_killed_process_is_the_cause_though_seen_later() {
    let before = tell("rank 2 was ended by signal 9 (KILL) before that");
    let mut story = Story::new(None);
    story.on(SupervisorEvent::Failed(2));
    story.exit(0, Status::Code(1));
    assert_eq!(story.exit(2, KILLED_HARD), std::slice::from_ref(&before));
    story.all_end(TERMED);
    story.ends_with(137);

    let mut story = Story::new(None);
    story.exit(0, Status::Code(1));
    assert_eq!(story.exit(2, KILLED_HARD), [before], "though the registry knew nothing");
    story.all_end(TERMED);
    story.ends_with(137);

    let mut story = Story::new(None);
    story.exit(0, Status::Signal(11));
    assert_eq!(story.exit(2, KILLED_HARD), [], "a signal is a cause already");
    story.all_end(TERMED);
    story.ends_with(139);
}

/// Processes come, and go when they are told to, and the others go on.
fn removed() {
    let removes = |rank, signal| Action::EndOne { rank, signal };
    let mut story = Story::new(None);
    // Ranks 3 and 4 were on a machine that was not reached.
    assert_eq!(story.on(SupervisorEvent::Added(5..7)), []);
    assert_eq!(story.on(SupervisorEvent::Removed(4)), [], "it does not run");
    assert_eq!(story.on(SupervisorEvent::Removed(9)), []);
    assert_eq!(story.on(SupervisorEvent::Removed(5)), [removes(5, Signal::TERM)]);
    assert_eq!(story.on(SupervisorEvent::Removed(5)), [], "it is told already");
    let told = tell("rank 5 was ended by signal 15 (TERM): it was removed");
    assert_eq!(story.exit(5, TERMED), [told]);
    assert!(story.supervisor.is_running());
    // The next one does not obey.
    story.on(SupervisorEvent::Removed(1));
    assert_eq!(story.wait(), (5000, vec![removes(1, Signal::KILL)]));
    assert_eq!(story.supervisor.wake_at(), None, "it is killed once");
    let told = tell("rank 1 was ended by signal 9 (KILL): it was removed");
    assert_eq!(story.exit(1, KILLED_HARD), [told]);
    story.all_end(Status::Code(0));
    assert!(!story.supervisor.is_running());
    story.ends_with(0);
}

#[test]
fn processes_come_and_go() {
    removed();
}

/// A process that was added fails like any other.
#[test]
fn added_processes_belong_to_the_job() {
    let mut story = Story::of(None, OnDeath::GoOn);
    story.on(SupervisorEvent::Added(3..5));
    story.exit(4, Status::Code(3));
    story.all_end(Status::Code(0));
    let last = tell("1 of 5 processes failed: rank 4 exited with code 3");
    assert_eq!(story.on(SupervisorEvent::Alone), [last, Action::Finish { code: 3 }]);
}

/// Processes that come when all others have just ended keep the job alive.
#[test]
fn a_job_goes_on_with_processes_that_come_at_its_end() {
    let mut story = Story::new(None);
    story.all_end(Status::Code(0));
    assert!(story.supervisor.wake_at().is_some(), "what is left has a moment");
    story.on(SupervisorEvent::Added(3..4));
    assert_eq!(story.supervisor.wake_at(), None);
    story.all_end(Status::Code(0));
    story.ends_with(0);
}

#[test]
fn planted_faults_are_caught() {
    let checks: [(Fault, fn()); 10] = [
        (Fault::RemovalFails, removed),
        (Fault::FailuresUntold, outlived),
        (Fault::LastCode, first_failure),
        (Fault::OthersGoOn, first_failure),
        (Fault::NoGrace, first_failure),
        (Fault::NeverKills, first_failure),
        (Fault::GuardForgotten, guard_gone),
        (Fault::SecondPassedOn, asked_to_end),
        (Fault::LeftBehind, left_behind),
        (Fault::TimeoutUntold, too_slow),
    ];
    for (fault, check) in checks {
        check();
        assert!(caught(fault, check), "{fault:?} went unnoticed");
    }
}
