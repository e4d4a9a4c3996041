//! Groups over loopback, where it carries them.

use std::io::IoSlice;
use std::sync::Arc;

use rustix::io::Errno;

use super::nics::{LONG, Opened, next, options, until};
use crate::fabric::common::epoll;
use crate::fabric::udp::UdpFabric;
use crate::fabric::udp::driver::Driver;
use crate::fabric::{Fabric, Machine};
use crate::rt::Deadline;
use crate::vi::{Address, ConnectError, Descriptor, Reliability, Secret, Vi, ViOptions};

/// Joins a group of this test's own; `None` if loopback carries none.
fn join(opened: &Opened, port: u16, service: &str) -> Option<Vi> {
    let to = Address::new(&format!("239.255.77.7:{port}"), service, 3);
    match opened.nic.wait_connect(&to, &options(), Deadline::In(LONG)) {
        Ok(vi) => Some(vi),
        Err(why) => {
            println!("skipped: no multicast over loopback here: {why}");
            None
        }
    }
}

/// A port that nobody has.
fn port() -> u16 {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn receive(vi: &Vi, count: usize) {
    for _ in 0..count {
        vi.post_recv(Descriptor::new(vec![0_u8; 100_000])).unwrap();
    }
}

#[test]
fn what_a_member_says_all_others_hear() {
    let nics = [(); 3].map(|()| Opened::new());
    let port = port();
    let Some(members) = nics.iter().map(|nic| join(nic, port, "news")).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let elsewhere = join(&nics[0], port, "other news").unwrap();
    for vi in members.iter().chain([&elsewhere]) {
        assert_eq!(vi.peer(), format!("239.255.77.7:{port}"));
        receive(vi, 8);
    }
    let all: Vec<_> = nics.iter().map(|opened| &opened.nic).collect();
    for (speaker, len) in [(0, 5), (1, 0), (2, 90_000), (0, 70_000)] {
        let said = vec![u8::try_from(speaker + 1).unwrap(); len];
        let descriptor = Descriptor::new(said.clone()).with_tag(speaker as u64);
        members[speaker].post_send(descriptor).unwrap();
        next(&all, members[speaker].send_queue()).done().unwrap();
        for (listener, vi) in members.iter().enumerate().filter(|(it, _)| *it != speaker) {
            let got = next(&all, vi.recv_queue()).ok().unwrap();
            assert_eq!((got.tag, got.len), (speaker as u64, len as u64), "{listener}");
            assert!(got.into_vec::<u8>() == said);
        }
        assert!(members[speaker].recv_queue().poll().is_none(), "its own words");
    }
    nics.iter().for_each(Opened::drain);
    assert_eq!(elsewhere.counters().received, 0, "another service's");
    // Who leaves hears no more, and the others go on.
    drop(members.into_iter().nth(1));
}

/// With a secret, only what members say counts.
pub(super) fn only_members_are_heard() {
    let port = port();
    let [pool, other] = [0, 1].map(|_| Secret::random().reveal().unwrap());
    let (a, b) = (Opened::with_secret(&pool), Opened::with_secret(&pool));
    let (Some(here), Some(there)) = (join(&a, port, "news"), join(&b, port, "news")) else {
        return;
    };
    let outsiders = [Opened::new(), Opened::with_secret(&other)];
    receive(&there, 4);
    for outsider in &outsiders {
        let vi = join(outsider, port, "news").unwrap();
        vi.post_send(Descriptor::new(vec![9_u8; 10])).unwrap();
    }
    let socket = super::nics::stranger();
    let _ = rustix::net::sockopt::set_ip_multicast_if(&socket, &std::net::Ipv4Addr::LOCALHOST);
    let _ = socket.send_to(b"garbage", format!("239.255.77.7:{port}"));
    until(&[&b.nic], || {
        let tally = b.tally();
        (tally.unsigned + there.counters().received >= 2 && tally.garbage >= 1).then_some(())
    });
    assert_eq!(there.counters().received, 0, "an outsider was heard");
    here.post_send(Descriptor::new(vec![1_u8; 10])).unwrap();
    assert_eq!(next(&[&a.nic, &b.nic], there.recv_queue()).bytes(), [1; 10]);
}

#[test]
fn with_a_secret_outsiders_are_not_heard() {
    only_members_are_heard();
}

#[test]
fn a_group_hears_groups_only() {
    let port = port();
    let a = Opened::new();
    let Some(vi) = join(&a, port, "news") else { return };
    receive(&vi, 1);
    let b = Opened::new();
    let to = format!("239.255.77.7:{port}").parse::<std::net::SocketAddr>().unwrap();
    let probe =
        crate::fabric::udp::wire::UdpHead::probe(crate::fabric::udp::wire::ConnectionNumber(1));
    let socket = crate::fabric::udp::socket::DatagramSocket::join(to, &b.at()).unwrap();
    socket.send(&to.into(), &[IoSlice::new(probe.bytes())]).unwrap();
    until(&[&a.nic], || (a.tally().garbage == 1).then_some(()));
    assert_eq!(vi.error(), None);
}

/// Nobody reads it: what comes there must end no sleep.
#[test]
fn a_group_that_was_left_is_not_watched() {
    let a = Opened::new();
    let Some(vi) = join(&a, port(), "news") else { return };
    a.nic.inside(|driver: &mut Driver, after| _ = driver.arm(after));
    let (socket, watched) = a.inside(|driver| {
        let member = &driver.groups[0];
        (Arc::clone(&member.socket), member.watched)
    });
    assert!(watched.is_some());
    vi.disconnect();
    a.drain();
    let set = a.inside(|driver| Arc::clone(&driver.fixed.set));
    assert_eq!(epoll::forget(&set, socket.fd()), Err(Errno::NOENT));
}

#[test]
fn a_window_has_no_place_in_a_group() {
    let nic = UdpFabric.open(&"".into()).unwrap();
    let to = Address::new(&format!("239.255.77.7:{}", port()), "windowed", 3);
    let options = ViOptions::of(Reliability::Delivery);
    let refused = nic.wait_connect(&to, &options, Deadline::In(LONG));
    assert_eq!(refused.unwrap_err(), ConnectError::Unsupported(Reliability::Delivery));
}
