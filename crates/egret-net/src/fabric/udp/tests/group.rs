//! Members of a group, without sockets.

use super::stage::End;
use crate::fabric::udp::datapath::DataPath;
use crate::fabric::udp::group::{GroupSeal, MEMBERS_MAX};
use crate::fabric::udp::recv::PieceOutcome;
use crate::fabric::udp::wire::UdpDatagram;
use crate::vi::{Address, Descriptor, SIGNATURE, Secret, Vi};

const ROOM: usize = 548;

fn group(service: &str) -> Address {
    Address::new("239.1.2.3:4000", service, 1)
}

fn member(secret: &Secret) -> (End, Vi) {
    End::new(|spec| DataPath::member(spec, GroupSeal::new(&group("g"), secret), ROOM), ROOM)
}

fn is_admitted(datagram: &[u8], seal: &GroupSeal) -> bool {
    match UdpDatagram::decode(datagram).unwrap() {
        UdpDatagram::Group { group, signature: None, .. } => {
            group == seal.group && seal.admits(datagram, None)
        }
        UdpDatagram::Group { group, signature, .. } => {
            let signed = &datagram[..datagram.len() - SIGNATURE];
            group == seal.group && seal.admits(signed, signature)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_are_told_apart() {
    let members: Vec<_> = (0..3).map(|_| member(&Secret::none())).collect();
    let (there, receiver) = member(&Secret::none());
    for _ in 0..3 {
        receiver.post_recv(Descriptor::new(vec![0_u8; 1000])).unwrap();
    }
    let sent: Vec<_> = members
        .iter()
        .zip(1..)
        .map(|((end, vi), tag)| {
            vi.post_send(Descriptor::new(vec![u8::try_from(tag).unwrap(); 1000]).with_tag(tag))
                .unwrap();
            end.sent()
        })
        .collect();
    // All have the same number and are cut the same way.
    for index in 0..2 {
        for datagrams in &sent {
            there.deliver(&datagrams[index]).unwrap();
        }
    }
    for tag in 1..=3_u8 {
        let got = receiver.recv_queue().poll().unwrap();
        assert_eq!((got.tag, got.into_vec::<u8>()), (tag.into(), vec![tag; 1000]));
    }
    assert_eq!(there.deliver(&sent[1][0]), Ok(PieceOutcome::Twice));
}

#[test]
fn many_members_are_bounded_and_their_receives_come_back() {
    let (there, receiver) = member(&Secret::none());
    for _ in 0..60 {
        receiver.post_recv(Descriptor::new(vec![0_u8; 1000])).unwrap();
    }
    for _ in 0..3 * MEMBERS_MAX {
        let (end, vi) = member(&Secret::none());
        vi.post_send(Descriptor::new(vec![0_u8; 1000])).unwrap();
        there.deliver(&end.sent()[0]).unwrap();
    }
    (0..3).for_each(|_| _ = there.keep_alive_tick().unwrap());
    for _ in 0..60 {
        let (end, vi) = member(&Secret::none());
        vi.post_send(Descriptor::empty()).unwrap();
        assert_eq!(there.deliver(&end.sent()[0]), Ok(PieceOutcome::Whole));
    }
}

#[test]
fn with_a_secret_only_members_are_heard() {
    let secret = Secret::from("pool");
    let seals =
        [GroupSeal::new(&group("g"), &secret), GroupSeal::new(&group("g"), &Secret::none())];
    let (end, vi) = member(&secret);
    vi.post_send(Descriptor::new(vec![5_u8; 1000])).unwrap();
    let (open_end, open) = member(&Secret::none());
    open.post_send(Descriptor::new(vec![5_u8; 1000])).unwrap();
    let (other_end, other) = member(&Secret::from("other"));
    other.post_send(Descriptor::new(vec![5_u8; 1000])).unwrap();
    for datagram in end.sent() {
        assert!(is_admitted(&datagram, &seals[0]));
        assert!(!is_admitted(&datagram, &seals[1]), "a signature that cannot be checked");
        let elsewhere = GroupSeal::new(&group("another"), &secret);
        assert!(!is_admitted(&datagram, &elsewhere), "of another service");
        for at in 40..datagram.len() {
            let mut bytes = datagram.clone();
            bytes[at] ^= 1;
            let is_read = UdpDatagram::decode(&bytes).is_ok();
            assert!(!is_read || !is_admitted(&bytes, &seals[0]), "byte {at}");
        }
    }
    for datagram in open_end.sent().iter().chain(&other_end.sent()) {
        assert!(!is_admitted(datagram, &seals[0]));
    }
}
