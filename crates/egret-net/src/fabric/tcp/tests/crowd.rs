//! Strangers in numbers: they cost a bounded amount and stop nobody for long.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::conformance::{V4, nic};
use super::raw::patience;
use crate::fabric::tcp::acceptor::{CROWD, HANDSHAKE_MAX};
use crate::rt::{self, Deadline};
use crate::vi::{Address, Listener, Nic, ViOptions, Wait};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn host() -> (Nic, Listener) {
    let nic = nic(V4, Wait::Balanced);
    let listener = nic.listen("crowd", 0, &ViOptions::default()).unwrap();
    (nic, listener)
}

fn drive(nic: &Nic, rounds: usize) {
    for _ in 0..rounds {
        nic.poll();
        rt::sleep(Duration::from_micros(200));
    }
}

/// Whether the nic has hung up, after it was driven for a while.
pub(super) fn is_sent_away(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    loop {
        match stream.read(&mut [0; 64]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(why) => return why.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Those who connect and say nothing are sent away after a while, and only so many
/// are waited for.
pub(super) fn the_slow_are_sent_away() {
    let (nic, listener) = host();
    let crowd = 2 * CROWD.of_one;
    let mut streams: Vec<_> = (0..crowd).map(|_| TcpStream::connect(nic.host()).unwrap()).collect();
    // A first byte changes nothing.
    for stream in &mut streams {
        let _ = stream.write(b"E");
    }
    drive(&nic, 100);
    let waited_for = streams.iter_mut().map(is_sent_away).filter(|is_away| !is_away).count();
    assert!(waited_for <= CROWD.of_one, "{waited_for} are waited for");
    let until = rt::now() + 3 * HANDSHAKE_MAX;
    while !streams.iter_mut().all(is_sent_away) {
        assert!(rt::now() < until, "the slow are waited for");
        drive(&nic, 10);
    }
    drop(listener);
}

#[test]
fn silent_callers_are_closed() {
    the_slow_are_sent_away();
}

#[test]
fn a_crowd_of_strangers_stops_nobody_for_long() {
    let (host_nic, listener) = host();
    let strangers: Vec<_> =
        (0..2 * CROWD.of_one).map(|_| TcpStream::connect(host_nic.host()).unwrap()).collect();
    let to = Address::new(host_nic.host(), "crowd", 0);
    let caller = rt::spawn("caller", move || {
        nic(V4, Wait::Balanced).wait_connect(&to, &ViOptions::default(), patience()).map(drop)
    })
    .unwrap();
    listener.wait_accept(patience()).unwrap();
    while !caller.is_finished() {
        drive(&host_nic, 1);
    }
    caller.join().unwrap().unwrap();
    drop(strangers);
}

#[test]
fn callers_who_come_all_at_once_all_get_in() {
    let (host_nic, listener) = host();
    let caller = nic(V4, Wait::Balanced);
    let (to, deadline) = (Address::new(host_nic.host(), "crowd", 0), 6 * patience());
    let crowd = CROWD.of_one + 72;
    let call = |_| caller.connect(&to, &ViOptions::default(), deadline);
    let mut calls: Vec<_> = (0..crowd).map(call).collect();
    let (mut made, mut accepted) = (Vec::new(), Vec::new());
    let mut context = Context::from_waker(Waker::noop());
    while !calls.is_empty() {
        accepted.extend(listener.poll_accept().unwrap());
        calls.retain_mut(|call| match Pin::new(call).poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(vi) => {
                made.push(vi.unwrap());
                false
            }
        });
    }
    assert_eq!((made.len(), accepted.len()), (crowd, crowd));
}

#[test]
fn a_caller_who_gives_up_keeps_nobody_awake() {
    let host_nic = nic(V4, Wait::Frugal);
    let listener = host_nic.listen("crowd", 0, &ViOptions::default()).unwrap();
    let to = Address::new(host_nic.host(), "crowd", 0);
    let given_up = rt::spawn("caller", move || {
        let deadline = Deadline::In(Duration::from_millis(200));
        nic(V4, Wait::Balanced).wait_connect(&to, &ViOptions::default(), deadline).map(drop)
    })
    .unwrap();
    while !given_up.is_finished() {
        drive(&host_nic, 1);
    }
    assert!(given_up.join().unwrap().is_err(), "nobody has accepted");
    let (until, mut waits) = (rt::now() + Duration::from_millis(300), 0);
    while rt::now() < until {
        host_nic.wait(host_nic.poll(), Some(until));
        waits += 1;
    }
    assert!(waits < 20, "woken {waits} times by nothing");
    assert!(listener.poll_accept().unwrap().is_none());
}

/// Alone in a process: other tests open descriptors too.
#[test]
fn a_flood_of_garbage_leaves_nothing() {
    const ALONE: &str = "EGRET_TEST_TCP_FLOOD";
    const NAME: &str = "fabric::tcp::tests::crowd::a_flood_of_garbage_leaves_nothing";
    if std::env::var(ALONE).is_err() {
        super::death::run_alone(NAME, ALONE);
        return;
    }
    let (nic, listener) = host();
    drive(&nic, 5);
    let before = descriptors();
    for round in 0..2_000_usize {
        let mut stream = TcpStream::connect(nic.host()).unwrap();
        let garbage =
            [b"EGRT".repeat(round % 300 + 1), vec![round.to_le_bytes()[0]; round % 500]].concat();
        let _ = stream.write(&garbage);
        nic.poll();
        let now = descriptors();
        assert!(now <= before + CROWD.of_one + 2, "{now} descriptors, {before} before");
    }
    let until = rt::now() + patience();
    while descriptors() > before {
        assert!(rt::now() < until, "{} descriptors, {before} before", descriptors());
        drive(&nic, 10);
    }
    drop(listener);
}
