//! A peer that writes what it likes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::conformance::{V4, nic};
use super::sealed::record_max;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::DrainedUnits;
use crate::fabric::handshake::{Caller, CallerRequest, Credentials, HandshakeEvent};
use crate::fabric::tcp::scripted_peer::ScriptedPeer;
use crate::fabric::tcp::wire::{HEAD, TcpFrame, TcpHead};
use crate::fault::is_any_planted;
use crate::rt;
use crate::vi::{Hello, Listener, Nic, Reliability, Secret, Vi, ViOptions, Wait};

/// A nic with one connection, and the other end of that without a nic.
#[derive(Debug)]
pub(super) struct Raw {
    pub nic: Nic,
    pub vi: Vi,
    pub stream: TcpStream,
    /// What it seals by, if the connection is sealed.
    pub records: Option<ScriptedPeer>,
    _listener: Listener,
}

/// Counts of nothing drained.
pub(super) const COUNTS: TcpFrame = TcpFrame::Counts { drained: DrainedUnits(0), asks: false };

/// Long enough on any machine, and what a fault that was planted may cost.
pub(super) fn patience() -> Duration {
    Duration::from_secs(if is_any_planted() { 1 } else { 10 })
}

impl Raw {
    pub(super) fn new(level: Reliability) -> Self {
        let nic = nic(V4, Wait::Balanced);
        let listener = nic.listen("raw", 0, &ViOptions::of(level)).unwrap();
        let mut stream = TcpStream::connect(nic.host()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        let hello = Hello { reliability: level, service: "raw".to_owned(), tag: 0 };
        let wanted = CallerRequest { hello, terms: b"raw".to_vec(), key: None, is_plain: true };
        let mut caller = Caller::new(Credentials::of_byte("tcp", Secret::none(), 1), wanted);
        let (until, mut accepted) = (rt::now() + patience(), None);
        let vi = loop {
            assert!(rt::now() < until, "not let in");
            stream.write_all(caller.outgoing()).unwrap();
            caller.sent(caller.outgoing().len());
            accepted = accepted.or_else(|| listener.poll_accept().unwrap());
            let mut bytes = [0; 1024];
            let n = read(&mut stream, &mut bytes).unwrap_or(0);
            let fed = caller.feed(&bytes[..n]).unwrap();
            assert_eq!(fed.consumed, n, "nothing is behind a handshake yet");
            if let (HandshakeEvent::Welcome { .. }, Some(vi)) = (fed.news, accepted.take()) {
                break vi;
            }
        };
        let records = record_max().map(ScriptedPeer::caller);
        Self { nic, vi, stream, records, _listener: listener }
    }

    /// Writes, and has the nic see it before anything else is written.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        match &mut self.records {
            None => self.write_raw(bytes),
            Some(records) => {
                let sealed = records.seal(bytes);
                self.write_raw(&sealed);
            }
        }
    }

    /// The same, as it is.
    pub(super) fn write_raw(&mut self, bytes: &[u8]) {
        let (mut left, until) = (bytes, rt::now() + patience());
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(n) => left = &left[n..],
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                // Who has been sent away cannot write.
                Err(_) => return,
            }
            self.nic.poll();
            assert!(rt::now() < until, "nobody reads");
        }
        self.nic.poll();
    }

    /// Drives the nic until this is so.
    pub(super) fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let until = rt::now() + patience();
        while !is_so(self) {
            assert!(rt::now() < until, "{what}");
            self.nic.poll();
        }
    }

    /// The frames that the nic writes up to one of them, with their payloads.
    pub(super) fn frames(&mut self, last: impl Fn(&TcpFrame) -> bool) -> Vec<(TcpFrame, Vec<u8>)> {
        let (mut bytes, mut frames, until) = (Vec::new(), Vec::new(), rt::now() + patience());
        loop {
            let mut some = [0; 4096];
            if let Some(n) = read(&mut self.stream, &mut some) {
                assert!(n > 0, "the nic has closed after {frames:?}");
                match &mut self.records {
                    None => bytes.extend_from_slice(&some[..n]),
                    Some(records) => bytes.extend(records.open(&some[..n])),
                }
            }
            while let Some((frame, payload)) = next(&mut bytes) {
                frames.push((frame, payload));
                if last(&frame) {
                    return frames;
                }
            }
            assert!(rt::now() < until, "no such frame, but {frames:?}");
            self.nic.poll();
        }
    }
}

/// Takes a whole frame off the front.
fn next(bytes: &mut Vec<u8>) -> Option<(TcpFrame, Vec<u8>)> {
    let len = TcpHead::len(bytes.first_chunk::<HEAD>()?).unwrap();
    let head = TcpHead::decode(bytes.get(..len)?).unwrap();
    let payload = bytes.get(len..len + head.payload)?.to_vec();
    bytes.drain(..len + head.payload);
    Some((head.frame, payload))
}

/// What is there, if anything is.
fn read(stream: &mut TcpStream, to: &mut [u8]) -> Option<usize> {
    match stream.read(to) {
        Ok(n) => Some(n),
        Err(why) if why.kind() == ErrorKind::WouldBlock => None,
        Err(_) => Some(0),
    }
}

/// The bytes of a frame.
pub(super) fn frame(frame: TcpFrame, payload: &[u8]) -> Vec<u8> {
    counted(frame, payload, ReceiveCounts::default())
}

pub(super) fn counted(frame: TcpFrame, payload: &[u8], counts: ReceiveCounts) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.push(payload.len(), counts, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}
