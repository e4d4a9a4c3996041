//! What arrives at an end, piece by piece: a message or a write at a time, and the answer
//! to a read. What the pieces are, and how their bytes come, is the fabric's.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::buf::Kind;
use crate::fabric::outbox::Outbox;
use crate::fabric::receives::Receives;
use crate::vi::{
    AccessError, Keys, Notices, Posted, Reliability, RemoteKey, RemoteSlice, Ticket, ViError,
};

#[derive(Debug)]
pub(in crate::fabric) struct Incoming {
    level: Reliability,
    pub receives: Receives,
    pub current: Current,
    /// The read that is being answered, and how much of it is here.
    answered: Option<(u64, u64)>,
    kinds: BTreeMap<u64, Kind>,
}

/// What the next piece belongs to.
#[derive(Debug)]
pub(in crate::fabric) enum Current {
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

/// A write that is over.
#[derive(Debug, Clone, Copy)]
pub(in crate::fabric) struct Wrote {
    pub to: RemoteSlice,
    pub len: u64,
    pub result: Result<(), AccessError>,
}

impl Incoming {
    pub(in crate::fabric) fn new(level: Reliability) -> Self {
        Self {
            level,
            receives: Receives::default(),
            current: Current::Nothing,
            answered: None,
            kinds: BTreeMap::new(),
        }
    }

    /// Receives that are not back.
    #[inline]
    pub(in crate::fabric) fn outstanding(&self) -> usize {
        self.receives.len() + usize::from(matches!(self.current, Current::Message { .. }))
    }

    /// Whether what needs a receive must wait for one.
    #[inline]
    pub(in crate::fabric) fn holds_up(&self) -> bool {
        self.receives.is_empty() && self.level.is_reliable()
    }

    pub(in crate::fabric) const fn is_reliable(&self) -> bool {
        self.level.is_reliable()
    }

    /// The name of a type that the peer sends.
    pub(in crate::fabric) fn learn(&mut self, kind: Kind) {
        if self.kinds.len() < KINDS_MAX {
            self.kinds.insert(kind.fingerprint, kind);
        }
    }

    pub(in crate::fabric) fn knows(&self, fingerprint: u64) -> bool {
        self.kinds.contains_key(&fingerprint)
    }

    /// Places a whole message of a few bytes in the oldest receive, if that is all there is
    /// to it: no message is half there, and the receive has room in one piece.
    #[inline]
    pub(in crate::fabric) fn place(
        &mut self,
        (len, tag): (usize, u64),
        notices: &mut Notices,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if !matches!(self.current, Current::Nothing) {
            return false;
        }
        let Some(mut posted) = self.receives.next() else { return false };
        match posted.descriptor_mut().bytes_mut() {
            Some(to) if to.len() >= len => fill(&mut to[..len]),
            _ => {
                self.receives.put_back(posted);
                return false;
            }
        }
        self.receives.complete(posted, len as u64, tag, notices);
        true
    }

    pub(in crate::fabric) fn idle(&self) -> Result<(), Box<ViError>> {
        match self.current {
            Current::Nothing => Ok(()),
            _ => Err(ViError::Protocol("something inside something else").into()),
        }
    }

    /// A message of so many bytes begins, which the oldest receive is to `admit`. It is left
    /// out, which the unreliable level survives, if it does not fit or there is no receive;
    /// whether it is not.
    pub(in crate::fabric) fn begin(
        &mut self,
        (len, tag, kind): (u64, u64, Option<u64>),
        notices: &mut Notices,
        admit: impl FnOnce(&mut Posted, Option<&Kind>) -> Result<(), ViError>,
    ) -> Result<bool, Box<ViError>> {
        self.idle()?;
        let Some(mut posted) = self.receives.next() else {
            self.receives.dropped += 1;
            return Ok(false);
        };
        let kind = kind.map(|fingerprint| {
            let unnamed = || Kind { fingerprint, name: Cow::Borrowed("an unnamed type") };
            self.kinds.get(&fingerprint).cloned().unwrap_or_else(unnamed)
        });
        if let Err(why) = admit(&mut posted, kind.as_ref()) {
            if self.level.is_reliable() {
                // It fails with the connection, after what arrived before it.
                self.receives.put_back(posted);
                return Err(why.into());
            }
            posted.fail(why, notices);
            return Ok(false);
        }
        self.current = Current::Message { posted, len, tag, got: 0 };
        Ok(true)
    }

    /// The whole message lies in the posted memory.
    pub(in crate::fabric) fn finish(&mut self, notices: &mut Notices) {
        let current = std::mem::replace(&mut self.current, Current::Nothing);
        if let Current::Message { posted, len, tag, .. } = current {
            self.receives.complete(posted, len, tag, notices);
        }
    }

    pub(in crate::fabric) fn begin_write(
        &mut self,
        (secret, offset, len): (u64, u64, u64),
        keys: &Keys,
    ) -> Result<(), Box<ViError>> {
        self.idle()?;
        let to = RemoteKey::of(secret).at(offset);
        let result = keys.check(&to, len, true);
        self.current = Current::Write { to, len, got: 0, result };
        Ok(())
    }

    /// A write is over.
    pub(in crate::fabric) fn end_write(&mut self) -> Result<Wrote, Box<ViError>> {
        let Current::Write { to, len, got, result } = self.current else {
            return Err(ViError::Protocol("the end of no write").into());
        };
        self.current = Current::Nothing;
        if got != len {
            return Err(ViError::Protocol("fewer bytes than were announced").into());
        }
        Ok(Wrote { to, len, result })
    }

    /// A write that is over is to be noticed.
    pub(in crate::fabric) fn notify(
        &mut self,
        tag: u64,
        wrote: &Wrote,
        notices: &mut Notices,
    ) -> Result<(), Box<ViError>> {
        if wrote.result.is_err() {
            self.receives.keep_one();
            self.receives.placed += 1;
            return Ok(());
        }
        let none = ViError::Protocol("a message that there is no receive for");
        let posted = self.receives.next().ok_or(none)?;
        self.receives.complete(posted, 0, tag, notices);
        Ok(())
    }

    /// How much of the answer to a read is here.
    pub(in crate::fabric) fn got_of(&self, id: u64) -> u64 {
        self.answered.filter(|(answered, _)| *answered == id).map_or(0, |(_, got)| got)
    }

    pub(in crate::fabric) fn set_got(&mut self, id: u64, got: u64) {
        self.answered = Some((id, got));
    }

    /// The answer to a read is over.
    pub(in crate::fabric) fn end_read(
        &mut self,
        id: u64,
        result: Result<(), AccessError>,
        outbox: &mut Outbox,
        notices: &mut Notices,
    ) -> Result<(), Box<ViError>> {
        let got = self.got_of(id);
        self.answered = None;
        if result.is_ok() && outbox.read_mut(id)?.descriptor().len() != got {
            return Err(ViError::Protocol("fewer bytes than were asked for").into());
        }
        Ok(outbox.answered(id, result, notices)?)
    }

    /// Takes back a receive that no message has begun to fill.
    pub(in crate::fabric) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        self.receives.cancel(ticket)
    }

    /// Everything that is not back, in the order it was posted.
    pub(in crate::fabric) fn drain(&mut self) -> Vec<Posted> {
        let begun = match std::mem::replace(&mut self.current, Current::Nothing) {
            Current::Message { posted, .. } => Some(posted),
            _ => None,
        };
        begun.into_iter().chain(self.receives.drain()).collect()
    }
}

/// Names of types kept for a peer.
const KINDS_MAX: usize = 1024;
