//! Handlers with types: a Rust function whose arguments and answer are checked when its
//! endpoint is mapped.

use std::fmt;
use std::marker::PhantomData;

use egret_net::buf::Plain;
use egret_net::rt::Deadline;

use super::endpoint::NAME_MAX;
use super::{Endpoint, Message, MessageError, RemoteEndpoint, Request};
use crate::frame::FrameHead;
use crate::link::control::{HandlerTypes, TypeName};

/// The name and types of a handler, known to both sides.
///
/// ```
/// use egret_node::am::Signature;
///
/// const ADD: Signature<[f64; 2], f64> = Signature::new("add");
/// ```
#[derive(Debug)]
pub struct Signature<A, R> {
    name: &'static str,
    types: PhantomData<fn(A) -> R>,
}

/// The name and the types of a handler that a mapping needs; made by [`Signature::needed`], which has
/// an example, or by a layer above with fingerprints of its own.
#[derive(Debug, Clone)]
pub struct HandlerType {
    pub(super) need: HandlerTypes,
}

impl HandlerType {
    /// A handler of this name; what it takes and what it answers, each by a fingerprint and
    /// as it is to be shown if the other side has another.
    ///
    /// # Panics
    ///
    /// If the name is longer than 255 bytes.
    #[must_use]
    pub fn new(name: &str, takes: (u64, &str), answers: (u64, &str)) -> Self {
        assert!(name.len() <= NAME_MAX, "a handler whose name is too long");
        let named = |(fingerprint, name): (u64, &str)| TypeName { fingerprint, name: cut(name) };
        Self {
            need: HandlerTypes {
                name: name.to_owned(),
                takes: named(takes),
                answers: named(answers),
            },
        }
    }

    /// The handler's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.need.name
    }
}

impl<A: Plain, R: Plain> Signature<A, R> {
    /// A handler of this name, whose arguments are an `A` and whose answer is an `R`; both
    /// fit the words of a short message.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        const { assert!(size_of::<A>() <= 8 * FrameHead::WORDS_MAX, "arguments of more than 16 words") };
        const { assert!(size_of::<R>() <= 8 * FrameHead::WORDS_MAX, "an answer of more than 16 words") };
        Self { name, types: PhantomData }
    }

    /// For [`Endpoint::wait_map_with`].
    #[must_use]
    pub fn needed(&self) -> HandlerType {
        let (takes, answers) = (A::kind(), R::kind());
        let takes = (takes.fingerprint, takes.name.as_ref());
        HandlerType::new(self.name, takes, (answers.fingerprint, answers.name.as_ref()))
    }
}

impl Endpoint {
    /// Runs `function` for each request with this signature.
    ///
    /// # Panics
    ///
    /// If the endpoint has 255 handlers already.
    pub fn serve<A: Plain, R: Plain>(
        &self,
        signature: &Signature<A, R>,
        mut function: impl FnMut(A) -> R + Send + 'static,
    ) {
        self.on_typed(&signature.needed(), move |request| {
            // A message of another length is no request of this type: it has no answer.
            if let Some(argument) = unpack::<A>(request.words()) {
                let mut words = [0; FrameHead::WORDS_MAX];
                let count = pack(&function(argument), &mut words);
                request.reply(&words[..count]);
            }
        });
    }

    /// Runs `handler` for each message to the handler of this name; returns the handler's number. What
    /// the message contains is up to the layer that made the fingerprints.
    ///
    /// # Panics
    ///
    /// If the endpoint has 255 handlers already.
    pub fn on_typed(
        &self,
        needed: &HandlerType,
        handler: impl FnMut(Request<'_>) + Send + 'static,
    ) -> u8 {
        let number = self.add_typed(needed.need.clone(), handler);
        number.expect("an endpoint has at most 255 handlers")
    }
}

impl RemoteEndpoint {
    /// Asks the handler with this signature, which the mapping [needs](Endpoint::wait_map_with),
    /// and waits for its answer.
    ///
    /// # Errors
    ///
    /// As [`wait_call`](Self::wait_call).
    ///
    /// # Panics
    ///
    /// If the endpoint was mapped without it.
    #[track_caller]
    pub fn wait_ask<A: Plain, R: Plain>(
        &self,
        signature: &Signature<A, R>,
        argument: A,
        deadline: impl Into<Deadline>,
    ) -> Result<R, MessageError> {
        let _waits = self.core.waits("answer", Some(self.link));
        let handler = self.handler(signature.name);
        let handler = handler.expect("the endpoint was mapped with this signature");
        let mut words = [0; FrameHead::WORDS_MAX];
        let count = pack(&argument, &mut words);
        let reply = self.wait_call(Message::to(handler).words(&words[..count]), deadline)?;
        let other = MessageError::OtherType { have: reply.words().len() * 8, want: size_of::<R>() };
        unpack(reply.words()).ok_or(other)
    }
}

/// The name of a type, or as much of it as is worth showing.
fn cut(name: &str) -> String {
    let mut end = name.len().min(TYPE_NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

/// Writes a value into words, and says how many.
fn pack<T: Plain>(value: &T, words: &mut [u64; FrameHead::WORDS_MAX]) -> usize {
    let bytes = bytemuck::bytes_of(value);
    bytemuck::cast_slice_mut(words)[..bytes.len()].copy_from_slice(bytes);
    bytes.len().div_ceil(8)
}

fn unpack<T: Plain>(words: &[u64]) -> Option<T> {
    if words.len() != size_of::<T>().div_ceil(8) {
        return None;
    }
    Some(bytemuck::pod_read_unaligned(&bytemuck::cast_slice(words)[..size_of::<T>()]))
}

impl fmt::Display for HandlerTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { takes, answers, .. } = self;
        write!(f, "{} ({:016x})", takes.name, takes.fingerprint)?;
        write!(f, " -> {} ({:016x})", answers.name, answers.fingerprint)
    }
}

const TYPE_NAME_MAX: usize = 500;
