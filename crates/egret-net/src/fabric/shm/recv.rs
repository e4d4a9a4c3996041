//! The receiving half of one end: slots in, completions out.
//!
//! Every word of a slot is the peer's and may be a lie. A slot is copied out
//! of the ring before it is looked at; lengths are checked against what is
//! posted or exposed here before a byte is copied; places are checked by
//! [`Foreign`] against the region they name.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use super::commons::Handed;
use super::datapath::ISOLATED;
use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::io::{Io, tell};
use super::layout::{REGIONS_MAX, TRANSFER_MAX};
use super::send::Sender;
use super::wire::{Place, Slot, Small};
use crate::buf::{Buf, Kind};
use crate::fabric::outbox::Answer;
use crate::vi::{AccessError, Posted, Reliability, RemoteKey, RemoteSlice, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Receiver {
    level: Reliability,
    posted: VecDeque<Posted>,
    /// Receives the peer may count on, ever.
    pub receives: u64,
    /// Receives the peer counts on that were taken back: those posted next
    /// take their place.
    owed: u64,
    /// Messages placed, ever.
    pub placed: u64,
    current: Current,
    /// The read that is being answered, and how much of it is here.
    answered: Option<(u64, u64)>,
    /// The peer took its buffers back while we were reading them.
    pub torn: bool,
    /// The peer's regions by number.
    regions: BTreeMap<u64, Foreign>,
    kinds: BTreeMap<u64, Kind>,
    pub received: u64,
    pub dropped: u64,
}

/// What the next piece belongs to.
#[derive(Debug)]
enum Current {
    Nothing,
    Message {
        posted: Posted,
        len: u64,
        tag: u64,
        got: u64,
    },
    /// A message that nobody wants; so many bytes are still to come.
    Dropped {
        left: u64,
    },
    Write {
        to: RemoteSlice,
        len: u64,
        got: u64,
        result: Result<(), AccessError>,
    },
}

/// Names of types kept for a peer.
const KINDS_MAX: usize = 1024;

impl Receiver {
    pub(super) fn new(level: Reliability) -> Self {
        Self {
            level,
            posted: VecDeque::new(),
            receives: 0,
            placed: 0,
            owed: 0,
            current: Current::Nothing,
            answered: None,
            torn: false,
            regions: BTreeMap::new(),
            kinds: BTreeMap::new(),
            received: 0,
            dropped: 0,
        }
    }

    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        let begun = matches!(self.current, Current::Message { .. });
        self.posted.len() + usize::from(begun)
    }

    #[inline]
    pub(super) fn push(&mut self, posted: Posted) {
        self.posted.push_back(posted);
        match self.owed {
            0 => self.receives += 1,
            _ => self.owed -= 1,
        }
    }

    /// A region of the peer's, mapped.
    pub(super) fn add_region(&mut self, number: u64, region: Foreign) -> Result<(), Box<ViError>> {
        if self.regions.len() >= REGIONS_MAX as usize {
            return Err(ViError::Protocol("more regions than this side maps").into());
        }
        self.regions.insert(number, region);
        Ok(())
    }

    /// The name of a type the peer sends.
    pub(super) fn add_kind(&mut self, kind: Kind) {
        if self.kinds.len() < KINDS_MAX {
            self.kinds.insert(kind.fingerprint, kind);
        }
    }

    /// Whether what a slot refers to was announced.
    pub(super) fn knows(&self, slot: &Slot) -> bool {
        let kind = match slot {
            Slot::Message { kind, .. } | Slot::Begin { kind, .. } | Slot::HandOver { kind, .. } => {
                *kind
            }
            _ => None,
        };
        let knows_region = match slot.place() {
            Some(Place::Region { number, .. }) => self.regions.contains_key(number),
            _ => true,
        };
        knows_region && kind.is_none_or(|kind| self.kinds.contains_key(&kind))
    }

    /// Whether a slot must wait for a receive.
    pub(super) fn holds_up(&self, slot: &Slot) -> bool {
        slot.needs_receive() && self.posted.is_empty() && self.level.is_reliable()
    }

    /// Places a small message in the oldest receive, if that is all there is to
    /// it: no message is half there, and the receive has room in one piece.
    #[inline]
    pub(super) fn place(&mut self, small: &Small, io: &mut Io<'_>) -> bool {
        if !matches!(self.current, Current::Nothing) {
            return false;
        }
        let Some(mut posted) = self.posted.pop_front() else { return false };
        match posted.descriptor_mut().bytes_mut() {
            Some(bytes) if bytes.len() >= small.len => small.copy_to(&mut bytes[..small.len]),
            _ => {
                self.posted.push_front(posted);
                return false;
            }
        }
        self.placed += 1;
        self.received += 1;
        posted.complete(small.len as u64, small.tag, io.notices);
        true
    }

    /// Takes one slot that need not wait.
    pub(super) fn take(
        &mut self,
        slot: Slot,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        if slot.needs_receive() && self.posted.is_empty() {
            return self.drop_message(&slot, io);
        }
        self.apply(slot, sender, io)
    }

    fn drop_message(&mut self, slot: &Slot, io: &mut Io<'_>) -> Result<(), Box<ViError>> {
        self.dropped += 1;
        match slot {
            Slot::Begin { len, .. } => {
                self.idle()?;
                self.current = Current::Dropped { left: *len };
            }
            // It must have arrived to go home again.
            Slot::HandOver { handed, .. } if !planted(Fault::UnreceivedForgotten) => {
                drop(arrived(*handed, io)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn apply(
        &mut self,
        slot: Slot,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        match slot {
            Slot::Message { tag, kind, bytes } => {
                if self.begin((bytes.len(), tag, kind), None, io)? {
                    self.piece(&bytes, io)?;
                }
                Ok(())
            }
            Slot::Begin { tag, kind, len } => {
                if !self.begin((len, tag, kind), None, io)? {
                    self.current = Current::Dropped { left: len };
                }
                Ok(())
            }
            Slot::Piece { bytes } => self.piece(&bytes, io),
            Slot::HandOver { tag, kind, handed } => self.handed((tag, kind), handed, io),
            Slot::Read { id, secret, offset, len } => {
                let from = RemoteKey::of(secret).at(offset);
                sender.answer(match io.keys.check(&from, len, false) {
                    Ok(()) => Answer::Read { id, from, len, offset: 0 },
                    Err(why) => Answer::ReadEnd { id, result: Err(why) },
                })
            }
            Slot::ReadPiece { id, bytes } => self.read_piece(id, &bytes, sender, io),
            Slot::ReadEnd { id, result } => self.read_end(id, result, sender, io),
            Slot::Write { secret, offset, len } => {
                self.idle()?;
                let to = RemoteKey::of(secret).at(offset);
                let result = io.keys.check(&to, len, true);
                self.current = Current::Write { to, len, got: 0, result };
                Ok(())
            }
            Slot::WriteEnd { id, notify } => self.write_end(id, notify, sender, io),
            Slot::Written { id, result } => Ok(sender.outbox.answered(id, result, io.notices)?),
        }
    }

    fn idle(&self) -> Result<(), Box<ViError>> {
        match self.current {
            Current::Nothing => Ok(()),
            _ => Err(ViError::Protocol("something inside something else").into()),
        }
    }

    /// A message begins in the oldest receive, or is the buffer that was handed over.
    /// `false`: it did not fit, which the unreliable level survives.
    fn begin(
        &mut self,
        (len, tag, kind): (u64, u64, Option<u64>),
        handed: Option<Buf>,
        io: &mut Io<'_>,
    ) -> Result<bool, Box<ViError>> {
        self.idle()?;
        if len > TRANSFER_MAX {
            return Err(ViError::Protocol("a message longer than any may be").into());
        }
        let mut posted = self.posted.pop_front().expect("there is one, or it would wait");
        let kind = kind.map(|fingerprint| {
            let unnamed = || Kind { fingerprint, name: Cow::Borrowed("an unnamed type") };
            self.kinds.get(&fingerprint).cloned().unwrap_or_else(unnamed)
        });
        let begun = match handed {
            Some(buf) => whole(&mut posted, tag, kind.as_ref(), buf),
            None => posted.begin(len, tag, kind.as_ref()),
        };
        if let Err(why) = begun {
            if self.level.is_reliable() {
                // It fails with the connection, after what arrived before it.
                self.posted.push_front(posted);
                return Err(why.into());
            }
            posted.fail(why, io.notices);
            return Ok(false);
        }
        self.current = Current::Message { posted, len, tag, got: 0 };
        Ok(true)
    }

    /// A buffer is handed over.
    fn handed(
        &mut self,
        (tag, kind): (u64, Option<u64>),
        handed: Handed,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let buf = arrived(handed, io)?;
        if self.begin((buf.len() as u64, tag, kind), Some(buf), io)? {
            self.finish(io);
        }
        Ok(())
    }

    fn piece(&mut self, bytes: &Place, io: &mut Io<'_>) -> Result<(), Box<ViError>> {
        let more = ViError::Protocol("more bytes than were announced");
        let n = bytes.len();
        match &mut self.current {
            Current::Nothing => return Err(ViError::Protocol("bytes of nothing").into()),
            Current::Dropped { left } => {
                *left = left.checked_sub(n).ok_or(more)?;
                if *left == 0 {
                    self.current = Current::Nothing;
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
                    self.finish(io);
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
        let got = self.answered.filter(|(answered, _)| *answered == id).map_or(0, |(_, got)| got);
        let read = sender.outbox.read_mut(id)?;
        let len = read.descriptor().len();
        let end = got.checked_add(bytes.len()).filter(|end| *end <= len).ok_or(more)?;
        fetch(&self.regions, io, bytes, |n, copy| {
            read.descriptor_mut().fill(got, n, copy);
        })?;
        self.answered = Some((id, end));
        Ok(())
    }

    fn read_end(
        &mut self,
        id: u64,
        result: Result<(), AccessError>,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let got = self.answered.take().filter(|(answered, _)| *answered == id);
        let got = got.map_or(0, |(_, got)| got);
        if result.is_ok() && sender.outbox.read_mut(id)?.descriptor().len() != got {
            return Err(ViError::Protocol("fewer bytes than were asked for").into());
        }
        Ok(sender.outbox.answered(id, result, io.notices)?)
    }

    /// The whole message lies in the posted memory.
    fn finish(&mut self, io: &mut Io<'_>) {
        let current = std::mem::replace(&mut self.current, Current::Nothing);
        if let Current::Message { posted, len, tag, .. } = current {
            self.placed += 1;
            self.received += 1;
            posted.complete(len, tag, io.notices);
        }
    }

    fn write_end(
        &mut self,
        id: u64,
        notify: Option<u64>,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let Current::Write { to, len, got, result } = self.current else {
            return Err(ViError::Protocol("the end of no write").into());
        };
        self.current = Current::Nothing;
        if got != len {
            return Err(ViError::Protocol("fewer bytes than were announced").into());
        }
        sender.answer(Answer::Written { id, result })?;
        if let (Some(commons), Ok(()), 1..) = (io.commons.as_deref_mut(), result, len) {
            let control = io.control;
            commons.open(io.keys, to.key.secret(), |said, fds| tell(control, said, fds));
        }
        match notify {
            Some(tag) if result.is_ok() => {
                let posted = self.posted.pop_front().expect("there is one, or it would wait");
                self.placed += 1;
                self.received += 1;
                posted.complete(0, tag, io.notices);
            }
            Some(_) => {
                // The receive it was to consume is still there, for another message.
                self.receives += 1;
                self.placed += 1;
            }
            None => {}
        }
        Ok(())
    }

    /// Takes back a receive that no message has begun to fill.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        let at = self.posted.iter().position(|posted| posted.ticket() == ticket)?;
        self.owed += 1;
        self.posted.remove(at)
    }

    /// Everything that is not back, in the order it was posted.
    pub(super) fn drain(&mut self) -> Vec<Posted> {
        let current = std::mem::replace(&mut self.current, Current::Nothing);
        let begun = match current {
            Current::Message { posted, .. } => Some(posted),
            _ => None,
        };
        begun.into_iter().chain(self.posted.drain(..)).collect()
    }
}

/// A buffer that is handed over stays what it is if the receive is for that, and is
/// copied into the receive's memory, and so dropped, if not.
fn whole(posted: &mut Posted, tag: u64, kind: Option<&Kind>, buf: Buf) -> Result<(), ViError> {
    posted.admits(buf.len() as u64, kind)?;
    if let Err(buf) = posted.descriptor_mut().land(buf) {
        posted.descriptor_mut().make(buf.len(), tag)?;
        posted.descriptor_mut().scatter(0, buf.bytes());
    }
    Ok(())
}

/// The buffer that a slot hands over.
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
        Place::Inline { bytes, len } => {
            let mut from = &bytes[..usize::from(*len)];
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
