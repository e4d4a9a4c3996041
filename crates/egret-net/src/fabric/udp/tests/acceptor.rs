//! Guests of whom nothing more is expected keep nobody out.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::nics::{LONG, Opened, answers, connect, next, options, stranger, until};
use crate::fabric::greet::{Caller, GreetError, Stance, Wanted};
use crate::fabric::hub::Refusal;
use crate::fabric::udp::acceptor::{Acceptor, GUESTS, Visitor};
use crate::fabric::udp::socket::Socket;
use crate::fabric::udp::wire::{Datagram, Number, greet};
use crate::rt::{self, Deadline, Instant};
use crate::vi::{Address, Descriptor, Hello, PublicKey, Reliability, Secret};

fn guests(nic: &Opened) -> usize {
    nic.inside(|driver| driver.acceptor.guests())
}

#[test]
fn a_caller_says_goodbye_to_a_greeting_that_is_refused() {
    let (a, b) = (Opened::new(), Opened::new());
    let to = Address::new(b.nic.host(), "nobody", 0);
    let _connecting = a.nic.connect(&to, &options(), Deadline::In(LONG));
    let mut attempts = BTreeSet::new();
    until(&[&a.nic, &b.nic], || {
        attempts.extend(a.inside(|driver| driver.connectors.keys().next().copied()));
        (attempts.len() > 4).then_some(())
    });
    b.drain();
    assert!(guests(&b) <= 1, "{} guests of one caller", guests(&b));
}

fn wanted(hello: Hello, number: Number, key: Option<PublicKey>) -> Wanted {
    Wanted { hello, terms: number.0.to_le_bytes().to_vec(), key, is_plain: true }
}

/// Greets until there is an answer to what is asked, and leaves without a word.
fn ask(b: &Opened, socket: &UdpSocket, number: Number) -> GreetError {
    let hello = Hello { reliability: Reliability::Unreliable, service: "nobody".into(), tag: 0 };
    let stance = Stance::of_byte("udp", Secret::none(), 1);
    let mut caller = Caller::new(stance, wanted(hello, number, None));
    let mut token = 0;
    for _ in 0..4 {
        let step = caller.outgoing().to_vec();
        socket.send_to(&greet(token, number, &step), b.at()).unwrap();
        b.drain();
        for bytes in answers(socket) {
            match Datagram::decode(&bytes) {
                Ok(Datagram::Token { token: given, .. }) => token = given,
                Ok(Datagram::Answer { stream, .. }) => {
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
fn who_was_turned_away_makes_room() {
    let b = Opened::new();
    let socket = stranger();
    for number in 0..GUESTS.of_one as u64 + 20 {
        let why = ask(&b, &socket, Number(number));
        assert!(matches!(why, GreetError::Refused(Refusal::NotListening)), "{why:?}");
    }
    assert!((1..=GUESTS.of_one).contains(&guests(&b)));
    (0..3).for_each(|_| b.beat());
    assert_eq!(guests(&b), 0);
}

#[test]
fn who_uses_its_connection_is_no_guest_for_long() {
    let (a, b) = (Opened::new(), Opened::new());
    let (here, there) = connect(&a, &b);
    there.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
    here.post_send(Descriptor::new(vec![1_u8; 10])).unwrap();
    assert_eq!(next(&[&a.nic, &b.nic], there.recv_queue()).bytes(), [1; 10]);
    (0..3).for_each(|_| b.beat());
    assert_eq!((guests(&b), there.error()), (0, None));
}

/// What the acceptor below has; it is known to those who greet it.
fn host_stance() -> Stance {
    Stance::of_byte("udp", Secret::from("hush"), 1)
}

/// An acceptor alone: the clock stands still, and nobody is forgotten.
struct Host {
    acceptor: Acceptor,
    socket: Arc<Socket>,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        let socket = Arc::new(Socket::open("127.0.0.1:0".parse().unwrap()).unwrap());
        Self { acceptor: Acceptor::new(), socket, now: rt::now() }
    }

    fn greets(&mut self, from: &UdpSocket, number: Number, step: &[u8]) -> Option<Visitor> {
        let at: SocketAddr = from.local_addr().unwrap();
        let token = self.acceptor.token(&at, number);
        let stance = host_stance();
        let with = (&stance, &self.socket);
        self.acceptor.greeted((at, number), (token, step), with, self.now).unwrap()
    }

    /// Whether one who knows the secret gets in.
    fn lets_in(&mut self, from: &UdpSocket) -> bool {
        let number = Number(rt::random());
        let hello = Hello { reliability: Reliability::Unreliable, service: "x".into(), tag: 0 };
        let stance = Stance::of_byte("udp", Secret::from("hush"), 2);
        let mut caller = Caller::new(stance, wanted(hello, number, Some(host_stance().key())));
        for _ in 0..100 {
            let step = caller.outgoing().to_vec();
            if self.greets(from, number, &step).is_some() {
                return true;
            }
            for bytes in answers(from) {
                if let Ok(Datagram::Answer { to, stream, .. }) = Datagram::decode(&bytes)
                    && to == number
                {
                    caller.sent(step.len());
                    caller.feed(stream).unwrap();
                    break;
                }
            }
            self.now = self.now + Duration::from_millis(20);
        }
        false
    }
}

#[test]
fn the_silent_keep_nobody_out() {
    let open = |at: &str| {
        let socket = UdpSocket::bind(at).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let (here, elsewhere) = (open("127.0.0.1:0"), open("127.0.0.2:0"));
    let mut host = Host::new();
    let hello = Hello { reliability: Reliability::Unreliable, service: "x".into(), tag: 0 };
    for number in 0..2 * GUESTS.of_one as u64 {
        let stance = Stance::of_byte("udp", Secret::from("guess"), 3);
        let wanted = wanted(hello.clone(), Number(number), Some(host_stance().key()));
        let caller = Caller::new(stance, wanted);
        assert!(host.greets(&here, Number(number), caller.outgoing()).is_none());
        answers(&here);
    }
    assert_eq!(host.acceptor.guests(), GUESTS.of_one);
    assert!(host.lets_in(&elsewhere), "from another address");
    assert!(host.lets_in(&here), "from the same address");
    assert_eq!(host.acceptor.guests(), GUESTS.of_one + 1, "one has given way");
}
