//! What was sent, and what became of it: every message is served once and in order, or
//! somebody is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::link::Fate;
use crate::slots::SlotKey;

/// What all nodes of a world have sent, served and been told.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) streams: Vec<Stream>,
    /// Which endpoint was told of the end of which link.
    pub(super) ends: BTreeSet<(u64, SlotKey)>,
    /// What is wrong, seen where nothing may panic.
    pub(super) wrong: Vec<String>,
}

/// The messages of one mapping, those that overtake nothing together: of its two lanes, and requests
/// by both that keep the order.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) lanes: [Vec<Sent>; 3],
    /// The last message that was served of each.
    served: [Option<usize>; 3],
    /// Its sender is gone, or its error handler: nobody can be told.
    pub(super) unwatched: bool,
    /// A side of its link has died: what was acknowledged may be lost.
    pub(super) dead: bool,
    /// The endpoint that it is for was closed, or has another tag.
    pub(super) returns: bool,
}

/// One message.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) handler: u8,
    pub(super) way: Way,
    pub(super) len: usize,
    pub(super) served: bool,
    pub(super) outcome: Option<Outcome>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Answered,
    Not,
    /// Not answered, and its memory comes back.
    Transfer,
}

/// What the sender was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    /// There is no answer.
    Nothing,
    /// It came back.
    Returned,
    Lost(Fate),
    /// Nobody wants to know.
    Abandoned,
}

/// Which message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) stream: usize,
    pub(super) lane: usize,
    pub(super) number: usize,
}

impl Id {
    pub(super) fn words(self) -> [u64; 3] {
        [self.stream as u64, self.lane as u64, self.number as u64]
    }

    pub(super) fn of(words: &[u64]) -> Option<Self> {
        let [stream, lane, number] = *words.first_chunk::<3>()?;
        let at = |word| usize::try_from(word).ok();
        Some(Self { stream: at(stream)?, lane: at(lane)?, number: at(number)? })
    }

    /// What its payload is.
    pub(super) fn payload(self, len: usize) -> Vec<u8> {
        let first = self.stream * 31 + self.lane * 7 + self.number * 13;
        (first..first + len).map(|byte| byte.to_le_bytes()[0]).collect()
    }
}

impl Ledger {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A handler of this number has a message.
    pub(super) fn serve(&self, handler: u8, words: &[u64], payload: &[u8]) -> Option<Id> {
        let mut book = self.book();
        let served = Id::of(words).ok_or_else(|| format!("words of nobody: {words:?}"));
        let served = served.and_then(|id| book.serve(handler, id, payload).map(|()| id));
        served.map_err(|why| book.wrong.push(why)).ok()
    }

    /// An endpoint was told that a link ended.
    pub(super) fn ended(&self, endpoint: u64, link: SlotKey) {
        let mut book = self.book();
        if !book.ends.insert((endpoint, link)) {
            book.wrong.push(format!("{link:?} ended twice for {endpoint}"));
        }
    }

    /// What became of a message.
    pub(super) fn tell(&self, id: Id, outcome: Outcome) {
        let mut book = self.book();
        if let Err(why) = book.tell(id, outcome) {
            book.wrong.push(why);
        }
    }
}

impl Book {
    fn sent(&mut self, id: Id) -> Result<&mut Sent, String> {
        let stream = self.streams.get_mut(id.stream).ok_or("no such stream")?;
        stream.lanes[id.lane].get_mut(id.number).ok_or_else(|| format!("{id:?} was never sent"))
    }

    fn serve(&mut self, handler: u8, id: Id, payload: &[u8]) -> Result<(), String> {
        let sent = self.sent(id)?;
        if sent.served {
            return Err(format!("{id:?} was served twice"));
        }
        if sent.handler != handler {
            return Err(format!("{id:?} was for {}, not {handler}", sent.handler));
        }
        if payload != id.payload(sent.len) {
            return Err(format!("{id:?} has other bytes: {} of {}", payload.len(), sent.len));
        }
        if let Some(Outcome::Lost(Fate::NotDelivered) | Outcome::Returned) = sent.outcome {
            return Err(format!("{id:?} was served after it was said to be {:?}", sent.outcome));
        }
        sent.served = true;
        let last = self.streams[id.stream].served[id.lane].replace(id.number);
        match last {
            Some(last) if last > id.number => Err(format!("{id:?} was served after {last}")),
            _ => Ok(()),
        }
    }

    fn tell(&mut self, id: Id, outcome: Outcome) -> Result<(), String> {
        let sent = self.sent(id)?;
        // Its memory may be back before it is, or after.
        if sent.way == Way::Transfer && sent.outcome == Some(Outcome::Returned) {
            return Ok(());
        }
        let unwaited = [Some(Outcome::Nothing), Some(Outcome::Abandoned)];
        if sent.way == Way::Transfer && unwaited.contains(&sent.outcome) {
            sent.outcome = Some(outcome);
            return Ok(());
        }
        if let Some(before) = sent.outcome.replace(outcome) {
            return Err(format!("{id:?} is {outcome:?}, and was {before:?}"));
        }
        match outcome {
            Outcome::Lost(Fate::NotDelivered) | Outcome::Returned if sent.served => {
                Err(format!("{id:?} is {outcome:?}, and was served"))
            }
            _ => Ok(()),
        }
    }

    /// Messages that nothing is known of yet.
    pub(super) fn open(&self) -> Vec<(Id, &Sent)> {
        let mut open = Vec::new();
        for (stream, it) in self.streams.iter().enumerate() {
            for (lane, sent) in it.lanes.iter().enumerate() {
                let numbered = sent.iter().enumerate().filter(|(_, sent)| !it.is_known(sent));
                open.extend(numbered.map(|(number, sent)| (Id { stream, lane, number }, sent)));
            }
        }
        open
    }

    /// All is well, at the end.
    pub(super) fn check(&self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        for (number, stream) in self.streams.iter().enumerate() {
            for sent in &stream.lanes {
                let last = sent.iter().rposition(|sent| sent.served).map_or(0, |last| last + 1);
                let skipped =
                    sent[..last].iter().position(|sent| !sent.served && !stream.may_skip(sent));
                let skipped = skipped.map(|at| &sent[at]);
                assert!(
                    skipped.is_none(),
                    "stream {number}: {skipped:?}, and later ones were served"
                );
            }
        }
    }

    /// How often what happened.
    pub(super) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for sent in self.streams.iter().flat_map(|stream| &stream.lanes).flatten() {
            let what = format!("{:?} {:?} served: {}", sent.way, sent.outcome, sent.served);
            *counts.entry(what).or_default() += 1;
        }
        counts
    }
}

impl Stream {
    fn is_known(&self, sent: &Sent) -> bool {
        match sent.way {
            _ if self.unwatched => true,
            Way::Answered | Way::Transfer if sent.outcome.is_none() => false,
            _ if sent.served || self.dead => true,
            Way::Answered if sent.outcome == Some(Outcome::Abandoned) => self.may_skip(sent),
            _ => !matches!(sent.outcome, None | Some(Outcome::Nothing | Outcome::Abandoned)),
        }
    }

    /// Whether it may be that nobody serves it while later ones are.
    fn may_skip(&self, sent: &Sent) -> bool {
        let came_back = sent.outcome == Some(Outcome::Returned);
        // Nobody is told what came of what nobody wants to know.
        let untold = sent.outcome == Some(Outcome::Abandoned) || self.unwatched;
        let too_large = sent.len > 100_000;
        came_back || sent.handler >= NO_HANDLER || untold && (self.returns || too_large)
    }
}

/// From here on there are none.
pub(super) const NO_HANDLER: u8 = 8;
