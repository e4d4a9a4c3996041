//! Datagrams of windows, sealed where they lie, over a network in memory.

use super::super::joined::{PEER, ROOM, in_memory, join};
use crate::fabric::seal::{KEY, SealKey, SealKeys};
use crate::fabric::udp::driver::Driver;
use crate::fabric::udp::sealed::EDGES;
use crate::fabric::udp::wire::ConnectionNumber;
use crate::fabric::{After, ConnId, DatagramEvent, Machine};
use crate::vi::Reliability;

const NEAR: ConnectionNumber = ConnectionNumber(1);
const FAR: ConnectionNumber = ConnectionNumber(2);

/// Two nics with a sealed connection.
fn ends() -> [Driver; 2] {
    [([NEAR, FAR], [1, 2]), ([FAR, NEAR], [2, 1])].map(|(numbers, keys)| {
        let mut driver = in_memory();
        let [outgoing, incoming] = keys.map(|byte| SealKey::new([byte; KEY]));
        join(&mut driver, numbers, Reliability::Delivery, Some(SealKeys { outgoing, incoming }));
        driver
    })
}

/// A train of datagrams with these bytes.
fn train(datagrams: &[&[u8]]) -> Vec<u8> {
    let edged = datagrams.iter().map(|bytes| [&[0; EDGES[0]], *bytes, &[0; EDGES[1]]].concat());
    edged.collect::<Vec<_>>().concat()
}

fn send(near: &mut Driver, train: &mut [u8], size: usize) -> usize {
    near.send_datagrams(ConnId(NEAR.0), train, size, &mut After::default())
}

fn sent(near: &Driver) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| near.fixed.socket.memory().next_sent()).collect()
}

/// What a window is given of datagrams that come together.
fn hear(far: &mut Driver, together: &[&[u8]]) -> Vec<Vec<u8>> {
    far.fixed.socket.memory().say(together.concat(), PEER);
    let (mut after, mut given) = (After::default(), Vec::new());
    while let Some(DatagramEvent::Datagram(conn, bytes)) = far.next_datagram(&mut after) {
        assert_eq!(conn, ConnId(FAR.0));
        given.push(bytes.to_vec());
    }
    given
}

/// A train that finds no room comes again, and leaves as it was sealed.
pub(in super::super) fn one_that_waits_is_sealed_once() {
    let [mut near, mut far] = ends();
    let (mut train, size) = (train(&[b"first", b"other", b"last"]), 5 + EDGES[0] + EDGES[1]);
    near.fixed.socket.memory().make_room(0, ROOM);
    for _ in 0..3 {
        assert_eq!(send(&mut near, &mut train, size), 0);
    }
    near.fixed.socket.memory().make_room(9, ROOM);
    assert_eq!(send(&mut near, &mut train, size), train.len());
    let sent = sent(&near).concat();
    assert_eq!(hear(&mut far, &[&sent]), [b"first".as_slice(), b"other", b"last"]);
}

#[test]
fn a_train_that_waits_for_room_is_sealed_once() {
    one_that_waits_is_sealed_once();
}

/// Behind a datagram that was changed, or has come before, the next is heard.
pub(in super::super) fn what_comes_together_is_opened_each() {
    let [mut near, mut far] = ends();
    let size = 3 + EDGES[0] + EDGES[1];
    let mut train = train(&[b"one", b"two", b"six", b"ten"]);
    assert_eq!(send(&mut near, &mut train, size), train.len());
    let all: Vec<&[u8]> = train.chunks(size).collect();
    let mut changed = all[1].to_vec();
    changed[size - 1] ^= 1;
    let given = hear(&mut far, &[all[0], &changed, all[2], all[0], all[3], all[1]]);
    assert_eq!(given, [b"one", b"six", b"ten", b"two"]);
    assert_eq!((far.tally.forged, far.tally.repeated, far.tally.garbage), (1, 1, 0));
}

#[test]
fn datagrams_that_come_together_are_opened_one_by_one() {
    what_comes_together_is_opened_each();
}

/// The bytes, for ever: those of AES-256-GCM with the key of 32 ones and the number as the nonce.
#[test]
fn the_bytes_are_these_for_ever() {
    let [mut near, _] = ends();
    let mut train = train(&[b"hi", b"hi"]);
    send(&mut near, &mut train, 2 + EDGES[0] + EDGES[1]);
    let head = b"\x0b\0\0\0\x0a\0\0\0\x02\0\0\0\0\0\0\0".as_slice();
    let first = [head, &0_u64.to_le_bytes(), FIRST].concat();
    let second = [head, &1_u64.to_le_bytes(), SECOND].concat();
    assert_eq!(train, [first, second].concat());
}

/// What is sealed is kind 10, three zeros, the length 2, and the bytes; a tag of 16 bytes follows.
const FIRST: &[u8] = &[
    0xb5, 0x35, 0x98, 0xdc, 0x77, 0x3b, 0x03, 0xbf, 0xfb, 0x10, 0xfc, 0xf8, 0x6e, 0x3e, 0xf1, 0xa1,
    0xbf, 0x52, 0xd4, 0x40, 0x4c, 0x83, 0x29, 0x14, 0x7a, 0x85,
];
const SECOND: &[u8] = &[
    0xb1, 0xda, 0x90, 0x87, 0xde, 0x3e, 0x79, 0x22, 0x61, 0x5a, 0x67, 0xdc, 0xc5, 0x51, 0x53, 0x7c,
    0x0e, 0xe4, 0x7f, 0xb7, 0x10, 0x37, 0x03, 0xf4, 0xb4, 0xb7,
];
