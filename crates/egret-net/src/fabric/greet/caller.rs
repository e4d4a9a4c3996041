//! The side that connects.

use super::GreetError;
use super::bytes::{FLAGS, LENGTH, TERMS, TURN, UNPROVEN, push_bytes};
use super::fault::{Fault, planted};
use super::proof::{Said, Stance, nonce};
use super::step::{Kind, Step};
use super::talk::{Fed, News, TERMS_MAX, Talk, read_opening, read_refusal};
use crate::vi::{HASH_BYTES, Hello, HelloError, Nonce, Proof, Side};

/// A greeting from the connecting side.
#[derive(Debug)]
pub(crate) struct Caller {
    talk: Talk,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Waits for the callee's opening, to say this.
    Opening { hello: Hello, terms: Vec<u8> },
    /// Has asked, and waits for the answer.
    Asking(Said),
    /// Nothing more is heard or said.
    Over,
}

impl Caller {
    /// One that will ask for `hello`, with at most [`TERMS_MAX`] bytes that the
    /// fabric has to say beside it. Its first step is outgoing.
    pub(crate) fn new(stance: Stance, hello: Hello, terms: &[u8]) -> Self {
        Self::with_nonce(stance, hello, terms, nonce())
    }

    pub(super) fn with_nonce(stance: Stance, hello: Hello, terms: &[u8], own: Nonce) -> Self {
        assert!(terms.len() <= TERMS_MAX, "{} bytes of terms", terms.len());
        let opening = Step::new(Kind::Opening, stance.flags(), own.0.to_vec());
        let mut talk = Talk::new(stance, own);
        talk.say(&opening);
        Self { talk, state: State::Opening { hello, terms: terms.to_vec() } }
    }

    /// Takes bytes of the peer, up to the end of a step.
    ///
    /// # Errors
    ///
    /// If the greeting comes to nothing. It is over then, but for the step that may
    /// be outgoing.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<Fed, GreetError> {
        let fed = self.hear(input);
        if let Err(why) = &fed {
            self.talk.say_why(why);
            self.state = State::Over;
        }
        fed
    }

    fn hear(&mut self, input: &[u8]) -> Result<Fed, GreetError> {
        if matches!(self.state, State::Over) {
            return Ok(Fed { consumed: 0, news: News::Nothing });
        }
        let (consumed, step) = self.talk.hear(input)?;
        let news = match step {
            None => News::Nothing,
            Some(step) => self.step(&step)?,
        };
        Ok(Fed { consumed, news })
    }

    fn step(&mut self, step: &Step) -> Result<News, GreetError> {
        match (std::mem::replace(&mut self.state, State::Over), step.kind) {
            (State::Opening { hello, terms }, Kind::Opening) => {
                let theirs = read_opening(&self.talk.stance, step)?;
                self.ask(&hello, &terms, theirs);
                Ok(News::Nothing)
            }
            (State::Asking(said), Kind::Welcome) => self.welcomed(said, step),
            (State::Asking(said), Kind::Refusal) => Err(self.refused(Some(said), step)),
            (_, Kind::Refusal) => Err(self.refused(None, step)),
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }

    fn ask(&mut self, hello: &Hello, terms: &[u8], theirs: Nonce) {
        let mut words = Vec::new();
        push_bytes(&mut words, &hello.encode());
        words.extend(terms);
        let mut said = Said::openings(&self.talk.stance, self.talk.own, theirs);
        said.add(Kind::Asking, &words);
        let proof = self.talk.stance.prove(&said, Side::Connecting);
        self.talk.say(&Step::new(Kind::Asking, 0, [&proof.0[..], &words].concat()));
        self.state = State::Asking(said);
    }

    fn welcomed(&self, said: Said, step: &Step) -> Result<News, GreetError> {
        if step.flags != 0 {
            return Err(HelloError::Malformed(FLAGS).into());
        }
        let parts = step.body.split_first_chunk::<HASH_BYTES>();
        let (proof, terms) = parts.ok_or(HelloError::Malformed(LENGTH))?;
        self.check(said, Kind::Welcome, proof, terms)?;
        if terms.len() > TERMS_MAX {
            return Err(HelloError::Malformed(TERMS).into());
        }
        Ok(News::Welcome { terms: terms.to_vec() })
    }

    /// A refusal is an error, and so is one that makes no sense.
    fn refused(&self, said: Option<Said>, step: &Step) -> GreetError {
        let (proof, refusal) = match read_refusal(step) {
            Ok(read) => read,
            Err(why) => return why.into(),
        };
        let may_go = match (proof, said) {
            (Some(proof), Some(said)) => {
                let words = &step.body[HASH_BYTES..];
                if let Err(why) = self.check(said, Kind::Refusal, proof, words) {
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
        &self,
        mut said: Said,
        kind: Kind,
        proof: &[u8; HASH_BYTES],
        words: &[u8],
    ) -> Result<(), GreetError> {
        said.add(kind, words);
        Ok(self.talk.stance.check(&said, Side::Listening, &Proof(*proof))?)
    }

    /// What is to be sent: all or the rest of one step.
    pub(crate) fn outgoing(&self) -> &[u8] {
        self.talk.outgoing()
    }

    /// So many bytes of it were.
    pub(crate) fn sent(&mut self, len: usize) {
        self.talk.sent(len);
    }

    /// The step that was said last is outgoing again: it may have been lost.
    pub(crate) fn repeat(&mut self) {
        self.talk.repeat();
    }

    /// Whether this is the step that was heard last, which the peer has repeated.
    pub(crate) fn has_heard(&self, step: &[u8]) -> bool {
        self.talk.has_heard(step)
    }

    /// Bytes of memory it holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.talk.held()
    }
}
