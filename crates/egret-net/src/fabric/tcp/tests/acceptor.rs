//! Strangers who say nothing keep nobody out, whatever the clock says: it stands still here.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{AddressFamily, SocketType};

use super::crowd::is_sent_away;
use crate::fabric::common;
use crate::fabric::handshake::{Caller, CallerRequest, Credentials};
use crate::fabric::tcp::acceptor::{
    Acceptor, CROWD, HANDSHAKE_MAX, HANDSHAKES_AT_ONCE, TcpRequest,
};
use crate::rt::{self, Instant};
use crate::vi::{Hello, Reliability, Secret};

struct Host {
    acceptor: Acceptor,
    at: SocketAddr,
    credentials: Credentials,
    set: OwnedFd,
    ids: u64,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        let credentials = host_stance();
        let opened = Acceptor::open("127.0.0.1:0".parse().unwrap(), credentials.clone()).unwrap();
        let (acceptor, at) = opened;
        Self {
            acceptor,
            at,
            credentials,
            set: common::epoll::create().unwrap(),
            ids: 0,
            now: rt::now(),
        }
    }

    /// Connects from an address of this machine.
    fn stranger(&mut self, from: &str) -> TcpStream {
        let stream = self.connect(from);
        self.go_on();
        stream
    }

    /// The same; nobody is let in yet.
    fn connect(&self, from: &str) -> TcpStream {
        let from: SocketAddr = from.parse().unwrap();
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &from).unwrap();
        rustix::net::connect(&socket, &self.at).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(true).unwrap();
        stream
    }

    /// Lets in who is waiting, and hears everybody. Who has finished a handshake.
    fn go_on(&mut self) -> Vec<TcpRequest> {
        self.acceptor.turn();
        let mut requests = self.let_in();
        for id in 1..=self.ids {
            requests.extend(self.acceptor.heard(id, &self.set, self.now));
        }
        requests
    }

    /// Lets in who is waiting. Who has finished a handshake when it was to give way.
    fn let_in(&mut self) -> Vec<TcpRequest> {
        let ids = &mut self.ids;
        self.acceptor.accept_callers(&self.set, self.now, || {
            *ids += 1;
            *ids
        })
    }

    /// Goes on until so many more handshakes have begun, a bounded number in each turn.
    fn answers_by_turns(&mut self, number: usize) {
        let (all, late) = (self.credentials.handshakes() + number as u64, rt::now() + PATIENCE);
        while self.credentials.handshakes() < all {
            let before = self.credentials.handshakes();
            assert!(self.go_on().is_empty());
            let begun = self.credentials.handshakes() - before;
            assert!(begun <= HANDSHAKES_AT_ONCE as u64, "{begun} in one turn");
            assert!(rt::now() < late, "{before} have begun");
        }
    }

    /// Waits until the words of so many are there to be read.
    fn awaits_words_of(&self, number: usize) {
        let late = rt::now() + PATIENCE;
        let mut space = vec![MaybeUninit::<epoll::Event>::uninit(); number];
        while epoll::wait(&self.set, &mut space[..], Some(&A_MOMENT)).unwrap().0.len() < number {
            assert!(rt::now() < late, "what {number} have said does not arrive");
        }
    }

    /// What somebody who knows the host says first.
    fn opening(&self) -> Vec<u8> {
        Caller::new(credentials(2), wanted()).outgoing().to_vec()
    }

    /// Whether one who knows the secret gets in at its first attempt.
    fn lets_in_at_once(&mut self, from: &str) -> bool {
        let mut stream = self.stranger(from);
        self.makes_handshake(&mut Caller::new(credentials(2), wanted()), &mut stream)
    }

    /// Whether one who knows the secret gets in, before any stranger is given up. It attempts to connect
    /// again if it is told to, as callers do.
    fn lets_in(&mut self, from: &str) -> bool {
        let until = self.now + HANDSHAKE_MAX / 2;
        while self.now < until {
            let mut caller = Caller::new(credentials(2), wanted());
            let mut stream = self.stranger(from);
            if self.makes_handshake(&mut caller, &mut stream) {
                return true;
            }
            self.now = self.now + Duration::from_millis(100);
        }
        false
    }

    /// Whether a caller gets in; if not, it was sent away, or nothing came of it for long.
    fn makes_handshake(&mut self, caller: &mut Caller, stream: &mut TcpStream) -> bool {
        let late = rt::now() + PATIENCE;
        while rt::now() < late {
            let said = caller.outgoing().to_vec();
            if stream.write_all(&said).is_err() {
                return false;
            }
            caller.sent(said.len());
            if !self.go_on().is_empty() {
                return true;
            }
            // On a busy machine bytes are not there as soon as they are sent, on either side.
            let mut watched = [PollFd::new(stream, PollFlags::IN)];
            _ = poll(&mut watched, Some(&A_MOMENT));
            let mut bytes = [0; 1024];
            match stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(n) if caller.feed(&bytes[..n]).is_err() => return false,
                Ok(_) => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        false
    }
}

fn wanted() -> CallerRequest {
    let hello = Hello { reliability: Reliability::Reception, service: "x".into(), tag: 0 };
    let (terms, key) = (b"caller".to_vec(), Some(host_stance().key()));
    CallerRequest { hello, terms, key, is_plain: true }
}

fn credentials(byte: u8) -> Credentials {
    Credentials::of_byte("tcp", Secret::from("hush"), byte)
}

fn host_stance() -> Credentials {
    credentials(1)
}

/// Of the machine's time, which stands still for the acceptor: more than any handshake takes.
const PATIENCE: Duration = Duration::from_secs(30);
const A_MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
const HERE: &str = "127.0.0.1:0";
const ELSEWHERE: &str = "127.0.0.2:0";

#[test]
fn the_silent_of_one_address_keep_nobody_out() {
    for strangers in [HERE, ELSEWHERE] {
        let mut host = Host::new();
        let silent: Vec<_> = (0..200).map(|_| host.stranger(strangers)).collect();
        for caller in [HERE, ELSEWHERE] {
            assert!(host.lets_in(caller), "200 of {strangers} keep {caller} out");
        }
        drop(silent);
    }
}

#[test]
fn the_silent_of_many_addresses_keep_nobody_out() {
    let mut host = Host::new();
    let from = |at: usize| format!("127.0.1.{}:0", at % 20 + 1);
    let silent: Vec<_> = (0..600).map(|at| host.stranger(&from(at))).collect();
    for caller in [HERE, ELSEWHERE, "127.0.1.1:0"] {
        assert!(host.lets_in(caller), "600 of 20 addresses keep {caller} out");
    }
    drop(silent);
}

/// Four thousand strangers a second, of each kind: whoever comes among them gets in at its first
/// attempt.
#[test]
fn beside_four_thousand_strangers_a_second_a_caller_gets_in_at_once() {
    let mut host = Host::new();
    let recorded = host.opening();
    let said: [&[u8]; 5] = [b"", b"E", &recorded[..20], &[7; 64], &recorded];
    for said in said {
        let mut strangers = Vec::new();
        for number in 0..1000 {
            let mut stranger = host.stranger(HERE);
            _ = stranger.write(said);
            strangers.push(stranger);
            host.now = host.now + Duration::from_micros(250);
            // Somewhere between them, and from where they come from.
            if number % 333 == 332 {
                assert!(host.lets_in_at_once(HERE), "{said:?} of {number} keep a caller out");
            }
        }
    }
    assert_eq!(host.credentials.handshakes(), 5 * 3 + 1, "what was recorded costs one");
}

/// Those who say what is worth a handshake are answered some at a time.
pub(super) fn handshakes_are_begun_by_turns() {
    let mut host = Host::new();
    let mut callers: Vec<_> = (0..3 * HANDSHAKES_AT_ONCE).map(|_| host.stranger(HERE)).collect();
    for caller in &mut callers {
        caller.write_all(&host.opening()).unwrap();
    }
    host.answers_by_turns(callers.len());
}

#[test]
fn a_crowd_of_callers_is_answered_by_turns() {
    handshakes_are_begun_by_turns();
}

/// An opening costs the same, whether what comes behind it is fit or not.
pub(super) fn handshakes_that_come_to_nothing_count() {
    let behind: [fn(&mut TcpStream); 2] = [
        |stream| stream.write_all(&[7; 64]).unwrap(),
        |stream| stream.shutdown(Shutdown::Write).unwrap(),
    ];
    for spoil in behind {
        let mut host = Host::new();
        let mut callers: Vec<_> =
            (0..3 * HANDSHAKES_AT_ONCE).map(|_| host.stranger(HERE)).collect();
        for caller in &mut callers {
            caller.write_all(&host.opening()).unwrap();
            spoil(caller);
        }
        host.answers_by_turns(callers.len());
    }
}

#[test]
fn callers_who_spoil_their_handshake_are_answered_by_turns() {
    handshakes_that_come_to_nothing_count();
}

/// Callers whose openings the acceptor has not read keep their places, though newcomers ask for
/// them.
pub(super) fn the_unheard_do_not_give_way() {
    let mut host = Host::new();
    let mut callers: Vec<_> = (0..CROWD.of_one).map(|_| host.stranger(HERE)).collect();
    for caller in &mut callers {
        caller.write_all(&host.opening()).unwrap();
    }
    host.awaits_words_of(callers.len());
    let newcomers: Vec<_> = (0..2 * HANDSHAKES_AT_ONCE).map(|_| host.connect(HERE)).collect();
    host.now = host.now + Duration::from_millis(10);
    host.acceptor.turn();
    assert!(host.let_in().is_empty());
    let begun = usize::try_from(host.credentials.handshakes()).unwrap();
    assert!(begun <= HANDSHAKES_AT_ONCE, "{begun} in one turn");
    let sent_away = callers.iter_mut().filter_map(|it| is_sent_away(it).then_some(())).count();
    assert_eq!(sent_away, 0, "they have spoken");
    host.answers_by_turns(callers.len() - begun);
    drop(newcomers);
}

#[test]
fn a_caller_that_was_not_heard_does_not_give_way() {
    the_unheard_do_not_give_way();
}
