//! What processes find when they start.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::process::Command;

use rustix::process::Signal;

use crate::dir::Dir;
use crate::job::{EGRET, Job, Mark, code, kill, run, text};

/// The lines of stdout, sorted.
fn lines(args: &[&str]) -> Vec<String> {
    let output = run(args);
    assert_eq!(code(&output), 0, "{output:?}");
    let mut lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn each_knows_its_rank_and_the_job() {
    let say = "echo $EGRET_RANK $EGRET_LOCAL_RANK $EGRET_SIZE";
    assert_eq!(lines(&["-n", "3", "sh", "-c", say]), ["0 0 3", "1 1 3", "2 2 3"]);
    let say =
        "echo $EGRET_JOB $EGRET_POOL $EGRET_REGISTRY $(cat /proc/self/fd/${EGRET_SECRET_FD%:*})";
    let both = [0, 1].map(|_| lines(&["-n", "2", "sh", "-c", say]));
    for job in &both {
        assert_eq!(job[0], job[1], "one job");
        assert_eq!(job[0].split(' ').filter(|word| word.len() > 8).count(), 4, "{job:?}");
    }
    let words = both.iter().flat_map(|job| job[0].split(' '));
    assert_eq!(words.collect::<BTreeSet<_>>().len(), 6, "another job in everything: {both:?}");
}

#[test]
fn variables_are_given() {
    let script = "echo $A-$B-${EGRET_FABRICS-none}-${EGRET_TRUST-none}-${EGRET_SECRET_FILE-none}";
    let mut command = Command::new(EGRET);
    command.args(["run", "-n", "1", "-xA=b =c", "-x", "B", "sh", "-c", script]);
    command.env("B", "outer").env("EGRET_SECRET_FILE", "/nowhere");
    let output = Job::start_as(command).end();
    assert_eq!(text(&output.stdout), "b =c-outer-none-none-none\n", "{output:?}");
    let options = ["-n", "1", "--fabric", "^udp", "--trust", "cooperating", "sh", "-c", script];
    assert_eq!(lines(&options), ["--^udp-cooperating-none"]);
    let path = ["-n", "1", "-x", "PATH=/nowhere", "sh", "-c", "true"];
    assert_eq!(code(&run(&path)), 127, "the program is looked for where it says");
}

#[test]
fn each_process_is_told_where_it_is_unless_the_user_says_it() {
    let say = ["sh", "-c", "echo \"${EGRET_LOCATION-none}\""];
    let host = Command::new("uname").arg("-n").output().expect("uname");
    let host = text(&host.stdout).trim_end().to_owned();
    let location = |options: &[&str], variables: &[(&str, &str)], file: &str| {
        let mut command = Command::new(EGRET);
        command.args(["run", "-n", "2"]).args(options).args(say);
        command.env_remove("EGRET_LOCATION").envs(variables.iter().copied());
        let dir = Dir::new(&format!("location-{}", options.len() + variables.len()));
        fs::write(dir.path("egret.toml"), file).expect("a file");
        command.env("EGRET_CONFIG", dir.path("egret.toml"));
        let output = Job::start_as(command).end();
        assert_eq!(code(&output), 0, "{output:?}");
        let mut lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let free = format!("@{host}");
    assert_eq!(location(&[], &[], ""), [free.clone(), free.clone()]);
    for line in location(&["--bind-to", "core"], &[], "") {
        let core = line.strip_suffix(&free).unwrap_or_else(|| panic!("{line}"));
        assert!(core.parse::<u32>().is_ok(), "{line}");
    }
    let slurm = [("SLURMD_NODENAME", "tux1"), ("SLURM_CLUSTER_NAME", "blue")];
    assert_eq!(location(&[], &slurm, ""), ["@tux1@@blue"; 2]);
    assert_eq!(location(&[], &[("EGRET_LOCATION", "@@r7")], ""), ["@@r7"; 2]);
    assert_eq!(location(&["-x", "EGRET_LOCATION=@@r8"], &[], ""), ["@@r8"; 2]);
    assert_eq!(location(&[], &[], "location = \"@@r9\"\n"), ["none"; 2], "the file says it");
}

#[test]
fn processes_are_bound_to_cores() {
    let show = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let mine = Command::new(show[0]).args(&show[1..]).output().expect("grep");
    let free = lines(&[&["-n", "2"][..], &show].concat());
    assert_eq!(free, [text(&mine.stdout).trim_end(); 2]);
    let bound = lines(&[&["-n", "2", "--bind-to", "core"][..], &show].concat());
    for line in &bound {
        assert!(line.split('\t').nth(1).is_some_and(|core| core.parse::<u32>().is_ok()), "{line}");
    }
    let several = free[0].contains(['-', ',']);
    assert_eq!(bound[0] != bound[1], several, "each its own: {bound:?}");
}

#[test]
fn processes_start_as_from_a_shell() {
    // But for the pipe with the secret.
    // The shell starts no process for it, whose pipe might be seen or not.
    let files = "for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd = \"${EGRET_SECRET_FD%:*}\" ] || echo $fd; done";
    for script in ["grep -E '^Sig(Blk|Ign)' /proc/self/status", files, "ulimit -n"] {
        let mut plain = Command::new("sh");
        plain.args(["-c", script]);
        let plain = Job::start_as(plain).end();
        let mut plain: Vec<_> = text(&plain.stdout).lines().map(str::to_owned).collect();
        plain.sort();
        assert_eq!(lines(&["-n", "1", "sh", "-c", script]), plain, "{script}");
    }
    let script = "ulimit -S -n 64; exec \"$0\" run -n 40 sh -c 'ulimit -n'";
    let mut command = Command::new("sh");
    command.args(["-c", script, EGRET]);
    let output = Job::start_as(command).end();
    assert_eq!(text(&output.stdout), "64\n".repeat(40), "{output:?}");
}

#[test]
fn rank_0_has_standard_input() {
    let mut command = Command::new(EGRET);
    command.args(["run", "-n", "3", "--tag-output", "cat"]);
    let (read, mut stdin) = io::pipe().expect("a pipe");
    let job = Job::start_with(command, read);
    stdin.write_all(b"one\ntwo\n").expect("rank 0 reads");
    drop(stdin);
    assert_eq!(text(&job.end().stdout), "[0] one\n[0] two\n");
}

#[test]
fn writing_to_a_closed_standard_input_fails() {
    let mut command = Command::new(EGRET);
    let script = "[ $EGRET_RANK = 0 ] && exec < /dev/null; sleep 1000";
    command.args(["run", "-n", "2", "sh", "-c", script]);
    let (read, mut stdin) = io::pipe().expect("a pipe");
    let job = Job::start_with(command, read);
    // More than any pipe holds.
    let error = (0..1024).find_map(|_| stdin.write_all(&[b'x'; 1 << 16]).err());
    assert_eq!(error.expect("nobody reads").kind(), ErrorKind::BrokenPipe);
    job.signal(Signal::INT);
    assert_eq!(code(&job.end()), 130);
}

#[test]
fn what_was_there_before_is_left_alone() {
    let mut command = Command::new("sh");
    let script = "sleep 1000 > /dev/null 2>&1 & echo $!; exec \"$0\" run -n 2 sh -c 'exit 4'";
    command.args(["-c", script, EGRET]);
    let mark = Mark::new();
    mark.put(&mut command);
    let output = command.output().expect("sh");
    let before: i32 = text(&output.stdout).trim_end().parse().expect("a number");
    assert_eq!(code(&output), 4);
    let left = mark.processes();
    assert_eq!(left.iter().map(|process| process.pid).collect::<Vec<_>>(), [before], "{left:?}");
    kill(before, Signal::KILL);
    mark.nothing_left();
}
