//! One handle in a random history, and what the model knows about it.

use crate::buf::{Buf, Held, Shared, Typed};

/// A handle, and what the model knows about it.
pub(super) struct Entry {
    pub(super) handle: Handle,
    pub(super) bytes: Vec<u8>,
    /// Where its slot starts, for a slot that starts with it.
    pub(super) slot: usize,
}

pub(super) enum Handle {
    Buf(Buf),
    Words(Typed<u32>),
    Shared { data: Shared<u8>, group: usize, callback: bool },
    Held(Held<u8>),
}

/// What happens to a handle.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Take { len: usize },
    Drop,
    Write { mark: u8 },
    Resize { len: usize, mark: u8 },
    Split { at: usize },
    Join { other: usize },
    Retype,
    Share { callback: bool },
    Clone,
    Unique,
    Hold,
    Evacuate,
}

impl Entry {
    /// Start and end in the region, and whose clone it is.
    pub(super) fn place(&self) -> Option<(usize, usize, Option<usize>)> {
        let (start, len) = match &self.handle {
            Handle::Buf(buf) => (buf.offset_in_region(), buf.capacity()),
            Handle::Words(words) => (words.offset_in_region(), words.len() * 4),
            Handle::Shared { data, .. } => (data.offset_in_region(), data.len()),
            Handle::Held(_) => return None,
        };
        (len > 0).then_some((start, start + len, self.group()))
    }

    pub(super) fn group(&self) -> Option<usize> {
        match self.handle {
            Handle::Shared { group, .. } => Some(group),
            _ => None,
        }
    }

    pub(super) fn split(self, at: usize) -> Vec<Self> {
        let Self { handle, mut bytes, slot } = self;
        let (head, rest, at) = match handle {
            Handle::Buf(buf) => {
                let at = at % (buf.len() + 1);
                let (head, rest) = buf.split_at(at);
                (Handle::Buf(head), rest, at)
            }
            Handle::Words(words) => {
                let at = at % (words.len() + 1);
                let (head, rest) = words.split_at(at);
                (Handle::Words(head), rest, at * 4)
            }
            handle => return vec![Self { handle, bytes, slot }],
        };
        let tail = bytes.split_off(at);
        let rest = Self { handle: Handle::Buf(rest), bytes: tail, slot };
        vec![Self { handle: head, bytes, slot }, rest]
    }

    pub(super) fn duplicate(self) -> Vec<Self> {
        let Handle::Shared { data, group, callback } = &self.handle else { return vec![self] };
        let (data, group, callback) = (data.clone(), *group, *callback);
        let handle = Handle::Shared { data, group, callback };
        let clone = Self { handle, bytes: self.bytes.clone(), slot: self.slot };
        vec![self, clone]
    }

    pub(super) fn change(mut self, step: Step) -> Self {
        self.handle = match (step, self.handle) {
            (Step::Write { mark }, Handle::Buf(mut buf)) => {
                buf.bytes_mut().fill(mark);
                self.bytes.fill(mark);
                Handle::Buf(buf)
            }
            (Step::Write { mark }, Handle::Words(mut words)) => {
                words.fill(u32::from_ne_bytes([mark; 4]));
                self.bytes.fill(mark);
                Handle::Words(words)
            }
            (Step::Resize { len, mark }, Handle::Buf(mut buf)) => {
                buf.resize(len % (buf.capacity() + 1));
                buf.bytes_mut().fill(mark);
                self.bytes = vec![mark; buf.len()];
                Handle::Buf(buf)
            }
            (Step::Retype, Handle::Buf(buf)) => match buf.typed() {
                Ok(words) => Handle::Words(words),
                Err(error) => Handle::Buf(error.what),
            },
            (Step::Retype, Handle::Words(words)) => Handle::Buf(words.into()),
            (Step::Hold, Handle::Buf(buf)) => Handle::Held(buf.hold()),
            (Step::Evacuate, Handle::Held(mut held)) => {
                held.evacuate();
                Handle::Held(held)
            }
            (_, handle) => handle,
        };
        self
    }
}

impl Handle {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Buf(buf) => buf.bytes(),
            Self::Words(words) => bytemuck::cast_slice(words),
            Self::Shared { data, .. } => data,
            Self::Held(held) => held,
        }
    }

    pub(super) fn is_resident(&self) -> bool {
        !matches!(self, Self::Held(held) if !held.is_resident())
    }
}
