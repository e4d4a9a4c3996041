//! A call at its object: arguments in, an answer out.

use std::fmt;

use egret_node::am::Message;
use egret_stream::{FromWire, MEMORY_BYTES, MEMORY_FACTOR, ReadPlan, Reader, Wire, WireError};

use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::{AnswerCode, WORDS_MAX};
use crate::rmi::interface_table::MethodVersion;
use crate::rmi::payload::CallPayload;
use crate::rmi::{CallError, Limit};

/// A call that is being served, for the code that the macro writes.
#[doc(hidden)]
pub struct IncomingCall<'a> {
    bytes: &'a [u8],
    /// What the arguments may take of memory.
    memory: usize,
    /// How they are read, if the caller has other types.
    version: Option<&'a MethodVersion>,
    pub(crate) answer: CallAnswer,
}

impl<'a> IncomingCall<'a> {
    pub(crate) const fn new(
        bytes: &'a [u8],
        memory: usize,
        version: Option<&'a MethodVersion>,
    ) -> Self {
        Self { bytes, memory, version, answer: CallAnswer::EMPTY }
    }

    /// The arguments, of which some may lie where they arrived.
    ///
    /// # Errors
    ///
    /// If the bytes are no such arguments.
    #[inline]
    pub fn args<A: FromWire<'a>>(&mut self) -> Result<A, WireError> {
        if let Some(version) = self.version {
            return read_planned(self.bytes, self.memory, &version.args);
        }
        if is_within(self.bytes, self.memory) {
            return Reader::new(self.bytes).read_last();
        }
        Reader::new(self.bytes).with_memory(self.memory).read_last()
    }

    /// Answers with a value.
    #[inline]
    pub fn value<T: Wire>(&mut self, value: T) {
        self.answer = match self.is_answer_planned() {
            true => CallAnswer::whole(value),
            false => CallAnswer::value(value),
        };
    }

    /// Answers with a value, or with the method's own error.
    pub fn outcome<T: Wire, E: Wire>(&mut self, outcome: Result<T, E>) {
        self.answer = match outcome {
            outcome if self.is_answer_planned() => CallAnswer::whole(outcome),
            Ok(value) => CallAnswer::value(value),
            Err(error) => CallAnswer::failed(error),
        };
    }

    /// Whether the caller reads the answer as another version of what the method returns.
    #[inline]
    fn is_answer_planned(&self) -> bool {
        self.version
            .is_some_and(|version| version.is_answer_planned && !planted(Fault::AnswerUnmarked))
    }
}

impl fmt::Debug for IncomingCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// What goes back to a caller.
pub(crate) struct CallAnswer {
    words: [u64; ANSWER_WORDS],
    count: usize,
    payload: Option<CallPayload>,
}

impl CallAnswer {
    /// Of a method that returns nothing.
    const EMPTY: Self = Self { words: [0; ANSWER_WORDS], count: 0, payload: None };

    #[inline]
    fn value<T: Wire>(value: T) -> Self {
        if const { T::SIZE.is_fixed && T::SIZE.min <= SHORT_BYTES } {
            return Self::short(&value);
        }
        match CallPayload::written(value) {
            Ok(payload) => Self { payload: Some(payload), ..Self::EMPTY },
            Err(why) => Self::text(AnswerCode::Unreadable, &why.to_string()),
        }
    }

    /// A value that fits the words.
    #[inline]
    fn short<T: Wire>(value: &T) -> Self {
        let mut answer = Self::EMPTY;
        if const { T::SIZE.min > 0 } {
            let mut bytes = [0; SHORT_BYTES];
            value.write_fixed(&mut &mut bytes[..const { T::SIZE.min }]);
            let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            answer.words[1..].iter_mut().zip(words).for_each(|(to, word)| *to = word);
            answer.count = const { 1 + T::SIZE.min.div_ceil(8) };
        }
        answer
    }

    fn failed<E: Wire>(error: E) -> Self {
        match CallPayload::written(error) {
            Ok(payload) => Self { payload: Some(payload), ..Self::code(AnswerCode::Failed) },
            Err(why) => Self::text(AnswerCode::Unreadable, &why.to_string()),
        }
    }

    /// All that a method returns, for a caller that has another version of the type.
    #[cold]
    fn whole<T: Wire>(returned: T) -> Self {
        match CallPayload::written(returned) {
            Ok(payload) => Self { payload: Some(payload), ..Self::code(AnswerCode::OtherVersion) },
            Err(why) => Self::text(AnswerCode::Unreadable, &why.to_string()),
        }
    }

    pub(crate) fn code(code: AnswerCode) -> Self {
        let mut answer = Self { count: 1, ..Self::EMPTY };
        answer.words[0] = code as u64;
        answer
    }

    pub(crate) fn text(code: AnswerCode, text: &str) -> Self {
        let end = (0..=text.len().min(TEXT_MAX)).rev().find(|end| text.is_char_boundary(*end));
        let bytes = text.as_bytes()[..end.unwrap_or(0)].to_vec();
        Self { payload: Some(CallPayload::Bytes(bytes)), ..Self::code(code) }
    }

    /// That the object has no method of this number.
    pub(crate) fn unknown_method(method: u8) -> Self {
        let mut answer = Self { count: 2, ..Self::code(AnswerCode::UnknownMethod) };
        answer.words[1] = method.into();
        answer
    }

    pub(crate) fn too_large(bytes: u64, most: u64) -> Self {
        let mut answer = Self { count: 3, ..Self::code(AnswerCode::TooLarge) };
        (answer.words[1], answer.words[2]) = (bytes, most);
        answer
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }

    /// Whether it has words alone.
    pub(crate) const fn is_short(&self) -> bool {
        self.payload.is_none()
    }

    /// Hands it over as a message.
    pub(crate) fn send(self, send: impl FnOnce(Message<'_>)) {
        let message = Message::to(NO_HANDLER).words(&self.words[..self.count]);
        match self.payload {
            None => send(message),
            Some(CallPayload::Bytes(bytes)) => send(message.bytes(&bytes)),
            Some(CallPayload::Data(pieces)) => send(message.gather(pieces)),
        }
    }

    /// Its payload in one piece.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.payload.map(CallPayload::into_bytes).unwrap_or_default()
    }
}

/// Reads an answer.
///
/// # Errors
///
/// What it says; or that it says nothing.
#[inline]
pub(crate) fn open<T: for<'a> FromWire<'a>>(
    words: &[u64],
    bytes: &[u8],
    memory: usize,
) -> Result<T, AnswerError> {
    let read = match words {
        [] => read_within(bytes, memory),
        [0, short @ ..] => open_short(short),
        _ => return Err(refused(words, bytes)),
    };
    read.map_err(|why| AnswerError::Error(unreadable(&why, memory)))
}

/// Reads the only value of an answer, within so many bytes of memory.
#[inline]
pub(crate) fn read_within<T: for<'a> FromWire<'a>>(
    bytes: &[u8],
    memory: usize,
) -> Result<T, WireError> {
    if is_within(bytes, memory) {
        return egret_stream::read(bytes);
    }
    Reader::new(bytes).with_memory(memory).read_last()
}

/// Reads the only value by a plan, within so many bytes of memory.
#[cold]
pub(crate) fn read_planned<'a, T: FromWire<'a>>(
    bytes: &'a [u8],
    memory: usize,
    plan: &ReadPlan,
) -> Result<T, WireError> {
    let mut reader = Reader::new(bytes);
    if !is_within(bytes, memory) {
        reader = reader.with_memory(memory);
    }
    let value = reader.read_planned(plan)?;
    match reader.left() {
        0 => Ok(value),
        left => Err(WireError::Rest(left)),
    }
}

/// Whether what a reader may take for these bytes is within so many bytes of memory.
#[inline]
const fn is_within(bytes: &[u8], memory: usize) -> bool {
    bytes.len().saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_BYTES) <= memory
}

fn open_short<T: for<'a> FromWire<'a>>(words: &[u64]) -> Result<T, WireError> {
    let mut bytes = [0; SHORT_MAX];
    let chunks = bytes.as_chunks_mut().0.iter_mut();
    chunks.zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    egret_stream::read(bytes.get(..T::SIZE.min).unwrap_or_default())
}

/// What an answer without a value says.
#[derive(Debug)]
pub(crate) enum AnswerError {
    /// The method's own error is in the payload.
    Failed,
    /// The deadline passed before it ran.
    Expired,
    /// The object has this interface, and not that of the stub.
    OtherInterface(String),
    /// What the method returns is in the payload, as the type is at the object.
    OtherVersion,
    Error(CallError),
}

#[cold]
fn refused(words: &[u64], bytes: &[u8]) -> AnswerError {
    let text = || String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned();
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    AnswerError::Error(match AnswerCode::of(word(0)) {
        Some(AnswerCode::Failed) => return AnswerError::Failed,
        Some(AnswerCode::Expired) => return AnswerError::Expired,
        Some(AnswerCode::Panicked) => CallError::Panicked { message: text(), call: UNTOLD },
        Some(AnswerCode::Busy) => CallError::Busy { call: UNTOLD },
        Some(AnswerCode::Cancelled) => CallError::Cancelled { call: UNTOLD },
        Some(AnswerCode::Reentered) => CallError::Reentered { call: UNTOLD },
        Some(AnswerCode::TooLarge) => CallError::TooLarge {
            bytes: word(1),
            most: word(2),
            limit: Limit::Object,
            call: UNTOLD,
        },
        Some(AnswerCode::Unreadable) => CallError::Unreadable { why: text(), call: UNTOLD },
        Some(AnswerCode::UnknownObject) => CallError::UnknownObject { call: UNTOLD },
        Some(AnswerCode::OtherVersion) => return AnswerError::OtherVersion,
        Some(AnswerCode::OtherInterface) => return AnswerError::OtherInterface(text()),
        Some(AnswerCode::UnknownMethod) => {
            CallError::UnknownMethod { name: format!("number {}", word(1)), call: UNTOLD }
        }
        Some(AnswerCode::Unsuitable) => CallError::Unsuitable { why: text(), call: UNTOLD },
        None => {
            CallError::Unreadable { why: format!("an answer that says {}", word(0)), call: UNTOLD }
        }
    })
}

pub(crate) fn unreadable(why: &WireError, memory: usize) -> CallError {
    let why = format!("the answer: {}", explain(why, memory, "this node"));
    CallError::Unreadable { why, call: UNTOLD }
}

/// Why a message could not be read, and what a program that makes remote calls can set.
#[cold]
pub(crate) fn explain(why: &WireError, memory: usize, node: &str) -> String {
    let WireError::Memory { name, needed, left, budget } = why else { return why.to_string() };
    let raise = if *budget >= memory {
        format!("`Config::budget` of {node} raises that")
    } else {
        format!(
            "that is {MEMORY_BYTES} and {MEMORY_FACTOR} for each byte of the message; several \
             calls can take more, or bytes (`&[u8]`) that a `Reader` of the program's reads"
        )
    };
    format!(
        "too large in memory: {name} needs {needed} bytes, and {left} are left of the {budget} \
         that one message may take: {raise}"
    )
}

/// Words of an answer: all that most have to say, and little to move.
const ANSWER_WORDS: usize = 4;
/// Most bytes of a value that goes in them.
const SHORT_BYTES: usize = 8 * (ANSWER_WORDS - 1);
/// Most bytes of a value that comes in words.
const SHORT_MAX: usize = 8 * (WORDS_MAX - 1);
/// Most bytes of a text.
const TEXT_MAX: usize = 1024;
/// An answer runs no handler.
const NO_HANDLER: u8 = u8::MAX;
