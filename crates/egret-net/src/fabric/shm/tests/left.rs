//! An end that leaves while its peer has still to copy out of its buffers: they
//! may have new contents by then.

use std::time::Duration;

use super::conformance::nic;
use super::meet;
use super::nonsense::connected;
use crate::buf::Pool;
use crate::fabric::common::close_reason::CloseReason;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::shm::process_memory::LEAST;
use crate::fabric::shm::rendezvous::ControlMessage;
use crate::fabric::shm::socket::PacketSent;
use crate::fabric::shm::wire::{DataPlace, PostedItem};
use crate::rt::{self, Deadline};
use crate::vi::{Access, Address, Descriptor, Nic, Reliability, Vi, ViError, ViOptions, Wait};

const LEN: usize = 4096;
const LONG: Deadline = Deadline::In(Duration::from_secs(10));

/// Two nics that only this thread drives.
struct Scene {
    sender: Nic,
    receiver: Nic,
    here: Vi,
    there: Vi,
    pool: Pool,
}

impl Scene {
    fn new() -> Self {
        let unique = rt::random();
        let sender = nic(&format!("leaver-{unique}"), Wait::Balanced);
        let receiver = nic(&format!("stayer-{unique}"), Wait::Balanced);
        let options = ViOptions::default();
        let listener = receiver.listen("left", 0, &options).unwrap();
        let connecting = sender.connect(&Address::new(receiver.host(), "left", 0), &options, LONG);
        let (here, there) = meet(&listener, connecting);
        let pool = Pool::builder().class(LEN, 4).shareable().build().unwrap();
        Self { sender, receiver, here, there, pool }
    }

    fn filled(&self, byte: u8) -> Descriptor {
        let mut buf = self.pool.take(LEN).unwrap();
        buf.bytes_mut().fill(byte);
        Descriptor::new(buf)
    }

    /// The sender leaves and uses its buffer for something else; only then the
    /// receiver looks.
    fn leave(&self) {
        for _ in 0..8 {
            self.sender.poll();
        }
        self.here.disconnect();
        let back = self.here.send_queue().wait(LONG).unwrap();
        assert_eq!(back.status, Err(ViError::Closed), "the receiver has not looked");
        back.into_buf().bytes_mut().fill(2);
    }

    fn assert_not_delivered(&self) {
        let got = self.there.recv_queue().wait(LONG).unwrap();
        assert_eq!(got.status, Err(ViError::ClosedByPeer));
    }
}

/// The same of memory that is in no region.
pub(super) fn a_heap_message_is_not_torn() {
    let scene = Scene::new();
    let len = usize::try_from(LEAST).unwrap();
    scene.there.post_recv(Descriptor::new(vec![0_u8; len])).unwrap();
    scene.here.post_send(Descriptor::new(vec![1_u8; len])).unwrap();
    (0..8).for_each(|_| _ = scene.sender.poll());
    scene.here.disconnect();
    let back = scene.here.send_queue().wait(LONG).unwrap();
    assert_eq!(back.status, Err(ViError::Closed), "the receiver has not looked");
    drop(back);
    scene.assert_not_delivered();
}

pub(super) fn a_message_is_not_torn() {
    let scene = Scene::new();
    scene.there.post_recv(scene.filled(0)).unwrap();
    scene.here.post_send(scene.filled(1)).unwrap();
    scene.leave();
    scene.assert_not_delivered();
}

/// What says that the bytes are there must not come if they are others.
pub(super) fn a_write_is_not_announced_torn() {
    let scene = Scene::new();
    let memory = scene.pool.take(LEN).unwrap();
    let exposed = scene.receiver.expose(memory, Access::WRITE).unwrap();
    scene.there.post_recv(Descriptor::empty()).unwrap();
    scene.here.post_write_notify(scene.filled(1), exposed.key().at(0)).unwrap();
    scene.leave();
    scene.assert_not_delivered();
}

#[test]
fn a_heap_message_of_one_who_left_is_not_delivered() {
    a_heap_message_is_not_torn();
}

#[test]
fn a_message_of_one_who_left_is_not_delivered() {
    a_message_is_not_torn();
}

#[test]
fn a_write_of_one_who_left_is_not_announced() {
    a_write_is_not_announced_torn();
}

#[test]
fn all_that_was_sent_counts() {
    messages_before_the_farewell();
}

/// Types without a name have the receiver look for it, and find the farewell.
pub(super) fn messages_before_the_farewell() {
    let nic = nic(&format!("stayer-{}", rt::random()), Wait::Balanced);
    let (vi, mut puppet) = connected(&nic, Reliability::Delivery);
    for tag in 1..=2 {
        vi.post_recv(Descriptor::new(vec![0_u8; 8])).unwrap();
        let item = PostedItem::Message { tag, kind: Some(99), bytes: DataPlace::appended(8) };
        puppet.put(item, &[7; 8], ReceiveCounts::default());
    }
    let farewell = ControlMessage::Close(CloseReason::of(ViError::Closed));
    assert_eq!(puppet.accepted.control.send(&farewell, &[]).unwrap(), PacketSent::Sent);
    for tag in 1..=2 {
        let got = vi.recv_queue().wait(LONG).unwrap().ok().unwrap();
        assert_eq!((got.tag, got.bytes()), (tag, &[7; 8][..]));
    }
    vi.post_recv(Descriptor::empty()).ok();
    while vi.error().is_none() {
        nic.poll();
    }
    assert_eq!(vi.error(), Some(ViError::ClosedByPeer));
}
