//! This test started again as another program.

use std::env;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Pid;

/// A child that does not outlive its test.
#[derive(Debug)]
pub(super) struct Program(Child);

impl Program {
    /// Runs the test of this name, which finds its [`part`] and plays it.
    pub(super) fn start(test: &str, part: &str) -> Self {
        let child = Command::new("/proc/self/exe")
            .args(["--exact", test, "--nocapture"])
            .env(PART, part)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// What this process was started to do.
pub(super) fn part() -> Option<String> {
    env::var(PART).ok()
}

/// Runs the test of this name once more, alone in a process: other tests open
/// descriptors too. Whether this is that process.
pub(super) fn is_alone(test: &str) -> bool {
    if env::var(ALONE).is_ok() {
        return true;
    }
    let command = Command::new("/proc/self/exe")
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "")
        .output();
    let output = command.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    false
}

const PART: &str = "EGRET_TEST_SHM_PROGRAM";
const ALONE: &str = "EGRET_TEST_SHM_ALONE_HERE";
