//! What both sides of a greeting do alike: hear a step, say a step, and pass from one to the next.

use super::GreetError;
use super::noise::Session;
use super::stance::Stance;
use super::step::{Inbox, Kind, Step};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::{FLAGS, LENGTH, Reader, TURN};
use crate::vi::{Hello, HelloError, PROTOCOL_VERSION, PublicKey};

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
        /// The key that it has proven.
        peer: PublicKey,
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
        self.unless_over(fed)
    }

    /// The same of a peer that says each step in one piece: these bytes are one step, neither a
    /// part of one nor more.
    ///
    /// # Errors
    ///
    /// If they are not, or the greeting comes to nothing.
    pub(crate) fn feed_step(&mut self, step: &[u8]) -> Result<News, GreetError> {
        let heard = self.hear(step).and_then(|Fed { consumed, news }| {
            // A step has news, or there is another to answer it with.
            let is_whole = news != News::Nothing || !self.outgoing().is_empty();
            let is_one = is_whole && consumed == step.len();
            if is_one { Ok(news) } else { Err(HelloError::Malformed(LENGTH).into()) }
        });
        self.unless_over(heard)
    }

    fn unless_over<R>(&mut self, heard: Result<R, GreetError>) -> Result<R, GreetError> {
        if let Err(why) = &heard {
            self.talk.say_why(why);
            self.turn = None;
        }
        heard
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

    /// What both ends have, once they are connected; to be taken once.
    pub(in crate::fabric) const fn take_session(&mut self) -> Option<Session> {
        self.talk.session.take()
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
    pub(super) session: Option<Session>,
    inbox: Inbox,
    /// The step that was heard last.
    heard: Vec<u8>,
    /// The step that is being said, or was said last, and how much of it was.
    said: Vec<u8>,
    sent: usize,
    /// Whether the last step that was heard is a refusal.
    is_refused: bool,
    /// Whether an opening of the peer was worth a handshake, whatever came of it.
    pub(super) has_begun: bool,
}

impl Talk {
    pub(super) fn new(stance: Stance) -> Self {
        let (inbox, heard, said, sent, is_refused) = Default::default();
        let (session, has_begun) = (None, false);
        Self { stance, session, inbox, heard, said, sent, is_refused, has_begun }
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
            GreetError::Hello(HelloError::NotEgret)
            | GreetError::Refused(_)
            | GreetError::Key(_) => {
                return;
            }
            GreetError::Hello(why) => Refusal::Hello(why.clone()),
            GreetError::Secret(why) => Refusal::Secret(*why),
            GreetError::Repeated => Refusal::Crowded,
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

/// Appends `bytes` after their number, which the caller keeps small.
pub(super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("a part of a step");
    out.extend(len.to_le_bytes());
    out.extend(bytes);
}

/// What a refusal says that a peer of this `version` has put in these words.
pub(super) fn read_refusal(words: &[u8], version: u16) -> Result<Refusal, HelloError> {
    let mut reader = Reader::new(words);
    let refusal = Refusal::read(reader.u8()?, &mut reader)?;
    // A later version may have more to say.
    if version == PROTOCOL_VERSION {
        reader.end()?;
    }
    Ok(refusal)
}

/// Whether a refusal is proven: its words are sealed then.
pub(super) const fn is_proven(step: &Step) -> Result<bool, HelloError> {
    match step.flags {
        0 => Ok(false),
        PROVEN => Ok(true),
        _ => Err(HelloError::Malformed(FLAGS)),
    }
}

/// Bytes of terms that go along, each way.
pub(crate) const TERMS_MAX: usize = 512;
/// In a refusal: its words are sealed by the handshake.
pub(super) const PROVEN: u8 = 1;
