//! A window over datagrams that are sealed, and somebody between who loses, doubles, delays, changes
//! and reads them.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::super::nics::{LONG, next, until};
use super::super::relay::Relay;
use super::TEXT;
use crate::fabric::Fabric;
use crate::fabric::udp::UdpFabric;
use crate::fabric::udp::wire::is_sealed;
use crate::rt::Deadline;
use crate::vi::{
    Address, Descriptor, Encrypt, Lane, Nic, NicOptions, Reliability, Vi, ViOptions, Wait,
};

fn nics() -> [Nic; 2] {
    let options = NicOptions::new("").wait(Wait::Frugal);
    [options.clone().encrypt(Encrypt::Always), options].map(|it| UdpFabric.open(&it).unwrap())
}

/// A connection of this level by way of a relay, or straight.
pub(super) fn connect(
    nics: &[Nic; 2],
    level: Reliability,
    mut relay: Option<&mut Relay>,
) -> [Vi; 2] {
    let options = ViOptions::of(level);
    let listener = nics[1].listen("far", 0, &options).unwrap();
    let host = relay.as_ref().map_or_else(|| nics[1].host().to_owned(), |relay| relay.host());
    let to = Address::new(&host, "far", 0);
    let mut connecting = nics[0].connect(&to, &options, Deadline::In(LONG));
    let mut accepted = None;
    let here = until(&[&nics[0], &nics[1]], || {
        if let Some(relay) = &mut relay {
            relay.carry();
        }
        accepted = accepted.take().or_else(|| listener.poll_accept().unwrap());
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut connecting).poll(&mut context) {
            Poll::Ready(made) => Some(made.unwrap()),
            Poll::Pending => None,
        }
    });
    [here, accepted.unwrap()]
}

fn bytes_of(round: usize) -> Vec<u8> {
    TEXT.repeat([1, 40, 3_000, 0, 9][round % 5])
}

/// Kinds of datagrams that are not sealed: what nobody has, and those of a handshake.
const PLAIN: [u8; 4] = [6, 7, 8, 9];

/// Everything arrives once and in order, and nobody reads it.
fn over_a_bad_path(seed: u64) {
    let nics = nics();
    let at: SocketAddr = nics[1].host().parse().unwrap();
    let mut relay = Relay::new(at, seed, 8);
    let [here, there] = connect(&nics, Reliability::Delivery, Some(&mut relay));
    for round in 0..20 {
        there.post_recv(Descriptor::new(vec![0_u8; 100_000])).unwrap();
        here.post_send(Descriptor::new(bytes_of(round)).with_tag(round as u64)).unwrap();
        _ = here.send_eager(Lane::Talk, round as u64, &[TEXT]).unwrap();
        let (mut posted, mut eager) = (None, None);
        until(&[&nics[0], &nics[1]], || {
            relay.carry();
            posted = posted.take().or_else(|| there.recv_queue().poll());
            there.drain().poll(8, |_, tag, bytes| {
                assert_eq!((tag, bytes, eager), (round as u64, TEXT, None), "seed {seed}");
                eager = Some(tag);
            });
            (posted.is_some() && eager.is_some()).then_some(())
        });
        let got = posted.unwrap().ok().unwrap();
        assert_eq!(got.tag, round as u64, "seed {seed}");
        assert!(got.bytes() == bytes_of(round), "seed {seed}, round {round}");
        assert_eq!((here.error(), there.error()), (None, None), "seed {seed}");
    }
    for datagram in &relay.seen {
        assert!(is_sealed(datagram) || PLAIN.contains(&datagram[0]), "{:?}", datagram[0]);
        assert!(!datagram.windows(8).any(|bytes| bytes == &TEXT[..8]), "seed {seed}");
    }
    assert!(relay.seen.iter().filter(|it| is_sealed(it)).count() > 40);
}

#[test]
fn nothing_is_lost_or_read_over_paths_that_lose_double_delay_and_change() {
    (0..8).for_each(over_a_bad_path);
}

#[test]
fn large_messages_arrive() {
    let nics = nics();
    let [here, there] = connect(&nics, Reliability::Delivery, None);
    for len in [0, 1, 15_000, 16 << 10, 1 << 20, 3 << 20] {
        let sent: Vec<u8> = (0..len).map(|n: usize| (n ^ (n >> 8)).to_le_bytes()[0]).collect();
        there.post_recv(Descriptor::new(vec![0_u8; len])).unwrap();
        here.post_send(Descriptor::new(sent.clone())).unwrap();
        let got = next(&[&nics[0], &nics[1]], there.recv_queue()).ok().unwrap();
        assert!(got.bytes() == sent, "{len} bytes");
    }
}
