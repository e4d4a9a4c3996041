//! Processes of the same program that are not what they were: one between two
//! others, and one that gave its socket away and ended.

use std::time::Duration;

use rustix::net::{SocketFlags, accept_with, bind, connect, listen};

use super::super::knock::seqpacket;
use super::super::name::address;
use super::super::socket::Received;
use super::processes::Process;
use super::trust::stance;
use super::*;
use crate::rt;
use crate::vi::{Nonce, Trust, WhyIsolated};

/// What the child does: it takes a name of its own, and passes on to `host`
/// whatever it gets, and back.
pub(super) fn relay(host: &str) {
    let listener = seqpacket().unwrap();
    bind(&listener, &address(&format!("{host}-relay")).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    assert!(becomes(&listener, PollFlags::IN, LONG), "nobody came");
    let caller = Socket::new(accept_with(&listener, SocketFlags::CLOEXEC).unwrap());
    let fd = seqpacket().unwrap();
    connect(&fd, &address(host).unwrap()).unwrap();
    let answerer = Socket::new(fd);
    while pass(&caller, &answerer) && pass(&answerer, &caller) {
        let mut fds = [PollFd::new(&caller, PollFlags::IN), PollFd::new(&answerer, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: LONG, tv_nsec: 0 })).unwrap();
    }
}

/// Whether there may be more.
fn pass(from: &Socket, to: &Socket) -> bool {
    match from.receive().unwrap() {
        Received::Packet(packet) => {
            let fds: Vec<_> = packet.fds.iter().map(AsFd::as_fd).collect();
            to.send(&packet.bytes, &fds).is_ok()
        }
        Received::Nothing => true,
        Received::Gone => false,
    }
}

/// Both ends see a process of their user and of their program, whose proofs are
/// right. They are made for others.
pub(super) fn a_relay_is_not_trusted() {
    let host = unique("relayed");
    let own = stance(Trust::Cooperating, "one");
    let mut acceptor = Acceptor::open(&host, own.clone()).unwrap();
    let _relay = Process::start("relay", &host);
    let mine = handles("");
    let greeting = Greeting { asks: own.ask(), ..greeting("caller") };
    let until = rt::now() + Duration::from_secs(LONG.unsigned_abs());
    let mut knock = loop {
        let name = format!("{host}-relay");
        match Knock::start(&name, &greeting, lend(&mine), &own.secret).unwrap() {
            Started::Knocking(knock) => break knock,
            Started::Nobody | Started::Busy => rt::sleep(Duration::from_millis(10)),
        }
        assert!(rt::now() < until, "no relay");
    };
    let accepted = loop {
        assert!(rt::now() < until, "the relay passes nothing on");
        if let Some(visitor) = acceptor.poll_visitor(rt::now(), until).unwrap() {
            let agreed = Agreed::Isolated(Some(WhyIsolated::OtherSecret));
            assert_eq!(visitor.agreed, agreed);
            let _ = visitor.accept(&terms(), lend(&mine)).unwrap();
        }
        match knock.poll().unwrap() {
            Answered::Accepted(accepted) => break accepted,
            Answered::NotYet(again) => knock = again,
        }
        rt::sleep(Duration::from_millis(1));
    };
    assert_eq!(accepted.agreed, Agreed::Isolated(Some(WhyIsolated::OtherSecret)));
}

/// What another child does: it greets, gives its socket away, and ends.
pub(super) fn leave(host: &str) {
    let fd = seqpacket().unwrap();
    connect(&fd, &address(host).unwrap()).unwrap();
    let greeting = Greeting { asks: Some(Nonce::new()), ..greeting("caller") };
    send_raw(&fd, &greeting.encode(), &handles("").borrowed());
    send_raw(&std::io::stdin(), b"keep it", &[fd.as_fd()]);
}

/// The socket is open and the number may be another's by now, but the process
/// that the socket was of is no more.
#[test]
fn who_inherits_a_socket_is_not_trusted() {
    let host = unique("inherited");
    let mut acceptor = Acceptor::open(&host, stance(Trust::Cooperating, "")).unwrap();
    let (near, far) = sockets();
    let child = Process::command("leave", &host).stdin(far).spawn().unwrap();
    Process::of(child).join();
    let Ok(Received::Packet(packet)) = Socket::new(near).receive() else { panic!("no socket") };
    assert_eq!(packet.fds.len(), 1);
    let visitor = acceptor.poll_visitor(at(0), at(1)).unwrap().expect("it greeted");
    assert!(!visitor.is_gone(), "its socket is here");
    let unknown = Agreed::Isolated(Some(WhyIsolated::ExecutableUnknown));
    assert_eq!(visitor.agreed, unknown);
}

#[test]
fn a_process_in_between_is_not_trusted() {
    a_relay_is_not_trusted();
}
