//! Callers of whom nothing more is expected keep nobody out.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::nics::{LONG, Opened, answers, connect, next, options, stranger, until};
use crate::fabric::common::ConnectRefusal;
use crate::fabric::handshake::{
    Callee, Caller, CallerRequest, Credentials, HandshakeError, HandshakeEvent,
};
use crate::fabric::udp::acceptor::{Acceptor, HANDSHAKES, UdpRequest};
use crate::fabric::udp::socket::DatagramSocket;
use crate::fabric::udp::wire::{ConnectionNumber, UdpDatagram, UdpHead, answer, start_handshake};
use crate::rt::{self, Deadline, Instant};
use crate::vi::{Address, Descriptor, Hello, PublicKey, Reliability, Secret};

fn handshakes(nic: &Opened) -> usize {
    nic.inside(|driver| driver.acceptor.handshakes())
}

#[test]
fn a_caller_says_goodbye_to_a_handshake_that_is_refused() {
    let (a, b) = (Opened::new(), Opened::new());
    let to = Address::new(b.nic.host(), "nobody", 0);
    let _connecting = a.nic.connect(&to, &options(), Deadline::In(LONG));
    let mut attempts = BTreeSet::new();
    until(&[&a.nic, &b.nic], || {
        attempts.extend(a.inside(|driver| driver.connectors.keys().next().copied()));
        (attempts.len() > 4).then_some(())
    });
    b.drain();
    assert!(handshakes(&b) <= 1, "{} guests of one caller", handshakes(&b));
}

fn wanted(hello: Hello, number: ConnectionNumber, key: Option<PublicKey>) -> CallerRequest {
    CallerRequest { hello, terms: number.0.to_le_bytes().to_vec(), key, is_plain: true }
}

/// Makes an attempt until there is an answer to what is asked, and leaves without a word.
fn ask(b: &Opened, socket: &UdpSocket, number: ConnectionNumber) -> HandshakeError {
    let hello = Hello { reliability: Reliability::Unreliable, service: "nobody".into(), tag: 0 };
    let credentials = Credentials::of_byte("udp", Secret::none(), 1);
    let mut caller = Caller::new(credentials, wanted(hello, number, None));
    let mut token = 0;
    for _ in 0..4 {
        let step = caller.outgoing().to_vec();
        socket.send_to(&start_handshake(token, number, &step), b.at()).unwrap();
        b.drain();
        for bytes in answers(socket) {
            match UdpDatagram::decode(&bytes) {
                Ok(UdpDatagram::Token { token: given, .. }) => token = given,
                Ok(UdpDatagram::Answer { stream, .. }) => {
                    caller.sent(step.len());
                    if let Err(why) = caller.feed(stream) {
                        return why;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("{number:?} is not answered");
}

#[test]
fn refused_handshakes_are_forgotten() {
    let b = Opened::new();
    let socket = stranger();
    for number in 0..HANDSHAKES.of_one as u64 + 20 {
        let why = ask(&b, &socket, ConnectionNumber(number));
        assert!(matches!(why, HandshakeError::Refused(ConnectRefusal::NotListening)), "{why:?}");
    }
    assert!((1..=HANDSHAKES.of_one).contains(&handshakes(&b)));
    (0..3).for_each(|_| b.keep_alive_tick());
    assert_eq!(handshakes(&b), 0);
}

#[test]
fn a_used_connection_frees_its_handshake_place() {
    let (a, b) = (Opened::new(), Opened::new());
    let (here, there) = connect(&a, &b);
    there.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
    here.post_send(Descriptor::new(vec![1_u8; 10])).unwrap();
    assert_eq!(next(&[&a.nic, &b.nic], there.recv_queue()).bytes(), [1; 10]);
    (0..3).for_each(|_| b.keep_alive_tick());
    assert_eq!((handshakes(&b), there.error()), (0, None));
}

/// What the acceptor below has; its callers know it.
fn host_stance() -> Credentials {
    Credentials::of_byte("udp", Secret::from("hush"), 1)
}

/// An acceptor alone: the clock stands still, and nobody is forgotten.
struct Host {
    acceptor: Acceptor,
    socket: Arc<DatagramSocket>,
    credentials: Credentials,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        let socket = Arc::new(DatagramSocket::open("127.0.0.1:0".parse().unwrap()).unwrap());
        Self { acceptor: Acceptor::new(), socket, credentials: host_stance(), now: rt::now() }
    }

    fn makes_handshake(
        &mut self,
        from: &UdpSocket,
        number: ConnectionNumber,
        step: &[u8],
    ) -> Option<UdpRequest> {
        let at: SocketAddr = from.local_addr().unwrap();
        let token = self.acceptor.token(&at, number);
        let with = (&self.credentials, &self.socket);
        self.acceptor.handshake_done((at, number), (token, step), with, self.now).unwrap()
    }

    /// Whether one who knows the secret gets in. It starts a handshake anew if it is told to, as callers do.
    fn lets_in(&mut self, from: &UdpSocket) -> bool {
        let (mut number, mut caller) = honest();
        for _ in 0..100 {
            let step = caller.outgoing().to_vec();
            if self.makes_handshake(from, number, &step).is_some() {
                return true;
            }
            for bytes in answers(from) {
                if let Ok(UdpDatagram::Answer { to, stream, .. }) = UdpDatagram::decode(&bytes)
                    && to == number
                {
                    caller.sent(step.len());
                    match caller.feed(stream) {
                        Ok(_) => {}
                        Err(HandshakeError::Refused(ConnectRefusal::Crowded)) => {
                            (number, caller) = honest();
                        }
                        Err(why) => panic!("{why}"),
                    }
                    break;
                }
            }
            self.now = self.now + Duration::from_millis(20);
        }
        false
    }
}

fn open(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// One who knows the secret.
fn honest() -> (ConnectionNumber, Caller) {
    let number = ConnectionNumber(rt::random());
    let hello = Hello { reliability: Reliability::Unreliable, service: "x".into(), tag: 0 };
    let credentials = Credentials::of_byte("udp", Secret::from("hush"), 2);
    (number, Caller::new(credentials, wanted(hello, number, Some(host_stance().key()))))
}

/// One who knows the key of the host, and not its secret.
fn caller(number: ConnectionNumber) -> Caller {
    let hello = Hello { reliability: Reliability::Unreliable, service: "x".into(), tag: 0 };
    let credentials = Credentials::of_byte("udp", Secret::from("guess"), 3);
    Caller::new(credentials, wanted(hello, number, Some(host_stance().key())))
}

/// Who finds no place is told to ask again, and costs no handshake.
pub(super) fn a_place_comes_before_a_handshake() {
    let (here, mut host) = (open("127.0.0.1:0"), Host::new());
    for number in 0..HANDSHAKES.of_one as u64 {
        let number = ConnectionNumber(number);
        assert!(host.makes_handshake(&here, number, caller(number).outgoing()).is_none());
        answers(&here);
    }
    for number in 0..50 {
        let number = ConnectionNumber(1000 + number);
        let mut caller = caller(number);
        assert!(host.makes_handshake(&here, number, caller.outgoing()).is_none());
        caller.sent(caller.outgoing().len());
        let said = answers(&here);
        let Ok(UdpDatagram::Answer { stream, .. }) = UdpDatagram::decode(&said[0]) else {
            panic!("{said:?}")
        };
        assert_eq!(caller.feed(stream), Err(HandshakeError::Refused(ConnectRefusal::Crowded)));
    }
    assert_eq!(host.credentials.handshakes(), HANDSHAKES.of_one as u64);
    assert_eq!(host.acceptor.handshakes(), HANDSHAKES.of_one);
}

#[test]
fn a_caller_without_a_place_costs_no_handshake() {
    a_place_comes_before_a_handshake();
}

/// Four thousand a second say again what a caller has said, each under a number of its own.
#[test]
fn what_was_recorded_takes_no_place() {
    let (here, mut host) = (open("127.0.0.1:0"), Host::new());
    let opening = caller(ConnectionNumber(7)).outgoing().to_vec();
    for number in 0..4000 {
        assert!(host.makes_handshake(&here, ConnectionNumber(number), &opening).is_none());
        answers(&here);
        host.now = host.now + Duration::from_micros(250);
    }
    assert_eq!((host.acceptor.handshakes(), host.credentials.handshakes()), (1, 1));
    assert!(host.lets_in(&here));
    assert_eq!(host.credentials.handshakes(), 2);
}

/// The host has forgotten whom it has answered, and answers the same opening again.
pub(super) fn an_opening_that_is_answered_twice_is_answered() {
    let (a, host) = (Opened::new(), open("127.0.0.1:0"));
    let to = Address::new(&host.local_addr().unwrap().to_string(), "x", 0);
    let mut connecting = a.nic.connect(&to, &options(), Deadline::In(LONG));
    let mut callees = [0, 1].map(|_| {
        let credentials = Credentials::of_byte("udp", Secret::none(), 1);
        Callee::new(credentials, true)
    });
    let mut context = Context::from_waker(Waker::noop());
    let late = rt::now() + LONG;
    loop {
        assert!(rt::now() < late, "nothing comes of it");
        a.drain();
        if let Poll::Ready(made) = Pin::new(&mut connecting).poll(&mut context) {
            assert!(made.is_ok(), "{made:?}");
            return;
        }
        for bytes in answers(&host) {
            let Ok(UdpDatagram::Handshake { from, stream, .. }) = UdpDatagram::decode(&bytes)
            else {
                continue;
            };
            if stream.is_empty() {
                host.send_to(UdpHead::token(from, 7).bytes(), a.at()).unwrap();
                continue;
            }
            for (own, callee) in (1..).zip(&mut callees) {
                if let Ok(fed) = callee.feed(stream) {
                    if let HandshakeEvent::Hello { .. } = fed.news {
                        callee.welcome(&u64::to_le_bytes(own));
                    }
                    let said = answer(from, ConnectionNumber(own), false, callee.outgoing());
                    callee.sent(callee.outgoing().len());
                    host.send_to(&said, a.at()).unwrap();
                }
            }
        }
    }
}

/// Whoever listens could be faster with an opening that it has seen.
pub(super) fn an_opening_is_shown_with_a_token_only() {
    let (a, host) = (Opened::new(), open("127.0.0.1:0"));
    let to = Address::new(&host.local_addr().unwrap().to_string(), "x", 0);
    let mut connecting = a.nic.connect(&to, &options(), Deadline::In(LONG));
    let mut context = Context::from_waker(Waker::noop());
    let (late, mut attempts) = (rt::now() + LONG, 0);
    loop {
        assert!(rt::now() < late, "no opening comes");
        a.drain();
        assert!(Pin::new(&mut connecting).poll(&mut context).is_pending());
        for bytes in answers(&host) {
            let Ok(UdpDatagram::Handshake { from, token, stream }) = UdpDatagram::decode(&bytes)
            else {
                panic!("not a handshake");
            };
            if token == 7 {
                return assert!(!stream.is_empty());
            }
            assert!(token == 0 && stream.is_empty(), "the opening is shown too early");
            attempts += 1;
            if attempts == 3 {
                host.send_to(UdpHead::token(from, 7).bytes(), a.at()).unwrap();
            }
        }
    }
}

#[test]
fn nothing_is_shown_before_there_is_a_token() {
    an_opening_is_shown_with_a_token_only();
}

#[test]
fn a_caller_goes_on_with_the_first_who_answers() {
    an_opening_that_is_answered_twice_is_answered();
}

#[test]
fn the_silent_keep_nobody_out() {
    let (here, elsewhere) = (open("127.0.0.1:0"), open("127.0.0.2:0"));
    let mut host = Host::new();
    let hello = Hello { reliability: Reliability::Unreliable, service: "x".into(), tag: 0 };
    for number in 0..2 * HANDSHAKES.of_one as u64 {
        let credentials = Credentials::of_byte("udp", Secret::from("guess"), 3);
        let wanted = wanted(hello.clone(), ConnectionNumber(number), Some(host_stance().key()));
        let caller = Caller::new(credentials, wanted);
        assert!(host.makes_handshake(&here, ConnectionNumber(number), caller.outgoing()).is_none());
        answers(&here);
    }
    assert_eq!(host.acceptor.handshakes(), HANDSHAKES.of_one);
    assert!(host.lets_in(&elsewhere), "from another address");
    assert!(host.lets_in(&here), "from the same address");
    assert_eq!(host.acceptor.handshakes(), HANDSHAKES.of_one + 1, "one has given way");
}
