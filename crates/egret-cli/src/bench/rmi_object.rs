//! The object that `egret bench rmi` calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use egret::node::node::Handle;
use egret::rmi::{ObjectRef, Remoting};

use super::serialize_values::Node;
use super::side::mark;

/// What is called. What a method says of its argument is its first element and its last, if
/// they are the same.
#[egret::remote]
pub(crate) trait Callee {
    #[nonblocking]
    fn null(&self);
    /// The same, which may block.
    fn plain(&self);
    #[nonblocking]
    fn next(&self, number: i32) -> i32;
    #[nonblocking]
    fn bytes(&self, data: &[u8]) -> u32;
    #[nonblocking]
    fn ints(&self, data: &[i32]) -> u32;
    #[nonblocking]
    fn floats(&self, data: &[f64]) -> u32;
    #[nonblocking]
    fn tree(&self, tree: &Node) -> u32;
    /// A run is over.
    #[nonblocking]
    fn settle(&self);
    /// Who is called back.
    fn know(&self, caller: ObjectRef);
    /// Calls who is called back.
    fn nested(&self) -> bool;
}

/// The object, which does nothing but look.
#[derive(Debug)]
pub(crate) struct Looks {
    /// How often the caller has said that a run is over.
    pub(crate) settled: Arc<AtomicU64>,
    caller: OnceLock<CalleeStub>,
    node: Handle,
}

impl Looks {
    pub(crate) fn new(node: &Handle) -> Self {
        let (settled, caller) = (Arc::default(), OnceLock::new());
        Self { settled, caller, node: node.clone() }
    }
}

#[egret::remote]
impl Callee for Looks {
    fn null(&self) {}

    fn plain(&self) {}

    fn next(&self, number: i32) -> i32 {
        number.wrapping_add(1)
    }

    fn bytes(&self, data: &[u8]) -> u32 {
        ends(data, |&byte| byte)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "marks are bytes")]
    fn ints(&self, data: &[i32]) -> u32 {
        ends(data, |&int| int as u8)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "marks are bytes")]
    fn floats(&self, data: &[f64]) -> u32 {
        ends(data, |&float| float as u8)
    }

    fn tree(&self, tree: &Node) -> u32 {
        tree.mark()
    }

    fn settle(&self) {
        self.settled.fetch_add(1, Ordering::Relaxed);
    }

    fn know(&self, caller: ObjectRef) {
        self.caller.get_or_init(|| self.node.stub(&caller));
    }

    fn nested(&self) -> bool {
        self.caller.get().is_some_and(|caller| caller.plain().is_ok())
    }
}

/// Whether a method said of a round's argument what it has to.
pub(super) fn is_right(round: u64, said: u32) -> bool {
    said == u32::from(mark(round))
}

fn ends<T>(data: &[T], byte: fn(&T) -> u8) -> u32 {
    match (data.first().map(byte), data.last().map(byte)) {
        (Some(first), Some(last)) if first == last => first.into(),
        _ => DAMAGED,
    }
}

/// No mark.
const DAMAGED: u32 = u32::MAX;
