//! Messages of several pieces, which land behind each other.

use egret_net::rt::Deadline;
use egret_net::vi::{Descriptor, Segment};

use super::deliver::call_of;
use super::fault;
use super::{Call, CallReply, MEDIUM_MAX, Message, MessageError, Payload, RemoteEndpoint};
use crate::frame::FrameHead;
use crate::in_handler::in_handler;
use crate::link::LinkError;
use crate::links::clock::DeadlineClock;
use crate::links::link_side::LinkSide;
use crate::slots::SlotKey;

impl RemoteEndpoint {
    /// Sends a request, whose payload is these pieces behind each other instead of its own, and waits for its
    /// answer. Up to [`MEDIUM_MAX`] bytes are copied into the message; more is sent from where
    /// it lies, and is not used any more when this returns.
    ///
    /// If the deadline passes while the fabric reads the pieces, it is waited for a little
    /// longer; a link that does not let go of them within two seconds is ended.
    ///
    /// # Errors
    ///
    /// If it was not sent, or has no answer within the deadline.
    #[track_caller]
    pub fn wait_call_with(
        &self,
        message: Message<'_>,
        pieces: &[&[u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<CallReply, MessageError> {
        let _waits = self.core.waits("answer", Some(self.link));
        self.call_with(message, pieces, deadline.into(), |message, clock| {
            self.send_when_room(message, clock, LinkSide::request)
        })
    }

    /// Like [`wait_call_with`](Self::wait_call_with), but only if the window has room now: for words
    /// that say how much time is left, which are made anew after [`wait_room`](Self::wait_room).
    ///
    /// # Errors
    ///
    /// [`MessageError::Full`] inside if it has none; or as
    /// [`wait_call_with`](Self::wait_call_with).
    pub fn try_call_with(
        &self,
        message: Message<'_>,
        pieces: &[&[u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<CallReply, MessageError> {
        self.call_with(message, pieces, deadline.into(), |message, _| {
            self.send_now(message, LinkSide::request)
        })
    }

    #[inline]
    fn call_with(
        &self,
        message: Message<'_>,
        pieces: &[&[u8]],
        deadline: Deadline,
        send: impl FnOnce(&mut Message<'_>, &mut DeadlineClock) -> Result<SlotKey, MessageError>,
    ) -> Result<CallReply, MessageError> {
        if in_handler() {
            return Err(MessageError::InHandler);
        }
        let mut clock = DeadlineClock::of(deadline);
        if total(pieces) <= MEDIUM_MAX {
            let payload = Payload::Pieces(pieces);
            let key = send(&mut Message { payload, ..message }, &mut clock)?;
            return Call::wait_for(&self.core, self.link, key, &mut clock);
        }
        Segment::lend_all(pieces, |lent, is_back| {
            let sent = send(&mut message.gather(lent), &mut clock);
            let answer = sent.and_then(|key| {
                let answer = Call::wait_for(&self.core, self.link, key, &mut clock);
                if !is_back() {
                    self.bring_back(key, is_back);
                }
                answer
            });
            debug_assert!(is_back(), "what was not sent is not kept");
            answer
        })
    }

    /// Gets back memory that is still lent after the deadline: frames that the fabric does not have yet
    /// are copied.
    #[cold]
    fn bring_back(&self, call: SlotKey, is_back: &mut dyn FnMut() -> bool) {
        self.core.state.with(|state| {
            if let Some(line) = state.links.get(self.link) {
                line.own_data(call);
            }
        });
        let returned = self.core.wait(LET_GO.into(), |state, waker| {
            if is_back() {
                return Some(());
            }
            let call = state.links.get(self.link).and_then(|line| line.am.calls.get(call));
            call.into_iter().for_each(|call| _ = call.poll(waker));
            None
        });
        if returned.is_err() {
            self.core.state.with(|state| state.end(self.link, |_| LinkError::Closed));
            while !is_back() {
                self.core.poll();
            }
        }
    }
}

impl LinkSide {
    /// Copies the data of a request that the fabric does not have yet, unless another has its
    /// number by now.
    fn own_data(&mut self, call: SlotKey) {
        if self.am.calls.get(call).is_none() {
            return;
        }
        let request = call.index;
        self.waiting_data().for_each(|frame| own(frame, request));
    }
}

/// Copies a frame, if it is this request.
fn own(frame: &mut Descriptor, request: u32) {
    let head = FrameHead::from_bits(frame.tag()).expect("of this side");
    if head.kind == crate::frame::FrameKind::Bulk && call_of(head) == request {
        let mut bytes = vec![0; usize::try_from(frame.len()).expect("it is in memory")];
        frame.gather(0, &mut bytes);
        *frame = Descriptor::new(bytes).with_tag(frame.tag());
    }
}

/// Bytes of all pieces.
#[inline]
pub(super) fn total(pieces: &[&[u8]]) -> usize {
    pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.len()))
}

/// Data, and its words behind it, in at most so many segments.
pub(super) fn bulk_frame(
    head: FrameHead,
    words: &[u64],
    pieces: Vec<Segment>,
    segments: usize,
) -> Descriptor {
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let room = segments - usize::from(!words.is_empty());
    if room == 0 {
        let mut all = Vec::new();
        pieces.iter().for_each(|piece| all.extend_from_slice(piece.bytes()));
        all.extend(words);
        return Descriptor::new(all).with_tag(head.to_bits());
    }
    let pieces = if pieces.len() > room { joined(pieces, room) } else { pieces };
    let mut pieces = fault::in_order(pieces).into_iter();
    let first = pieces.next().map_or_else(Descriptor::empty, Descriptor::new);
    let frame = pieces.fold(first.with_tag(head.to_bits()), Descriptor::and);
    if words.is_empty() { frame } else { frame.and(words) }
}

/// The same bytes in at most `room` pieces: as many of the largest stay where they are as can,
/// and what is between them is copied.
fn joined(pieces: Vec<Segment>, room: usize) -> Vec<Segment> {
    let mut by_size: Vec<usize> = (0..pieces.len()).collect();
    by_size.sort_by_key(|at| std::cmp::Reverse(pieces[*at].len()));
    let mut stays = vec![false; pieces.len()];
    let most = (0..=room.min(pieces.len())).rev().find(|count| {
        stays.fill(false);
        by_size[..*count].iter().for_each(|at| stays[*at] = true);
        let runs = stays.chunk_by(|one, other| !one && !other).count();
        runs <= room
    });
    debug_assert!(most.is_some(), "all can be copied into one");
    let mut few: Vec<Segment> = Vec::with_capacity(room);
    let mut copy: Vec<u8> = Vec::new();
    for (piece, stays) in pieces.into_iter().zip(stays) {
        if !stays {
            copy.extend_from_slice(piece.bytes());
            continue;
        }
        if !copy.is_empty() {
            few.push(std::mem::take(&mut copy).into());
        }
        few.push(piece);
    }
    if !copy.is_empty() {
        few.push(copy.into());
    }
    few
}

/// How long after the deadline the fabric may still read lent memory.
const LET_GO: std::time::Duration = std::time::Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_has_no_more_segments_than_the_fabric_takes() {
        for (segments, count, words) in [(1, 1, 2), (1, 3, 2), (1, 3, 0), (2, 3, 1), (4, 3, 16)] {
            let pieces: Vec<Vec<u8>> = (0..count).map(|at| vec![at + 1; 300]).collect();
            let words = [7; 16].get(..words).unwrap();
            let memory = pieces.iter().cloned().map(Segment::from).collect();
            let frame = bulk_frame(
                FrameHead::of(crate::frame::FrameKind::Bulk, 0),
                words,
                memory,
                segments,
            );
            assert!(frame.segments().count() <= segments, "{segments}");
            let mut bytes = vec![0; usize::try_from(frame.len()).unwrap()];
            frame.gather(0, &mut bytes);
            let words = words.iter().flat_map(|word: &u64| word.to_le_bytes());
            assert_eq!(bytes, [pieces.concat(), words.collect()].concat());
        }
    }

    #[test]
    fn only_the_request_that_was_meant_is_copied() {
        let sim = egret_net::fabric::sim::Sim::new(1);
        let links = crate::Links::open(sim.nic("a"), crate::LinksOptions::default()).unwrap();
        let other = crate::Links::open(sim.nic("b"), crate::LinksOptions::default()).unwrap();
        let (mine, theirs) = (links.bundle().endpoint(0), other.bundle().register("b", 0).unwrap());
        let to = super::super::EndpointName::new("b", "b", 0);
        let mut mapping = std::pin::pin!(mine.map(&to, &[], Deadline::DEFAULT));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let remote = loop {
            if let std::task::Poll::Ready(mapped) = mapping.as_mut().poll(&mut context) {
                break mapped.unwrap();
            }
            [&links, &other].into_iter().for_each(crate::Links::poll);
            sim.run_until(sim.elapsed() + std::time::Duration::from_millis(1));
        };
        let key = |state: &mut crate::links::state::LinksState| {
            let line = state.links.get(remote.link).unwrap();
            line.am.calls.keys()[0]
        };
        let at = |state: &mut crate::links::state::LinksState| {
            let line = state.links.get(remote.link).unwrap();
            let frame = line.waiting_data().next().unwrap();
            frame.segments().next().unwrap().bytes().as_ptr()
        };
        let mut first = remote.try_request(9).unwrap();
        let before = links.core.state.with(key);
        while first.poll_reply().is_none() {
            [&links, &other].into_iter().for_each(crate::Links::poll);
            sim.run_until(sim.elapsed() + std::time::Duration::from_millis(1));
        }
        // More than is granted, so that it waits here.
        let second = remote.try_request(Message::to(9).data(vec![0_u8; 32 << 20])).unwrap();
        links.core.state.with(|state| {
            let (now, lies) = (key(state), at(state));
            assert!(now != before && now.index == before.index, "the number is used again");
            state.links.get(remote.link).unwrap().own_data(before);
            assert_eq!(at(state), lies, "it is another's");
            state.links.get(remote.link).unwrap().own_data(now);
            assert_ne!(at(state), lies, "it is copied");
        });
        drop((second, theirs));
    }

    proptest! {
        #[test]
        fn pieces_are_joined_in_order_and_the_largest_stay(
            lens in prop::collection::vec(0_usize..40, 1..60),
            room in 1_usize..20,
        ) {
            let pieces: Vec<Vec<u8>> =
                lens.iter().enumerate().map(|(at, len)| vec![at.to_le_bytes()[0]; *len]).collect();
            let all = pieces.concat();
            let few = joined(pieces.into_iter().map(Segment::from).collect(), room);
            prop_assert!(few.len() <= room);
            let bytes: Vec<&[u8]> = few.iter().map(Segment::bytes).collect();
            prop_assert_eq!(bytes.concat(), all);
            let largest = lens.iter().max().copied().unwrap_or(0);
            let stays = few.iter().any(|piece| piece.len() >= largest as u64);
            prop_assert!(stays || largest == 0);
        }
    }
}
