//! The process that has the bad luck: this test, started again.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_net::vi::{Address, ViError, ViOptions};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::flow::{Flow, Footprint, Side};
use super::{KNOWN, LONG};

/// What the child is called, whom it knows and its seed.
pub(crate) const PART: &str = "EGRET_TEST_ROUNDS_PART";
const CONNECT: u8 = b'c';
const LEAVE: u8 = b'l';

/// A child that does not outlive its test.
pub(crate) struct Peer {
    child: Child,
    orders: UnixStream,
}

impl Peer {
    pub(crate) fn start(here: &str, there: &str, seed: u64) -> Self {
        let (orders, stdin) = UnixStream::pair().unwrap();
        let child = Command::new("/proc/self/exe")
            .args(["--exact", "other", "--nocapture"])
            .env(PART, format!("{here}|{there}|{seed}"))
            .stdin(OwnedFd::from(stdin))
            .stdout(Stdio::null())
            .spawn();
        Self { child: child.unwrap(), orders }
    }

    /// Has it connect to this side.
    pub(crate) fn connect(&mut self) {
        self.orders.write_all(&[CONNECT]).unwrap();
    }

    pub(crate) fn leave(&mut self) {
        self.orders.write_all(&[LEAVE]).unwrap();
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

/// What the child does until it is told to leave, or killed.
pub(crate) fn run(part: &str) {
    let [here, there, seed] = part.split('|').collect::<Vec<_>>()[..] else { panic!("{part}") };
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let orders = UnixStream::from(stdin);
    orders.set_nonblocking(true).unwrap();
    let before = Footprint::now();
    follow(here, there, seed.parse().unwrap(), orders.try_clone().unwrap());
    assert_eq!(Footprint::now(), before);
}

fn follow(here: &str, there: &str, mut seed: u64, mut orders: UnixStream) {
    let side = Side::new(there);
    let options = ViOptions::default();
    let listener = side.nic.listen("rounds", 0, &options).unwrap();
    let to = Address::new(here, "rounds", 0);
    let mut flows: Vec<Flow> = Vec::new();
    loop {
        let mut order = [0];
        let vi = match orders.read(&mut order) {
            Ok(1) if order == [CONNECT] => {
                Some(side.nic.wait_connect(&to, &options, Deadline::In(LONG)).unwrap())
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => listener.poll_accept().unwrap(),
            // Told to leave, or alone.
            _ => break,
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
                let why = flow.end(&side, rt::now() + KNOWN);
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
        flow.end(&side, rt::now() + KNOWN);
    }
    side.assert_all_back();
}
