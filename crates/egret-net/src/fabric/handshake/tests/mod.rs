mod fuzzed;
mod keys;
mod meeting;
mod planted;
mod refusals;
mod secrets;
mod wire;

use super::exchange::FedStep;
use super::{Callee, Caller, CallerRequest, Credentials, HandshakeError, HandshakeEvent};
use crate::vi::{Encrypt, Hello, HelloError, Identity, Reliability, Secret};

fn hello() -> Hello {
    Hello { reliability: Reliability::Delivery, service: "grid".into(), tag: 7 }
}

/// Whose private key is 32 times this byte.
fn identity(byte: u8) -> Identity {
    Identity::of_private(&[byte; 32])
}

fn credentials(secret: &str, identity: Identity) -> Credentials {
    Credentials::new("tcp", Secret::from(secret), identity, Encrypt::BetweenMachines)
}

fn callers_stance(secret: &str) -> Credentials {
    credentials(secret, identity(11)).with_ephemeral([1; 32])
}

fn callees_stance(secret: &str) -> Credentials {
    credentials(secret, identity(22)).with_ephemeral([2; 32])
}

/// What is asked for, of the callee with that key.
fn wanted() -> CallerRequest {
    let (terms, key) = (b"terms of a".to_vec(), Some(identity(22).key()));
    CallerRequest { hello: hello(), terms, key, is_plain: true }
}

fn caller(secret: &str) -> Caller {
    Caller::new(callers_stance(secret), wanted())
}

fn callee(secret: &str) -> Callee {
    Callee::new(callees_stance(secret), true)
}

/// The same with keys of a handshake that nobody knows beforehand.
fn random_caller(secret: &str) -> Caller {
    Caller::new(credentials(secret, identity(11)), wanted())
}

fn random_callee(secret: &str) -> Callee {
    Callee::new(credentials(secret, identity(22)), true)
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
fn ask(caller: &mut Caller, callee: &mut Callee) -> Result<HandshakeEvent, HandshakeError> {
    let opening = said_by_caller(caller);
    all(callee.feed(&opening), &opening)?;
    let opening = said_by_callee(callee);
    all(caller.feed(&opening), &opening)?;
    let asking = said_by_caller(caller);
    all(callee.feed(&asking), &asking)
}

/// The news of bytes that were all taken.
fn all(
    fed: Result<FedStep, HandshakeError>,
    bytes: &[u8],
) -> Result<HandshakeEvent, HandshakeError> {
    let FedStep { consumed, news } = fed?;
    assert_eq!(consumed, bytes.len());
    Ok(news)
}

const fn malformed(what: &'static str) -> HandshakeError {
    HandshakeError::Hello(HelloError::Malformed(what))
}
