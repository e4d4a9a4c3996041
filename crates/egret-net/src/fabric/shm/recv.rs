//! The receiving half of one end: records in, completions out.
//!
//! Every word of a record is the peer's and may be a lie. A record is copied out
//! of the ring before it is looked at; lengths are checked against what is
//! posted or exposed here before a byte is copied; places are checked by
//! [`Foreign`] against the region they name.

use std::collections::BTreeMap;

use super::commons::Handed;
use super::datapath::ISOLATED;
use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::io::{Io, tell};
use super::layout::{REGIONS_MAX, TRANSFER_MAX};
use super::records::Taken;
use super::send::Sender;
use super::wire::{Item, MESSAGE_AT, Place, copy_message};
use crate::buf::{Buf, Kind};
use crate::fabric::hub::incoming::{Current, Incoming};
use crate::fabric::outbox::Answer;
use crate::vi::{Posted, Reliability, RemoteKey, ViError};

#[derive(Debug)]
pub(super) struct Receiver {
    pub incoming: Incoming,
    /// The peer took its buffers back while we were reading them.
    pub torn: bool,
    /// The peer's regions by number.
    regions: BTreeMap<u64, Foreign>,
    /// A buffer that was handed over and is copied, a part at each poll, into the receive of
    /// the message that has begun.
    copying: Option<Buf>,
}

impl Receiver {
    pub(super) fn new(level: Reliability) -> Self {
        let (incoming, regions) = (Incoming::new(level), BTreeMap::new());
        Self { incoming, torn: false, regions, copying: None }
    }

    /// A region of the peer's, mapped.
    pub(super) fn add_region(&mut self, number: u64, region: Foreign) -> Result<(), Box<ViError>> {
        if self.regions.len() >= REGIONS_MAX as usize {
            return Err(ViError::Protocol("more regions than this side maps").into());
        }
        self.regions.insert(number, region);
        Ok(())
    }

    /// Whether what an item refers to was announced.
    pub(super) fn knows(&self, item: &Item) -> bool {
        let kind = match item {
            Item::Message { kind, .. } | Item::Begin { kind, .. } | Item::HandOver { kind, .. } => {
                *kind
            }
            _ => None,
        };
        let knows_region = match item.place() {
            Some(Place::Region { number, .. }) => self.regions.contains_key(number),
            _ => true,
        };
        knows_region && kind.is_none_or(|kind| self.incoming.knows(kind))
    }

    /// Whether an item must wait for a receive.
    pub(super) fn holds_up(&self, item: &Item) -> bool {
        item.needs_receive() && self.incoming.holds_up()
    }

    /// Places a message of a few bytes, if [that is all](Incoming::place) there is to it.
    #[inline]
    pub(super) fn place(&mut self, taken: &Taken<'_>, io: &mut Io<'_>) -> bool {
        let Some(len) = taken.payload.len().checked_sub(MESSAGE_AT) else { return false };
        self.incoming.place((len, taken.tag), io.notices, |to| copy_message(taken, to))
    }

    /// Takes one item that need not wait.
    pub(super) fn take(
        &mut self,
        item: Item,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        if item.needs_receive() && self.incoming.receives.is_empty() {
            return self.drop_message(&item, io);
        }
        self.apply(item, sender, io)
    }

    fn drop_message(&mut self, item: &Item, io: &mut Io<'_>) -> Result<(), Box<ViError>> {
        self.incoming.receives.dropped += 1;
        match item {
            Item::Begin { len, .. } => {
                self.incoming.idle()?;
                self.incoming.current = Current::Dropped { left: *len };
            }
            // It must have arrived to go home again.
            Item::HandOver { handed, .. } if !planted(Fault::UnreceivedForgotten) => {
                drop(arrived(*handed, io)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn apply(
        &mut self,
        item: Item,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        match item {
            Item::Message { tag, kind, bytes } => {
                if self.begin_message((bytes.len(), tag, kind), io)? {
                    self.piece(&bytes, io)?;
                }
                Ok(())
            }
            Item::Begin { tag, kind, len } => {
                if !self.begin_message((len, tag, kind), io)? {
                    self.incoming.current = Current::Dropped { left: len };
                }
                Ok(())
            }
            Item::Piece { bytes } => self.piece(&bytes, io),
            Item::HandOver { tag, kind, handed } => self.handed((tag, kind), handed, io),
            Item::Read { id, secret, offset, len } => {
                let from = RemoteKey::of(secret).at(offset);
                sender.answer(match io.keys.check(&from, len, false) {
                    Ok(()) => Answer::Read { id, from, len, offset: 0 },
                    Err(why) => Answer::ReadEnd { id, result: Err(why) },
                })
            }
            Item::ReadPiece { id, bytes } => self.read_piece(id, &bytes, sender, io),
            Item::ReadEnd { id, result } => {
                self.incoming.end_read(id, result, &mut sender.outbox, io.notices)
            }
            Item::Write { secret, offset, len } => {
                self.incoming.begin_write((secret, offset, len), io.keys)
            }
            Item::WriteEnd { id, notify } => self.write_end(id, notify, sender, io),
            Item::Written { id, result } => Ok(sender.outbox.answered(id, result, io.notices)?),
        }
    }

    /// A message begins in the oldest receive. `false`: it did not fit, which the unreliable
    /// level survives.
    fn begin_message(
        &mut self,
        (len, tag, kind): (u64, u64, Option<u64>),
        io: &mut Io<'_>,
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
        handed: Handed,
        io: &mut Io<'_>,
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
    pub(super) fn copy_on(&mut self, most: u64, io: &mut Io<'_>) -> u64 {
        let (Some(buf), Current::Message { posted, got, .. }) =
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

    fn piece(&mut self, bytes: &Place, io: &mut Io<'_>) -> Result<(), Box<ViError>> {
        let more = ViError::Protocol("more bytes than were announced");
        let n = bytes.len();
        match &mut self.incoming.current {
            Current::Nothing => return Err(ViError::Protocol("bytes of nothing").into()),
            Current::Dropped { left } => {
                *left = left.checked_sub(n).ok_or(more)?;
                if *left == 0 {
                    self.incoming.current = Current::Nothing;
                }
            }
            Current::Message { posted, len, got, .. } => {
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
            Current::Write { to, len, got, result } => {
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
        bytes: &Place,
        sender: &mut Sender,
        io: &Io<'_>,
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
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let wrote = self.incoming.end_write()?;
        sender.answer(Answer::Written { id, result: wrote.result })?;
        if let (Some(commons), Ok(()), 1..) = (io.commons.as_deref_mut(), wrote.result, wrote.len) {
            let control = io.control;
            commons.open(io.keys, wrote.to.key.secret(), |said, fds| tell(control, said, fds));
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
fn arrived(handed: Handed, io: &mut Io<'_>) -> Result<Buf, Box<ViError>> {
    io.commons.as_deref_mut().ok_or(ISOLATED)?.take(handed)
}

/// Copies the bytes at a peer's `place` to where `fill` puts them: one copy,
/// straight out of the peer's memory, which may change meanwhile.
fn fetch(
    regions: &BTreeMap<u64, Foreign>,
    io: &Io<'_>,
    place: &Place,
    fill: impl FnOnce(usize, &mut dyn FnMut(&mut [u8])),
) -> Result<(), Box<ViError>> {
    let outside = ViError::Protocol("bytes outside its memory");
    let (source, mut at, len) = match place {
        Place::Inline { at, len } => {
            let mut from = &io.record[usize::from(*at)..][..usize::from(*len)];
            fill(from.len(), &mut |to| {
                let (now, later) = from.split_at(to.len());
                to.copy_from_slice(now);
                from = later;
            });
            return Ok(());
        }
        Place::Region { number, offset, len } => {
            let unknown = ViError::Protocol("a region it never announced");
            (regions.get(number).ok_or(unknown)?, *offset, *len)
        }
        Place::Bounce { offset, len } => (io.foreign, *offset, *len),
        Place::Process { at, len } => {
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
