//! What is short is not stuck behind what is long. Counted in turns of driving both
//! nics, each of which moves a bounded number of bytes.

use super::closing::{connect, pair};
use super::raw::{COUNTS, Raw, counted, frame};
use crate::buf::Pool;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::tcp::driver::Driver;
use crate::fabric::tcp::wire::{CHUNK, HEAD, TcpFrame};
use crate::vi::{Access, Descriptor, Lane, Nic, Reliability};

const LARGE: usize = 64 << 20;
/// At 64 KiB that are read in each turn it takes at least 1024.
const LARGE_TURNS: usize = 200;
/// What is short passes in so many.
const SHORT_TURNS: usize = 60;

/// Drives both until this is so. How many turns that took.
fn turns(nics: &[Nic; 2], mut is_so: impl FnMut() -> bool) -> usize {
    for turn in 0..100_000 {
        if is_so() {
            return turn;
        }
        for nic in nics {
            nic.poll();
        }
    }
    panic!("never");
}

/// Both know what the other has posted.
fn settle(nics: &[Nic; 2]) {
    let mut left = 50;
    turns(nics, || {
        left -= 1;
        left == 0
    });
}

#[test]
fn a_short_message_passes_a_large_one_of_another_connection() {
    let (nics, [near, far]) = pair(Reliability::Reception);
    let [short_near, short_far] = connect(&nics, "short", Reliability::Reception);
    far.post_recv(Descriptor::new(vec![0_u8; LARGE])).unwrap();
    for _ in 0..10 {
        short_far.post_recv(Descriptor::new(vec![0_u8; 4])).unwrap();
    }
    settle(&nics);
    near.post_send(Descriptor::new(vec![1_u8; LARGE])).unwrap();
    for _ in 0..10 {
        short_near.post_send(Descriptor::new(vec![2_u8; 4])).unwrap();
        let taken = turns(&nics, || short_far.recv_queue().poll().is_some());
        assert!(taken <= SHORT_TURNS, "{taken} turns for 4 bytes");
        let taken = turns(&nics, || short_near.send_queue().poll().is_some());
        assert!(taken <= SHORT_TURNS, "{taken} turns to hear of it");
    }
    assert!(far.recv_queue().poll().is_none(), "the large one is still on its way");
    let taken = turns(&nics, || far.recv_queue().poll().is_some());
    assert!(taken >= LARGE_TURNS / 4, "the large one took {taken} turns more");
}

pub(super) fn reads_pass_between_chunks() {
    let (nics, [near, far]) = pair(Reliability::Reception);
    let pool = Pool::new(64, 1).unwrap();
    let memory = nics[1].expose(pool.take(64).unwrap(), Access::READ | Access::WRITE).unwrap();
    far.post_recv(Descriptor::new(vec![0_u8; LARGE])).unwrap();
    settle(&nics);
    near.post_send(Descriptor::new(vec![1_u8; LARGE])).unwrap();
    for _ in 0..5 {
        near.post_read(Descriptor::new(vec![0_u8; 4]), memory.key().at(0)).unwrap();
        let taken = turns(&nics, || near.send_queue().poll().is_some());
        assert!(taken <= SHORT_TURNS, "{taken} turns for a read of 4 bytes");
        assert!(far.recv_queue().poll().is_none(), "the large one is still on its way");
    }
    turns(&nics, || far.recv_queue().poll().is_some());
}

#[test]
fn reads_pass_between_the_chunks_of_a_message() {
    reads_pass_between_chunks();
}

#[test]
fn messages_pass_between_the_chunks_of_an_answer() {
    let (nics, [near, far]) = pair(Reliability::Reception);
    let pool = Pool::new(LARGE, 1).unwrap();
    let memory = nics[1].expose(pool.take(LARGE).unwrap(), Access::READ).unwrap();
    for _ in 0..10 {
        near.post_recv(Descriptor::new(vec![0_u8; 4])).unwrap();
    }
    near.post_read(Descriptor::new(vec![0_u8; LARGE]), memory.key().at(0)).unwrap();
    for _ in 0..10 {
        far.post_send(Descriptor::new(vec![2_u8; 4])).unwrap();
        let taken = turns(&nics, || near.recv_queue().poll().is_some());
        assert!(taken <= SHORT_TURNS, "{taken} turns for 4 bytes");
    }
    assert!(near.send_queue().poll().is_none(), "the read is still being answered");
    turns(&nics, || near.send_queue().poll().is_some());
}

/// Written in parts, as a socket that is full takes it.
pub(super) fn large_arrives_whole() {
    let (nics, [near, far]) = pair(Reliability::Delivery);
    far.post_recv(Descriptor::new(vec![0_u8; LARGE])).unwrap();
    settle(&nics);
    let bytes: Vec<u8> = (0..LARGE).map(|at| (at / 3).to_le_bytes()[0]).collect();
    near.post_send(Descriptor::new(bytes.clone())).unwrap();
    // The far side does not read until the near side's kernel is full.
    for _ in 0..1_000 {
        nics[0].poll();
    }
    let mut got = None;
    turns(&nics, || {
        got = got.take().or_else(|| far.recv_queue().poll());
        got.is_some()
    });
    let got = got.unwrap().ok().unwrap();
    assert!(got.bytes() == bytes, "the bytes are others");
    turns(&nics, || near.send_queue().poll().is_some());
}

/// An eager message that is sent when the kernel is full waits for the frame that is half written,
/// and for no other chunk.
pub(super) fn talk_passes_what_the_kernel_did_not_take() {
    // So the kernel is full at different places of a batch.
    for first in (0..8).map(|at| 1 + at * 30_000) {
        let mut raw = Raw::new(Reliability::Reception);
        raw.write(&counted(COUNTS, b"", ReceiveCounts { receives: 2, ..ReceiveCounts::default() }));
        raw.vi.post_send(Descriptor::new(vec![1_u8; first])).unwrap();
        raw.vi.post_send(Descriptor::new(vec![2_u8; LARGE])).unwrap();
        let mut before = None;
        raw.until("the kernel is full", |raw| {
            let written = raw.nic.inside(|driver: &mut Driver, _| driver.written());
            before.replace(written) == Some(written)
        });
        raw.vi.send_eager(Lane::Talk, 9, &[b"talk"]).unwrap();
        let frames = raw.frames(|frame| matches!(frame, TcpFrame::Eager { .. }));
        let frames = frames.iter().filter(|(frame, _)| !matches!(frame, TcpFrame::Eager { .. }));
        let ahead: usize = frames.map(|(frame, payload)| self::frame(*frame, payload).len()).sum();
        let most = usize::try_from(before.unwrap()).unwrap() + CHUNK + HEAD;
        assert!(ahead <= most, "{ahead} bytes are ahead of it, which is more than {most}");
    }
}

#[test]
fn talk_passes_chunks_that_the_kernel_did_not_take() {
    talk_passes_what_the_kernel_did_not_take();
}

#[test]
fn a_large_message_arrives_whole_through_a_full_socket() {
    large_arrives_whole();
}

#[test]
fn thousands_of_segments_arrive_whole() {
    let (nics, [near, far]) = pair(Reliability::Reception);
    let bytes: Vec<u8> = (0..400_000_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    let pieces = bytes.chunks(100).map(<[u8]>::to_vec);
    let sent = pieces.fold(Descriptor::empty(), |all, piece| all.and(piece));
    assert_eq!(sent.segment_count(), 4_000);
    let to = (0..1_000).fold(Descriptor::empty(), |all, _| all.and(vec![0_u8; 400]));
    far.post_recv(to).unwrap();
    near.post_send(sent).unwrap();
    let mut got = None;
    turns(&nics, || {
        got = got.take().or_else(|| far.recv_queue().poll());
        got.is_some()
    });
    let mut whole = vec![0; bytes.len()];
    got.unwrap().ok().unwrap().descriptor().gather(0, &mut whole);
    assert!(whole == bytes, "the bytes are others");
}
