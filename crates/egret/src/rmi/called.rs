//! A call of a plain method that is not run at once, from when it has come until it is answered.

use std::fmt;
use std::sync::Arc;

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;
use egret_node::am::{Kept, ReplySlot};

use super::calls::Ticket;
use super::context::Frame;
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
    pub(super) caller: Caller,
    /// The number by which it is inside of the object's gate, if that has one.
    inside: u64,
    /// Where the table of calls has it.
    pub(super) ticket: Ticket,
    work: Mutex<Option<Work>>,
}

/// What a call needs until it has run.
pub(crate) struct Work {
    pub(crate) memory: Memory,
    pub(crate) to: AnswerTo,
    pub(crate) until: Option<Instant>,
    /// The calls it is a part of, and their chain.
    pub(crate) within: Within,
    pub(crate) chain: u64,
    /// What it takes of the node.
    pub(crate) charge: Charge,
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
        (caller, inside): (Caller, u64),
        ticket: Ticket,
        work: Work,
    ) -> Arc<Self> {
        let work = Mutex::new(Some(work));
        Arc::new(Self { object, method, caller, inside, ticket, work })
    }

    /// Runs it, on a worker of these if they are given, unless somebody has answered it
    /// already.
    pub(crate) fn run(&self, home: Option<&Arc<Workers>>) {
        let Some(work) = self.take() else { return };
        let Work { memory, to, until, mut within, chain, charge } = work;
        let is_late = until.is_some_and(|until| rt::now() >= until);
        let answer = if is_late && !planted(Fault::RunsExpired) {
            Answer::code(Code::Expired)
        } else if self.object.is_closed() {
            Answer::code(Code::UnknownObject)
        } else {
            if self.object.has_gate() {
                within.push(self.inside);
            }
            let call = (self.object.calls(), self.ticket);
            let frame = Frame::call(until, (within, chain), call, home);
            let pace = self.object.pace(self.method);
            let _running = home.is_none().then(|| self.object.receives(pace));
            let timed = pace.time();
            let answer = frame.run(|| self.object.execute(self.method, memory.bytes()));
            pace.timed(timed);
            answer
        };
        // All is given back before the caller can know.
        drop((memory, charge));
        self.over();
        to.answer(answer);
    }

    /// Answers it, if it has not begun.
    pub(crate) fn answer_unrun(&self, code: Code) {
        if let Some(Work { memory, to, charge, .. }) = self.take() {
            drop((memory, charge));
            self.object.withdraw(self);
            self.over();
            to.answer(Answer::code(code));
        }
    }

    fn take(&self) -> Option<Work> {
        self.work.lock().take()
    }

    /// It is over, and can be answered.
    fn over(&self) {
        self.object.over(self.ticket, self.inside);
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
        f.debug_struct("Called").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// The largest alignment that a type is expected to have.
const ALIGN: usize = 64;
