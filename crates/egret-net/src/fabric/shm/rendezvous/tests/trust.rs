//! Who becomes a cooperating peer, and who only says so.

use std::process::{Child, Command, Stdio};

use proptest::prelude::*;
use rustix::net::connect;
use rustix::process::Pid;

use super::super::name::address;
use super::super::offer::AcceptOffer;
use super::super::trust::{CooperationReply, ProcessPair};
use super::*;
use crate::fabric::common::bytes::ByteReader;
use crate::fabric::handshake::{Callee, Caller, CallerRequest, HandshakeEvent};
use crate::fabric::shm::socket::ReceivedPacket;
use crate::fabric::shm::socket::seqpacket;
use crate::vi::{HelloError, SecretError, WhyIsolated};

const NOT_ASKED: AgreedTrust = AgreedTrust::Isolated(Some(WhyIsolated::PeerDidNotAsk));
const NOTHING: AgreedTrust = AgreedTrust::Isolated(None);

fn cooperating() -> ShmRequirements {
    stance(Trust::Cooperating, "one")
}

/// What the two sides make of each other, the connecting one first; or why each has nothing to do
/// with the other.
fn meet(
    caller: &ShmRequirements,
    host: &ShmRequirements,
) -> Result<(AgreedTrust, AgreedTrust), (HandshakeAttemptError, RefusedPeerCause)> {
    let name = unique("trust");
    let mut acceptor = Acceptor::open(&name, host.clone()).unwrap();
    let mine = handles("");
    let mut attempt = started_attempt(HandshakeAttempt::start(call(&name), caller).unwrap());
    for _ in 0..2 {
        match acceptor.poll_proven_peer(at(0), at(1)) {
            Ok(None) => attempt = not_yet(attempt, &mine),
            Ok(Some(visitor)) => {
                let theirs = visitor.agreed;
                let (_control, _) = visitor.accept(&terms(), lend(&mine)).unwrap();
                return Ok((accepted(attempt, &mine).agreed, theirs));
            }
            Err(away) => return Err((attempt.poll(lend(&mine)).unwrap_err(), away.why)),
        }
    }
    panic!("two packets are all that a caller says")
}

#[test]
fn both_must_ask() {
    let (yes, no) = (cooperating, || stance(Trust::Isolated, "one"));
    assert_eq!(meet(&yes(), &yes()), Ok((AgreedTrust::Cooperating, AgreedTrust::Cooperating)));
    assert_eq!(meet(&yes(), &no()), Ok((NOT_ASKED, NOTHING)));
    assert_eq!(meet(&no(), &yes()), Ok((NOTHING, NOT_ASKED)));
    assert_eq!(meet(&no(), &no()), Ok((NOTHING, NOTHING)));
    let none = || stance(Trust::Cooperating, "");
    assert_eq!(meet(&none(), &none()), Ok((AgreedTrust::Cooperating, AgreedTrust::Cooperating)));
}

#[test]
fn both_must_have_the_secret() {
    let text = Secret::random().reveal().unwrap();
    let [one, other, none, random] =
        ["one", "two", "", text.as_str()].map(|secret| stance(Trust::Cooperating, secret));
    for (here, there, told, found) in [
        (&one, &other, SecretError::Different, SecretError::Different),
        (&one, &none, SecretError::OnlyOurs, SecretError::OnlyTheirs),
        (&none, &one, SecretError::OnlyTheirs, SecretError::OnlyOurs),
        // The sign of a caller is not that of a secret which nobody can guess.
        (&one, &random, SecretError::Stranger, SecretError::Stranger),
        (&random, &one, SecretError::Stranger, SecretError::Stranger),
    ] {
        let why = (refused(ConnectRefusal::Secret(told)), HandshakeError::from(found).into());
        assert_eq!(meet(here, there), Err(why));
    }
    let same = stance(Trust::Cooperating, text.as_str());
    assert_eq!(meet(&same, &random), Ok((AgreedTrust::Cooperating, AgreedTrust::Cooperating)));
}

/// A caller that is no [`HandshakeAttempt`], and says what it likes beside its hello.
struct Liar {
    control: ControlSocket,
    caller: Caller,
    acceptor: Acceptor,
}

impl Liar {
    /// It has opened, and so has the host.
    fn start_handshake(terms: Vec<u8>) -> Self {
        let name = unique("liar");
        let mut acceptor = Acceptor::open(&name, cooperating()).unwrap();
        let fd = seqpacket().unwrap();
        connect(&fd, &address(&name).unwrap()).unwrap();
        let wanted = CallerRequest { hello: hello(), terms, key: None, is_plain: true };
        let mut caller = Caller::new(cooperating().handshake, wanted);
        let control = control_of(fd);
        send_raw(&control.fd(), &said(&mut caller), &[]);
        assert!(acceptor.poll_proven_peer(at(0), at(1)).unwrap().is_none());
        assert_eq!(caller.feed_step(&heard(&control)), Ok(HandshakeEvent::Nothing));
        Self { control, caller, acceptor }
    }

    /// What the host makes of what it asks for.
    fn ask(&mut self) -> Result<AgreedTrust, RefusedPeerCause> {
        send_raw(&self.control.fd(), &said(&mut self.caller), &handles("").borrowed());
        match self.acceptor.poll_proven_peer(at(0), at(1)) {
            Ok(visitor) => Ok(visitor.expect("it has asked").agreed),
            Err(away) => Err(away.why),
        }
    }
}

fn said(caller: &mut Caller) -> Vec<u8> {
    let step = caller.outgoing().to_vec();
    caller.sent(step.len());
    step
}

fn heard(from: &ControlSocket) -> Vec<u8> {
    let Ok(ReceivedPacket::Packet(packet)) = from.receive() else { panic!("nothing was said") };
    packet.bytes
}

#[test]
fn a_no_counts_with_its_reason() {
    for why in [WhyIsolated::OtherExecutable, WhyIsolated::ExecutableUnknown] {
        let said = ConnectOffer { wish: CooperationRequest::No(why), ..handshake("liar") };
        let agreed = Liar::start_handshake(said.encode()).ask();
        assert_eq!(agreed, Ok(AgreedTrust::Isolated(Some(why))));
    }
}

/// Who believes that it talks to others than these two is not trusted.
#[test]
fn both_must_mean_the_same_two_processes() {
    let own = rustix::process::getpid().as_raw_pid();
    for (connecting, listening) in [(own, own + 1), (own + 1, own), (0, 0)] {
        let wish = CooperationRequest::Yes(ProcessPair { connecting, listening });
        let said = ConnectOffer { wish, ..handshake("liar") };
        let agreed = Liar::start_handshake(said.encode()).ask();
        assert_eq!(agreed, Ok(AgreedTrust::Isolated(Some(WhyIsolated::OtherProcess))));
    }
}

#[test]
fn a_wish_that_is_none_is_turned_away() {
    let without = handshake("liar").encode();
    let without = &without[..without.len() - 1];
    for wish in [&b""[..], b"\x06", b"\x01", b"\x01too short", &[1; 10], &[2, 0]] {
        let mut liar = Liar::start_handshake([without, wish].concat());
        let away = liar.ask().unwrap_err();
        let is_malformed = matches!(
            away,
            RefusedPeerCause::Handshake(HandshakeError::Hello(HelloError::Malformed(_)))
        );
        assert!(is_malformed, "{away}");
        let told = liar.caller.feed_step(&heard(&liar.control)).unwrap_err();
        assert!(matches!(told, HandshakeError::Refused(ConnectRefusal::Hello(_))), "{told}");
    }
}

/// A host that answers what it likes. Both have said all but that.
struct Host {
    control: ControlSocket,
    callee: Callee,
}

impl Host {
    fn asked(
        by: &ShmRequirements,
        caller: ControlSocket,
        control: ControlSocket,
    ) -> (HandshakeAttempt, Self, CooperationRequest) {
        let mut callee = Callee::new(cooperating().handshake, true);
        let mine = handles("");
        let attempt = handshake_over(caller, by);
        assert_eq!(callee.feed_step(&heard(&control)), Ok(HandshakeEvent::Nothing));
        send_raw(&control.fd(), callee.outgoing(), &[]);
        callee.sent(callee.outgoing().len());
        let attempt = not_yet(attempt, &mine);
        let Ok(ReceivedPacket::Packet(mut packet)) = control.receive() else { panic!("not asked") };
        let news = callee.feed_step(&packet.bytes).unwrap();
        let HandshakeEvent::Hello { terms, .. } = news else { panic!("{news:?}") };
        let wish = ConnectOffer::decode(&terms, &mut packet).unwrap().0.wish;
        (attempt, Self { control, callee }, wish)
    }

    fn answer(&mut self, told: AgreedTrust) {
        let acceptance = AcceptOffer { terms: terms(), verdict: CooperationReply(told) };
        self.callee.welcome(&acceptance.encode());
        send_raw(&self.control.fd(), self.callee.outgoing(), &handles("").borrowed());
    }
}

/// One that a caller of this program has asked.
fn asked(by: &ShmRequirements) -> (HandshakeAttempt, Host, CooperationRequest) {
    let (near, far) = pair();
    Host::asked(by, near, far)
}

/// One side's yes is not the other's.
pub(super) fn the_hosts_verdict_counts() {
    let (attempt, mut host, wish) = asked(&cooperating());
    let own = rustix::process::getpid().as_raw_pid();
    assert_eq!(wish, CooperationRequest::Yes(ProcessPair { connecting: own, listening: own }));
    let told = AgreedTrust::Isolated(Some(WhyIsolated::ExecutableUnknown));
    host.answer(told);
    assert_eq!(accepted(attempt, &handles("")).agreed, told);
}

/// A caller that does not know what its host runs asks, and says no.
fn unconvinced() -> (HandshakeAttempt, Host) {
    let (near, far) = sockets();
    let near = ControlSocket::new(PacketSocket::new(near), PeerProcess::stranger());
    let (attempt, host, wish) = Host::asked(&cooperating(), near, control_of(far));
    assert_eq!(wish, CooperationRequest::No(WhyIsolated::ExecutableUnknown));
    (attempt, host)
}

fn is_malformed(attempt: HandshakeAttempt) -> bool {
    let why = attempt.poll(lend(&handles(""))).unwrap_err();
    matches!(why, HandshakeAttemptError::Handshake(HandshakeError::Hello(HelloError::Malformed(_))))
}

#[test]
fn a_host_that_claims_what_was_not_agreed_is_left() {
    for told in [AgreedTrust::Cooperating, NOT_ASKED] {
        let (attempt, mut host, wish) = asked(&stance(Trust::Isolated, "one"));
        assert_eq!(wish, CooperationRequest::Nothing);
        host.answer(told);
        assert!(is_malformed(attempt), "nothing was asked for: {told:?}");
    }
    let (attempt, mut host, _) = asked(&cooperating());
    host.answer(NOTHING);
    assert!(is_malformed(attempt), "it was asked");
    for told in [AgreedTrust::Cooperating, NOTHING] {
        let (attempt, mut host) = unconvinced();
        host.answer(told);
        assert!(is_malformed(attempt), "the caller said no: {told:?}");
    }
    let (attempt, mut host) = unconvinced();
    host.answer(AgreedTrust::Isolated(Some(WhyIsolated::ExecutableUnknown)));
    let agreed = accepted(attempt, &handles("")).agreed;
    assert_eq!(agreed, AgreedTrust::Isolated(Some(WhyIsolated::ExecutableUnknown)));
}

#[test]
fn a_host_that_speaks_at_the_wrong_time_is_left() {
    let (near, far) = pair();
    let attempt = handshake_over(near, &cooperating());
    send_raw(&far.fd(), b"EGRT\x02\x01\x05\0\x03\0\0\0", &[]);
    assert!(is_malformed(attempt), "a welcome that nobody asked for");
    let (attempt, host, _) = asked(&cooperating());
    // What it said before, again.
    let mut callee = host.callee;
    callee.repeat();
    send_raw(&host.control.fd(), callee.outgoing(), &[]);
    assert!(is_malformed(attempt), "a second opening");
}

/// A host without the secret learns nothing of what is asked, and its yes is none.
#[test]
fn a_host_without_the_secret_is_left() {
    let (near, far) = pair();
    let attempt = handshake_over(near, &cooperating());
    let mut host = Callee::new(stance(Trust::Cooperating, "two").handshake, true);
    assert_eq!(host.feed_step(&heard(&far)), Ok(HandshakeEvent::Nothing));
    send_raw(&far.fd(), host.outgoing(), &[]);
    host.sent(host.outgoing().len());
    let attempt = not_yet(attempt, &handles(""));
    assert_eq!(host.feed_step(&heard(&far)), Err(SecretError::Different.into()));
    let welcome =
        AcceptOffer { terms: terms(), verdict: CooperationReply(AgreedTrust::Cooperating) }
            .encode();
    let len = u16::try_from(welcome.len()).unwrap().to_le_bytes();
    let forged = [&b"EGRT\x02\x01\x05\0\x03\0"[..], &len, &welcome].concat();
    send_raw(&far.fd(), &forged, &handles("").borrowed());
    assert!(is_malformed(attempt));
}

/// Whoever runs something else is not trusted, nor is one who runs no more.
pub(super) fn another_executable_is_seen() {
    let mut child = Stranger::start();
    let pid = Pid::from_child(&child.0);
    assert_eq!(PeerProcess::process(pid).check_executable(), Err(WhyIsolated::OtherExecutable));
    let known = PeerProcess::process(pid);
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
    the_hosts_verdict_counts();
    another_executable_is_seen();
    let own = rustix::process::getpid();
    assert_eq!(PeerProcess::process(own).check_executable(), Ok(()));
    assert_eq!(PeerProcess::stranger().check_executable(), Err(WhyIsolated::ExecutableUnknown));
}

fn bytes_of(wish: CooperationRequest) -> Vec<u8> {
    let mut bytes = Vec::new();
    wish.push(&mut bytes);
    bytes
}

#[test]
fn the_bytes_of_trust_are_these_for_ever() {
    assert_eq!(bytes_of(CooperationRequest::Nothing), [0]);
    let processes = ProcessPair { connecting: 0x0102, listening: 0x0304_0506 };
    assert_eq!(bytes_of(CooperationRequest::Yes(processes)), b"\x01\x02\x01\0\0\x06\x05\x04\x03");
    let told = |agreed| {
        let mut bytes = Vec::new();
        CooperationReply(agreed).push(&mut bytes);
        bytes
    };
    for (why, number) in [
        (WhyIsolated::PeerDidNotAsk, 2),
        (WhyIsolated::OtherExecutable, 3),
        (WhyIsolated::ExecutableUnknown, 4),
        (WhyIsolated::OtherProcess, 5),
    ] {
        assert_eq!(bytes_of(CooperationRequest::No(why)), [number]);
        assert_eq!(told(AgreedTrust::Isolated(Some(why))), [number]);
    }
    assert_eq!((told(NOTHING), told(AgreedTrust::Cooperating)), (vec![0], vec![1]));
}

proptest! {
    /// Every byte string is a wish in one way or an error.
    #[test]
    fn any_bytes_are_a_wish_or_an_error(
        first in 0..8_u8,
        rest in proptest::collection::vec(any::<u8>(), 0..12),
        empty: bool,
    ) {
        let bytes = if empty { Vec::new() } else { [&[first][..], &rest].concat() };
        let is_right = match bytes.first() {
            Some(1) => bytes.len() == 9,
            Some(0 | 2..=5) => bytes.len() == 1,
            _ => false,
        };
        let mut reader = ByteReader::new(&bytes);
        match CooperationRequest::read(&mut reader).and_then(|wish| reader.end().map(|()| wish)) {
            Ok(wish) => prop_assert_eq!(bytes_of(wish), bytes),
            Err(Malformed(said)) => prop_assert!(!is_right, "{}", said),
        }
    }
}
