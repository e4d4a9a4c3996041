//! Hand-over, the lending side: buffers of this process that a peer has.
//!
//! The table is private memory and the only authority: a buffer is the peer's while it
//! is in the table. It is added before the peer is told, and removed when the peer hands it back,
//! when the peer says in its [returns](super::returns) that it has dropped the buffer, or when the kernel
//! says that the peer's process is gone. The first of these removes the buffer; the others do nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use super::super::fault::{Fault, planted, step};
use super::super::foreign::ForeignMemory;
use super::reaper::{self, OrphanedBuffers};
use super::returns::{LENT_MAX, REGION_MASK, ReturnsAreaError, ReturnsReader, SlotPlace};
use crate::buf::{Buf, LendError, LentBuf, PoolPlan};

/// The buffers of this process that one peer has. When it is dropped the
/// connection is over, and the [reaper] waits for what is still out.
#[derive(Debug)]
pub(in super::super) struct LentBuffers {
    /// There until dropped.
    out: Option<LentTable>,
}

/// The place of a buffer that changes hands, and how many bytes are in use:
/// what the other side is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct BufferTicket {
    pub(in super::super) place: SlotPlace,
    pub(in super::super) len: u64,
}

/// The buffers that the peer has, and what says that they return.
#[derive(Debug)]
pub(in super::super) struct LentTable {
    table: BTreeMap<SlotPlace, LentBuf>,
    returned: ReturnsReader<ForeignMemory>,
    /// Readable when the peer's process is gone.
    process: OwnedFd,
    is_gone: bool,
    /// How often the peer returned what it did not have.
    #[cfg(test)]
    ignored: u64,
}

impl LentBuffers {
    /// Nothing is lent yet. `process` is the peer's pidfd, and the peer's returns
    /// of [`LENT_MAX`] places are at byte `offset` of its memory.
    pub(in super::super) fn new(
        process: OwnedFd,
        memory: ForeignMemory,
        offset: u64,
    ) -> Result<Self, ReturnsAreaError> {
        let returned = ReturnsReader::new(memory, offset, LENT_MAX)?;
        let table = BTreeMap::new();
        let out = LentTable {
            table,
            returned,
            process,
            is_gone: false,
            #[cfg(test)]
            ignored: 0,
        };
        Ok(Self { out: Some(out) })
    }

    /// What the peer must know of the buffer's region before it can get one: the
    /// file, which it may write, and how the pool is cut. `None` if no buffer
    /// of that pool can be lent.
    pub(in super::super) fn announcement(buf: &Buf) -> Option<(BorrowedFd<'_>, Vec<u64>)> {
        Some((buf.region().cooperating_fd()?, PoolPlan::of(buf)?.words()))
    }

    /// Makes a buffer the peer's. The caller then tells the peer, to which it
    /// has announced the buffer's region by this number; if it cannot, it
    /// [undoes](Self::undo) this. A buffer that cannot be lent comes back.
    ///
    /// # Panics
    ///
    /// If the number is above [`REGION_MASK`], or is another region's by which
    /// the same slot is lent.
    pub(in super::super) fn lend(
        &mut self,
        region: u16,
        buf: Buf,
    ) -> Result<BufferTicket, (Buf, LendError)> {
        let out = self.out_mut();
        if out.is_gone || out.returned.has_left() {
            return Err((buf, LendError::Gone));
        }
        if out.is_full() {
            out.poll();
        }
        if out.is_full() {
            return Err((buf, LendError::TooMany { most: out.returned.capacity() }));
        }
        assert!(region <= REGION_MASK, "a region has a number of 15 bits");
        let lent = buf.lend()?;
        let (class, number) = lent.place();
        let place = SlotPlace { region, class, number };
        let ticket = BufferTicket { place, len: lent.len() as u64 };
        step();
        let before = out.table.insert(place, lent);
        assert!(before.is_none(), "a slot is out once, unless two regions have one number");
        step();
        Ok(ticket)
    }

    /// Takes back what the peer was not told of.
    ///
    /// # Panics
    ///
    /// If that is not lent.
    #[cfg(test)]
    pub(in super::super) fn undo(&mut self, ticket: BufferTicket) -> Buf {
        self.came_back(ticket).expect("it was lent and the peer does not know")
    }

    /// The peer says that it hands back what it got: a buffer of ours again.
    /// `None` if it does not have that, or the length cannot be.
    pub(in super::super) fn came_back(
        &mut self,
        BufferTicket { place, len }: BufferTicket,
    ) -> Option<Buf> {
        let out = self.out_mut();
        let lent = out.table.get(&place)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= lent.capacity())?;
        let lent = out.table.remove(&place)?;
        step();
        Some(lent.back(len))
    }

    /// Takes back the buffers that the peer has dropped. Whether there were any.
    #[inline]
    pub(in super::super) fn poll(&mut self) -> bool {
        self.out_mut().poll()
    }

    /// Asks the kernel whether the peer's process is gone, and if so takes back
    /// whatever it had. The caller has read the peer's messages to their end:
    /// what was handed back by one of them is no longer there to be had.
    #[cfg(test)]
    pub(in super::super) fn owner_gone(&mut self) -> bool {
        self.out_mut().owner_gone()
    }

    /// How many buffers the peer has.
    pub(in super::super) fn count(&self) -> usize {
        self.out.as_ref().map_or(0, |out| out.table.len())
    }

    /// How often the peer returned what it did not have.
    #[cfg(test)]
    pub(in super::super) fn ignored(&self) -> u64 {
        self.out.as_ref().map_or(0, |out| out.ignored)
    }

    fn out_mut(&mut self) -> &mut LentTable {
        self.out.as_mut().expect("there until dropped")
    }
}

impl Drop for LentBuffers {
    fn drop(&mut self) {
        let Some(mut out) = self.out.take() else { return };
        if !out.settle() {
            reaper::adopt(out);
        }
    }
}

impl LentTable {
    fn poll(&mut self) -> bool {
        let Self { table, returned, .. } = self;
        returned.poll(|place| {
            step();
            if let Some(lent) = place.and_then(|place| table.remove(&place)) {
                lent.home();
            } else {
                // The peer does not have it.
                #[cfg(test)]
                {
                    self.ignored += 1;
                }
            }
            step();
        })
    }

    fn owner_gone(&mut self) -> bool {
        if !self.is_gone {
            let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
            let ready = retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())));
            self.is_gone = matches!(ready, Ok(1..)) || planted(Fault::GoneUnasked);
        }
        if self.is_gone {
            self.home_but(&BTreeSet::new());
        }
        self.is_gone
    }

    fn is_full(&self) -> bool {
        self.table.len() >= self.returned.capacity()
    }

    /// What the peer still holds; `None` while it has not left.
    fn held(&self) -> Option<BTreeSet<SlotPlace>> {
        if planted(Fault::OrphansDropped) {
            return Some(BTreeSet::new());
        }
        Some(self.returned.held()?.into_iter().collect())
    }

    /// Takes back the buffers that the peer does not have: all but `held`.
    fn home_but(&mut self, held: &BTreeSet<SlotPlace>) {
        let home: Vec<SlotPlace> =
            self.table.keys().filter(|place| !held.contains(place)).copied().collect();
        for place in home {
            if let Some(lent) = self.table.remove(&place) {
                lent.home();
            }
            step();
        }
    }
}

impl OrphanedBuffers for LentTable {
    /// The connection is over.
    fn settle(&mut self) -> bool {
        self.poll();
        if let Some(held) = self.held() {
            self.home_but(&held);
        }
        self.table.is_empty() || self.owner_gone()
    }

    fn process(&self) -> PollFd<'_> {
        PollFd::new(&self.process, PollFlags::IN)
    }
}
