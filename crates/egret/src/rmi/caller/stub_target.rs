//! What a stub calls.

use std::any::TypeId;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use egret_net::vi::Segment;
use egret_node::am::{Call, CallReply, Message, MessageError};
use egret_node::node::Requirement;

use crate::rmi::answer::{AnswerError, open};
use crate::rmi::callee::object::ExportedObject;
use crate::rmi::callee::objects::MEET;
use crate::rmi::caller::call_site::{CallSite, UNTOLD};
use crate::rmi::caller::meeting::InterfaceMeeting;
use crate::rmi::caller::pair::{NodePair, PairConnection};
use crate::rmi::caller::unsent::SendFailure;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::{CallAddress, CallHead};
use crate::rmi::interface::RemoteInterface;
use crate::rmi::interface_table::{
    InterfaceTable, MethodNumbers, OtherMethod, PlannedMethod, StubInterface,
};
use crate::rmi::payload::CallPayload;
use crate::rmi::{CallError, Limit, ObjectRef};

/// An object of a node, as a stub has it.
#[derive(Debug, Clone)]
pub(crate) struct StubTarget {
    pub(crate) pair: Arc<NodePair>,
    object: u64,
    bytes_max: u64,
    /// What the object requires of the fabric, if not any will do.
    requirement: Option<Arc<Requirement>>,
    /// What the object must have, and the trait of that.
    pub(crate) face: &'static StubInterface,
    id: TypeId,
    /// The numbers that its node has given to the stub's methods, when they are known.
    methods: OnceLock<Arc<MethodNumbers>>,
    /// The interface that the reference to the object names, if it is another than the stub's.
    theirs: Option<Arc<str>>,
    /// The number of the object's interface.
    interface: u16,
}

/// Where a call goes.
pub(crate) enum CallDestination {
    There(Arc<PairConnection>),
    /// To an object of this node.
    Here,
}

/// An interface that is being met, by one connection.
pub(crate) struct InterfaceRequest {
    there: Arc<PairConnection>,
    meeting: InterfaceMeeting,
    call: Option<Call>,
}

impl StubTarget {
    pub(crate) fn new<I: RemoteInterface + ?Sized>(
        pair: Arc<NodePair>,
        object: &ObjectRef,
    ) -> Self {
        let (ours, face, id) = (I::NAME, StubInterface::of::<I>(), TypeId::of::<I>());
        let theirs = (object.interface != ours).then(|| object.interface.as_str().into());
        let ObjectRef { number, kind, bytes_max, .. } = *object;
        let (methods, requires) = (OnceLock::new(), &object.requirement);
        let requirement = (!requires.is_any()).then(|| Arc::new(requires.clone()));
        let (object, interface) = (number, kind);
        Self { pair, object, bytes_max, requirement, face, id, methods, theirs, interface }
    }

    /// What tells the object from all others; `ours` is the interface of the stub.
    pub(crate) fn reference(&self, ours: &str) -> ObjectRef {
        ObjectRef {
            node: self.pair.node,
            interface: self.theirs.as_deref().unwrap_or(ours).to_owned(),
            number: self.object,
            kind: self.interface,
            bytes_max: self.bytes_max,
            requirement: self.requirement.as_deref().cloned().unwrap_or_default(),
        }
    }

    /// A call of a method of the stub, for its answer and its errors.
    #[inline]
    pub(crate) fn asked(&self, method: usize) -> CallSite<'_> {
        CallSite { pair: &self.pair, face: self.face, interface: self.interface, method }
    }

    /// A method of the stub, as the object's node numbers it. One that [is refused](CallAddress::is_refused) is not
    /// called: [`refusal`](Self::refusal) says why.
    ///
    /// # Panics
    ///
    /// If there is no [`end`](Self::end) of it yet.
    #[inline]
    pub(crate) fn to(&self, method: usize) -> CallAddress {
        let methods = self.methods.get().expect("the interface was met");
        let (object, interface, handler) = (self.object, self.interface, methods.handler);
        let to =
            CallAddress { object, interface, method: methods.numbers[method], handler, version: 0 };
        if to.is_refused() { Self::to_other(methods, method, to) } else { to }
    }

    /// The same, of a method that is not the same at the object's node.
    #[cold]
    fn to_other(methods: &MethodNumbers, at: usize, to: CallAddress) -> CallAddress {
        let Some(OtherMethod::Planned(method)) = methods.others.get(&at) else { return to };
        let PlannedMethod { number: method, version, .. } = *method;
        let version = if planted(Fault::VersionUnsaid) { 0 } else { version };
        CallAddress { method, version, ..to }
    }

    /// Why a method is refused.
    #[cold]
    pub(crate) fn refusal(&self, method: usize) -> CallError {
        match self.methods.get().and_then(|methods| methods.others.get(&method)) {
            Some(OtherMethod::Refused { field, ours, theirs }) => {
                let (field, ours, theirs) = (field.clone(), ours.clone(), theirs.clone());
                CallError::TypeMismatch { field, ours, theirs, call: UNTOLD }
            }
            _ => {
                let name = (self.face.method)(method).to_owned();
                CallError::UnknownMethod { name, call: UNTOLD }
            }
        }
    }

    /// Refuses arguments that the object does not take.
    #[inline]
    pub(crate) fn check_size(&self, bytes: u64) -> Result<(), CallError> {
        let most = self.bytes_max;
        if bytes > most {
            return Err(CallError::TooLarge { bytes, most, limit: Limit::Object, call: UNTOLD });
        }
        Ok(())
    }

    /// Where calls go, if that is known.
    #[inline]
    pub(crate) fn end(&self) -> Option<CallDestination> {
        if self.methods.get().is_none() && !self.is_known() {
            return None;
        }
        match self.pair.there() {
            Some(there) if self.methods.get()?.is_planned && !self.has_described(&there) => None,
            Some(there) => Some(CallDestination::There(there)),
            None => self.pair.is_here().then_some(CallDestination::Here),
        }
    }

    /// The end, if the object is one of this node: what is compared is what another node does.
    pub(crate) fn end_here(&self) -> Result<Option<CallDestination>, CallError> {
        let table = (self.face.table)();
        self.check_name(&table)?;
        if !self.pair.is_here() {
            return Ok(None);
        }
        if self.methods.get().is_none() {
            let (objects, mut meeting) =
                (&self.pair.exchange.objects, InterfaceMeeting::new(table));
            loop {
                let met = objects.meet(None, self.interface, &meeting.needs());
                if let Some(methods) = meeting.answered(met)? {
                    self.learn(methods);
                    break;
                }
            }
        }
        Ok(Some(CallDestination::Here))
    }

    /// Goes on to the connection, and to the numbers of the methods, as far as that goes without waiting.
    pub(crate) fn poll_connected(
        &self,
        meeting: &mut Option<InterfaceRequest>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Arc<PairConnection>, SendFailure>> {
        let there = match self.pair.poll_connect(context) {
            Poll::Ready(there) => there?,
            Poll::Pending => return Poll::Pending,
        };
        let mut is_again = false;
        while !self.is_met(&there) {
            let request = meeting.get_or_insert_with(|| InterfaceRequest {
                there: Arc::clone(&there),
                meeting: InterfaceMeeting::new((self.face.table)()),
                call: None,
            });
            if let Some(call) = &mut request.call {
                let Poll::Ready(reply) = Pin::new(call).poll(context) else {
                    return Poll::Pending;
                };
                request.call = None;
                let met = match reply {
                    Ok(reply) => self.met(request, &reply).map_err(SendFailure::Known),
                    Err(why) => {
                        self.pair.forget_if_broken(&request.there, &why);
                        Err(SendFailure::Unmet(why))
                    }
                };
                // A request that has failed, or is over, is of no more use.
                if !matches!(met, Ok(false)) {
                    *meeting = None;
                }
                met?;
                continue;
            }
            let way = request.there.way(true);
            let asked = self.ask(&request.meeting, |message| {
                way.try_request(message).map_err(|unsent| (unsent.why, None))
            })?;
            match asked {
                Ok(call) => request.call = Some(call),
                Err(MessageError::Full { .. }) => {
                    let is_pending = way.poll_room(context).is_pending();
                    if is_pending || std::mem::replace(&mut is_again, true) {
                        return Poll::Pending;
                    }
                }
                Err(why) => {
                    self.pair.forget_if_broken(&request.there, &why);
                    return Poll::Ready(Err(SendFailure::Send(why)));
                }
            }
        }
        Poll::Ready(Ok(there))
    }

    /// Whether a connection has carried the schemas of the interface.
    #[cold]
    fn has_described(&self, there: &PairConnection) -> bool {
        there.has_described(self.id, self.interface)
    }

    /// Whether calls can go by a connection.
    fn is_met(&self, there: &PairConnection) -> bool {
        let is_planned = |methods: &Arc<MethodNumbers>| methods.is_planned;
        self.is_known()
            && (!self.methods.get().is_some_and(is_planned) || self.has_described(there))
    }

    /// Whether the interface was met, by this stub or another.
    #[cold]
    fn is_known(&self) -> bool {
        if self.methods.get().is_none()
            && self.theirs.is_none()
            && let Some(known) = self.pair.known(self.id, self.interface)
        {
            self.methods.get_or_init(|| known);
        }
        self.methods.get().is_some()
    }

    /// The numbers of the methods, of one that is connected.
    pub(crate) fn methods(&self) -> Arc<MethodNumbers> {
        Arc::clone(self.methods.get().expect("the interface was met"))
    }

    /// Another of the same object has met the interface.
    pub(crate) fn knows(&self, methods: Arc<MethodNumbers>) {
        self.methods.get_or_init(|| methods);
    }

    /// Keeps the numbers of the methods, for all stubs of the interface.
    fn learn(&self, methods: MethodNumbers) {
        let methods = Arc::new(methods);
        self.pair.meets(self.id, self.interface, &methods);
        self.methods.get_or_init(|| methods);
    }

    /// Asks the object's node for the numbers of the methods.
    fn ask<T, E>(
        &self,
        meeting: &InterfaceMeeting,
        send: impl FnOnce(Message<'_>) -> Result<T, (E, Option<Vec<Segment>>)>,
    ) -> Result<Result<T, E>, CallError> {
        let mut needs = CallPayload::copy(&meeting.needs())?;
        Ok(needs.send(Message::to(MEET).words(&[self.interface.into()]), send))
    }

    /// The object's node has said something of the methods; whether that was all.
    fn met(&self, request: &mut InterfaceRequest, reply: &CallReply) -> Result<bool, CallError> {
        let met = egret_stream::read(reply.bytes()).map_err(|why| CallError::Unreadable {
            why: format!("the interface: {why}"),
            call: UNTOLD,
        })?;
        let methods = request.meeting.answered(met)?;
        let is_over = methods.is_some();
        if let Some(methods) = methods {
            request.there.describes(self.id, self.interface);
            self.learn(methods);
        }
        Ok(is_over)
    }

    /// The object, which is one of this node.
    pub(crate) fn find(&self, head: &mut CallHead) -> Result<Arc<ExportedObject>, CallError> {
        self.pair.exchange.objects.find_called(None, head).map_err(|answer| {
            let words = answer.words().to_vec();
            match open::<()>(&words, &answer.into_bytes(), usize::MAX) {
                Err(AnswerError::OtherInterface(theirs)) => self.other_interface(&theirs),
                Err(AnswerError::Error(why)) => why,
                _ => CallError::UnknownObject { call: UNTOLD },
            }
        })
    }

    /// That the object has another interface than the stub.
    pub(crate) fn other_interface(&self, theirs: &str) -> CallError {
        (self.face.table)().other_interface(theirs)
    }

    fn check_name(&self, table: &InterfaceTable) -> Result<(), CallError> {
        self.theirs.as_deref().map_or(Ok(()), |theirs| table.check_name(theirs))
    }
}
