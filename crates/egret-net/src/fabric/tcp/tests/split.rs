//! The same bytes have the same outcome in whatever pieces they come.

use proptest::prelude::*;

use super::raw::{COUNTS, Raw, counted, frame, patience};
use super::sealed;
use crate::buf::{Plain, Pool};
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::DrainedUnits;
use crate::fabric::tcp::wire::{CHUNK, TcpFrame};
use crate::vi::{Access, Descriptor, Lane, Reliability, RemoteKey};

/// What came of a stream: messages (tag, length, sum of bytes), what the peer was
/// answered, and the memory that it wrote.
pub(super) type Outcome = (Vec<(u64, u64, u64)>, Vec<TcpFrame>, Vec<u8>);

pub(super) const LARGE: usize = 2 * CHUNK + 100;

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251).to_le_bytes()[0].wrapping_mul(31).wrapping_add(seed)).collect()
}

/// A stream of all that a peer may say.
fn stream(key: RemoteKey, large: usize) -> Vec<u8> {
    let (secret, kind) = (key.secret(), Some(u32::FINGERPRINT));
    let whole = bytes(3, large);
    let chunks: Vec<&[u8]> = whole.chunks(CHUNK).collect();
    let mut stream = frame(TcpFrame::Message { tag: 1, kind: None }, b"first");
    stream.extend(frame(TcpFrame::Kind { fingerprint: u32::FINGERPRINT }, b"\x03u32"));
    stream.extend(frame(TcpFrame::Message { tag: 2, kind }, &bytes(2, 16)));
    stream.extend(frame(TcpFrame::Message { tag: 3, kind: None }, b""));
    stream.extend(frame(TcpFrame::Read { id: 5, secret, offset: 1, len: 3 }, b""));
    if large > CHUNK {
        let begin = TcpFrame::Begin { tag: 4, kind: None, len: large as u64 };
        stream.extend(frame(begin, chunks[0]));
        for chunk in &chunks[1..] {
            let counts = ReceiveCounts { receives: 9, ..ReceiveCounts::default() };
            stream.extend(counted(TcpFrame::Piece, chunk, counts));
        }
    } else {
        stream.extend(frame(TcpFrame::Message { tag: 4, kind: None }, &whole));
    }
    stream.extend(frame(TcpFrame::Write { secret, offset: 2, len: 5 }, b""));
    stream.extend(frame(TcpFrame::Piece, b"wri"));
    stream.extend(frame(TcpFrame::Piece, b"te"));
    stream.extend(frame(TcpFrame::WriteEnd { id: 6, notify: Some(5) }, b""));
    stream.extend(frame(COUNTS, b""));
    let eager = TcpFrame::Eager { lane: Lane::Talk, tag: 8, drained: DrainedUnits(0) };
    stream.extend(frame(eager, b"eager"));
    stream.extend(frame(TcpFrame::Message { tag: 6, kind: None }, b"last"));
    stream
}

fn sum_of(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().zip(0_u64..);
    bytes.fold(0, |sum, (byte, at)| sum.wrapping_mul(7) + at + u64::from(*byte))
}

/// Writes the stream in these pieces.
pub(super) fn outcome(large: usize, cuts: &[usize]) -> Outcome {
    let mut raw = Raw::new(Reliability::Reception);
    let pool = Pool::new(1 << 10, 1).unwrap();
    let mut buf = pool.take(16).unwrap();
    buf.bytes_mut().copy_from_slice(&bytes(9, 16));
    let memory = raw.nic.expose(buf, Access::READ | Access::WRITE).unwrap();
    // Into pieces as well, and into memory made on arrival.
    for number in 0..6 {
        raw.vi
            .post_recv(match number % 3 {
                0 => Descriptor::new(vec![0_u8; large]),
                1 => Descriptor::fresh(large as u64),
                _ => Descriptor::new(vec![0_u8; 7]).and(vec![0_u8; large]),
            })
            .unwrap();
    }
    let mut stream = stream(memory.key(), large);
    if let Some(records) = &mut raw.records {
        stream = records.seal(&stream);
    }
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % stream.len()).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        raw.write_raw(&stream[pair[0]..pair[1]]);
    }
    let mut got = Vec::new();
    for _ in 0..6 {
        let back = raw.vi.recv_queue().wait(patience()).unwrap().ok().unwrap();
        let (tag, len) = (back.tag, back.len);
        let all = back.into_descriptor().into_segments().flat_map(|segment| {
            let bytes = segment.bytes().to_vec();
            bytes.into_iter()
        });
        let all: Vec<u8> = all.take(usize::try_from(len).unwrap()).collect();
        got.push((tag, len, sum_of(&all)));
    }
    raw.vi.drain().poll(9, |_, tag, bytes| got.push((tag, bytes.len() as u64, sum_of(bytes))));
    let answers = raw.frames(|frame| matches!(frame, TcpFrame::Written { .. }));
    let answers = answers.into_iter().map(|(frame, _)| frame);
    let answers = answers.filter(|frame| !matches!(frame, TcpFrame::Counts { .. })).collect();
    (got, answers, memory.revoke().bytes().to_vec())
}

pub(super) fn every_boundary() {
    let whole = outcome(40, &[]);
    assert_eq!(whole.0.len(), 7);
    assert_eq!(&whole.2[2..7], b"write");
    let len = sealed::len_of(stream(RemoteKey::of(0), 40).len());
    for cut in 1..len {
        assert_eq!(outcome(40, &[cut]), whole, "cut at {cut} of {len}");
    }
    let every: Vec<usize> = (0..len).collect();
    assert_eq!(outcome(40, &every), whole, "byte by byte");
}

#[test]
fn frames_may_be_cut_at_every_byte() {
    every_boundary();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_split_of_a_stream_gives_the_same(
        cuts in proptest::collection::vec(any::<usize>(), 0..24),
    ) {
        prop_assert_eq!(outcome(LARGE, &cuts), outcome(LARGE, &[]));
    }
}
