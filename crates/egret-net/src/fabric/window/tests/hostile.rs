//! A peer that is none: its messages are lies, and end the connection with a reason.

use super::super::datapath::DataPath;
use super::super::lanes::{Window, WindowLane, WindowTerms, WindowTiming};
use super::super::send::Parcel;
use super::super::wire::{NamedKind, WindowFrame};
use crate::fabric::ViSpec;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::{DrainedUnits, EagerIn};
use crate::rt::Instant;
use crate::vi::{self, Keys, Notices, Reliability, ViError};

const EAGER: WindowFrame<'_> = WindowFrame::Eager(vi::Lane::Talk, DrainedUnits(0));
const NOW: Instant = Instant::from_nanos(1_000_000);

/// What becomes of these messages of a peer.
fn hear(parcels: &[(WindowLane, u64, WindowFrame<'_>)]) -> Result<(), ViError> {
    let terms =
        WindowTerms { messages: 64, bytes: 1 << 16, datagram: 1400, pace: WindowTiming::default() };
    let mut liar: Window<Parcel> = Window::new(terms);
    for (lane, tag, frame) in parcels {
        liar.send(*lane, Parcel::new(*tag, frame));
    }
    let ViSpec { vi, drain, .. } = ViSpec::new(Reliability::Delivery, 1);
    let (mut conn, mut out) = (DataPath::new(1400, EagerIn::new(vi, drain)), Vec::new());
    while liar.poll_datagram(NOW, &mut out) {
        conn.hear(NOW, &out, &Keys::default(), &mut Notices::default())?;
        if conn.window.poll_datagram(NOW, &mut out) {
            liar.acknowledged(NOW, &out).expect("it is honest");
        }
    }
    Ok(())
}

fn protocol(heard: Result<(), ViError>) -> &'static str {
    match heard {
        Err(ViError::Protocol(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
pub(super) fn acknowledgements_of_unsent_frames_are_refused() {
    let counts = |taken, placed| {
        WindowFrame::Counts(ReceiveCounts { taken, receives: 3, placed }.pack(), DrainedUnits(0))
    };
    assert_eq!(hear(&[(WindowLane::Control, 0, counts(0, 0))]), Ok(()));
    for counts in [counts(1, 0), counts(0, 1)] {
        let why = protocol(hear(&[(WindowLane::Control, 0, counts)]));
        assert_eq!(why, "an acknowledgement of frames that were never sent");
    }
}

#[test]
fn nothing_comes_that_nobody_asked_for() {
    let none = "a message that there is no receive for";
    assert_eq!(protocol(hear(&[(WindowLane::Posted, 0, WindowFrame::Message(None, None))])), none);
    let named = Some(NamedKind { fingerprint: 1, name: "f64" });
    assert_eq!(protocol(hear(&[(WindowLane::Posted, 0, WindowFrame::Message(named, None))])), none);
    let notify = WindowFrame::Write { secret: 1, offset: 0, notify: Some(9) };
    assert_eq!(protocol(hear(&[(WindowLane::Posted, 0, notify)])), none);
    let piece = WindowFrame::ReadPiece { offset: 0 };
    assert_eq!(
        protocol(hear(&[(WindowLane::Answers, 5, piece)])),
        "an answer to a read that was not requested"
    );
    let end = WindowFrame::ReadEnd(Ok(()));
    assert_eq!(
        protocol(hear(&[(WindowLane::Answers, 5, end)])),
        "an answer to a read that was not requested"
    );
    let written = WindowFrame::Written(Ok(()));
    assert_eq!(
        protocol(hear(&[(WindowLane::Control, 5, written)])),
        "an answer to a request that was not made"
    );
}

#[test]
fn a_message_of_another_lane_makes_no_sense() {
    for (lane, frame) in [(WindowLane::Control, EAGER), (WindowLane::Eager, WindowFrame::Ask)] {
        assert_eq!(protocol(hear(&[(lane, 0, frame)])), "a malformed frame");
    }
}

#[test]
fn a_last_word_says_something() {
    let why = protocol(hear(&[(WindowLane::Eager, 0, WindowFrame::Goodbye(0))]));
    assert_eq!(why, "a malformed frame");
}

#[test]
pub(super) fn acknowledgements_of_unsent_eager_messages_are_refused() {
    for frame in [
        WindowFrame::Counts(0, DrainedUnits(1)),
        WindowFrame::Eager(vi::Lane::Talk, DrainedUnits(1 << 32)),
    ] {
        let why = protocol(hear(&[(frame.lane(), 0, frame)]));
        assert_eq!(why, "an acknowledgement of eager messages that were never sent");
    }
}

#[test]
pub(super) fn a_lane_holds_no_more_than_its_window() {
    let many: Vec<_> = (0..4096).map(|tag| (WindowLane::Eager, tag, EAGER)).collect();
    assert_eq!(hear(&many), Ok(()));
    let many: Vec<_> = (0..4097).map(|tag| (WindowLane::Eager, tag, EAGER)).collect();
    assert_eq!(protocol(hear(&many)), "more eager messages than its window");
}
