//! A peer that is none: its messages are lies, and end the connection with a reason.

use super::super::conn::Conn;
use super::super::frame::{Frame, Named};
use super::super::lanes::{Lane, Pace, Terms, Window};
use super::super::send::Parcel;
use crate::fabric::ViSpec;
use crate::fabric::hub::counts::Counts;
use crate::fabric::hub::eager::{Drained, EagerIn};
use crate::rt::Instant;
use crate::vi::{self, Keys, Notices, Reliability, ViError};

const EAGER: Frame<'_> = Frame::Eager(vi::Lane::Talk, Drained(0));
const NOW: Instant = Instant::from_nanos(1_000_000);

/// What becomes of these messages of a peer.
fn hear(parcels: &[(Lane, u64, Frame<'_>)]) -> Result<(), ViError> {
    let terms = Terms { messages: 64, bytes: 1 << 16, datagram: 1400, pace: Pace::default() };
    let mut liar: Window<Parcel> = Window::new(terms);
    for (lane, tag, frame) in parcels {
        liar.send(*lane, Parcel::new(*tag, frame));
    }
    let ViSpec { vi, drain, .. } = ViSpec::new(Reliability::Delivery, 1);
    let (mut conn, mut out) = (Conn::new(1400, EagerIn::new(vi, drain)), Vec::new());
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
pub(super) fn nobody_takes_what_was_never_sent() {
    let counts =
        |taken, placed| Frame::Counts(Counts { taken, receives: 3, placed }.pack(), Drained(0));
    assert_eq!(hear(&[(Lane::Control, 0, counts(0, 0))]), Ok(()));
    for counts in [counts(1, 0), counts(0, 1)] {
        let why = protocol(hear(&[(Lane::Control, 0, counts)]));
        assert_eq!(why, "it has taken what was never sent");
    }
}

#[test]
fn nothing_comes_that_nobody_asked_for() {
    let none = "a message that there is no receive for";
    assert_eq!(protocol(hear(&[(Lane::Posted, 0, Frame::Message(None, None))])), none);
    let named = Some(Named { fingerprint: 1, name: "f64" });
    assert_eq!(protocol(hear(&[(Lane::Posted, 0, Frame::Message(named, None))])), none);
    let notify = Frame::Write { secret: 1, offset: 0, notify: Some(9) };
    assert_eq!(protocol(hear(&[(Lane::Posted, 0, notify)])), none);
    let piece = Frame::ReadPiece { offset: 0 };
    assert_eq!(protocol(hear(&[(Lane::Answers, 5, piece)])), "an answer to no read");
    let end = Frame::ReadEnd(Ok(()));
    assert_eq!(protocol(hear(&[(Lane::Answers, 5, end)])), "an answer to no read");
    let written = Frame::Written(Ok(()));
    assert_eq!(protocol(hear(&[(Lane::Control, 5, written)])), "an answer to no request");
}

#[test]
fn a_message_of_another_lane_makes_no_sense() {
    for (lane, frame) in [(Lane::Control, EAGER), (Lane::Eager, Frame::Ask)] {
        assert_eq!(protocol(hear(&[(lane, 0, frame)])), "a frame that makes no sense");
    }
}

#[test]
fn a_last_word_says_something() {
    let why = protocol(hear(&[(Lane::Eager, 0, Frame::Goodbye(0))]));
    assert_eq!(why, "a frame that makes no sense");
}

#[test]
pub(super) fn nobody_drains_what_was_never_sent() {
    for frame in [Frame::Counts(0, Drained(1)), Frame::Eager(vi::Lane::Talk, Drained(1 << 32))] {
        let why = protocol(hear(&[(frame.lane(), 0, frame)]));
        assert_eq!(why, "it has drained what was never sent");
    }
}

#[test]
pub(super) fn a_lane_holds_no_more_than_its_window() {
    let many: Vec<_> = (0..4096).map(|tag| (Lane::Eager, tag, EAGER)).collect();
    assert_eq!(hear(&many), Ok(()));
    let many: Vec<_> = (0..4097).map(|tag| (Lane::Eager, tag, EAGER)).collect();
    assert_eq!(protocol(hear(&many)), "more eager messages than its window");
}
