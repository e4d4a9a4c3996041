//! What both sides of a greeting do alike: hear a step, say a step, and pass from one to the next.

use super::GreetError;
use super::proof::{HAS_SECRET, Said, Stance};
use super::step::{Inbox, Kind, Step};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::{FLAGS, LENGTH, Reader, TURN};
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

/// A greeting from one of its sides.
#[derive(Debug)]
pub(crate) struct Greeter<T> {
    pub(super) talk: Talk,
    /// `None` if nothing more is heard. What is outgoing then is the last step.
    pub(super) turn: Option<T>,
}

/// How far one side of a greeting is.
pub(crate) trait Speaker: Sized {
    /// Whether the peer is to speak.
    fn is_peers(&self) -> bool {
        true
    }

    /// The peer has said `step`: whose turn it is now, and what there is to tell.
    fn next(self, talk: &mut Talk, step: &Step) -> Result<(Option<Self>, News), GreetError>;
}

impl<T: Speaker> Greeter<T> {
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
            self.turn = None;
        }
        fed
    }

    fn hear(&mut self, input: &[u8]) -> Result<Fed, GreetError> {
        let mut news = News::Nothing;
        let Some(turn) = &self.turn else { return Ok(Fed { consumed: 0, news }) };
        if !turn.is_peers() && !input.is_empty() {
            return Err(HelloError::Malformed(TURN).into());
        }
        let (consumed, step) = self.talk.hear(input)?;
        if let Some(step) = step
            && let Some(turn) = self.turn.take()
        {
            (self.turn, news) = turn.next(&mut self.talk, &step)?;
        }
        Ok(Fed { consumed, news })
    }

    /// What is to be sent: all or the rest of one step.
    pub(crate) fn outgoing(&self) -> &[u8] {
        self.talk.outgoing()
    }

    /// So many bytes of it were.
    pub(crate) fn sent(&mut self, len: usize) {
        self.talk.sent = self.talk.said.len().min(self.talk.sent + len);
    }

    /// The step that was said last is outgoing again: it may have been lost.
    pub(crate) const fn repeat(&mut self) {
        self.talk.sent = 0;
    }

    /// Whether this is the step that was heard last, which the peer has repeated.
    pub(crate) fn has_heard(&self, step: &[u8]) -> bool {
        !self.talk.heard.is_empty() && self.talk.heard == step
    }

    /// Bytes of memory it holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let Talk { inbox, heard, said, .. } = &self.talk;
        inbox.held() + heard.capacity() + said.capacity()
    }
}

/// One side's ears and mouth.
#[derive(Debug)]
pub(crate) struct Talk {
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

    /// Says this side's opening.
    pub(super) fn open(&mut self) {
        self.say(&Step::new(Kind::Opening, self.stance.flags(), self.own.0.to_vec()));
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

/// Appends `bytes` after their number, which the caller keeps small.
pub(super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("a part of a step");
    out.extend(len.to_le_bytes());
    out.extend(bytes);
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
    let mut reader = Reader::new(words);
    let refusal = Refusal::read(reader.u8()?, &mut reader)?;
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
