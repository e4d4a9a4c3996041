//! How much a node has taken on: calls that wait or run, and their bytes.
//!
//! Half of what a node takes is divided among the members of its pool: a caller always gets its
//! share of that. The other half is whose calls come first. So one caller can fill more than half
//! of a node, and no other caller is refused for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use egret_net::sync::Mutex;
use egret_node::am::LinkPeer;

/// The caller, by its link; none if the node calls itself.
pub(crate) type CallingPeer = Option<LinkPeer>;

/// The account of a node's calls.
#[derive(Debug)]
pub(crate) struct CallLoad<K: Ord = CallingPeer> {
    /// What each caller has for itself.
    share: CallAmount,
    /// What the values of one message may take of memory.
    memory: usize,
    inner: Mutex<CallLoadState<K>>,
}

#[derive(Debug)]
struct CallLoadState<K> {
    /// What callers have taken of their own shares.
    own: BTreeMap<K, CallAmount>,
    /// What all have taken of the common half.
    common: CallAmount,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CallAmount {
    pub(crate) calls: usize,
    pub(crate) bytes: u64,
}

impl<K: Ord + Copy> CallLoad<K> {
    /// Of a node in a pool of so many members.
    pub(crate) fn new(members: u32) -> Self {
        let members = members.max(1);
        let calls = COMMON.calls / usize::try_from(members).unwrap_or(usize::MAX);
        let bytes = COMMON.bytes / u64::from(members);
        Self {
            share: CallAmount { calls: calls.max(CALLS_LEAST), bytes: bytes.max(BYTES_LEAST) },
            memory: usize::MAX,
            inner: Mutex::new(CallLoadState {
                own: BTreeMap::new(),
                common: CallAmount::default(),
            }),
        }
    }

    /// Lets the values of one message take so many bytes of memory.
    pub(crate) fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = usize::try_from(bytes).unwrap_or(usize::MAX);
        self
    }

    /// What the values of one message may take of memory.
    pub(crate) const fn memory(&self) -> usize {
        self.memory
    }

    /// Takes on a call of so many bytes, unless that would be too much.
    pub(crate) fn take(self: &Arc<Self>, caller: K, bytes: u64) -> Option<CallCharge<K>> {
        let mut inner = self.inner.lock();
        let own = inner.own.get(&caller).copied().unwrap_or_default();
        let from = if own.fits(bytes, self.share) {
            inner.own.entry(caller).or_default().add(bytes);
            ChargedTo::Share(caller)
        } else {
            // One call may be as large as it likes: its object has said how large.
            let is_alone = inner.common.bytes == 0 && inner.common.calls < COMMON.calls;
            if !is_alone && !inner.common.fits(bytes, COMMON) {
                return None;
            }
            inner.common.add(bytes);
            ChargedTo::Common
        };
        Some(CallCharge { load: Arc::clone(self), from, bytes })
    }

    fn give_back(&self, from: ChargedTo<K>, bytes: u64) {
        let mut inner = self.inner.lock();
        let ChargedTo::Share(caller) = from else { return inner.common.sub(bytes) };
        let own = inner.own.entry(caller).or_default();
        own.sub(bytes);
        // Those of few callers are kept: most of them call again.
        if *own == CallAmount::default() && inner.own.len() > KEPT {
            inner.own.remove(&caller);
        }
    }
}

impl CallAmount {
    fn fits(&self, bytes: u64, most: Self) -> bool {
        self.calls < most.calls && self.bytes.saturating_add(bytes) <= most.bytes
    }

    const fn add(&mut self, bytes: u64) {
        self.calls += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    const fn sub(&mut self, bytes: u64) {
        self.calls -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// A call that was taken on; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct CallCharge<K: Ord + Copy = CallingPeer> {
    load: Arc<CallLoad<K>>,
    from: ChargedTo<K>,
    bytes: u64,
}

/// Of what a call was taken.
#[derive(Debug, Clone, Copy)]
enum ChargedTo<K> {
    /// Of a caller's share.
    Share(K),
    /// Of the common half.
    Common,
}

impl<K: Ord + Copy> Drop for CallCharge<K> {
    fn drop(&mut self) {
        self.load.give_back(self.from, self.bytes);
    }
}

/// Calls of a node that wait or run, and bytes of their arguments: half of what it takes, which
/// callers have in common. As much is divided among them.
pub(crate) const COMMON: CallAmount = CallAmount { calls: 8192, bytes: 128 << 20 };
/// What a caller has for itself, however large the pool is.
const CALLS_LEAST: usize = 4;
const BYTES_LEAST: u64 = 64 << 10;
/// Callers that have no calls now, and are remembered.
const KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u64 = COMMON.bytes;

    fn load(members: u32) -> Arc<CallLoad<u32>> {
        Arc::new(CallLoad::new(members))
    }

    #[test]
    fn a_caller_takes_its_share_and_what_is_common_and_no_more() {
        let load = load(4);
        let taken: Vec<_> = std::iter::from_fn(|| load.take(1, 0)).collect();
        assert_eq!(taken.len(), COMMON.calls + COMMON.calls / 4);
        for caller in [2, 3, 4] {
            let share: Vec<_> = std::iter::from_fn(|| load.take(caller, 0)).collect();
            assert_eq!(share.len(), COMMON.calls / 4, "a share is nobody else's");
        }
        drop(taken);
        assert!(load.take(2, HALF).is_some(), "all is given back");
    }

    #[test]
    fn a_node_takes_so_many_bytes_or_one_call_of_any_size() {
        let load = load(2);
        let huge = load.take(1, 3 * HALF).expect("it is the only one");
        let own = load.take(1, HALF / 2).expect("its share");
        assert!(load.take(1, 1).is_none(), "beside them there is no room");
        assert!(load.take(2, HALF / 2).is_some(), "for others there is");
        assert!(load.take(2, HALF).is_none());
        drop((huge, own));
        let half: Vec<_> = (0..2).map(|_| load.take(1, HALF / 4).expect("room")).collect();
        let common = load.take(1, HALF).expect("room");
        assert!(load.take(1, 1).is_none());
        assert!(load.take(1, u64::MAX).is_none(), "nor for what nobody can add up");
        drop((half, common));
        assert!(load.take(1, HALF + HALF / 2).is_some(), "all is given back");
    }

    #[test]
    fn a_pool_of_any_size_has_shares() {
        let load = load(u32::MAX);
        let taken: Vec<_> = std::iter::from_fn(|| load.take(1, 0)).collect();
        assert_eq!(taken.len(), COMMON.calls + CALLS_LEAST);
        assert!(load.take(2, BYTES_LEAST).is_some());
        drop(taken);
        (0..1000).for_each(|caller| drop(load.take(caller, 1).expect("room")));
        assert!(load.inner.lock().own.len() <= KEPT + 1, "who does not call is forgotten");
    }
}
