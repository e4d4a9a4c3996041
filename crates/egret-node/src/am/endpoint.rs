//! Endpoints: who sends and receives active messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use egret_net::buf::{Buf, MemoryError};
use egret_net::rt::{Deadline, GivenBack};
use egret_net::vi::{Access, Exposed};

use super::bundle::{SharedHandler, StartOrder, TableKey, Upcall, UpcallHandler};
use super::{
    Bundle, EndedLink, HandlerTable, HandlerType, MessageError, PendingMapping, RemoteEndpoint,
    Request, Undelivered,
};
use crate::in_handler::in_handler;
use crate::link::control::HandlerTypes;
use crate::link::placement::SuppliedBuffers;
use crate::links::core::{LinksCore, WaitStopped};
use crate::slots::SlotKey;

/// An end of active messages: a table of handlers, a tag that mappings must know, the remote
/// endpoints that it has mapped, and perhaps a name, a segment of memory, and buffers for bulk data.
///
/// Dropping an endpoint closes it: its name is free, and messages for it go back to their senders.
/// The [module](super) has an example.
#[derive(Debug)]
pub struct Endpoint {
    core: Arc<LinksCore>,
    key: SlotKey,
}

/// An endpoint, in the table of its links.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) name: Option<String>,
    pub(crate) tag: u64,
    pub(crate) bundle: SlotKey,
    /// The handlers of the endpoint, in the bundle's tables.
    pub(crate) table: SlotKey,
    /// Upcalls that are queued or running for the endpoint.
    pub(crate) under_way: u32,
    /// While the endpoint moves to another bundle: the upcalls that have arrived since.
    pub(crate) parked: Option<VecDeque<Box<Upcall>>>,
    /// The mover, which waits until `under_way` is 0.
    pub(crate) mover: Option<Waker>,
    pub(crate) supply: Arc<SuppliedBuffers>,
    pub(crate) segment: Option<Exposed>,
    /// Handlers with types, and their numbers.
    pub(crate) typed: Vec<(HandlerTypes, u8)>,
    /// Messages that may be under way by each mapping of this endpoint.
    pub(crate) window: u32,
}

impl EndpointState {
    #[inline]
    pub(crate) const fn home(&self) -> TableKey {
        TableKey { bundle: self.bundle, table: self.table }
    }
}

/// The address of an endpoint: its host, name and tag. The [module](super) has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointName {
    /// The host of its links' nic.
    pub host: String,
    /// The name under which the endpoint is registered.
    pub name: String,
    /// Its tag.
    pub tag: u64,
}

impl EndpointName {
    /// The endpoint `name` with `tag` at `host`.
    #[must_use]
    pub fn new(host: &str, name: &str, tag: u64) -> Self {
        Self { host: host.to_owned(), name: name.to_owned(), tag }
    }
}

impl Endpoint {
    pub(super) fn new(bundle: &Bundle, tag: u64) -> Self {
        let (core, bundle) = (Arc::clone(&bundle.core), bundle.key);
        let key = core.state.with(|inside| {
            let home = inside.bundles.get(bundle).expect("a handle keeps it");
            let state = EndpointState {
                name: None,
                tag,
                bundle,
                table: home.tables.insert(HandlerTable::default()),
                under_way: 0,
                parked: None,
                mover: None,
                supply: Arc::default(),
                segment: None,
                typed: Vec::new(),
                window: inside.fixed.options.window,
            };
            inside.endpoints.insert(state)
        });
        Self { core, key }
    }

    /// Registers the endpoint under a name by which others can map it; the name before is free.
    ///
    /// # Errors
    ///
    /// [`MessageError::NameTaken`] if another endpoint has the name, [`MessageError::NameTooLong`].
    pub fn register(&self, name: &str) -> Result<(), MessageError> {
        if name.len() > NAME_MAX {
            return Err(MessageError::NameTooLong { bytes: name.len() });
        }
        self.core.state.with(|state| {
            match state.names.get(name) {
                Some(key) if *key == self.key => return Ok(()),
                Some(_) => return Err(MessageError::NameTaken { name: name.to_owned() }),
                None => {}
            }
            state.names.insert(name.to_owned(), self.key);
            let endpoint = state.endpoints.get(self.key).expect("it is open");
            let before = endpoint.name.replace(name.to_owned());
            before.map(|before| state.names.remove(&before));
            Ok(())
        })
    }

    /// Runs `handler` for each message to number `number`, instead of what ran before. One that
    /// panics answers so, if its message wants an answer, and runs for the next.
    ///
    /// # Panics
    ///
    /// If `number` is 255.
    pub fn on(&self, number: u8, handler: impl FnMut(Request<'_>) + Send + 'static) {
        assert!(number < u8::MAX, "handlers have numbers below 255");
        let run = UpcallHandler::Handler(Box::new(handler));
        drop(self.change(|table| table.set(HandlerTable::place(number), Some(run))));
    }

    /// Runs `handler` for each message to number `number`, as [`on`](Self::on) does, but any number at
    /// once, on as many threads, also while others of the bundle run. So messages may be begun in
    /// another order than they came in, and a handler can go [outside](Request::outside) to wait, if
    /// [its thread has time](Request::may_last) for that.
    ///
    /// # Panics
    ///
    /// If `number` is 255.
    pub fn on_shared(&self, number: u8, handler: impl Fn(Request<'_>) + Send + Sync + 'static) {
        self.share(number, StartOrder::Any, Arc::new(handler));
    }

    /// Runs `handler` as [`on_shared`](Self::on_shared) does, but in order: a message is begun when the handler of the one before has ended, or gone
    /// outside, as with all handlers of the bundle.
    ///
    /// # Panics
    ///
    /// If `number` is 255.
    pub fn on_shared_in_order(
        &self,
        number: u8,
        handler: impl Fn(Request<'_>) + Send + Sync + 'static,
    ) {
        self.share(number, StartOrder::Kept, Arc::new(handler));
    }

    fn share(&self, number: u8, order: StartOrder, handler: SharedHandler) {
        assert!(number < u8::MAX, "handlers have numbers below 255");
        let run = UpcallHandler::Shared(handler, order);
        drop(self.change(|table| table.set(HandlerTable::place(number), Some(run))));
    }

    /// Removes the handler of this number: messages for it go back to their senders.
    pub fn off(&self, number: u8) {
        drop(self.change(|table| table.set(HandlerTable::place(number), None)));
        self.with(|endpoint| endpoint.typed.retain(|(_, typed)| *typed != number));
    }

    /// Runs `handler` for each message that could not be delivered and that no call waits
    /// for.
    pub fn on_error(&self, handler: impl FnMut(Undelivered) + Send + 'static) {
        let run = UpcallHandler::OnError(Box::new(handler));
        drop(self.change(|table| table.set(HandlerTable::ON_ERROR, Some(run))));
    }

    /// Runs `handler` once for each link that ends by which this endpoint was mapped, or has
    /// mapped another, whether it still is or not: the other process died or closed its
    /// links, was cut off, or these links are [closed](crate::Links::close). It runs as
    /// handlers do, behind those of everything that came by the link; but
    /// [shared](Self::on_shared) ones may still run, or be about to.
    pub fn on_end(&self, handler: impl FnMut(EndedLink) + Send + 'static) {
        let run = UpcallHandler::OnEnd(Box::new(handler));
        drop(self.change(|table| table.set(HandlerTable::ON_END, Some(run))));
    }

    /// Lets so many messages be under way by each mapping that is made of it from now on,
    /// instead of what [`LinksOptions`](crate::LinksOptions) say.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub fn set_window(&self, messages: u32) {
        assert!(messages > 0, "a window of nothing lets nothing through");
        self.with(|endpoint| endpoint.window = messages);
    }

    /// Changes the tag of the endpoint. Messages by mappings that were made with the tag before go back
    /// to their senders ([`MessageError::TagChanged`]).
    pub fn set_tag(&self, tag: u64) {
        self.with(|endpoint| endpoint.tag = tag);
    }

    /// The tag of the endpoint.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.with(|endpoint| endpoint.tag)
    }

    /// Lets bulk data of at most its length land in `buf`. Each is used once: data that
    /// its handler does not hold is supplied again when the handler ends.
    pub fn supply(&self, buf: Buf) {
        self.with(|endpoint| endpoint.supply.add(buf));
    }

    /// How many bulk messages landed in supplied buffers, and how many in fresh memory.
    #[must_use]
    pub fn landed(&self) -> (u64, u64) {
        self.with(|endpoint| endpoint.supply.counts())
    }

    /// Buffers that are supplied and free.
    #[must_use]
    pub fn supplied(&self) -> usize {
        self.with(|endpoint| endpoint.supply.len())
    }

    /// Gives the endpoint a segment of memory: endpoints that map this one from now on can get from it
    /// and put to it, as `access` says.
    ///
    /// # Errors
    ///
    /// If the memory cannot be registered; it is inside.
    pub fn set_segment(&self, buf: Buf, access: Access) -> Result<(), GivenBack<Buf, MemoryError>> {
        let exposed = self.core.nic.expose(buf, access)?;
        let before = self.with(|endpoint| endpoint.segment.replace(exposed));
        drop(before);
        Ok(())
    }

    /// Takes the segment back; gets and puts are refused from then on.
    #[must_use]
    pub fn take_segment(&self) -> Option<Buf> {
        self.with(|endpoint| endpoint.segment.take()).map(Exposed::revoke)
    }

    /// Reads from the endpoint's own segment.
    ///
    /// # Panics
    ///
    /// If there is no segment, or the bytes are outside of it.
    pub fn read_segment(&self, offset: usize, to: &mut [u8]) {
        self.with(|endpoint| endpoint.segment.as_ref().expect("a segment").read_at(offset, to));
    }

    /// Writes to the endpoint's own segment.
    ///
    /// # Panics
    ///
    /// If there is no segment, or the bytes are outside of it.
    pub fn write_segment(&self, offset: usize, from: &[u8]) {
        self.with(|endpoint| endpoint.segment.as_ref().expect("a segment").write_at(offset, from));
    }

    /// Moves the endpoint to another bundle. Messages that arrive meanwhile wait, and are served there.
    ///
    /// # Errors
    ///
    /// If a handler of it runs for longer than the deadline, also [outside](Request::outside), or this is
    /// one. One that is outside must not move its own endpoint: it would wait for itself.
    #[track_caller]
    pub fn wait_move_to(
        &self,
        bundle: &Bundle,
        deadline: impl Into<Deadline>,
    ) -> Result<(), MessageError> {
        let _waits = self.core.waits("messages under way", None);
        let deadline = deadline.into();
        if in_handler() {
            return Err(MessageError::InHandler);
        }
        assert!(Arc::ptr_eq(&self.core, &bundle.core), "a bundle of other links");
        let moves = self.with(|endpoint| endpoint.parked.replace(VecDeque::new()));
        if let Some(parked) = moves {
            self.with(|endpoint| endpoint.parked = Some(parked));
            return Err(MessageError::Moving);
        }
        let quiet = self.core.wait(deadline, |state, waker| {
            let endpoint = state.endpoints.get(self.key).expect("it is open");
            endpoint.mover = waker.cloned();
            if endpoint.under_way == 0 {
                return Some(());
            }
            state.role_waits |= waker.is_none();
            None
        });
        let moved = match quiet {
            Ok(()) => {
                self.carry_over(bundle);
                Ok(())
            }
            Err(WaitStopped::TimedOut { waited }) => Err(MessageError::Busy { waited }),
            Err(WaitStopped::InHandler) => Err(MessageError::InHandler),
        };
        self.core.state.with(|state| state.unpark(self.key));
        self.core.leave_handlers();
        moved
    }

    fn carry_over(&self, bundle: &Bundle) {
        self.core.state.with(|state| {
            let endpoint = state.endpoints.get(self.key).expect("it is open");
            let before = state.bundles.get(endpoint.bundle).expect("it has an endpoint");
            let table = before.tables.remove(endpoint.table).unwrap_or_default();
            let left = std::mem::replace(&mut endpoint.bundle, bundle.key);
            let home = state.bundles.get(bundle.key).expect("a handle keeps it");
            endpoint.table = home.tables.insert(table);
            state.forget_bundle(left);
        });
    }

    /// Maps a remote endpoint, which must be registered there under this name and tag.
    ///
    /// Endpoints of one node, which is of the same [`Links`](crate::Links), cannot map each
    /// other: there is no link from a node to itself. Have them call the same function, or open
    /// two nics with links of their own.
    ///
    /// # Errors
    ///
    /// At once: [`MessageError::NoSuchEndpoint`] and [`MessageError::OtherTag`] if the host answers so,
    /// [`MessageError::NoRoom`] if it has no room, and [`MessageError::NoLink`] if there is no link and can
    /// be none, with [`Oneself`](crate::link::LinkError::Oneself) for an endpoint of this node.
    /// At the deadline: [`MessageError::NoLink`] with what the fabric
    /// [knows](crate::link::LinkError::Connect) of a host that is not there, else
    /// [`MessageError::NotMappedInTime`].
    #[track_caller]
    pub fn wait_map(
        &self,
        to: &EndpointName,
        deadline: impl Into<Deadline>,
    ) -> Result<RemoteEndpoint, MessageError> {
        let _waits = self.core.waits("mapping", None);
        self.wait_map_with(to, &[], deadline)
    }

    /// Like [`wait_map`](Self::wait_map), and checks that the handlers with these types are there.
    ///
    /// # Errors
    ///
    /// As `wait_map`, or if one is not there or has other types.
    #[track_caller]
    pub fn wait_map_with(
        &self,
        to: &EndpointName,
        needs: &[HandlerType],
        deadline: impl Into<Deadline>,
    ) -> Result<RemoteEndpoint, MessageError> {
        let _waits = self.core.waits("mapping", None);
        self.map(to, needs, deadline).wait()
    }

    /// Asks for a remote endpoint, not one of this node; the answer is a future, with the errors
    /// of [`wait_map`](Self::wait_map).
    pub fn map(
        &self,
        to: &EndpointName,
        needs: &[HandlerType],
        deadline: impl Into<Deadline>,
    ) -> PendingMapping {
        PendingMapping::new(&self.core, self.key, to, needs, deadline.into())
    }

    /// Sets the handler of a name and types; returns the handler's number.
    pub(super) fn add_typed(
        &self,
        need: HandlerTypes,
        handler: impl FnMut(Request<'_>) + Send + 'static,
    ) -> Option<u8> {
        let known = self.with(|endpoint| {
            endpoint.typed.iter().find(|(known, _)| known.name == need.name).map(|known| known.1)
        });
        let number = self.change(|table| {
            let number = known.or_else(|| table.free())?;
            let run = UpcallHandler::Handler(Box::new(handler));
            Some((number, table.set(HandlerTable::place(number), Some(run))))
        })?;
        let (number, before) = number;
        drop(before);
        self.with(|endpoint| {
            endpoint.typed.retain(|(known, _)| known.name != need.name);
            endpoint.typed.push((need, number));
        });
        Some(number)
    }

    fn with<R>(&self, change: impl FnOnce(&mut EndpointState) -> R) -> R {
        self.core.state.with(|state| change(state.endpoints.get(self.key).expect("it is open")))
    }

    fn change<R>(&self, change: impl FnOnce(&mut HandlerTable) -> R) -> R {
        self.core.state.with(|state| {
            let endpoint = state.endpoints.get(self.key).expect("it is open");
            let bundle = state.bundles.get(endpoint.bundle).expect("it has an endpoint");
            change(bundle.tables.get(endpoint.table).expect("it is open"))
        })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let closed = self.core.state.with(|state| state.close_endpoint(self.key));
        // Handlers are dropped without any lock: they may own what takes one.
        drop(closed);
        self.core.leave_handlers();
        self.core.wake_if_last();
    }
}

/// Longest name of an endpoint or a handler.
pub(super) const NAME_MAX: usize = 255;
