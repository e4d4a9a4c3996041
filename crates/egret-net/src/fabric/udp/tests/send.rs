//! Sending: what leaves, and what waits for room.

use std::io::IoSlice;

use super::stage::End;
use crate::fabric::udp::send::{DatagramPort, Destination, SendBlocked, Sender};
use crate::fabric::udp::socket::SegmentedSend;
use crate::fabric::udp::wire::{ConnectionNumber, UdpHead};
use crate::vi::Descriptor;

#[test]
fn a_send_is_complete_when_it_has_left() {
    let (end, vi) = End::of_pair(1000);
    end.inner().outbox.capacity = 3;
    let sent: Vec<u8> = (0..5_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let tickets = [1, 2].map(|tag| {
        let (first, rest) = sent.split_at(777);
        let gathered = Descriptor::new(first.to_vec()).and(rest.to_vec());
        vi.post_send(gathered.with_tag(tag)).unwrap()
    });
    assert!(vi.send_queue().poll().is_none(), "it has not left");
    assert!(!vi.cancel(tickets[0]), "a part of it has left");
    assert!(vi.cancel(tickets[1]), "nothing of it has left");
    let (there, receiver) = End::of_pair(1000);
    receiver.post_recv(Descriptor::new(vec![0_u8; 5_000])).unwrap();
    loop {
        let datagrams = end.sent();
        if datagrams.is_empty() {
            break;
        }
        assert!(datagrams.len() <= 3);
        datagrams.iter().for_each(|datagram| _ = there.deliver(datagram).unwrap());
        end.pump();
    }
    let tags: Vec<u64> = std::iter::from_fn(|| vi.send_queue().poll()).map(|it| it.tag).collect();
    assert_eq!(tags, [2, 1], "the second was cancelled before the first had left");
    let got = receiver.recv_queue().poll().unwrap();
    assert_eq!((got.tag, got.len), (1, 5_000));
    assert_eq!(got.into_vec::<u8>(), sent);
    assert_eq!((vi.counters().sent, receiver.counters().received), (1, 1));
}

#[test]
fn a_path_that_carries_less_is_heeded() {
    let (end, vi) = End::of_pair(9000);
    let (there, receiver) = End::of_pair(9000);
    receiver.post_recv(Descriptor::new(vec![0_u8; 40_000])).unwrap();
    receiver.post_recv(Descriptor::new(vec![0_u8; 40_000])).unwrap();
    end.inner().outbox.capacity = 2;
    vi.post_send(Descriptor::new(vec![9_u8; 40_000])).unwrap();
    // The path changes with two pieces gone.
    for datagram in end.sent() {
        there.deliver(&datagram).unwrap();
    }
    (end.inner().outbox.capacity, end.inner().outbox.room) = (1000, 1400);
    end.pump();
    let datagrams = end.sent();
    assert!(datagrams.len() > 28 && datagrams.iter().all(|it| it.len() <= 1400));
    datagrams.iter().for_each(|datagram| _ = there.deliver(datagram).unwrap());
    let got = receiver.recv_queue().poll().unwrap();
    assert_eq!(got.into_vec::<u8>(), [9; 40_000]);
    // What had begun is given up, and its receive is there for the next.
    (0..3).for_each(|_| assert_eq!(there.keep_alive_tick(), Ok(false)));
    assert_eq!(there.ignored().given_up, 1);
    vi.post_send(Descriptor::empty().with_tag(4)).unwrap();
    there.deliver(&end.sent()[0]).unwrap();
    assert_eq!(receiver.recv_queue().poll().unwrap().tag, 4);
}

#[test]
fn a_path_that_carries_next_to_nothing_loses_and_does_not_hang() {
    let (end, vi) = End::of_pair(1400);
    end.inner().outbox.room = 100;
    vi.post_send(Descriptor::new(vec![9_u8; 40_000])).unwrap();
    assert!(vi.send_queue().poll().unwrap().status.is_ok());
    assert!(end.sent().is_empty());
}

/// Where the datagrams of a window leave: those longer than the path in pieces of the system's.
#[derive(Debug)]
struct Way {
    sent: Vec<usize>,
    long: usize,
    room: usize,
    capacity: usize,
    calls: usize,
}

impl Way {
    fn take(&mut self, lens: &[usize]) -> Result<(), SendBlocked> {
        self.calls += 1;
        if lens.iter().any(|len| *len > self.room) {
            return Err(SendBlocked::TooLong { room: self.room });
        }
        if self.sent.len() + lens.len() > self.capacity {
            return Err(SendBlocked::Full);
        }
        self.sent.extend(lens);
        Ok(())
    }
}

impl DatagramPort for Way {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), SendBlocked> {
        self.take(&[slices.iter().map(|slice| slice.len()).sum()])
    }

    fn send_long(&mut self, bytes: &[u8]) -> Result<(), SendBlocked> {
        self.long += 1;
        self.sent.push(bytes.len());
        Ok(())
    }

    fn cuts(&self) -> bool {
        true
    }

    fn send_cut(
        &mut self,
        slices: &[IoSlice<'_>],
        size: u16,
    ) -> Result<SegmentedSend, SendBlocked> {
        let lens: Vec<usize> = slices[0].chunks(size.into()).map(<[u8]>::len).collect();
        self.take(&lens).map(|()| SegmentedSend::Sent)
    }
}

fn way() -> (Sender, Way) {
    let way = Way { sent: Vec::new(), long: 0, room: 1400, capacity: 1000, calls: 0 };
    (Sender::new(Destination::End(ConnectionNumber(7)), 1400), way)
}

#[test]
fn a_train_leaves_in_one_call_with_a_head_before_each() {
    let (mut sender, mut way) = way();
    let mut train = vec![9; 1000 * 5 + 300];
    assert_eq!(sender.send_train(&mut train, 1000, None, &mut way), 5300);
    assert_eq!((way.sent, way.calls), (vec![1000, 1000, 1000, 1000, 1000, 300], 1));
    let heads = train.chunks(1000).map(|datagram| datagram[..16].to_vec());
    let lens = [984, 984, 984, 984, 984, 284];
    assert!(heads.eq(lens.map(|len| UdpHead::window(ConnectionNumber(7), len).to_vec())));
}

#[test]
fn send_train_returns_what_found_room() {
    let (mut sender, mut way) = way();
    way.capacity = 70;
    // A call takes 64 of them.
    let mut train = vec![9; 100 * 100];
    assert_eq!(sender.send_train(&mut train, 100, None, &mut way), 6400);
    way.capacity = 100;
    assert_eq!(sender.send_train(&mut train[6400..], 100, None, &mut way), 3600);
    assert_eq!(way.sent, [100; 100]);
}

#[test]
fn datagrams_that_the_path_does_not_carry_any_more_are_cut_by_the_system() {
    let (mut sender, mut way) = way();
    way.room = 600;
    let mut train = vec![9; 3000];
    assert_eq!(sender.send_train(&mut train, 1000, None, &mut way), 3000);
    assert_eq!((way.sent, way.long, sender.room()), (vec![1000; 3], 3, 600));
}
