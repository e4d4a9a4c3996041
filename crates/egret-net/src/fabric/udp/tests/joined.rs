//! What a nic below a window makes of datagrams that the system hands over together.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::fabric::handshake::{PeerProof, Session};
use crate::fabric::seal::SealKeys;
use crate::fabric::udp::driver::Driver;
use crate::fabric::udp::nic;
use crate::fabric::udp::socket::DatagramSocket;
use crate::fabric::udp::wire::{
    ConnectionNumber, HEAD_MAX, MessageSplit, UdpDatagram, UdpHead, UdpPiece, start_handshake,
};
use crate::fabric::{After, ConnId, DATAGRAM_HEAD, DatagramEvent, Machine, ViSpec};
use crate::vi::{Identity, NicOptions, Reliability};

pub(super) const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);
const WINDOWED: ConnectionNumber = ConnectionNumber(1);
const PLAIN: ConnectionNumber = ConnectionNumber(2);
pub(super) const ROOM: usize = 1400;

/// A nic below a window, with a network in memory, and a connection of each level.
fn below() -> Driver {
    let mut driver = in_memory();
    join(&mut driver, [WINDOWED, ConnectionNumber(11)], Reliability::Delivery, None);
    join(&mut driver, [PLAIN, ConnectionNumber(12)], Reliability::Unreliable, None);
    driver
}

/// A nic below a window, with a network in memory.
pub(super) fn in_memory() -> Driver {
    let mut driver = nic::open(&NicOptions::new(""), true).unwrap();
    let socket = DatagramSocket::open(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
    driver.fixed.socket = Arc::new(socket.in_memory());
    driver.fixed.socket.memory().reset(ROOM);
    driver
}

/// Makes a connection to the peer.
pub(super) fn join(
    driver: &mut Driver,
    numbers: [ConnectionNumber; 2],
    reliability: Reliability,
    keys: Option<SealKeys>,
) {
    let spec = ViSpec { reliability, ..ViSpec::new(Reliability::Unreliable, 8) };
    let known = PeerProof { key: Identity::random().key(), is_sealed: keys.is_some() };
    driver.connected(numbers, PEER, Session { known, keys }, spec);
}

fn of_window(to: ConnectionNumber, bytes: &[u8]) -> Vec<u8> {
    [UdpHead::window(to, bytes.len()).as_slice(), bytes].concat()
}

fn message(number: u64, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    let split = MessageSplit { len, unit: len };
    let piece = UdpPiece { number, tag: 7, eager: false, split, index: 0, kind: None, bytes };
    [UdpHead::<HEAD_MAX>::of_piece(PLAIN, &piece).bytes(), bytes].concat()
}

/// Datagrams come together. What a window is given.
fn hear(driver: &mut Driver, together: &[Vec<u8>]) -> Vec<Vec<u8>> {
    driver.fixed.socket.memory().say(together.concat(), PEER);
    let (mut after, mut given) = (After::default(), Vec::new());
    while let Some(came) = driver.next_datagram(&mut after) {
        let DatagramEvent::Datagram(conn, bytes) = came else { panic!("something is over") };
        assert_eq!(conn, ConnId(WINDOWED.0));
        given.push(bytes.to_vec());
    }
    given
}

/// More than are taken in vain, of different sizes, with others between.
#[test]
fn all_that_comes_together_is_heard() {
    let mut driver = below();
    let all: Vec<Vec<u8>> = (0..200_u8).map(|byte| vec![byte; 30 + usize::from(byte)]).collect();
    let mut together = Vec::new();
    for (number, bytes) in (0..).zip(&all) {
        together.push(of_window(WINDOWED, bytes));
        together.push(message(number, bytes));
    }
    let given = hear(&mut driver, &together);
    assert!(given == all, "{} of {}", given.len(), all.len());
    assert_eq!(driver.counters(ConnId(PLAIN.0)).dropped, 200, "they find no receive, each");
    assert_eq!(driver.tally.garbage, 0);
}

/// Many short datagrams in one are not answered one by one.
#[test]
fn what_follows_a_stranger_is_dropped() {
    let mut driver = below();
    let strange = vec![of_window(ConnectionNumber(77), b""); 500];
    assert!(hear(&mut driver, &strange).is_empty());
    let answers = std::iter::from_fn(|| driver.fixed.socket.memory().next_sent()).count();
    assert_eq!((answers, driver.tally.unknown), (1, 1));
    assert_eq!(driver.tally.garbage, 0);
    assert_eq!(hear(&mut driver, &[of_window(WINDOWED, b"on")]), [b"on"]);
}

/// Signs of life, handshakes and what windows say, as a system joins them.
#[test]
fn whatever_one_sender_says_is_heard() {
    let mut driver = below();
    let probe = UdpHead::probe(WINDOWED).bytes().to_vec();
    let handshake = start_handshake(0, ConnectionNumber(5), b"");
    let unknown = UdpHead::unknown(ConnectionNumber(99)).bytes().to_vec();
    let said = of_window(WINDOWED, b"said");
    let together = [probe.clone(), probe, handshake.clone(), handshake, unknown, said];
    assert_eq!(hear(&mut driver, &together), [b"said"]);
    let sent: Vec<_> = std::iter::from_fn(|| driver.fixed.socket.memory().next_sent()).collect();
    let alive = UdpHead::alive(ConnectionNumber(11)).bytes().to_vec();
    assert_eq!(sent[..2], [alive.clone(), alive]);
    assert!(sent[2..].iter().all(|token| matches!(
        UdpDatagram::decode(token),
        Ok(UdpDatagram::Token { to: ConnectionNumber(5), .. })
    )));
    assert_eq!((sent.len(), driver.tally.garbage), (4, 0));
}

#[test]
fn what_follows_garbage_is_dropped() {
    let mut driver = below();
    let good = of_window(WINDOWED, b"good");
    let mut long = good.clone();
    long[4] = 200;
    for bad in [vec![0; 40], good[..DATAGRAM_HEAD + 3].to_vec(), vec![10, 0], long] {
        let garbage = driver.tally.garbage;
        assert_eq!(hear(&mut driver, &[good.clone(), bad.clone()]), [b"good"], "{bad:?}");
        assert_eq!(driver.tally.garbage, garbage + 1);
    }
    let behind = [good.clone(), vec![0; 40], good];
    assert_eq!(hear(&mut driver, &behind).len(), 1);
}

/// One that finds no room waits for it once, however often it tries.
#[test]
fn a_connection_without_room_is_noted_once() {
    let mut driver = below();
    let mut after = After::default();
    driver.fixed.socket.memory().make_room(0, ROOM);
    let mut train = of_window(WINDOWED, b"train");
    let size = train.len();
    for _ in 0..3 {
        let sent = driver.send_datagrams(ConnId(WINDOWED.0), &mut train, size, &mut after);
        assert_eq!((sent, driver.stuck.as_slice()), (0, [WINDOWED].as_slice()));
    }
    driver.fixed.socket.memory().make_room(9, ROOM);
    assert_eq!(driver.send_datagrams(ConnId(WINDOWED.0), &mut train, size, &mut after), size);
    assert_eq!(driver.fixed.socket.memory().next_sent().unwrap()[8..16], 11_u64.to_le_bytes());
}
