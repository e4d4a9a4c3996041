//! The side that connects.

use super::GreetError;
use super::fault::{Fault, planted};
use super::proof::{Said, Stance, nonce};
use super::step::{Kind, Step};
use super::talk::{
    Greeter, News, Speaker, TERMS_MAX, Talk, push_bytes, read_opening, read_refusal,
};
use crate::fabric::hub::bytes::{FLAGS, LENGTH, TERMS, TURN, UNPROVEN};
use crate::vi::{HASH_BYTES, Hello, HelloError, Nonce, Proof, Side};

/// A greeting from the connecting side.
pub(crate) type Caller = Greeter<Calling>;

/// How far the connecting side is.
#[derive(Debug)]
pub(crate) enum Calling {
    /// Waits for the callee's opening, to say this.
    Opening { hello: Hello, terms: Vec<u8> },
    /// Has asked, and waits for the answer.
    Asking(Said),
}

impl Caller {
    /// One that will ask for `hello`, with at most [`TERMS_MAX`] bytes that the
    /// fabric has to say beside it. Its first step is outgoing.
    pub(crate) fn new(stance: Stance, hello: Hello, terms: &[u8]) -> Self {
        Self::with_nonce(stance, hello, terms, nonce())
    }

    pub(super) fn with_nonce(stance: Stance, hello: Hello, terms: &[u8], own: Nonce) -> Self {
        assert!(terms.len() <= TERMS_MAX, "{} bytes of terms", terms.len());
        let mut talk = Talk::new(stance, own);
        talk.open();
        Self { talk, turn: Some(Calling::Opening { hello, terms: terms.to_vec() }) }
    }
}

impl Speaker for Calling {
    fn next(self, talk: &mut Talk, step: &Step) -> Result<(Option<Self>, News), GreetError> {
        match (self, step.kind) {
            (Self::Opening { hello, terms }, Kind::Opening) => {
                let theirs = read_opening(&talk.stance, step)?;
                let said = ask(talk, &hello, &terms, theirs);
                Ok((Some(Self::Asking(said)), News::Nothing))
            }
            (Self::Asking(said), Kind::Welcome) => Ok((None, welcomed(&talk.stance, said, step)?)),
            (Self::Asking(said), Kind::Refusal) => Err(refused(&talk.stance, Some(said), step)),
            (_, Kind::Refusal) => Err(refused(&talk.stance, None, step)),
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }
}

fn ask(talk: &mut Talk, hello: &Hello, terms: &[u8], theirs: Nonce) -> Said {
    let mut words = Vec::new();
    push_bytes(&mut words, &hello.encode());
    words.extend(terms);
    let mut said = Said::openings(&talk.stance, talk.own, theirs);
    said.add(Kind::Asking, &words);
    let proof = talk.stance.prove(&said, Side::Connecting);
    talk.say(&Step::new(Kind::Asking, 0, [&proof.0[..], &words].concat()));
    said
}

fn welcomed(stance: &Stance, said: Said, step: &Step) -> Result<News, GreetError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let parts = step.body.split_first_chunk::<HASH_BYTES>();
    let (proof, terms) = parts.ok_or(HelloError::Malformed(LENGTH))?;
    check(stance, said, Kind::Welcome, proof, terms)?;
    if terms.len() > TERMS_MAX {
        return Err(HelloError::Malformed(TERMS).into());
    }
    Ok(News::Welcome { terms: terms.to_vec() })
}

/// A refusal is an error, and so is one that makes no sense.
fn refused(stance: &Stance, said: Option<Said>, step: &Step) -> GreetError {
    let (proof, refusal) = match read_refusal(step) {
        Ok(read) => read,
        Err(why) => return why.into(),
    };
    let may_go = match (proof, said) {
        (Some(proof), Some(said)) => {
            let words = &step.body[HASH_BYTES..];
            if let Err(why) = check(stance, said, Kind::Refusal, proof, words) {
                return why;
            }
            true
        }
        (Some(_), None) => false,
        (None, Some(_)) => refusal.goes_unproven() || planted(Fault::RefusalBelieved),
        (None, None) => refusal.goes_unasked(),
    };
    if may_go { GreetError::Refused(refusal) } else { HelloError::Malformed(UNPROVEN).into() }
}

fn check(
    stance: &Stance,
    mut said: Said,
    kind: Kind,
    proof: &[u8; HASH_BYTES],
    words: &[u8],
) -> Result<(), GreetError> {
    said.add(kind, words);
    Ok(stance.check(&said, Side::Listening, &Proof(*proof))?)
}
