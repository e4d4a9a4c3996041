//! Messages over real sockets, and the ends of connections.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::nics::{Opened, connect, next, options, try_connect, until};
use crate::fabric::udp::fault::{Fault, caught};
use crate::fabric::udp::keep_alive::{DEAD, QUIET};
use crate::rt::{self, Deadline};
use crate::vi::{Address, ConnectError, Descriptor, Vi, ViError};

/// Messages of many lengths arrive as they were sent.
pub(super) fn all_lengths_arrive() {
    all_lengths_arrive_between(&Opened::new(), &Opened::new());
}

pub(super) fn all_lengths_arrive_between(a: &Opened, b: &Opened) {
    let (here, there) = connect(a, b);
    for len in [0_usize, 1, 4, 1_000, 1_365, 1_370, 9_000, 65_475, 65_476, 200_000, 1 << 20] {
        let sent: Vec<u8> = (0..len).map(|n| (n ^ (n >> 8)).to_le_bytes()[0]).collect();
        there.post_recv(Descriptor::new(vec![0_u8; len])).unwrap();
        let middle = sent.split_at(len / 3);
        let descriptor = Descriptor::new(middle.0.to_vec()).and(middle.1.to_vec());
        here.post_send(descriptor.with_tag(len as u64)).unwrap();
        next(&[&a.nic, &b.nic], here.send_queue()).done().unwrap();
        let got = next(&[&a.nic, &b.nic], there.recv_queue()).ok().unwrap();
        assert_eq!((got.tag, got.len), (len as u64, len as u64));
        assert!(got.into_vec::<u8>() == sent, "{len} bytes");
    }
    assert_eq!((here.counters().sent, there.counters().received), (11, 11));
    if !a.socket.cuts() {
        println!("the system does not cut datagrams here");
    }
}

#[test]
fn messages_of_all_lengths() {
    all_lengths_arrive();
}

#[test]
fn messages_of_all_lengths_over_a_path_that_carries_little() {
    assert!(!caught(Fault::NarrowPath, all_lengths_arrive));
}

#[test]
fn a_nic_that_goes_down_says_so() {
    let (a, b) = (Opened::new(), Opened::new());
    let (here, there) = connect(&a, &b);
    here.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
    drop(there);
    drop(b.nic);
    let failed = next(&[&a.nic], here.recv_queue());
    assert_eq!(failed.status, Err(ViError::ClosedByPeer));
}

/// What the child is to do.
const PART: &str = "EGRET_TEST_UDP_VICTIM";

/// Not a test by itself: accepts, says nothing, and is killed.
#[test]
fn victim() {
    if env::var(PART).is_err() {
        return;
    }
    let nic = Opened::new();
    let listener = nic.listen("pair");
    println!("at {}", nic.nic.host());
    let vi = listener.wait_accept(Deadline::DEFAULT).unwrap();
    drop(vi.recv_queue().wait(Deadline::DEFAULT));
}

/// A connection to a process, and the process.
fn connect_to_victim(a: &Opened) -> (Vi, Child) {
    let mut child = Command::new("/proc/self/exe")
        .args(["--exact", "fabric::udp::tests::ends::victim", "--nocapture"])
        .env(PART, "")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let at = lines
        .map(Result::unwrap)
        .find_map(|line| line.split_once("at 127.").map(|(_, at)| format!("127.{at}")));
    let to = Address::new(&at.unwrap(), "pair", 0);
    (a.nic.wait_connect(&to, &options(), Deadline::DEFAULT).unwrap(), child)
}

/// A peer that is killed is found by what the system says, when it is asked or when
/// something is sent to it; and nobody else is taken for dead.
#[test]
fn a_peer_that_is_killed_is_dead() {
    let (a, c) = (Opened::new(), Opened::new());
    let others: Vec<_> = (0..3).map(|_| connect(&a, &c)).collect();
    for sends in [true, false] {
        let (here, mut child) = connect_to_victim(&a);
        here.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        if sends {
            here.post_send(Descriptor::new(vec![0_u8; 10])).unwrap();
        }
        let mut ticks = 0;
        let failed = until(&[&a.nic, &c.nic], || {
            if !sends && ticks < QUIET {
                a.keep_alive_tick();
                ticks += 1;
            }
            here.recv_queue().poll()
        });
        let why = ViError::PeerDied { why: "no process receives at its address" };
        assert_eq!(failed.status, Err(why.clone()));
        assert_eq!(here.error(), Some(why));
    }
    for (here, there) in &others {
        assert_eq!((here.error(), there.error()), (None, None));
    }
}

#[test]
fn silence_is_found_and_one_word_is_enough() {
    let (a, b) = (Opened::new(), Opened::new());
    let (here, there) = connect(&a, &b);
    here.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
    for tick in 0..2 * DEAD {
        a.keep_alive_tick();
        b.drain();
        a.drain();
        assert_eq!(here.error(), None, "after {tick} ticks");
    }
    for _ in 0..=DEAD {
        a.keep_alive_tick();
    }
    let failed = next(&[&a.nic], here.recv_queue());
    assert_eq!(failed.status, Err(ViError::PeerDied { why: "it has not answered for 10 s" }));
    // The other side finds out when it asks.
    assert_eq!(there.error(), None);
    for _ in 0..=DEAD {
        b.keep_alive_tick();
        a.drain();
        b.drain();
    }
    let why = ViError::PeerDied { why: "it no longer knows the connection" };
    assert_eq!(there.error(), Some(why));
}

#[test]
fn a_goodbye_that_is_lost_is_said_again() {
    lost_goodbyes_are_repeated(&Opened::new(), &Opened::new());
}

pub(super) fn lost_goodbyes_are_repeated(a: &Opened, b: &Opened) {
    let (here, there) = connect(a, b);
    drop(there);
    // Lost on the way.
    while a.socket.recv(&mut [0; 2048]).is_some() {}
    b.drain();
    here.post_send(Descriptor::empty()).unwrap();
    until(&[&a.nic, &b.nic], || here.error());
    assert_eq!(here.error(), Some(ViError::ClosedByPeer));
}

#[test]
fn another_secret_is_told_to_both() {
    let (a, b) = (Opened::with_secret("one"), Opened::with_secret("two"));
    let listener = b.listen("pair");
    let refused = try_connect(&a, &b, &listener, Deadline::In(super::nics::LONG)).unwrap_err();
    assert_eq!(refused, ConnectError::OtherSecret);
    let c = Opened::with_secret("two");
    assert!(try_connect(&c, &b, &listener, Deadline::In(super::nics::LONG)).is_ok());
}

#[test]
fn a_port_without_a_listener_is_an_unknown_host() {
    let a = Opened::new();
    let port = {
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap().port()
    };
    let to = Address::new(&format!("127.0.0.1:{port}"), "pair", 0);
    let in_vain = a.nic.wait_connect(&to, &options(), Deadline::In(Duration::from_millis(300)));
    let why = in_vain.unwrap_err();
    assert!(matches!(&why, ConnectError::UnknownHost { host, .. } if *host == to.host), "{why}");
}

#[test]
fn a_name_is_resolved() {
    let (a, b) = (Opened::new(), Opened::new());
    let listener = b.listen("pair");
    let to = Address::new(&format!("localhost:{}", b.at().port()), "pair", 0);
    let mut connecting = a.nic.connect(&to, &options(), Deadline::In(super::nics::LONG));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut accepted = None;
    let here = until(&[&a.nic, &b.nic], || {
        accepted = accepted.take().or_else(|| listener.poll_accept().unwrap());
        match std::pin::Pin::new(&mut connecting).poll(&mut context) {
            std::task::Poll::Ready(made) => Some(made.unwrap()),
            std::task::Poll::Pending => None,
        }
    });
    assert_eq!(here.peer(), b.nic.host());
}

#[test]
fn all_receives_are_completed_when_the_error_is_visible() {
    const RECEIVES: usize = 64;
    let (a, b) = (Opened::new(), Opened::new());
    for round in 0..50 {
        let (here, _there) = connect(&a, &b);
        for _ in 0..RECEIVES {
            here.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
        }
        let here = Arc::new(here);
        let same = Arc::clone(&here);
        let leaving = rt::spawn("leaving", move || same.disconnect()).unwrap();
        while here.error().is_none() {
            std::hint::spin_loop();
        }
        let completed = std::iter::from_fn(|| here.recv_queue().poll()).count();
        assert_eq!(completed, RECEIVES, "round {round}");
        leaving.join().unwrap();
    }
}
