//! What a fuzzer calls: bytes that become what a peer says. Not for use.

use std::sync::LazyLock;

use super::step::STEP_MAX;
use super::talk::TERMS_MAX;
use super::{Callee, Caller, GreetError, News, Stance, Wanted};
use crate::vi::{Hello, KEY_BYTES, Reliability, Secret};

/// One of the two below, as the first byte says.
pub fn greet(input: &[u8]) {
    match input.split_first() {
        Some((0..128, rest)) => stranger(rest),
        Some((_, rest)) => meddler(rest),
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
/// step, where, and into what. Neither believes anything that was not said.
pub fn meddler(input: &[u8]) {
    let changes: Vec<Change> = input.as_chunks::<4>().0.iter().map(Change::read).collect();
    let mut caller = CLOSED.caller(b"the caller's");
    let mut callee = CLOSED.callee();
    let mut has_changed = false;
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
            Ok(News::Nothing) => {}
            Ok(News::Hello { hello: asked, terms, .. }) => {
                assert_eq!((asked, terms.as_slice()), (hello(), &b"the caller's"[..]));
                callee.welcome(b"the callee's");
            }
            Ok(News::Welcome { terms }) => return assert_eq!(terms, b"the callee's"),
        }
    }
    assert!(has_changed, "two honest peers did not meet");
}

/// What came of it: how many bytes were taken, what was said, and the end.
type Outcome = (usize, Vec<u8>, Result<Option<News>, GreetError>);

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
            Ok((consumed, News::Nothing)) if consumed > 0 => rest = &rest[consumed..],
            Ok((consumed, news)) => {
                let news = (news != News::Nothing).then_some(news);
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
    fn feed(&mut self, input: &[u8]) -> Result<(usize, News), GreetError> {
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
    caller: Stance,
    callee: Stance,
}

static OPEN: LazyLock<Stances> = LazyLock::new(|| Stances::new(""));
static CLOSED: LazyLock<Stances> = LazyLock::new(|| Stances::new("shared"));

impl Stances {
    fn new(secret: &str) -> Self {
        let [caller, callee] = [1, 3].map(|byte| {
            let stance = Stance::of_byte("fuzz", Secret::from(secret), byte);
            stance.with_ephemeral([byte + 1; KEY_BYTES])
        });
        Self { caller, callee }
    }

    fn caller(&self, terms: &[u8]) -> Caller {
        let (terms, key) = (terms.to_vec(), Some(self.callee.key()));
        let wanted = Wanted { hello: hello(), terms, key, is_plain: true };
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
