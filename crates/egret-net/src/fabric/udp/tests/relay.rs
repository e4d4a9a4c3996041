//! Two nics and between them somebody who loses, doubles and delays datagrams.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::nics::{LONG, Opened, options, stranger, until};
use crate::fabric::udp::fault::{Fault, caught};
use crate::fabric::udp::wire::is_sealed;
use crate::rt::{Deadline, SplitMix64};
use crate::vi::{Address, Descriptor, Vi, ViError};

/// Carries datagrams between a caller, whoever that is, and a nic.
#[derive(Debug)]
pub(super) struct Relay {
    near: UdpSocket,
    far: UdpSocket,
    caller: Option<SocketAddr>,
    callee: SocketAddr,
    /// Those under way: whether to the callee, and their bytes.
    held: Vec<(bool, Vec<u8>)>,
    rng: SplitMix64,
    /// One in so many is lost, as many come twice.
    loss: usize,
    /// All that has come.
    pub seen: Vec<Vec<u8>>,
}

impl Relay {
    pub(super) fn new(callee: SocketAddr, seed: u64, loss: usize) -> Self {
        let (near, far, rng) = (stranger(), stranger(), SplitMix64(seed));
        Self { near, far, caller: None, callee, held: Vec::new(), rng, loss, seen: Vec::new() }
    }

    /// Where the callee seems to be.
    pub(super) fn host(&self) -> String {
        self.near.local_addr().unwrap().to_string()
    }

    pub(super) fn carry(&mut self) {
        let mut space = vec![0; 1 << 16];
        while let Ok((len, from)) = self.near.recv_from(&mut space) {
            self.caller = Some(from);
            self.hold(true, &space[..len]);
        }
        while let Ok((len, _)) = self.far.recv_from(&mut space) {
            self.hold(false, &space[..len]);
        }
        // Some stay, and others overtake them.
        while self.held.len() > 3 || (!self.held.is_empty() && self.rng.below(3) == 0) {
            let (to_callee, bytes) = self.held.swap_remove(self.rng.below(self.held.len()));
            _ = match (to_callee, self.caller) {
                (true, _) => self.far.send_to(&bytes, self.callee),
                (false, Some(caller)) => self.near.send_to(&bytes, caller),
                (false, None) => Ok(0),
            };
        }
    }

    fn hold(&mut self, to_callee: bool, bytes: &[u8]) {
        self.seen.push(bytes.to_vec());
        if is_sealed(bytes) && self.rng.below(self.loss) == 0 {
            // Nobody takes it for what it was, wherever it is changed.
            let mut changed = bytes.to_vec();
            changed[self.rng.below(bytes.len())] ^= 1 << self.rng.below(8);
            self.held.push((to_callee, changed));
        }
        if self.rng.below(self.loss) == 0 {
            return;
        }
        if self.rng.below(self.loss) == 0 {
            self.held.push((to_callee, bytes.to_vec()));
        }
        self.held.push((to_callee, bytes.to_vec()));
    }
}

fn connect(a: &Opened, b: &Opened, relay: &mut Relay) -> (Vi, Vi) {
    let listener = b.listen("far");
    let to = Address::new(&relay.host(), "far", 0);
    let mut connecting = a.nic.connect(&to, &options(), Deadline::In(LONG));
    let mut accepted = None;
    let here = until(&[&a.nic, &b.nic], || {
        relay.carry();
        if accepted.is_none() {
            accepted = listener.poll_accept().unwrap();
        }
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut connecting).poll(&mut context) {
            Poll::Ready(made) => Some(made.unwrap()),
            Poll::Pending => None,
        }
    });
    assert!(listener.poll_accept().unwrap().is_none(), "one caller was accepted twice");
    (here, accepted.unwrap())
}

/// A connection is made, and what arrives over it is whole and comes once.
fn over_a_bad_path(seed: u64, a: &Opened, b: &Opened) {
    let mut relay = Relay::new(b.at(), seed, 5);
    let (here, there) = connect(a, b, &mut relay);
    let mut times = BTreeMap::<u64, u64>::new();
    for _ in 0..40 {
        there.post_recv(Descriptor::new(vec![0_u8; 5_000])).unwrap();
    }
    for tag in 0..60_u64 {
        let len = usize::try_from(tag * 83).unwrap();
        here.post_send(Descriptor::new(vec![tag.to_le_bytes()[0]; len]).with_tag(tag)).unwrap();
        drop(here.send_queue().poll());
        for _ in 0..4 {
            relay.carry();
            b.drain();
        }
        if tag % 5 == 0 {
            b.keep_alive_tick();
        }
        while let Some(got) = there.recv_queue().poll() {
            let (tag, bytes) = (got.tag, got.bytes());
            assert_eq!(bytes.len() as u64, tag * 83, "seed {seed}");
            assert!(bytes.iter().all(|byte| *byte == tag.to_le_bytes()[0]), "seed {seed}");
            *times.entry(tag).or_default() += 1;
            there.post_recv(got.into_descriptor()).unwrap();
        }
    }
    assert!(times.len() > 5, "seed {seed}: {} arrived", times.len());
    assert!(times.values().all(|times| *times == 1), "seed {seed}: {times:?}");
    // The end is known at last, whatever is lost of it.
    drop(there);
    let why = until(&[&a.nic, &b.nic], || {
        _ = here.post_send(Descriptor::empty());
        while here.send_queue().poll().is_some() {}
        relay.carry();
        here.error()
    });
    assert_eq!(why, ViError::ClosedByPeer, "seed {seed}");
}

#[test]
fn over_paths_that_lose_double_and_delay() {
    let plain = |seed| over_a_bad_path(seed, &Opened::new(), &Opened::new());
    assert!(!caught(Fault::NarrowPath, || (0..40).for_each(plain)));
}

#[test]
fn sealed_over_paths_that_lose_double_delay_and_change() {
    let sealed = |seed| over_a_bad_path(seed, &Opened::sealed(), &Opened::new());
    assert!(!caught(Fault::NarrowPath, || (0..40).for_each(sealed)));
}
