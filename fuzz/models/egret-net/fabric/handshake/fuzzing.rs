//! What a fuzzer calls: bytes that become what a peer says. Not for use.

use std::sync::LazyLock;

use super::exchange::TERMS_MAX;
use super::step::STEP_MAX;
use super::{Callee, Caller, CallerRequest, Credentials, HandshakeError, HandshakeEvent, Session};
use crate::vi::{Hello, KEY_BYTES, Reliability, Secret};

/// One of the two below, as the first byte says; its other bits are the [`Case`] of the second.
pub fn handshake(input: &[u8]) {
    match input.split_first() {
        Some((0..128, rest)) => stranger(rest),
        Some((case, rest)) => meddler(Case::read(*case), rest),
        None => {}
    }
}

/// A stranger sends these, in one piece or in many: it makes no difference.
pub fn stranger(input: &[u8]) {
    let [side, piece, bytes @ ..] = input else { return };
    let (whole, small) = (bytes.len().max(1), usize::from(*piece).max(1));
    assert_eq!(outcome(*side, bytes, whole), outcome(*side, bytes, small));
}

/// Somebody between the two changes what they say: the input is a list of which
/// step, where, and into what. Neither believes anything that was not said, nor takes the other
/// for somebody else, and both agree on how the bytes go that follow.
pub fn meddler(case: Case, input: &[u8]) {
    let changes: Vec<Change> = input.as_chunks::<4>().0.iter().map(Change::read).collect();
    let stances = case.stances();
    let Some(mut caller) = case.caller(&stances) else { return };
    let mut callee = Callee::new(stances.callee.clone(), case.callees_plain);
    let mut has_changed = false;
    let mut callees = None;
    for number in 0..STEPS {
        let is_callers = number % 2 == 0;
        let said = if is_callers { caller.outgoing() } else { callee.outgoing() }.to_vec();
        if is_callers {
            caller.sent(said.len());
        } else {
            callee.sent(said.len());
        }
        let mut heard = said.clone();
        changes.iter().filter(|change| change.step == number).for_each(|c| c.make(&mut heard));
        has_changed |= heard != said;
        let fed = if is_callers { callee.feed(&heard) } else { caller.feed(&heard) };
        match fed.map(|fed| fed.news) {
            Err(_) => return assert!(has_changed, "an honest peer was refused"),
            Ok(HandshakeEvent::Nothing) => {}
            Ok(HandshakeEvent::Hello { peer, hello: asked, terms }) => {
                assert_eq!((asked, terms.as_slice()), (hello(), CALLERS));
                assert_eq!(peer, stances.caller.key(), "the caller is taken for another");
                callees = Some(callee.welcome(CALLEES));
            }
            Ok(HandshakeEvent::Welcome { terms }) => {
                assert_eq!(terms, CALLEES);
                let callers = caller.take_session().expect("it is welcome");
                let callees = callees.expect("it has welcomed the caller");
                return case.check(&stances, &callers, &callees);
            }
        }
    }
    assert!(has_changed, "two honest peers did not meet");
}

/// What the two bring whom a meddler is between. All zeros is a caller that knows the key of the
/// callee, and would have the bytes go as they are.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    is_key_unknown: bool,
    secret: SecretKind,
    callers_sealed: bool,
    callees_plain: bool,
    is_local: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretKind {
    Chosen,
    Random,
    None,
}

impl Case {
    /// The case that these bits stand for.
    #[must_use]
    pub const fn read(bits: u8) -> Self {
        let secret = match bits >> 1 & 3 {
            0 | 1 => SecretKind::Chosen,
            2 => SecretKind::Random,
            _ => SecretKind::None,
        };
        Self {
            is_key_unknown: bits & 1 != 0,
            secret,
            callers_sealed: bits & 8 != 0,
            callees_plain: bits & 16 != 0,
            is_local: bits & 32 != 0,
        }
    }

    fn stances(self) -> Stances {
        let Stances { caller, callee } = match self.secret {
            SecretKind::Chosen => &*CLOSED,
            SecretKind::Random => &*RANDOM,
            SecretKind::None => &*OPEN,
        };
        let of = |credentials: &Credentials| {
            let credentials = credentials.clone().unanswered();
            if self.is_local { credentials.local() } else { credentials }
        };
        Stances { caller: of(caller), callee: of(callee) }
    }

    /// The caller, unless it would show what can be guessed to anybody.
    fn caller(self, stances: &Stances) -> Option<Caller> {
        let key = (!self.is_key_unknown).then(|| stances.callee.key());
        let is_shown = self.secret == SecretKind::Chosen && self.is_key_unknown && !self.is_local;
        assert_eq!(stances.caller.check_callee(key).is_err(), is_shown, "{self:?}");
        let (terms, is_plain) = (CALLERS.to_vec(), !self.callers_sealed);
        let wanted = CallerRequest { hello: hello(), terms, key, is_plain };
        (!is_shown).then(|| Caller::new(stances.caller.clone(), wanted))
    }

    /// Each knows the other, and both seal by the same keys if one of them would.
    fn check(self, stances: &Stances, callers: &Session, callees: &Session) {
        let known = |session: &Session| (session.known.key, session.known.is_sealed);
        let is_sealed = self.callers_sealed || !self.callees_plain;
        assert_eq!(known(callers), (stances.callee.key(), is_sealed), "{self:?}");
        assert_eq!(known(callees), (stances.caller.key(), is_sealed), "{self:?}");
        match (&callers.keys, &callees.keys) {
            (Some(callers), Some(callees)) if is_sealed => {
                assert_eq!(callers.outgoing.bytes(), callees.incoming.bytes());
                assert_eq!(callers.incoming.bytes(), callees.outgoing.bytes());
                assert_ne!(callers.incoming.bytes(), callers.outgoing.bytes());
            }
            (None, None) if !is_sealed => {}
            (callers, callees) => panic!("{self:?}: {callers:?} and {callees:?}"),
        }
    }
}

/// What came of it: how many bytes were taken, what was said, and the end.
type Outcome = (usize, Vec<u8>, Result<Option<HandshakeEvent>, HandshakeError>);

fn outcome(side: u8, bytes: &[u8], piece: usize) -> Outcome {
    let stances = if side & 2 == 0 { &*OPEN } else { &*CLOSED };
    let mut party = if side & 1 == 0 {
        Party::Callee(stances.callee())
    } else {
        Party::Caller(stances.caller(&[7; TERMS_MAX]))
    };
    let (mut rest, mut said) = (bytes, party.send());
    loop {
        let (now, _) = rest.split_at(piece.min(rest.len()));
        let fed = party.feed(now);
        said.extend(party.send());
        match fed {
            Err(why) => return (0, said, Err(why)),
            Ok((consumed, HandshakeEvent::Nothing)) if consumed > 0 => rest = &rest[consumed..],
            Ok((consumed, news)) => {
                let news = (news != HandshakeEvent::Nothing).then_some(news);
                return (bytes.len() - rest.len() + consumed, said, Ok(news));
            }
        }
    }
}

enum Party {
    Caller(Caller),
    Callee(Callee),
}

impl Party {
    fn feed(&mut self, input: &[u8]) -> Result<(usize, HandshakeEvent), HandshakeError> {
        let fed = match self {
            Self::Caller(caller) => caller.feed(input),
            Self::Callee(callee) => callee.feed(input),
        };
        fed.map(|fed| (fed.consumed, fed.news))
    }

    fn send(&mut self) -> Vec<u8> {
        let said = match self {
            Self::Caller(caller) => caller.outgoing(),
            Self::Callee(callee) => callee.outgoing(),
        };
        let said = said.to_vec();
        assert!(said.len() <= STEP_MAX, "{} bytes of a step", said.len());
        match self {
            Self::Caller(caller) => caller.sent(said.len()),
            Self::Callee(callee) => callee.sent(said.len()),
        }
        said
    }
}

struct Change {
    step: usize,
    at: usize,
    what: u8,
    byte: u8,
}

impl Change {
    fn read(&[step, at, what, byte]: &[u8; 4]) -> Self {
        Self { step: usize::from(step) % STEPS, at: at.into(), what, byte }
    }

    fn make(&self, bytes: &mut Vec<u8>) {
        let at = self.at.min(bytes.len());
        match self.what % 4 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, self.byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes[at..].iter_mut().take(1).for_each(|byte| *byte ^= self.byte),
        }
    }
}

/// What the sides bring, made once: keys are slow to make, and those of a fuzzer are the same ones.
struct Stances {
    caller: Credentials,
    callee: Credentials,
}

static OPEN: LazyLock<Stances> = LazyLock::new(|| Stances::new(""));
static CLOSED: LazyLock<Stances> = LazyLock::new(|| Stances::new("shared"));
static RANDOM: LazyLock<Stances> =
    LazyLock::new(|| Stances::new(&format!("egret1.{}", "5a".repeat(KEY_BYTES))));

impl Stances {
    fn new(secret: &str) -> Self {
        let [caller, callee] = [1, 3].map(|byte| {
            let credentials = Credentials::of_byte("fuzz", Secret::from(secret), byte);
            credentials.with_ephemeral([byte + 1; KEY_BYTES])
        });
        Self { caller, callee }
    }

    fn caller(&self, terms: &[u8]) -> Caller {
        let (terms, key) = (terms.to_vec(), Some(self.callee.key()));
        let wanted = CallerRequest { hello: hello(), terms, key, is_plain: true };
        Caller::new(self.caller.clone(), wanted)
    }

    fn callee(&self) -> Callee {
        Callee::new(self.callee.clone().unanswered(), false)
    }
}

fn hello() -> Hello {
    Hello { reliability: Reliability::Delivery, service: "grid".into(), tag: 7 }
}

const STEPS: usize = 4;
const CALLERS: &[u8] = b"the caller's";
const CALLEES: &[u8] = b"the callee's";

/// Products of keys. Those of a fuzzer are the same again and again.
#[cfg(feature = "fuzzing")]
pub(super) mod products {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use crate::vi::KEY_BYTES;

    type Key = [u8; KEY_BYTES];
    /// A private key, and the point that it multiplies if that is not the curve's own.
    type Factors = (Key, Option<Key>);

    thread_local! {
        static KNOWN: RefCell<BTreeMap<Factors, Key>> = const { RefCell::new(BTreeMap::new()) };
    }

    /// A product, which is worked out the first time.
    pub(in super::super) fn remember(factors: Factors, work_out: impl FnOnce() -> Key) -> Key {
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            *known.entry(factors).or_insert_with(work_out)
        })
    }

    const KNOWN_MAX: usize = 256;
}
