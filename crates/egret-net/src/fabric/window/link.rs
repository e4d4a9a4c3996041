//! An end of a connection, as its nic owns it: open, leaving, or gone.

use std::sync::Arc;

use super::conn::{Conn, SILENT};
use super::fault::{Fault, planted};
use super::frame::HEAD_MAX;
use super::lanes::Window;
use super::leaving::{LINGER_MAX, Leaving};
use super::send::Parcel;
use crate::buf::{Buf, Pool};
use crate::fabric::Unposted;
use crate::fabric::hub::end::End;
use crate::rt::Instant;
use crate::vi::{
    Completion, Counters, Descriptor, Keys, Landing, Notices, Posted, Ticket, ViError, ViId,
};

#[derive(Debug)]
pub(super) struct Link {
    /// By what its posts are known below.
    pub vi: ViId,
    end: End<Conn>,
    /// What is still to be said, when it is over here.
    pub leaving: Option<Leaving>,
    /// Until when, at the latest.
    pub leaving_until: Option<Instant>,
    /// When there is something to do though nothing comes.
    pub timer: Option<Instant>,
    /// Whether nobody has a handle to it.
    pub is_released: bool,
    /// Datagrams that are with the machine below.
    under_way: u32,
    /// Memory of datagrams, to be used again.
    spare: Vec<Vec<u8>>,
}

/// Datagrams that may be with the machine below.
const UNDER_WAY_MAX: u32 = 64;
/// Receives of datagrams: more than are taken at once.
const RECEIVES: u32 = 40;
/// Bytes of a datagram that needs no memory beyond what its receive has: an eager message of six
/// words, and how far its sender is.
const OWN: usize = 160;
/// Buffers for longer ones: they are free again before more datagrams are taken than that.
const BUFFERS: usize = 64;
/// Memory of datagrams that is kept.
const SPARE_MAX: usize = 4;
/// Bytes of the longest datagram: what the path carries, and no more than that, for what is lost is
/// repeated as a whole.
const DATAGRAM_MAX: usize = 16 << 10;
/// Room for a head and some bytes.
const DATAGRAM_MIN: usize = HEAD_MAX + 192;

/// Bytes of a datagram over a path that carries so many.
fn datagram(carries: usize) -> usize {
    carries.clamp(DATAGRAM_MIN, DATAGRAM_MAX)
}

/// Where the datagrams of a nic land that are not short.
#[derive(Debug)]
pub(super) struct Ground(Option<Pool>);

impl Ground {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Pool::new(DATAGRAM_MAX, BUFFERS).ok()))
    }

    /// What a connection receives its datagrams into.
    pub(super) fn receives(self: &Arc<Self>) -> impl Iterator<Item = Descriptor> {
        (0..RECEIVES).map(|_| {
            let landing: Arc<dyn Landing> = self.clone();
            Descriptor::landing(vec![0_u8; OWN], DATAGRAM_MAX as u64, landing)
        })
    }
}

impl Landing for Ground {
    fn land(&self, len: u64, _tag: u64) -> Result<Buf, &'static str> {
        let pool = self.0.as_ref().ok_or("there is no memory for datagrams")?;
        let len = usize::try_from(len).map_err(|_| "longer than any datagram")?;
        let buf = pool.take(len);
        if buf.is_ok() || planted(Fault::OneGround) {
            return buf.map_err(|_| "too many datagrams at once");
        }
        // Others of the nic have taken all. A connection has no more of its own than it has receives.
        let own = Pool::new(len.clamp(1, DATAGRAM_MAX), 1).map_err(|_| "there is no memory")?;
        own.take(len).map_err(|_| "longer than any datagram")
    }
}

impl Link {
    pub(super) fn new(vi: ViId, carries: usize) -> Self {
        Self {
            vi,
            end: End::new(Conn::new(datagram(carries))),
            leaving: None,
            leaving_until: None,
            timer: None,
            is_released: false,
            under_way: 0,
            spare: Vec::new(),
        }
    }

    pub(super) fn post(&mut self, posted: Posted, notices: &mut Notices) -> Result<(), Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        conn.post(posted, notices)
    }

    /// Why the peer is no honest one, if more is kept for it than for any honest one.
    pub(super) fn is_flooded(&mut self) -> Option<ViError> {
        self.end.open().and_then(|conn| conn.is_flooded())
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.end.open().is_some_and(|conn| conn.cancel(ticket, notices))
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.end.error()
    }

    pub(super) fn counters(&self) -> Counters {
        self.end.counters()
    }

    /// A datagram of the peer. One that leaves hears what has arrived of its last words.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        datagram: &[u8],
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        if let Some(conn) = self.end.open() {
            return conn.hear(now, datagram, keys, notices);
        }
        if let Some(leaving) = &mut self.leaving
            && leaving.hear(now, datagram).is_err()
        {
            self.leaving = None;
        }
        Ok(())
    }

    pub(super) fn resume(
        &mut self,
        now: Instant,
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        match self.end.open() {
            Some(conn) if conn.window.is_held() => conn.resume(now, keys, notices),
            _ => Ok(()),
        }
    }

    /// Gives the window what may go.
    pub(super) fn feed(&mut self, now: Instant, (keys, thorough): (&Keys, bool), carries: usize) {
        if let Some(conn) = self.end.open() {
            conn.window.resize(datagram(carries));
            conn.feed(now, keys, thorough);
        }
    }

    fn window(&mut self) -> Option<&mut Window<Parcel>> {
        match self.end.open() {
            Some(conn) => Some(&mut conn.window),
            None => self.leaving.as_mut().map(|leaving| &mut leaving.window),
        }
    }

    /// The next datagram that is due, if one may be sent.
    pub(super) fn poll_datagram(&mut self, now: Instant) -> Option<Descriptor> {
        if self.under_way >= UNDER_WAY_MAX {
            return None;
        }
        let mut datagram = self.spare.pop().unwrap_or_default();
        if !self.window()?.poll_datagram(now, &mut datagram) {
            self.spare.push(datagram);
            return None;
        }
        self.under_way += 1;
        Some(Descriptor::new(datagram))
    }

    /// A datagram has left.
    pub(super) fn sent(&mut self, completion: Completion) {
        self.under_way -= 1;
        if self.spare.len() < SPARE_MAX {
            self.spare.push(completion.into_vec());
        }
    }

    /// Whether something is due that waited for a datagram to leave.
    pub(super) fn has_more(&mut self) -> bool {
        let is_free = self.under_way + 1 == UNDER_WAY_MAX;
        is_free
            && self.window().is_some_and(|window| window.next_event() == Some(Instant::default()))
    }

    /// Ends it, if it is open. Whether it was.
    pub(super) fn end(&mut self, now: Instant, why: &ViError, notices: &mut Notices) -> bool {
        let left = self.end.end(why, notices);
        let was_open = left.is_some();
        if let Some(leaving) = left {
            self.leaving_until = leaving.is_some().then(|| now + LINGER_MAX);
            self.leaving = leaving;
        }
        was_open
    }

    /// Why it is silent, if it is.
    pub(super) fn is_silent(&mut self, now: Instant) -> Option<ViError> {
        let is_silent = self.window().is_some_and(|window| window.is_silent(now));
        is_silent.then_some(SILENT)
    }

    /// Whether it is over here, and the peer knows all that it is to know, or had its time.
    pub(super) fn has_left(&mut self, now: Instant) -> bool {
        let is_late = self.leaving_until.is_some_and(|until| until <= now);
        if is_late && !planted(Fault::LingersOn) {
            self.leaving = None;
        }
        let is_through = |leaving: &Leaving| leaving.window.is_through();
        self.end.open().is_none() && self.leaving.as_ref().is_none_or(is_through)
    }

    /// Whether the peer does not know how far this side is.
    pub(super) fn owes(&mut self) -> bool {
        self.end.open().is_some_and(|conn| conn.owes())
    }

    pub(super) fn next_event(&mut self) -> Option<Instant> {
        let next = match self.end.open() {
            Some(conn) => conn.next_event(),
            None => self.leaving.as_ref().and_then(|leaving| leaving.window.next_event()),
        };
        // What is due now waits for a datagram to leave.
        next.into_iter().filter(|at| *at != Instant::default()).chain(self.leaving_until).min()
    }
}
