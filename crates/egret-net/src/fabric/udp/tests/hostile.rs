//! Strangers: whatever they send is dropped and counted.

use std::net::UdpSocket;

use super::nics::{Opened, answers, connect, next, stranger, until};
use crate::fabric::udp::acceptor::HANDSHAKES;
use crate::fabric::udp::arrival::DroppedDatagrams;
use crate::fabric::udp::fuzzing::datagrams;
use crate::fabric::udp::wire::{
    ConnectionNumber, GoodbyeReason, HANDSHAKE_BYTES, HEAD_MAX, MessageSplit, UdpDatagram, UdpHead,
    UdpPiece, answer, start_handshake,
};
use crate::rt::{self, SplitMix64};
use crate::vi::Descriptor;

pub(super) fn message(to: ConnectionNumber, number: u64, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    let split = MessageSplit { len, unit: len };
    let piece = UdpPiece { number, tag: 7, eager: false, split, index: 0, kind: None, bytes };
    [UdpHead::<HEAD_MAX>::of_piece(to, &piece).bytes(), bytes].concat()
}

/// A stranger who knows a connection's number and not the peer's address gets nothing
/// through it, and does not end it.
pub(super) fn another_source_is_no_peer() {
    let (a, b) = (Opened::new(), Opened::new());
    let (here, there) = connect(&a, &b);
    there.post_recv(Descriptor::new(vec![0_u8; 100])).unwrap();
    let number = b.inside(|driver| *driver.links.open.keys().next().unwrap());
    let (socket, before) = (stranger(), b.tally());
    let forged = [
        message(number, 0, b"forged"),
        UdpHead::probe(number).bytes().to_vec(),
        UdpHead::alive(number).bytes().to_vec(),
        UdpHead::goodbye(number, GoodbyeReason::Closed).bytes().to_vec(),
    ];
    for bytes in &forged {
        socket.send_to(bytes, b.at()).unwrap();
    }
    b.drain();
    assert_eq!(b.tally(), DroppedDatagrams { strangers: 4, ..before });
    assert!(there.recv_queue().poll().is_none() && there.error().is_none());
    assert!(answers(&socket).is_empty(), "a stranger is answered");
    here.post_send(Descriptor::new(b"right".to_vec())).unwrap();
    let got = next(&[&a.nic, &b.nic], there.recv_queue());
    assert_eq!(got.bytes(), b"right");
}

#[test]
fn a_spoofed_source_is_dropped() {
    another_source_is_no_peer();
}

#[test]
fn a_wrong_number_is_answered_with_less() {
    let b = Opened::new();
    let socket = stranger();
    for bytes in
        [message(ConnectionNumber(5), 0, b""), UdpHead::probe(ConnectionNumber(5)).bytes().to_vec()]
    {
        socket.send_to(&bytes, b.at()).unwrap();
        b.drain();
        let answers = answers(&socket);
        assert_eq!(answers, [UdpHead::unknown(ConnectionNumber(5)).bytes()]);
        assert!(answers[0].len() <= bytes.len());
    }
    // What is an answer is not answered.
    let answers_of_others = [
        UdpHead::unknown(ConnectionNumber(5)).bytes().to_vec(),
        UdpHead::goodbye(ConnectionNumber(5), GoodbyeReason::Closed).bytes().to_vec(),
        UdpHead::token(ConnectionNumber(5), 1).bytes().to_vec(),
        answer(ConnectionNumber(5), ConnectionNumber(6), true, b"step"),
    ];
    for bytes in answers_of_others {
        socket.send_to(&bytes, b.at()).unwrap();
    }
    b.drain();
    assert!(answers(&socket).is_empty());
}

#[test]
fn a_replay_is_dropped() {
    let (a, b) = (Opened::new(), Opened::new());
    let (here, there) = connect(&a, &b);
    for _ in 0..4 {
        there.post_recv(Descriptor::new(vec![0_u8; 100])).unwrap();
    }
    let number = b.inside(|driver| *driver.links.open.keys().next().unwrap());
    here.post_send(Descriptor::new(b"once".to_vec()).with_tag(7)).unwrap();
    // Somebody on the way sends it again, from the same address.
    let again = message(number, 0, b"once");
    for _ in 0..3 {
        let slices = [std::io::IoSlice::new(&again)];
        a.socket.send(&b.at().into(), &slices).unwrap();
    }
    let got = next(&[&a.nic, &b.nic], there.recv_queue());
    assert_eq!((got.bytes(), got.tag), (b"once".as_slice(), 7));
    b.drain();
    assert_eq!((there.counters().received, there.counters().dropped), (1, 0));
    assert_eq!(there.recv_queue().outstanding(), 3);
}

/// Handshakes with no token cost nothing to keep, and no answer is larger than what
/// it answers.
pub(super) fn floods_are_bounded() {
    let b = Opened::new();
    let socket = stranger();
    let mut sent = 0;
    for _ in 0..50 {
        for _ in 0..100 {
            let datagram = start_handshake(rt::random(), ConnectionNumber(rt::random()), b"EGRT");
            sent += datagram.len();
            socket.send_to(&datagram, b.at()).unwrap();
        }
        b.drain();
    }
    assert_eq!(b.inside(|driver| driver.acceptor.handshakes()), 0);
    assert_eq!(b.tally().tokenless, 5_000);
    let got: usize = answers(&socket).iter().map(Vec::len).sum();
    assert!(got > 0 && got * 10 < sent, "{got} bytes for {sent}");
}

#[test]
fn handshakes_without_a_token_cost_nothing() {
    floods_are_bounded();
}

/// The token that the nic gives to somebody.
fn token_for(b: &Opened, socket: &UdpSocket, number: ConnectionNumber, step: &[u8]) -> u64 {
    socket.send_to(&start_handshake(0, number, step), b.at()).unwrap();
    until(&[&b.nic], || {
        answers(socket).iter().find_map(|bytes| match UdpDatagram::decode(bytes) {
            Ok(UdpDatagram::Token { token, .. }) => Some(token),
            _ => None,
        })
    })
}

/// The first step of a handshake, as a caller says it.
fn opening() -> Vec<u8> {
    use crate::fabric::handshake::{Caller, CallerRequest, Credentials};
    use crate::vi::{Hello, Reliability, Secret};
    let hello = Hello { reliability: Reliability::Unreliable, service: "x".into(), tag: 0 };
    let wanted = CallerRequest { hello, terms: Vec::new(), key: None, is_plain: true };
    let caller = Caller::new(Credentials::of_byte("udp", Secret::none(), 1), wanted);
    caller.outgoing().to_vec()
}

#[test]
fn guests_are_bounded_and_forgotten() {
    let b = Opened::new();
    let socket = stranger();
    for number in 0..HANDSHAKES.of_one as u64 + 20 {
        let step = opening();
        let token = token_for(&b, &socket, ConnectionNumber(number), &step);
        socket.send_to(&start_handshake(token, ConnectionNumber(number), &step), b.at()).unwrap();
        b.drain();
        for bytes in answers(&socket) {
            assert!(bytes.len() <= HANDSHAKE_BYTES);
        }
    }
    assert_eq!(b.inside(|driver| driver.acceptor.handshakes()), HANDSHAKES.of_one);
    const { assert!(HANDSHAKES.of_one < HANDSHAKES.all) };
    // Others are let in meanwhile, from another address.
    let host = crate::vi::NicOptions::new("127.0.0.2");
    drop(connect(&Opened::with(&host), &b));
    (0..12).for_each(|_| b.keep_alive_tick());
    assert_eq!(b.inside(|driver| driver.acceptor.handshakes()), 0);
}

#[test]
fn a_guest_that_talks_nonsense_is_sent_away_and_not_accepted() {
    let b = Opened::new();
    let listener = b.listen("x");
    let socket = stranger();
    let step = opening();
    let token = token_for(&b, &socket, ConnectionNumber(3), &step);
    for nonsense in [b"nonsense".as_slice(), &step, b"", &step, &[0; 1000], b"EGRT"] {
        socket.send_to(&start_handshake(token, ConnectionNumber(3), nonsense), b.at()).unwrap();
        b.drain();
    }
    assert!(listener.poll_accept().unwrap().is_none());
    assert!(b.inside(|driver| driver.acceptor.handshakes()) <= 1);
}

/// One of the two pieces of a message of 600 bytes.
fn first_or_second_piece(
    connection: ConnectionNumber,
    number: u64,
    split: MessageSplit,
    index: u32,
) -> Vec<u8> {
    let piece = UdpPiece { eager: false, number, tag: 0, split, index, kind: None, bytes: &[] };
    [UdpHead::<HEAD_MAX>::of_piece(connection, &piece).bytes(), &[1; 300]].concat()
}

/// Datagrams that are nearly right, of all kinds, to a nic with a connection: nothing
/// panics, the connection lives, and all buffers come back.
#[test]
fn a_seeded_run_of_nearly_right_datagrams() {
    for seed in 0..20 {
        let mut rng = SplitMix64(seed);
        let (a, b) = (Opened::new(), Opened::new());
        let (here, there) = connect(&a, &b);
        let _listener = b.listen("open");
        for _ in 0..8 {
            there.post_recv(Descriptor::new(vec![0_u8; 700])).unwrap();
        }
        let number = b.inside(|driver| *driver.links.open.keys().next().unwrap());
        let socket = stranger();
        let step = opening();
        let token = token_for(&b, &socket, ConnectionNumber(1), &step);
        for round in 0..500 {
            let number = if rng.below(2) == 0 { number } else { ConnectionNumber(rng.next() % 4) };
            let mut bytes = match rng.below(9) {
                0 => message(number, rng.next() % 8, &[0; 20]),
                1 => {
                    let split = MessageSplit { len: 600, unit: 300 };
                    let index = u32::from(rng.below(2) == 0);
                    first_or_second_piece(number, rng.next() % 8, split, index)
                }
                2 => UdpHead::probe(number).bytes().to_vec(),
                3 => UdpHead::alive(number).bytes().to_vec(),
                4 => UdpHead::unknown(number).bytes().to_vec(),
                5 => UdpHead::token(number, rng.next()).bytes().to_vec(),
                6 => answer(number, ConnectionNumber(rng.next()), rng.below(2) == 0, &step),
                7 => start_handshake(
                    token,
                    ConnectionNumber(1),
                    if rng.below(2) == 0 { &step } else { b"EGRT" },
                ),
                _ => (0..rng.below(1300)).map(|_| rng.next().to_le_bytes()[0]).collect(),
            };
            for _ in 0..rng.below(3) {
                let at = rng.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.next().to_le_bytes()[0];
                }
            }
            // From the peer's own address, or from a stranger's.
            if rng.below(2) == 0 && bytes.first() != Some(&5) && bytes.first() != Some(&6) {
                let slices = [std::io::IoSlice::new(&bytes)];
                _ = a.socket.send(&b.at().into(), &slices);
            } else {
                _ = socket.send_to(&bytes, b.at());
            }
            if round % 50 == 0 {
                b.drain();
                b.keep_alive_tick();
                a.drain();
                while let Some(got) = there.recv_queue().poll() {
                    there.post_recv(got.into_descriptor()).unwrap();
                }
            }
        }
        b.drain();
        assert_eq!((here.error(), there.error()), (None, None), "seed {seed}");
        assert!(b.tally().strangers > 0 && b.tally().garbage > 0, "{:?}", b.tally());
        let queue = there.recv_queue().clone();
        drop(there);
        while queue.poll().is_some() {}
        assert_eq!(queue.outstanding(), 0, "seed {seed}: all buffers are back");
    }
}

/// What the fuzzer calls, over inputs of which each run sees the same.
#[test]
fn whatever_arrives_the_buffers_come_back() {
    for seed in 0..200 {
        let mut rng = SplitMix64(seed);
        // What is posted at first.
        let mut input: Vec<u8> = (0..9).map(|_| rng.next().to_le_bytes()[0]).collect();
        for _ in 0..rng.below(30) {
            let mut bytes = match rng.below(8) {
                0 | 1 => message(ConnectionNumber(0), rng.next() % 5, &vec![0; rng.below(800)]),
                2 | 3 => {
                    let split = MessageSplit { len: 600, unit: 300 };
                    let (number, index) = (rng.next() % 5, u32::from(rng.below(2) == 0));
                    let piece = UdpPiece {
                        number,
                        tag: 0,
                        eager: false,
                        split,
                        index,
                        kind: None,
                        bytes: &[],
                    };
                    [UdpHead::<HEAD_MAX>::of_piece(ConnectionNumber(0), &piece).bytes(), &[1; 300]]
                        .concat()
                }
                4 => UdpHead::probe(ConnectionNumber(0)).bytes().to_vec(),
                5 => UdpHead::goodbye(ConnectionNumber(0), GoodbyeReason::Closed).bytes().to_vec(),
                6 => start_handshake(rng.next(), ConnectionNumber(rng.next()), b"EGRT"),
                _ => UdpHead::unknown(ConnectionNumber(0)).bytes().to_vec(),
            };
            if rng.below(3) == 0 {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
            let what = if rng.below(4) == 0 { rng.next().to_le_bytes()[0] } else { 0 };
            input.push(what);
            input.extend(u16::try_from(bytes.len()).unwrap().to_le_bytes());
            input.extend(bytes);
        }
        let outcome = std::panic::catch_unwind(|| datagrams(&input));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

/// The same, with inputs in which nothing is meant.
#[test]
fn whatever_a_nic_is_made_to_do_the_buffers_come_back() {
    for seed in 0..2000 {
        let mut rng = SplitMix64(seed);
        let input: Vec<u8> = (0..rng.below(300)).map(|_| rng.next().to_le_bytes()[0]).collect();
        let outcome = std::panic::catch_unwind(|| datagrams(&input));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
