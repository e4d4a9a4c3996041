//! Messages out of pieces: whole or not at all, and once.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::stage::End;
use crate::buf::{Plain, Pool};
use crate::fabric::udp::recv::{AGE_MAX, AT_ONCE, IDLE_MAX, PieceOutcome};
use crate::rt::SplitMix64;
use crate::vi::{Descriptor, Vi, ViError};

/// A path with pieces of a few hundred bytes.
const ROOM: usize = 548;

fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    let mut rng = SplitMix64(number);
    (0..len).map(|_| rng.next().to_le_bytes()[3]).collect()
}

/// The datagrams of a message.
fn datagrams(end: &End, vi: &Vi, tag: u64, len: usize) -> Vec<Vec<u8>> {
    vi.post_send(Descriptor::new(bytes_of(tag, len)).with_tag(tag)).unwrap();
    vi.send_queue().poll().unwrap().done().unwrap();
    end.sent()
}

/// What was received, by tag.
fn received(vi: &Vi) -> BTreeMap<u64, u32> {
    let mut times = BTreeMap::new();
    while let Some(got) = vi.recv_queue().poll() {
        let (tag, len) = (got.tag, usize::try_from(got.len).unwrap());
        assert_eq!(got.into_buf().bytes(), bytes_of(tag, len), "message {tag}");
        *times.entry(tag).or_default() += 1;
    }
    times
}

const BUFFER: usize = 20_000;
const BUFFERS: usize = 40;

/// Sends messages of these lengths over a network that loses one datagram in `loss`,
/// doubles one in `twice`, and delays some: no message comes in part or twice.
pub(super) fn over_any_network(lens: &[usize], seed: u64, loss: usize, twice: usize) {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    let pool = Pool::new(BUFFER, BUFFERS).unwrap();
    for _ in 0..BUFFERS {
        receiver.post_recv(Descriptor::new(pool.take(BUFFER).unwrap())).unwrap();
    }
    let (mut rng, mut under_way, mut lost) = (SplitMix64(seed), Vec::new(), Vec::new());
    let mut deliver = |datagram: &Vec<u8>| _ = there.deliver(datagram).unwrap();
    for (tag, len) in (0..).zip(lens) {
        for datagram in datagrams(&end, &sender, tag, *len) {
            if rng.below(loss) == 0 {
                lost.push(tag);
                continue;
            }
            if rng.below(twice) == 0 {
                under_way.push(datagram.clone());
            }
            under_way.push(datagram);
        }
        while under_way.len() > 40 {
            let next = under_way.swap_remove(rng.below(under_way.len()));
            deliver(&next);
        }
    }
    for datagram in &under_way {
        deliver(datagram);
    }
    let times = received(&receiver);
    for tag in 0..lens.len() as u64 {
        let expected = if lost.contains(&tag) { None } else { Some(&1) };
        assert_eq!(times.get(&tag), expected, "message {tag}, lost: {lost:?}");
    }
    for _ in 0..=IDLE_MAX {
        there.keep_alive_tick().unwrap();
    }
    // The receives of what never came are there for others.
    let free = BUFFERS - times.len();
    for tag in 1000..1000 + free as u64 {
        datagrams(&end, &sender, tag, 100).iter().for_each(&mut deliver);
    }
    assert_eq!(received(&receiver).len(), free, "receives that were not given back");
    drop((sender, receiver));
    assert_eq!(pool.available(BUFFER), BUFFERS, "all buffers are back");
}

fn lens() -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![3 => 0..ROOM, 3 => ROOM..5_000_usize, 1 => 5_000..BUFFER];
    proptest::collection::vec(len, 1..AT_ONCE)
}

proptest! {
    #[test]
    fn whole_or_not_at_all_and_once(lens in lens(), seed: u64, loss in 5..100_usize, twice in 2..50_usize) {
        over_any_network(&lens, seed, loss, twice);
    }

    #[test]
    fn all_of_it_if_nothing_is_lost(lens in lens(), seed: u64) {
        over_any_network(&lens, seed, usize::MAX, 2);
    }
}

/// A message that is whole comes once, however often its pieces do.
pub(super) fn nothing_comes_twice() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    for _ in 0..4 {
        receiver.post_recv(Descriptor::new(vec![0_u8; 2000])).unwrap();
    }
    for len in [10, 2000] {
        let datagrams = datagrams(&end, &sender, 1, len);
        for datagram in &datagrams {
            there.deliver(datagram).unwrap();
            assert_eq!(there.deliver(datagram), Ok(PieceOutcome::Twice));
        }
        for datagram in &datagrams {
            assert_eq!(there.deliver(datagram), Ok(PieceOutcome::Twice));
        }
    }
    assert_eq!((receiver.counters().received, receiver.counters().dropped), (2, 0));
    assert_eq!(there.ignored().twice, 2 * (1 + 4));
}

#[test]
fn what_comes_twice_counts_once() {
    nothing_comes_twice();
}

/// A peer whose pieces do not go together.
pub(super) fn lies_are_not_believed() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    receiver.post_recv(Descriptor::new(vec![0_u8; 700])).unwrap();
    let honest = datagrams(&end, &sender, 1, 700);
    assert_eq!(honest.len(), 2);
    there.deliver(&honest[0]).unwrap();
    // The same message, longer than the receive; cut another way; with another tag.
    let (other, liar) = End::of_pair(ROOM);
    let longer = datagrams(&other, &liar, 1, 5_000);
    let (other, liar) = End::of_pair(600);
    let finer = datagrams(&other, &liar, 1, 700);
    let (other, liar) = End::of_pair(ROOM);
    let tagged = datagrams(&other, &liar, 2, 700);
    for lie in [&longer[1], &longer[9], &finer[1], &tagged[1]] {
        assert_eq!(there.deliver(lie), Ok(PieceOutcome::Contradiction));
    }
    assert_eq!(there.deliver(&honest[1]), Ok(PieceOutcome::Whole));
    assert_eq!(receiver.recv_queue().poll().unwrap().into_vec::<u8>(), bytes_of(1, 700));
    assert_eq!(there.ignored().contradictions, 4);
}

#[test]
fn pieces_of_two_messages_are_not_one() {
    lies_are_not_believed();
}

/// So many messages can be in pieces at once; the next takes the place of the oldest.
pub(super) fn messages_at_once_are_bounded() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    let pool = Pool::new(1000, AT_ONCE + 1).unwrap();
    for _ in 0..=AT_ONCE {
        receiver.post_recv(Descriptor::new(pool.take(1000).unwrap())).unwrap();
    }
    let all: Vec<_> =
        (0..10 * AT_ONCE as u64).map(|tag| datagrams(&end, &sender, tag, 1000)).collect();
    for datagrams in &all {
        assert_eq!(there.deliver(&datagrams[0]), Ok(PieceOutcome::Kept));
    }
    let (given_up, kept) = all.split_at(all.len() - AT_ONCE);
    for datagrams in given_up {
        assert_eq!(there.deliver(&datagrams[1]), Ok(PieceOutcome::Twice), "it was given up");
    }
    for datagrams in kept {
        assert_eq!(there.deliver(&datagrams[1]), Ok(PieceOutcome::Whole));
    }
    assert_eq!(received(&receiver).len(), AT_ONCE);
    assert_eq!(receiver.recv_queue().outstanding(), 1);
    drop(receiver);
    assert_eq!(pool.available(1000), AT_ONCE + 1);
}

#[test]
fn a_flood_of_beginnings_is_bounded() {
    messages_at_once_are_bounded();
}

#[test]
fn a_whole_message_takes_no_other_s_place() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    let pool = Pool::new(1000, AT_ONCE + 1).unwrap();
    for _ in 0..=AT_ONCE {
        receiver.post_recv(Descriptor::new(pool.take(1000).unwrap())).unwrap();
    }
    let long: Vec<_> = (0..AT_ONCE as u64).map(|tag| datagrams(&end, &sender, tag, 1000)).collect();
    for datagrams in &long {
        assert_eq!(there.deliver(&datagrams[0]), Ok(PieceOutcome::Kept));
    }
    // The second finds no receive that is free.
    for (tag, came) in [(100, PieceOutcome::Whole), (101, PieceOutcome::NoReceive)] {
        assert_eq!(there.deliver(&datagrams(&end, &sender, tag, 10)[0]), Ok(came));
    }
    for datagrams in &long {
        assert_eq!(there.deliver(&datagrams[1]), Ok(PieceOutcome::Whole));
    }
    assert_eq!(received(&receiver).len(), AT_ONCE + 1);
}

#[test]
fn what_stays_in_pieces_is_given_up() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    let mut descriptor = Some(Descriptor::new(vec![0_u8; 10_000]));
    for (number, slowly) in [false, true].into_iter().enumerate() {
        receiver.post_recv(descriptor.take().unwrap()).unwrap();
        let datagrams = datagrams(&end, &sender, 1, 10_000);
        there.deliver(&datagrams[0]).unwrap();
        let (mut ticks, mut next) = (0, 1);
        while there.ignored().given_up == number as u64 {
            // One piece at a time helps for a while only.
            if slowly {
                there.deliver(&datagrams[next]).unwrap();
                next += 1;
            }
            there.keep_alive_tick().unwrap();
            ticks += 1;
        }
        assert_eq!(ticks, 1 + if slowly { AGE_MAX } else { IDLE_MAX });
        assert_eq!(there.deliver(&datagrams[next]), Ok(PieceOutcome::Twice), "it is over");
        let whole = bytes_of(7, 10);
        sender.post_send(Descriptor::new(whole.clone()).with_tag(7)).unwrap();
        there.deliver(&end.sent()[0]).unwrap();
        let got = receiver.recv_queue().poll().unwrap();
        assert_eq!((got.tag, got.bytes()), (7, &whole[..]));
        descriptor = Some(got.into_descriptor());
    }
}

#[test]
fn a_message_without_a_receive_is_counted_once() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    for datagram in datagrams(&end, &sender, 1, 10_000) {
        there.deliver(&datagram).unwrap();
    }
    assert_eq!((receiver.counters().dropped, receiver.counters().received), (1, 0));
}

#[test]
fn a_receive_that_does_not_fit_fails_alone() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    let pool = Pool::new(4096, 4).unwrap();
    receiver.post_recv(Descriptor::new(vec![0_u8; 999])).unwrap();
    receiver.post_recv(Descriptor::typed(pool.take_typed::<u32>(250).unwrap())).unwrap();
    receiver.post_recv(Descriptor::typed(pool.take_typed::<f32>(250).unwrap())).unwrap();
    for _ in 0..3 {
        sender.post_send(Descriptor::typed(pool.take_typed::<f32>(250).unwrap())).unwrap();
        drop(sender.send_queue().poll());
        end.sent().iter().for_each(|datagram| _ = there.deliver(datagram).unwrap());
    }
    let statuses: Vec<_> =
        std::iter::from_fn(|| receiver.recv_queue().poll()).map(|it| it.status.clone()).collect();
    let long = ViError::TooLong { sent: 1000, posted: 999 };
    let kind = ViError::TypeMismatch { sent: f32::kind(), posted: u32::kind() };
    assert_eq!(statuses, [Err(long), Err(kind.clone()), Ok(())]);
    assert!(kind.to_string().contains("f32"), "{kind}");
}

#[test]
fn memory_made_on_arrival_is_made_for_what_arrives() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    receiver.post_recv(Descriptor::fresh(5_000)).unwrap();
    // Of a first message only a part comes, of a longer one all.
    there.deliver(&datagrams(&end, &sender, 1, 700)[0]).unwrap();
    (0..=IDLE_MAX).for_each(|_| _ = there.keep_alive_tick().unwrap());
    for datagram in datagrams(&end, &sender, 2, 5_000).iter().rev() {
        there.deliver(datagram).unwrap();
    }
    let got = receiver.recv_queue().poll().unwrap();
    assert_eq!(got.into_vec::<u8>(), bytes_of(2, 5_000));
}

#[test]
fn a_receive_can_be_taken_back_with_a_part_in_it() {
    let (end, sender) = End::of_pair(ROOM);
    let (there, receiver) = End::of_pair(ROOM);
    let ticket = receiver.post_recv(Descriptor::new(vec![0_u8; 1000])).unwrap();
    let datagrams = datagrams(&end, &sender, 1, 1000);
    there.deliver(&datagrams[1]).unwrap();
    assert!(receiver.cancel(ticket));
    assert_eq!(receiver.recv_queue().poll().unwrap().status, Err(ViError::Cancelled));
    assert_eq!(there.deliver(&datagrams[0]), Ok(PieceOutcome::Twice));
}
