//! Limits of what the registry keeps for its nodes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use egret_net::rt::Instant;
use egret_net::vi::PublicKey;
use egret_stream::Wire;

use super::fault::{Fault, planted};

use crate::pool::log::BoundedLog;
use crate::pool::wire::{JoinRequest, LogEntry};
use crate::pool::{FabricOffer, Location, NodeId, RegistryRefusal};

/// Bytes that a name is bound to, and of a signal: a request with them is one message.
pub(crate) const BOUND_MAX: usize = 3 << 10;
/// Names that a node has bound.
pub(super) const NAMES_MAX: usize = 4096;
/// Bytes that the names of a node may take in any case.
pub(super) const NAME_BYTES_LEAST: usize = 16 << 10;
/// Bytes that all names may take before each node has only those.
pub(super) const NAME_BYTES_MAX: usize = 64 << 20;
/// What a name takes besides its text and its bytes.
pub(super) const NAME_COST: usize = 64;
/// Names of which it is known which node has had them.
pub(super) const FORMER_NAMES_MAX: usize = 64 << 10;
/// Names that a node waits for.
pub(super) const WAITS_MAX: usize = 1024;
/// Views that a node is in.
pub(super) const VIEWS_MAX: usize = 1024;
/// Bytes of a node's description of itself.
const MEMBER_MAX: usize = 16 << 10;
/// Bytes of a node's description of itself, however much the other members have said.
const MEMBER_LEAST: usize = 1 << 10;
/// Bytes of the descriptions of all members, besides those.
const MEMBERS_MAX: usize = 64 << 20;
/// Bytes of a reason, at least and at most; and a share of this.
const TEXT_MIN: usize = 256;
const TEXT_MAX: usize = 1 << 10;
const TEXTS_MAX: usize = 4 << 20;
/// Bytes of entries in one answer, unless one entry is larger.
const BATCH: usize = 32 << 10;
/// Bytes of a piece of the state of a pool.
pub(super) const PIECE: usize = 32 << 10;
/// Bytes of entries about views and signals that a member may write at once, in a millisecond in the long run,
/// and what each costs besides its text.
const CHANGES_MAX: usize = 256 << 10;
const CHANGES_PER_MS: usize = 64;
const CHANGE_COST: usize = 64;
/// Keys of which it is known which node has used them.
const KEYS_MAX: usize = 128 << 10;

/// How much a member may change in the pool: its views and signals are sent to all members.
#[derive(Debug)]
pub(super) struct ChangeAllowance {
    /// Bytes of entries that it may write now.
    left: usize,
    since: Instant,
}

impl ChangeAllowance {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: CHANGES_MAX, since: now }
    }

    /// Takes what an entry with so many bytes of text costs.
    pub(super) fn take(&mut self, now: Instant, bytes: usize) -> Result<(), RegistryRefusal> {
        let passed = usize::try_from((now - self.since).as_millis()).unwrap_or(usize::MAX);
        self.left =
            passed.saturating_mul(CHANGES_PER_MS).saturating_add(self.left).min(CHANGES_MAX);
        self.since = now;
        match self.left.checked_sub(bytes + CHANGE_COST).filter(|_| !planted(Fault::Unthrottled)) {
            Some(left) => self.left = left,
            None if planted(Fault::Unthrottled) => {}
            None => {
                let what = "the node changes views and sends signals so fast that it has used its 256 KiB, \
                            and each second it gets 64 KiB more";
                let most = CHANGES_MAX as u64;
                return Err(RegistryRefusal::TooLarge { what: what.to_owned(), most });
            }
        }
        Ok(())
    }
}

/// The nodes that have used the latest [`KEYS_MAX`] keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Wire)]
pub(super) struct UsedKeys {
    by: BTreeMap<[u8; 32], NodeId>,
    in_order: VecDeque<[u8; 32]>,
}

impl UsedKeys {
    pub(super) fn insert(&mut self, key: PublicKey, by: NodeId) {
        let key = key.to_bytes();
        if self.by.insert(key, by).is_none() {
            self.in_order.push_back(key);
        }
        if self.by.len() > KEYS_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.by.remove(&oldest);
        }
    }

    /// The node that has used a key.
    pub(super) fn user(&self, key: &PublicKey) -> Option<NodeId> {
        self.by.get(&key.to_bytes()).copied()
    }
}

/// Checks that a node's description of itself is not too long beside those of all members, of so many bytes.
pub(super) fn check_description(join: &JoinRequest, all: usize) -> Result<(), RegistryRefusal> {
    let says = description(&join.machine, &join.location, &join.fabrics);
    let left = MEMBERS_MAX.saturating_sub(all);
    let most = left.clamp(MEMBER_LEAST, MEMBER_MAX);
    if says > most {
        let what = format!("the node says {says} bytes of itself, beside members that say {all}");
        return Err(RegistryRefusal::TooLarge { what, most: most as u64 });
    }
    Ok(())
}

/// Bytes of a node's description of itself.
pub(super) fn description(machine: &str, location: &Location, fabrics: &[FabricOffer]) -> usize {
    let texts = fabrics.iter().map(|offer| {
        let more = offer.properties.more.iter().map(|(key, value)| key.len() + value.len() + 16);
        offer.fabric.len() + offer.host.len() + more.sum::<usize>() + 64
    });
    machine.len() + location.len() + texts.sum::<usize>()
}

/// The entries of these numbers that one answer to this node has, and whether other nodes are sent the same.
pub(super) fn batch(
    log: &BoundedLog<LogEntry>,
    numbers: Range<u64>,
    node: NodeId,
) -> (Vec<LogEntry>, bool) {
    let mut room = BATCH;
    let fits = |(_, bytes): &(LogEntry, usize)| {
        let fits = room == BATCH || *bytes <= room;
        room = room.saturating_sub((*bytes).max(1));
        fits
    };
    let mut is_same = true;
    let count = usize::try_from(numbers.end.saturating_sub(numbers.start)).unwrap_or(usize::MAX);
    let sent = log.from(numbers.start).take(count).map(|(entry, bytes)| {
        let is_signal = matches!(entry, LogEntry::Signal { .. });
        is_same &= !is_signal;
        let sent = entry.sent_to(node);
        let bytes = if is_signal { sent.len() } else { bytes };
        (sent, bytes)
    });
    let entries = sent.take_while(fits).map(|(entry, _)| entry).collect();
    (entries, is_same)
}

/// The reason of an end, cut to the length that a pool of this size allows.
pub(super) fn cut_reason(text: &str, size: u32) -> String {
    cut_text(text, (TEXTS_MAX / size.max(1) as usize).clamp(TEXT_MIN, TEXT_MAX))
}

/// A text for the program's log: cut, and on one line.
pub(super) fn log_text(text: &str) -> String {
    cut_text(text, TEXT_MIN).replace(char::is_control, " ")
}

fn cut_text(text: &str, most: usize) -> String {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
