//! Processes that are added to an open job, and removed from it.

use std::process::{Command, Output};

use rustix::process::Signal;

use crate::job::{EGRET, Job, code, text, wait_some};
use crate::nodes::own;

/// What makes this very program a node that stays.
pub(crate) fn stays() -> Vec<String> {
    let own = own();
    let words = ["-x", "EGRET_TEST_ROLE=stays", &own, "--exact", "nodes::program", "--nocapture"];
    words.into_iter().chain(["--test-threads=1", "-q"]).map(str::to_owned).collect()
}

fn open_job(options: &[&str]) -> Job {
    let stays = stays();
    let stays: Vec<_> = stays.iter().map(String::as_str).collect();
    Job::start(&[&["-n", "2"], options, &stays].concat())
}

/// Runs `egret run` with these words and the number of the job.
fn change(job: &Job, words: &[&str]) -> Output {
    let mut command = Command::new(EGRET);
    command.arg("run").args(words).arg(job.guard().to_string());
    command.output().expect("egret run")
}

fn told(output: &Output) -> String {
    text(&output.stderr)
}

/// How many members the pool of the job has.
fn members(job: &Job) -> usize {
    let mut command = Command::new(EGRET);
    command.args(["top", "--once", "--json"]).arg(job.guard().to_string());
    let output = command.output().expect("egret top");
    text(&output.stdout).matches("\"answers\":true").count()
}

#[test]
fn processes_are_added_and_removed_while_the_others_go_on() {
    let mut job = open_job(&["--open", "--tag-output"]);
    (0..2).for_each(|_| drop(job.line_with("] here ")));
    let added = change(&job, &["--add", "2"]);
    assert_eq!((code(&added), &*told(&added)), (0, "egret: started ranks 2 to 3\n"));
    (0..2).for_each(|_| drop(job.line_with("] here ")));
    assert_eq!(members(&job), 4);
    // A node of an open pool has a rank of its own: the registry numbers nodes as they join.
    for node in ["3#9", "x"] {
        assert_ne!(code(&change(&job, &["--remove", node])), 0, "no such life, no number");
    }
    for node in ["3", "0"] {
        let removed = change(&job, &["--remove", node]);
        assert_eq!(code(&removed), 0, "{removed:?}");
        assert!(told(&removed).contains("is told to end"), "{}", told(&removed));
    }
    wait_some("members", || (members(&job) == 2).then_some(()));
    let again = change(&job, &["--remove", "0"]);
    assert_eq!(code(&again), 1);
    assert!(told(&again).contains("no node 0 is a member of the pool"), "{}", told(&again));
    let added = change(&job, &["--add", "1"]);
    assert_eq!(&*told(&added), "egret: started rank 4\n");
    job.line_with("[4] here 4");
    job.signal(Signal::INT);
    let output = job.end();
    assert_eq!(code(&output), 130, "of the signal, and not of those that were removed");
    let said = told(&output);
    assert_eq!(said.matches("it was removed").count(), 2, "{said}");
}

#[test]
fn a_process_that_was_added_fails_like_the_others() {
    let script = "echo here; [ $EGRET_JOB_RANK = 0 ] || exit 4; sleep 60 & wait";
    let mut job = Job::start(&["-n", "1", "--open", "--grace", "0.1", "sh", "-c", script]);
    job.expect_lines(1, "here");
    assert_eq!(code(&change(&job, &["--add", "1"])), 0);
    let output = job.end();
    assert_eq!(code(&output), 4, "{output:?}");
    assert!(told(&output).contains("rank 1 exited with code 4"), "{output:?}");
}

/// Whoever does not end by being told to is killed.
#[test]
fn a_process_that_ignores_its_removal_is_killed() {
    let own = own();
    let script = format!(
        "trap '' TERM; [ $EGRET_JOB_RANK = 0 ] || trap 'exit 0' INT; '{own}' --exact nodes::program --nocapture -q & \
         while :; do wait $! && exit 0; done"
    );
    let words = ["-n", "2", "--open", "-x", "EGRET_TEST_ROLE=stays", "sh", "-c", &script];
    let mut job = Job::start(&words);
    (0..2).for_each(|_| drop(job.line_with("here ")));
    assert_eq!(code(&change(&job, &["--remove", "1"])), 0);
    wait_some("members", || (members(&job) == 1).then_some(()));
    job.signal(Signal::INT);
    job.signal(Signal::INT);
    let said = told(&job.end());
    assert!(said.contains("was ended by signal 9 (KILL): it was removed"), "{said}");
}

#[test]
fn what_cannot_be_changed_is_refused_with_the_reason() {
    let mut closed = open_job(&[]);
    closed.expect_lines(2, "here ");
    for words in [&["--add", "1"], &["--remove", "1"]] {
        let refused = change(&closed, words);
        assert_eq!(code(&refused), 1);
        assert!(told(&refused).contains("was begun without --open"), "{}", told(&refused));
    }
    closed.signal(Signal::INT);
    drop(closed.end());
    let mut open = open_job(&["--open"]);
    open.expect_lines(2, "here ");
    for (words, why) in [
        (&["--add", "2", "--host", "localhost:1"][..], "take 1 processes, and 2 are to run"),
        (&["--add", "1", "--host", "10.214.7.99"], "with --listen ADDRESS"),
        (&["--add", "4095"], "at most 4096 in its life"),
        (&["--remove", "7"], "members are 0#"),
    ] {
        let refused = change(&open, words);
        assert_eq!(code(&refused), 1, "{words:?}");
        assert!(told(&refused).contains(why), "{}", told(&refused));
    }
    let usages =
        ["--add 0", "--add 1 --open", "--add 1 --remove 1", "--remove 1 --host a", "--add 1 7 ./a"];
    for words in usages {
        let output = Command::new(EGRET).arg("run").args(words.split(' ')).output().unwrap();
        assert_eq!(code(&output), 2, "{words}: {output:?}");
    }
    open.signal(Signal::INT);
    assert_eq!(code(&open.end()), 130);
    let output = Command::new(EGRET).args(["run", "--add", "1", "no-such-pool"]).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(told(&output).contains("no job no-such-pool"), "{}", told(&output));
}
