//! The state of a receive port: its connections, and the messages that wait for the program.
//!
//! ```text
//!   handlers, on whichever thread drives      the program, or the thread of an upcall
//!   CONNECT ─▶ admit ─┐
//!   SHORT, STREAMED ──┼─▶ queue ─▶ pop ─▶ Incoming ─▶ value ─▶ finished
//!   LEAVE, the end ───┘
//! ```
//!
//! A message that waits keeps its place in the window of its mapping, so a sender whose messages nobody takes has no room
//! left, and no one else is held up. The lock here is a leaf: no other is taken under it, and nothing of the program runs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use egret_net::rt::{self, Deadline};
use egret_net::sync::Mutex;
use egret_stream::{Names, ReadPlan, Schema, read};

use super::fault::{Fault, planted};
use super::local::{LocalMessage, LocalPipeReader};
use super::options::ReceiveOptions;
use super::port_type::{PortCount, PortType};
use super::wire::{
    CONNECT, EXPLAINED, LEAVE, NAMES, PortAnswer, PortDatagramHead, PortRequest, PortTerms, SHORT,
    STREAMED, TAG, WATCH, channel_name, endpoint_name,
};
use super::{PortEnd, PortError, PortEvent, PortRefusal, ReceiverId, SenderId};
use crate::Links;
use crate::am::{Endpoint, KeptMessage, LinkPeer, Message, MessageError, ReplySlot, Request};
use crate::channel::{ChannelError, ChannelListener, ChannelReader, MessageReader};
use crate::node::NodeHandle;
use crate::slots::SlotKey;
use crate::wakers::{WakerList, under};

/// A receive port, as its handle, its handlers and its upcalls share it.
pub(super) struct PortReceiver {
    pub(super) id: ReceiverId,
    /// The number of the port in this process.
    pub(super) number: u64,
    /// The same, of a wait for a message.
    pub(super) waited: usize,
    pub(super) node: NodeHandle,
    pub(super) port_type: PortType,
    schema: Schema,
    fingerprint: u64,
    /// Whether values need the names of their connection.
    has_dynamic: bool,
    options: ReceiveOptions,
    state: Mutex<ReceiverState>,
    /// Arrivals that wait. Only a hint.
    waiting: AtomicUsize,
    /// The links, by their place among those of the node, that the last message came by.
    links: AtomicUsize,
    /// What receives messages, if the program does not ask for them.
    pub(super) upcalls: Option<UpcallBody>,
    endpoints: Mutex<Vec<Endpoint>>,
    /// The links at which datagrams arrive, by their places.
    paths: Mutex<Vec<usize>>,
}

/// Receives one message.
pub(super) type UpcallBody = Box<dyn Fn(&mut Arrived) + Send + Sync>;

#[derive(Default)]
struct ReceiverState {
    is_enabled: bool,
    is_closed: bool,
    /// Senders that have asked while the port was not enabled.
    asking: Vec<AskingSender>,
    by_mapping: BTreeMap<MappingKey, u64>,
    inbound: BTreeMap<u64, Inbound>,
    queue: VecDeque<Arrival>,
    /// Datagrams among the arrivals.
    datagrams: u32,
    events: VecDeque<PortEvent>,
    /// Upcalls that run, or are about to.
    running: u32,
    waiters: WakerList,
    /// The links on whose nic a thread may sleep that waits for an arrival.
    sleeps_at: Option<usize>,
}

/// The mapping of a connection.
type MappingKey = (LinkPeer, SlotKey);

struct AskingSender {
    links: usize,
    mapping: MappingKey,
    host: String,
    request: PortRequest,
    slot: ReplySlot,
}

/// One connection.
struct Inbound {
    sender: SenderId,
    mapping: Option<MappingKey>,
    /// What reading takes; out while a message is read.
    reader: Option<Box<InboundReader>>,
    /// Whether a message of it is being received, and another waits for that.
    is_busy: bool,
    received: u64,
    watch: InboundWatch,
    /// The host of the sender, by which its datagrams are known.
    host: String,
}

/// Who is told when the receive port ends a connection.
enum InboundWatch {
    /// Nobody yet.
    Nobody,
    Remote(ReplySlot),
    Local(Arc<dyn Fn(PortEnd) + Send + Sync>),
}

/// What reads the messages of one connection.
pub(super) struct InboundReader {
    pub(super) plan: ReadPlan,
    /// The names of the connection; taken while a message is read.
    pub(super) names: Arc<Mutex<Option<Names>>>,
    /// Bytes of names that were told so far.
    names_bytes: usize,
    /// The link of the sender.
    link: Option<SlotKey>,
    listener: Option<ChannelListener>,
    channel: Option<ChannelReader>,
    /// Messages of the channel whose places are over, and which nobody has begun to read.
    pub(super) to_skip: u32,
}

/// Something that has come, in its place.
struct Arrival {
    connection: u64,
    what: ArrivalKind,
}

pub(super) enum ArrivalKind {
    Short(KeptMessage),
    /// The same, with the types of `dyn` values explained in it.
    Explained(KeptMessage),
    /// The place of a message that comes by the channel.
    Streamed(KeptMessage),
    Names(KeptMessage),
    Datagram {
        number: u64,
        bytes: Vec<u8>,
    },
    Local(LocalMessage),
    LocalStream(LocalPipeReader),
    End(PortEnd),
}

impl ArrivalKind {
    /// A short message, whose credit is given back when it was received.
    #[inline]
    fn of_short(kept: KeptMessage) -> Self {
        match planted(Fault::CreditAtOnce) {
            true => Self::Datagram { number: 0, bytes: kept.bytes().to_vec() },
            false => Self::Short(kept),
        }
    }

    /// Whether the arrival is one of the connection's messages, and is counted.
    const fn is_message(&self) -> bool {
        !matches!(self, Self::Names(_) | Self::End(_))
    }
}

/// A message that was taken out of the queue, until it is received.
pub(super) struct Arrived {
    pub(super) receiver: Arc<PortReceiver>,
    connection: u64,
    pub(super) sender: SenderId,
    pub(super) sequence: u64,
    pub(super) what: Option<ArrivalKind>,
    pub(super) reader: Option<Box<InboundReader>>,
    /// Whether the upcall said that the next may begin.
    is_over: bool,
    /// Whether its connection has ended: nobody receives it.
    is_orphan: bool,
}

/// How the receiving threads go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextUpcall {
    /// Another thread is to begin one.
    Begin,
    /// Nothing is to be done.
    None,
}

impl PortReceiver {
    pub(super) fn open(
        node: &NodeHandle,
        options: ReceiveOptions,
        port_type: &PortType,
        schema: Schema,
        upcalls: Option<UpcallBody>,
    ) -> Result<Arc<Self>, PortError> {
        let id = ReceiverId { node: node.id(), name: options.name.clone() };
        let is_enabled = !options.is_disabled;
        let state = ReceiverState { is_enabled, ..ReceiverState::default() };
        let number = PORTS.fetch_add(1, Ordering::Relaxed);
        let waited = usize::try_from(number).unwrap_or(usize::MAX);
        let receiver = Arc::new(Self {
            id,
            number,
            waited,
            node: node.clone(),
            port_type: port_type.clone(),
            fingerprint: schema.fingerprint(),
            has_dynamic: schema.has_dynamic(),
            schema,
            options,
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            links: AtomicUsize::new(0),
            upcalls,
            endpoints: Mutex::default(),
            paths: Mutex::default(),
        });
        let suitable = node
            .fabrics()
            .into_iter()
            .map(|fabric| port_type.requirement.missing(&fabric.properties).is_empty());
        let all = node.links().iter().enumerate().zip(suitable);
        for ((at, (_, links)), _) in all.filter(|(_, is_suitable)| *is_suitable) {
            match receiver.listen(at, links) {
                Ok(endpoint) => receiver.endpoints.lock().push(endpoint),
                Err(why) => {
                    receiver.close();
                    return Err(why);
                }
            }
        }
        Ok(receiver)
    }

    /// Makes the endpoint of the port on the links of one fabric.
    fn listen(self: &Arc<Self>, at: usize, links: &Links) -> Result<Endpoint, PortError> {
        let endpoint = links.bundle().endpoint(TAG);
        endpoint.set_window(self.port_type.window.saturating_add(1));
        let port = Arc::clone(self);
        endpoint.on_shared_in_order(CONNECT, move |request| port.asked(at, request));
        let port = Arc::clone(self);
        endpoint.on_shared_in_order(WATCH, move |request| port.watched(request));
        for handler in [SHORT, EXPLAINED, STREAMED, NAMES, LEAVE] {
            let port = Arc::clone(self);
            endpoint.on_shared_in_order(handler, move |request| port.arrived(at, handler, request));
        }
        let port = Arc::clone(self);
        endpoint.on_end(move |ended| port.link_ended(ended.peer, &ended.why.to_string()));
        endpoint.register(&endpoint_name(&self.id.name)).map_err(|why| match why {
            MessageError::NameTaken { .. } => {
                PortError::NameTaken { node: self.id.node, name: self.id.name.clone() }
            }
            MessageError::NameTooLong { bytes } => PortError::NameTooLong { bytes },
            why => PortError::Unsupported { missing: vec![why.to_string()] },
        })?;
        if !self.port_type.is_reliable {
            let port = Arc::clone(self);
            links.on_path(self.datagram_port(), move |host, datagram| {
                port.datagram_arrived(at, host, datagram);
            });
            self.paths.lock().push(at);
        }
        Ok(endpoint)
    }

    /// The port of paths at which datagrams of this receive port arrive.
    pub(super) fn datagram_port(&self) -> u64 {
        datagram_port(&self.id.name)
    }

    /// Ends all connections and the endpoints of the port.
    pub(super) fn close(&self) {
        let (ended, asking, queue) = under(|| {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.waiters.wake();
            state.by_mapping.clear();
            let taken = state.take_all();
            // Who looks for arrivals finds that there are none.
            self.waiting.store(1, Ordering::Relaxed);
            taken
        });
        for inbound in ended.into_values() {
            inbound.watch.tell(PortEnd::Closed);
        }
        drop((asking, queue));
        for at in std::mem::take(&mut *self.paths.lock()) {
            self.node.links()[at].1.off_path(self.datagram_port());
        }
        let endpoints = std::mem::take(&mut *self.endpoints.lock());
        drop(endpoints);
        for (_, links) in self.node.links() {
            links.core.nic.wake();
        }
    }

    // What handlers do.

    /// A sender asks to be connected.
    fn asked(&self, links: usize, request: Request<'_>) {
        let bytes = request.bytes();
        let asked = read::<PortRequest>(bytes).ok().filter(|_| bytes.len() <= REQUEST_MAX);
        let Some(asked) = asked else {
            return answer(request.later(), &PortAnswer::Refused(PortRefusal::Malformed));
        };
        let (mapping, host) = (request.mapping(), request.host());
        let slot = request.later();
        {
            let mut state = self.state.lock();
            if !state.is_enabled && !state.is_closed && state.asking.len() < ASKING_MAX {
                state.asking.push(AskingSender { links, mapping, host, request: asked, slot });
                return;
            }
        }
        answer(slot, &self.admit(Some((links, mapping, &host)), &asked, InboundWatch::Nobody));
    }

    /// Connects a sender, or refuses it.
    fn admit(
        &self,
        from: Option<(usize, MappingKey, &str)>,
        asked: &PortRequest,
        watch: InboundWatch,
    ) -> PortAnswer {
        let refused = |why| PortAnswer::Refused(why);
        if let Some((links, _, host)) = from
            && !self.is_host_of(links, host, asked.sender)
        {
            return refused(PortRefusal::Stranger);
        }
        let differences = self.port_type.differences(&asked.port_type);
        if !differences.is_empty() && !planted(Fault::TypesUnchecked) {
            return refused(PortRefusal::Types { differences });
        }
        let plan = if asked.fingerprint == self.fingerprint {
            ReadPlan::default()
        } else if asked.schema.is_empty() {
            return PortAnswer::TellSchema;
        } else {
            match ReadPlan::of(&Schema::from_text(&asked.schema), &self.schema) {
                Ok(plan) => plan,
                Err(why) => return refused(PortRefusal::Values { difference: why.to_string() }),
            }
        };
        if self.options.accept.as_ref().is_some_and(|accept| !accept(asked.sender)) {
            return refused(PortRefusal::ByProgram);
        }
        let mut names = Names::new();
        if !asked.names.is_empty() && names.learn(&asked.names).is_err() {
            return refused(PortRefusal::Malformed);
        }
        // No other sender knows the number, and with it the name of the channel.
        let connection = rt::random();
        let listener = from.and_then(|(links, ..)| {
            self.node.links()[links].1.listen(&channel_name(connection), CHANNELS_MAX).ok()
        });
        let names = Arc::new(Mutex::new(Some(names)));
        let link = from.map(|(_, (peer, _), _)| peer.link);
        let reader = InboundReader {
            plan,
            names,
            names_bytes: 0,
            link,
            listener,
            channel: None,
            to_skip: 0,
        };
        let inbound = Inbound {
            sender: asked.sender,
            mapping: from.map(|(_, mapping, _)| mapping),
            reader: Some(Box::new(reader)),
            is_busy: false,
            received: 0,
            watch,
            host: from.map_or_else(String::new, |(.., host)| host.to_owned()),
        };
        match self.insert(connection, inbound) {
            Ok(()) => {
                let window = self.port_type.window;
                PortAnswer::Connected(PortTerms { connection, window })
            }
            Err(why) => refused(why),
        }
    }

    fn insert(&self, connection: u64, inbound: Inbound) -> Result<(), PortRefusal> {
        let inserted = under(|| {
            let mut state = self.state.lock();
            if state.is_closed || state.inbound.len() >= SENDERS_MAX as usize {
                return Err(PortRefusal::Crowded { senders: SENDERS_MAX });
            }
            if inbound.mapping.is_some_and(|mapping| state.by_mapping.contains_key(&mapping)) {
                return Err(PortRefusal::Malformed);
            }
            if self.port_type.senders == PortCount::One
                && let Some(other) = state.inbound.values().next()
            {
                return Err(PortRefusal::HasSender { sender: other.sender });
            }
            state.by_mapping.extend(inbound.mapping.map(|mapping| (mapping, connection)));
            state.say(PortEvent::Connected { sender: inbound.sender });
            state.inbound.insert(connection, inbound);
            Ok(())
        });
        self.wake_sleeper(usize::MAX);
        inserted
    }

    /// Whether a host of a fabric is that of a node.
    fn is_host_of(&self, links: usize, host: &str, sender: SenderId) -> bool {
        let fabric = &self.node.links()[links].0;
        let member = self.node.member(sender.node);
        member.is_some_and(|it| {
            it.fabrics.iter().any(|offer| &offer.fabric == fabric && offer.host == host)
        })
    }

    /// A sender wants to know when this side ends the connection.
    fn watched(&self, request: Request<'_>) {
        let mapping = request.mapping();
        let slot = request.later();
        let mut state = self.state.lock();
        let connection = state.by_mapping.get(&mapping).copied();
        let inbound = connection.and_then(|connection| state.inbound.get_mut(&connection));
        match inbound {
            Some(inbound) => {
                let before = std::mem::replace(&mut inbound.watch, InboundWatch::Remote(slot));
                // Its slot answers when it is dropped.
                drop(state);
                drop(before);
            }
            None => {
                drop(state);
                InboundWatch::Remote(slot).tell(PortEnd::Closed);
            }
        }
    }

    /// A message has come, or a sender leaves.
    #[inline]
    fn arrived(self: &Arc<Self>, links: usize, handler: u8, mut request: Request<'_>) {
        let mapping = request.mapping();
        let kept = request.keep();
        let what = match handler {
            SHORT => ArrivalKind::of_short(kept),
            STREAMED => ArrivalKind::Streamed(kept),
            EXPLAINED => ArrivalKind::Explained(kept),
            NAMES => ArrivalKind::Names(kept),
            _ => ArrivalKind::End(PortEnd::Disconnected),
        };
        if handler == LEAVE {
            self.asks_no_more(mapping);
        }
        let mut what = Some(what);
        let next = self.push(links, |state| {
            let connection = *state.by_mapping.get(&mapping)?;
            let what = what.take()?;
            let is_lost = matches!(what, ArrivalKind::Streamed(_)) && planted(Fault::PlaceLost);
            (!is_lost).then_some(Arrival { connection, what })
        });
        if next == NextUpcall::Begin {
            self.dispatch(links, Some(&mut request));
        }
    }

    /// A sender leaves that has perhaps not been connected yet.
    #[cold]
    fn asks_no_more(&self, mapping: MappingKey) {
        let mut state = self.state.lock();
        let asking: Vec<_> = state.asking.extract_if(.., |it| it.mapping == mapping).collect();
        drop(state);
        drop(asking);
    }

    fn datagram_arrived(self: &Arc<Self>, links: usize, host: &str, datagram: &[u8]) {
        let Some((head, bytes)) = PortDatagramHead::split(datagram) else { return };
        let most = self.port_type.window;
        let next = self.push(links, |state| {
            let inbound = state.inbound.get(&head.connection)?;
            if inbound.host != host || state.datagrams >= most || head.number == 0 {
                return None;
            }
            state.datagrams += 1;
            let what = ArrivalKind::Datagram { number: head.number, bytes: bytes.to_vec() };
            Some(Arrival { connection: head.connection, what })
        });
        if next == NextUpcall::Begin {
            self.dispatch(links, None);
        }
    }

    /// A link has ended: so have its connections, behind what came by it.
    fn link_ended(self: &Arc<Self>, peer: LinkPeer, why: &str) {
        let end = PortEnd::Link { why: why.to_owned() };
        let mut asking = Vec::new();
        let begins = under(|| {
            let mut state = self.state.lock();
            let gone: Vec<u64> = state.of_peer(peer).collect();
            for connection in gone {
                let what = ArrivalKind::End(end.clone());
                state.queue_end(Arrival { connection, what });
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            asking = state.asking.extract_if(.., |it| it.mapping.0 == peer).collect();
            state.waiters.wake();
            self.begins(&mut state)
        });
        drop(asking);
        self.wake_sleeper(usize::MAX);
        if begins == NextUpcall::Begin {
            self.dispatch(0, None);
        }
    }

    /// Connects a sender of the same node.
    pub(super) fn admit_local(
        self: &Arc<Self>,
        asked: &PortRequest,
        ended: Arc<dyn Fn(PortEnd) + Send + Sync>,
    ) -> PortAnswer {
        self.admit(None, asked, InboundWatch::Local(ended))
    }

    /// Whether senders may connect; else the waker is woken when they may.
    pub(super) fn poll_enabled(&self, waker: Option<&Waker>) -> Option<()> {
        under(|| {
            let mut state = self.state.lock();
            if state.is_enabled || state.is_closed {
                return Some(());
            }
            state.waiters.wait(waker);
            None
        })
    }

    /// Puts an arrival of the same node into the queue. `false` if the connection is no more.
    pub(super) fn push_local(self: &Arc<Self>, connection: u64, what: ArrivalKind) -> bool {
        let (mut what, mut is_there) = (Some(what), false);
        let next = self.push(0, |state| {
            is_there = state.inbound.contains_key(&connection);
            if is_there { Some(Arrival { connection, what: what.take()? }) } else { None }
        });
        self.node.links()[0].1.core.nic.wake();
        if next == NextUpcall::Begin {
            self.dispatch(0, None);
        }
        is_there
    }

    /// Puts an arrival into the queue, and wakes who waits for it.
    #[inline]
    fn push(
        &self,
        links: usize,
        arrival: impl FnOnce(&mut ReceiverState) -> Option<Arrival>,
    ) -> NextUpcall {
        let (next, sleeps_at) = under(|| {
            let mut state = self.state.lock();
            let Some(arrival) = arrival(&mut state) else { return (NextUpcall::None, None) };
            state.queue.push_back(arrival);
            self.waiting.fetch_add(1, Ordering::Relaxed);
            state.waiters.wake();
            (self.begins(&mut state), state.sleeps_at)
        });
        self.links.store(links, Ordering::Relaxed);
        if sleeps_at.is_some_and(|at| at != links) {
            self.wake_sleeper(links);
        }
        next
    }

    /// Wakes threads that may sleep at other links than those that an arrival came by.
    #[cold]
    fn wake_sleeper(&self, came_by: usize) {
        for (at, (_, links)) in self.node.links().iter().enumerate() {
            if at != came_by {
                links.core.nic.wake();
            }
        }
    }

    // What receives.

    /// The links that a thread drives which waits for a message.
    pub(super) fn links_to_drive(&self) -> usize {
        let at = self.links.load(Ordering::Relaxed);
        self.state.lock().sleeps_at = Some(at);
        at
    }

    /// The next message that can be received; else the waker is woken when there may be one.
    #[inline]
    pub(super) fn poll(self: &Arc<Self>, waker: Option<&Waker>) -> Option<Result<Arrived, ()>> {
        if waker.is_none() && self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        under(|| {
            let mut state = self.state.lock();
            if let Some(arrived) = self.pop(&mut state) {
                return Some(Ok(arrived));
            }
            if state.is_closed {
                return Some(Err(()));
            }
            state.waiters.wait(waker);
            None
        })
    }

    #[inline]
    fn pop(self: &Arc<Self>, state: &mut ReceiverState) -> Option<Arrived> {
        let at = state.next_place()?;
        let arrival = state.queue.remove(at)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let connection = arrival.connection;
        let what = arrival.what;
        if let ArrivalKind::Datagram { number: 1.., .. } = what {
            state.datagrams -= 1;
        }
        let Some(inbound) = state.inbound.get_mut(&connection) else {
            // The connection ended in between: nobody receives what is left of it.
            let sender = SenderId { node: self.id.node, port: 0 };
            let mut orphan = Arrived::new(self, (connection, sender, 0), what, None);
            orphan.is_orphan = true;
            return Some(orphan);
        };
        inbound.is_busy = true;
        inbound.received += u64::from(what.is_message());
        let mut sequence = inbound.received;
        if let ArrivalKind::Datagram { number: number @ 1.., .. } = what {
            sequence = number;
        }
        let (sender, reader) = (inbound.sender, inbound.reader.take());
        Some(Arrived::new(self, (connection, sender, sequence), what, reader))
    }

    /// Whether another upcall is to begin; it counts as one that runs, then.
    #[inline]
    fn begins(&self, state: &mut ReceiverState) -> NextUpcall {
        let may = self.upcalls.is_some() && state.running < self.port_type.upcalls;
        if may && state.next_place().is_some() {
            state.running += 1;
            return NextUpcall::Begin;
        }
        NextUpcall::None
    }

    /// The next message for an upcall that has begun; else it has ended.
    pub(super) fn next_of_upcall(self: &Arc<Self>) -> Option<Arrived> {
        let mut state = self.state.lock();
        let next = self.pop(&mut state);
        state.running -= u32::from(next.is_none());
        next
    }

    /// An upcall that had begun is not run.
    pub(super) fn upcall_dropped(&self) {
        self.state.lock().running -= 1;
    }

    pub(super) fn has_dynamic(&self) -> bool {
        self.has_dynamic
    }

    /// The connection of an upcall that panicked ends.
    pub(super) fn upcall_panicked(&self, connection: u64, message: String) {
        let (inbound, dropped) = under(|| {
            let mut state = self.state.lock();
            let inbound = state.remove(connection);
            let dropped = state.take_queued(connection);
            self.waiting.fetch_sub(dropped.len(), Ordering::Relaxed);
            let end = PortEnd::Panicked { message: message.clone() };
            if let Some(inbound) = &inbound {
                state.say(PortEvent::of_end(inbound.sender, end));
            }
            (inbound, dropped)
        });
        drop(dropped);
        self.wake_sleeper(usize::MAX);
        if let Some(inbound) = inbound {
            inbound.watch.tell(PortEnd::Panicked { message });
        }
    }

    // What the program does.

    /// Lets senders connect, those first that have asked meanwhile.
    pub(super) fn set_enabled(&self, is_enabled: bool) {
        let asking = under(|| {
            let mut state = self.state.lock();
            state.is_enabled = is_enabled;
            state.waiters.wake();
            if is_enabled { std::mem::take(&mut state.asking) } else { Vec::new() }
        });
        self.node.links()[0].1.core.nic.wake();
        for AskingSender { links, mapping, host, request, slot } in asking {
            let from = Some((links, mapping, &*host));
            answer(slot, &self.admit(from, &request, InboundWatch::Nobody));
        }
    }

    pub(super) fn senders(&self) -> Vec<SenderId> {
        self.state.lock().inbound.values().map(|inbound| inbound.sender).collect()
    }

    pub(super) fn poll_event(&self, waker: Option<&Waker>) -> Option<PortEvent> {
        under(|| {
            let mut state = self.state.lock();
            let event = state.events.pop_front();
            if event.is_none() {
                state.waiters.wait(waker);
            }
            event
        })
    }

    /// Ends the connection of a sender. Whether there was one.
    pub(super) fn disconnect(&self, sender: SenderId) -> bool {
        let (inbound, dropped) = {
            let mut state = self.state.lock();
            let found = state.inbound.iter().find(|(_, inbound)| inbound.sender == sender);
            let Some(connection) = found.map(|(connection, _)| *connection) else { return false };
            let dropped = state.take_queued(connection);
            self.waiting.fetch_sub(dropped.len(), Ordering::Relaxed);
            (state.remove(connection), dropped)
        };
        drop(dropped);
        if let Some(inbound) = inbound {
            inbound.watch.tell(PortEnd::Closed);
        }
        true
    }
}

impl ReceiverState {
    fn take_all(&mut self) -> (BTreeMap<u64, Inbound>, Vec<AskingSender>, VecDeque<Arrival>) {
        let inbound = std::mem::take(&mut self.inbound);
        (inbound, std::mem::take(&mut self.asking), std::mem::take(&mut self.queue))
    }

    /// Where the first arrival stands whose connection is free.
    #[inline]
    fn next_place(&self) -> Option<usize> {
        let is_free = |arrival: &Arrival| {
            let inbound = self.inbound.get(&arrival.connection);
            inbound.is_none_or(|inbound| !inbound.is_busy || planted(Fault::BusyIgnored))
        };
        if planted(Fault::LastFirst) {
            return self.queue.iter().rposition(is_free);
        }
        self.queue.iter().position(is_free)
    }

    /// Queues the end of a connection, behind what came by it.
    fn queue_end(&mut self, end: Arrival) {
        match planted(Fault::EndFirst) {
            true => self.queue.push_front(end),
            false => self.queue.push_back(end),
        }
    }

    fn of_peer(&self, peer: LinkPeer) -> impl Iterator<Item = u64> {
        let all = self.by_mapping.iter();
        all.filter(move |((of, _), _)| *of == peer).map(|(_, connection)| *connection)
    }

    fn remove(&mut self, connection: u64) -> Option<Inbound> {
        let inbound = self.inbound.remove(&connection)?;
        inbound.mapping.map(|mapping| self.by_mapping.remove(&mapping));
        Some(inbound)
    }

    /// What waits of a connection.
    fn take_queued(&mut self, connection: u64) -> Vec<Arrival> {
        let is_of = |arrival: &mut Arrival| arrival.connection == connection;
        let mut taken = Vec::new();
        let mut at = 0;
        while at < self.queue.len() {
            if is_of(&mut self.queue[at]) {
                taken.extend(self.queue.remove(at));
            } else {
                at += 1;
            }
        }
        for arrival in &taken {
            self.datagrams -=
                u32::from(matches!(arrival.what, ArrivalKind::Datagram { number: 1.., .. }));
        }
        taken
    }

    fn say(&mut self, event: PortEvent) {
        // Who does not ask for events keeps the last ones.
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.waiters.wake();
    }
}

impl Arrived {
    fn new(
        receiver: &Arc<PortReceiver>,
        (connection, sender, sequence): (u64, SenderId, u64),
        what: ArrivalKind,
        reader: Option<Box<InboundReader>>,
    ) -> Self {
        let receiver = Arc::clone(receiver);
        let (what, is_over, is_orphan) = (Some(what), false, false);
        Self { receiver, connection, sender, sequence, what, reader, is_over, is_orphan }
    }

    /// What is no message: the connection takes note of it. Whether it was such.
    pub(super) fn is_noted(&mut self) -> bool {
        match self.what.take() {
            what if self.is_orphan => {
                drop(what);
                true
            }
            Some(ArrivalKind::Names(kept)) => {
                let bytes = kept.bytes().len();
                let is_bounded = self.reader.as_mut().is_none_or(|reader| {
                    reader.names_bytes += bytes;
                    reader.names_bytes <= NAMES_BYTES_MAX
                });
                let learn = |names: &mut Names| names.learn(kept.bytes()).is_ok();
                let is_learned = self
                    .reader
                    .as_ref()
                    .is_none_or(|reader| reader.names.lock().as_mut().is_none_or(learn));
                drop(kept);
                if !is_learned || !is_bounded {
                    let what = "names of types that are none".to_owned();
                    self.end(PortEnd::Violation { what }, true);
                }
                true
            }
            Some(ArrivalKind::End(why)) => {
                self.end(why, false);
                true
            }
            what => {
                self.what = what;
                false
            }
        }
    }

    /// The connection ends. The sender is told if this side ends it.
    pub(super) fn end(&mut self, why: PortEnd, is_own: bool) {
        let (connection, sender) = (self.connection, self.sender);
        let (inbound, dropped) = under(|| {
            let mut state = self.receiver.state.lock();
            let inbound = state.remove(connection);
            if inbound.is_some() {
                state.say(PortEvent::of_end(sender, why.clone()));
            }
            let dropped = state.take_queued(connection);
            self.receiver.waiting.fetch_sub(dropped.len(), Ordering::Relaxed);
            (inbound, dropped)
        });
        drop(dropped);
        self.receiver.wake_sleeper(usize::MAX);
        if let (Some(inbound), true) = (inbound, is_own) {
            inbound.watch.tell(why);
        }
    }

    pub(super) const fn connection(&self) -> u64 {
        self.connection
    }

    /// The message is received: the next one of its connection may be. Whether another upcall is to begin.
    pub(super) fn finish(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let what = self.what.take();
        let mut reader = self.reader.take();
        if let (Some(ArrivalKind::Streamed(_)), Some(reader)) = (&what, &mut reader) {
            // Nobody has begun to read the message that has its place here.
            reader.to_skip += 1;
        }
        drop(what);
        let mut unused = None;
        let mut state = self.receiver.state.lock();
        match state.inbound.get_mut(&self.connection) {
            Some(inbound) => {
                inbound.is_busy = false;
                inbound.reader = reader;
            }
            None => unused = reader,
        }
        drop(state);
        drop(unused);
    }

    /// An upcall is over before its body ends: the next may begin.
    pub(super) fn finish_upcall(&mut self) {
        if self.is_over {
            return;
        }
        self.finish();
        let next = {
            let mut state = self.receiver.state.lock();
            state.running -= 1;
            self.receiver.begins(&mut state)
        };
        if next == NextUpcall::Begin {
            self.receiver.dispatch(self.receiver.links.load(Ordering::Relaxed), None);
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }
}

impl PortReceiver {
    /// After an upcall that was over before its body ended: whether its thread may run another one.
    pub(super) fn begins_again(&self) -> bool {
        self.begins(&mut self.state.lock()) == NextUpcall::Begin
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        self.finish();
    }
}

impl InboundReader {
    /// The channel of the connection, which is there when a message has its place on it.
    pub(super) fn channel(&mut self) -> Option<&mut ChannelReader> {
        while self.channel.is_none() {
            // A channel of another link is no sender's that was told the name.
            let channel = self.listener.as_ref()?.poll_accept()?;
            if Some(channel.peer_link()) == self.link {
                self.channel = Some(channel);
            }
        }
        self.channel.as_mut()
    }

    /// The channel, and how many messages are to be skipped.
    pub(super) fn channel_and_skips(&mut self) -> Option<(&mut ChannelReader, &mut u32)> {
        Some((self.channel.as_mut()?, &mut self.to_skip))
    }

    /// Begins to read the message of the channel that has its place here.
    pub(super) fn begin_message(
        &mut self,
        deadline: Deadline,
    ) -> Result<Option<MessageReader<'_>>, ChannelError> {
        // Until it has begun it is one of those that are to be skipped.
        self.to_skip += 1;
        if self.channel().is_none() {
            self.to_skip -= 1;
            return Ok(None);
        }
        let Self { channel: Some(channel), to_skip, .. } = self else { return Ok(None) };
        while *to_skip > 1 {
            match channel.wait_next(deadline)? {
                Some(skipped) => drop(skipped),
                None => return Ok(None),
            }
            *to_skip -= 1;
        }
        let begun = channel.wait_next(deadline)?;
        *to_skip -= 1;
        Ok(begun)
    }
}

impl InboundWatch {
    fn tell(self, end: PortEnd) {
        match self {
            Self::Nobody => {}
            Self::Remote(slot) => answer(slot, &end),
            Self::Local(ended) => ended(end),
        }
    }
}

fn answer(slot: ReplySlot, what: &impl egret_stream::Wire) {
    let mut writer = egret_stream::Writer::new();
    let bytes = match writer.write_copy(what) {
        Ok(()) => writer.to_vec(),
        Err(_) => Vec::new(),
    };
    slot.reply_with(Message::answer().bytes(&bytes));
}

/// The port of paths of a receive port of this name.
pub(super) fn datagram_port(name: &str) -> u64 {
    egret_net::buf::fingerprint(egret_net::buf::FINGERPRINT_SEED, endpoint_name(name).as_bytes())
}

impl fmt::Debug for Arrived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, sequence, .. } = self;
        f.debug_struct("Arrived").field("sender", sender).field("sequence", sequence).finish()
    }
}

impl fmt::Debug for PortReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortReceiver").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Senders that may be connected to one receive port, or ask to be.
const SENDERS_MAX: u32 = 1 << 16;
/// Senders that may wait until a port is enabled, and the bytes of what each asks.
const ASKING_MAX: usize = 1024;
pub(super) const REQUEST_MAX: usize = 64 << 10;
/// Bytes of names that a sender may tell.
const NAMES_BYTES_MAX: usize = 1 << 20;
/// Events that are kept.
const EVENTS_MAX: usize = 4096;
/// Channels of a connection that may wait to be accepted, of which one is its sender's.
const CHANNELS_MAX: usize = 8;
/// The number of the next port in this process.
static PORTS: AtomicU64 = AtomicU64::new(1);
