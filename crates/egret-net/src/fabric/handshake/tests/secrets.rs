//! Only who has the secret is believed.

use super::*;
use crate::fabric::handshake::ConnectRefusal;
use crate::fabric::seal::{Opener, SealError, SealKeys, Sealer};
use crate::vi::SecretError;

/// What both learn if they have these secrets.
fn learn(callers: &str, callees: &str) -> (HandshakeError, HandshakeError) {
    let (mut caller, mut callee) = (caller(callers), callee(callees));
    let callees = ask(&mut caller, &mut callee).expect_err("they have different secrets");
    let said = said_by_callee(&mut callee);
    let callers = caller.feed(&said).unwrap_err();
    (callers, callees)
}

pub(super) fn another_secret_is_refused() {
    let (callers, callees) = learn("one", "two");
    assert_eq!(callees, HandshakeError::Secret(SecretError::Different));
    assert_eq!(callers, HandshakeError::Refused(ConnectRefusal::Secret(SecretError::Different)));
}

#[test]
fn the_secret_must_be_the_same() {
    another_secret_is_refused();
}

#[test]
fn both_need_a_secret_or_none() {
    let only = |why| (HandshakeError::Refused(ConnectRefusal::Secret(why)), why);
    let (callers, callees) = learn("one", "");
    assert_eq!(callees, HandshakeError::Secret(SecretError::OnlyTheirs));
    assert_eq!(callers, only(SecretError::OnlyOurs).0);
    let (callers, callees) = learn("", "one");
    assert_eq!(callees, HandshakeError::Secret(SecretError::OnlyOurs));
    assert_eq!(callers, only(SecretError::OnlyTheirs).0);
}

/// What a caller says, shown to it again: its steps, and the first record behind them.
pub(super) fn an_echo_is_refused() {
    let changed = || Err(malformed("a step that was changed on its way"));
    let mut opened = caller("egret");
    let mut opening = said_by_caller(&mut opened);
    opening[9] = 0;
    assert_eq!(opened.feed(&opening), changed(), "its opening");
    // As long as the opening of a callee, so that its key is taken for that of the callee.
    let mut opened = caller("egret");
    let mut opening = said_by_caller(&mut opened);
    opening.drain(12..28);
    opening.resize(callees_opening().len(), 0);
    opening[9] = 0;
    opening[10..12].copy_from_slice(&callees_opening()[10..12]);
    assert_eq!(opened.feed(&opening), changed(), "its key");

    let no_reason = Err(malformed("an unknown reason"));
    for (kind, flags, error) in [(3, 0, changed()), (4, 1, changed()), (4, 0, no_reason)] {
        let (mut caller, mut honest) = (caller("egret"), callee("egret"));
        honest.feed(&said_by_caller(&mut caller)).unwrap();
        caller.feed(&said_by_callee(&mut honest)).unwrap();
        let mut asking = said_by_caller(&mut caller);
        asking[8..10].copy_from_slice(&[kind, flags]);
        assert_eq!(caller.feed(&asking), error, "its asking as {kind}, {flags}");
    }

    let mut caller = caller("egret");
    let mut honest = Callee::new(callees_stance("egret"), false);
    ask(&mut caller, &mut honest).unwrap();
    honest.welcome(b"");
    caller.feed(&said_by_callee(&mut honest)).unwrap();
    let SealKeys { outgoing, incoming } = caller.take_session().unwrap().keys.unwrap();
    let mut record = *b"to the callee";
    let tag = Sealer::new(outgoing).seal(b"", &mut record).unwrap();
    let echo = Opener::new(incoming).open(b"", &mut record, &tag);
    assert_eq!(echo, Err(SealError::Forged), "its record");
}

/// What a callee answers to an opening.
fn callees_opening() -> Vec<u8> {
    let mut callee = callee("egret");
    callee.feed(&said_by_caller(&mut caller("egret"))).unwrap();
    said_by_callee(&mut callee)
}

#[test]
fn a_step_is_not_good_for_the_other_side() {
    an_echo_is_refused();
}

/// A nic that connects to itself is both sides, and is not mistaken in who is which.
#[test]
fn one_who_calls_itself_is_answered() {
    let own = credentials("egret", identity(22));
    let mut caller = Caller::new(own.clone(), wanted());
    let mut callee = Callee::new(own.clone(), true);
    let news = ask(&mut caller, &mut callee).unwrap();
    assert!(matches!(news, HandshakeEvent::Hello { peer, .. } if peer == own.key()), "{news:?}");
    callee.welcome(b"");
    assert!(caller.feed(&said_by_callee(&mut callee)).is_ok());
    assert_eq!(caller.take_session().unwrap().known.key, own.key());
}

/// Whoever has listened says the same again.
pub(super) fn a_replay_is_refused() {
    let (mut caller, mut callee) = (random_caller("egret"), random_callee("egret"));
    let opening = said_by_caller(&mut caller);
    callee.feed(&opening).unwrap();
    let answer = said_by_callee(&mut callee);
    caller.feed(&answer).unwrap();
    let asking = said_by_caller(&mut caller);
    assert!(matches!(callee.feed(&asking).unwrap().news, HandshakeEvent::Hello { .. }));

    let mut callee = random_callee("egret");
    callee.feed(&opening).unwrap();
    said_by_callee(&mut callee);
    assert_eq!(callee.feed(&asking), Err(HandshakeError::Secret(SecretError::Different)));

    let mut caller = random_caller("egret");
    said_by_caller(&mut caller);
    assert_eq!(caller.feed(&answer), Err(malformed("a step that was changed on its way")));
}

#[test]
fn a_step_is_good_once() {
    a_replay_is_refused();
}

/// Whoever says again what a caller has said costs a nic no handshake, and is told to ask anew.
pub(super) fn an_opening_is_worth_one_handshake() {
    let nic = credentials("egret", identity(22));
    let opening = said_by_caller(&mut random_caller("egret"));
    let mut first = Callee::new(nic.clone(), true);
    assert!(Callee::is_worth(&nic, &opening));
    first.feed(&opening).unwrap();
    assert!(!first.is_silent());
    for _ in 0..100 {
        assert!(!Callee::is_worth(&nic, &opening));
        let mut again = Callee::new(nic.clone(), true);
        assert_eq!(again.feed(&opening), Err(HandshakeError::Repeated));
        let refusal = said_by_callee(&mut again);
        let why = random_caller("egret").feed(&refusal).unwrap_err();
        assert_eq!(why, HandshakeError::Refused(ConnectRefusal::Crowded));
        assert_eq!(why.into_error(Reliability::Delivery), None);
    }
    assert_eq!(nic.handshakes(), 1);
    // An honest one goes on beside them.
    let (mut caller, mut callee) = (random_caller("egret"), Callee::new(nic.clone(), true));
    assert!(matches!(ask(&mut caller, &mut callee), Ok(HandshakeEvent::Hello { .. })));
    assert_eq!(nic.handshakes(), 2);
}

#[test]
fn what_was_recorded_costs_no_handshake() {
    an_opening_is_worth_one_handshake();
}

#[test]
fn a_step_is_good_on_one_fabric() {
    let mut caller = caller("egret");
    let udp =
        Credentials::new("udp", Secret::from("egret"), identity(22), Encrypt::BetweenMachines);
    let mut callee = Callee::new(udp, true);
    let error = ask(&mut caller, &mut callee).unwrap_err();
    assert_eq!(error, malformed("a step that was changed on its way"));
}

/// Every byte of every step matters: whichever is changed, nothing comes of it.
pub(super) fn a_changed_byte_is_refused() {
    for number in 0..4 {
        for at in 0.. {
            let (mut caller, mut callee) = (caller("egret"), callee("egret"));
            let mut fails = false;
            let mut is_there = true;
            for step in 0..4 {
                let is_callers = step % 2 == 0;
                let mut said = if is_callers {
                    said_by_caller(&mut caller)
                } else {
                    said_by_callee(&mut callee)
                };
                if step == number {
                    is_there = at < said.len();
                    said.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x10);
                }
                let fed = if is_callers { callee.feed(&said) } else { caller.feed(&said) };
                match fed {
                    Ok(FedStep { news: HandshakeEvent::Hello { .. }, .. }) => {
                        callee.welcome(b"terms of b");
                    }
                    Ok(FedStep { news: HandshakeEvent::Welcome { .. }, .. }) => {
                        assert!(!is_there, "{number}, {at}");
                    }
                    Ok(_) => {}
                    Err(_) => fails = true,
                }
                if fails {
                    break;
                }
            }
            if !is_there {
                assert!(!fails);
                break;
            }
        }
    }
}

#[test]
fn whatever_is_changed_is_refused() {
    a_changed_byte_is_refused();
}

#[test]
fn the_secret_is_not_revealed() {
    let (mut caller, mut callee) = (caller("correct horse"), callee("correct horse"));
    let mut told = format!("{caller:?} {callee:?}").into_bytes();
    told.extend(caller.outgoing());
    ask(&mut caller, &mut callee).unwrap();
    callee.welcome(b"");
    told.extend(callee.outgoing());
    assert!(!told.windows(13).any(|text| text == b"correct horse"));
}
