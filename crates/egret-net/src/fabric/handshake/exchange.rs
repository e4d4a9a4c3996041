//! What both sides of a handshake have in common: receive a step, send a step, and go on to the next.

use super::HandshakeError;
use super::credentials::Credentials;
use super::noise::Session;
use super::step::{HandshakeStep, StepKind, StepReader};
use crate::fabric::common::ConnectRefusal;
use crate::fabric::common::bytes::{ByteReader, FLAGS, LENGTH, TURN};
use crate::vi::{Hello, HelloError, PROTOCOL_VERSION, PublicKey};

/// The result of feeding some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FedStep {
    /// How many of them belonged to the handshake. Feed the rest again, or keep it if the handshake is over.
    pub consumed: usize,
    /// What has happened.
    pub news: HandshakeEvent,
}

/// What a handshake reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandshakeEvent {
    /// Nothing, or something to send.
    Nothing,
    /// To a callee: what a caller with the same secret asks for. The caller waits for an answer.
    Hello {
        /// The key that it has proven.
        peer: PublicKey,
        /// What it asks for.
        hello: Hello,
        /// What its fabric adds; unchecked.
        terms: Vec<u8>,
    },
    /// To a caller: it is connected.
    Welcome {
        /// What the fabric of the other end adds; unchecked.
        terms: Vec<u8>,
    },
}

/// A handshake, as one of its sides runs it.
#[derive(Debug)]
pub(crate) struct Handshake<T> {
    pub(super) talk: StepExchange,
    /// `None` if nothing more is heard. What is outgoing then is the last step.
    pub(super) turn: Option<T>,
}

/// The state of one side of a handshake.
pub(crate) trait HandshakeSide: Sized {
    /// Whether the next step is the peer's.
    fn is_peers(&self) -> bool {
        true
    }

    /// Processes a step of the peer: the next state, and what to report.
    fn next(
        self,
        talk: &mut StepExchange,
        step: &HandshakeStep,
    ) -> Result<(Option<Self>, HandshakeEvent), HandshakeError>;
}

impl<T: HandshakeSide> Handshake<T> {
    /// Takes bytes of the peer, up to the end of a step. Once it is welcome, its
    /// bytes are left alone.
    ///
    /// # Errors
    ///
    /// If the handshake fails. It is over then, except for a step that may be outgoing.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<FedStep, HandshakeError> {
        let fed = self.hear(input);
        self.unless_over(fed)
    }

    /// Takes exactly one step of the peer, which sends each step in one piece.
    ///
    /// # Errors
    ///
    /// If the bytes are not one step, or the handshake fails.
    pub(crate) fn feed_step(&mut self, step: &[u8]) -> Result<HandshakeEvent, HandshakeError> {
        let heard = self.hear(step).and_then(|FedStep { consumed, news }| {
            // A step has news, or there is another to answer it with.
            let is_whole = news != HandshakeEvent::Nothing || !self.outgoing().is_empty();
            let is_one = is_whole && consumed == step.len();
            if is_one { Ok(news) } else { Err(HelloError::Malformed(LENGTH).into()) }
        });
        self.unless_over(heard)
    }

    fn unless_over<R>(&mut self, heard: Result<R, HandshakeError>) -> Result<R, HandshakeError> {
        if let Err(why) = &heard {
            self.talk.say_why(why);
            self.turn = None;
        }
        heard
    }

    fn hear(&mut self, input: &[u8]) -> Result<FedStep, HandshakeError> {
        let mut news = HandshakeEvent::Nothing;
        let Some(turn) = &self.turn else { return Ok(FedStep { consumed: 0, news }) };
        if !turn.is_peers() && !input.is_empty() {
            return Err(HelloError::Malformed(TURN).into());
        }
        let (consumed, step) = self.talk.hear(input)?;
        if let Some(step) = step
            && let Some(turn) = self.turn.take()
        {
            (self.turn, news) = turn.next(&mut self.talk, &step)?;
        }
        Ok(FedStep { consumed, news })
    }

    /// What is to be sent: all or the rest of one step.
    pub(crate) fn outgoing(&self) -> &[u8] {
        self.talk.outgoing()
    }

    /// Notes that so many bytes of the outgoing step were sent.
    pub(crate) fn sent(&mut self, len: usize) {
        self.talk.sent = self.talk.said.len().min(self.talk.sent + len);
    }

    /// Makes the last step outgoing again: it may have been lost.
    pub(crate) const fn repeat(&mut self) {
        self.talk.sent = 0;
    }

    /// Whether this is the step that was received last, which the peer has repeated.
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
        let StepExchange { inbox, heard, said, .. } = &self.talk;
        inbox.held() + heard.capacity() + said.capacity()
    }
}

/// The steps that one side receives and sends.
#[derive(Debug)]
pub(crate) struct StepExchange {
    pub credentials: Credentials,
    pub(super) session: Option<Session>,
    inbox: StepReader,
    /// The step that was received last.
    heard: Vec<u8>,
    /// The step that is being sent, or was sent last, and how many of its bytes were.
    said: Vec<u8>,
    sent: usize,
    /// Whether the last step that was received is a refusal.
    is_refused: bool,
    /// Whether an opening of the peer was worth a handshake, whatever came of it.
    pub(super) has_begun: bool,
}

impl StepExchange {
    pub(super) fn new(credentials: Credentials) -> Self {
        let (inbox, heard, said, sent, is_refused) = Default::default();
        let (session, has_begun) = (None, false);
        Self { credentials, session, inbox, heard, said, sent, is_refused, has_begun }
    }

    /// Takes the next step, or a part of it. A step before its turn is an error: its sender cannot know yet
    /// what to put in it. A refusal may arrive at any time.
    pub(super) fn hear(
        &mut self,
        input: &[u8],
    ) -> Result<(usize, Option<HandshakeStep>), HelloError> {
        let (consumed, step) = self.inbox.feed(input)?;
        if let Some(step) = &step {
            self.is_refused = step.kind == StepKind::Refusal;
            if !self.is_refused && !self.outgoing().is_empty() {
                return Err(HelloError::Malformed(TURN));
            }
            self.heard = step.encode();
        }
        Ok((consumed, step))
    }

    pub(super) fn say(&mut self, step: &HandshakeStep) {
        self.said = step.encode();
        self.sent = 0;
    }

    /// Makes a refusal that says why the handshake failed, if that is of any use. Refusals are not answered,
    /// or two sides might refuse each other for ever.
    pub(super) fn say_why(&mut self, why: &HandshakeError) {
        let is_amid_step = self.sent > 0 && !self.outgoing().is_empty();
        self.said.truncate(if is_amid_step { self.said.len() } else { 0 });
        self.sent = self.sent.min(self.said.len());
        let refusal = match why {
            HandshakeError::Hello(HelloError::NotEgret)
            | HandshakeError::Refused(_)
            | HandshakeError::Key(_) => {
                return;
            }
            HandshakeError::Hello(why) => ConnectRefusal::Hello(why.clone()),
            HandshakeError::Secret(why) => ConnectRefusal::Secret(*why),
            HandshakeError::Repeated => ConnectRefusal::Crowded,
        };
        if !self.is_refused && !is_amid_step {
            let mut body = Vec::new();
            refusal.push(&mut body);
            self.say(&HandshakeStep::new(StepKind::Refusal, 0, body));
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
pub(super) fn read_refusal(words: &[u8], version: u16) -> Result<ConnectRefusal, HelloError> {
    let mut reader = ByteReader::new(words);
    let refusal = ConnectRefusal::read(reader.u8()?, &mut reader)?;
    // A later version may have more to say.
    if version == PROTOCOL_VERSION {
        reader.end()?;
    }
    Ok(refusal)
}

/// Whether a refusal is proven: its words are sealed then.
pub(super) const fn is_proven(step: &HandshakeStep) -> Result<bool, HelloError> {
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
