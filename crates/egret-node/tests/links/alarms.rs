//! Alarms, and who rings them.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use egret_net::fabric::Fabrics;
use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Instant};
use egret_net::vi::{Arming, NicOptions, Wait};
use egret_node::{Links, LinksOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::LONG;

/// The names of the threads that have woken it.
#[derive(Default)]
struct Rung(Mutex<Vec<String>>);

impl Rung {
    fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    fn by(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().push(rt::current().name().unwrap_or_default().to_owned());
    }
}

fn links(fabric: &str, wait: Wait, background: bool) -> Links {
    let name = match fabric {
        "shm" => format!("alarms-{}-{}", std::process::id(), rt::random()),
        _ => String::new(),
    };
    let nic = NicOptions::new(&name).secret(crate::SECRET.into()).wait(wait);
    let nic = Fabrics::default().open(fabric, nic).unwrap();
    Links::open(nic, LinksOptions::default().background(background)).unwrap()
}

fn soon() -> Instant {
    rt::now() + Duration::from_millis(20)
}

/// Runs until a moment has come; `None` if nobody wakes it.
fn sleep_on(links: &Links, at: Instant) -> Option<()> {
    let mut alarm = None;
    let slept = poll_fn(|context| {
        if rt::now() >= at {
            return Poll::Ready(());
        }
        alarm.get_or_insert_with(|| links.alarm(at, context.waker()));
        Poll::Pending
    });
    links.wait_on(slept, LONG)
}

#[test]
fn a_thread_that_runs_a_future_rings_while_nothing_else_happens() {
    for (fabric, wait) in [
        ("shm", Wait::Spin),
        ("shm", Wait::Balanced),
        ("shm", Wait::Frugal),
        ("tcp", Wait::Balanced),
        ("tcp", Wait::Frugal),
        ("udp", Wait::Frugal),
    ] {
        let links = links(fabric, wait, false);
        for _ in 0..3 {
            let at = soon();
            assert!(sleep_on(&links, at).is_some(), "{fabric}, {wait:?}: nobody rang");
            assert!(rt::now() >= at);
        }
        assert_eq!(links.account().alarms, 0);
    }
}

#[test]
fn an_alarm_that_is_sooner_wakes_who_sleeps() {
    for fabric in ["shm", "tcp"] {
        let links = links(fabric, Wait::Frugal, false);
        let far = links.alarm(rt::now() + 2 * LONG, Waker::noop());
        let drives = links.clone();
        let drives = rt::spawn("drives", move || drives.drive(LONG, || false)).unwrap();
        let rung = Arc::new(Rung::default());
        for round in 1..=5 {
            rt::sleep(Duration::from_millis(10));
            let alarm = links.alarm(soon(), &rung.waker());
            let until = rt::now() + LONG / 2;
            while rung.by().len() < round {
                assert!(rt::now() < until, "{fabric}: nobody rang in round {round}");
                rt::sleep(Duration::from_millis(1));
            }
            drop(alarm);
        }
        assert_eq!(rung.by(), ["drives"; 5], "{fabric}");
        drop((far, links));
        drop(drives);
    }
}

#[test]
fn the_background_rings_if_nobody_else_drives() {
    let links = links("shm", Wait::Balanced, true);
    let rung = Arc::new(Rung::default());
    let _alarms = [(); 3].map(|()| links.alarm(soon(), &rung.waker()));
    let until = rt::now() + LONG;
    while rung.by().len() < 3 {
        assert!(rt::now() < until, "{:?}", rung.by());
        rt::sleep(Duration::from_millis(1));
    }
    assert_eq!(rung.by(), ["egret links"; 3]);
}

#[test]
fn an_event_loop_is_told_and_woken() {
    for fabric in ["shm", "tcp"] {
        let links = links(fabric, Wait::Frugal, false);
        let rung = Arc::new(Rung::default());
        let arm = || loop {
            if let Arming::Armed { until } = links.arm() {
                return until;
            }
        };
        let before = arm();
        let far = links.alarm(rt::now() + LONG, &rung.waker());
        assert!(before.is_none_or(|before| before > rt::now() + LONG) == is_readable(&links));
        links.disarm();
        let at = soon();
        let near = links.alarm(at, &rung.waker());
        let until = arm().unwrap();
        assert!(until <= at, "{fabric}: {until:?}, and it rings at {at:?}");
        links.disarm();
        rt::sleep(at.since(rt::now()));
        _ = arm();
        links.disarm();
        assert_eq!(rung.by().len(), 1, "{fabric}");
        drop((near, far));
        assert_eq!(links.account().alarms, 0);
    }
}

fn is_readable(links: &Links) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(links.fd().unwrap(), PollFlags::IN)];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&none)).unwrap() > 0
}

#[test]
fn one_that_is_dropped_wakes_nobody() {
    let links = links("shm", Wait::Balanced, false);
    let rung = Arc::new(Rung::default());
    let at = soon();
    let mut alarms: Vec<_> = (0..10_000).map(|_| links.alarm(at, &rung.waker())).collect();
    alarms.drain(..9_000);
    assert_eq!(links.account().alarms, 1_000);
    // Others wait no longer for that.
    assert!(sleep_on(&links, at + Duration::from_millis(1)).is_some());
    // On a busy machine their time may have come before there were all of them.
    let late = rt::now() + LONG;
    while rung.by().len() < 1_000 && rt::now() < late {
        sleep_on(&links, rt::now() + Duration::from_millis(1));
    }
    assert_eq!(rung.by().len(), 1_000);
    drop(alarms);
    assert!(links.account().is_settled(), "{:?}", links.account());
}

#[test]
fn in_a_world_without_threads_a_poll_rings() {
    let sim = Sim::new(1);
    let links = Links::open(sim.nic("a"), LinksOptions::default()).unwrap();
    let rung = Arc::new(Rung::default());
    // Each look takes a moment of the world's time.
    let (at, look) = (rt::now() + LONG, Duration::from_millis(1));
    let _alarm = links.alarm(at, &rung.waker());
    let (mut polls, nic) = (0, links.nic().clone());
    while rung.by().is_empty() {
        polls += 1;
        assert!(polls < 100 && rt::now() < at + look, "{polls} polls, and it is {:?}", rt::now());
        let seen = nic.poll();
        links.poll();
        nic.wait(seen, links.next_event());
    }
    assert!(rt::now() >= at);
}
