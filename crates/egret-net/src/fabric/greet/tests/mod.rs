mod fuzzed;
mod meeting;
mod planted;
mod refusals;
mod secrets;
mod wire;

use super::talk::Fed;
use super::{Callee, Caller, GreetError, News, Stance};
use crate::vi::{Hello, HelloError, Nonce, Reliability, Secret};

fn hello() -> Hello {
    Hello { reliability: Reliability::Delivery, service: "grid".into(), tag: 7 }
}

fn stance(secret: &str) -> Stance {
    Stance::new("tcp", Secret::from(secret))
}

fn caller(secret: &str) -> Caller {
    Caller::with_nonce(stance(secret), hello(), b"terms of a", Nonce([1; 32]))
}

fn callee(secret: &str) -> Callee {
    Callee::with_nonce(stance(secret), Nonce([2; 32]))
}

/// All that is outgoing, which is sent.
fn said_by_caller(caller: &mut Caller) -> Vec<u8> {
    let said = caller.outgoing().to_vec();
    caller.sent(said.len());
    assert_eq!(caller.outgoing(), b"");
    said
}

fn said_by_callee(callee: &mut Callee) -> Vec<u8> {
    let said = callee.outgoing().to_vec();
    callee.sent(said.len());
    assert_eq!(callee.outgoing(), b"");
    said
}

/// The three steps up to a callee that knows what is asked for.
fn ask(caller: &mut Caller, callee: &mut Callee) -> Result<News, GreetError> {
    let opening = said_by_caller(caller);
    all(callee.feed(&opening), &opening)?;
    let opening = said_by_callee(callee);
    all(caller.feed(&opening), &opening)?;
    let asking = said_by_caller(caller);
    all(callee.feed(&asking), &asking)
}

/// The news of bytes that were all taken.
fn all(fed: Result<Fed, GreetError>, bytes: &[u8]) -> Result<News, GreetError> {
    let Fed { consumed, news } = fed?;
    assert_eq!(consumed, bytes.len());
    Ok(news)
}

const fn malformed(what: &'static str) -> GreetError {
    GreetError::Hello(HelloError::Malformed(what))
}
