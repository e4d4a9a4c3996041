//! `egret top`, and what a job says that stands still.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::job::{EGRET, Job, code, kill, text, wait_some};
use crate::nodes::own;

/// Starts two nodes that wait for each other's names; what the job says on stderr comes on stdout.
fn stuck(stall: &str) -> Job {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1", EGRET, "run", "-n", "2", "-x"]);
    command.args(["EGRET_TEST_ROLE=still", &*own(), "--exact", "nodes::program", "--nocapture"]);
    command.args(["--test-threads=1", "-q"]).env("EGRET_STALL", stall);
    Job::start_as(command)
}

/// What `egret top` prints of a job.
fn top(job: &Job, options: &[&str]) -> String {
    top_of(&job.launcher().to_string(), options)
}

/// What `egret top` prints of the job with a process of this number.
fn top_of(process: &str, options: &[&str]) -> String {
    let mut command = Command::new(EGRET);
    command.args(["top", "--once"]).args(options).arg(process);
    let output = command.output().expect("egret top");
    assert_eq!(code(&output), 0, "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn top_shows_the_nodes_of_a_job_and_where_they_wait() {
    let mut job = stuck("never");
    job.expect_lines(2, "here ");
    let json = wait_some("no waits", || {
        let json = top(&job, &["--json"]);
        (json.matches("\"kind\":\"name\"").count() == 2).then_some(json)
    });
    for part in ["\"object\":\"fork 0\"", "\"object\":\"fork 1\"", "nodes.rs:", "\"circle\":[]"] {
        assert!(json.contains(part), "{json}");
    }
    for part in ["\"pool\":\"job-", "\"total\":{", "\"sent_bytes\":", "\"omitted_waits\":0"] {
        assert!(json.contains(part), "{json}");
    }
    let text = top(&job, &[]);
    for part in ["2 nodes", "out/s", "trip", "0#", "1#", " for name fork 1 at ", "waits:"] {
        assert!(text.contains(part), "{text}");
    }
    // The process that a person has started is the parent of the launcher.
    let of_command = top_of(&job.guard().to_string(), &[]);
    assert!(of_command.contains("2 nodes"), "{of_command}");
    job.signal(Signal::TERM);
    assert_ne!(code(&job.end()), 0);
}

#[test]
fn a_job_that_stands_still_says_who_waits_and_where_once() {
    let mut job = stuck("1s");
    let said = job.line_with("stood still");
    assert!(said.contains("egret: the job has stood still for 1s (EGRET_STALL)"), "{said}");
    let mut wait = || job.line_with(" for name ");
    let waits = [wait(), wait()].join("\n");
    for part in [" 0#", " 1#", "fork 0 at ", "fork 1 at ", "nodes.rs:"] {
        assert!(waits.contains(part), "{waits}");
    }
    job.signal(Signal::TERM);
    let rest = String::from_utf8(job.end().stdout).expect("text");
    assert!(!rest.contains("stood still"), "{rest}");
}

#[test]
fn top_says_which_job_it_does_not_find() {
    for name in ["1", "no such pool"] {
        let output = Command::new(EGRET).args(["top", "--once", name]).output().expect("egret top");
        assert_eq!(code(&output), 1);
        let said = String::from_utf8(output.stderr).expect("text");
        let all = ["no job", "no registry of a pool", name, "as this user on this machine"];
        assert!(all.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn a_launcher_whose_guard_was_killed_is_not_found_by_its_new_parent() {
    let mut job = stuck("never");
    job.expect_lines(2, "here ");
    let launcher = job.launcher();
    kill(launcher, Signal::STOP);
    kill(job.guard(), Signal::KILL);
    let parent = wait_some("no other parent", || {
        let mut all = job.mark.processes().into_iter();
        let found = all.find(|process| process.pid == launcher).expect("the launcher");
        (found.parent != job.guard()).then_some(found.parent)
    });
    let output = Command::new(EGRET).args(["top", "--once", &parent.to_string()]).output();
    kill(launcher, Signal::CONT);
    let output = output.expect("egret top");
    assert_eq!(code(&output), 1);
    assert!(text(&output.stderr).contains(&format!("no job {parent} ")), "{output:?}");
    drop(job.child.stdout.take());
    assert!(!job.end().status.success());
}

#[test]
fn top_ends_with_its_job() {
    let mut job = stuck("never");
    job.expect_lines(2, "here ");
    let number = job.launcher();
    let mut command = Command::new(EGRET);
    command.args(["top", &number.to_string()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut top = command.spawn().expect("egret top");
    let mut lines = BufReader::new(top.stdout.take().expect("a pipe")).lines();
    let mut pictures = 0;
    while pictures < 2 {
        let line = lines.next().expect("another line").expect("text");
        pictures += usize::from(line.starts_with("job "));
    }
    job.signal(Signal::TERM);
    assert_ne!(code(&job.end()), 0);
    lines.for_each(|line| drop(line.expect("text")));
    let output = top.wait_with_output().expect("its end");
    assert_eq!(code(&output), 0, "{output:?}");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains(&format!("egret: the job {number} has ended")), "{said}");
}
