//! The programs as processes of a job: the registry is in the test.
#![forbid(unsafe_code)]

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use egret::node::registry::{Registry, RegistryOptions};
use egret::rt;

/// A registry, and so many processes of a program.
struct Job {
    registry: Registry,
    processes: Vec<Option<Child>>,
}

impl Job {
    fn start(program: &str, size: u32, line: &str) -> Self {
        let options = RegistryOptions::new("test", size).secret(SECRET.into());
        let registry = Registry::open(options).expect("a registry");
        let start = |rank: u32| {
            let mut command = Command::new(program);
            command.args(line.split_whitespace());
            command.env("EGRET_POOL", "test").env("EGRET_SECRET", SECRET);
            command.env("EGRET_REGISTRY", registry.address()).env("EGRET_RANK", rank.to_string());
            command.env("EGRET_SIZE", size.to_string()).env_remove("EGRET_FABRICS");
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
            Some(command.spawn().expect("a process"))
        };
        let processes = (0..size).map(start).collect();
        Self { registry, processes }
    }

    /// Waits for a process, and tells the registry, as whoever started it does.
    fn end(&mut self, rank: u32) -> Output {
        let mut child = self.processes[rank as usize].take().expect("it is waited for once");
        let until = rt::now() + PATIENCE;
        while child.try_wait().expect("a child").is_none() {
            if rt::now() > until {
                child.kill().expect("a child");
                panic!("rank {rank} has not ended");
            }
            rt::sleep(Duration::from_millis(10));
        }
        self.registry.ended(rank, "it exited");
        child.wait_with_output().expect("a child")
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in self.processes.iter_mut().flatten() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn several_processes_report_once() {
    for (program, line) in [
        (env!("CARGO_BIN_EXE_sor"), "--size 200 --iterations 40 --json --efficiency --rounds 2"),
        (env!("CARGO_BIN_EXE_pmm"), "--size 96 --rounds 2 --json --efficiency"),
    ] {
        let mut job = Job::start(program, 3, line);
        for rank in [1, 2] {
            let output = job.end(rank);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!((text(&output.stdout), text(&output.stderr)), Default::default());
        }
        let output = job.end(0);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "no bar where there is no terminal");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
        assert_eq!(report["processes"], 3);
        for run in report["runs"].as_array().expect("runs") {
            assert_eq!(run["checked"], true);
            assert!(run["speed_up"].as_f64().is_some_and(|figure| figure > 0.0), "{run}");
            assert!(run["messages"].as_u64().is_some_and(|count| count > 0), "{run}");
            assert_eq!(run["efficiency"]["copies_seconds"].as_array().map(Vec::len), Some(2));
        }
    }
}

#[test]
fn one_process_by_itself_needs_nobody() {
    for (program, line) in [
        (env!("CARGO_BIN_EXE_sor"), "--size 100 --iterations 10"),
        (env!("CARGO_BIN_EXE_pmm"), "--size 64"),
    ] {
        let mut command = Command::new(program);
        for name in ["EGRET_REGISTRY", "EGRET_JOB", "EGRET_RANK", "EGRET_SIZE"] {
            command.env_remove(name);
        }
        let output = command.args(line.split_whitespace()).output().expect("a process");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.contains("with 1 process\n") && table.contains("yes"), "{table}");
    }
}

/// Killed while all compute: the others end with an error that names it.
#[test]
fn survivors_name_the_killed_process() {
    for (program, line) in [
        (env!("CARGO_BIN_EXE_sor"), "--size 400 --iterations 4000000000"),
        (env!("CARGO_BIN_EXE_sor"), "--size 60 --converge=1e-3 --rounds 1000"),
        (env!("CARGO_BIN_EXE_pmm"), "--size 128 --rounds 1000 --variant rmi"),
        (env!("CARGO_BIN_EXE_pmm"), "--size 128 --rounds 1000 --variant vi-posted"),
    ] {
        let mut job = Job::start(program, 3, line);
        rt::sleep(Duration::from_millis(1500));
        let victim = job.processes[2].as_mut().expect("a child");
        victim.kill().expect("it runs");
        let killed = job.end(2);
        assert!(!killed.status.success(), "{line}: it was to be killed before it ended");
        for rank in [0, 1] {
            let output = job.end(rank);
            assert_eq!(output.status.code(), Some(1), "{line}: rank {rank}");
            let said = text(&output.stderr);
            assert!(said.contains("is gone"), "{line}: rank {rank}: {said}");
        }
    }
}

/// A generous bound that turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A secret that nobody could guess, had it not been written here.
const SECRET: &str = "egret1.6875736868757368687573686875736868757368687573686875736868757368";
