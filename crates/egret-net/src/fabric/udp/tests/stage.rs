//! Ends without sockets: what they send is the test's to carry.

use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fabric::hub::end::Open;
use crate::fabric::udp::assembly::Came;
use crate::fabric::udp::datapath::{Conn, Ignored};
use crate::fabric::udp::send::{Port, Stuck};
use crate::fabric::udp::wire::{Datagram, Malformed, Number};
use crate::fabric::{ConnectRequest, ListenerOps, NicOps, Promise, Seen, Unposted, ViOps, ViSpec};
use crate::rt::{Deadline, Instant};
use crate::vi::{
    Address, ConnectError, Counters, Keys, Limits, ListenError, Nic, Notices, Posted, Refused,
    Reliability, Ticket, Vi, ViError, ViOptions,
};

/// One end, and what it has sent.
#[derive(Debug, Clone)]
pub(super) struct End(Arc<Mutex<Inner>>);

#[derive(Debug)]
pub(super) struct Inner {
    conn: Option<Conn>,
    pub outbox: Outbox,
}

/// Where its datagrams leave.
#[derive(Debug)]
pub(super) struct Outbox {
    pub datagrams: Vec<Vec<u8>>,
    /// How many there is room for.
    pub capacity: usize,
    /// The largest that the path carries.
    pub room: usize,
}

impl Port for Outbox {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), Stuck> {
        let datagram: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        if datagram.len() > self.room {
            return Err(Stuck::TooLong { room: self.room });
        }
        if self.datagrams.len() >= self.capacity {
            return Err(Stuck::Full);
        }
        self.datagrams.push(datagram);
        Ok(())
    }
}

impl End {
    /// An end, and the program's handle of it.
    pub(super) fn new(make: impl FnOnce(ViSpec) -> Conn, room: usize) -> (Self, Vi) {
        let outbox = Outbox { datagrams: Vec::new(), capacity: usize::MAX, room };
        let end = Self(Arc::new(Mutex::new(Inner { conn: None, outbox })));
        let limits = Limits { queue_depth: DEPTH, ..Limits::least() };
        let nic = Nic::new(Arc::new(Stage { end: end.clone(), keys: Arc::default(), limits }));
        let spec = ViSpec::new(Reliability::Unreliable, DEPTH);
        end.inner().conn = Some(make(spec));
        let options = ViOptions::of(Reliability::Unreliable);
        let vi = nic.wait_connect(&Address::new("", "", 0), &options, Deadline::NOW).unwrap();
        (end, vi)
    }

    /// One of a connection.
    pub(super) fn of_pair(room: usize) -> (Self, Vi) {
        Self::new(|spec| Conn::new(spec, Number(TO), room), room)
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was sent since the last time.
    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.inner().outbox.datagrams)
    }

    /// A datagram arrives.
    pub(super) fn deliver(&self, datagram: &[u8]) -> Result<Came, Malformed> {
        let (from, piece) = match Datagram::decode(datagram)? {
            Datagram::Piece { piece, .. } => (0, piece),
            Datagram::Group { from, piece, .. } => (from, piece),
            other => panic!("{other:?}"),
        };
        Ok(self.work(|conn, _, notices| conn.arrive(from, &piece, notices)))
    }

    pub(super) fn pump(&self) {
        self.work(|conn, outbox, notices| conn.pump(outbox, notices));
    }

    pub(super) fn beat(&self) -> Result<bool, ViError> {
        self.work(|conn, _, _| conn.beat())
    }

    pub(super) fn ignored(&self) -> Ignored {
        self.work(|conn, _, _| conn.ignored())
    }

    pub(super) fn work<R>(
        &self,
        body: impl FnOnce(&mut Conn, &mut Outbox, &mut Notices) -> R,
    ) -> R {
        let mut notices = Notices::default();
        let mut inner = self.inner();
        let Inner { conn, outbox } = &mut *inner;
        let result = body(conn.as_mut().unwrap(), outbox, &mut notices);
        drop(inner);
        notices.give();
        result
    }
}

/// Descriptors outstanding on each queue.
pub(super) const DEPTH: u32 = 64;
/// The number under which the peer receives.
pub(super) const TO: u64 = 0x1122_3344_5566_7788;

#[derive(Debug)]
struct Stage {
    end: End,
    keys: Arc<Keys>,
    limits: Limits,
}

impl NicOps for Stage {
    fn host(&self) -> &str {
        ""
    }
    fn limits(&self) -> Limits {
        self.limits
    }
    fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }
    fn listen(&self, _: &str, _: u64, _: Reliability) -> Result<Box<dyn ListenerOps>, ListenError> {
        Err(ListenError::NicDown)
    }
    fn connect(&self, request: ConnectRequest) {
        let promise: Promise<Result<Box<dyn ViOps>, ConnectError>> = request.promise;
        drop(promise.fulfil(Ok(Box::new(Handle(self.end.clone())))));
    }
    fn progress(&self) -> Seen {
        Seen(0)
    }
    fn wait(&self, _: Seen, _: Option<Instant>) -> Seen {
        Seen(0)
    }
    fn wake(&self) {}
}

#[derive(Debug)]
struct Handle(End);

impl ViOps for Handle {
    fn peer(&self) -> &str {
        ""
    }
    fn reliability(&self) -> Reliability {
        Reliability::Unreliable
    }
    fn post(&self, posted: Posted) -> Result<(), Unposted> {
        if self.0.inner().conn.is_none() {
            return Err(Unposted::new(Refused::Broken(ViError::Closed), posted));
        }
        self.0.work(|conn, outbox, notices| conn.post(posted, outbox, notices).map(|_| ()))
    }
    fn cancel(&self, ticket: Ticket) -> bool {
        self.0.work(|conn, _, notices| conn.cancel(ticket, notices))
    }
    fn disconnect(&self) {
        let conn = self.0.inner().conn.take();
        let mut notices = Notices::default();
        if let Some(conn) = conn {
            conn.fail(&ViError::Closed, &mut notices);
        }
        notices.give();
    }
    fn error(&self) -> Option<ViError> {
        self.0.inner().conn.is_none().then_some(ViError::Closed)
    }
    fn counters(&self) -> Counters {
        self.0.work(|conn, _, _| conn.counters())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.disconnect();
    }
}
