//! Connections that are sealed: whatever is done to their datagrams, what arrives is right, and nobody
//! but the peer ends them.

pub(super) mod train;
mod window;

use std::io::IoSlice;

use super::ends::{all_lengths_arrive_between, lost_goodbyes_are_repeated};
use super::nics::{Opened, answers, connect, next, stranger};
use crate::fabric::udp::arrival::DroppedDatagrams;
use crate::fabric::udp::connection::Connection;
use crate::fabric::udp::fault::{Fault, caught};
use crate::fabric::udp::keep_alive::DEAD;
use crate::fabric::udp::sealed::MORE;
use crate::fabric::udp::socket::UndeliveredDatagram;
use crate::fabric::udp::wire::{GoodbyeReason, UdpDatagram, UdpHead, is_sealed};
use crate::vi::{Descriptor, Lane, Vi, ViError};

/// What stands in no datagram.
const TEXT: &[u8] = b"what nobody else may read";

/// Two nics, one of which seals, and a connection.
fn pair() -> ([Opened; 2], [Vi; 2]) {
    let nics = [Opened::sealed(), Opened::new()];
    let (here, there) = connect(&nics[0], &nics[1]);
    let seals =
        |nic: &Opened| nic.inside(|driver| driver.links.open.values().all(Connection::is_sealed));
    assert!(nics.iter().all(seals));
    (nics, [here, there])
}

/// What has come to a nic, which does not hear it.
fn taken(nic: &Opened) -> Vec<Vec<u8>> {
    let mut space = vec![0; 1 << 16];
    let next = || nic.socket.recv(&mut space).map(|(len, _)| space[..len].to_vec());
    std::iter::from_fn(next).collect()
}

/// Sends bytes to a nic as if its peer had.
fn inject(from: &Opened, to: &Opened, bytes: &[u8]) {
    from.socket.send(&to.at().into(), &[IoSlice::new(bytes)]).unwrap();
}

/// One sealed datagram of a message on its way. What has come before is dropped.
fn on_its_way(from: &Vi, to: &Opened, tag: u64) -> Vec<u8> {
    drop(taken(to));
    from.post_send(Descriptor::new(TEXT.to_vec()).with_tag(tag)).unwrap();
    let [datagram] = taken(to).try_into().unwrap();
    datagram
}

fn receives(vi: &Vi) {
    (0..4).for_each(|_| _ = vi.post_recv(Descriptor::new(vec![0_u8; 100])).unwrap());
}

#[test]
fn messages_of_all_lengths() {
    all_lengths_arrive_between(&Opened::sealed(), &Opened::new());
    all_lengths_arrive_between(&Opened::new(), &Opened::sealed());
}

#[test]
fn messages_of_all_lengths_over_a_path_that_carries_little() {
    let sealed = || all_lengths_arrive_between(&Opened::sealed(), &Opened::sealed());
    assert!(!caught(Fault::NarrowPath, sealed));
}

#[test]
fn no_datagram_shows_what_it_says() {
    let scene = || {
        let ([a, b], [here, there]) = pair();
        let tag = 0x1234_5678_9abc_def0_u64;
        here.post_send(Descriptor::new(TEXT.repeat(1000)).with_tag(tag)).unwrap();
        here.post_send(Descriptor::new(TEXT.to_vec()).with_tag(tag)).unwrap();
        _ = here.send_eager(Lane::Talk, tag, &[TEXT]).unwrap();
        drop(here);
        let sent = taken(&b);
        assert!(sent.len() > 18 && sent.iter().all(|it| it.len() <= 1400), "{}", sent.len());
        for datagram in &sent {
            assert!(is_sealed(datagram));
            assert!(
                !datagram.windows(8).any(|bytes| bytes == &TEXT[..8] || bytes == tag.to_le_bytes())
            );
        }
        drop((a, there));
    };
    assert!(!caught(Fault::NarrowPath, scene));
}

/// A datagram that was changed in any bit, or cut anywhere, comes to nothing; then it comes as it was.
pub(super) fn changed_datagrams_are_dropped() {
    let ([a, b], [here, there]) = pair();
    for (from, to, vis) in [(&a, &b, [&here, &there]), (&b, &a, [&there, &here])] {
        receives(vis[1]);
        let datagram = on_its_way(vis[0], to, 7);
        let before = to.tally();
        for at in 0..datagram.len() {
            for bit in 0..8 {
                let mut changed = datagram.clone();
                changed[at] ^= 1 << bit;
                inject(from, to, &changed);
            }
            inject(from, to, &datagram[..at]);
            to.drain();
            assert!(vis[1].recv_queue().poll().is_none(), "byte {at} is not proven");
        }
        let DroppedDatagrams { garbage, unknown, forged, .. } = to.tally();
        let dropped = garbage - before.garbage + unknown - before.unknown + forged - before.forged;
        assert_eq!(dropped, 9 * datagram.len() as u64);
        assert!(forged - before.forged >= 8 * (datagram.len() as u64 - 16));
        inject(from, to, &datagram);
        let got = next(&[&to.nic], vis[1].recv_queue());
        assert_eq!((got.tag, got.bytes()), (7, TEXT));
        assert_eq!((here.error(), there.error()), (None, None));
    }
}

#[test]
fn whatever_is_changed_is_dropped() {
    changed_datagrams_are_dropped();
}

/// Each datagram counts once, a sign of life, too, in whatever order they come.
pub(super) fn repeated_datagrams_are_dropped() {
    let ([a, b], [here, there]) = pair();
    receives(&there);
    let mut sent: Vec<_> = (0..3).map(|tag| on_its_way(&here, &b, tag)).collect();
    (0..DEAD / 2).for_each(|_| a.keep_alive_tick());
    sent.extend(taken(&b));
    assert!(sent.len() > 3, "it asks whether the peer lives");
    for datagram in sent.iter().rev().chain(&sent).chain(&sent) {
        inject(&a, &b, datagram);
    }
    b.drain();
    let tags: Vec<_> = std::iter::from_fn(|| there.recv_queue().poll()).map(|it| it.tag).collect();
    assert_eq!(tags, [2, 1, 0]);
    assert_eq!(b.tally().repeated, 2 * sent.len() as u64);
    assert_eq!(taken(&a).len(), sent.len() - 3, "each question is answered once");
    assert_eq!((here.error(), there.error()), (None, None));
}

#[test]
fn whatever_is_repeated_is_dropped() {
    repeated_datagrams_are_dropped();
}

#[test]
fn what_one_connection_has_sealed_is_of_no_use_on_another() {
    let ([a, b], [here, _there]) = pair();
    let (other, there) = connect(&a, &b);
    receives(&there);
    let own = b.inside(|driver| driver.links.open.keys().copied().collect::<Vec<_>>());
    let datagram = on_its_way(&here, &b, 1);
    for number in own {
        let mut moved = datagram.clone();
        moved[8..16].copy_from_slice(&number.0.to_le_bytes());
        inject(&a, &b, &moved);
    }
    b.drain();
    assert!(there.recv_queue().poll().is_none());
    assert_eq!((b.tally().forged, other.error()), (1, None));
}

/// Whoever sees the traffic cannot send a goodbye, or anything else, for the peer.
pub(super) fn what_is_not_sealed_is_ignored() {
    let ([a, b], [here, there]) = pair();
    receives(&there);
    let (own, theirs) = b.inside(|driver| {
        let link = driver.links.open.values().next().unwrap();
        (link.number, link.to)
    });
    let forged = [
        UdpHead::goodbye(own, GoodbyeReason::Closed),
        UdpHead::goodbye(own, GoodbyeReason::NicDown),
        UdpHead::unknown(theirs),
        UdpHead::probe(own),
        UdpHead::alive(own),
    ];
    let before = b.tally();
    forged.iter().for_each(|head| inject(&a, &b, head.bytes()));
    inject(&a, &b, &super::hostile::message(own, 0, TEXT));
    b.drain();
    assert_eq!(b.tally(), DroppedDatagrams { unsealed: before.unsealed + 6, ..before });
    assert!(taken(&a).is_empty(), "nothing of it is answered");
    assert_eq!((there.error(), there.recv_queue().poll().is_none()), (None, true));
    here.post_send(Descriptor::new(TEXT.to_vec())).unwrap();
    assert_eq!(next(&[&a.nic, &b.nic], there.recv_queue()).bytes(), TEXT);
}

#[test]
fn a_goodbye_that_is_not_sealed_is_ignored() {
    what_is_not_sealed_is_ignored();
}

/// What the system says of a peer, or a nic that has it no more, nobody can prove.
pub(super) fn hearsay_is_ignored() {
    let ([a, b], [here, there]) = pair();
    let to = a.inside(|driver| driver.links.open.values().next().unwrap().to);
    let bytes = UdpHead::probe(to).bytes().to_vec();
    a.nic.inside(|driver: &mut crate::fabric::udp::driver::Driver, after| {
        driver.handle_undelivered(&UndeliveredDatagram { to: b.at(), bytes }, after);
    });
    inject(&b, &a, UdpHead::unknown(to).bytes());
    a.drain();
    assert_eq!((here.error(), there.error()), (None, None));
    assert_eq!(a.tally().unsealed, 2);
}

#[test]
fn a_peer_that_has_forgotten_the_connection_is_found_by_its_silence() {
    hearsay_is_ignored();
    let ([a, b], [here, _there]) = pair();
    b.inside(|driver| driver.links.open.clear());
    for tick in 0..DEAD - 4 {
        a.keep_alive_tick();
        b.drain();
        a.drain();
        assert_eq!(here.error(), None, "after {tick} ticks");
    }
    assert!(a.tally().unsealed > 0, "it was told");
    (0..=4).for_each(|_| a.keep_alive_tick());
    assert_eq!(here.error(), Some(ViError::PeerDied { why: "it has not answered for 10 s" }));
}

#[test]
fn a_peer_that_answers_lives() {
    let ([a, b], [here, there]) = pair();
    for tick in 0..3 * DEAD {
        a.keep_alive_tick();
        b.drain();
        a.drain();
        assert_eq!((here.error(), there.error()), (None, None), "after {tick} ticks");
    }
}

#[test]
fn a_goodbye_is_heard_and_one_that_is_lost_is_said_again() {
    let ([a, b], [here, there]) = pair();
    drop(there);
    let [goodbye] = taken(&a).try_into().unwrap();
    assert!(is_sealed(&goodbye));
    inject(&b, &a, &goodbye);
    a.drain();
    assert_eq!(here.error(), Some(ViError::ClosedByPeer));
    lost_goodbyes_are_repeated(&a, &b);
    lost_goodbyes_are_repeated(&b, &a);
}

/// A stranger gets no goodbye for fewer bytes than it has, though it says that it is the peer.
#[test]
fn a_goodbye_is_not_longer_than_what_it_answers() {
    let ([a, b], [_here, there]) = pair();
    let own = b.inside(|driver| *driver.links.open.keys().next().unwrap());
    drop(there);
    let [goodbye] = taken(&a).try_into().unwrap();
    assert_eq!(goodbye.len(), 16 + MORE);
    inject(&a, &b, UdpHead::probe(own).bytes());
    b.drain();
    assert_eq!(taken(&a), [UdpHead::unknown(own).bytes()]);
}

/// A stranger who repeats what the peer has sealed, from another address.
pub(super) fn another_source_is_no_peer() {
    let ([a, b], [here, there]) = pair();
    receives(&there);
    let datagram = on_its_way(&here, &b, 3);
    let socket = stranger();
    socket.send_to(&datagram, b.at()).unwrap();
    b.drain();
    assert_eq!(b.tally().strangers, 1);
    assert!(there.recv_queue().poll().is_none() && answers(&socket).is_empty());
    inject(&a, &b, &datagram);
    assert_eq!(next(&[&b.nic], there.recv_queue()).tag, 3);
}

#[test]
fn a_spoofed_source_is_dropped() {
    another_source_is_no_peer();
}

#[test]
fn what_is_sealed_is_garbage_to_a_connection_that_is_not() {
    let (a, b) = (Opened::new(), Opened::new());
    let (here, there) = connect(&a, &b);
    let own = b.inside(|driver| *driver.links.open.keys().next().unwrap());
    let bytes = [UdpHead::sealed(own, 8).as_slice(), &[0; 32]].concat();
    assert_eq!(UdpDatagram::decode(&bytes), Ok(UdpDatagram::Sealed { to: own }));
    inject(&a, &b, &bytes);
    b.drain();
    assert_eq!((b.tally().garbage, here.error(), there.error()), (1, None, None));
}
