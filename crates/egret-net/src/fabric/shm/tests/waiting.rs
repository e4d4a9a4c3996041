//! Messages that wait for a receive: those that the sender counted on were taken back.

use std::time::Duration;

use super::conformance::nic;
use super::meet;
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, Lane, Nic, Reliability, Vi, ViOptions, Wait};

const LONG: Deadline = Deadline::In(Duration::from_secs(10));

/// Two nics that only this thread drives, and their connection.
struct Scene {
    sender: Nic,
    receiver: Nic,
    here: Vi,
    there: Vi,
}

impl Scene {
    /// The sender has sent messages of these lengths, of which the receives are taken back.
    fn new(lengths: &[usize]) -> Self {
        let unique = rt::random();
        let sender = nic(&format!("sends-{unique}"), Wait::Spin);
        let receiver = nic(&format!("waits-{unique}"), Wait::Spin);
        let options = ViOptions::of(Reliability::Delivery);
        let listener = receiver.listen("wait", 0, &options).unwrap();
        let connecting = sender.connect(&Address::new(receiver.host(), "wait", 0), &options, LONG);
        let (here, there) = meet(&listener, connecting);
        let scene = Self { sender, receiver, here, there };
        let post = |_: &usize| scene.there.post_recv(Descriptor::new(vec![0_u8; 1])).unwrap();
        let receives: Vec<_> = lengths.iter().map(post).collect();
        for (tag, len) in (1_u8..).zip(lengths) {
            scene.here.post_send(Descriptor::new(vec![tag; *len]).with_tag(tag.into())).unwrap();
        }
        receives.into_iter().for_each(|ticket| assert!(scene.there.cancel(ticket)));
        lengths.iter().for_each(|_| drop(scene.there.recv_queue().wait(LONG).unwrap()));
        scene.drive();
        scene
    }

    fn drive(&self) {
        for _ in 0..1000 {
            self.receiver.poll();
            self.sender.poll();
        }
    }
}

const LENGTHS: [usize; 5] = [4, 40, 41, 200, 1000];

#[test]
fn a_message_that_waits_keeps_its_bytes() {
    kept_bytes();
}

/// They come out of the ring while they wait, and others take their places in scratch.
pub(super) fn kept_bytes() {
    let scene = Scene::new(&LENGTHS);
    for (tag, len) in (1_u8..).zip(LENGTHS) {
        scene.there.post_recv(Descriptor::new(vec![0_u8; len])).unwrap();
        let got = scene.there.recv_queue().wait(LONG).unwrap().ok().unwrap();
        assert_eq!((got.tag, got.bytes()), (tag.into(), &vec![tag; len][..]));
    }
}

#[test]
fn a_message_that_waits_is_not_done_with() {
    not_done_with();
}

pub(super) fn not_done_with() {
    let scene = Scene::new(&LENGTHS);
    assert!(scene.here.send_queue().poll().is_none(), "it waits for a receive");
    scene.there.post_recv(Descriptor::new(vec![0_u8; 4])).unwrap();
    scene.drive();
    assert_eq!(scene.here.send_queue().wait(LONG).unwrap().tag, 1);
    assert!(scene.here.send_queue().poll().is_none(), "the others wait on");
}

/// Neither class waits for the other.
#[test]
fn eager_messages_pass_posted_ones_that_wait() {
    let scene = Scene::new(&LENGTHS);
    scene.here.send_eager(Lane::Bulk, 9, &[b"passes"]).unwrap();
    let mut came = None;
    scene.there.drain().poll(1, |_, tag, bytes| came = Some((tag, bytes.to_vec())));
    assert_eq!(came, Some((9, b"passes".to_vec())));
}
