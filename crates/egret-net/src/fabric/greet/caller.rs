//! The side that connects.

use super::GreetError;
use super::fault::{Fault, planted};
use super::noise::{Agreed, Noise, Prologue};
use super::stance::{HAS_SECRET, PLAIN, Stance};
use super::step::{Kind, Step};
use super::talk::{Greeter, News, Speaker, TERMS_MAX, Talk, is_proven, push_bytes, read_refusal};
use crate::fabric::hub::bytes::{CHANGED, FLAGS, TERMS, TURN, UNPROVEN};
use crate::vi::{Hello, HelloError, KeyError, PublicKey};

/// A greeting from the connecting side.
pub(crate) type Caller = Greeter<Calling>;

/// What a caller wants, and of whom.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub hello: Hello,
    /// At most [`TERMS_MAX`] bytes that the fabric has to say beside it.
    pub terms: Vec<u8>,
    /// The key that the callee must prove, if one is known.
    pub key: Option<PublicKey>,
    /// Whether this side would have the bytes of the connection go as they are.
    pub is_plain: bool,
}

/// How far the connecting side is.
#[derive(Debug)]
pub(crate) enum Calling {
    /// Waits for the callee's opening, to say what it wants.
    Opening(Box<Noise>, Wanted),
    /// Has asked, and waits for the answer.
    Asking(Agreed),
}

impl Caller {
    /// One whose first step is outgoing.
    ///
    /// # Panics
    ///
    /// If the terms are too long, or whoever answers could guess the secret by what it is told:
    /// [`Stance::check_callee`] says so beforehand.
    pub(crate) fn new(stance: Stance, wanted: Wanted) -> Self {
        let len = wanted.terms.len();
        assert!(len <= TERMS_MAX, "{len} bytes of terms");
        assert_eq!(stance.check_callee(wanted.key), Ok(()));
        let flags = stance.flags() | if wanted.is_plain { PLAIN } else { 0 };
        let mut noise = Box::new(Noise::caller(&stance, Prologue { flags }));
        let message = noise.write(&[]);
        let sign = stance.sign(wanted.key, &message);
        let mut talk = Talk::new(stance);
        talk.say(&Step::new(Kind::Opening, flags, [&sign.0[..], &message].concat()));
        Self { talk, turn: Some(Calling::Opening(noise, wanted)) }
    }
}

impl Speaker for Calling {
    fn next(self, talk: &mut Talk, step: &Step) -> Result<(Option<Self>, News), GreetError> {
        match (self, step.kind) {
            (Self::Opening(noise, wanted), Kind::Opening) => {
                let agreed = ask(talk, *noise, &wanted, step)?;
                Ok((Some(Self::Asking(agreed)), News::Nothing))
            }
            (Self::Asking(agreed), Kind::Welcome) => Ok((None, welcomed(talk, agreed, step)?)),
            (Self::Asking(agreed), Kind::Refusal) => Err(refused(Some(agreed), step)),
            (Self::Opening(..), Kind::Refusal) => Err(refused(None, step)),
            _ => Err(HelloError::Malformed(TURN).into()),
        }
    }
}

/// Asks, if whoever has opened is the one that was called.
fn ask(
    talk: &mut Talk,
    mut noise: Noise,
    wanted: &Wanted,
    step: &Step,
) -> Result<Agreed, GreetError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let said = noise.read(&step.body).map_err(|_| HelloError::Malformed(CHANGED))?;
    let [flags] = said[..] else { return Err(HelloError::Malformed(FLAGS).into()) };
    if flags & !PLAIN != talk.stance.flags() & HAS_SECRET || flags & PLAIN != 0 && !wanted.is_plain
    {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let peer = noise.peer().ok_or(HelloError::Malformed(CHANGED))?;
    let is_other = wanted.key.is_some_and(|key| key != peer);
    if is_other && !planted(Fault::KeyUnchecked) {
        return Err(KeyError::Other.into());
    }
    let mut words = Vec::new();
    push_bytes(&mut words, &wanted.hello.encode());
    words.extend(&wanted.terms);
    let message = noise.write(&words);
    talk.say(&Step::new(Kind::Asking, 0, message));
    Ok(noise.agreed(flags & PLAIN == 0))
}

fn welcomed(talk: &mut Talk, mut agreed: Agreed, step: &Step) -> Result<News, GreetError> {
    if step.flags != 0 {
        return Err(HelloError::Malformed(FLAGS).into());
    }
    let terms = agreed.open(&step.body).map_err(|_| HelloError::Malformed(CHANGED))?;
    if terms.len() > TERMS_MAX {
        return Err(HelloError::Malformed(TERMS).into());
    }
    talk.session = Some(agreed.session);
    Ok(News::Welcome { terms })
}

/// A refusal is an error, and so is one that makes no sense.
fn refused(agreed: Option<Agreed>, step: &Step) -> GreetError {
    read_refused(agreed, step).unwrap_or_else(GreetError::from)
}

fn read_refused(agreed: Option<Agreed>, step: &Step) -> Result<GreetError, HelloError> {
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
                true => refusal.goes_unproven() || planted(Fault::RefusalBelieved),
                false => refusal.goes_unasked(),
            };
            (refusal, may_go)
        }
    };
    if may_go { Ok(GreetError::Refused(refusal)) } else { Err(HelloError::Malformed(UNPROVEN)) }
}
