//! Eager messages of one connection.

use super::closing::pair;
use super::raw::{Raw, frame, patience};
use crate::fabric::common::eager::DrainedUnits;
use crate::fabric::tcp::driver::Driver;
use crate::fabric::tcp::wire::TcpFrame;
use crate::fabric::{ConnId, Machine};
use crate::rt;
use crate::vi::{Descriptor, EAGER_MAX, Lane, Nic, PostError, Reliability};

fn until(nics: &[Nic; 2], what: &str, mut is_so: impl FnMut() -> bool) {
    let until = rt::now() + patience();
    while !is_so() {
        assert!(rt::now() < until, "{what}");
        nics.iter().for_each(|nic| _ = nic.poll());
    }
}

pub(super) fn a_lane_that_was_full_has_room_again() {
    let (nics, [vi, peer]) = pair(Reliability::Reception);
    for lane in Lane::ALL {
        let mut sent = 0;
        for _ in 0..3 {
            let before = sent;
            while let Ok(position) = vi.send_eager(lane, sent, &[&[1; EAGER_MAX / 2], &[2; 40]]) {
                assert!(position > vi.arrived_so_far(lane));
                sent += 1;
            }
            assert!(sent > before, "{lane:?} has room");
            assert_eq!(vi.send_eager(lane, 0, &[&[0; 4096]]), Err(PostError::LaneFull));
            let mut drained = before;
            until(&nics, "all come", || {
                peer.drain().poll(5, |_, tag, bytes| {
                    assert_eq!((tag, bytes.len()), (drained, EAGER_MAX / 2 + 40));
                    drained += 1;
                });
                drained == sent
            });
            until(&nics, "there is room", || vi.send_eager(lane, sent, &[&[1; 4096]]).is_ok());
            until(&nics, "it comes", || peer.drain().poll(1, |_, _, _| {}) > 0);
            sent += 1;
        }
    }
}

#[test]
fn lanes_fill_and_drain() {
    a_lane_that_was_full_has_room_again();
}

/// A receive was taken back, and the message that was sent for it waits.
pub(super) fn they_pass_a_message_that_waits() {
    let mut raw = Raw::new(Reliability::Reception);
    let receive = raw.vi.post_recv(Descriptor::new(vec![0_u8; 100])).unwrap();
    drop(raw.frames(|frame| matches!(frame, TcpFrame::Counts { .. })));
    assert!(raw.vi.cancel(receive));
    let eager = |tag| TcpFrame::Eager { lane: Lane::Talk, tag, drained: DrainedUnits(0) };
    raw.write(&frame(TcpFrame::Message { tag: 1, kind: None }, b"waits"));
    raw.write(&frame(eager(2), b"passes"));
    let late = frame(eager(3), &[7; 300]);
    raw.write(&late[..50]);
    raw.write(&late[50..]);
    let mut drained = Vec::new();
    raw.until("eager messages are there", |raw| {
        raw.vi.drain().poll(9, |_, tag, bytes| drained.push((tag, bytes.len())));
        drained.len() == 2
    });
    assert_eq!(drained, [(2, 6), (3, 300)]);
}

#[test]
fn eager_messages_pass_a_message_that_waits_for_a_receive() {
    they_pass_a_message_that_waits();
}

#[test]
fn what_came_before_the_end_is_drained_behind_it() {
    let (nics, [vi, peer]) = pair(Reliability::Reception);
    for tag in 0..3 {
        vi.send_eager(Lane::Talk, tag, &[b"last words"]).unwrap();
    }
    until(&nics, "some come", || peer.drain().poll(1, |_, _, _| {}) > 0);
    vi.disconnect();
    until(&nics, "the end is known", || peer.error().is_some());
    let mut tags = Vec::new();
    peer.drain().poll(9, |reply, tag, _| {
        assert!(matches!(reply.send(Lane::Talk, 0, &[b"x"]), Err(PostError::Broken(_))));
        tags.push(tag);
    });
    assert_eq!(tags, [1, 2]);
}

/// One that was sent before the peer has drained another waits until its nic is driven, and no longer.
pub(super) fn company_leaves_with_the_next_drive() {
    let (nics, [vi, _peer]) = pair(Reliability::Reception);
    let written = || nics[0].inside(|driver: &mut Driver, _| driver.written());
    until(&nics, "the connection is quiet", || {
        let before = written();
        nics.iter().for_each(|nic| _ = nic.poll());
        written() == before
    });
    vi.send_eager(Lane::Talk, 1, &[b"one"]).unwrap();
    let alone = written();
    vi.send_eager(Lane::Talk, 2, &[b"two"]).unwrap();
    assert_eq!(written(), alone, "it waits for company");
    nics[0].poll();
    assert!(written() > alone, "it has not left");
}

#[test]
fn what_waits_for_company_leaves_with_the_next_drive() {
    company_leaves_with_the_next_drive();
}

#[test]
fn a_send_that_nothing_is_against_enters_the_nic_once() {
    for level in [Reliability::Unreliable, Reliability::Delivery, Reliability::Reception] {
        let (nics, _vis) = pair(level);
        nics[0].inside(|driver: &mut Driver, after| {
            let conn = ConnId(*driver.links.open.keys().next().unwrap());
            let sent = driver.try_send(conn, Lane::Talk, 1, &[b"one"]);
            assert_eq!(sent.is_some(), level != Reliability::Unreliable);
            if sent.is_none() {
                return;
            }
            // Whoever sleeps may have to be told.
            driver.is_armed = true;
            assert_eq!(driver.try_send(conn, Lane::Talk, 2, &[b"two"]), None);
            driver.is_armed = false;
            while driver.try_send(conn, Lane::Talk, 3, &[&[3; EAGER_MAX]]).is_some() {}
            let full = driver.send(conn, Lane::Talk, 3, &[&[3; EAGER_MAX]], after);
            assert_eq!(full, Err(PostError::LaneFull));
            driver.close(conn, after);
            assert_eq!(driver.try_send(conn, Lane::Talk, 4, &[b"four"]), None);
        });
    }
}
