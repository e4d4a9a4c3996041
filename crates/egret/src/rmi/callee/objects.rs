//! The objects of a node: where calls of others come to, by one endpoint for each fabric.

use std::any::TypeId;
use std::sync::Arc;

use egret_net::rt;
use egret_net::sync::Mutex;
use egret_node::Links;
use egret_node::am::{Endpoint, LinkPeer, Message, Request};

use crate::rmi::NodeId;
use crate::rmi::answer::CallAnswer;
use crate::rmi::callee::calls::CallTable;
use crate::rmi::callee::fabrics::FabricNeeds;
use crate::rmi::callee::load::{CallLoad, CallingPeer};
use crate::rmi::callee::object::{ExportedObject, reply};
use crate::rmi::callee::versions::VersionTable;
use crate::rmi::head::{AnswerCode, CallAddress, CallHead, INTERFACES_MAX};
use crate::rmi::interface::{HeldObject, RemoteInterface};
use crate::rmi::interface_table::{InterfaceReply, InterfaceTable, METHODS_MAX, NeededInterface};
use crate::rmi::payload::CallPayload;
use crate::rmi::threads::workers::Workers;

/// What a node has for others to call.
#[derive(Debug)]
pub(crate) struct ObjectTable {
    node: NodeId,
    table: Mutex<ObjectSlots>,
    /// The interfaces that objects have or had; the place of one is its number.
    interfaces: Mutex<Vec<Arc<InterfaceTable>>>,
    /// Methods as nodes have them whose types are other versions.
    pub(crate) versions: VersionTable,
    pub(crate) calls: Arc<CallTable>,
    workers: Arc<Workers>,
    pub(crate) load: Arc<CallLoad>,
    /// Calls that another node may have under way.
    window: u32,
}

/// Objects by the [place](place) that their number has.
#[derive(Debug, Default)]
struct ObjectSlots {
    all: Vec<Option<Arc<ExportedObject>>>,
    free: Vec<usize>,
}

impl ObjectTable {
    /// For callers that have so many calls under way.
    pub(crate) fn new(
        node: NodeId,
        workers: &Arc<Workers>,
        load: &Arc<CallLoad>,
        window: u32,
    ) -> Self {
        let (workers, load) = (Arc::clone(workers), Arc::clone(load));
        let (table, interfaces) = (Mutex::default(), Mutex::default());
        let (versions, calls) = (VersionTable::default(), Arc::new(CallTable::new(window)));
        Self { node, table, interfaces, versions, calls, workers, load, window }
    }

    /// Adds an object that takes arguments of so many bytes, and calls over fabrics that give what it needs. None if
    /// there are too many, or of too many interfaces.
    pub(crate) fn add<I: RemoteInterface + ?Sized>(
        &self,
        object: HeldObject<I>,
        bytes_max: u64,
        needs: Option<Box<FabricNeeds>>,
    ) -> Option<Arc<ExportedObject>> {
        let (interface, table) = self.interface::<I>()?;
        let (calls, workers, load) = (&self.calls, &self.workers, &self.load);
        let mut places = self.table.lock();
        let at = places.free.pop().unwrap_or(places.all.len());
        if at >= OBJECTS_MAX {
            return None;
        }
        if at == places.all.len() {
            places.all.push(None);
        }
        let number = rt::random() << PLACE_BITS | at as u64;
        let known = (number, interface, table);
        let object = Arc::new(ExportedObject::new(
            self.node,
            object,
            known,
            (bytes_max, needs),
            calls,
            workers,
            load,
        ));
        places.all[at] = Some(Arc::clone(&object));
        Some(object)
    }

    /// The number of an interface, which has one as soon as an object has it.
    fn interface<I: RemoteInterface + ?Sized>(&self) -> Option<(u16, Arc<InterfaceTable>)> {
        let id = TypeId::of::<I>();
        let mut known = self.interfaces.lock();
        let at = known.iter().position(|table| table.id == id).unwrap_or(known.len());
        let number = u16::try_from(at).ok().filter(|number| *number <= INTERFACES_MAX)?;
        if at == known.len() {
            known.push(Arc::new(InterfaceTable::of::<I>()));
        }
        Some((number, Arc::clone(&known[at])))
    }

    /// An object is not to be called any more.
    pub(crate) fn remove(&self, object: &ExportedObject) {
        let at = place(object.number);
        let mut places = self.table.lock();
        let is_there = |it: &mut Arc<ExportedObject>| it.number == object.number;
        let Some(removed) = places.all.get_mut(at).and_then(|it| it.take_if(is_there)) else {
            return;
        };
        places.free.push(at);
        drop(places);
        drop(removed);
    }

    /// Nothing more is to begin.
    pub(crate) fn close(&self) {
        let places = std::mem::take(&mut *self.table.lock());
        places.all.iter().flatten().for_each(|object| object.mark_closed());
        self.calls.close_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().all.iter().flatten().count()
    }

    /// What is called, if it is what the caller takes it for.
    #[inline]
    pub(crate) fn find(&self, to: CallAddress) -> Result<Arc<ExportedObject>, Box<CallAnswer>> {
        let places = self.table.lock();
        let found = places.all.get(place(to.object)).and_then(Option::as_ref);
        let found = found.filter(|object| object.number == to.object).cloned();
        drop(places);
        match found {
            Some(object) if object.interface == to.interface && object.has(to.method) => Ok(object),
            object => Err(Box::new(not_found(object.as_deref(), to))),
        }
    }

    /// The same, and how the arguments are read, if the caller has another version of the method's types.
    pub(crate) fn find_called(
        &self,
        caller: CallingPeer,
        head: &mut CallHead,
    ) -> Result<Arc<ExportedObject>, Box<CallAnswer>> {
        let object = self.find(head.to)?;
        if head.to.version != 0 {
            let why = "the arguments: of a version whose schema was not sent";
            let unread = || Box::new(CallAnswer::text(AnswerCode::Unreadable, why));
            head.version = Some(self.versions.find(caller, head.to).ok_or_else(unread)?);
        }
        Ok(object)
    }

    /// A call of another node, over the fabric of a number.
    #[inline]
    pub(crate) fn arrive(&self, request: Request<'_>, fabric: usize) {
        let Some(mut head) = CallHead::read(request.words()) else {
            return reply(
                request,
                CallAnswer::text(AnswerCode::Unreadable, "the words of no call"),
            );
        };
        if head.to.version != 0 {
            return self.arrive_versioned(&mut head, request, fabric);
        }
        match self.find(head.to) {
            Ok(object) => match object.refusal(fabric) {
                None => object.arrive(&head, request),
                Some(why) => reply(request, CallAnswer::text(AnswerCode::Unsuitable, why)),
            },
            Err(answer) => reply(request, *answer),
        }
    }

    /// A call of another node, which has another version of the method's types.
    #[cold]
    fn arrive_versioned(&self, head: &mut CallHead, request: Request<'_>, fabric: usize) {
        match self.find_called(Some(request.peer()), head) {
            Ok(object) => match object.refusal(fabric) {
                None => object.arrive(head, request),
                Some(why) => reply(request, CallAnswer::text(AnswerCode::Unsuitable, why)),
            },
            Err(answer) => reply(request, *answer),
        }
    }

    /// What the interface of a number says to what a stub needs.
    pub(crate) fn meet(
        &self,
        caller: CallingPeer,
        interface: u16,
        needs: &NeededInterface,
    ) -> InterfaceReply {
        let table = self.interfaces.lock().get(usize::from(interface)).cloned();
        let Some(table) = table else { return InterfaceReply::UnknownInterface };
        table.meet(needs, |method, version, how, bytes| {
            self.versions.keep(caller, (interface, method, version), how, bytes)
        })
    }

    /// The same, for a node that asks.
    fn asked(&self, request: Request<'_>) {
        // What a stub sends is less: at most 200 methods, each with a name, and some of their schemas.
        let bytes = Some(request.bytes()).filter(|bytes| bytes.len() <= NEEDS_MAX);
        let needs: Option<NeededInterface> = bytes.and_then(|bytes| egret_stream::read(bytes).ok());
        let needs = needs.filter(|needs| needs.methods.len() <= METHODS_MAX);
        let interface = request.words().first().and_then(|word| u16::try_from(*word).ok());
        let met = match (interface, needs) {
            (Some(interface), Some(needs)) => self.meet(Some(request.peer()), interface, &needs),
            _ => InterfaceReply::UnknownInterface,
        };
        match CallPayload::written(met) {
            Ok(CallPayload::Bytes(bytes)) => request.reply_with(Message::answer().bytes(&bytes)),
            Ok(CallPayload::Data(pieces)) => request.reply_with(Message::answer().gather(pieces)),
            Err(_) => {}
        }
    }

    /// The endpoints on the links of the fabric of a number: for the calls of others, and for those of this node: one for most calls, and one
    /// for those that are a part of others, which must not wait for them. `ended` is told of links that
    /// are no more.
    pub(crate) fn endpoints(
        self: &Arc<Self>,
        (links, fabric): (&Links, usize),
        tag: u64,
        ended: impl Fn(LinkPeer) + Send + 'static,
    ) -> [Endpoint; 2] {
        let bundle = links.bundle();
        let [calls, within] = [self.window, WITHIN_WINDOW.max(self.window)]
            .map(|window| self.endpoint(bundle.endpoint(tag), fabric, window));
        let gone = Arc::clone(self);
        calls.on_end(move |link| {
            gone.caller_gone(link.peer);
            ended(link.peer);
        });
        let gone = Arc::clone(self);
        within.on_end(move |link| gone.caller_gone(link.peer));
        [calls, within]
    }

    /// The link of a caller has ended.
    fn caller_gone(&self, peer: LinkPeer) {
        self.calls.caller_gone(peer);
        self.versions.caller_gone(Some(peer));
    }

    fn endpoint(self: &Arc<Self>, endpoint: Endpoint, fabric: usize, window: u32) -> Endpoint {
        endpoint.set_window(window);
        let [in_order, called, asked] = [(); 3].map(|()| Arc::clone(self));
        endpoint.on_shared_in_order(CALL_IN_ORDER, move |request| {
            in_order.arrive(request, fabric);
        });
        endpoint.on_shared(CALL, move |request| called.arrive(request, fabric));
        endpoint.on(MEET, move |request| asked.asked(request));
        let cancelled = Arc::clone(&self.calls);
        endpoint.on(CANCEL, move |request| {
            let peer = Some(request.peer());
            let numbers = request.words().iter().filter(|number| **number > 0);
            numbers.for_each(|number| cancelled.cancel(peer, *number));
        });
        endpoint
    }
}

/// Why a call does not reach its object.
#[cold]
fn not_found(object: Option<&ExportedObject>, to: CallAddress) -> CallAnswer {
    match object {
        None => CallAnswer::code(AnswerCode::UnknownObject),
        Some(object) if object.interface != to.interface => {
            CallAnswer::text(AnswerCode::OtherInterface, object.table.interface)
        }
        Some(_) => CallAnswer::unknown_method(to.method),
    }
}

/// Where the object of a number is. The other bits of the number cannot be guessed, and tell the
/// object from all others that were or will be there.
#[inline]
fn place(number: u64) -> usize {
    usize::try_from(number & (OBJECTS_MAX as u64 - 1)).unwrap_or(usize::MAX)
}

/// What the endpoints of remote calls are registered as: for most calls, and for those that are a part
/// of others.
pub(crate) const ENDPOINTS: [&str; 2] = ["rmi", "rmi-within"];
/// Calls of a node that are a part of others and may be under way. What waits for a call that cannot be
/// sent could wait for ever: so there are many, and a node that has too much to do refuses them.
pub(crate) const WITHIN_WINDOW: u32 = 4096;
/// The handler of calls of objects that have no gate: several threads may begin some at once.
pub(crate) const CALL: u8 = 0;
/// The handler of calls of objects that have a gate, which those of one caller enter in the order sent.
/// A caller that uses the other one harms its own order alone.
pub(crate) const CALL_IN_ORDER: u8 = 3;
/// The handler by which calls are cancelled.
pub(crate) const CANCEL: u8 = 1;
/// The handler that is asked before an interface is called for the first time.
pub(crate) const MEET: u8 = 2;
/// Most bytes of what a stub needs.
const NEEDS_MAX: usize = 256 << 10;
const PLACE_BITS: u32 = 24;
/// Objects that a node can have.
pub(crate) const OBJECTS_MAX: usize = 1 << PLACE_BITS;
