//! Signals to a job.

use rustix::process::Signal;

use crate::job::{Job, code, status_of, text, wait_some};

const READY: &str = "echo ready; while :; do sleep 0.01; done";

/// A job of which all have set their traps.
fn ready(count: u32, traps: &str) -> Job {
    let mut job = Job::of_script(count, &format!("{traps}; {READY}"));
    (0..count).for_each(|_| job.expect_line("ready"));
    job
}

#[test]
fn signals_end_a_job() {
    let all = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)];
    for (signal, expected) in all {
        let job = ready(3, ":");
        job.signal(signal);
        let output = job.end();
        assert_eq!((code(&output), text(&output.stderr)), (expected, String::new()), "{signal:?}");
    }
}

#[test]
fn a_program_may_end_well_when_it_is_asked() {
    let job = ready(2, "trap 'echo bye; exit 0' TERM");
    job.signal(Signal::TERM);
    let output = job.end();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "bye\nbye\n"));
    let job = ready(2, "trap 'exit 6' INT");
    job.signal(Signal::INT);
    assert_eq!(code(&job.end()), 6);
}

#[test]
fn a_second_ctrl_c_kills() {
    let mut job = ready(2, "trap 'echo int' INT; trap '' TERM");
    job.signal(Signal::INT);
    (0..2).for_each(|_| job.expect_line("int"));
    job.signal(Signal::INT);
    let output = job.end();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (130, ""));
}

#[test]
fn the_deaf_are_killed_in_the_end() {
    let job = ready(2, "trap '' INT TERM HUP");
    job.signal(Signal::TERM);
    assert_eq!(code(&job.end()), 143);
}

#[test]
fn other_signals_are_passed_on() {
    let mut job = ready(2, "trap 'echo one' USR1; trap 'echo two' USR2");
    for (signal, line) in [(Signal::USR1, "one"), (Signal::USR2, "two"), (Signal::USR1, "one")] {
        job.signal(signal);
        (0..2).for_each(|_| job.expect_line(line));
    }
    // To the launcher itself it means the same.
    crate::job::kill(job.launcher(), Signal::USR2);
    (0..2).for_each(|_| job.expect_line("two"));
    job.signal(Signal::INT);
    assert_eq!(code(&job.end()), 130);
}

#[test]
fn a_job_is_stopped_and_goes_on() {
    let job = Job::of_script(2, "exec sleep 1000");
    let all: Vec<_> = job.wait_for(2, "sleep").iter().map(|process| process.pid).collect();
    let all = [&all[..], &[job.guard(), job.launcher()]].concat();
    let is = |state: char| all.iter().all(|pid| status_of(*pid, "State").starts_with(state));
    job.signal(Signal::TSTP);
    wait_some("it goes on", || is('T').then_some(()));
    job.signal(Signal::CONT);
    wait_some("it stays", || is('S').then_some(()));
    job.signal(Signal::TSTP);
    wait_some("it goes on", || is('T').then_some(()));
    // With its guard gone it wakes up, and ends.
    crate::job::kill(job.guard(), Signal::KILL);
    assert_eq!(job.end().status.code(), None);
}

#[test]
fn what_was_ignored_stays_ignored() {
    // As a script does with `nohup egret run … &`.
    let script = "trap '' HUP INT QUIT; exec \"$0\" run -n 2 sh -c \"$1\"";
    let rank = format!("trap 'grep ^SigIgn /proc/self/status' USR1; {READY}");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, crate::job::EGRET, &rank]);
    let mut job = Job::start_as(command);
    (0..2).for_each(|_| job.expect_line("ready"));
    for whom in [job.guard(), job.launcher()] {
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::INT] {
            crate::job::kill(whom, signal);
        }
    }
    job.signal(Signal::USR1);
    for _ in 0..2 {
        let line = job.line("what a rank ignores");
        let ignored = line.strip_prefix("SigIgn:").expect("what a rank ignores").trim();
        let ignored = u64::from_str_radix(ignored, 16).expect("a mask");
        assert_eq!(ignored & 0b111, 0b111, "HUP, INT and QUIT: {line}");
    }
    job.signal(Signal::TERM);
    assert_eq!(code(&job.end()), 143, "TERM still ends it");
}
