//! Only who has the secret is believed.

use super::*;
use crate::fabric::greet::Refusal;
use crate::vi::SecretError;

/// What both learn if they have these secrets.
fn learn(callers: &str, callees: &str) -> (GreetError, GreetError) {
    let (mut caller, mut callee) = (caller(callers), callee(callees));
    let callees = ask(&mut caller, &mut callee).expect_err("they have different secrets");
    let said = said_by_callee(&mut callee);
    let callers = caller.feed(&said).unwrap_err();
    (callers, callees)
}

pub(super) fn another_secret_is_refused() {
    let (callers, callees) = learn("one", "two");
    assert_eq!(callees, GreetError::Secret(SecretError::Different));
    assert_eq!(callers, GreetError::Refused(Refusal::Secret(SecretError::Different)));
}

#[test]
fn the_secret_must_be_the_same() {
    another_secret_is_refused();
}

#[test]
fn both_need_a_secret_or_none() {
    let only = |why| (GreetError::Refused(Refusal::Secret(why)), why);
    let (callers, callees) = learn("one", "");
    assert_eq!(callees, GreetError::Secret(SecretError::OnlyTheirs));
    assert_eq!(callers, only(SecretError::OnlyOurs).0);
    let (callers, callees) = learn("", "one");
    assert_eq!(callees, GreetError::Secret(SecretError::OnlyOurs));
    assert_eq!(callers, only(SecretError::OnlyTheirs).0);
}

/// A callee without the secret shows a caller the caller's own proof.
pub(super) fn an_echo_is_refused() {
    let (mut caller, mut honest) = (caller("egret"), callee("egret"));
    let opening = said_by_caller(&mut caller);
    honest.feed(&opening).unwrap();
    let theirs = said_by_callee(&mut honest);
    caller.feed(&theirs).unwrap();
    let mut echo = said_by_caller(&mut caller);
    for kind in [3, 4] {
        echo[8..10].copy_from_slice(&[kind, kind - 3]);
        let (mut caller, mut honest) = (super::caller("egret"), callee("egret"));
        honest.feed(&said_by_caller(&mut caller)).unwrap();
        caller.feed(&said_by_callee(&mut honest)).unwrap();
        said_by_caller(&mut caller);
        assert!(caller.feed(&echo).is_err());
    }
    // The words are the same, so only the side tells the proofs apart.
    let stance = stance("egret");
    let said = crate::fabric::greet::proof::Said::openings(&stance, Nonce([1; 32]), Nonce([1; 32]));
    let shown = stance.prove(&said, crate::vi::Side::Connecting);
    assert!(stance.check(&said, crate::vi::Side::Listening, &shown).is_err());
}

#[test]
fn a_proof_is_not_good_for_the_other_side() {
    an_echo_is_refused();
}

/// Whoever has listened says the same again.
pub(super) fn a_replay_is_refused() {
    let mut caller = Caller::new(stance("egret"), hello(), b"");
    let mut callee = Callee::new(stance("egret"));
    let opening = said_by_caller(&mut caller);
    callee.feed(&opening).unwrap();
    caller.feed(&said_by_callee(&mut callee)).unwrap();
    let asking = said_by_caller(&mut caller);
    assert!(matches!(callee.feed(&asking).unwrap().news, News::Hello { .. }));

    let mut callee = Callee::new(stance("egret"));
    callee.feed(&opening).unwrap();
    said_by_callee(&mut callee);
    assert_eq!(callee.feed(&asking), Err(GreetError::Secret(SecretError::Different)));
}

#[test]
fn a_proof_is_good_once() {
    a_replay_is_refused();
}

#[test]
fn a_proof_is_good_on_one_fabric() {
    let mut caller = caller("egret");
    let mut callee = Callee::new(Stance::new("udp", Secret::from("egret")));
    let error = ask(&mut caller, &mut callee).unwrap_err();
    assert_eq!(error, GreetError::Secret(SecretError::Different));
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
                    Ok(Fed { news: News::Hello { .. }, .. }) => callee.welcome(b"terms of b"),
                    Ok(Fed { news: News::Welcome { .. }, .. }) => {
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
fn the_secret_is_not_told() {
    let (mut caller, mut callee) = (caller("correct horse"), callee("correct horse"));
    let mut told = format!("{caller:?} {callee:?}").into_bytes();
    told.extend(caller.outgoing());
    ask(&mut caller, &mut callee).unwrap();
    callee.welcome(b"");
    told.extend(callee.outgoing());
    assert!(!told.windows(13).any(|text| text == b"correct horse"));
}
