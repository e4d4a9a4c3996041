//! Another process: this test, started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use egret::node::{Config, Node};
use egret::rmi::Remoting;
use egret::rt;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::grid::{Board, GridStub, LONG, SOON};

/// What the child is to be: `serve` or `call`, the registry's address, the fabric.
pub(crate) const PART: &str = "EGRET_TEST_RMI_PART";

/// A child that does not outlive its test.
pub(crate) struct Peer {
    pub(crate) child: Child,
    stream: UnixStream,
}

impl Peer {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(what: &str, registry: &str, fabric: &str) -> Self {
        Self::start_in(None, what, registry, fabric)
    }

    /// Starts it in a network namespace, if one is named.
    pub(crate) fn start_in(space: Option<&str>, what: &str, registry: &str, fabric: &str) -> Self {
        let (stream, stdin) = UnixStream::pair().unwrap();
        let this = std::env::current_exe().unwrap();
        let mut command = match space {
            None => Command::new(this),
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]).arg(this);
                command
            }
        };
        command.args(["--exact", "other", "--nocapture"]);
        command.env(PART, format!("{what}|{registry}|{fabric}"));
        command.stdin(OwnedFd::from(stdin)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        // With its end of the stream: if the child ends, so does the stream.
        drop(command);
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut peer = Self { child, stream };
        assert_eq!(peer.said(), "ready");
        peer
    }

    /// The next line it says.
    fn said(&mut self) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, &self.stream).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Has it end: by itself, or by a panic.
    pub(crate) fn end(mut self, panics: bool) {
        self.stream.write_all(if panics { b"p" } else { b"q" }).unwrap();
        assert_eq!(self.child.wait().unwrap().success(), !panics);
    }

    /// Stops it, and waits until none of its threads runs.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    pub(crate) fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(mut self) {
        let until = rt::now() + 2 * LONG;
        while self.child.try_wait().unwrap().is_none() {
            assert!(rt::now() < until, "it does not end");
            rt::sleep(Duration::from_millis(5));
        }
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What the child does until its test is gone.
pub(crate) fn run(part: &str) {
    let [what, registry, fabric] = part.split('|').collect::<Vec<_>>()[..] else {
        panic!("{part}")
    };
    let config = Config::new("rmi").registry(registry).secret(SECRET.into()).fabrics(fabric);
    let node = Node::join(config).unwrap();
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut stream = UnixStream::from(stdin);
    let mut order = [0];
    if what == "serve" {
        let exported = node.export(Board::default()).unwrap();
        exported.bind("grid").unwrap();
        stream.write_all(b"ready\n").unwrap();
        let ordered = stream.read(&mut order).unwrap_or(0);
        assert!(ordered == 0 || order[0] != b'p', "told to panic");
        return;
    }
    let home: GridStub = node.lookup("home", SOON).unwrap();
    home.ping().unwrap();
    stream.write_all(b"ready\n").unwrap();
    // One of each: waited for by a thread, begun, and in the gate's queue.
    let (begun, waits) = (home.begin().sleep_ms(60_000), home.begin().best(1));
    let calls = rt::spawn("calls", move || home.sleep_ms(60_000)).unwrap();
    _ = (calls.join(), begun.wait(), waits.wait());
}

/// A secret that nobody could guess, had it not been written here.
pub(crate) const SECRET: &str =
    "egret1.6875736868757368687573686875736868757368687573686875736868757368";
