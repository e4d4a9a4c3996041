//! Who is who, and who is worth a handshake.

use super::*;
use crate::fabric::seal::SealKeys;
use crate::vi::{KeyError, SecretError};

/// A caller that expects another key learns that somebody else answers, and says nothing more.
pub(super) fn another_key_is_refused() {
    let random = Credentials::new("tcp", Secret::random(), identity(11), Encrypt::BetweenMachines);
    // The impostor has the secret, and so can make the sign; the key is what it lacks.
    let expects = CallerRequest { key: Some(identity(33).key()), ..wanted() };
    let mut caller = Caller::new(random.clone(), expects);
    let secret = random.secret().clone();
    let impostor = Credentials::new("tcp", secret, identity(22), Encrypt::BetweenMachines);
    let mut callee = Callee::new(impostor, true);
    let opening = said_by_caller(&mut caller);
    // It takes any sign.
    let answer = answer_anyway(&mut callee, &opening, random.secret());
    assert_eq!(caller.feed(&answer), Err(HandshakeError::Key(KeyError::Other)));
    assert_eq!(caller.outgoing(), b"", "nothing that depends on the secret is said");
}

/// What a callee answers that does not mind signs: the sign is made anew for its own key.
fn answer_anyway(callee: &mut Callee, opening: &[u8], secret: &Secret) -> Vec<u8> {
    let own = Credentials::new("tcp", secret.clone(), identity(22), Encrypt::BetweenMachines);
    let mut opening = opening.to_vec();
    let sign = own.sign(Some(own.key()), &opening[28..]);
    opening[12..28].copy_from_slice(&sign.0);
    callee.feed(&opening).unwrap();
    said_by_callee(callee)
}

#[test]
fn a_caller_talks_to_whom_it_called() {
    another_key_is_refused();
}

/// What somebody chose could be guessed by whoever answers.
pub(super) fn a_chosen_secret_needs_a_key() {
    let chosen = credentials("correct horse", identity(11));
    assert_eq!(chosen.check_callee(None), Err(KeyError::Unknown));
    assert_eq!(chosen.check_callee(Some(identity(22).key())), Ok(()));
    assert_eq!(chosen.local().check_callee(None), Ok(()));
    let random = Credentials::new("tcp", Secret::random(), identity(11), Encrypt::Never);
    assert_eq!(random.check_callee(None), Ok(()));
    assert_eq!(credentials("", identity(11)).check_callee(None), Ok(()));
}

#[test]
fn a_secret_that_can_be_guessed_is_proven_to_a_known_key_only() {
    a_chosen_secret_needs_a_key();
}

/// Two handshakes with different secrets and the same keys differ in nothing that is said before
/// the caller knows whom it talks to, nor in what the callee says to a caller that proves nothing.
#[test]
fn there_is_nothing_to_guess_from() {
    let said = |secret: &str| {
        let (mut caller, mut callee) = (caller(secret), callee(secret));
        let opening = said_by_caller(&mut caller);
        callee.feed(&opening).unwrap();
        (opening, said_by_callee(&mut callee))
    };
    assert_eq!(said("correct horse"), said("battery staple"));
}

/// Who knows neither key nor secret is told apart before any handshake.
pub(super) fn a_stranger_is_worth_two_hashes() {
    let secret = Secret::random();
    let of = |secret: &Secret, byte| {
        Credentials::new("tcp", secret.clone(), identity(byte), Encrypt::BetweenMachines)
    };
    let unknown = CallerRequest { key: None, ..wanted() };
    for (caller, is_known) in [
        (Caller::new(of(&secret, 11), unknown.clone()), true),
        (Caller::new(of(&secret, 11), wanted()), true),
        (Caller::new(of(&Secret::random(), 11), wanted()), true),
        (Caller::new(of(&Secret::random(), 11), unknown), false),
        (
            Caller::new(
                of(&secret, 11),
                CallerRequest { key: Some(identity(33).key()), ..wanted() },
            ),
            false,
        ),
    ] {
        let mut callee = Callee::new(of(&secret, 22), true);
        let fed = callee.feed(caller.outgoing()).map(|fed| fed.news);
        let refused = Err(HandshakeError::Secret(SecretError::Stranger));
        assert_eq!(fed, if is_known { Ok(HandshakeEvent::Nothing) } else { refused });
    }
}

#[test]
fn strangers_are_told_apart_by_their_sign() {
    a_stranger_is_worth_two_hashes();
}

/// Whether both have the keys of a connection, one of which is plain if both would.
fn keys(callers_plain: bool, callees_plain: bool) -> (Option<SealKeys>, Option<SealKeys>) {
    let wanted = CallerRequest { is_plain: callers_plain, ..wanted() };
    let mut caller = Caller::new(credentials("egret", identity(11)), wanted);
    let mut callee = Callee::new(credentials("egret", identity(22)), callees_plain);
    ask(&mut caller, &mut callee).unwrap();
    let callees = callee.welcome(b"").keys;
    caller.feed(&said_by_callee(&mut callee)).unwrap();
    (caller.take_session().unwrap().keys, callees)
}

pub(super) fn one_side_is_enough_to_seal() {
    assert!(matches!(keys(true, true), (None, None)));
    for (callers, callees) in [(true, false), (false, true), (false, false)] {
        let (Some(callers), Some(callees)) = keys(callers, callees) else {
            panic!("{callers} {callees}");
        };
        assert_eq!(callers.outgoing.bytes(), callees.incoming.bytes());
        assert_eq!(callers.incoming.bytes(), callees.outgoing.bytes());
        assert_ne!(callers.incoming.bytes(), callers.outgoing.bytes());
    }
}

#[test]
fn a_connection_is_sealed_unless_both_sides_would_have_it_plain() {
    one_side_is_enough_to_seal();
}

/// Somebody in between says that the caller would have it plain.
pub(super) fn a_downgrade_is_noticed() {
    let wanted = CallerRequest { is_plain: false, ..wanted() };
    let mut caller = Caller::new(credentials("egret", identity(11)), wanted);
    let mut callee = random_callee("egret");
    let mut opening = said_by_caller(&mut caller);
    assert_eq!(opening[9], 1);
    opening[9] = 3;
    assert_eq!(callee.feed(&opening), Err(malformed("a step that was changed on its way")));
}

#[test]
fn a_downgrade_to_plain_is_noticed() {
    a_downgrade_is_noticed();
}

/// Two connections of the same two ends: whoever has the keys of one opens nothing of the other.
pub(super) fn another_connection_has_other_keys() {
    let (one, other) = (keys(false, false).0.unwrap(), keys(false, false).0.unwrap());
    assert_ne!(one.outgoing.bytes(), other.outgoing.bytes());
    assert_ne!(one.incoming.bytes(), other.incoming.bytes());
}

#[test]
fn keys_are_of_one_connection() {
    another_connection_has_other_keys();
}

#[test]
fn loopback_is_plain_unless_it_is_to_be_sealed() {
    let of = |encrypt| Credentials::new("tcp", Secret::none(), identity(1), encrypt);
    let (here, there) = ("127.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap());
    let mapped = "::ffff:127.0.0.1".parse().unwrap();
    let default = of(Encrypt::default());
    assert!(
        default.is_plain_to(here) && default.is_plain_to(mapped) && !default.is_plain_to(there)
    );
    assert!(!of(Encrypt::Always).is_plain_to(here));
    assert!(of(Encrypt::Never).is_plain_to(there));
}
