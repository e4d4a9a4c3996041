//! The side that listens.

use super::GreetError;
use super::bytes::{FLAGS, Reader, TERMS, TURN};
use super::proof::{Said, Stance, nonce};
use super::refusal::Refusal;
use super::step::{Kind, Step};
use super::talk::{Fed, News, PROVEN, TERMS_MAX, Talk, read_opening, read_refusal};
use crate::vi::{Hello, HelloError, Nonce, Proof, Side};

/// A greeting from the listening side.
#[derive(Debug)]
pub(crate) struct Callee {
    talk: Talk,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Waits for the caller's opening.
    Waiting,
    /// Has opened too, and waits for what the caller asks for.
    Opened(Said),
    /// Knows what it asks for, and owes it an answer.
    Asked(Said),
    /// Nothing more is heard. What is outgoing is the last step.
    Over,
}

impl Callee {
    /// One that nobody has spoken to yet.
    pub(crate) fn new(stance: Stance) -> Self {
        Self::with_nonce(stance, nonce())
    }

    pub(super) fn with_nonce(stance: Stance, own: Nonce) -> Self {
        Self { talk: Talk::new(stance, own), state: State::Waiting }
    }

    /// Takes bytes of the peer, up to the end of a step. Once it is welcome, its
    /// bytes are left alone.
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
        match self.state {
            State::Over => return Ok(Fed { consumed: 0, news: News::Nothing }),
            State::Asked(_) if !input.is_empty() => return Err(HelloError::Malformed(TURN).into()),
            _ => {}
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
            (State::Waiting, Kind::Opening) => {
                let theirs = read_opening(&self.talk.stance, step)?;
                let (stance, own) = (&self.talk.stance, self.talk.own);
                let said = Said::openings(stance, theirs, own);
                let opening = Step::new(Kind::Opening, stance.flags(), own.0.to_vec());
                self.talk.say(&opening);
                self.state = State::Opened(said);
                Ok(News::Nothing)
            }
            (State::Opened(said), Kind::Asking) => self.asked(said, step),
            // A caller that does not like our opening.
            (State::Opened(_), Kind::Refusal) => Err(GreetError::Refused(read_refusal(step)?.1)),
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }

    fn asked(&mut self, mut said: Said, step: &Step) -> Result<News, GreetError> {
        if step.flags != 0 {
            return Err(HelloError::Malformed(FLAGS).into());
        }
        let mut reader = Reader(&step.body);
        let proof = Proof(reader.array()?);
        said.add(Kind::Asking, reader.0);
        self.talk.stance.check(&said, Side::Connecting, &proof)?;
        let hello = Hello::decode(reader.bytes()?)?;
        let terms = reader.0.to_vec();
        if terms.len() > TERMS_MAX {
            return Err(HelloError::Malformed(TERMS).into());
        }
        self.state = State::Asked(said);
        Ok(News::Hello { hello, terms })
    }

    /// Accepts who asked, with at most [`TERMS_MAX`] bytes that the fabric has to
    /// say. It is connected when all of this has been sent.
    ///
    /// # Panics
    ///
    /// If nobody has asked, or the terms are too long.
    pub(crate) fn welcome(&mut self, terms: &[u8]) {
        assert!(terms.len() <= TERMS_MAX, "{} bytes of terms", terms.len());
        let State::Asked(said) = std::mem::replace(&mut self.state, State::Over) else {
            panic!("nobody has asked");
        };
        self.answer(said, Kind::Welcome, 0, terms);
    }

    /// Says no, with a proof if there was one of the caller's. Nothing is said to
    /// whom it was said before, or in the middle of a step.
    pub(crate) fn refuse(&mut self, why: &Refusal) {
        let mut words = Vec::new();
        why.push(&mut words);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Asked(said) => self.answer(said, Kind::Refusal, PROVEN, &words),
            State::Waiting => self.talk.say(&Step::new(Kind::Refusal, 0, words)),
            State::Opened(_) if self.talk.outgoing().is_empty() && why.goes_unproven() => {
                self.talk.say(&Step::new(Kind::Refusal, 0, words));
            }
            State::Opened(_) | State::Over => {}
        }
    }

    fn answer(&mut self, mut said: Said, kind: Kind, flags: u8, words: &[u8]) {
        said.add(kind, words);
        let proof = self.talk.stance.prove(&said, Side::Listening);
        self.talk.say(&Step::new(kind, flags, [&proof.0[..], words].concat()));
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
