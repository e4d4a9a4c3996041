//! A call of a plain method, from when it has come until it is answered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;
use egret_node::am::{Deferred, Kept, ReplySlot};

use super::context::{Frame, Timed, is_waiting};
use super::fault::{Fault, planted};
use super::load::{Caller, Charge};
use super::object::Object;
use super::served::Answer;
use super::spot::Spot;
use super::words::{Code, Within};
use super::workers::Workers;

/// A call at its object. Whoever takes its [`Work`] answers it, and there is one such.
pub(crate) struct Called {
    pub(super) object: Arc<Object>,
    method: u8,
    pub(super) key: Key,
    /// Where the table of calls has it.
    pub(super) place: u32,
    is_cancelled: AtomicBool,
    work: Mutex<Option<Work>>,
}

/// What a call is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) caller: Caller,
    /// What the caller calls it by; 0 if it does not.
    pub(crate) number: u64,
    /// The number by which it is inside of the object's gate, if that has one.
    pub(crate) inside: u64,
}

/// What a call needs until it has run.
pub(crate) struct Work {
    pub(crate) memory: Memory,
    pub(crate) to: AnswerTo,
    pub(crate) until: Option<Instant>,
    /// The calls it is a part of, and their chain.
    pub(crate) within: Within,
    pub(crate) chain: u64,
    /// What it takes of the node; nothing if the thread that has received it runs it next. There are
    /// no more such calls than threads, and nobody is refused for one.
    pub(crate) charge: Option<Charge>,
}

/// Where the answer goes.
pub(crate) enum AnswerTo {
    Caller(ReplySlot),
    /// A caller of this node.
    Here(Arc<Spot>),
}

/// Where arguments lie.
pub(crate) enum Memory {
    /// Where they arrived, or a copy.
    Kept(Kept),
    Own(Aligned),
}

/// Bytes that begin where any type may.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    at: usize,
}

impl Called {
    pub(crate) fn new(
        object: Arc<Object>,
        method: u8,
        key: Key,
        place: u32,
        work: Work,
    ) -> Arc<Self> {
        let (work, is_cancelled) = (Mutex::new(Some(work)), AtomicBool::new(false));
        Arc::new(Self { object, method, key, place, is_cancelled, work })
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// The caller does not want it any more.
    pub(crate) fn cancel(&self) {
        if planted(Fault::CancelLost) {
            return;
        }
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.answer_unrun(Code::Cancelled);
    }

    /// Runs it, on a worker of these if they are given, unless somebody has answered it
    /// already.
    pub(crate) fn run(self: &Arc<Self>, home: Option<&Arc<Workers>>) {
        if let Some((to, answer)) = self.run_unanswered(home, false) {
            to.answer(answer);
        }
    }

    /// Runs it; what it is to be answered, and where. Everything else is done.
    fn run_unanswered(
        self: &Arc<Self>,
        home: Option<&Arc<Workers>>,
        is_next: bool,
    ) -> Option<(AnswerTo, Answer)> {
        let work = self.take()?;
        let Work { memory, to, until, mut within, chain, charge } = work;
        // What has just come is not late.
        let is_late = !is_next && until.is_some_and(|until| rt::now() >= until);
        if is_late && !planted(Fault::RunsExpired) {
            drop((memory, charge));
            return Some(self.finished(to, Answer::code(Code::Expired)));
        }
        if self.object.is_closed() {
            drop((memory, charge));
            return Some(self.finished(to, Answer::code(Code::UnknownObject)));
        }
        if self.object.has_gate() {
            within.push(self.key.inside);
        }
        let frame = Frame::worker(until, (within, chain), self, home);
        let pace = self.object.pace(self.method);
        let is_timed = home.is_some() || is_waiting() || pace.is_due();
        let timed = is_timed.then(Timed::begin);
        let answer = frame.run(|| self.object.execute(self.method, memory.bytes()));
        timed.into_iter().for_each(|timed| pace.ran(timed.end()));
        // All is given back before the caller can know.
        drop((memory, charge));
        Some(self.finished(to, answer))
    }

    /// Answers it, if it has not begun.
    pub(crate) fn answer_unrun(&self, code: Code) {
        if let Some(Work { memory, to, charge, .. }) = self.take() {
            drop((memory, charge));
            self.object.withdraw(self);
            let (to, answer) = self.finished(to, Answer::code(code));
            to.answer(answer);
        }
    }

    fn take(&self) -> Option<Work> {
        self.work.lock().take()
    }

    /// It is over, and can be answered.
    fn finished(&self, to: AnswerTo, answer: Answer) -> (AnswerTo, Answer) {
        self.object.over(self);
        (to, answer)
    }
}

impl Deferred for Called {
    fn run(self: Arc<Self>) {
        let running = self.object.pace(self.method).running();
        let ran = self.run_unanswered(None, true);
        drop(running);
        match ran {
            // The last of a closed object goes with this, which may take long.
            Some((AnswerTo::Caller(slot), answer))
                if answer.is_short() && !self.object.is_closed() =>
            {
                slot.reply_at_end(answer.words());
            }
            Some((to, answer)) => to.answer(answer),
            None => {}
        }
    }
}

impl AnswerTo {
    fn answer(self, answer: Answer) {
        match self {
            Self::Caller(slot) if answer.is_short() => slot.reply(answer.words()),
            Self::Caller(slot) => answer.send(|message| slot.reply_with(message)),
            Self::Here(spot) => spot.put(answer),
        }
    }
}

impl Memory {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Kept(kept) => kept,
            Self::Own(own) => own.bytes(),
        }
    }
}

impl Aligned {
    /// A copy of some pieces, one behind the other.
    pub(crate) fn copy(from: &[&[u8]]) -> Self {
        let len = from.iter().map(|piece| piece.len()).sum::<usize>();
        let mut bytes: Vec<u8> = Vec::with_capacity(len + ALIGN);
        let at = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        bytes.resize(at, 0);
        from.iter().for_each(|piece| bytes.extend_from_slice(piece));
        Self { bytes, at }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.at..]
    }
}

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Called").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The largest alignment that a type is expected to have.
const ALIGN: usize = 64;
