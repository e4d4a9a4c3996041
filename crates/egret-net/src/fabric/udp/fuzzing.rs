//! What a fuzzer calls: bytes that become datagrams. Not for use.
//!
//! The input is a row of datagrams, each after three bytes: what to do with it (1: it
//! comes from a stranger's address, 2: its number stays as it is, 4: half a second
//! passes afterwards, 8: it arrives at the other nic, which connects) and its length.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::driver::Driver;
use super::nic;
use super::wire::{Datagram, Number};
use crate::buf::Pool;
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, Nic, NicOptions, Reliability, Vi, ViOptions, Wait};

/// Somebody sends these to nics with a connection. They must neither panic nor keep a
/// buffer.
pub fn datagrams(input: &[u8]) {
    STAGE.with(|stage| stage.play(input));
}

/// A datagram is read or refused.
pub fn decode(input: &[u8]) {
    let _ = Datagram::decode(input);
}

thread_local! {
    static STAGE: Stage = Stage::new();
}

/// What plays one input after the other.
struct Stage {
    nics: [Nic; 2],
    pool: Pool,
}

const BUFFER: usize = 700;
const BUFFERS: usize = 16;
const LEN_MAX: usize = 1500;
const LONG: Duration = Duration::from_secs(10);

impl Stage {
    fn new() -> Self {
        let open = || {
            let nic = nic::open(&NicOptions::new("").wait(Wait::Frugal), false).expect("loopback");
            Nic::new(Box::new(nic), Wait::Frugal)
        };
        Self { nics: [open(), open()], pool: Pool::new(BUFFER, BUFFERS).expect("memory") }
    }

    fn play(&self, input: &[u8]) {
        let vis = self.connect();
        for vi in &vis {
            for _ in 0..BUFFERS / 2 {
                let buf = self.pool.take(BUFFER).expect("all are back");
                vi.post_recv(Descriptor::new(buf)).expect("a new connection");
            }
        }
        let mut left = input;
        while let Some(([what, low, high], rest)) = left.split_first_chunk() {
            let len = usize::from(u16::from_le_bytes([*low, *high])) % LEN_MAX;
            let (bytes, rest) = rest.split_at(len.min(rest.len()));
            left = rest;
            self.arrive(*what, bytes.to_vec());
        }
        let queues = vis.each_ref().map(|vi| vi.recv_queue().clone());
        drop(vis);
        for queue in queues {
            while queue.poll().is_some() {}
            assert_eq!(queue.outstanding(), 0, "everything has completed");
        }
        assert_eq!(self.pool.available(BUFFER), BUFFERS, "all buffers are back");
    }

    fn arrive(&self, what: u8, mut bytes: Vec<u8>) {
        let [there, peer] = if what & 8 == 0 {
            [&self.nics[1], &self.nics[0]]
        } else {
            [&self.nics[0], &self.nics[1]]
        };
        let mut from: SocketAddr = peer.host().parse().expect("an address");
        if what & 1 != 0 {
            from.set_port(9);
        }
        there.inside(|driver: &mut Driver, after| {
            let own = driver.links.open.keys().next().copied();
            if let (Some(Number(own)), 0, Some(number)) = (own, what & 2, bytes.get_mut(8..16)) {
                number.copy_from_slice(&own.to_le_bytes());
            }
            driver.hear(&bytes, &from.into(), after);
            if what & 4 != 0 {
                driver.beat(after);
            }
        });
    }

    fn connect(&self) -> [Vi; 2] {
        let [caller, listening] = &self.nics;
        let options = ViOptions::of(Reliability::Unreliable);
        let listener = listening.listen("fuzz", 0, &options).expect("nobody else listens");
        let to = Address::new(listening.host(), "fuzz", 0);
        let mut connecting = caller.connect(&to, &options, Deadline::In(LONG));
        let (end, mut accepted) = (rt::now() + LONG, None);
        loop {
            listening.poll();
            accepted = accepted.or_else(|| listener.poll_accept().expect("the nic is up"));
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(made) = Pin::new(&mut connecting).poll(&mut context) {
                let accepted = accepted.expect("it was accepted before");
                return [made.expect("a connection over loopback"), accepted];
            }
            assert!(rt::now() < end, "no connection");
        }
    }
}
