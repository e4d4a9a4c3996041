//! Two sides that agree.

use proptest::prelude::*;

use super::*;
use crate::fabric::handshake::STEP_MAX;
use crate::fabric::handshake::exchange::TERMS_MAX;

#[test]
fn two_sides_meet() {
    for secret in ["", "egret"] {
        let (mut caller, mut callee) = (caller(secret), callee(secret));
        let news = ask(&mut caller, &mut callee).unwrap();
        let peer = identity(11).key();
        assert_eq!(
            news,
            HandshakeEvent::Hello { peer, hello: hello(), terms: b"terms of a".into() }
        );
        let session = callee.welcome(b"terms of b");
        assert_eq!(session.known.key, peer);
        let welcome = said_by_callee(&mut callee);
        let news = all(caller.feed(&welcome), &welcome).unwrap();
        assert_eq!(news, HandshakeEvent::Welcome { terms: b"terms of b".into() });
        assert_eq!(caller.outgoing(), b"");
        assert_eq!(caller.take_session().unwrap().known.key, identity(22).key());
    }
}

pub(super) fn what_follows_is_left_alone() {
    let (mut caller, mut callee) = (caller(""), callee(""));
    ask(&mut caller, &mut callee).unwrap();
    callee.welcome(b"");
    assert_eq!(callee.feed(b"data"), Ok(FedStep { consumed: 0, news: HandshakeEvent::Nothing }));
    let mut bytes = said_by_callee(&mut callee);
    let end = bytes.len();
    bytes.extend(b"data");
    let fed = caller.feed(&bytes).unwrap();
    assert_eq!(fed, FedStep { consumed: end, news: HandshakeEvent::Welcome { terms: vec![] } });
    assert_eq!(caller.feed(b"data"), Ok(FedStep { consumed: 0, news: HandshakeEvent::Nothing }));
}

#[test]
fn bytes_behind_the_end_are_left_alone() {
    what_follows_is_left_alone();
}

#[test]
fn the_longest_handshake_fits() {
    let hello = Hello { service: "s".repeat(255), ..hello() };
    let terms = vec![1; TERMS_MAX];
    let wanted = CallerRequest { hello: hello.clone(), terms: terms.clone(), ..wanted() };
    let mut caller = Caller::new(callers_stance("egret"), wanted);
    let mut callee = random_callee("egret");
    let news = ask(&mut caller, &mut callee).unwrap();
    assert_eq!(news, HandshakeEvent::Hello { peer: identity(11).key(), hello, terms });
    callee.welcome(&[2; TERMS_MAX]);
    let welcome = said_by_callee(&mut callee);
    let news = all(caller.feed(&welcome), &welcome).unwrap();
    assert_eq!(news, HandshakeEvent::Welcome { terms: vec![2; TERMS_MAX] });
    assert!(caller.held() + callee.held() <= 4 * STEP_MAX);
}

/// Over datagrams both may have to say a step again.
#[test]
fn a_step_can_be_repeated() {
    let (mut caller, mut callee) = (caller(""), callee(""));
    let opening = said_by_caller(&mut caller);
    caller.repeat();
    assert_eq!(said_by_caller(&mut caller), opening);
    assert!(!callee.has_heard(&opening));
    callee.feed(&opening).unwrap();
    let answer = said_by_callee(&mut callee);
    assert!(callee.has_heard(&opening));
    callee.repeat();
    assert_eq!(said_by_callee(&mut callee), answer);
    assert!(!caller.has_heard(&answer));
    caller.feed(&answer).unwrap();
    assert!(caller.has_heard(&answer) && !caller.has_heard(&opening));
    let asking = said_by_caller(&mut caller);
    assert!(matches!(callee.feed(&asking).unwrap().news, HandshakeEvent::Hello { .. }));
}

proptest! {
    #[test]
    fn any_pieces_will_do(pieces in proptest::collection::vec(1..40_usize, 1..20)) {
        let (mut caller, mut callee) = (caller("egret"), callee("egret"));
        let mut pieces = pieces.into_iter().cycle();
        let mut asked = None;
        loop {
            // A part of a step is written, and a part of that is read.
            let part = |bytes: &[u8], len: usize| bytes[..len.min(bytes.len())].to_vec();
            let to_callee = part(caller.outgoing(), pieces.next().unwrap());
            caller.sent(to_callee.len());
            let news = all(callee.feed(&to_callee), &to_callee).unwrap();
            if let HandshakeEvent::Hello { hello, terms, .. } = news {
                asked = Some((hello, terms));
                callee.welcome(b"terms of b");
            }
            let to_caller = part(callee.outgoing(), pieces.next().unwrap());
            callee.sent(to_caller.len());
            if let HandshakeEvent::Welcome { terms } = all(caller.feed(&to_caller), &to_caller).unwrap() {
                prop_assert_eq!(terms, b"terms of b");
                break;
            }
            prop_assert!(!(to_callee.is_empty() && to_caller.is_empty()), "they wait for ever");
        }
        prop_assert_eq!(asked, Some((hello(), b"terms of a".to_vec())));
    }
}
