//! Memory under a key that cooperating peers write by themselves: the side that
//! owns the memory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use super::super::copy;
use super::super::fault::{Fault, planted};
use super::gate::{GATES, GateKeeper, GatePass};
use super::lent::BufferTicket;
use super::reaper::{self, OrphanedBuffers};
use super::returns::SlotPlace;
use crate::buf::{Buf, LentBuf, Pool, PoolPlan, Region};
use crate::rt;
use crate::vi::OpenedMemory;

/// The gates of one connection. When it is dropped the connection is over, and
/// no peer writes through them any more.
#[derive(Debug)]
pub(in super::super) struct ConnectionGates(Arc<SharedGates>);

#[derive(Debug)]
struct SharedGates {
    /// Ready when the peer's process is gone.
    process: OwnedFd,
    gates: Mutex<GatesState>,
}

#[derive(Debug)]
struct GatesState {
    /// `None` when the connection is over and the peer is out for good.
    keeper: Option<GateKeeper>,
    /// The connection is over.
    has_left: bool,
    /// The last number that was used.
    last: u64,
    open: Vec<GatePass>,
}

/// A gate that was granted to a peer. Dropping the grant shuts the gate and frees it for another.
#[derive(Debug)]
struct GrantedGate {
    shared: Arc<SharedGates>,
    pass: GatePass,
}

/// A buffer under a key, open to the peers that have a gate.
#[derive(Debug)]
pub(in super::super) struct ExposedBuffer {
    lent: LentBuf,
    /// How its pool is cut, to tell further peers.
    plan: Vec<u64>,
    granted: Vec<GrantedGate>,
}

/// What a peer is told of a gate that it is granted.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct GateGrant {
    pub(in super::super) pass: GatePass,
    pub(in super::super) ticket: BufferTicket,
}

/// A buffer whose key is revoked while peers are still inside it.
#[derive(Debug)]
struct OccupiedBuffer {
    lent: Option<LentBuf>,
    inside: Vec<GrantedGate>,
}

impl ConnectionGates {
    pub(in super::super) fn new(keeper: GateKeeper, process: OwnedFd) -> Self {
        let (keeper, open) = (Some(keeper), Vec::new());
        let inner = GatesState { keeper, has_left: false, last: 0, open };
        Self(Arc::new(SharedGates { process, gates: Mutex::new(inner) }))
    }

    /// Opens a gate, if one is left.
    fn open(&self) -> Option<GrantedGate> {
        let mut gates = self.0.gates();
        let gate = (0..GATES).find(|gate| gates.open.iter().all(|pass| pass.gate != *gate))?;
        let pass = GatePass { gate, number: gates.last + 1 };
        gates.keeper.as_ref()?.open(pass);
        gates.last = pass.number;
        gates.open.push(pass);
        drop(gates);
        Some(GrantedGate { shared: Arc::clone(&self.0), pass })
    }
}

impl Drop for ConnectionGates {
    fn drop(&mut self) {
        let mut gates = self.0.gates();
        gates.has_left = true;
        if let Some(keeper) = &gates.keeper {
            gates.open.iter().for_each(|pass| keeper.shut(*pass));
        }
        drop(gates);
        self.0.is_over();
    }
}

impl SharedGates {
    /// Whether the peer's process is gone. It writes nothing then.
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
        matches!(retry_on_intr(|| poll(&mut fds, Some(&Timespec::default()))), Ok(1..))
    }

    /// Whether the connection is over and the peer is out for good. If so the
    /// memory of both is not needed any more.
    fn is_over(&self) -> bool {
        let mut gates = self.gates();
        let is_out = |keeper: &GateKeeper| !keeper.is_anywhere() || self.is_gone();
        if gates.has_left && gates.keeper.as_ref().is_none_or(is_out) {
            gates.keeper = None;
        }
        gates.keeper.is_none()
    }

    fn gates(&self) -> MutexGuard<'_, GatesState> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GrantedGate {
    fn shut(&self) {
        if let Some(keeper) = &self.shared.gates().keeper {
            keeper.shut(self.pass);
        }
    }

    /// Whether the peer is inside still, the gate being shut.
    fn is_inside(&self) -> bool {
        if planted(Fault::InsideIgnored) {
            return false;
        }
        let inside =
            self.shared.gates().keeper.as_ref().is_some_and(|keeper| keeper.is_inside(self.pass));
        inside && !self.shared.is_gone()
    }
}

impl Drop for GrantedGate {
    fn drop(&mut self) {
        self.shut();
        self.shared.gates().open.retain(|pass| *pass != self.pass);
    }
}

impl ExposedBuffer {
    /// Opens a buffer, if peers may write it at all. No peer was granted access yet.
    pub(in super::super) fn new(buf: Buf) -> Result<Self, Buf> {
        let Some(plan) = PoolPlan::of(&buf).map(|plan| plan.words()) else { return Err(buf) };
        let lent = buf.lend().map_err(|(buf, _)| buf)?;
        Ok(Self { lent, plan, granted: Vec::new() })
    }

    pub(in super::super) fn region(&self) -> &Region {
        self.lent.region()
    }

    pub(in super::super) fn plan(&self) -> &[u64] {
        &self.plan
    }

    /// Opens a gate for a peer that does not have one, by `gates`; `tell` says so
    /// to the peer, which knows the buffer's region by this number. If it does
    /// not, nothing is opened.
    pub(in super::super) fn invite(
        &mut self,
        gates: &ConnectionGates,
        region: u16,
        tell: impl FnOnce(GateGrant) -> bool,
    ) {
        self.granted.retain(|granted| !granted.shared.is_over());
        let Some(granted) = gates.open() else { return };
        let (class, number) = self.lent.place();
        let place = SlotPlace { region, class, number };
        let ticket = BufferTicket { place, len: self.lent.len() as u64 };
        if tell(GateGrant { pass: granted.pass, ticket }) {
            self.granted.push(granted);
        }
    }

    /// Whether the peer behind `gates` has a gate.
    pub(in super::super) fn has_gate(&self, gates: &ConnectionGates) -> bool {
        self.granted.iter().any(|granted| Arc::ptr_eq(&granted.shared, &gates.0))
    }

    /// Shuts all gates, and waits for who is inside: at most as long as a peer
    /// takes that does not stand still.
    fn shut(self) -> Result<LentBuf, OccupiedBuffer> {
        let Self { lent, mut granted, .. } = self;
        granted.iter().for_each(GrantedGate::shut);
        let until = rt::now() + PATIENCE;
        let mut turns = 0;
        loop {
            granted.retain(GrantedGate::is_inside);
            if granted.is_empty() {
                return Ok(lent);
            }
            if rt::now() >= until {
                return Err(OccupiedBuffer { lent: Some(lent), inside: granted });
            }
            turns += 1;
            if turns < SPINS { rt::yield_now() } else { rt::sleep(PAUSE) }
        }
    }
}

impl OpenedMemory for ExposedBuffer {
    fn len(&self) -> usize {
        self.lent.len()
    }

    fn read(&self, at: usize, to: &mut [u8]) {
        read(&self.lent, at, to);
    }

    fn write(&self, at: usize, from: &[u8]) {
        let (bytes, len) = (from.len(), self.lent.len());
        assert!(at <= len && bytes <= len - at, "{bytes} bytes at {at} of {len}");
        let to = self.lent.start().as_ptr().wrapping_add(at);
        // SAFETY: inside the slot, which is mapped while it is lent. A slot that is lent has no
        // other handle, so everything in this process reaches its bytes by these copies.
        unsafe { copy::copy_in(from, to) };
    }

    fn close(self: Box<Self>) -> Buf {
        let stuck = match self.shut() {
            Ok(lent) => {
                let len = lent.len();
                return lent.back(len);
            }
            Err(stuck) => stuck,
        };
        stuck.into_copy()
    }

    fn discard(self: Box<Self>) {
        match self.shut() {
            Ok(lent) => lent.home(),
            Err(stuck) => reaper::adopt(stuck),
        }
    }
}

impl OccupiedBuffer {
    /// What is there now, in memory that no other process knows. Where there is none
    /// it waits for the peer after all.
    fn into_copy(mut self) -> Buf {
        loop {
            let Some(lent) = &self.lent else { unreachable!("it is home only at the reaper's") };
            let len = lent.len();
            let copy = Pool::new(lent.capacity(), 1).ok().and_then(|pool| pool.take(len).ok());
            if let Some(mut copy) = copy {
                read(lent, 0, copy.bytes_mut());
                reaper::adopt(self);
                return copy;
            }
            self.inside.retain(GrantedGate::is_inside);
            if let Some(lent) = self.lent.take_if(|_| self.inside.is_empty()) {
                return lent.back(len);
            }
            rt::sleep(PAUSE);
        }
    }
}

impl OrphanedBuffers for OccupiedBuffer {
    fn settle(&mut self) -> bool {
        self.inside.retain(GrantedGate::is_inside);
        if self.inside.is_empty()
            && let Some(lent) = self.lent.take()
        {
            lent.home();
        }
        self.lent.is_none()
    }

    fn process(&self) -> PollFd<'_> {
        let first = self.inside.first().expect("somebody, or it would be settled");
        PollFd::from_borrowed_fd(first.shared.process.as_fd(), PollFlags::IN)
    }
}

/// Copies bytes of the slot out, that peers may be writing.
fn read(lent: &LentBuf, at: usize, to: &mut [u8]) {
    let (bytes, len) = (to.len(), lent.len());
    assert!(at <= len && bytes <= len - at, "{bytes} bytes at {at} of {len}");
    // SAFETY: inside the slot, which is mapped while it is lent; this process writes it only by
    // the copies here.
    unsafe { copy::copy_out(lent.start().as_ptr().wrapping_add(at), to) };
}

/// Longer than any copy takes, if who copies runs at all.
const PATIENCE: Duration = Duration::from_secs(1);
const SPINS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);
