//! Transfers that arrive at an end piece by piece: one message or write at a time, and the answer to a
//! read. What the pieces are, and how their bytes are received, is the fabric's.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::buf::Kind;
use crate::fabric::outbox::Outbox;
use crate::fabric::receives::Receives;
use crate::vi::{
    AccessError, Keys, Notices, Posted, Reliability, RemoteKey, RemoteSlice, Ticket, ViError,
};

#[derive(Debug)]
pub(in crate::fabric) struct IncomingTransfers {
    level: Reliability,
    pub receives: Receives,
    pub current: CurrentTransfer,
    /// The read that is being answered, and how many bytes of the answer have arrived.
    answered: Option<(u64, u64)>,
    kinds: BTreeMap<u64, Kind>,
}

/// The transfer that the next piece belongs to.
#[derive(Debug)]
pub(in crate::fabric) enum CurrentTransfer {
    Nothing,
    Message {
        posted: Posted,
        len: u64,
        tag: u64,
        got: u64,
    },
    /// A message without a receive: its remaining bytes are dropped.
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

/// A write whose bytes have all arrived, or that was refused.
#[derive(Debug, Clone, Copy)]
pub(in crate::fabric) struct FinishedWrite {
    pub to: RemoteSlice,
    pub len: u64,
    pub result: Result<(), AccessError>,
}

impl IncomingTransfers {
    pub(in crate::fabric) fn new(level: Reliability) -> Self {
        Self {
            level,
            receives: Receives::default(),
            current: CurrentTransfer::Nothing,
            answered: None,
            kinds: BTreeMap::new(),
        }
    }

    /// Receives that are not back.
    #[inline]
    pub(in crate::fabric) fn outstanding(&self) -> usize {
        self.receives.len() + usize::from(matches!(self.current, CurrentTransfer::Message { .. }))
    }

    /// Whether a message that begins now must wait for a receive.
    #[inline]
    pub(in crate::fabric) fn holds_up(&self) -> bool {
        self.receives.is_empty() && self.level.is_reliable()
    }

    pub(in crate::fabric) const fn is_reliable(&self) -> bool {
        self.level.is_reliable()
    }

    /// Keeps the name of a type that the peer sends.
    pub(in crate::fabric) fn learn(&mut self, kind: Kind) {
        if self.kinds.len() < KINDS_MAX {
            self.kinds.insert(kind.fingerprint, kind);
        }
    }

    pub(in crate::fabric) fn knows(&self, fingerprint: u64) -> bool {
        self.kinds.contains_key(&fingerprint)
    }

    /// Places a whole short message in the oldest receive. `false`, and nothing is done, if another message
    /// is incomplete or the receive has no room in one piece.
    #[inline]
    pub(in crate::fabric) fn place(
        &mut self,
        (len, tag): (usize, u64),
        notices: &mut Notices,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if !matches!(self.current, CurrentTransfer::Nothing) {
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
            CurrentTransfer::Nothing => Ok(()),
            _ => Err(ViError::Protocol("a message or write inside another one").into()),
        }
    }

    /// Begins a message of so many bytes in the oldest receive, if `admit` agrees. `false` if the message is
    /// dropped, at the unreliable level: it does not fit, or there is no receive.
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
                // The receive fails with the connection, after what arrived before.
                self.receives.put_back(posted);
                return Err(why.into());
            }
            posted.fail(why, notices);
            return Ok(false);
        }
        self.current = CurrentTransfer::Message { posted, len, tag, got: 0 };
        Ok(true)
    }

    /// Completes the current message: all of it lies in the posted memory.
    pub(in crate::fabric) fn finish(&mut self, notices: &mut Notices) {
        let current = std::mem::replace(&mut self.current, CurrentTransfer::Nothing);
        if let CurrentTransfer::Message { posted, len, tag, .. } = current {
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
        self.current = CurrentTransfer::Write { to, len, got: 0, result };
        Ok(())
    }

    /// Ends the current write.
    pub(in crate::fabric) fn end_write(&mut self) -> Result<FinishedWrite, Box<ViError>> {
        let CurrentTransfer::Write { to, len, got, result } = self.current else {
            return Err(ViError::Protocol("the end of a write that has not begun").into());
        };
        self.current = CurrentTransfer::Nothing;
        if got != len {
            return Err(ViError::Protocol("fewer bytes than were announced").into());
        }
        Ok(FinishedWrite { to, len, result })
    }

    /// Completes a receive for a write with notification.
    pub(in crate::fabric) fn notify(
        &mut self,
        tag: u64,
        wrote: &FinishedWrite,
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

    /// How many bytes of the answer to this read have arrived.
    pub(in crate::fabric) fn got_of(&self, id: u64) -> u64 {
        self.answered.filter(|(answered, _)| *answered == id).map_or(0, |(_, got)| got)
    }

    pub(in crate::fabric) fn set_got(&mut self, id: u64, got: u64) {
        self.answered = Some((id, got));
    }

    /// Ends the answer to a read.
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

    /// Takes back a receive that holds no part of a message.
    pub(in crate::fabric) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        self.receives.cancel(ticket)
    }

    /// Takes all receives, in the order they were posted.
    pub(in crate::fabric) fn drain(&mut self) -> Vec<Posted> {
        let begun = match std::mem::replace(&mut self.current, CurrentTransfer::Nothing) {
            CurrentTransfer::Message { posted, .. } => Some(posted),
            _ => None,
        };
        begun.into_iter().chain(self.receives.drain()).collect()
    }
}

/// Names of types that are kept for one peer.
const KINDS_MAX: usize = 1024;
