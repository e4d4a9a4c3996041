//! Where the secret of a job is, and where it is not.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::process::Command;

use egret::node::JoinError;
use egret::node::{Config, Node};
use egret::rt::Deadline;
use rustix::process::Signal;

use crate::job::{EGRET, Job, code, run, text};

/// What a rank can print of itself and of what a child inherits: its environment, its command line, and
/// which files are open. The pipe is left as it is.
const SHOW: &str = "tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' ' ' < /proc/$$/cmdline; \
                    sh -c 'tr \"\\0\" \"\\n\" < /proc/$$/environ; ls -l /proc/$$/fd'";

/// The number and the inode of the pipe that a variable `N:INODE` names.
fn pipe(variable: &str) -> (String, String) {
    let (number, inode) = variable.trim().split_once(':').expect("N:INODE");
    (number.to_owned(), format!("pipe:[{inode}]"))
}

/// What the descriptors of a process lead to, by number.
fn open_files(pid: i32) -> BTreeMap<String, String> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").flatten();
    let link = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
        Some((entry.file_name().to_string_lossy().into_owned(), target))
    };
    all.filter_map(link).collect()
}

#[test]
fn the_secret_is_in_no_environment_and_on_no_command_line() {
    let script =
        format!("{SHOW}; echo; printf 'secret '; cat /proc/self/fd/${{EGRET_SECRET_FD%:*}}; echo");
    let output = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    let secrets: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("secret ")).collect();
    assert_eq!(secrets.len(), 2, "{said}");
    assert_eq!(secrets[0], secrets[1], "one job, one secret");
    assert_eq!(secrets[0].len(), "egret1.".len() + 64 + 1 + 64, "all of it: {}", secrets[0]);
    assert_eq!(said.matches(secrets[0]).count(), 2, "where it was read, and nowhere else: {said}");
    assert!(!text(&output.stderr).contains(secrets[0]));
    assert!(said.contains("EGRET_RANK=1") && said.contains("EGRET_SECRET_FD="), "{said}");
    assert!(!said.contains("EGRET_SECRET=") && !said.contains("EGRET_SECRET_FILE="), "{said}");
}

#[test]
fn each_rank_has_its_own_pipe_and_nobody_anothers() {
    let job = Job::of_script(4, "echo $EGRET_SECRET_FD; exec sleep 1000");
    let ranks = job.wait_for(4, "sleep 1000");
    let value = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).expect("its environment");
        let mut variables = environment.split(|byte| *byte == 0);
        let found = variables.find_map(|variable| variable.strip_prefix(b"EGRET_SECRET_FD="));
        pipe(&String::from_utf8_lossy(found.expect("a pipe")))
    };
    let own: BTreeMap<i32, _> = ranks.iter().map(|rank| (rank.pid, value(rank.pid))).collect();
    for (pid, (number, inode)) in &own {
        assert_eq!(open_files(*pid).get(number), Some(inode), "its own");
        let at = |other: i32| open_files(other).values().filter(|file| *file == inode).count();
        let others = own.keys().filter(|other| *other != pid).copied();
        for other in others.chain([job.guard(), job.launcher()]) {
            assert_eq!(at(other), 0, "{other} has {inode} of {pid}");
        }
        assert_eq!(at(*pid), 1);
    }
    for egret in [job.guard(), job.launcher()] {
        let environment = fs::read(format!("/proc/{egret}/environ")).expect("its environment");
        assert!(!String::from_utf8_lossy(&environment).contains("EGRET_SECRET"));
    }
    job.signal(Signal::INT);
    assert_eq!(code(&job.end()), 130);
}

#[test]
fn children_of_a_joined_node_find_no_secret() {
    let own = std::env::current_exe().expect("its own path");
    let own = own.to_str().expect("a path");
    let program = [own, "--exact", "secret::program", "--nocapture", "--test-threads=1", "-q"];
    let options = ["-n", "2", "-x", "EGRET_TEST_ROLE=joins"];
    let output = Job::start(&[&options[..], &program].concat()).end();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert_eq!(said.matches("joined with a secret of descriptor").count(), 4, "{said}");
    assert_eq!(said.matches("the secret was taken already").count(), 2, "{said}");
    assert_eq!(said.matches("secret::program").count(), 0, "nothing failed: {said}");
}

/// What the processes of that job do. As a test of its own it is nobody's process.
#[test]
fn program() {
    match std::env::var("EGRET_TEST_ROLE").as_deref() {
        Ok("joins") => println!("\n{}", join()),
        Ok("child") => {
            let why = Config::from_env().expect_err("nothing is left to take");
            assert!(matches!(why, JoinError::SecretTaken { .. }), "{why}");
            println!("\n{why}");
        }
        _ => {}
    }
}

/// What it saw, in lines.
fn join() -> String {
    let mut seen = String::new();
    let (number, inode) = pipe(&std::env::var("EGRET_SECRET_FD").expect("a pipe"));
    let own = i32::try_from(std::process::id()).expect("a number");
    assert_eq!(open_files(own).get(&number), Some(&inode), "before");
    // Twice: the second finds what the first has taken.
    for _ in 0..2 {
        let config = Config::from_env().expect("settings");
        let all = config.settings().all();
        let secret = all.iter().find(|setting| setting.name == "secret").expect("a secret");
        assert_eq!(secret.value.as_deref(), Some("(not shown)"));
        seen += &format!("joined with a secret of {}\n", secret.origin);
    }
    let node = Node::join(Config::from_env().expect("settings")).expect("to join");
    node.wait_all(Deadline::DEFAULT).expect("the other");
    assert!(!open_files(own).values().any(|file| *file == inode), "closed");
    let mut child = Command::new(std::env::current_exe().expect("its own path"));
    child.args(["--exact", "secret::program", "--nocapture", "-q"]);
    let output = child.env("EGRET_TEST_ROLE", "child").output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    seen + said.lines().find(|line| line.contains("EGRET_SECRET_FD")).unwrap_or(&said)
}

#[test]
fn a_look_at_the_settings_takes_nothing() {
    let own = std::env::current_exe().expect("its own path");
    let own = own.to_str().expect("a path");
    let script = format!(
        "for i in 1 2; do '{EGRET}' info --env; done; \
         EGRET_TEST_ROLE=joins exec '{own}' --exact secret::program --nocapture -q"
    );
    let output = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    let shown = said.lines().filter(|line| line.starts_with("EGRET_SECRET  "));
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown.len(), 4, "{said}");
    assert!(
        shown.iter().all(|line| line.contains("(not shown) ") && line.contains(" descriptor ")),
        "{shown:?}"
    );
}

#[test]
fn an_inner_job_has_nothing_of_the_outer_one() {
    let inner = "echo inner $EGRET_SECRET_FD; ls -l /proc/$$/fd";
    let script = format!("echo outer $EGRET_SECRET_FD; exec '{EGRET}' run -n 1 sh -c '{inner}'");
    let output = run(&["-n", "1", "sh", "-c", &script]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    let of = |who: &str| pipe(said.lines().find_map(|line| line.strip_prefix(who)).expect("it"));
    let ((_, outer), (_, inner)) = (of("outer "), of("inner "));
    assert_eq!(said.matches(&inner).count(), 1, "{said}");
    assert_eq!(said.matches(&outer).count(), 0, "{said}");
}

#[test]
fn a_secret_of_the_command_line_is_refused_and_one_of_the_environment_removed() {
    for name in ["EGRET_SECRET", "EGRET_SECRET_FD", "EGRET_SECRET_FILE"] {
        let output = run(&["-n", "1", "-x", &format!("{name}=7"), "true"]);
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(text(&output.stderr).contains(&format!("{name} is what egret run itself gives")));
    }
    let (read, _write) = std::io::pipe().expect("a pipe");
    let mut command = Command::new(EGRET);
    command.args(["run", "-n", "1", "sh", "-c", "echo ${EGRET_SECRET-none} $EGRET_SECRET_FD"]);
    command.env("EGRET_SECRET", "outer").env("EGRET_SECRET_FD", read.as_raw_fd().to_string());
    let output = Job::start_as(command).end();
    let said = text(&output.stdout);
    assert!(said.starts_with("none ") && said.contains(':'), "{output:?}");
}
