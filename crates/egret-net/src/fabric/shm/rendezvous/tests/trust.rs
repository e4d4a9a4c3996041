//! Who becomes a cooperating peer, and who only says so.

use std::process::{Child, Command, Stdio};

use proptest::prelude::*;
use rustix::net::connect;
use rustix::process::Pid;

use super::super::answer::Answer;
use super::super::knock::seqpacket;
use super::super::name::address;
use super::super::socket::{Packet, Received};
use super::super::trust::{Asking, Heard, Response};
use super::*;
use crate::vi::{HelloError, Nonce, Proof, Trust, WhyIsolated};

const OTHER_SECRET: Agreed = Agreed::Isolated(Some(WhyIsolated::OtherSecret));
const NOT_ASKED: Agreed = Agreed::Isolated(Some(WhyIsolated::PeerDidNotAsk));
const NOTHING: Agreed = Agreed::Isolated(None);

pub(super) fn stance(trust: Trust, secret: &str) -> Stance {
    Stance { trust, secret: Secret::from(secret) }
}

fn cooperating() -> Stance {
    stance(Trust::Cooperating, "one")
}

fn asking(nonce: Option<Nonce>) -> Greeting {
    Greeting { asks: nonce, ..greeting("caller") }
}

/// What the two sides make of each other, the connecting one first.
fn meet(caller: &Stance, host: &Stance) -> (Agreed, Agreed) {
    let name = unique("trust");
    let mut acceptor = Acceptor::open(&name, host.clone()).unwrap();
    let mine = handles("");
    let asks = asking(caller.ask());
    let started = Knock::start(&name, &asks, lend(&mine), &caller.secret).unwrap();
    let Started::Knocking(mut knock) = started else { panic!("{started:?}") };
    for _ in 0..2 {
        if let Some(visitor) = acceptor.poll_visitor(at(0), at(1)).unwrap() {
            let theirs = visitor.agreed;
            let (_control, _) = visitor.accept(&terms(), lend(&mine)).unwrap();
            let Answered::Accepted(accepted) = knock.poll().unwrap() else { panic!("no answer") };
            return (accepted.agreed, theirs);
        }
        let Answered::NotYet(again) = knock.poll().unwrap() else { panic!("too early") };
        knock = again;
    }
    panic!("two packets are all that a caller says")
}

#[test]
fn both_must_ask_and_have_the_secret() {
    let (yes, no) = (cooperating(), stance(Trust::Isolated, "one"));
    assert_eq!(meet(&yes, &yes), (Agreed::Cooperating, Agreed::Cooperating));
    assert_eq!(meet(&yes, &no), (NOT_ASKED, NOTHING));
    assert_eq!(meet(&no, &yes), (NOTHING, NOT_ASKED));
    assert_eq!(meet(&no, &no), (NOTHING, NOTHING));
    let (other, none) = (stance(Trust::Cooperating, "two"), stance(Trust::Cooperating, ""));
    for (here, there) in [(&yes, &other), (&yes, &none), (&none, &yes)] {
        assert_eq!(meet(here, there), (OTHER_SECRET, OTHER_SECRET));
    }
    let unset = Stance { trust: Trust::Cooperating, ..Stance::default() };
    assert_eq!(meet(&none, &unset), (Agreed::Cooperating, Agreed::Cooperating));
}

/// Somebody who knocks without being a [`Knock`].
struct Liar {
    socket: Socket,
    acceptor: Acceptor,
}

impl Liar {
    fn greet(nonce: Nonce) -> Self {
        let name = unique("liar");
        let acceptor = Acceptor::open(&name, cooperating()).unwrap();
        let fd = seqpacket().unwrap();
        connect(&fd, &address(&name).unwrap()).unwrap();
        send_raw(&fd, &asking(Some(nonce)).encode(), &handles("").borrowed());
        Self { socket: Socket::new(fd), acceptor }
    }

    /// What the host wants to have proven, and its own proof.
    fn challenge(&mut self) -> (Nonce, Proof) {
        assert!(self.acceptor.poll_visitor(at(0), at(1)).unwrap().is_none());
        let Ok(Received::Packet(packet)) = self.socket.receive() else { panic!("no challenge") };
        let Answer::Challenge(nonce, proof) = Answer::decode(packet).unwrap() else { panic!() };
        (nonce, proof)
    }

    /// What the host makes of it.
    fn respond(mut self, response: &[u8]) -> Agreed {
        send_raw(&self.socket, response, &[]);
        self.acceptor.poll_visitor(at(0), at(1)).unwrap().expect("a response").agreed
    }
}

/// The host's own proof is no proof of its visitor.
pub(super) fn an_echo_is_refused() {
    let mut liar = Liar::greet(Nonce::new());
    let (_, proof) = liar.challenge();
    assert_eq!(liar.respond(&Response::Yes(proof).encode()), OTHER_SECRET);
}

/// A proof is good once, even if the visitor's part is the same again.
pub(super) fn a_replay_is_refused() {
    let nonce = Nonce::new();
    let mut honest = Liar::greet(nonce);
    let (theirs, proof) = honest.challenge();
    let peer = Peer::of(&honest.socket).unwrap();
    let mut asking = Asking::new(nonce, &cooperating().secret);
    let response = asking.respond(&peer, theirs, &proof).unwrap().encode();
    assert_eq!(honest.respond(&response), Agreed::Cooperating);

    let mut liar = Liar::greet(nonce);
    liar.challenge();
    assert_eq!(liar.respond(&response), OTHER_SECRET);
}

/// A yes alone is not enough.
pub(super) fn a_guess_is_refused() {
    let mut liar = Liar::greet(Nonce::new());
    liar.challenge();
    assert_eq!(liar.respond(&Response::Yes(Proof([0; 32])).encode()), OTHER_SECRET);
}

/// A connecting side that said yes, and the socket of whoever it said it to.
fn convinced() -> (Knock, Control) {
    let (near, far) = pair();
    let (nonce, host) = (Nonce::new(), cooperating());
    let knock = Knock::adopt_asking(near, nonce, &host.secret);
    let heard = host.hear(Some(nonce), far.peer());
    let Heard::Challenged(challenge) = heard else { panic!("{heard:?}") };
    let bytes = Answer::challenge(&challenge.listening, &host.show(&challenge));
    send_raw(&far.fd(), &bytes, &[]);
    let Answered::NotYet(knock) = knock.poll().unwrap() else { panic!("too early") };
    let Ok(Received::Packet(packet)) = far.receive() else { panic!("no response") };
    let response = Response::decode(&packet).unwrap();
    assert_eq!(host.settle(&challenge, response), Agreed::Cooperating);
    (knock, far)
}

fn answer(from: &Control, told: Agreed) {
    send_raw(&from.fd(), &Answer::accept(&terms(), told), &handles("").borrowed());
}

/// One side's yes is not the other's.
pub(super) fn the_hosts_verdict_counts() {
    let (knock, host) = convinced();
    let told = Agreed::Isolated(Some(WhyIsolated::ExecutableUnknown));
    answer(&host, told);
    let Answered::Accepted(accepted) = knock.poll().unwrap() else { panic!("no answer") };
    assert_eq!(accepted.agreed, told);
}

/// Whoever runs something else is not trusted, nor is one who runs no more.
pub(super) fn another_executable_is_seen() {
    let mut child = Stranger::start();
    let pid = Pid::from_child(&child.0);
    assert_eq!(Peer::process(pid).check_executable(), Err(WhyIsolated::OtherExecutable));
    let known = Peer::process(pid);
    child.0.kill().unwrap();
    assert!(becomes(&known.pidfd().unwrap(), PollFlags::IN, LONG));
    assert_eq!(known.check_executable(), Err(WhyIsolated::ExecutableUnknown), "not waited for");
    child.0.wait().unwrap();
    assert_eq!(known.check_executable(), Err(WhyIsolated::ExecutableUnknown));
}

/// A process that is not this program.
struct Stranger(Child);

impl Stranger {
    fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read line"]).stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn scenes_hold() {
    an_echo_is_refused();
    a_replay_is_refused();
    a_guess_is_refused();
    the_hosts_verdict_counts();
    another_executable_is_seen();
    let own = rustix::process::getpid();
    assert_eq!(Peer::process(own).check_executable(), Ok(()));
    assert_eq!(Peer::stranger().check_executable(), Err(WhyIsolated::ExecutableUnknown));
}

#[test]
fn a_no_counts_with_its_reason() {
    for why in [WhyIsolated::OtherExecutable, WhyIsolated::ExecutableUnknown] {
        let mut honest = Liar::greet(Nonce::new());
        honest.challenge();
        let agreed = honest.respond(&Response::No(why).encode());
        assert_eq!(agreed, Agreed::Isolated(Some(why)));
    }
}

#[test]
fn a_response_that_is_none_is_turned_away() {
    for response in [&b"\0"[..], b"\x06", b"\x01too short", &[1; 34], &[2, 0]] {
        let mut liar = Liar::greet(Nonce::new());
        liar.challenge();
        send_raw(&liar.socket, response, &[]);
        let away = liar.acceptor.poll_visitor(at(0), at(1)).unwrap_err();
        assert!(matches!(away.why, Turned::Hello(HelloError::Malformed(_))), "{away}");
        let Ok(Received::Packet(packet)) = liar.socket.receive() else { panic!("not told") };
        assert!(matches!(Answer::decode(packet).unwrap(), Answer::Refuse(Refusal::Hello(_))));
    }
}

#[test]
fn who_does_not_respond_is_sent_away_in_time() {
    let (wire, end) = Tripwire::new();
    let name = unique("mute");
    let mut acceptor = Acceptor::open(&name, cooperating()).unwrap();
    let fd = seqpacket().unwrap();
    connect(&fd, &address(&name).unwrap()).unwrap();
    send_raw(&fd, &asking(Some(Nonce::new())).encode(), &[end.as_fd(); 3]);
    drop(end);
    assert!(acceptor.poll_visitor(at(0), at(5)).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), Some(at(5)), "a challenge gives no more time");
    let away = acceptor.poll_visitor(at(5), at(9)).unwrap_err();
    assert_eq!(away.why, Turned::Silent);
    wire.assert_closed();
}

/// Says that the two cooperate, or are otherwise than they could be.
fn is_refused(knock: Knock) -> bool {
    matches!(knock.poll(), Err(KnockError::Hello(HelloError::Malformed(_))))
}

#[test]
fn a_host_that_claims_what_was_not_agreed_is_left() {
    let told = [
        (false, Agreed::Cooperating),
        (false, NOT_ASKED),
        (true, Agreed::Cooperating),
        (true, NOTHING),
    ];
    for (asks, told) in told {
        let (near, host) = pair();
        let secret = cooperating().secret;
        let knock = if asks {
            Knock::adopt_asking(near, Nonce::new(), &secret)
        } else {
            Knock::adopt(near)
        };
        answer(&host, told);
        assert!(is_refused(knock), "{asks} {told:?}");
    }
}

#[test]
fn a_host_that_challenges_at_the_wrong_time_is_left() {
    let bytes = Answer::challenge(&Nonce::new(), &Proof([0; 32]));
    let (near, host) = pair();
    send_raw(&host.fd(), &bytes, &[]);
    assert!(is_refused(Knock::adopt(near)), "nothing was asked for");
    let (knock, host) = convinced();
    send_raw(&host.fd(), &bytes, &[]);
    assert!(is_refused(knock), "a second time");
}

/// A host without the secret gets no proof out of its visitor.
#[test]
fn a_host_without_the_secret_is_shown_nothing() {
    let (near, host) = pair();
    let knock = Knock::adopt_asking(near, Nonce::new(), &cooperating().secret);
    send_raw(&host.fd(), &Answer::challenge(&Nonce::new(), &Proof([9; 32])), &[]);
    let Answered::NotYet(knock) = knock.poll().unwrap() else { panic!("too early") };
    let Ok(Received::Packet(packet)) = host.receive() else { panic!("no response") };
    assert_eq!(packet.bytes, Response::No(WhyIsolated::OtherSecret).encode());
    answer(&host, Agreed::Cooperating);
    assert!(is_refused(knock), "it said no");
}

#[test]
fn the_bytes_of_trust_are_these_for_ever() {
    let nonce = Nonce([1; 32]);
    let asks = asking(Some(nonce)).encode();
    assert!(asks.ends_with(&[&b"\x06caller\x01"[..], &[1; 32]].concat()), "{asks:?}");
    let challenge = [&b"EGRT\x04\0\x09"[..], &[1; 32], &[2; 32]].concat();
    assert_eq!(Answer::challenge(&nonce, &Proof([2; 32])), challenge);
    let read = Answer::decode(packet(&challenge)).unwrap();
    assert!(matches!(read, Answer::Challenge(n, p) if n == nonce && p == Proof([2; 32])));
    for (why, number) in [
        (WhyIsolated::PeerDidNotAsk, 2),
        (WhyIsolated::OtherExecutable, 3),
        (WhyIsolated::ExecutableUnknown, 4),
        (WhyIsolated::OtherSecret, 5),
    ] {
        assert_eq!(Response::No(why).encode(), [number]);
        let accept = Answer::accept(&terms(), Agreed::Isolated(Some(why)));
        assert_eq!(accept.last(), Some(&number));
    }
    assert_eq!(Answer::accept(&terms(), Agreed::Cooperating).last(), Some(&1));
    assert_eq!(Response::Yes(Proof([2; 32])).encode(), [&[1][..], &[2; 32]].concat());
}

fn packet(bytes: &[u8]) -> Packet {
    Packet { bytes: bytes.to_vec(), fds: Vec::new(), cut_off: false }
}

proptest! {
    /// Every byte string is a response in one way or an error.
    #[test]
    fn any_bytes_are_a_response_or_an_error(
        first in 0..8_u8,
        rest in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..4),
            proptest::collection::vec(any::<u8>(), 30..36),
        ],
        empty: bool,
    ) {
        let bytes = if empty { Vec::new() } else { [&[first][..], &rest].concat() };
        let is_right = match bytes.first() {
            Some(1) => bytes.len() == 33,
            Some(2..=5) => bytes.len() == 1,
            _ => false,
        };
        match Response::decode(&packet(&bytes)) {
            Ok(response) => prop_assert_eq!(response.encode(), bytes),
            Err(Malformed(said)) => prop_assert!(!is_right, "{}", said),
        }
    }

    #[test]
    fn a_challenge_is_read_as_it_was_written(nonce: [u8; 32], proof: [u8; 32], cut in 0..71_usize) {
        let bytes = Answer::challenge(&Nonce(nonce), &Proof(proof));
        let read = Answer::decode(packet(&bytes)).unwrap();
        let Answer::Challenge(n, p) = read else { panic!("{read:?}") };
        prop_assert_eq!((n, p), (Nonce(nonce), Proof(proof)));
        prop_assert!(Answer::decode(packet(&bytes[..cut])).is_err());
        prop_assert!(Answer::decode(packet(&[&bytes[..], b"x"].concat())).is_err());
    }
}
