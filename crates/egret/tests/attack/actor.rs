//! Another process: this test, started again, that is given orders.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What the child is to be.
pub(crate) const PART: &str = "EGRET_TEST_ATTACK_PART";
/// An order is carried out in this time, or the test has failed.
const LONG: Duration = Duration::from_secs(90);

/// A child that does not outlive its test.
#[derive(Debug)]
pub(crate) struct Actor {
    child: Child,
    stream: BufReader<UnixStream>,
}

impl Actor {
    /// Starts it in a network namespace.
    pub(crate) fn start(space: &str, part: &str) -> Self {
        let (stream, stdin) = UnixStream::pair().unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "other", "--nocapture"]).env(PART, part);
        command.stdin(OwnedFd::from(stdin)).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self { child, stream: BufReader::new(stream) }
    }

    /// What it answers to an order.
    pub(crate) fn ask(&mut self, order: &str) -> String {
        writeln!(self.stream.get_mut(), "{order}").unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it ended, ordered to {order}");
        line.trim_end().to_owned()
    }

    /// Orders what must be done.
    #[track_caller]
    pub(crate) fn order(&mut self, order: &str) {
        let said = self.ask(order);
        assert_eq!(said, "done", "ordered to {order}");
    }

    /// Asks for a number.
    #[track_caller]
    pub(crate) fn count(&mut self, order: &str) -> u64 {
        let said = self.ask(order);
        said.parse().unwrap_or_else(|_| panic!("{order}: {said}"))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Carries out orders until who gives them is gone.
pub(crate) fn obey(mut carry_out: impl FnMut(&[&str]) -> String) {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut stream = BufReader::new(UnixStream::from(stdin));
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|len| len > 0) {
        let order: Vec<&str> = line.trim_end().split(' ').collect();
        let said = carry_out(&order).replace('\n', " ");
        if writeln!(stream.get_mut(), "{said}").is_err() {
            return;
        }
        line.clear();
    }
}

/// What is said of an attempt.
pub(crate) fn outcome<T, E: std::fmt::Debug>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(why) => format!("failed: {why:?}"),
    }
}
