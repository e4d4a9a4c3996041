//! Visitors who say nothing, nonsense, or come in crowds.

use rustix::net::connect;

use super::super::knock::seqpacket;
use super::super::name::address;
use super::super::socket::Received;
use super::*;
use crate::fabric::greet::{Caller, News, Wanted};
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

/// What one is told who greets now.
fn told(of: OwnedFd) -> KnockError {
    greet_over(control_of(of), &plain()).poll(lend(&handles(""))).unwrap_err()
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
    assert!(matches!(told(early), KnockError::Gone { .. }));
    assert!(acceptor.poll_visitor(at(5), at(9)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(6)));
}

/// To have opened gives no more time, and what came beside the opening is closed.
#[test]
fn who_does_not_go_on_greeting_is_sent_away_in_time() {
    let host = unique("mute");
    let mut acceptor = Acceptor::open(&host, stance(Trust::Cooperating, "one")).unwrap();
    let caller = stance(Trust::Cooperating, "one");
    let wanted = Wanted { hello: hello(), terms: Vec::new(), key: None, is_plain: true };
    let mut caller = Caller::new(caller.greet, wanted);
    let (wire, end) = Tripwire::new();
    let guest = silent(&host);
    send_raw(&guest, caller.outgoing(), &[end.as_fd(); 3]);
    caller.sent(caller.outgoing().len());
    drop(end);
    assert!(acceptor.poll_visitor(at(0), at(5)).unwrap().is_none());
    wire.assert_closed();
    let Ok(Received::Packet(answer)) = control_of(guest.try_clone().unwrap()).receive() else {
        panic!("it has not opened too")
    };
    assert_eq!(caller.feed_step(&answer.bytes), Ok(News::Nothing));
    assert!(acceptor.poll_visitor(at(4), at(9)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(5)));
    assert_eq!(turned(&mut acceptor, at(5), at(9)), Turned::Silent);
    assert!(matches!(control_of(guest).receive(), Ok(Received::Gone)));
}

#[test]
fn nonsense_is_sent_away_and_the_door_stays_open() {
    let host = unique("nonsense");
    let mut acceptor = open(&host).unwrap();
    let (wire, end) = Tripwire::new();
    let guest = silent(&host);
    send_raw(&guest, b"GET / HTTP/1.1, a longer line", &[end.as_fd()]);
    drop(end);
    let away = acceptor.poll_visitor(at(0), at(1)).unwrap_err();
    assert_eq!(away.why, GreetError::from(HelloError::NotEgret).into());
    let said = away.to_string();
    assert!(said.ends_with("was turned away: not an egret peer"), "{said}");
    assert!(matches!(told(guest), KnockError::Gone { .. }), "no words for those");
    wire.assert_closed();

    let (step, part) = (b"EGRT\x02\x01\x05\0\x03\0\0\0", b"EGRT\x02\x01");
    for bytes in [&[b'E'; 100_000][..], b"EGRT\x02\x01\x09\0\x01\0\0\0", step, part] {
        let guest = silent(&host);
        send_raw(&guest, bytes, &[]);
        let why = turned(&mut acceptor, at(0), at(1));
        assert!(matches!(why, Turned::Greeting(GreetError::Hello(_))), "{why:?}");
    }
    drop(silent(&host));
    assert_eq!(turned(&mut acceptor, at(0), at(1)), Turned::Left);
    visit(&mut acceptor, knock(&host), &handles(""));
}

#[test]
fn a_crowd_costs_its_places_and_no_more() {
    let host = unique("crowd");
    let mut acceptor = open(&host).unwrap();
    let mut crowd: Vec<_> = (0..CROWD_MAX).map(|_| silent(&host)).collect();
    assert!(acceptor.poll_visitor(at(0), at(5)).unwrap().is_none());
    let excess = [silent(&host), silent(&host)];
    for guest in excess {
        assert_eq!(turned(&mut acceptor, at(0), at(5)), Turned::Crowded);
        assert_eq!(told(guest), refused(Refusal::Crowded));
    }
    // One of the crowd greets, and makes room.
    let (mine, late) = (handles(""), control_of(crowd.swap_remove(9)));
    let (_late, visitor) = visit(&mut acceptor, greet_over(late, &plain()), &mine);
    assert_eq!(visitor.greeting.host, "caller");
    let (_knocking, _visitor) = visit(&mut acceptor, knock(&host), &mine);
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
    let (guest, mine) = (silent(&host), handles(""));
    let knock = greet_over(control_of(guest.try_clone().unwrap()), &plain());
    assert!(acceptor.poll_visitor(at(0), at(1)).unwrap().is_none());
    let _knock = not_yet(knock, &mine);
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
    let (knocking, visitor) = visit(&mut acceptor, knock(&host), &mine);
    drop(knocking);
    assert!(visitor.is_gone());
    let accepted = visitor.accept(&terms(), lend(&mine));
    assert!(matches!(accepted, Err(ControlError::PeerGone { .. })));
}

#[test]
fn a_busy_door_says_so() {
    let host = unique("busy");
    let mut acceptor = open(&host).unwrap();
    let mut waiting = Vec::new();
    loop {
        match start(&host).unwrap() {
            Started::Knocking(knock) => waiting.push(knock),
            Started::Busy => break,
            Started::Nobody => panic!("the acceptor is open"),
        }
        assert!(waiting.len() < 10_000, "a bound that the kernel keeps");
    }
    // Those for whom there is a place go on, and the others are told to come again.
    let mut away = 0;
    while let Err(turned) = acceptor.poll_visitor(at(0), at(1)) {
        assert_eq!(turned.why, Turned::Crowded);
        away += 1;
    }
    assert_eq!(away + CROWD_MAX, waiting.len());
    let mine = handles("");
    let mut heard = 0;
    for knock in waiting {
        match knock.poll(lend(&mine)) {
            Ok(_) => heard += usize::from(acceptor.poll_visitor(at(0), at(1)).unwrap().is_some()),
            Err(why) => assert_eq!(why, refused(Refusal::Crowded)),
        }
    }
    assert_eq!(heard, CROWD_MAX);
}
