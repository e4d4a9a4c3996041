//! Handlers with types: a Rust function whose arguments and answer are checked when its
//! endpoint is mapped.

use std::fmt;
use std::marker::PhantomData;

use egret_net::buf::{Kind, Plain};
use egret_net::rt::Deadline;

use super::{CallError, Endpoint, Message, Remote};
use crate::link::Head;
use crate::link::control::{Need, TypeName};

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

/// A handler with types that a mapping needs; made by [`Signature::needed`].
#[derive(Debug, Clone)]
pub struct Needed {
    pub(super) need: Need,
}

impl<A: Plain, R: Plain> Signature<A, R> {
    /// A handler of this name, whose arguments are an `A` and whose answer is an `R`; both
    /// fit the words of a short message.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        const { assert!(size_of::<A>() <= 8 * Head::WORDS_MAX, "arguments of more than 16 words") };
        const { assert!(size_of::<R>() <= 8 * Head::WORDS_MAX, "an answer of more than 16 words") };
        Self { name, types: PhantomData }
    }

    /// For [`Endpoint::wait_map_with`].
    #[must_use]
    pub fn needed(&self) -> Needed {
        Needed { need: self.need() }
    }

    fn need(&self) -> Need {
        let name = |kind: Kind| TypeName { fingerprint: kind.fingerprint, name: kind.name.into() };
        Need { name: self.name.to_owned(), takes: name(A::kind()), answers: name(R::kind()) }
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
        let number = self.add_typed(signature.need(), move |request| {
            // A message of another length is no request of this type: it has no answer.
            if let Some(argument) = unpack::<A>(request.words()) {
                let mut words = [0; Head::WORDS_MAX];
                let count = pack(&function(argument), &mut words);
                request.reply(&words[..count]);
            }
        });
        assert!(number.is_some(), "an endpoint has at most 255 handlers");
    }
}

impl Remote {
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
    pub fn wait_ask<A: Plain, R: Plain>(
        &self,
        signature: &Signature<A, R>,
        argument: A,
        deadline: Deadline,
    ) -> Result<R, CallError> {
        let handler = self.handlers.iter().find(|(name, _)| name == signature.name);
        let (_, handler) = handler.expect("the endpoint was mapped with this signature");
        let mut words = [0; Head::WORDS_MAX];
        let count = pack(&argument, &mut words);
        let reply = self.wait_call(Message::to(*handler).words(&words[..count]), deadline)?;
        let other = CallError::OtherType { have: reply.words().len() * 8, want: size_of::<R>() };
        unpack(reply.words()).ok_or(other)
    }
}

/// Writes a value into words, and says how many.
fn pack<T: Plain>(value: &T, words: &mut [u64; Head::WORDS_MAX]) -> usize {
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

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { takes, answers, .. } = self;
        write!(f, "{} ({:016x})", takes.name, takes.fingerprint)?;
        write!(f, " -> {} ({:016x})", answers.name, answers.fingerprint)
    }
}
