//! A close does not eat the last message.

use super::conformance::{V4, nic};
use super::raw::patience;
use crate::rt;
use crate::vi::{Address, Descriptor, Nic, Reliability, Vi, ViError, ViOptions, Wait};

/// Two nics that are driven by this thread, with a connection between them.
pub(super) fn pair(level: Reliability) -> ([Nic; 2], [Vi; 2]) {
    let nics = [(); 2].map(|()| nic(V4, Wait::Spin));
    let vis = connect(&nics, "pair", level);
    (nics, vis)
}

pub(super) fn connect(nics: &[Nic; 2], service: &str, level: Reliability) -> [Vi; 2] {
    let options = ViOptions::of(level);
    let listener = nics[1].listen(service, 0, &options).unwrap();
    let to = Address::new(nics[1].host(), service, 0);
    let mut connecting = std::pin::pin!(nics[0].connect(&to, &options, patience()));
    let mut there = None;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        there = there.or_else(|| listener.poll_accept().unwrap());
        if let std::task::Poll::Ready(here) = connecting.as_mut().poll(&mut context) {
            let here = here.unwrap();
            let there = there.or_else(|| listener.poll_accept().unwrap());
            return [here, there.expect("it was accepted")];
        }
    }
}

/// The near side sends, and leaves with bytes of the far side unread.
pub(super) fn last_messages_arrive() {
    const BYTES: usize = 60_000;
    let (nics, [near, far]) = pair(Reliability::Unreliable);
    for _ in 0..200 {
        far.post_recv(Descriptor::new(vec![0_u8; BYTES])).unwrap();
    }
    far.post_send(Descriptor::new(vec![1_u8; BYTES])).unwrap();
    // More than the kernel takes while the far side does not read.
    for tag in 0..200 {
        near.post_send(Descriptor::new(vec![2_u8; BYTES]).with_tag(tag)).unwrap();
    }
    let left = near.counters().sent;
    assert!(left > 0, "nothing has left");
    near.disconnect();
    let (until, mut received) = (rt::now() + patience(), 0);
    while far.error().is_none() {
        assert!(rt::now() < until, "the far side has not heard of it");
        nics[0].poll();
        while let Some(got) = far.recv_queue().poll() {
            if got.status.is_ok() {
                assert_eq!(got.tag, received, "in order");
                received += 1;
            }
        }
    }
    assert!(received >= left, "{left} messages had left, and {received} came");
    assert_eq!(far.error(), Some(ViError::ClosedByPeer));
}

#[test]
fn a_close_does_not_eat_the_last_messages() {
    last_messages_arrive();
}

#[test]
fn a_nic_that_goes_down_says_so() {
    let (nics, [near, far]) = pair(Reliability::Reception);
    far.post_recv(Descriptor::new(vec![0_u8; 10])).unwrap();
    nics[1].poll();
    drop((near, nics));
    let got = far.recv_queue().wait(patience()).unwrap();
    assert_eq!(got.status, Err(ViError::ClosedByPeer));
}

#[test]
fn a_disconnect_within_a_message_leaves_nothing_behind() {
    let (nics, [near, far]) = pair(Reliability::Reception);
    far.post_recv(Descriptor::new(vec![0_u8; 32 << 20])).unwrap();
    nics[1].poll();
    near.post_send(Descriptor::new(vec![7_u8; 32 << 20])).unwrap();
    for _ in 0..4 {
        nics[0].poll();
        nics[1].poll();
    }
    near.disconnect();
    let sent = near.send_queue().poll().unwrap();
    assert_eq!(sent.status, Err(ViError::Closed));
    let until = rt::now() + patience();
    while far.error().is_none() {
        assert!(rt::now() < until, "the far side has not heard of it");
        for nic in &nics {
            nic.poll();
        }
    }
    let got = far.recv_queue().poll().unwrap();
    assert_eq!(got.status, Err(ViError::ClosedByPeer), "not half a message");
}
