//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::collections::VecDeque;

use egret_net::vi::Segment;

use super::request::ReplyAddress;
use super::{OutgoingMapping, Upcall, UpcallKind};
use crate::frame::ArrivedFrame;
use crate::link::Fate;
use crate::slots::{SlotKey, SlotTable};

egret_net::faults! {
    /// Faults in links and active messages.
    pub(crate) enum Fault {
        /// A link is made with any peer that claims to be a host, whatever its key.
        AnyKey,
        /// A link is replaced by an older one.
        AnyNumber,
        /// Links of peers that are not listed, or not any more, stay.
        UnlistedStay,
        /// A message is served twice.
        Twice,
        /// The credit of a message that is not answered is not given back.
        CreditKept,
        /// An answer goes to another call.
        OtherCall,
        /// Messages that waited while an endpoint moved are served in the wrong order.
        MovedAround,
        /// Messages that were not acknowledged are reported as certainly not delivered.
        SaidLost,
        /// A sender ignores its window.
        Boundless,
        /// A receive that has completed is not posted again.
        NotPosted,
        /// The error handler does not run for a message that came back.
        Untold,
        /// A mapping that was given up still holds bytes.
        Leaky,
        /// The number of a mapping is free before the peer knows.
        NumberFree,
        /// The end handler of an endpoint does not run when a link has ended.
        EndUntold,
        /// The end handler of an endpoint runs twice for one link.
        EndTwice,
        /// The pieces of a message are in another order.
        PiecesSwapped,
        /// Links are closed with a reason before the peer has what was sent.
        Hasty,
        /// Data that goes back holds memory while others wait for that.
        HeldAgainst,
        /// An endpoint's own window is not what its mappings get.
        OtherWindow,
        /// A short request overtakes one with data.
        Overtakes,
        /// A request with data has no place among the short ones.
        NotPlaced,
        /// The place of a request whose data was refused is not given up.
        PlaceKept,
        /// A background thread that rests is not woken when the thread with the role leaves.
        RestUncalled,
    }
}

/// The request that an answer goes to.
#[inline]
pub(super) fn answered(request: u32) -> u32 {
    if planted(Fault::OtherCall) { request ^ 1 } else { request }
}

/// The pieces of a message, in their order.
#[inline]
pub(super) fn in_order(mut pieces: Vec<Segment>) -> Vec<Segment> {
    if planted(Fault::PiecesSwapped) {
        pieces.reverse();
    }
    pieces
}

/// How often the end handler of an endpoint runs for a link.
#[inline]
pub(super) fn runs_of_end_handler() -> u32 {
    if planted(Fault::EndTwice) { 2 } else { u32::from(!planted(Fault::EndUntold)) }
}

/// What is told of a message that was not acknowledged.
#[inline]
pub(super) fn fate_told(known: Fate) -> Fate {
    if planted(Fault::SaidLost) { Fate::NotDelivered } else { known }
}

/// The window that a mapping gets.
#[inline]
pub(super) fn window_granted(window: u32) -> u32 {
    if planted(Fault::OtherWindow) { 1 << 16 } else { window }
}

/// The number of a mapping stays taken until the peer knows that the mapping is given up.
#[inline]
pub(super) fn keep_number(mappings: &mut SlotTable<OutgoingMapping>, key: SlotKey) {
    if planted(Fault::NumberFree) {
        drop(mappings.remove(key));
    }
}

/// What arrived while an endpoint moved, in that order.
#[inline]
pub(super) fn as_arrived(mut parked: VecDeque<Box<Upcall>>) -> VecDeque<Box<Upcall>> {
    if planted(Fault::MovedAround) {
        parked.rotate_left(parked.len() / 2);
    }
    parked
}

/// Whether a request that keeps its order has a place among the short ones.
#[inline]
pub(super) fn is_placed(is_data: bool) -> bool {
    !(is_data && planted(Fault::NotPlaced))
}

/// Another upcall of a message that is served more than once.
#[inline]
pub(super) fn again(upcall: &Upcall) -> Option<Box<Upcall>> {
    let UpcallKind::Message { from, arrived } = &upcall.what else { return None };
    if !planted(Fault::Twice) {
        return None;
    }
    let arrived = ArrivedFrame::from_parts(arrived.head, None, arrived.bytes().to_vec());
    let what = UpcallKind::Message { from: ReplyAddress { request: None, ..*from }, arrived };
    Some(Upcall::new(upcall.endpoint, what, upcall.handling.came).at(upcall.handling.home))
}
