//! Two real processes: this test, started again as the answerer.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use super::conformance::{all, nic, trusting};
use crate::buf::Pool;
use crate::conformance::Profile;
use crate::fabric::common::tests::{Process, all_pass, answer, in_two_processes};
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, Trust, ViError, ViOptions, Wait};

/// What the child is to do.
const PART: &str = "EGRET_TEST_SHM_PART";
const CHILD: &str = "fabric::shm::tests::processes::child";
/// The names of the child that sends for ever, and is killed, and of the process that it sends to.
const SENDER: &str = "EGRET_TEST_SHM_SENDER";
const SENDING: &str = "fabric::shm::tests::processes::sender";

fn profile(trust: Trust) -> Profile {
    let cooperating = trust == Trust::Cooperating;
    Profile { shareable: !cooperating, cooperating, ..Profile::default() }
}

/// Not a test by itself: what the child does.
#[test]
fn child() {
    answer(PART, |trust| {
        let levels = [Trust::Isolated, Trust::Cooperating];
        let trust = levels.into_iter().find(|level| level.to_string() == trust).unwrap();
        let nic = trusting(&format!("answerer-{}", rt::random()), trust);
        (nic, profile(trust), all(&profile(trust)))
    });
}

fn all_in_processes(trust: Trust) {
    all_pass(all(&profile(trust)), move |case| {
        let caller = trusting(&format!("caller-{}", rt::random()), trust);
        in_two_processes(case, &profile(trust), caller, (CHILD, PART, &trust.to_string()))
    });
}

#[test]
fn conformance_in_two_processes() {
    all_in_processes(Trust::Isolated);
}

#[test]
fn conformance_in_two_processes_that_cooperate() {
    all_in_processes(Trust::Cooperating);
}

const MESSAGE: usize = 300_000;
const AT_ONCE: usize = 4;

/// Not a test by itself: the victim, which both sends from a pool and wants to receive.
#[test]
fn sender() {
    let Ok(names) = env::var(SENDER) else { return };
    let (caller, own) = names.split_once('|').unwrap();
    let nic = nic(own, Wait::Balanced);
    let to = Address::new(caller, "dying", 0);
    let vi = nic.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT).unwrap();
    let pool = Pool::builder().class(MESSAGE, 2 * AT_ONCE).shareable().build().unwrap();
    for _ in 0..AT_ONCE {
        vi.post_recv(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
        vi.post_send(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
    }
    loop {
        let sent = vi.send_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
        vi.post_send(Descriptor::new(sent.into_buf())).unwrap();
        while let Some(got) = vi.recv_queue().poll() {
            vi.post_recv(Descriptor::new(got.into_buf())).unwrap();
        }
    }
}

/// Descriptors and mappings of ours that are open.
fn footprint() -> (usize, usize) {
    let fds = fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.lines().filter(|line| line.contains("egret")).count())
}

/// Lets a child send for a while, then kills it, and looks at what is left.
fn survive(round: u64) {
    let unique = rt::random();
    let (caller, victim) = (format!("caller-{unique}"), format!("victim-{unique}"));
    let nic = nic(&caller, Wait::Balanced);
    let listener = nic.listen("dying", 0, &ViOptions::default()).unwrap();
    let mut victim = Process::start(SENDING, SENDER, &format!("{caller}|{victim}"), Stdio::null());
    let vi = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let pool = Pool::builder().class(MESSAGE, 2 * AT_ONCE).shareable().build().unwrap();
    for _ in 0..AT_ONCE {
        vi.post_recv(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
        vi.post_send(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
    }
    for _ in 0..round % 10 {
        let got = vi.recv_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
        vi.post_recv(Descriptor::new(got.into_buf())).unwrap();
    }
    victim.kill();
    let died = Deadline::In(Duration::from_secs(10));
    for queue in [vi.recv_queue(), vi.send_queue()] {
        while queue.outstanding() > 0 {
            let back = queue.wait(died).unwrap();
            let is_typed = matches!(back.status, Ok(()) | Err(ViError::PeerDied { .. }));
            assert!(is_typed, "{:?}", back.status);
        }
        while queue.poll().is_some() {}
    }
    // Everything may have come back well before the death was known.
    let until = died.until();
    while vi.error().is_none() && until > Some(rt::now()) {
        let seen = nic.poll();
        nic.wait(seen, Some(rt::now() + Duration::from_millis(10)));
    }
    assert!(matches!(vi.error(), Some(ViError::PeerDied { .. })), "{:?}", vi.error());
    let all: Vec<_> = (0..2 * AT_ONCE).map(|_| pool.take(MESSAGE).unwrap()).collect();
    drop((all, vi, listener, nic));
}

/// Alone in a process: other tests open descriptors too.
#[test]
fn a_peer_that_is_killed_leaves_nothing() {
    const ALONE: &str = "EGRET_TEST_SHM_ALONE";
    const NAME: &str = "fabric::shm::tests::processes::a_peer_that_is_killed_leaves_nothing";
    if env::var(ALONE).is_err() {
        let command =
            Command::new("/proc/self/exe").args(["--exact", NAME]).env(ALONE, "").output();
        let output = command.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    survive(0);
    let before = footprint();
    for round in 0..rt::trials(100) {
        survive(round);
    }
    assert_eq!(footprint(), before, "(descriptors, mappings)");
}
