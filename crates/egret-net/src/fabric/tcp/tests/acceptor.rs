//! Strangers who say nothing keep nobody out, whatever the clock says: it stands still here.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType};

use crate::fabric::greet::{Caller, Stance, Wanted};
use crate::fabric::hub::set;
use crate::fabric::tcp::acceptor::{Acceptor, GREETING_MAX, Visitor};
use crate::rt::{self, Instant};
use crate::vi::{Hello, Reliability, Secret};

struct Host {
    acceptor: Acceptor,
    at: SocketAddr,
    set: OwnedFd,
    ids: u64,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        let opened = Acceptor::open("127.0.0.1:0".parse().unwrap(), host_stance()).unwrap();
        let (acceptor, at) = opened;
        Self { acceptor, at, set: set::create().unwrap(), ids: 0, now: rt::now() }
    }

    /// Connects from an address of this machine.
    fn stranger(&mut self, from: &str) -> TcpStream {
        let from: SocketAddr = from.parse().unwrap();
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &from).unwrap();
        rustix::net::connect(&socket, &self.at).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(true).unwrap();
        self.go_on();
        stream
    }

    /// Lets in who is waiting, and hears everybody. Who has greeted.
    fn go_on(&mut self) -> Vec<Visitor> {
        let ids = &mut self.ids;
        let mut visitors = self.acceptor.knocked(&self.set, self.now, || {
            *ids += 1;
            *ids
        });
        for id in 1..=self.ids {
            visitors.extend(self.acceptor.heard(id, &self.set, self.now));
        }
        visitors
    }

    /// Whether one who knows the secret gets in, before any stranger is given up. It knocks
    /// again if it is told to, as callers do.
    fn lets_in(&mut self, from: &str) -> bool {
        let until = self.now + GREETING_MAX / 2;
        while self.now < until {
            let hello = Hello { reliability: Reliability::Reception, service: "x".into(), tag: 0 };
            let (terms, key) = (b"caller".to_vec(), Some(host_stance().key()));
            let wanted = Wanted { hello, terms, key, is_plain: true };
            let mut caller = Caller::new(stance(2), wanted);
            let mut stream = self.stranger(from);
            if self.greets(&mut caller, &mut stream) {
                return true;
            }
            self.now = self.now + Duration::from_millis(100);
        }
        false
    }

    /// Whether a caller gets in; if not, it was sent away, or nothing came of it for long.
    fn greets(&mut self, caller: &mut Caller, stream: &mut TcpStream) -> bool {
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

fn stance(byte: u8) -> Stance {
    Stance::of_byte("tcp", Secret::from("hush"), byte)
}

fn host_stance() -> Stance {
    stance(1)
}

/// Of the machine's time, which stands still for the acceptor: more than any greeting takes.
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
