//! Somebody between the ends who changes what passes: it ends the connection, with the reason, and
//! everything comes back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::super::conformance::{V4, nic};
use super::super::raw::{Raw, frame, patience};
use super::sealed;
use crate::buf::Pool;
use crate::fabric::common::eager::DrainedUnits;
use crate::fabric::handshake::{Callee, Credentials, HandshakeEvent};
use crate::fabric::seal::SealError;
use crate::fabric::tcp::driver::Driver;
use crate::fabric::tcp::scripted_peer::{MemoryStream, ScriptedPeer, keys_of_callee};
use crate::fabric::tcp::stream::ByteStream;
use crate::fabric::tcp::wire::TcpFrame;
use crate::rt;
use crate::vi::{
    Address, Descriptor, Encrypt, Identity, Lane, Reliability, Secret, ViError, ViOptions, Wait,
};

const FORGED: ViError = ViError::Protocol(SealError::Forged.text());
const MESSAGE: TcpFrame = TcpFrame::Message { tag: 0, kind: None };

/// Three records, one message each.
fn records(raw: &mut Raw) -> [Vec<u8>; 3] {
    let records = raw.records.as_mut().unwrap();
    [1, 2, 3].map(|byte| records.record(&frame(MESSAGE, &[byte; 40])))
}

/// What becomes of an end with three receives, and of those: how many messages came before.
fn end_of(what: &str, tamper: impl FnOnce([Vec<u8>; 3], &mut Raw)) -> (ViError, usize) {
    let mut raw = Raw::new(Reliability::Reception);
    let pool = Pool::new(100, 4).unwrap();
    for _ in 0..3 {
        raw.vi.post_recv(Descriptor::new(pool.take(100).unwrap())).unwrap();
    }
    raw.vi.post_send(Descriptor::new(pool.take(100).unwrap())).unwrap();
    let records = records(&mut raw);
    tamper(records, &mut raw);
    raw.until(what, |raw| raw.vi.error().is_some());
    let back = std::iter::from_fn(|| raw.vi.recv_queue().poll());
    let came = back.filter(|back| back.status.is_ok()).count();
    while raw.vi.send_queue().poll().is_some() {}
    assert_eq!(pool.available(100), 4, "{what}: buffers are not back");
    (raw.vi.error().unwrap(), came)
}

/// A bit of each byte, but those of lengths: what is longer waits for its end.
pub(super) fn changes_are_the_end() {
    for at in 2..82 {
        let (why, came) = end_of("a bit", |[first, mut second, third], raw| {
            second[at] ^= 1 << (at % 8);
            raw.write_raw(&[first, second, third].concat());
        });
        assert_eq!((why, came), (FORGED, 1), "byte {at}");
    }
}

pub(super) fn repetition_is_the_end() {
    let again = end_of("a repeated record", |[first, ..], raw| {
        raw.write_raw(&[&first[..], &first].concat());
    });
    assert_eq!(again, (FORGED, 1));
    let swapped = end_of("records in another order", |[first, second, third], raw| {
        raw.write_raw(&[first, third, second].concat());
    });
    assert_eq!(swapped, (FORGED, 1));
    let left_out = end_of("a record that was left out", |[_, second, _], raw| {
        raw.write_raw(&second);
    });
    assert_eq!(left_out, (FORGED, 0));
}

#[test]
fn what_was_changed_repeated_or_put_elsewhere_ends_the_connection() {
    sealed(100, || {
        changes_are_the_end();
        repetition_is_the_end();
    });
}

#[test]
fn what_is_not_sealed_ends_a_sealed_connection() {
    sealed(100, || {
        let (why, came) = end_of("plain frames", |_, raw| {
            raw.write_raw(&frame(MESSAGE, &[7; 1000]));
        });
        assert_eq!((why, came), (FORGED, 0));
        let (why, came) = end_of("no length", |_, raw| raw.write_raw(&[0; 40]));
        let expected = ViError::Protocol("a sealed record of a length that none has");
        assert_eq!((why, came), (expected, 0));
    });
}

/// Who is killed has half a record in its kernel as well.
#[test]
fn an_end_inside_of_a_record_is_a_death() {
    sealed(100, || {
        let (why, came) = end_of("half a record", |[first, second, _], raw| {
            raw.write_raw(&first);
            raw.write_raw(&second[..50]);
            raw.stream.shutdown(Shutdown::Write).unwrap();
        });
        let cut = ViError::PeerDied { why: "its connection ended within a sealed record" };
        assert_eq!((why, came), (cut, 1));
    });
}

/// Whoever is in between can end the stream behind a whole record; a goodbye is sealed, and it has
/// none.
pub(super) fn an_end_without_a_goodbye_is_a_death() {
    let (why, came) = end_of("whole records", |[first, second, _], raw| {
        raw.write_raw(&[first, second].concat());
        raw.stream.shutdown(Shutdown::Write).unwrap();
    });
    let cut = ViError::PeerDied { why: "its connection ended without a goodbye" };
    assert_eq!((why, came), (cut, 2));
}

#[test]
fn an_end_between_two_records_is_a_death() {
    sealed(100, an_end_without_a_goodbye_is_a_death);
}

#[test]
fn numbers_that_end_are_the_end_of_the_connection() {
    sealed(100, || {
        let raw = Raw::new(Reliability::Unreliable);
        raw.nic.inside(|driver: &mut Driver, _| {
            for stream in driver.streams() {
                let ByteStream::Sealed(sealed) = stream else { panic!("it is sealed") };
                sealed.skip_to(u64::MAX);
            }
        });
        raw.vi.post_send(Descriptor::new(vec![0_u8; 100])).unwrap();
        raw.until("no number is left", |raw| raw.vi.error().is_some());
        assert_eq!(raw.vi.error(), Some(ViError::Protocol(SealError::Worn.text())));
    });
}

/// However much came at once: the set says nothing of what has left the kernel.
pub(super) fn nothing_ready_is_left() {
    let eager = TcpFrame::Eager { lane: Lane::Talk, tag: 0, drained: DrainedUnits(0) };
    let counts = frame(TcpFrame::Counts { drained: DrainedUnits(0), asks: false }, b"");
    for count in [1, 10, 2500, 4000] {
        let raw = Raw::new(Reliability::Unreliable);
        // In memory, so that all is there at once.
        let wire = MemoryStream::default();
        raw.nic.inside(|driver: &mut Driver, _| {
            for stream in driver.streams() {
                *stream = ByteStream::Memory(wire.clone()).sealed(keys_of_callee(), &[]);
            }
        });
        let bytes = [counts.repeat(count), frame(eager, b"last")].concat();
        wire.say(&ScriptedPeer::caller(100).seal(&bytes));
        let mut came = false;
        raw.until("the last of them", |raw| {
            raw.nic.poll();
            let is_ready = raw
                .nic
                .inside(|driver: &mut Driver, _| driver.streams().any(|stream| stream.is_ready()));
            assert!(!is_ready, "records wait for the socket");
            raw.vi.drain().poll(9, |_, _, bytes| came = bytes == b"last");
            came
        });
    }
}

#[test]
fn no_record_waits_for_the_socket() {
    sealed(100, nothing_ready_is_left);
}

/// Says its part of the handshake, and the first record in the same breath.
fn welcome(mut stream: TcpStream) -> TcpStream {
    let (identity, encrypt) = (Identity::random(), Encrypt::BetweenMachines);
    let credentials = Credentials::new("tcp", Secret::none(), identity, encrypt);
    let mut callee = Callee::new(credentials, true);
    let mut bytes = [0; 2048];
    loop {
        let n = stream.read(&mut bytes).unwrap();
        assert!(n > 0, "it has left");
        let fed = callee.feed(&bytes[..n]).unwrap();
        let is_over = matches!(fed.news, HandshakeEvent::Hello { .. });
        if is_over {
            callee.welcome(&[]);
        }
        let mut said = callee.outgoing().to_vec();
        callee.sent(said.len());
        if is_over {
            let eager = TcpFrame::Eager { lane: Lane::Talk, tag: 5, drained: DrainedUnits(0) };
            said.extend(ScriptedPeer::new(keys_of_callee(), 100).seal(&frame(eager, b"behind")));
        }
        stream.write_all(&said).unwrap();
        if is_over {
            return stream;
        }
    }
}

#[test]
fn a_record_that_comes_with_the_welcome_is_read() {
    sealed(100, || {
        let nic = nic(V4, Wait::Frugal);
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listening.local_addr().unwrap().to_string();
        let callee = rt::spawn("callee", move || welcome(listening.accept().unwrap().0)).unwrap();
        let to = Address::new(&host, "raw", 0);
        let options = ViOptions::of(Reliability::Reception);
        let vi = nic.wait_connect(&to, &options, patience()).unwrap();
        let (until, mut came) = (rt::now() + patience(), Vec::new());
        while came.is_empty() {
            assert!(rt::now() < until, "it did not come");
            nic.poll();
            vi.drain().poll(9, |_, tag, bytes| came.push((tag, bytes.to_vec())));
        }
        assert_eq!(came, [(5, b"behind".to_vec())]);
        drop(callee.join().unwrap());
    });
}
