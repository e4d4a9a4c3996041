//! An exported object: calls arrive, pass its gate, and run.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, RwLock};

use egret_net::rt::{self, waits};
use egret_net::sync::Mutex;
use egret_net::vi::caught;
use egret_node::am::{BackgroundThread, Request};
use egret_stream::WireError;

use crate::rmi::NodeId;
use crate::rmi::answer::{CallAnswer, IncomingCall, explain};
use crate::rmi::answer_slot::AnswerSlot;
use crate::rmi::callee::accepted::{
    AcceptedCall, AlignedBytes, AnswerTo, ArgsMemory, CallWork, is_late,
};
use crate::rmi::callee::calls::{CallTable, CallTicket};
use crate::rmi::callee::fabrics::FabricNeeds;
use crate::rmi::callee::gate::{Gate, GateVerdict};
use crate::rmi::callee::load::{CallLoad, CallingPeer};
use crate::rmi::callee::target::{
    GatedTarget, MethodManner, MethodTarget, UngatedTarget, is_gated,
};
use crate::rmi::context::{CallFrame, MethodName, is_waiting, new_chain, waits_for};
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::{AnswerCode, CallHead};
use crate::rmi::interface::{HeldObject, HeldObjectKind, RemoteInterface};
use crate::rmi::interface_table::{InterfaceTable, MethodVersion, StubInterface};
use crate::rmi::threads::cores::{CoreInUse, has_run, has_waited};
use crate::rmi::threads::pace::{MethodPace, RunningMethod};
use crate::rmi::threads::workers::Workers;

/// An object that others call.
pub(crate) struct ExportedObject {
    /// What tells it from all others of its node.
    pub(crate) number: u64,
    /// The number of its interface.
    pub(crate) interface: u16,
    pub(crate) table: Arc<InterfaceTable>,
    /// Its node, and its interface by name: for reports of panics.
    node: NodeId,
    names: &'static StubInterface,
    target: Box<dyn MethodTarget>,
    methods: Vec<MethodManner>,
    /// How long each of them takes.
    paces: Vec<MethodPace>,
    /// If it has methods that take `&mut self`.
    gate: Option<Mutex<Gate<Arc<AcceptedCall>>>>,
    /// Most bytes of arguments.
    pub(crate) bytes_max: u64,
    /// What the fabrics must give by which it is called, if not any will do.
    needs: Option<Box<FabricNeeds>>,
    /// Its calls that wait or run, among those of all objects of the node.
    calls: Arc<CallTable>,
    workers: Arc<Workers>,
    load: Arc<CallLoad>,
    is_closed: AtomicBool,
}

impl ExportedObject {
    /// With these numbers and this table of its interface.
    pub(crate) fn new<I: RemoteInterface + ?Sized>(
        node: NodeId,
        object: HeldObject<I>,
        (number, interface, table): (u64, u16, Arc<InterfaceTable>),
        (bytes_max, needs): (u64, Option<Box<FabricNeeds>>),
        calls: &Arc<CallTable>,
        workers: &Arc<Workers>,
        load: &Arc<CallLoad>,
    ) -> Self {
        let is_gated = is_gated::<I>();
        let target: Box<dyn MethodTarget> = match object.0 {
            HeldObjectKind::Own(object) if is_gated => Box::new(GatedTarget(RwLock::new(object))),
            HeldObjectKind::Own(object) => Box::new(UngatedTarget(object)),
            HeldObjectKind::Shared(object) => Box::new(UngatedTarget(object)),
        };
        Self {
            number,
            interface,
            table,
            node,
            names: StubInterface::of::<I>(),
            target,
            methods: I::METHODS.iter().map(crate::rmi::interface::RemoteMethod::manner).collect(),
            paces: I::METHODS.iter().map(|_| MethodPace::default()).collect(),
            gate: is_gated.then(Mutex::default),
            bytes_max,
            needs,
            calls: Arc::clone(calls),
            workers: Arc::clone(workers),
            load: Arc::clone(load),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Whether it has a method of this number.
    #[inline]
    pub(crate) fn has(&self, method: u8) -> bool {
        usize::from(method) < self.methods.len()
    }

    /// Why a call that came over the fabric of a number is refused, if it is.
    #[inline]
    pub(crate) fn refusal(&self, fabric: usize) -> Option<&str> {
        self.needs.as_deref()?.refusal(fabric)
    }

    /// A call of another node, of a method that the object has: runs it here and now, or puts it
    /// where it waits for its turn.
    #[inline]
    pub(crate) fn arrive(self: Arc<Self>, head: &CallHead, request: Request<'_>) {
        if let Err(answer) = self.admit(request.bytes().len() as u64) {
            return reply(request, *answer);
        }
        let until = head.deadline.until_from(request.came());
        // Behind methods that do not wait the clock has not gone on by much.
        let now = if self.is_inline(head.to.method) { rt::last_now } else { rt::now };
        if is_late(until, || now().max(request.came())) {
            return reply(request, CallAnswer::code(AnswerCode::Expired));
        }
        let peer = request.peer();
        if self.is_inline(head.to.method) {
            if self.calls.is_early(peer, head.number) {
                return reply(request, CallAnswer::code(AnswerCode::Cancelled));
            }
            if let Some(answer) = self.try_inline(head, request.bytes()) {
                return reply(request, answer);
            }
        }
        let Some(ticket) = self.calls.add(Some(peer), head.number) else {
            return reply(request, CallAnswer::code(AnswerCode::Cancelled));
        };
        // Who closes the object says so before it looks which calls there are.
        if self.is_closed() {
            self.calls.remove(ticket);
            return reply(request, CallAnswer::code(AnswerCode::UnknownObject));
        }
        if self.runs_here(head, &request) {
            match self.enter(head) {
                (GateVerdict::Enter, inside) => {
                    return self.run_here(head, request, ticket, inside);
                }
                (GateVerdict::Reentered, _) => {
                    self.calls.remove(ticket);
                    return reply(request, CallAnswer::code(AnswerCode::Reentered));
                }
                (GateVerdict::Wait, _) => {}
            }
        }
        self.take_on(head, request, ticket);
    }

    /// A request, served on the calling thread whatever the method is.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn serve_now(&self, head: &CallHead, bytes: &[u8]) -> CallAnswer {
        match self.admit(bytes.len() as u64) {
            Ok(()) => self.try_inline(head, bytes).expect("nobody else is inside"),
            Err(answer) => *answer,
        }
    }

    /// A call of this node, run on the calling thread if it may enter now; else it waits, if
    /// it may, and the answer comes to the spot.
    pub(crate) fn call_here(
        self: &Arc<Self>,
        head: &CallHead,
        args: AlignedBytes,
        may_wait: bool,
    ) -> Result<CallAnswer, Option<Arc<AnswerSlot>>> {
        if self.is_closed() {
            return Ok(CallAnswer::code(AnswerCode::UnknownObject));
        }
        if let Err(answer) = self.admit(args.bytes().len() as u64) {
            return Ok(*answer);
        }
        let until = head.deadline.until();
        match self.enter(head) {
            (GateVerdict::Enter, inside) => {
                let mut within = head.within.clone();
                inside.into_iter().for_each(|inside| within.push(inside));
                let frame =
                    CallFrame::here(self.name_of(head.to.method), until, within, head.chain);
                let answer = {
                    // What the method waits for is what the caller's thread waits for.
                    let _aside = waits::aside();
                    frame
                        .run(|| self.execute(head.to.method, args.bytes(), head.version.as_deref()))
                };
                inside.into_iter().for_each(|inside| self.leave(inside));
                Ok(answer)
            }
            (GateVerdict::Reentered, _) => Ok(CallAnswer::code(AnswerCode::Reentered)),
            (GateVerdict::Wait, _) => Err(may_wait.then(|| self.begin_here(head, args))),
        }
    }

    /// A call of this node that a worker runs; the answer comes to the spot.
    pub(crate) fn begin_here(
        self: &Arc<Self>,
        head: &CallHead,
        args: AlignedBytes,
    ) -> Arc<AnswerSlot> {
        let spot = Arc::new(AnswerSlot::default());
        let bytes = args.bytes().len() as u64;
        let Some(charge) = self.load.take(None, bytes) else {
            spot.put(CallAnswer::code(AnswerCode::Busy));
            return spot;
        };
        let ticket = self.calls.add(None, head.number).expect("a node does not cancel before");
        let to = AnswerTo::Here(Arc::clone(&spot));
        let (memory, until) = (ArgsMemory::Own(args), head.deadline.until());
        let (within, chain, version) = (head.within.clone(), head.chain, head.version.clone());
        let work = CallWork { memory, to, until, within, chain, version, charge };
        Arc::clone(self).line_up(head.to.method, (None, ticket), work, None);
        spot
    }

    /// Refuses arguments that are too large.
    fn admit(&self, bytes: u64) -> Result<(), Box<CallAnswer>> {
        if bytes > self.bytes_max {
            return Err(Box::new(CallAnswer::too_large(bytes, self.bytes_max)));
        }
        Ok(())
    }

    /// Asks the gate, if there is one; the number by which the call is inside of it.
    #[inline]
    fn enter(&self, head: &CallHead) -> (GateVerdict, Option<u64>) {
        let Some(mut gate) = self.gate() else { return (GateVerdict::Enter, None) };
        let number = new_chain();
        let access = self.manner(head.to.method).access;
        (gate.try_enter(number, access, head.within.numbers()), Some(number))
    }

    /// Runs a call here, unless it has to wait.
    #[inline]
    fn try_inline(&self, head: &CallHead, bytes: &[u8]) -> Option<CallAnswer> {
        let inside = match self.enter(head) {
            (GateVerdict::Enter, inside) => inside,
            (GateVerdict::Reentered, _) => return Some(CallAnswer::code(AnswerCode::Reentered)),
            (GateVerdict::Wait, _) => return None,
        };
        let mut within = head.within.clone();
        inside.into_iter().for_each(|inside| within.push(inside));
        let frame =
            CallFrame::inline(self.name_of(head.to.method), head.deadline, within, head.chain);
        let answer = frame.run(|| self.execute(head.to.method, bytes, head.version.as_deref()));
        inside.into_iter().for_each(|inside| self.leave(inside));
        Some(answer)
    }

    /// Whether the thread that has received a call runs it: if its method does not overrun, no other call
    /// waits for a worker, and the thread serves and has nothing to do meanwhile for which there is a core,
    /// or waits for the answer to a call that this one is a part of.
    #[inline]
    fn runs_here(&self, head: &CallHead, request: &Request<'_>) -> bool {
        let pace = self.pace(head.to.method);
        !pace.overruns()
            && self.workers.is_idle()
            && (pace.is_free() && !self.passes_on(pace, request) && request.may_last()
                || waits_for(head.chain) && request.can_go_outside())
    }

    /// Whether a thread that serves leaves a call to a worker, to receive others meanwhile.
    #[inline]
    fn passes_on(&self, pace: &MethodPace, request: &Request<'_>) -> bool {
        pace.is_long() && self.passes_on_long(request)
    }

    /// The same, of a method that takes long.
    #[cold]
    fn passes_on_long(&self, request: &Request<'_>) -> bool {
        self.workers.cores.passes_on(|| request.has_more() || has_waited(request.peer()))
    }

    /// Runs a call that has passed the gate, on the thread that has received it, and answers it. There
    /// are no more such calls than threads, and no call is refused for one.
    #[inline]
    fn run_here(
        self: Arc<Self>,
        head: &CallHead,
        mut request: Request<'_>,
        ticket: CallTicket,
        inside: Option<u64>,
    ) {
        let method = head.to.method;
        let until = head.deadline.until_from(request.came());
        let mut within = head.within.clone();
        inside.into_iter().for_each(|inside| within.push(inside));
        let frame = CallFrame::call(
            self.name_of(method),
            until,
            (within, head.chain),
            (&self.calls, ticket),
            None,
        );
        let peer = request.peer();
        let (answer, closed) = request.outside(|bytes| {
            let pace = self.pace(method);
            let running = self.receives(pace);
            let timed = (is_waiting() || pace.is_due()).then(|| pace.time());
            let answer = frame.run(|| self.execute(method, bytes, head.version.as_deref()));
            timed.into_iter().for_each(|timed| pace.timed(timed));
            if running.1.is_some() {
                has_run(peer);
            }
            drop(running);
            // All is given back before the caller can know.
            self.over(ticket, inside.unwrap_or_default());
            (answer, self.is_closed().then_some(self))
        });
        match closed {
            None => reply(request, answer),
            // The last of the object goes with it, which may wait and take long.
            Some(object) => {
                answer.send(|message| request.reply_now(message));
                request.outside(|_| drop(object));
            }
        }
    }

    /// A thread that is no worker runs a method, until this is dropped.
    #[inline]
    pub(crate) fn receives<'a>(
        &'a self,
        pace: &'a MethodPace,
    ) -> (RunningMethod<'a>, Option<CoreInUse<'a>>) {
        (pace.running(), pace.is_long().then(|| self.workers.cores.receives()))
    }

    /// Keeps a call, for a worker or an idle thread in the background.
    fn take_on(self: Arc<Self>, head: &CallHead, mut request: Request<'_>, ticket: CallTicket) {
        let peer = Some(request.peer());
        let Some(charge) = self.load.take(peer, request.bytes().len() as u64) else {
            self.calls.remove(ticket);
            return reply(request, CallAnswer::code(AnswerCode::Busy));
        };
        let until = head.deadline.until_from(request.came());
        let lent = self.lent(head.to.method, &request);
        let memory = ArgsMemory::Kept(request.hold());
        let to = AnswerTo::Caller(request.later());
        let (within, chain, version) = (head.within.clone(), head.chain, head.version.clone());
        let work = CallWork { memory, to, until, within, chain, version, charge };
        self.line_up(head.to.method, (peer, ticket), work, lent);
    }

    /// The background thread, which runs a call that the calling thread must not run, as if it had
    /// received the call.
    fn lent(&self, method: u8, request: &Request<'_>) -> Option<BackgroundThread> {
        let pace = self.pace(method);
        let may_be = !pace.overruns() && pace.is_free() && self.workers.is_idle();
        if !may_be || request.may_last() || planted(Fault::NeverLent) {
            return None;
        }
        request.background()
    }

    /// Has a call run when it may enter, at once by a thread that is lent for it; else by a worker.
    fn line_up(
        self: Arc<Self>,
        method: u8,
        (caller, ticket): (CallingPeer, CallTicket),
        work: CallWork,
        lent: Option<BackgroundThread>,
    ) {
        let (within, access) = (work.within.clone(), self.manner(method).access);
        let inside = self.gate.as_ref().map_or(0, |_| new_chain());
        let called = AcceptedCall::new(Arc::clone(&self), method, (caller, inside), ticket, work);
        // While no call can pass the gate: a cancel finds this one where it is.
        let gate = self.gate();
        let is_cancelled = self.calls.keep(&called);
        let verdict = gate.map_or(GateVerdict::Enter, |mut gate| {
            let verdict = gate.try_enter(inside, access, within.numbers());
            if verdict == GateVerdict::Wait {
                gate.wait(inside, access, Arc::clone(&called));
            }
            verdict
        });
        match verdict {
            _ if is_cancelled => called.answer_unrun(AnswerCode::Cancelled),
            // Who closed it may have looked before.
            _ if self.is_closed() => called.answer_unrun(AnswerCode::UnknownObject),
            GateVerdict::Enter => hand_over(called, lent),
            GateVerdict::Wait => {}
            GateVerdict::Reentered => called.answer_unrun(AnswerCode::Reentered),
        }
    }

    /// Runs a method on arguments, which are copied if they do not lie as its types need, and read as the version
    /// says if the caller has another.
    pub(crate) fn execute(
        &self,
        method: u8,
        bytes: &[u8],
        version: Option<&MethodVersion>,
    ) -> CallAnswer {
        let done = match self.attempt(method, bytes, version) {
            Err(WireError::Misaligned(_)) => {
                self.attempt(method, AlignedBytes::copy(&[bytes]).bytes(), version)
            }
            done => done,
        };
        done.unwrap_or_else(|why| {
            let why = explain(&why, self.load.memory(), "the object's node");
            CallAnswer::text(AnswerCode::Unreadable, &format!("the arguments: {why}"))
        })
    }

    #[inline]
    fn attempt(
        &self,
        method: u8,
        bytes: &[u8],
        version: Option<&MethodVersion>,
    ) -> Result<CallAnswer, WireError> {
        let mut served = IncomingCall::new(bytes, self.load.memory(), version);
        let run = || self.target.run(method.into(), &mut served);
        match caught(|| __rust_begin_short_backtrace(run)) {
            Ok(done) => done.map(|()| served.answer),
            // The panic hook has reported it.
            Err(message) => Ok(CallAnswer::text(AnswerCode::Panicked, &message)),
        }
    }

    /// A call will not run.
    pub(crate) fn withdraw(&self, called: &AcceptedCall) {
        self.workers.forget(called);
    }

    /// A call is over, or will not be.
    #[inline]
    pub(crate) fn over(&self, ticket: CallTicket, inside: u64) {
        self.calls.remove(ticket);
        self.leave(inside);
    }

    pub(crate) const fn calls(&self) -> &Arc<CallTable> {
        &self.calls
    }

    #[inline]
    fn leave(&self, inside: u64) {
        let Some(mut gate) = self.gate() else { return };
        let mut entered = Vec::new();
        gate.leave(inside, |called| entered.push(called));
        drop(gate);
        entered.into_iter().for_each(|called| hand_over(called, None));
    }

    /// Nothing more is to begin.
    pub(crate) fn close(&self) {
        self.mark_closed();
        self.calls.close(self);
    }

    /// The same, but for the calls that wait.
    pub(crate) fn mark_closed(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// How long a method takes.
    pub(crate) fn pace(&self, method: u8) -> &MethodPace {
        &self.paces[usize::from(method)]
    }

    /// A method, for reports of panics.
    pub(crate) const fn name_of(&self, method: u8) -> MethodName {
        MethodName { node: self.node, object: self.number, interface: self.names, method }
    }

    fn manner(&self, method: u8) -> &MethodManner {
        &self.methods[usize::from(method)]
    }

    pub(crate) const fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Whether a method may be run by a thread that must not wait.
    #[inline]
    pub(crate) fn is_inline(&self, method: u8) -> bool {
        self.manner(method).is_inline
    }

    fn gate(&self) -> Option<MutexGuard<'_, Gate<Arc<AcceptedCall>>>> {
        Some(self.gate.as_ref()?.lock())
    }
}

impl fmt::Debug for ExportedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Runs a method. A short backtrace ends at a function of this name, which the standard library has given
/// that meaning: so that of a method's panic shows what the method called, and nothing of what called it.
#[inline(never)]
fn __rust_begin_short_backtrace<R>(method: impl FnOnce() -> R) -> R {
    let returned = method();
    // Or the compiler could leave this frame before the method runs.
    std::hint::black_box(());
    returned
}

/// A call has passed the gate.
fn hand_over(called: Arc<AcceptedCall>, lent: Option<BackgroundThread>) {
    let workers = Arc::clone(&called.object.workers);
    if let Err(called) = workers.push(called, lent) {
        called.answer_unrun(AnswerCode::Busy);
    }
}

/// Answers a call on the thread that received it.
#[inline]
pub(crate) fn reply(request: Request<'_>, answer: CallAnswer) {
    if answer.is_short() {
        request.reply(answer.words());
    } else {
        answer.send(|message| request.reply_with(message));
    }
}
