//! Event loops that poll a nic's descriptor among others: no wake-up is lost.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs};

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::fabric::sim::Sim;
use egret_net::fabric::tcp::TcpFabric;
use egret_net::rt::{self, Deadline, GivenBack, Instant};
use egret_net::vi::{
    Address, Arming, Completion, Descriptor, Nic, NicOptions, PostError, Vi, ViError, ViOptions,
    Wait,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const ROUNDS: u64 = 2_000;
/// Turns a wake-up that was lost into a failure.
const PATIENCE: Duration = Duration::from_secs(30);
const LONG: Deadline = Deadline::In(PATIENCE);
/// What a second process is to do.
const PART: &str = "EGRET_TEST_WATCHING";

/// Sleeps in poll(2) until the descriptor is readable. Whether it is.
fn readable(nic: &Nic, within: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(nic.fd().unwrap(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::try_from(within).unwrap())).unwrap() > 0
}

/// The next completion, by a loop that polls, arms and sleeps.
fn next(nic: &Nic, mut take: impl FnMut() -> Option<Completion>) -> Completion {
    let started = rt::now();
    loop {
        let seen = nic.poll();
        if let Some(completion) = take() {
            return completion;
        }
        if let Arming::Armed { until } = nic.arm(seen) {
            let within = until.map_or(PATIENCE, |until: Instant| until.since(rt::now()));
            let woken = readable(nic, within.min(PATIENCE));
            nic.disarm();
            let is_late = !woken && rt::now() - started >= PATIENCE;
            assert!(!is_late, "a wake-up of {} was lost", nic.host());
        }
    }
}

/// One side of a ping-pong.
fn play(nic: &Nic, vi: &Vi, is_first: bool) {
    let sent = || next(nic, || vi.send_queue().poll()).done().unwrap();
    let mut receive = Some(Descriptor::new(vec![0_u8; 8]));
    for round in 0..ROUNDS {
        vi.post_recv(receive.take().unwrap()).unwrap();
        if is_first {
            vi.post_send(Descriptor::empty().with_tag(round)).unwrap();
        }
        let got = next(nic, || vi.recv_queue().poll()).ok().unwrap();
        assert_eq!(got.tag, round);
        receive = Some(got.into_descriptor());
        if !is_first {
            vi.post_send(Descriptor::empty().with_tag(round)).unwrap();
        }
        sent();
    }
    // The other side hears that its last message is here only while this one is driven.
    if is_first {
        // Which may have closed by now.
        let end = match vi.post_recv(receive.unwrap()) {
            Ok(_) => next(nic, || vi.recv_queue().poll()).done(),
            Err(GivenBack { why: PostError::Broken(why), .. }) => Err(why),
            Err(refused) => panic!("{refused}"),
        };
        assert_eq!(end, Err(ViError::ClosedByPeer));
    }
}

fn open(fabric: &str, wait: Wait) -> Nic {
    if fabric == "shm" {
        let name = format!("watching-{}-{}", std::process::id(), rt::random());
        return ShmFabric.open(&NicOptions::new(&name).wait(wait)).unwrap();
    }
    TcpFabric.open(&NicOptions::new("127.0.0.1").wait(wait)).unwrap()
}

fn call(nic: &Nic, host: &str) -> Vi {
    nic.wait_connect(&Address::new(host, "watching", 0), &ViOptions::default(), LONG).unwrap()
}

fn on_two_threads(fabric: &'static str, wait: Wait) {
    let (here, there) = (open(fabric, wait), open(fabric, wait));
    let listener = there.listen("watching", 0, &ViOptions::default()).unwrap();
    let host = there.host().to_owned();
    let caller = rt::spawn("caller", move || {
        let vi = call(&here, &host);
        play(&here, &vi, true);
    });
    let vi = listener.wait_accept(LONG).unwrap();
    play(&there, &vi, false);
    drop((vi, listener, there));
    caller.unwrap().join().unwrap();
}

#[test]
fn no_wake_up_is_lost_between_threads() {
    for fabric in ["shm", "tcp"] {
        for wait in [Wait::Frugal, Wait::Balanced] {
            on_two_threads(fabric, wait);
        }
    }
}

/// A child that does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Ok(part) = env::var(PART) else { return };
    let (fabric, host) = part.split_once('|').unwrap();
    let nic = open(fabric, Wait::Frugal);
    play(&nic, &call(&nic, host), true);
}

#[test]
fn no_wake_up_is_lost_between_processes() {
    let program = fs::read_link("/proc/self/exe").unwrap();
    for fabric in ["shm", "tcp"] {
        let nic = open(fabric, Wait::Frugal);
        let listener = nic.listen("watching", 0, &ViOptions::default()).unwrap();
        let child = Command::new(&program)
            .args(["--exact", "watching::child", "--nocapture"])
            .env(PART, format!("{fabric}|{}", nic.host()))
            .stdout(Stdio::null())
            .spawn();
        let mut child = Process(child.unwrap());
        let vi = listener.wait_accept(LONG).unwrap();
        play(&nic, &vi, false);
        drop((vi, listener, nic));
        assert!(child.0.wait().unwrap().success());
    }
}

#[test]
fn what_is_there_already_is_said() {
    for fabric in ["shm", "tcp"] {
        let nic = open(fabric, Wait::Frugal);
        let seen = nic.poll();
        nic.wake();
        assert_eq!(nic.arm(seen), Arming::Ready, "{fabric}: something has happened since");
        let Arming::Armed { .. } = nic.arm(nic.poll()) else { panic!("{fabric}: nothing has") };
        assert!(!readable(&nic, Duration::ZERO), "{fabric}");
        nic.wake();
        assert!(readable(&nic, PATIENCE), "{fabric}: a wake ends a sleep");
        nic.disarm();
        assert!(!readable(&nic, Duration::ZERO), "{fabric}: and only that");
        nic.disarm();
    }
}

/// A thread that waits for the nic and a loop that does are both told.
#[test]
fn a_loop_beside_a_waiting_thread_is_woken() {
    for fabric in ["shm", "tcp"] {
        let nic = open(fabric, Wait::Frugal);
        let is_over = Arc::new(AtomicBool::new(false));
        let waiting = rt::spawn("waiting", {
            let (nic, is_over) = (nic.clone(), Arc::clone(&is_over));
            move || {
                while !is_over.load(Ordering::SeqCst) {
                    let seen = nic.poll();
                    nic.wait(seen, Some(rt::now() + PATIENCE));
                }
            }
        });
        for _ in 0..200 {
            let seen = nic.poll();
            let waker = rt::spawn("waker", {
                let nic = nic.clone();
                move || nic.wake()
            });
            if let Arming::Armed { .. } = nic.arm(seen) {
                assert!(readable(&nic, PATIENCE), "{fabric}: a wake-up was lost");
            }
            nic.disarm();
            waker.unwrap().join().unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        nic.wake();
        waiting.unwrap().join().unwrap();
    }
}

#[test]
fn where_nobody_sleeps_there_is_nothing_to_poll() {
    let sim = Sim::new(1);
    for nic in [sim.nic("a"), open("shm", Wait::Spin)] {
        assert!(nic.fd().is_none());
        assert_eq!(nic.arm(nic.poll()), Arming::Ready);
        nic.disarm();
    }
}
