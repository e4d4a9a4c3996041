//! Arguments, and what a method returns, on their way out.

use egret_net::vi::Segment;
use egret_node::am::{Call, MEDIUM_MAX, Message, MessageError, RemoteEndpoint};
use egret_stream::{Wire, WireError, Writer};

use crate::rmi::CallError;
use crate::rmi::callee::accepted::AlignedBytes;
use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::head::{CallHead, WORDS_MAX};

/// Arguments that were given away, or what a method returns.
#[derive(Debug)]
pub(crate) enum CallPayload {
    Bytes(Vec<u8>),
    /// More than a medium message takes; arrays as they were given.
    Data(Vec<Segment>),
}

impl CallPayload {
    /// Writes arguments; large arrays move into it.
    pub(crate) fn give<A: Wire>(args: A) -> Result<Self, CallError> {
        if const { A::SIZE.is_fixed } {
            let mut bytes = vec![0; A::SIZE.min];
            args.write_fixed(&mut &mut bytes[..]);
            return Ok(Self::Bytes(bytes));
        }
        Self::written(args).map_err(|why| unwritten(&why))
    }

    /// Writes a value; large arrays move into it.
    pub(crate) fn written<T: Wire>(value: T) -> Result<Self, WireError> {
        let mut writer = Writer::new();
        writer.write_owned(value)?;
        Ok(match writer.len() {
            0..=MEDIUM_MAX => Self::Bytes(writer.to_vec()),
            _ => Self::Data(writer.into_descriptor().into_segments().collect()),
        })
    }

    /// Writes a copy of arguments.
    pub(crate) fn copy<A: Wire>(args: &A) -> Result<Self, CallError> {
        with_pieces(args, |pieces| {
            let bytes = pieces.concat();
            match bytes.len() {
                0..=MEDIUM_MAX => Self::Bytes(bytes),
                _ => Self::Data(vec![bytes.into()]),
            }
        })
    }

    /// How many bytes they are.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Data(pieces) => pieces.iter().map(Segment::len).sum(),
        }
    }

    /// Hands them over as a message; if that gives it back they are here again.
    pub(crate) fn send<T, E>(
        &mut self,
        message: Message<'_>,
        send: impl FnOnce(Message<'_>) -> Result<T, (E, Option<Vec<Segment>>)>,
    ) -> Result<T, E> {
        let sent = match self {
            Self::Bytes(bytes) => send(message.bytes(bytes)),
            Self::Data(pieces) => send(message.gather(std::mem::take(pieces))),
        };
        sent.map_err(|(why, back)| {
            if let (Self::Data(pieces), Some(back)) = (self, back) {
                *pieces = back;
            }
            why
        })
    }

    /// Sends them as a call, if there is room; if not they are here again.
    pub(crate) fn try_send(
        &mut self,
        head: &CallHead,
        way: &RemoteEndpoint,
    ) -> Result<Call, MessageError> {
        let mut words = [0; WORDS_MAX];
        let count = head.write(&mut words);
        self.send(head.to.message(&words[..count]), |message| {
            let sent = way.try_request(message);
            sent.map_err(|unsent| (unsent.why, Some(unsent.what.into_segments())))
        })
    }

    /// In one piece, for an object of this node.
    pub(crate) fn aligned(&self) -> AlignedBytes {
        match self {
            Self::Bytes(bytes) => AlignedBytes::copy(&[bytes]),
            Self::Data(pieces) => AlignedBytes::copy(&bytes_of(pieces)),
        }
    }

    /// In one piece, for a caller of this node.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Data(pieces) => bytes_of(&pieces).concat(),
        }
    }
}

fn bytes_of(pieces: &[Segment]) -> Vec<&[u8]> {
    pieces.iter().map(Segment::bytes).collect()
}

/// Writes arguments and lends the pieces to `body`: large arrays where they are.
#[inline]
pub(crate) fn with_pieces<A: Wire, R>(
    args: &A,
    body: impl FnOnce(&[&[u8]]) -> R,
) -> Result<R, CallError> {
    if const { A::SIZE.is_fixed && A::SIZE.min == 0 } {
        return Ok(body(&[]));
    }
    if const { A::SIZE.is_fixed && A::SIZE.min <= SHORT_MAX } {
        let mut bytes = [0; SHORT_MAX];
        let bytes = &mut bytes[..const { if A::SIZE.min <= SHORT_MAX { A::SIZE.min } else { 0 } }];
        args.write_fixed(&mut &mut *bytes);
        return Ok(body(&[bytes]));
    }
    let mut writer = Writer::new();
    writer.write(args).map_err(|why| unwritten(&why))?;
    Ok(body(&writer.gather()))
}

fn unwritten(why: &WireError) -> CallError {
    CallError::Unreadable { why: format!("the arguments: {why}"), call: UNTOLD }
}

/// Arguments of a fixed size up to this are written on the stack.
const SHORT_MAX: usize = 256;
