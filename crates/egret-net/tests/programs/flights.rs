//! How often the two sides of a handshake wait for each other: all that they say goes through a relay,
//! which takes down who speaks.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::Fabrics;
use egret_net::rt::{self, Deadline};
use egret_net::vi::{Address, Encrypt, Nic, NicOptions, Reliability, ViOptions};

const LONG: Deadline = Deadline::In(Duration::from_secs(20));
/// Has the form of one that nobody can guess, so that it is proven to a callee whose key is not known.
const SECRET: &str = "egret1.00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Caller,
    Callee,
}

/// Who has spoken, each time after the other has.
#[derive(Debug, Default, Clone)]
struct Flights(Arc<Mutex<Vec<Side>>>);

impl Flights {
    fn note(&self, side: Side) {
        let mut all = self.0.lock().unwrap();
        if all.last() != Some(&side) {
            all.push(side);
        }
    }

    /// That the two have taken turns this often, beginning with the caller, until it was connected.
    #[track_caller]
    fn assert_round_trips(&self, count: usize) {
        let expected = [Side::Caller, Side::Callee].repeat(count);
        assert_eq!(*self.0.lock().unwrap(), expected);
    }
}

/// A place where callers of a nic of `tcp` are led to it.
fn relay_tcp(goal: SocketAddr, flights: &Flights) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let flights = flights.clone();
    rt::spawn("accepts", move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(goal).unwrap();
            let (back, forth) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            pass_on((near, far), Side::Caller, &flights);
            pass_on((back, forth), Side::Callee, &flights);
        }
    })
    .unwrap();
    place
}

fn pass_on((mut from, mut to): (TcpStream, TcpStream), side: Side, flights: &Flights) {
    let flights = flights.clone();
    to.set_nodelay(true).unwrap();
    rt::spawn("passes", move || {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            flights.note(side);
            if to.write_all(&bytes[..len]).is_err() {
                return;
            }
        }
        _ = to.shutdown(Shutdown::Write);
    })
    .unwrap();
}

/// A place where callers of a nic of `udp` are led to it. What is said again because the answer was late
/// is no flight of its own.
fn relay_udp(goal: SocketAddr, flights: &Flights) -> String {
    let near = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    far.connect(goal).unwrap();
    let place = near.local_addr().unwrap().to_string();
    let caller = Arc::new(Mutex::new(None));
    let (there, from) = (Arc::clone(&far), Arc::clone(&caller));
    let (back, noted) = (Arc::clone(&near), flights.clone());
    rt::spawn("forth", move || {
        receive(&near, Side::Caller, &noted, |bytes, caller| {
            *from.lock().unwrap() = Some(caller);
            there.send(bytes).unwrap();
        });
    })
    .unwrap();
    let noted = flights.clone();
    rt::spawn("back", move || {
        receive(&far, Side::Callee, &noted, |bytes, _| {
            let caller = caller.lock().unwrap().unwrap();
            back.send_to(bytes, caller).unwrap();
        });
    })
    .unwrap();
    place
}

fn receive(socket: &UdpSocket, side: Side, flights: &Flights, pass_on: impl Fn(&[u8], SocketAddr)) {
    let (mut bytes, mut said) = (vec![0; 64 << 10], BTreeSet::new());
    while let Ok((len, from)) = socket.recv_from(&mut bytes) {
        let bytes = &bytes[..len];
        if HANDSHAKES.contains(&bytes[0]) && said.insert(bytes.to_vec()) {
            flights.note(side);
        }
        pass_on(bytes, from);
    }
}

/// The kinds of datagrams of a handshake: step, token, answer.
const HANDSHAKES: [u8; 3] = [7, 8, 9];

fn open(fabric: &str, encrypt: Encrypt) -> Nic {
    let options = NicOptions::new("").secret(SECRET.into()).encrypt(encrypt);
    Fabrics::default().open(fabric, options).unwrap()
}

type Relay = fn(SocketAddr, &Flights) -> String;

/// Connects two, each of which waits for the other this often.
fn connects_in(fabric: &str, relay: Relay, round_trips: usize) {
    for encrypt in [Encrypt::Always, Encrypt::Never] {
        for is_known in [true, false] {
            let (here, there) = (open(fabric, encrypt), open(fabric, encrypt));
            let options = ViOptions::of(Reliability::Delivery);
            let listener = here.listen("flights", 7, &options).unwrap();
            let flights = Flights::default();
            let place = relay(here.host().parse().unwrap(), &flights);
            let to = Address::new(&place, "flights", 7);
            let to = if is_known { to.key(here.key().unwrap()) } else { to };
            let connecting = there.connect(&to, &options, LONG);
            let noted = flights.clone();
            let caller = rt::spawn("caller", move || {
                let connected = there.block_on(connecting).unwrap();
                noted.assert_round_trips(round_trips);
                connected
            });
            let accepted = listener.wait_accept(LONG).unwrap();
            let connected = caller.unwrap().join().unwrap();
            assert!(accepted.error().is_none() && connected.error().is_none());
        }
    }
}

/// Behind the round trip of the system's own connection: opening, opening, asking, welcome.
#[test]
fn over_tcp_a_handshake_is_two_round_trips() {
    connects_in("tcp", relay_tcp, 2);
}

/// The first is for the token.
#[test]
fn over_udp_a_handshake_is_three_round_trips() {
    connects_in("udp", relay_udp, 3);
}
