//! What both sides of a greeting do alike: hear a step, say a step.

use super::GreetError;
use super::bytes::{FLAGS, LENGTH, Reader, TURN, push_bytes};
use super::proof::{HAS_SECRET, Said, Stance};
use super::refusal::Refusal;
use super::step::{Inbox, Kind, Step};
use crate::vi::{HASH_BYTES, Hello, HelloError, Nonce};

/// What came of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fed {
    /// How many of them belonged to the greeting. Feed the rest again, or keep it
    /// if the greeting is over.
    pub consumed: usize,
    /// What is known now.
    pub news: News,
}

/// What a greeting has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing, or something to send.
    Nothing,
    /// To a callee: what a caller asks for that has the same secret. It waits for
    /// an answer.
    Hello {
        /// What it says first.
        hello: Hello,
        /// What the fabric says for it; unchecked.
        terms: Vec<u8>,
    },
    /// To a caller: it is connected.
    Welcome {
        /// What the fabric says for the other end; unchecked.
        terms: Vec<u8>,
    },
}

/// One side's ears and mouth.
#[derive(Debug)]
pub(super) struct Talk {
    pub stance: Stance,
    pub own: Nonce,
    inbox: Inbox,
    /// The step that was heard last.
    heard: Vec<u8>,
    /// The step that is being said, or was said last, and how much of it was.
    said: Vec<u8>,
    sent: usize,
    /// Whether the last step that was heard is a refusal.
    is_refused: bool,
}

impl Talk {
    pub(super) fn new(stance: Stance, own: Nonce) -> Self {
        let (inbox, heard, said, sent, is_refused) = Default::default();
        Self { stance, own, inbox, heard, said, sent, is_refused }
    }

    /// Hears the next step, or a part of it. One that comes before its turn is an
    /// error: nobody can know what to say in it. A refusal may come at any time.
    pub(super) fn hear(&mut self, input: &[u8]) -> Result<(usize, Option<Step>), HelloError> {
        let (consumed, step) = self.inbox.feed(input)?;
        if let Some(step) = &step {
            self.is_refused = step.kind == Kind::Refusal;
            if !self.is_refused && !self.outgoing().is_empty() {
                return Err(HelloError::Malformed(TURN));
            }
            self.heard = step.encode();
        }
        Ok((consumed, step))
    }

    pub(super) fn say(&mut self, step: &Step) {
        self.said = step.encode();
        self.sent = 0;
    }

    /// Says why the peer is not talked to, if that is of any use. Refusals are not
    /// answered, or two sides might refuse each other for ever.
    pub(super) fn say_why(&mut self, why: &GreetError) {
        let is_amid_step = self.sent > 0 && !self.outgoing().is_empty();
        self.said.truncate(if is_amid_step { self.said.len() } else { 0 });
        self.sent = self.sent.min(self.said.len());
        let refusal = match why {
            GreetError::Hello(HelloError::NotEgret) | GreetError::Refused(_) => return,
            GreetError::Hello(why) => Refusal::Hello(why.clone()),
            GreetError::Secret(why) => Refusal::Secret(*why),
        };
        if !self.is_refused && !is_amid_step {
            let mut body = Vec::new();
            refusal.push(&mut body);
            self.say(&Step::new(Kind::Refusal, 0, body));
        }
    }

    pub(super) fn outgoing(&self) -> &[u8] {
        &self.said[self.sent..]
    }

    pub(super) fn sent(&mut self, len: usize) {
        self.sent = self.said.len().min(self.sent + len);
    }

    pub(super) fn repeat(&mut self) {
        self.sent = 0;
    }

    pub(super) fn has_heard(&self, step: &[u8]) -> bool {
        !self.heard.is_empty() && self.heard == step
    }

    /// Bytes of memory it holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.inbox.held() + self.heard.capacity() + self.said.capacity()
    }
}

/// The nonce in a peer's opening, if the two can agree.
pub(super) fn read_opening(stance: &Stance, step: &Step) -> Result<Nonce, GreetError> {
    if step.flags & !HAS_SECRET != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let nonce = Nonce(*step.body.first_chunk().ok_or(HelloError::Malformed(LENGTH))?);
    if step.body.len() != HASH_BYTES {
        return Err(HelloError::Malformed(LENGTH).into());
    }
    stance.check_flags(step.flags)?;
    Ok(nonce)
}

impl Said {
    /// What both have said in their openings. Both have the same flags.
    pub(super) fn openings(stance: &Stance, connecting: Nonce, listening: Nonce) -> Self {
        Self { connecting, listening, words: vec![stance.flags()] }
    }

    /// One of them says this as well.
    pub(super) fn add(&mut self, kind: Kind, words: &[u8]) {
        self.words.push(kind as u8);
        push_bytes(&mut self.words, words);
    }
}

/// What a refusal says, and whether it is proven.
pub(super) fn read_refusal(
    step: &Step,
) -> Result<(Option<&[u8; HASH_BYTES]>, Refusal), HelloError> {
    let (proof, words) = match step.flags {
        0 => (None, step.body.as_slice()),
        PROVEN => {
            let parts = step.body.split_first_chunk::<HASH_BYTES>();
            let (proof, words) = parts.ok_or(HelloError::Malformed(LENGTH))?;
            (Some(proof), words)
        }
        _ => return Err(HelloError::Malformed(FLAGS)),
    };
    let mut reader = Reader(words);
    let refusal = Refusal::read(&mut reader)?;
    // A later version may have more to say.
    if step.version == crate::vi::PROTOCOL_VERSION {
        reader.end()?;
    }
    Ok((proof, refusal))
}

/// Bytes of terms that go along, each way.
pub(crate) const TERMS_MAX: usize = 512;
/// In a refusal: it begins with a proof.
pub(super) const PROVEN: u8 = 1;
