//! Peers that are killed, or exit, at any point: everything comes back.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, exit};
use std::time::Duration;
use std::{env, fs};

use super::conformance::{V4, nic};
use super::raw::patience;
use crate::buf::Pool;
use crate::fabric::common::tests::Process;
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, ViError, ViOptions, Wait};

const VICTIM: &str = "EGRET_TEST_TCP_VICTIM";
const MESSAGE: usize = 300_000;
const AT_ONCE: usize = 4;

/// Runs a test of this program in a process of its own.
pub(super) fn run_alone(name: &str, key: &str) {
    let output = Command::new("/proc/self/exe").args(["--exact", name]).env(key, "").output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Not a test by itself: it both sends and wants to receive, until it is killed or
/// has received so much that it exits.
#[test]
fn victim() {
    let Ok(told) = env::var(VICTIM) else { return };
    let (host, exits_after) = told.split_once('|').unwrap();
    let mut exits_after: i64 = exits_after.parse().unwrap();
    let nic = nic(V4, Wait::Balanced);
    let to = Address::new(host, "dying", 0);
    let vi = nic.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT).unwrap();
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    writeln!(UnixStream::from(stdin), "connected").unwrap();
    let pool = Pool::new(MESSAGE, 2 * AT_ONCE).unwrap();
    for _ in 0..AT_ONCE {
        vi.post_recv(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
        vi.post_send(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
    }
    loop {
        while let Some(sent) = vi.send_queue().poll() {
            vi.post_send(sent.ok().unwrap().into_descriptor()).unwrap();
        }
        while let Some(got) = vi.recv_queue().poll() {
            vi.post_recv(got.ok().unwrap().into_descriptor()).unwrap();
            exits_after -= 1;
            if exits_after == 0 {
                exit(0);
            }
        }
    }
}

/// Lets a peer live for a while, then not, and looks at what is left.
fn survive(round: u64) {
    const TEST: &str = "fabric::tcp::tests::death::victim";
    let nic = nic(V4, Wait::Balanced);
    let listener = nic.listen("dying", 0, &ViOptions::default()).unwrap();
    let exits_after = if round.is_multiple_of(3) { (round % 7 + 1).cast_signed() } else { -1 };
    let (here, there) = UnixStream::pair().unwrap();
    let told = format!("{}|{exits_after}", nic.host());
    let mut victim = Process::start(TEST, VICTIM, &told, OwnedFd::from(there).into());
    let vi = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let pool = Pool::new(MESSAGE, 2 * AT_ONCE).unwrap();
    for _ in 0..AT_ONCE {
        vi.post_recv(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
        vi.post_send(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
    }
    if exits_after > 0 {
        while vi.error().is_none() {
            let back = vi.send_queue().wait(patience()).unwrap();
            if back.status.is_ok() {
                let _ = vi.post_send(back.into_descriptor());
            }
        }
    } else {
        BufReader::with_capacity(1, &here).read_line(&mut String::new()).unwrap();
        for _ in 0..rt::random() % 10 {
            let got = vi.recv_queue().wait(patience()).unwrap().ok().unwrap();
            vi.post_recv(got.into_descriptor()).unwrap();
        }
        rt::sleep(Duration::from_micros(rt::random() % 500));
        victim.kill();
    }
    for queue in [vi.recv_queue(), vi.send_queue()] {
        while queue.outstanding() > 0 {
            let back = queue.wait(patience()).unwrap();
            let is_typed = matches!(back.status, Ok(()) | Err(ViError::PeerDied { .. }));
            assert!(is_typed, "{:?}", back.status);
        }
        while queue.poll().is_some() {}
    }
    // Everything may have come back well before the death was known.
    let until = rt::now() + patience();
    while vi.error().is_none() && rt::now() < until {
        let seen = nic.poll();
        nic.wait(seen, Some(rt::now() + Duration::from_millis(10)));
    }
    assert!(matches!(vi.error(), Some(ViError::PeerDied { .. })), "{:?}", vi.error());
    let all: Vec<_> = (0..2 * AT_ONCE).map(|_| pool.take(MESSAGE).unwrap()).collect();
    drop((all, vi, listener, nic));
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Alone in a process: other tests open descriptors too.
#[test]
fn a_peer_that_dies_leaves_nothing() {
    const ALONE: &str = "EGRET_TEST_TCP_ALONE";
    const NAME: &str = "fabric::tcp::tests::death::a_peer_that_dies_leaves_nothing";
    if env::var(ALONE).is_err() {
        run_alone(NAME, ALONE);
        return;
    }
    survive(1);
    let before = descriptors();
    for round in 0..rt::trials(60) {
        survive(round);
    }
    assert_eq!(descriptors(), before, "descriptors");
}
