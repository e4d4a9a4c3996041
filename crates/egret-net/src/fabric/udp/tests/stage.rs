//! Ends without sockets: what they send is the test's to carry.

use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::fabric::common::bytes::Malformed;
use crate::fabric::common::connection_end::OpenEnd;
use crate::fabric::udp::datapath::{DataPath, IgnoredPieces};
use crate::fabric::udp::recv::PieceOutcome;
use crate::fabric::udp::send::{DatagramPort, SendBlocked};
use crate::fabric::udp::wire::{ConnectionNumber, UdpDatagram};
use crate::fabric::{
    After, ConnId, ConnectRequest, ListenerName, Machine, NewConnection, Unposted, ViSpec,
};
use crate::rt::Deadline;
use crate::vi::{
    Address, Counters, Keys, Limits, Nic, Notices, OpenError, PostError, Posted, Reliability,
    Ticket, Vi, ViError, ViOptions, Wait,
};

/// One end, and what it has sent.
#[derive(Debug, Clone)]
pub(super) struct End(Arc<Mutex<Inner>>);

#[derive(Debug)]
pub(super) struct Inner {
    conn: Option<DataPath>,
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

impl DatagramPort for Outbox {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), SendBlocked> {
        let datagram: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        if datagram.len() > self.room {
            return Err(SendBlocked::TooLong { room: self.room });
        }
        if self.datagrams.len() >= self.capacity {
            return Err(SendBlocked::Full);
        }
        self.datagrams.push(datagram);
        Ok(())
    }
}

impl End {
    /// An end, and the program's handle of it.
    pub(super) fn new(make: impl FnOnce(ViSpec) -> DataPath, room: usize) -> (Self, Vi) {
        let outbox = Outbox { datagrams: Vec::new(), capacity: usize::MAX, room };
        let end = Self(Arc::new(Mutex::new(Inner { conn: None, outbox })));
        let limits = Limits { queue_depth: DEPTH, ..Limits::least() };
        let stage = Stage { end: end.clone(), keys: Arc::default(), limits };
        let nic = Nic::new(Box::new(stage), Wait::Frugal);
        let spec = ViSpec::new(Reliability::Unreliable, DEPTH);
        end.inner().conn = Some(make(spec));
        let options = ViOptions::of(Reliability::Unreliable);
        let vi = nic.wait_connect(&Address::new("", "", 0), &options, Deadline::NOW).unwrap();
        (end, vi)
    }

    /// One of a connection.
    pub(super) fn of_pair(room: usize) -> (Self, Vi) {
        Self::new(|spec| DataPath::new(spec, ConnectionNumber(TO), room), room)
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was sent since the last time.
    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.inner().outbox.datagrams)
    }

    /// A datagram arrives.
    pub(super) fn deliver(&self, datagram: &[u8]) -> Result<PieceOutcome, Malformed> {
        let (from, piece) = match UdpDatagram::decode(datagram)? {
            UdpDatagram::Piece { piece, .. } => (0, piece),
            UdpDatagram::Group { from, piece, .. } => (from, piece),
            other => panic!("{other:?}"),
        };
        Ok(self.work(|conn, _, notices| conn.arrive(from, &piece, notices)))
    }

    pub(super) fn pump(&self) {
        self.work(|conn, outbox, notices| conn.pump(outbox, notices));
    }

    pub(super) fn keep_alive_tick(&self) -> Result<bool, ViError> {
        self.work(|conn, _, _| conn.keep_alive_tick())
    }

    pub(super) fn ignored(&self) -> IgnoredPieces {
        self.work(|conn, _, _| conn.ignored())
    }

    pub(super) fn work<R>(
        &self,
        body: impl FnOnce(&mut DataPath, &mut Outbox, &mut Notices) -> R,
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

impl Machine for Stage {
    fn host(&self) -> &str {
        ""
    }
    fn limits(&self) -> Limits {
        self.limits
    }
    fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }
    fn listen(&mut self, _: &ListenerName, _: Reliability) -> Result<(), OpenError> {
        Err(OpenError::NicDown)
    }
    fn unlisten(&mut self, _: &ListenerName, _: &mut After) {}
    fn wake_on_arrival(&mut self, _: &ListenerName, waker: Waker) -> Option<Waker> {
        Some(waker)
    }
    fn accept(
        &mut self,
        _: &ListenerName,
        _: ViSpec,
        _: &mut After,
    ) -> Result<Option<NewConnection>, OpenError> {
        Err(OpenError::NicDown)
    }
    fn connect(&mut self, request: ConnectRequest, after: &mut After) {
        after.settle(request.promise, Ok(NewConnection::new(ConnId(1), "")));
    }
    fn post(&mut self, _: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        let Inner { conn, outbox } = &mut *self.end.inner();
        match conn {
            Some(conn) => conn.post(posted, outbox, &mut after.notices).map(|_| ()),
            None => Err(Unposted::new(PostError::Broken(ViError::Closed), posted)),
        }
    }
    fn cancel(&mut self, _: ConnId, ticket: Ticket, after: &mut After) -> bool {
        let conn = &mut self.end.inner().conn;
        conn.as_mut().is_some_and(|conn| conn.cancel(ticket, &mut after.notices))
    }
    fn close(&mut self, _: ConnId, after: &mut After) {
        if let Some(conn) = self.end.inner().conn.take() {
            conn.fail(&ViError::Closed, &mut after.notices);
        }
    }
    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
    }
    fn error(&self, _: ConnId) -> Option<ViError> {
        self.end.inner().conn.is_none().then_some(ViError::Closed)
    }
    fn counters(&self, _: ConnId) -> Counters {
        self.end.inner().conn.as_ref().unwrap().counters()
    }
    fn poll(&mut self, _: &mut After) {}
    fn shut(&mut self, _: &mut After) {}
}
