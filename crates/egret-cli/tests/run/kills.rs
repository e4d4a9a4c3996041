//! Whoever is killed, nothing stays behind.

use std::process::Command;

use egret::rt;
use rustix::process::Signal;

use crate::job::{EGRET, Job, code, kill, text};

/// Leaves children in the background, in sessions of their own, without parents.
pub(crate) const WRAPPER: &str = "sleep 1001 & setsid sleep 1002 & \
    (setsid sh -c 'trap \"\" TERM; sleep 1003 & sleep 1004' & ); trap '' TERM; sleep 1005; :";

/// How many `sleep`s a wrapper comes to.
const SLEEPS: usize = 5;

fn wrapped(count: u32) -> Job {
    let job = Job::of_script(count, WRAPPER);
    job.wait_for(SLEEPS * count as usize, "sleep 100");
    job
}

#[test]
fn of_the_guard() {
    let job = wrapped(2);
    kill(job.guard(), Signal::KILL);
    assert_eq!(job.end().status.code(), None);
}

#[test]
fn of_the_launcher() {
    let job = wrapped(2);
    kill(job.launcher(), Signal::KILL);
    let output = job.end();
    let said = "egret: the launcher was ended by signal 9 (KILL); the job is ended\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (137, said));
}

#[test]
fn of_one_process() {
    let job = wrapped(3);
    let launcher = job.launcher();
    let ranks = job.mark.processes().into_iter().filter(|process| process.parent == launcher);
    let rank = ranks.min_by_key(|process| process.pid).expect("a process");
    kill(rank.pid, Signal::KILL);
    let output = job.end();
    assert_eq!(code(&output), 137);
    let said = text(&output.stderr);
    assert!(
        said.contains("was ended by signal 9 (KILL); the other 2 have 2s to finish\n"),
        "{said}"
    );
    assert!(said.ends_with("egret: 2 processes have not finished in 2s; ending them\n"), "{said}");
}

#[test]
fn of_the_launcher_whose_path_is_not_the_guards() {
    let link = std::env::temp_dir().join(format!("egret-run-link-{:016x}", rt::random()));
    std::os::unix::fs::symlink(EGRET, &link).expect("a link");
    let mut command = Command::new(&link);
    command.args(["run", "-n", "2", "sh", "-c", WRAPPER]);
    let job = Job::start_as(command);
    job.wait_for(2 * SLEEPS, "sleep 100");
    std::fs::remove_file(&link).expect("the link");
    let (egret, others): (Vec<_>, Vec<_>) =
        job.mark.processes().into_iter().partition(|process| job.is_egret(process));
    let launcher = egret.iter().find(|process| process.pid != job.guard()).expect("a launcher");
    assert_eq!((egret.len(), launcher.pid), (2, job.launcher()), "{egret:?}");
    assert!(others.iter().all(|process| process.command.starts_with('s')), "{others:?}");
    kill(launcher.pid, Signal::KILL);
    assert_eq!(code(&job.end()), 137);
}

#[test]
fn of_what_a_process_started() {
    let job = wrapped(2);
    job.wait_for(2, "sleep 1001").iter().for_each(|process| kill(process.pid, Signal::KILL));
    job.wait_for(0, "sleep 1001");
    assert_eq!(job.wait_for(2, "sleep 1005").len(), 2, "it goes on");
    job.wait_for(2, "sleep 1005").iter().for_each(|process| kill(process.pid, Signal::KILL));
    assert_eq!(code(&job.end()), 0, "both ended well, and what they left is ended");
}

#[test]
fn of_all_processes_at_once() {
    let job = wrapped(2);
    for process in job.mark.processes().iter().filter(|process| !job.is_egret(process)) {
        kill(process.pid, Signal::KILL);
    }
    assert_eq!(code(&job.end()), 137);
}

#[test]
fn what_is_left_in_the_background_has_a_moment_to_end() {
    // As what a shell writes its output through: it ends when its input does.
    let script = "echo late | { exec 3<&0; { sleep 0.1; cat <&3; } & echo early; }";
    let output = Job::of_script(1, script).end();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "early\nlate\n"));
    let output = Job::of_script(2, "setsid sleep 1000 & exit 0").end();
    assert_eq!(code(&output), 0);
}
