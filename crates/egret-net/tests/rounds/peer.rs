//! The process that is killed: this test, started again.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_net::vi::{Address, ViError};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::flow::{Flow, Footprint, Side};
use super::party::{SERVICE, listen, options};
use super::{LONG, command};

/// What the child is to be, its fabric, what its nic is opened with, its seed.
pub(crate) const PART: &str = "EGRET_TEST_ROUNDS_PART";
pub(crate) const CONNECT: &str = "connect ";

/// A child that does not outlive its test.
pub(crate) struct Peer {
    child: Child,
    orders: UnixStream,
    host: String,
}

impl Peer {
    /// Starts it, in another network namespace if one is named.
    pub(crate) fn start(part: &str, space: Option<&str>) -> Self {
        Self::start_with(part, space, Stdio::null())
    }

    /// Starts it with this to write to.
    pub(crate) fn start_with(part: &str, space: Option<&str>, stdout: Stdio) -> Self {
        let (orders, stdin) = UnixStream::pair().unwrap();
        let child = command(space)
            .args(["--exact", "other", "--nocapture"])
            .env(PART, part)
            .stdin(OwnedFd::from(stdin))
            .stdout(stdout)
            .spawn();
        orders.set_read_timeout(Some(LONG)).unwrap();
        let mut peer = Self { child: child.unwrap(), orders, host: String::new() };
        peer.host = peer.said();
        peer
    }

    /// Where it is found.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Has it connect to this side.
    pub(crate) fn connect(&mut self, here: &str) {
        self.tell(&format!("{CONNECT}{here}"));
    }

    pub(crate) fn leave(&mut self) {
        self.tell("leave");
    }

    pub(crate) fn tell(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    /// The next line it says.
    pub(crate) fn said(&mut self) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, &self.orders).read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the other process said nothing more after {line:?}");
        line.trim_end().to_owned()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn stop(&mut self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let stopped = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(stopped.1.stopped(), "{stopped:?}");
    }

    pub(crate) fn go_on(&mut self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// It found nothing wrong either.
    pub(crate) fn assert_left_well(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the other process says what is wrong: {status}");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What the child is told.
pub(crate) struct Orders {
    stream: UnixStream,
    read: Vec<u8>,
}

/// The next order.
pub(crate) enum Order {
    /// There is none yet.
    None,
    Some(String),
    /// Whoever gives them is gone.
    End,
}

impl Orders {
    pub(crate) fn inherited() -> Self {
        let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let stream = UnixStream::from(stdin);
        stream.set_nonblocking(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn next(&mut self) -> Order {
        let mut bytes = [0; 200];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Order::End,
            Ok(len) => self.read.extend(&bytes[..len]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Order::End,
        }
        match self.read.iter().position(|byte| *byte == b'\n') {
            None => Order::None,
            Some(end) => {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                Order::Some(String::from_utf8(line).unwrap().trim_end().to_owned())
            }
        }
    }
}

impl AsFd for Orders {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// What the child does until it is told to leave, or killed.
pub(crate) fn run(fabric: &str, name: &str, known: Duration, seed: u64) {
    let mut orders = Orders::inherited();
    let before = Footprint::now();
    follow(fabric, name, known, seed, &mut orders);
    assert_eq!(Footprint::now(), before);
}

fn follow(fabric: &str, name: &str, known: Duration, mut seed: u64, orders: &mut Orders) {
    let side = Side::new(fabric, name);
    let (options, listener) = (options(&side.nic), listen(&side));
    orders.say(side.nic.host());
    let mut flows: Vec<Flow> = Vec::new();
    loop {
        let vi = match orders.next() {
            Order::None => listener.poll_accept().unwrap(),
            Order::Some(order) => {
                let Some(here) = order.strip_prefix(CONNECT) else { break };
                let to = Address::new(here, SERVICE, 0);
                Some(side.nic.wait_connect(&to, &options, Deadline::In(LONG)).unwrap())
            }
            Order::End => break,
        };
        seed += 1;
        flows.extend(vi.map(|vi| Flow::new(vi, &side, seed)));
        let seen = side.nic.poll();
        let mut moved = 0;
        flows.retain_mut(|flow| match flow.turn(&side) {
            Ok(done) => {
                moved += done;
                true
            }
            Err(_) => {
                let why = flow.end(&side, rt::now() + known);
                let is_typed = matches!(why, ViError::ClosedByPeer | ViError::PeerDied { .. });
                assert!(is_typed, "{why:?}");
                false
            }
        });
        if moved == 0 {
            side.nic.wait(seen, Some(rt::now() + Duration::from_millis(1)));
        }
    }
    for mut flow in flows {
        flow.vi.disconnect();
        flow.end(&side, rt::now() + known);
    }
    side.assert_all_back();
}
