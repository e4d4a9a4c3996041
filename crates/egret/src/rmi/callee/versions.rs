//! Methods as other nodes have them whose types differ from those here: how their calls are read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use egret_net::sync::Mutex;

use crate::rmi::callee::load::CallingPeer;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::CallAddress;
use crate::rmi::interface_table::MethodVersion;

/// What other nodes have said of methods that are another version there, for as long as their links last. A node
/// speaks of its own calls alone, and takes no room of others.
#[derive(Debug, Default)]
pub(crate) struct VersionTable(Mutex<BTreeMap<CallingPeer, CallerVersions>>);

/// What one node has said.
#[derive(Debug, Default)]
struct CallerVersions {
    /// What its schemas take.
    bytes: usize,
    /// By interface, method, and what tells the caller's types from others.
    versions: BTreeMap<(u16, u8, u64), Arc<MethodVersion>>,
}

impl VersionTable {
    /// Keeps how a caller's calls are read, whose schema has so many bytes. Whether there was room for it.
    pub(crate) fn keep(
        &self,
        caller: CallingPeer,
        called: (u16, u8, u64),
        version: MethodVersion,
        bytes: usize,
    ) -> bool {
        let mut callers = self.0.lock();
        let known = callers.entry(caller).or_default();
        let taken = known.bytes.saturating_add(bytes).saturating_add(ENTRY_BYTES);
        match known.versions.entry(called) {
            Entry::Occupied(_) => true,
            Entry::Vacant(_) if is_too_much(taken) => false,
            Entry::Vacant(entry) => {
                entry.insert(Arc::new(version));
                known.bytes = taken;
                true
            }
        }
    }

    /// How a call is read, if its caller has said so.
    pub(crate) fn find(&self, caller: CallingPeer, to: CallAddress) -> Option<Arc<MethodVersion>> {
        let called = (to.interface, to.method, to.version);
        self.0.lock().get(&caller)?.versions.get(&called).cloned()
    }

    /// The link of a caller has ended.
    pub(crate) fn caller_gone(&self, caller: CallingPeer) {
        let gone = if planted(Fault::SchemasKept) { None } else { self.0.lock().remove(&caller) };
        drop(gone);
    }

    /// Of how many callers something is known.
    #[cfg(test)]
    pub(crate) fn callers(&self) -> usize {
        self.0.lock().len()
    }
}

/// Whether schemas take more than one node may have.
fn is_too_much(bytes: usize) -> bool {
    bytes > SCHEMAS_MAX && !planted(Fault::SchemasUnbounded)
}

/// Most bytes that the schemas of one node take.
pub(crate) const SCHEMAS_MAX: usize = 512 << 10;
/// What an entry is charged besides its schema.
const ENTRY_BYTES: usize = 256;
