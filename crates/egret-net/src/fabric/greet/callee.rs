//! The side that listens.

use super::GreetError;
use super::proof::{Said, Stance, nonce};
use super::step::{Kind, Step};
use super::talk::{Greeter, News, PROVEN, Speaker, TERMS_MAX, Talk, read_opening, read_refusal};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::{FLAGS, Reader, TERMS, TURN};
use crate::vi::{Hello, HelloError, Nonce, Proof, Side};

/// A greeting from the listening side.
pub(crate) type Callee = Greeter<Called>;

/// How far the listening side is.
#[derive(Debug)]
pub(crate) enum Called {
    /// Waits for the caller's opening.
    Waiting,
    /// Has opened too, and waits for what the caller asks for.
    Opened(Said),
    /// Knows what it asks for, and owes it an answer.
    Asked(Said),
}

impl Speaker for Called {
    fn is_peers(&self) -> bool {
        !matches!(self, Self::Asked(_))
    }

    fn next(self, talk: &mut Talk, step: &Step) -> Result<(Option<Self>, News), GreetError> {
        match (self, step.kind) {
            (Self::Waiting, Kind::Opening) => {
                let theirs = read_opening(&talk.stance, step)?;
                let said = Said::openings(&talk.stance, theirs, talk.own);
                talk.open();
                Ok((Some(Self::Opened(said)), News::Nothing))
            }
            (Self::Opened(mut said), Kind::Asking) => {
                let news = asked(&talk.stance, &mut said, step)?;
                Ok((Some(Self::Asked(said)), news))
            }
            // A caller that does not like our opening.
            (Self::Opened(_), Kind::Refusal) => Err(GreetError::Refused(read_refusal(step)?.1)),
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }
}

/// What the caller asks for, if it has proven the secret.
fn asked(stance: &Stance, said: &mut Said, step: &Step) -> Result<News, GreetError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let mut reader = Reader::new(&step.body);
    let proof = Proof(reader.array()?);
    said.add(Kind::Asking, reader.rest());
    stance.check(said, Side::Connecting, &proof)?;
    let len = reader.u16()?;
    let hello = Hello::decode(reader.bytes(len.into())?)?;
    let terms = reader.rest().to_vec();
    if terms.len() > TERMS_MAX {
        return Err(HelloError::Malformed(TERMS).into());
    }
    Ok(News::Hello { hello, terms })
}

impl Callee {
    /// One that nobody has spoken to yet.
    pub(crate) fn new(stance: Stance) -> Self {
        Self::with_nonce(stance, nonce())
    }

    pub(super) fn with_nonce(stance: Stance, own: Nonce) -> Self {
        Self { talk: Talk::new(stance, own), turn: Some(Called::Waiting) }
    }

    /// Accepts who asked, with at most [`TERMS_MAX`] bytes that the fabric has to
    /// say. It is connected when all of this has been sent.
    ///
    /// # Panics
    ///
    /// If nobody has asked, or the terms are too long.
    pub(crate) fn welcome(&mut self, terms: &[u8]) {
        assert!(terms.len() <= TERMS_MAX, "{} bytes of terms", terms.len());
        let Some(Called::Asked(said)) = self.turn.take() else { panic!("nobody has asked") };
        self.answer(said, Kind::Welcome, 0, terms);
    }

    /// Says no, with a proof if there was one of the caller's. Nothing is said to
    /// whom it was said before, or in the middle of a step.
    pub(crate) fn refuse(&mut self, why: &Refusal) {
        let mut words = Vec::new();
        why.push(&mut words);
        match self.turn.take() {
            Some(Called::Asked(said)) => self.answer(said, Kind::Refusal, PROVEN, &words),
            Some(Called::Waiting) => self.talk.say(&Step::new(Kind::Refusal, 0, words)),
            Some(Called::Opened(_)) if self.talk.outgoing().is_empty() && why.goes_unproven() => {
                self.talk.say(&Step::new(Kind::Refusal, 0, words));
            }
            Some(Called::Opened(_)) | None => {}
        }
    }

    fn answer(&mut self, mut said: Said, kind: Kind, flags: u8, words: &[u8]) {
        said.add(kind, words);
        let proof = self.talk.stance.prove(&said, Side::Listening);
        self.talk.say(&Step::new(kind, flags, [&proof.0[..], words].concat()));
    }
}
