//! Visitors who say nothing, nonsense, or come in crowds.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::connect;

use super::super::name::address;
use super::*;
use crate::fabric::handshake::{Caller, CallerRequest, HandshakeEvent};
use crate::fabric::shm::fault::{Fault, caught};
use crate::fabric::shm::socket::ReceivedPacket;
use crate::fabric::shm::socket::seqpacket;
use crate::vi::HelloError;

/// Connects and says nothing.
fn silent(host: &str) -> OwnedFd {
    let fd = seqpacket().unwrap();
    connect(&fd, &address(host).unwrap()).unwrap();
    fd
}

/// Whether the acceptor has something to see to.
fn is_waiting(acceptor: &Acceptor) -> bool {
    let fd = acceptor.fd();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec::default())).unwrap() > 0
}

fn turned(acceptor: &mut Acceptor, now: Instant, until: Instant) -> RefusedPeerCause {
    acceptor.poll_proven_peer(now, until).map(|visitor| visitor.is_some()).unwrap_err().why
}

/// What a caller is told that begins a handshake now.
fn told(of: OwnedFd) -> HandshakeAttemptError {
    handshake_over(control_of(of), &plain()).poll(lend(&handles(""))).unwrap_err()
}

#[test]
fn silent_connections_are_closed_in_time() {
    let host = unique("silent");
    let mut acceptor = open(&host).unwrap();
    let early = silent(&host);
    assert!(acceptor.poll_proven_peer(at(0), at(5)).unwrap().is_none());
    let _late = silent(&host);
    assert!(acceptor.poll_proven_peer(at(1), at(6)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(5)));
    assert_eq!(turned(&mut acceptor, at(5), at(9)), RefusedPeerCause::Silent);
    assert!(matches!(told(early), HandshakeAttemptError::Gone { .. }));
    assert!(acceptor.poll_proven_peer(at(5), at(9)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(6)));
}

/// To have opened gives no more time, and what came beside the opening is closed.
#[test]
fn unfinished_handshakes_are_closed_in_time() {
    let host = unique("mute");
    let mut acceptor = Acceptor::open(&host, stance(Trust::Cooperating, "one")).unwrap();
    let caller = stance(Trust::Cooperating, "one");
    let wanted = CallerRequest { hello: hello(), terms: Vec::new(), key: None, is_plain: true };
    let mut caller = Caller::new(caller.handshake, wanted);
    let (wire, end) = Tripwire::new();
    let guest = silent(&host);
    send_raw(&guest, caller.outgoing(), &[end.as_fd(); 3]);
    caller.sent(caller.outgoing().len());
    drop(end);
    assert!(acceptor.poll_proven_peer(at(0), at(5)).unwrap().is_none());
    wire.assert_closed();
    let Ok(ReceivedPacket::Packet(answer)) = control_of(guest.try_clone().unwrap()).receive()
    else {
        panic!("it has not opened too")
    };
    assert_eq!(caller.feed_step(&answer.bytes), Ok(HandshakeEvent::Nothing));
    assert!(acceptor.poll_proven_peer(at(4), at(9)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(5)));
    assert_eq!(turned(&mut acceptor, at(5), at(9)), RefusedPeerCause::Silent);
    assert!(matches!(control_of(guest).receive(), Ok(ReceivedPacket::Gone)));
}

#[test]
fn nonsense_is_sent_away_and_the_door_stays_open() {
    let host = unique("nonsense");
    let mut acceptor = open(&host).unwrap();
    let (wire, end) = Tripwire::new();
    let guest = silent(&host);
    send_raw(&guest, b"GET / HTTP/1.1, a longer line", &[end.as_fd()]);
    drop(end);
    let away = acceptor.poll_proven_peer(at(0), at(1)).unwrap_err();
    assert_eq!(away.why, HandshakeError::from(HelloError::NotEgret).into());
    let said = away.to_string();
    assert!(said.ends_with("was refused: not an egret peer"), "{said}");
    assert!(matches!(told(guest), HandshakeAttemptError::Gone { .. }), "no words for those");
    wire.assert_closed();

    let (step, part) = (b"EGRT\x02\x01\x05\0\x03\0\0\0", b"EGRT\x02\x01");
    for bytes in [&[b'E'; 100_000][..], b"EGRT\x02\x01\x09\0\x01\0\0\0", step, part] {
        let guest = silent(&host);
        send_raw(&guest, bytes, &[]);
        let why = turned(&mut acceptor, at(0), at(1));
        assert!(matches!(why, RefusedPeerCause::Handshake(HandshakeError::Hello(_))), "{why:?}");
    }
    drop(silent(&host));
    assert_eq!(turned(&mut acceptor, at(0), at(1)), RefusedPeerCause::Left);
    visit(&mut acceptor, start_attempt(&host), &handles(""));
}

#[test]
fn a_crowd_costs_its_places_and_no_more() {
    let host = unique("crowd");
    let mut acceptor = open(&host).unwrap();
    let mut crowd: Vec<_> = (0..CROWD.of_one).map(|_| silent(&host)).collect();
    assert!(acceptor.poll_proven_peer(at(0), at(5)).unwrap().is_none());
    let excess = [silent(&host), silent(&host)];
    for guest in excess {
        assert_eq!(turned(&mut acceptor, at(0), at(5)), RefusedPeerCause::Crowded);
        assert_eq!(told(guest), refused(ConnectRefusal::Crowded));
    }
    // One of the crowd begins its handshake, and makes room.
    let (mine, late) = (handles(""), control_of(crowd.swap_remove(9)));
    let (_late, visitor) = visit(&mut acceptor, handshake_over(late, &plain()), &mine);
    assert_eq!(visitor.offer.host, "caller");
    let (_attempt, _visitor) = visit(&mut acceptor, start_attempt(&host), &mine);
    // The others are sent away one by one.
    for _ in 1..CROWD.of_one {
        assert_eq!(turned(&mut acceptor, at(5), at(9)), RefusedPeerCause::Silent);
    }
    assert!(acceptor.poll_proven_peer(at(5), at(9)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), None);
}

#[test]
fn what_a_guest_sends_too_much_stays_with_the_kernel() {
    let host = unique("eager");
    let mut acceptor = open(&host).unwrap();
    let (guest, mine) = (silent(&host), handles(""));
    let attempt = handshake_over(control_of(guest.try_clone().unwrap()), &plain());
    assert!(acceptor.poll_proven_peer(at(0), at(1)).unwrap().is_none());
    let _attempt = not_yet(attempt, &mine);
    send_raw(&guest, &[9; 64], &[]);
    let visitor = acceptor.poll_proven_peer(at(0), at(1)).unwrap().unwrap();
    let (control, _) = visitor.accept(&terms(), lend(&mine)).unwrap();
    assert!(matches!(control.poll(), Err(ControlSocketError::Protocol { .. })));
}

#[test]
fn a_visitor_that_left_is_not_accepted() {
    let host = unique("left");
    let mut acceptor = open(&host).unwrap();
    let mine = handles("");
    let (attempt, visitor) = visit(&mut acceptor, start_attempt(&host), &mine);
    drop(attempt);
    assert!(visitor.is_gone());
    let accepted = visitor.accept(&terms(), lend(&mine));
    assert!(matches!(accepted, Err(ControlSocketError::PeerGone { .. })));
}

#[test]
fn a_busy_door_says_so() {
    let host = unique("busy");
    let mut acceptor = open(&host).unwrap();
    let mut waiting = Vec::new();
    loop {
        match start(&host).unwrap() {
            AttemptStart::Started(attempt) => waiting.push(attempt),
            AttemptStart::Busy => break,
            AttemptStart::Nobody => panic!("the acceptor is open"),
        }
        assert!(waiting.len() < 10_000, "a bound that the kernel keeps");
    }
    // Those for whom there is a place go on, and the others are told to come again.
    let mut away = 0;
    while is_waiting(&acceptor) {
        acceptor.turn();
        if let Err(turned) = acceptor.poll_proven_peer(at(0), at(1)) {
            assert_eq!(turned.why, RefusedPeerCause::Crowded);
            away += 1;
        }
    }
    assert_eq!(away + CROWD.of_one, waiting.len());
    let mine = handles("");
    let mut heard = 0;
    for attempt in waiting {
        match attempt.poll(lend(&mine)) {
            Ok(_) => {
                heard += usize::from(acceptor.poll_proven_peer(at(0), at(1)).unwrap().is_some());
            }
            Err(why) => assert_eq!(why, refused(ConnectRefusal::Crowded)),
        }
    }
    assert_eq!(heard, CROWD.of_one);
}

fn later(seconds: u64, more_ms: u64) -> Instant {
    at(seconds) + Duration::from_millis(more_ms)
}

/// Whoever is silent gives way to the next of its process, and a caller gets in.
#[test]
fn the_silent_keep_nobody_out() {
    let host = unique("mute-crowd");
    let mut acceptor = open(&host).unwrap();
    let mut crowd: Vec<_> = (0..CROWD.of_one).map(|_| silent(&host)).collect();
    assert!(acceptor.poll_proven_peer(at(0), at(5)).unwrap().is_none());
    let start = handshake_over(control_of(silent(&host)), &plain());
    let away = acceptor.poll_proven_peer(later(0, 10), at(5)).map(drop).unwrap_err();
    assert_eq!(away.why, RefusedPeerCause::Displaced);
    assert_eq!(told(crowd.remove(0)), refused(ConnectRefusal::Crowded));
    visit(&mut acceptor, start, &handles(""));
}

/// To say something at the last moment is early enough.
#[test]
fn a_caller_with_an_opening_does_not_give_way() {
    let host = unique("spoken");
    let mut acceptor = open(&host).unwrap();
    let crowd: Vec<_> = (0..CROWD.of_one).map(|_| silent(&host)).collect();
    assert!(acceptor.poll_proven_peer(at(0), at(5)).unwrap().is_none());
    let first = crowd[0].try_clone().unwrap();
    let newcomer = silent(&host);
    let first = handshake_over(control_of(first), &plain());
    let mine = handles("");
    let attempt = not_yet(first, &mine);
    while is_waiting(&acceptor) {
        _ = acceptor.poll_proven_peer(later(0, 10), at(5));
    }
    let (_first, visitor) = visit(&mut acceptor, attempt, &mine);
    assert_eq!(visitor.offer.host, "caller");
    drop(newcomer);
}

/// Processes that say nothing have their share, and this one has places of its own.
pub(super) fn a_process_has_its_share() {
    let host = unique("share");
    let mut acceptor = open(&host).unwrap();
    let crowd = Crowd::new(&host, CROWD.all);
    for _ in 0..2 * CROWD.all {
        _ = acceptor.poll_proven_peer(at(0), at(5));
    }
    let own = silent(&host);
    assert!(acceptor.poll_proven_peer(at(0), at(5)).unwrap().is_none(), "there is a place");
    visit(&mut acceptor, handshake_over(control_of(own), &plain()), &handles(""));
    drop(crowd);
}

#[test]
fn a_process_does_not_take_the_places_of_others() {
    a_process_has_its_share();
}

/// A process that connects and says nothing.
struct Crowd(std::process::Child, std::io::BufReader<std::process::ChildStdout>);

impl Crowd {
    const HOST: &str = "EGRET_TEST_SHM_CROWD";

    fn new(host: &str, number: usize) -> Self {
        let name = "fabric::shm::rendezvous::tests::crowd::a_process_that_is_silent";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(Self::HOST, format!("{number} {host}"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut crowd = Self(child, said);
        let mut lines = std::io::BufRead::lines(&mut crowd.1);
        assert!(lines.any(|line| line.unwrap().contains("all are here")));
        crowd
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        _ = self.0.wait();
    }
}

/// Not a test by itself: the process that [`Crowd`] starts.
#[test]
fn a_process_that_is_silent() {
    let Ok(what) = std::env::var(Crowd::HOST) else { return };
    let (number, host) = what.split_once(' ').unwrap();
    let all: Vec<_> = (0..number.parse().unwrap()).map(|_| silent(host)).collect();
    println!("all are here");
    _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
    drop(all);
}

/// Has the acceptor see to whoever is there, by turns of which each begins a bounded number of
/// handshakes. How many were begun.
fn hear_all(acceptor: &mut Acceptor, stance: &ShmRequirements) -> usize {
    let begun = || usize::try_from(stance.handshake.handshakes()).unwrap();
    let all = begun();
    while is_waiting(acceptor) {
        let before = begun();
        acceptor.turn();
        // As often as a nic asks at most, and more.
        for _ in 0..4 * HANDSHAKES_AT_ONCE {
            assert!(!matches!(acceptor.poll_proven_peer(at(0), at(1)), Ok(Some(_))), "nobody asks");
        }
        let begun = begun() - before;
        assert!(begun <= HANDSHAKES_AT_ONCE, "{begun} in one turn");
    }
    begun() - all
}

/// Handshakes are begun some at a time, so that callers do not stop what goes over
/// connections.
pub(super) fn handshakes_are_begun_by_turns() {
    let (host, stance) = (unique("turns"), plain());
    let mut acceptor = Acceptor::open(&host, stance.clone()).unwrap();
    let attempts: Vec<_> = (0..3 * HANDSHAKES_AT_ONCE).map(|_| start_attempt(&host)).collect();
    assert_eq!(hear_all(&mut acceptor, &stance), attempts.len());
    let mine = handles("");
    attempts.into_iter().for_each(|attempt| drop(not_yet(attempt, &mine)));
}

#[test]
fn a_crowd_of_callers_is_answered_by_turns() {
    handshakes_are_begun_by_turns();
}

/// An opening costs the same, whether it is alone in its packet, as it has to be, or not.
pub(super) fn handshakes_that_come_to_nothing_count() {
    let (host, stance) = (unique("spoiled"), plain());
    let mut acceptor = Acceptor::open(&host, stance.clone()).unwrap();
    let spoiled = |_| {
        let wanted = CallerRequest { hello: hello(), terms: Vec::new(), key: None, is_plain: true };
        let opening = Caller::new(plain().handshake, wanted).outgoing().to_vec();
        let guest = silent(&host);
        send_raw(&guest, &[&opening[..], &[7; 9]].concat(), &[]);
        guest
    };
    let guests: Vec<_> = (0..3 * HANDSHAKES_AT_ONCE).map(spoiled).collect();
    assert_eq!(hear_all(&mut acceptor, &stance), guests.len());
}

#[test]
fn callers_who_spoil_their_handshake_are_answered_by_turns() {
    handshakes_that_come_to_nothing_count();
}

/// Who has said all when it was to give way is a visitor, though the system cannot watch whom it
/// was to give way to.
#[test]
fn a_newcomer_that_is_not_watched_costs_nobody_its_visit() {
    let (host, stance) = (unique("unwatched"), plain());
    let mut acceptor = Acceptor::open(&host, stance.clone()).unwrap();
    let mut attempts: Vec<_> = (0..CROWD.of_one).map(|_| start_attempt(&host)).collect();
    assert_eq!(hear_all(&mut acceptor, &stance), CROWD.of_one);
    // The listener has something to tell before the guest has.
    let (newcomer, mine) = (silent(&host), handles(""));
    let _oldest = not_yet(attempts.remove(0), &mine);
    let mut outcome = None;
    acceptor.turn();
    let panicked = caught(Fault::WatchRefused, || {
        outcome = Some(acceptor.poll_proven_peer(later(0, 500), at(5)));
    });
    assert!(!panicked);
    let visitor = outcome.unwrap().unwrap().expect("it has asked");
    assert_eq!(visitor.offer.host, "caller");
    assert_eq!(told(newcomer), refused(ConnectRefusal::Crowded));
}
