//! The object that `egret bench rmi` calls.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use egret::node::NodeHandle;
use egret::rmi::{ObjectRef, Remoting};
use egret::rt::{self, JoinHandle};
use egret_net::sync::Mutex;

use crate::serialize::values::TreeNode;
use crate::side::mark;

/// What is called. What a method says of its argument is its first element and its last, if
/// they are the same.
#[egret::remote]
pub(crate) trait BenchObject {
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
    fn tree(&self, tree: &TreeNode) -> u32;
    /// A run is over.
    #[nonblocking]
    fn settle(&self);
    /// Gives the object that is called back.
    fn know(&self, caller: ObjectRef);
    /// Calls the object that is called back.
    fn nested(&self) -> bool;
    fn sleep(&self, time: Duration);
    fn compute(&self, time: Duration);
    /// Blocks its thread, and does not say so.
    fn block(&self, time: Duration);
    /// Has a thread call the object that is called back, again and again, until it is not to any more.
    fn cross(&self, is_on: bool) -> bool;
}

/// The object, which does nothing but look.
#[derive(Debug)]
pub(crate) struct Looks {
    /// How often the caller has said that a run is over.
    pub(crate) settled: Arc<AtomicU64>,
    caller: OnceLock<BenchObjectStub>,
    /// Whether a thread calls who is called back, and that thread.
    crosses: Arc<AtomicBool>,
    crossing: Mutex<Option<JoinHandle<bool>>>,
    node: NodeHandle,
}

impl Looks {
    pub(crate) fn new(node: &NodeHandle) -> Self {
        Self {
            settled: Arc::default(),
            caller: OnceLock::new(),
            crosses: Arc::default(),
            crossing: Mutex::default(),
            node: node.clone(),
        }
    }
}

#[egret::remote]
impl BenchObject for Looks {
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

    fn tree(&self, tree: &TreeNode) -> u32 {
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

    fn sleep(&self, time: Duration) {
        rt::sleep(time);
    }

    fn compute(&self, time: Duration) {
        compute(time);
    }

    fn block(&self, time: Duration) {
        rt::sleep(time);
    }

    fn cross(&self, is_on: bool) -> bool {
        self.crosses.store(is_on, Ordering::Relaxed);
        if !is_on {
            let thread = self.crossing.lock().take();
            return thread.is_some_and(|thread| thread.join().is_ok_and(|went| went));
        }
        let Some(caller) = self.caller.get().cloned() else { return false };
        let crosses = Arc::clone(&self.crosses);
        let calls: Box<dyn FnOnce() -> bool + Send> = Box::new(move || {
            while crosses.load(Ordering::Relaxed) {
                if caller.plain().is_err() {
                    return false;
                }
            }
            true
        });
        *self.crossing.lock() = rt::spawn("crossing", calls).ok();
        self.crossing.lock().is_some()
    }
}

/// Keeps a core busy for a while.
pub(crate) fn compute(time: Duration) {
    let until = rt::now() + time;
    while rt::now() < until {
        std::hint::spin_loop();
    }
}

/// Whether a method said of a round's argument what it has to.
pub(crate) fn is_right(round: u64, said: u32) -> bool {
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
