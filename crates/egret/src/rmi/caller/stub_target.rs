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
use crate::rmi::caller::pair::{NodePair, PairConnection};
use crate::rmi::caller::unsent::SendFailure;
use crate::rmi::head::CallAddress;
use crate::rmi::interface::RemoteInterface;
use crate::rmi::interface_table::{InterfaceTable, MethodNumbers, StubInterface};
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

/// An interface that is being met.
pub(crate) struct InterfaceRequest(Call, Arc<PairConnection>);

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
        CallSite { pair: &self.pair, face: self.face, method }
    }

    /// A method of the stub, as the object's node numbers it.
    ///
    /// # Panics
    ///
    /// If there is no [`end`](Self::end) of it yet.
    #[inline]
    pub(crate) fn to(&self, method: usize) -> CallAddress {
        let methods = self.methods.get().expect("the interface was met");
        let (method, handler) = (methods.numbers[method], methods.handler);
        CallAddress { object: self.object, interface: self.interface, method, handler }
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
            let met = self.pair.exchange.objects.meet(self.interface, &table.needs());
            self.learn(table.numbers(met)?);
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
        while !self.is_known() {
            if let Some(InterfaceRequest(call, there)) = meeting {
                let Poll::Ready(reply) = Pin::new(call).poll(context) else {
                    return Poll::Pending;
                };
                let there = Arc::clone(there);
                *meeting = None;
                let reply = reply.map_err(|why| {
                    self.pair.forget_if_broken(&there, &why);
                    SendFailure::Unmet(why)
                });
                self.met(&reply?)?;
                continue;
            }
            let asked = self.ask(|message| {
                let asked = there.way(true).try_request(message);
                asked.map_err(|unsent| (unsent.why, None))
            })?;
            match asked {
                Ok(call) => *meeting = Some(InterfaceRequest(call, Arc::clone(&there))),
                Err(MessageError::Full { .. }) => {
                    let is_pending = there.way(true).poll_room(context).is_pending();
                    if is_pending || std::mem::replace(&mut is_again, true) {
                        return Poll::Pending;
                    }
                }
                Err(why) => {
                    self.pair.forget_if_broken(&there, &why);
                    return Poll::Ready(Err(SendFailure::Send(why)));
                }
            }
        }
        Poll::Ready(Ok(there))
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
        send: impl FnOnce(Message<'_>) -> Result<T, (E, Option<Vec<Segment>>)>,
    ) -> Result<Result<T, E>, CallError> {
        let mut needs = CallPayload::copy(&(self.face.table)().needs())?;
        Ok(needs.send(Message::to(MEET).words(&[self.interface.into()]), send))
    }

    /// The object's node has said what the numbers of the methods are.
    fn met(&self, reply: &CallReply) -> Result<(), CallError> {
        let table = (self.face.table)();
        let met = egret_stream::read(reply.bytes()).map_err(|why| CallError::Unreadable {
            why: format!("the interface: {why}"),
            call: UNTOLD,
        })?;
        self.learn(table.numbers(met)?);
        Ok(())
    }

    /// The object, which is one of this node.
    pub(crate) fn find(&self, to: CallAddress) -> Result<Arc<ExportedObject>, CallError> {
        self.pair.exchange.objects.find(to).map_err(|answer| {
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
