//! The side that listens.

use super::HandshakeError;
use super::credentials::{Credentials, HAS_SECRET, PLAIN, SIGN, Sign};
use super::exchange::{
    Handshake, HandshakeEvent, HandshakeSide, PROVEN, StepExchange, TERMS_MAX, is_proven,
    read_refusal,
};
use super::fault::{Fault, planted};
use super::noise::{Noise, NoiseTransport, Prologue, Session};
use super::step::{HandshakeStep, StepKind, StepReader};
use crate::fabric::common::ConnectRefusal;
use crate::fabric::common::bytes::{ByteReader, CHANGED, FLAGS, LENGTH, TERMS, TURN};
use crate::vi::{Hello, HelloError, SecretError};

/// A handshake, as the listening side runs it.
pub(crate) type Callee = Handshake<CalleeState>;

/// The state of the listening side.
#[derive(Debug)]
pub(crate) enum CalleeState {
    /// Waits for the caller's opening.
    Waiting {
        /// Whether this side would have the bytes of the connection go as they are.
        is_plain: bool,
    },
    /// Has opened too, and waits for what the caller asks for.
    Opened { noise: Noise, is_sealed: bool },
    /// Knows what the caller asks for, and owes it an answer.
    Asked(NoiseTransport),
}

impl HandshakeSide for CalleeState {
    fn is_peers(&self) -> bool {
        !matches!(self, Self::Asked(_))
    }

    fn next(
        self,
        talk: &mut StepExchange,
        step: &HandshakeStep,
    ) -> Result<(Option<Self>, HandshakeEvent), HandshakeError> {
        match (self, step.kind) {
            (Self::Waiting { is_plain }, StepKind::Opening) => {
                let opened = open(talk, step, is_plain)?;
                Ok((Some(opened), HandshakeEvent::Nothing))
            }
            (Self::Opened { noise, is_sealed }, StepKind::Asking) => asked(noise, is_sealed, step),
            // A caller that does not like our opening.
            (Self::Opened { .. }, StepKind::Refusal) if !is_proven(step)? => {
                Err(HandshakeError::Refused(read_refusal(&step.body, step.version)?))
            }
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }
}

/// The sign and the first message of an opening that is worth a handshake. Costs hashes alone.
fn read_opening<'a>(
    credentials: &Credentials,
    step: &'a HandshakeStep,
) -> Result<(Sign, &'a [u8]), HandshakeError> {
    if step.flags & !(HAS_SECRET | PLAIN) != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let parts = step.body.split_first_chunk::<SIGN>();
    let (sign, message) = parts.ok_or(HelloError::Malformed(LENGTH))?;
    credentials.check_flags(step.flags)?;
    if !credentials.admits(&Sign(*sign), message) {
        return Err(SecretError::Stranger.into());
    }
    if credentials.openings.has(&Sign(*sign)) {
        return Err(HandshakeError::Repeated);
    }
    Ok((Sign(*sign), message))
}

/// Opens too, if the caller is no stranger.
fn open(
    talk: &mut StepExchange,
    step: &HandshakeStep,
    is_plain: bool,
) -> Result<CalleeState, HandshakeError> {
    let credentials = &talk.credentials;
    let (sign, message) = read_opening(credentials, step)?;
    credentials.openings.add(sign);
    talk.has_begun = true;
    let mut noise = Noise::callee(credentials, Prologue { flags: step.flags });
    let said = noise.read(message).map_err(|_| HelloError::Malformed(CHANGED))?;
    if !said.is_empty() {
        return Err(HelloError::Malformed(LENGTH).into());
    }
    let is_sealed = is_sealed(is_plain, step.flags);
    let flags = credentials.flags() | if is_sealed { 0 } else { PLAIN };
    let answer = noise.write(&[flags]);
    talk.say(&HandshakeStep::new(StepKind::Opening, 0, answer));
    Ok(CalleeState::Opened { noise, is_sealed })
}

/// Whether the bytes go sealed: they go plain if both sides would.
fn is_sealed(is_plain: bool, flags: u8) -> bool {
    let both = flags & PLAIN != 0 && (is_plain || planted(Fault::DowngradeAllowed));
    !both
}

/// What the caller asks for, if it has proven the secret.
fn asked(
    mut noise: Noise,
    is_sealed: bool,
    step: &HandshakeStep,
) -> Result<(Option<CalleeState>, HandshakeEvent), HandshakeError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let words = noise.read(&step.body).map_err(|_| SecretError::Different)?;
    let mut reader = ByteReader::new(&words);
    let len = reader.u16()?;
    let hello = Hello::decode(reader.bytes(len.into())?)?;
    let terms = reader.rest().to_vec();
    if terms.len() > TERMS_MAX {
        return Err(HelloError::Malformed(TERMS).into());
    }
    let agreed = noise.agreed(is_sealed);
    let peer = agreed.session.known.key;
    Ok((Some(CalleeState::Asked(agreed)), HandshakeEvent::Hello { peer, hello, terms }))
}

impl Callee {
    /// One that no caller has spoken to yet; whether this side would have the bytes of the connection
    /// go as they are.
    pub(crate) fn new(credentials: Credentials, is_plain: bool) -> Self {
        Self { talk: StepExchange::new(credentials), turn: Some(CalleeState::Waiting { is_plain }) }
    }

    /// Whether `bytes` are an opening that is worth a handshake, which this does not begin.
    pub(in crate::fabric) fn is_worth(credentials: &Credentials, bytes: &[u8]) -> bool {
        let step = StepReader::default().feed(bytes);
        let opening =
            step.ok().and_then(|(_, step)| step).filter(|it| it.kind == StepKind::Opening);
        opening.is_some_and(|opening| read_opening(credentials, &opening).is_ok())
    }

    /// Whether the caller has said nothing that is worth an answer yet.
    pub(in crate::fabric) const fn is_silent(&self) -> bool {
        matches!(self.turn, Some(CalleeState::Waiting { .. }))
    }

    /// Whether a handshake has begun, which costs the same if it comes to nothing.
    pub(in crate::fabric) const fn has_begun(&self) -> bool {
        self.talk.has_begun
    }

    /// Accepts who asked, with at most [`TERMS_MAX`] bytes that the fabric has to
    /// say. It is connected when all of this has been sent.
    ///
    /// # Panics
    ///
    /// If no caller has asked, or the terms are too long.
    pub(in crate::fabric) fn welcome(&mut self, terms: &[u8]) -> Session {
        assert!(terms.len() <= TERMS_MAX, "{} bytes of terms", terms.len());
        let Some(CalleeState::Asked(mut agreed)) = self.turn.take() else {
            panic!("nobody has asked")
        };
        self.talk.say(&HandshakeStep::new(StepKind::Welcome, 0, agreed.seal(terms)));
        agreed.session
    }

    /// Says no, with a proof if there was one of the caller's. Nothing is said to
    /// whom it was said before, or in the middle of a step.
    pub(crate) fn refuse(&mut self, why: &ConnectRefusal) {
        let mut words = Vec::new();
        why.push(&mut words);
        match self.turn.take() {
            Some(CalleeState::Asked(mut agreed)) => {
                self.talk.say(&HandshakeStep::new(StepKind::Refusal, PROVEN, agreed.seal(&words)));
            }
            Some(CalleeState::Waiting { .. }) => {
                self.talk.say(&HandshakeStep::new(StepKind::Refusal, 0, words));
            }
            Some(CalleeState::Opened { .. })
                if self.talk.outgoing().is_empty() && why.goes_unproven() =>
            {
                self.talk.say(&HandshakeStep::new(StepKind::Refusal, 0, words));
            }
            Some(CalleeState::Opened { .. }) | None => {}
        }
    }
}
