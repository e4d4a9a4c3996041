//! The receiving half of one end: records in, completions out.
//!
//! Every word of a record is the peer's and may be wrong. A record is copied out
//! of the ring before it is looked at; lengths are checked against what is
//! posted or exposed here before a byte is copied; places are checked by
//! [`ForeignMemory`] against the region they name.
//!
//! Repeated names: `Receiver`, one in each fabric.

use std::collections::BTreeMap;

use super::cooperating::HandedBuffer;
use super::fault::{Fault, planted};
use super::foreign::ForeignMemory;
use super::layout::{REGIONS_MAX, TRANSFER_MAX};
use super::records::TakenRecord;
use super::send::Sender;
use super::transfer_context::ISOLATED;
use super::transfer_context::{TransferContext, tell};
use super::wire::{DataPlace, MESSAGE_AT, PostedItem, copy_message};
use crate::buf::{Buf, Kind};
use crate::fabric::common::incoming::{CurrentTransfer, IncomingTransfers};
use crate::fabric::outbox::OwedAnswer;
use crate::vi::{Posted, Reliability, RemoteKey, ViError};

#[derive(Debug)]
pub(super) struct Receiver {
    pub incoming: IncomingTransfers,
    /// Whether the peer took its buffers back while this side was reading them.
    pub torn: bool,
    /// The peer's regions by number.
    regions: BTreeMap<u64, ForeignMemory>,
    /// A buffer that was handed over and is copied, a part at each poll, into the receive of
    /// the message that has begun.
    copying: Option<Buf>,
}

impl Receiver {
    pub(super) fn new(level: Reliability) -> Self {
        let (incoming, regions) = (IncomingTransfers::new(level), BTreeMap::new());
        Self { incoming, torn: false, regions, copying: None }
    }

    /// A region of the peer's, mapped.
    pub(super) fn add_region(
        &mut self,
        number: u64,
        region: ForeignMemory,
    ) -> Result<(), Box<ViError>> {
        if self.regions.len() >= REGIONS_MAX as usize {
            return Err(ViError::Protocol("more regions than this side maps").into());
        }
        self.regions.insert(number, region);
        Ok(())
    }

    /// Whether what an item refers to was announced.
    pub(super) fn knows(&self, item: &PostedItem) -> bool {
        let kind = match item {
            PostedItem::Message { kind, .. }
            | PostedItem::Begin { kind, .. }
            | PostedItem::HandOver { kind, .. } => *kind,
            _ => None,
        };
        let knows_region = match item.place() {
            Some(DataPlace::Region { number, .. }) => self.regions.contains_key(number),
            _ => true,
        };
        knows_region && kind.is_none_or(|kind| self.incoming.knows(kind))
    }

    /// Whether an item must wait for a receive.
    pub(super) fn holds_up(&self, item: &PostedItem) -> bool {
        item.needs_receive() && self.incoming.holds_up()
    }

    /// Places a message of a few bytes, if [that is all](IncomingTransfers::place) there is to it.
    #[inline]
    pub(super) fn place(&mut self, taken: &TakenRecord<'_>, io: &mut TransferContext<'_>) -> bool {
        let Some(len) = taken.payload.len().checked_sub(MESSAGE_AT) else { return false };
        self.incoming.place((len, taken.tag), io.notices, |to| copy_message(taken, to))
    }

    /// Takes one item that need not wait.
    pub(super) fn take(
        &mut self,
        item: PostedItem,
        sender: &mut Sender,
        io: &mut TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        if item.needs_receive() && self.incoming.receives.is_empty() {
            return self.drop_message(&item, io);
        }
        self.apply(item, sender, io)
    }

    fn drop_message(
        &mut self,
        item: &PostedItem,
        io: &mut TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        self.incoming.receives.dropped += 1;
        match item {
            PostedItem::Begin { len, .. } => {
                self.incoming.idle()?;
                self.incoming.current = CurrentTransfer::Dropped { left: *len };
            }
            PostedItem::HandOver { handed, .. } => send_home(*handed, io)?,
            _ => {}
        }
        Ok(())
    }

    fn apply(
        &mut self,
        item: PostedItem,
        sender: &mut Sender,
        io: &mut TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        match item {
            PostedItem::Message { tag, kind, bytes } => {
                if self.begin_message((bytes.len(), tag, kind), io)? {
                    self.piece(&bytes, io)?;
                }
                Ok(())
            }
            PostedItem::Begin { tag, kind, len } => {
                if !self.begin_message((len, tag, kind), io)? {
                    self.incoming.current = CurrentTransfer::Dropped { left: len };
                }
                Ok(())
            }
            PostedItem::Piece { bytes } => self.piece(&bytes, io),
            PostedItem::HandOver { tag, kind, handed } => self.handed((tag, kind), handed, io),
            PostedItem::Read { id, secret, offset, len } => {
                let from = RemoteKey::of(secret).at(offset);
                sender.answer(match io.keys.check(&from, len, false) {
                    Ok(()) => OwedAnswer::Read { id, from, len, offset: 0 },
                    Err(why) => OwedAnswer::ReadEnd { id, result: Err(why) },
                })
            }
            PostedItem::ReadPiece { id, bytes } => self.read_piece(id, &bytes, sender, io),
            PostedItem::ReadEnd { id, result } => {
                self.incoming.end_read(id, result, &mut sender.outbox, io.notices)
            }
            PostedItem::Write { secret, offset, len } => {
                self.incoming.begin_write((secret, offset, len), io.keys)
            }
            PostedItem::WriteEnd { id, notify } => self.write_end(id, notify, sender, io),
            PostedItem::Written { id, result } => {
                Ok(sender.outbox.answered(id, result, io.notices)?)
            }
        }
    }

    /// A message begins in the oldest receive. `false`: it did not fit, which the unreliable
    /// level survives.
    fn begin_message(
        &mut self,
        (len, tag, kind): (u64, u64, Option<u64>),
        io: &mut TransferContext<'_>,
    ) -> Result<bool, Box<ViError>> {
        if len > TRANSFER_MAX {
            return Err(ViError::Protocol("a message longer than any may be").into());
        }
        let admit = |posted: &mut Posted, kind: Option<&Kind>| posted.begin(len, tag, kind);
        self.incoming.begin((len, tag, kind), io.notices, admit)
    }

    /// A buffer is handed over.
    fn handed(
        &mut self,
        (tag, kind): (u64, Option<u64>),
        handed: HandedBuffer,
        io: &mut TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let buf = arrived(handed, io)?;
        let (len, mut copying) = (buf.len() as u64, None);
        let begun = self.incoming.begin((len, tag, kind), io.notices, |posted, kind| {
            copying = whole(posted, tag, kind, buf)?;
            Ok(())
        })?;
        match copying {
            Some(buf) if begun => self.copying = Some(buf),
            None if begun => self.incoming.finish(io.notices),
            _ => {}
        }
        Ok(())
    }

    /// Whether a buffer that was handed over is not copied to its end.
    #[inline]
    pub(super) const fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// Copies at most so many bytes more of it. How many it were.
    #[cold]
    pub(super) fn copy_on(&mut self, most: u64, io: &mut TransferContext<'_>) -> u64 {
        let (Some(buf), CurrentTransfer::Message { posted, got, .. }) =
            (self.copying.take(), &mut self.incoming.current)
        else {
            return 0;
        };
        let left = &buf.bytes()[usize::try_from(*got).expect("inside the buffer")..];
        let now = &left[..usize::try_from(most).map_or(left.len(), |most| most.min(left.len()))];
        posted.descriptor_mut().scatter(*got, now);
        *got += now.len() as u64;
        let (copied, is_all) = (now.len() as u64, now.len() == left.len());
        if is_all {
            self.incoming.finish(io.notices);
        } else {
            self.copying = Some(buf);
        }
        copied
    }

    fn piece(
        &mut self,
        bytes: &DataPlace,
        io: &mut TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let more = ViError::Protocol("more bytes than were announced");
        let n = bytes.len();
        match &mut self.incoming.current {
            CurrentTransfer::Nothing => {
                return Err(ViError::Protocol("a data record outside a message").into());
            }
            CurrentTransfer::Dropped { left } => {
                *left = left.checked_sub(n).ok_or(more)?;
                if *left == 0 {
                    self.incoming.current = CurrentTransfer::Nothing;
                }
            }
            CurrentTransfer::Message { posted, len, got, .. } => {
                let end = got.checked_add(n).filter(|end| end <= len).ok_or(more)?;
                let fetched = fetch(&self.regions, io, bytes, |n, copy| {
                    posted.descriptor_mut().fill(*got, n, copy);
                });
                if bytes.is_lent() && io.peer_left() {
                    self.torn = true;
                    return Ok(());
                }
                fetched?;
                *got = end;
                if end == *len {
                    self.incoming.finish(io.notices);
                }
            }
            CurrentTransfer::Write { to, len, got, result } => {
                let end = got.checked_add(n).filter(|end| end <= len).ok_or(more)?;
                let mut fetched = Ok(());
                if result.is_ok() {
                    let place = to.key.at(to.offset + *got);
                    let (keys, mut written) = (io.keys, Ok(()));
                    fetched = fetch(&self.regions, io, bytes, |n, copy| {
                        written = keys.fill(&place, n as u64, copy);
                    });
                    *result = written;
                }
                if bytes.is_lent() && io.peer_left() {
                    self.torn = true;
                    return Ok(());
                }
                fetched?;
                *got = end;
            }
        }
        Ok(())
    }

    fn read_piece(
        &mut self,
        id: u64,
        bytes: &DataPlace,
        sender: &mut Sender,
        io: &TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let more = ViError::Protocol("more bytes than were asked for");
        let got = self.incoming.got_of(id);
        let read = sender.outbox.read_mut(id)?;
        let len = read.descriptor().len();
        let end = got.checked_add(bytes.len()).filter(|end| *end <= len).ok_or(more)?;
        fetch(&self.regions, io, bytes, |n, copy| {
            read.descriptor_mut().fill(got, n, copy);
        })?;
        self.incoming.set_got(id, end);
        Ok(())
    }

    fn write_end(
        &mut self,
        id: u64,
        notify: Option<u64>,
        sender: &mut Sender,
        io: &mut TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let wrote = self.incoming.end_write()?;
        sender.answer(OwedAnswer::Written { id, result: wrote.result })?;
        if let (Some(cooperating), Ok(()), 1..) =
            (io.cooperating.as_deref_mut(), wrote.result, wrote.len)
        {
            let control = io.control;
            cooperating.open(io.keys, wrote.to.key.secret(), |said, fds| tell(control, said, fds));
        }
        notify.map_or(Ok(()), |tag| self.incoming.notify(tag, &wrote, io.notices))
    }
}

/// A buffer that is handed over stays what it is if the receive is for that. If not it is given
/// back, to be copied into the receive's memory and dropped.
fn whole(
    posted: &mut Posted,
    tag: u64,
    kind: Option<&Kind>,
    buf: Buf,
) -> Result<Option<Buf>, ViError> {
    posted.admits(buf.len() as u64, kind)?;
    let Err(buf) = posted.descriptor_mut().land(buf) else { return Ok(None) };
    posted.descriptor_mut().make(buf.len(), tag)?;
    Ok(Some(buf))
}

/// The buffer that an item hands over.
fn arrived(handed: HandedBuffer, io: &mut TransferContext<'_>) -> Result<Buf, Box<ViError>> {
    io.cooperating.as_deref_mut().ok_or(ISOLATED)?.take(handed)
}

/// Drops a buffer that an item hands over: a buffer must have arrived to return to its owner.
fn send_home(handed: HandedBuffer, io: &mut TransferContext<'_>) -> Result<(), Box<ViError>> {
    if !planted(Fault::UnreceivedForgotten) {
        drop(arrived(handed, io)?);
    }
    Ok(())
}

/// Copies the bytes at a peer's `place` to where `fill` puts them: one copy,
/// straight out of the peer's memory, which may change meanwhile.
fn fetch(
    regions: &BTreeMap<u64, ForeignMemory>,
    io: &TransferContext<'_>,
    place: &DataPlace,
    fill: impl FnOnce(usize, &mut dyn FnMut(&mut [u8])),
) -> Result<(), Box<ViError>> {
    let outside = ViError::Protocol("bytes outside the peer's memory");
    let (source, mut at, len) = match place {
        DataPlace::Inline { at, len } => {
            let mut from = &io.record[usize::from(*at)..][..usize::from(*len)];
            fill(from.len(), &mut |to| {
                let (now, later) = from.split_at(to.len());
                to.copy_from_slice(now);
                from = later;
            });
            return Ok(());
        }
        DataPlace::Region { number, offset, len } => {
            let unknown = ViError::Protocol("a region it never announced");
            (regions.get(number).ok_or(unknown)?, *offset, *len)
        }
        DataPlace::Bounce { offset, len } => (io.foreign, *offset, *len),
        DataPlace::Process { at, len } => {
            let len = usize::try_from(*len).map_err(|_| outside)?;
            let (mut at, mut read) = (*at, Ok(()));
            fill(len, &mut |to| {
                read = std::mem::replace(&mut read, Ok(())).and_then(|()| io.reach(at, to));
                at = at.wrapping_add(to.len() as u64);
            });
            return Ok(read?);
        }
    };
    // Checked as a whole before any of it: nothing is filled by halves.
    let end = at.checked_add(len);
    if end.is_none_or(|end| end > source.len() as u64) {
        return Err(outside.into());
    }
    let len = usize::try_from(len).expect("inside a mapped region");
    fill(len, &mut |to| {
        source.copy_out(at, to).expect("inside, checked above");
        at += to.len() as u64;
    });
    Ok(())
}
