//! Visitors who say nothing, nonsense, or come in crowds.

use rustix::net::connect;

use super::super::knock::seqpacket;
use super::super::name::address;
use super::*;
use crate::vi::HelloError;

/// Connects and says nothing.
fn silent(host: &str) -> OwnedFd {
    let fd = seqpacket().unwrap();
    connect(&fd, &address(host).unwrap()).unwrap();
    fd
}

fn turned(acceptor: &mut Acceptor, now: Instant, until: Instant) -> Turned {
    acceptor.poll_visitor(now, until).map(|visitor| visitor.is_some()).unwrap_err().why
}

fn refusal(of: OwnedFd) -> Result<Answered, KnockError> {
    Knock::adopt(control_of(of)).poll()
}

#[test]
fn who_says_nothing_is_sent_away_in_time() {
    let host = unique("silent");
    let mut acceptor = open(&host).unwrap();
    let early = silent(&host);
    assert!(acceptor.poll_visitor(at(0), at(5)).unwrap().is_none());
    let _late = silent(&host);
    assert!(acceptor.poll_visitor(at(1), at(6)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(5)));
    assert_eq!(turned(&mut acceptor, at(5), at(9)), Turned::Silent);
    assert!(matches!(refusal(early), Err(KnockError::Gone { .. })));
    assert!(acceptor.poll_visitor(at(5), at(9)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(6)));
}

#[test]
fn nonsense_is_answered_and_the_door_stays_open() {
    let host = unique("nonsense");
    let mut acceptor = open(&host).unwrap();
    let (wire, end) = Tripwire::new();
    let guest = silent(&host);
    send_raw(&guest, b"GET / HTTP/1.1, a longer line", &[end.as_fd()]);
    drop(end);
    let away = acceptor.poll_visitor(at(0), at(1)).unwrap_err();
    assert_eq!(away.why, Turned::Hello(HelloError::NotEgret));
    let said = away.to_string();
    assert!(said.ends_with("was turned away: not an egret peer"), "{said}");
    let refused = refusal(guest).unwrap_err();
    assert_eq!(refused, KnockError::Refused(Refusal::Hello(HelloError::NotEgret)));
    wire.assert_closed();

    let guest = silent(&host);
    send_raw(&guest, &[b'E'; 100_000], &[]);
    assert!(matches!(turned(&mut acceptor, at(0), at(1)), Turned::Hello(_)));
    drop(silent(&host));
    assert_eq!(turned(&mut acceptor, at(0), at(1)), Turned::Left);
    let _knocking = knock(&host, &handles(""));
    assert!(acceptor.poll_visitor(at(0), at(1)).unwrap().is_some());
}

#[test]
fn a_crowd_costs_its_places_and_no_more() {
    let host = unique("crowd");
    let mut acceptor = open(&host).unwrap();
    let crowd: Vec<_> = (0..CROWD_MAX).map(|_| silent(&host)).collect();
    assert!(acceptor.poll_visitor(at(0), at(5)).unwrap().is_none());
    let excess = [silent(&host), silent(&host)];
    for guest in excess {
        assert_eq!(turned(&mut acceptor, at(0), at(5)), Turned::Crowded);
        let refused = refusal(guest).unwrap_err();
        assert_eq!(refused, KnockError::Refused(Refusal::Crowded));
    }
    // One of the crowd greets, and makes room.
    let mine = handles("");
    send_raw(&crowd[9], &greeting("late").encode(), &mine.borrowed());
    let visitor = acceptor.poll_visitor(at(0), at(5)).unwrap().unwrap();
    assert_eq!(visitor.greeting.host, "late");
    let _knocking = knock(&host, &mine);
    assert!(acceptor.poll_visitor(at(0), at(5)).unwrap().is_some());
    // The others are sent away one by one.
    for _ in 1..CROWD_MAX {
        assert_eq!(turned(&mut acceptor, at(5), at(9)), Turned::Silent);
    }
    assert!(acceptor.poll_visitor(at(5), at(9)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), None);
}

#[test]
fn what_a_guest_sends_too_much_stays_with_the_kernel() {
    let host = unique("eager");
    let mut acceptor = open(&host).unwrap();
    let guest = silent(&host);
    let mine = handles("");
    send_raw(&guest, &greeting("eager").encode(), &mine.borrowed());
    send_raw(&guest, &[9; 64], &[]);
    let visitor = acceptor.poll_visitor(at(0), at(1)).unwrap().unwrap();
    let (control, _) = visitor.accept(&terms(), lend(&mine)).unwrap();
    assert!(matches!(control.poll(), Err(ControlError::Protocol { .. })));
}

#[test]
fn a_visitor_that_left_is_not_accepted() {
    let host = unique("left");
    let mut acceptor = open(&host).unwrap();
    let mine = handles("");
    let knocking = knock(&host, &mine);
    let visitor = acceptor.poll_visitor(at(0), at(1)).unwrap().unwrap();
    drop(knocking);
    assert!(visitor.is_gone());
    let accepted = visitor.accept(&terms(), lend(&mine));
    assert!(matches!(accepted, Err(ControlError::PeerGone { .. })));
}

#[test]
fn a_busy_door_says_so() {
    let host = unique("busy");
    let mut acceptor = open(&host).unwrap();
    let mine = handles("");
    let mut waiting = Vec::new();
    loop {
        match Knock::start(&host, &greeting("caller"), lend(&mine), &Secret::none()).unwrap() {
            Started::Knocking(knock) => waiting.push(knock),
            Started::Busy => break,
            Started::Nobody => panic!("the acceptor is open"),
        }
        assert!(waiting.len() < 10_000, "a bound that the kernel keeps");
    }
    let mut heard = 0;
    while acceptor.poll_visitor(at(0), at(1)).unwrap().is_some() {
        heard += 1;
    }
    assert_eq!(heard, waiting.len());
}
