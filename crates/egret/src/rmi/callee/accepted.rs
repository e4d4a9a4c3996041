//! A call of a plain method that does not run at once, from its arrival to its answer.

use std::fmt;
use std::sync::Arc;

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;
use egret_node::am::{HeldPayload, ReplySlot};

use crate::rmi::answer::CallAnswer;
use crate::rmi::answer_slot::AnswerSlot;
use crate::rmi::callee::calls::CallTicket;
use crate::rmi::callee::load::{CallCharge, CallingPeer};
use crate::rmi::callee::object::ExportedObject;
use crate::rmi::context::CallFrame;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::{AnswerCode, EnclosingCalls};
use crate::rmi::interface_table::MethodVersion;
use crate::rmi::threads::workers::Workers;

/// A call at its object. The thread that takes its [`CallWork`] answers it, and one thread alone can take it.
pub(crate) struct AcceptedCall {
    pub(crate) object: Arc<ExportedObject>,
    method: u8,
    pub(crate) caller: CallingPeer,
    /// The number by which it is inside of the object's gate, if that has one.
    inside: u64,
    /// Where the table of calls has it.
    pub(crate) ticket: CallTicket,
    work: Mutex<Option<CallWork>>,
}

/// What a call needs until its method has run.
pub(crate) struct CallWork {
    pub(crate) memory: ArgsMemory,
    pub(crate) to: AnswerTo,
    pub(crate) until: Option<Instant>,
    /// The calls it is a part of, and their chain.
    pub(crate) within: EnclosingCalls,
    pub(crate) chain: u64,
    /// How its arguments are read, if its caller has other types.
    pub(crate) version: Option<Arc<MethodVersion>>,
    /// What it takes of the node.
    pub(crate) charge: CallCharge,
}

/// Where the answer goes.
pub(crate) enum AnswerTo {
    Caller(ReplySlot),
    /// A caller of this node.
    Here(Arc<AnswerSlot>),
}

/// Where arguments lie.
pub(crate) enum ArgsMemory {
    /// Where they arrived, or a copy.
    Kept(HeldPayload),
    Own(AlignedBytes),
}

/// Bytes that begin where any type may.
pub(crate) struct AlignedBytes {
    bytes: Vec<u8>,
    at: usize,
}

impl AcceptedCall {
    pub(crate) fn new(
        object: Arc<ExportedObject>,
        method: u8,
        (caller, inside): (CallingPeer, u64),
        ticket: CallTicket,
        work: CallWork,
    ) -> Arc<Self> {
        let work = Mutex::new(Some(work));
        Arc::new(Self { object, method, caller, inside, ticket, work })
    }

    /// Runs it, on a worker of these if they are given, unless somebody has answered it
    /// already.
    pub(crate) fn run(&self, home: Option<&Arc<Workers>>) {
        let Some(work) = self.take() else { return };
        let CallWork { memory, to, until, mut within, chain, version, charge } = work;
        let answer = if is_late(until, rt::now) {
            CallAnswer::code(AnswerCode::Expired)
        } else if self.object.is_closed() {
            CallAnswer::code(AnswerCode::UnknownObject)
        } else {
            if self.object.has_gate() {
                within.push(self.inside);
            }
            let call = (self.object.calls(), self.ticket);
            let frame = CallFrame::call(
                self.object.name_of(self.method),
                until,
                (within, chain),
                call,
                home,
            );
            let pace = self.object.pace(self.method);
            let _running = home.is_none().then(|| self.object.receives(pace));
            let timed = pace.time();
            let execute = || self.object.execute(self.method, memory.bytes(), version.as_deref());
            let answer = frame.run(execute);
            pace.timed(timed);
            answer
        };
        // Memory and charge are given back before the caller gets the answer.
        drop((memory, charge));
        self.over();
        to.answer(answer);
    }

    /// Answers it, if it has not begun.
    pub(crate) fn answer_unrun(&self, code: AnswerCode) {
        if let Some(CallWork { memory, to, charge, .. }) = self.take() {
            drop((memory, charge));
            self.object.withdraw(self);
            self.over();
            to.answer(CallAnswer::code(code));
        }
    }

    fn take(&self) -> Option<CallWork> {
        self.work.lock().take()
    }

    /// Ends the call: afterwards it can be answered.
    fn over(&self) {
        self.object.over(self.ticket, self.inside);
    }
}

impl AnswerTo {
    fn answer(self, answer: CallAnswer) {
        match self {
            Self::Caller(slot) if answer.is_short() => slot.reply(answer.words()),
            Self::Caller(slot) => answer.send(|message| slot.reply_with(message)),
            Self::Here(spot) => spot.put(answer),
        }
    }
}

impl ArgsMemory {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Kept(kept) => kept,
            Self::Own(own) => own.bytes(),
        }
    }
}

impl AlignedBytes {
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

impl fmt::Debug for AcceptedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Called").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// The largest alignment that a type is expected to have.
const ALIGN: usize = 64;

/// Whether a call is not to begin any more. The clock is asked if there is a deadline.
#[inline]
pub(crate) fn is_late(until: Option<Instant>, now: impl FnOnce() -> Instant) -> bool {
    until.is_some_and(|until| now() >= until) && !planted(Fault::RunsExpired)
}
