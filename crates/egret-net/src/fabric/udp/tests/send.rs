//! Sending: what leaves, and what waits for room.

use super::stage::End;
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
    (0..3).for_each(|_| assert_eq!(there.beat(), Ok(false)));
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
