//! Processes of the same program that are not what they were: one between two
//! others, and one that gave its socket away and ended.

use std::time::Duration;

use rustix::net::{SocketFlags, accept_with, bind, connect, listen};

use super::super::name::address;
use super::processes::Process;
use super::*;
use crate::fabric::shm::socket::ReceivedPacket;
use crate::fabric::shm::socket::seqpacket;
use crate::rt;
use crate::vi::WhyIsolated;

/// What the child does: it takes a name of its own, and passes on to `host`
/// whatever it gets, and back.
pub(super) fn relay(host: &str) {
    let listener = seqpacket().unwrap();
    bind(&listener, &address(&format!("{host}-relay")).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    assert!(becomes(&listener, PollFlags::IN, LONG), "nobody came");
    let caller = PacketSocket::new(accept_with(&listener, SocketFlags::CLOEXEC).unwrap());
    let fd = seqpacket().unwrap();
    connect(&fd, &address(host).unwrap()).unwrap();
    let answerer = PacketSocket::new(fd);
    while pass(&caller, &answerer) && pass(&answerer, &caller) {
        let mut fds = [PollFd::new(&caller, PollFlags::IN), PollFd::new(&answerer, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: LONG, tv_nsec: 0 })).unwrap();
    }
}

/// Whether there may be more.
fn pass(from: &PacketSocket, to: &PacketSocket) -> bool {
    match from.receive().unwrap() {
        ReceivedPacket::Packet(packet) => {
            let fds: Vec<_> = packet.fds.iter().map(AsFd::as_fd).collect();
            to.send(&packet.bytes, &fds).is_ok()
        }
        ReceivedPacket::Nothing => true,
        ReceivedPacket::Gone => false,
    }
}

/// Both ends see a process of their user and of their program, and what each hears was said by
/// one who has the secret. It was said to others.
pub(super) fn a_relay_is_not_trusted() {
    let host = unique("relayed");
    let stance = || stance(Trust::Cooperating, "one");
    let mut acceptor = Acceptor::open(&host, stance()).unwrap();
    let _relay = Process::start("relay", &host);
    let mine = handles("");
    let until = rt::now() + Duration::from_secs(LONG.unsigned_abs());
    let mut attempt = loop {
        let name = format!("{host}-relay");
        match HandshakeAttempt::start(call(&name), &stance()).unwrap() {
            AttemptStart::Started(attempt) => break attempt,
            AttemptStart::Nobody | AttemptStart::Busy => rt::sleep(Duration::from_millis(10)),
        }
        assert!(rt::now() < until, "no relay");
    };
    let accepted = loop {
        assert!(rt::now() < until, "the relay passes nothing on");
        if let Some(visitor) = acceptor.poll_proven_peer(rt::now(), until).unwrap() {
            let agreed = AgreedTrust::Isolated(Some(WhyIsolated::OtherProcess));
            assert_eq!(visitor.agreed, agreed);
            let _ = visitor.accept(&terms(), lend(&mine)).unwrap();
        }
        match attempt.poll(lend(&mine)).unwrap() {
            AttemptProgress::Accepted(accepted) => break accepted,
            AttemptProgress::Pending(again) => attempt = again,
        }
        rt::sleep(Duration::from_millis(1));
    };
    assert_eq!(accepted.agreed, AgreedTrust::Isolated(Some(WhyIsolated::OtherProcess)));
}

/// What another child does: it opens, asks when it is told to, gives its socket away, and ends.
pub(super) fn leave(host: &str) {
    let fd = seqpacket().unwrap();
    connect(&fd, &address(host).unwrap()).unwrap();
    let attempt = handshake_over(control_of(fd), &stance(Trust::Cooperating, ""));
    assert!(becomes(&attempt.fd(), PollFlags::IN, LONG), "nobody opens too");
    let parent = std::io::stdin();
    send_raw(&parent, b"opened", &[]);
    assert!(becomes(&parent, PollFlags::IN, LONG), "nobody says to go on");
    let attempt = not_yet(attempt, &handles(""));
    send_raw(&parent, b"keep it", &[attempt.fd()]);
}

/// The socket is open and the number may be another's by now, but the process
/// that the socket was of is no more.
#[test]
fn a_peer_that_inherits_a_socket_is_not_trusted() {
    let host = unique("inherited");
    let mut acceptor = Acceptor::open(&host, stance(Trust::Cooperating, "")).unwrap();
    let (near, far) = sockets();
    let child = Process::of(Process::command("leave", &host).stdin(far).spawn().unwrap());
    let near = PacketSocket::new(near);
    let until = rt::now() + Duration::from_secs(LONG.unsigned_abs());
    while matches!(near.receive(), Ok(ReceivedPacket::Nothing)) {
        assert!(acceptor.poll_proven_peer(at(0), at(1)).unwrap().is_none(), "it has not asked");
        assert!(rt::now() < until, "it does not open");
        rt::sleep(Duration::from_millis(1));
    }
    send_raw(&near, b"go on", &[]);
    child.join();
    let Ok(ReceivedPacket::Packet(packet)) = near.receive() else { panic!("no socket") };
    assert_eq!(packet.fds.len(), 1);
    let visitor = acceptor.poll_proven_peer(at(0), at(1)).unwrap().expect("a handshake");
    assert!(!visitor.is_gone(), "its socket is here");
    let unknown = AgreedTrust::Isolated(Some(WhyIsolated::ExecutableUnknown));
    assert_eq!(visitor.agreed, unknown);
}

#[test]
fn a_process_in_between_is_not_trusted() {
    a_relay_is_not_trusted();
}
