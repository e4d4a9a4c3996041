//! The side that connects.

use super::HandshakeError;
use super::credentials::{Credentials, HAS_SECRET, PLAIN};
use super::exchange::{
    Handshake, HandshakeEvent, HandshakeSide, StepExchange, TERMS_MAX, is_proven, push_bytes,
    read_refusal,
};
use super::fault::{Fault, planted};
use super::noise::{Noise, NoiseTransport, Prologue};
use super::step::{HandshakeStep, StepKind};
use crate::fabric::common::ConnectRefusal;
use crate::fabric::common::bytes::{CHANGED, FLAGS, TERMS, TURN, UNPROVEN};
use crate::vi::{Hello, HelloError, KeyError, PublicKey};

/// A handshake, as the connecting side runs it.
pub(crate) type Caller = Handshake<CallerState>;

/// What a caller asks for, and of which callee.
#[derive(Debug, Clone)]
pub(crate) struct CallerRequest {
    pub hello: Hello,
    /// At most [`TERMS_MAX`] bytes that the fabric has to say beside it.
    pub terms: Vec<u8>,
    /// The key that the callee must prove, if one is known.
    pub key: Option<PublicKey>,
    /// Whether this side would have the bytes of the connection go as they are.
    pub is_plain: bool,
}

/// The state of the connecting side.
#[derive(Debug)]
pub(crate) enum CallerState {
    /// Waits for the callee's opening, to say what it wants.
    Opening(Box<Noise>, CallerRequest),
    /// Has asked, and waits for the answer.
    Asking(NoiseTransport),
}

impl Caller {
    /// One whose first step is outgoing.
    ///
    /// # Panics
    ///
    /// If the terms are too long, or the callee could guess the secret by what it is sent:
    /// [`Credentials::check_callee`] says so beforehand.
    pub(crate) fn new(credentials: Credentials, wanted: CallerRequest) -> Self {
        let len = wanted.terms.len();
        assert!(len <= TERMS_MAX, "{len} bytes of terms");
        assert_eq!(credentials.check_callee(wanted.key), Ok(()));
        let flags = credentials.flags() | if wanted.is_plain { PLAIN } else { 0 };
        let mut noise = Box::new(Noise::caller(&credentials, Prologue { flags }));
        let message = noise.write(&[]);
        let sign = credentials.sign(wanted.key, &message);
        let mut talk = StepExchange::new(credentials);
        talk.say(&HandshakeStep::new(StepKind::Opening, flags, [&sign.0[..], &message].concat()));
        Self { talk, turn: Some(CallerState::Opening(noise, wanted)) }
    }
}

impl HandshakeSide for CallerState {
    fn next(
        self,
        talk: &mut StepExchange,
        step: &HandshakeStep,
    ) -> Result<(Option<Self>, HandshakeEvent), HandshakeError> {
        match (self, step.kind) {
            (Self::Opening(noise, wanted), StepKind::Opening) => {
                let agreed = ask(talk, *noise, &wanted, step)?;
                Ok((Some(Self::Asking(agreed)), HandshakeEvent::Nothing))
            }
            (Self::Asking(agreed), StepKind::Welcome) => Ok((None, welcomed(talk, agreed, step)?)),
            (Self::Asking(agreed), StepKind::Refusal) => Err(refused(Some(agreed), step)),
            (Self::Opening(..), StepKind::Refusal) => Err(refused(None, step)),
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }
}

/// Asks, if the callee that has opened is the one that was called.
fn ask(
    talk: &mut StepExchange,
    mut noise: Noise,
    wanted: &CallerRequest,
    step: &HandshakeStep,
) -> Result<NoiseTransport, HandshakeError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let said = noise.read(&step.body).map_err(|_| HelloError::Malformed(CHANGED))?;
    let [flags] = said[..] else { return Err(HelloError::Malformed(FLAGS).into()) };
    if flags & !PLAIN != talk.credentials.flags() & HAS_SECRET
        || flags & PLAIN != 0 && !wanted.is_plain
    {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let peer = noise.peer().ok_or(HelloError::Malformed(CHANGED))?;
    if is_other(wanted.key, peer) {
        return Err(KeyError::Other.into());
    }
    let mut words = Vec::new();
    push_bytes(&mut words, &wanted.hello.encode());
    words.extend(&wanted.terms);
    let message = noise.write(&words);
    talk.say(&HandshakeStep::new(StepKind::Asking, 0, message));
    Ok(noise.agreed(flags & PLAIN == 0))
}

fn is_other(wanted: Option<PublicKey>, peer: PublicKey) -> bool {
    wanted.is_some_and(|key| key != peer) && !planted(Fault::KeyUnchecked)
}

fn goes_unproven(refusal: &ConnectRefusal) -> bool {
    refusal.goes_unproven() || planted(Fault::RefusalBelieved)
}

fn welcomed(
    talk: &mut StepExchange,
    mut agreed: NoiseTransport,
    step: &HandshakeStep,
) -> Result<HandshakeEvent, HandshakeError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let terms = agreed.open(&step.body).map_err(|_| HelloError::Malformed(CHANGED))?;
    if terms.len() > TERMS_MAX {
        return Err(HelloError::Malformed(TERMS).into());
    }
    talk.session = Some(agreed.session);
    Ok(HandshakeEvent::Welcome { terms })
}

/// A refusal is an error, and so is one that makes no sense.
fn refused(agreed: Option<NoiseTransport>, step: &HandshakeStep) -> HandshakeError {
    read_refused(agreed, step).unwrap_or_else(HandshakeError::from)
}

fn read_refused(
    agreed: Option<NoiseTransport>,
    step: &HandshakeStep,
) -> Result<HandshakeError, HelloError> {
    let has_asked = agreed.is_some();
    let (refusal, may_go) = match (is_proven(step)?, agreed) {
        (true, Some(mut agreed)) => {
            let words = agreed.open(&step.body).map_err(|_| HelloError::Malformed(CHANGED))?;
            (read_refusal(&words, step.version)?, true)
        }
        (true, None) => return Err(HelloError::Malformed(UNPROVEN)),
        (false, _) => {
            let refusal = read_refusal(&step.body, step.version)?;
            let may_go = match has_asked {
                true => goes_unproven(&refusal),
                false => refusal.goes_unasked(),
            };
            (refusal, may_go)
        }
    };
    if may_go { Ok(HandshakeError::Refused(refusal)) } else { Err(HelloError::Malformed(UNPROVEN)) }
}
