//! The side that listens.

use super::GreetError;
use super::fault::{Fault, planted};
use super::noise::{Agreed, Noise, Prologue, Session};
use super::stance::{HAS_SECRET, PLAIN, SIGN, Sign, Stance};
use super::step::{Inbox, Kind, Step};
use super::talk::{Greeter, News, PROVEN, Speaker, TERMS_MAX, Talk, is_proven, read_refusal};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::{CHANGED, FLAGS, LENGTH, Reader, TERMS, TURN};
use crate::vi::{Hello, HelloError, SecretError};

/// A greeting from the listening side.
pub(crate) type Callee = Greeter<Called>;

/// How far the listening side is.
#[derive(Debug)]
pub(crate) enum Called {
    /// Waits for the caller's opening.
    Waiting {
        /// Whether this side would have the bytes of the connection go as they are.
        is_plain: bool,
    },
    /// Has opened too, and waits for what the caller asks for.
    Opened { noise: Noise, is_sealed: bool },
    /// Knows what it asks for, and owes it an answer.
    Asked(Agreed),
}

impl Speaker for Called {
    fn is_peers(&self) -> bool {
        !matches!(self, Self::Asked(_))
    }

    fn next(self, talk: &mut Talk, step: &Step) -> Result<(Option<Self>, News), GreetError> {
        match (self, step.kind) {
            (Self::Waiting { is_plain }, Kind::Opening) => {
                let opened = open(talk, step, is_plain)?;
                Ok((Some(opened), News::Nothing))
            }
            (Self::Opened { noise, is_sealed }, Kind::Asking) => asked(noise, is_sealed, step),
            // A caller that does not like our opening.
            (Self::Opened { .. }, Kind::Refusal) if !is_proven(step)? => {
                Err(GreetError::Refused(read_refusal(&step.body, step.version)?))
            }
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }
}

/// The sign and the first message of an opening that is worth a handshake. Costs hashes alone.
fn knocked<'a>(stance: &Stance, step: &'a Step) -> Result<(Sign, &'a [u8]), GreetError> {
    if step.flags & !(HAS_SECRET | PLAIN) != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let parts = step.body.split_first_chunk::<SIGN>();
    let (sign, message) = parts.ok_or(HelloError::Malformed(LENGTH))?;
    stance.check_flags(step.flags)?;
    if !stance.admits(&Sign(*sign), message) {
        return Err(SecretError::Stranger.into());
    }
    if stance.openings.has(&Sign(*sign)) {
        return Err(GreetError::Repeated);
    }
    Ok((Sign(*sign), message))
}

/// Opens too, if the caller is no stranger.
fn open(talk: &mut Talk, step: &Step, is_plain: bool) -> Result<Called, GreetError> {
    let stance = &talk.stance;
    let (sign, message) = knocked(stance, step)?;
    stance.openings.add(sign);
    talk.has_begun = true;
    let mut noise = Noise::callee(stance, Prologue { flags: step.flags });
    let said = noise.read(message).map_err(|_| HelloError::Malformed(CHANGED))?;
    if !said.is_empty() {
        return Err(HelloError::Malformed(LENGTH).into());
    }
    let both = is_plain && step.flags & PLAIN != 0;
    let is_sealed = !(both || planted(Fault::DowngradeAllowed) && step.flags & PLAIN != 0);
    let flags = stance.flags() | if is_sealed { 0 } else { PLAIN };
    let answer = noise.write(&[flags]);
    talk.say(&Step::new(Kind::Opening, 0, answer));
    Ok(Called::Opened { noise, is_sealed })
}

/// What the caller asks for, if it has proven the secret.
fn asked(
    mut noise: Noise,
    is_sealed: bool,
    step: &Step,
) -> Result<(Option<Called>, News), GreetError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let words = noise.read(&step.body).map_err(|_| SecretError::Different)?;
    let mut reader = Reader::new(&words);
    let len = reader.u16()?;
    let hello = Hello::decode(reader.bytes(len.into())?)?;
    let terms = reader.rest().to_vec();
    if terms.len() > TERMS_MAX {
        return Err(HelloError::Malformed(TERMS).into());
    }
    let agreed = noise.agreed(is_sealed);
    let peer = agreed.session.known.key;
    Ok((Some(Called::Asked(agreed)), News::Hello { peer, hello, terms }))
}

impl Callee {
    /// One that nobody has spoken to yet; whether this side would have the bytes of the connection
    /// go as they are.
    pub(crate) fn new(stance: Stance, is_plain: bool) -> Self {
        Self { talk: Talk::new(stance), turn: Some(Called::Waiting { is_plain }) }
    }

    /// Whether `bytes` are an opening that is worth a handshake, which this does not begin.
    pub(in crate::fabric) fn is_worth(stance: &Stance, bytes: &[u8]) -> bool {
        let step = Inbox::default().feed(bytes);
        let opening = step.ok().and_then(|(_, step)| step).filter(|it| it.kind == Kind::Opening);
        opening.is_some_and(|opening| knocked(stance, &opening).is_ok())
    }

    /// Whether the caller has said nothing that is worth an answer yet.
    pub(in crate::fabric) const fn is_silent(&self) -> bool {
        matches!(self.turn, Some(Called::Waiting { .. }))
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
    /// If nobody has asked, or the terms are too long.
    pub(in crate::fabric) fn welcome(&mut self, terms: &[u8]) -> Session {
        assert!(terms.len() <= TERMS_MAX, "{} bytes of terms", terms.len());
        let Some(Called::Asked(mut agreed)) = self.turn.take() else { panic!("nobody has asked") };
        self.talk.say(&Step::new(Kind::Welcome, 0, agreed.seal(terms)));
        agreed.session
    }

    /// Says no, with a proof if there was one of the caller's. Nothing is said to
    /// whom it was said before, or in the middle of a step.
    pub(crate) fn refuse(&mut self, why: &Refusal) {
        let mut words = Vec::new();
        why.push(&mut words);
        match self.turn.take() {
            Some(Called::Asked(mut agreed)) => {
                self.talk.say(&Step::new(Kind::Refusal, PROVEN, agreed.seal(&words)));
            }
            Some(Called::Waiting { .. }) => self.talk.say(&Step::new(Kind::Refusal, 0, words)),
            Some(Called::Opened { .. })
                if self.talk.outgoing().is_empty() && why.goes_unproven() =>
            {
                self.talk.say(&Step::new(Kind::Refusal, 0, words));
            }
            Some(Called::Opened { .. }) | None => {}
        }
    }
}
