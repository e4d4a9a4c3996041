//! What lasts of a registry: records, and the state that they make.
//!
//! The registry decides, writes its decisions down as records, and changes [`KeptState`] by applying them and in no
//! other way. So the same records in the same order make the same state wherever they are applied: in a registry
//! that is started again, and in another one that gets them over a network.

use std::collections::{BTreeMap, BTreeSet};

use egret_stream::{Reader, Wire};

use super::fault::{self, Fault, planted};
use super::limits::UsedKeys;
use super::names::KeptNames;
use super::state::PoolTerms;
use crate::pool::log::BoundedLog;
use crate::pool::state::PoolState;
use crate::pool::wire::{LogEntry, bytes_of};
use crate::pool::{Event, NodeId};

/// One change of what lasts.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(super) struct StateRecord {
    pub(super) change: StateChange,
    /// The question of a member that the change carries out.
    pub(super) question: Option<QuestionNumber>,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(super) enum StateChange {
    /// The next entry of the pool's log.
    Entry(LogEntry),
    /// A name is bound to some bytes.
    Bound { name: String, owner: NodeId, bytes: Vec<u8> },
    /// The owner of a name has taken the name back.
    Unbound { name: String, owner: NodeId },
}

/// A question of a member by its number: asked again, it is not carried out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(super) struct QuestionNumber {
    pub(super) node: NodeId,
    pub(super) number: u64,
    /// The member asks no question again whose number is below this.
    pub(super) floor: u64,
}

/// The state of a registry after some records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptState {
    is_open: bool,
    /// How many records have been applied.
    records: u64,
    /// The pool, as of all entries of the log.
    pub(super) pool: PoolState,
    pub(super) log: BoundedLog<LogEntry>,
    pub(super) names: KeptNames,
    /// A key is used by one life only.
    pub(super) keys: UsedKeys,
    /// The numbers of questions that were carried out, and that their members may ask again.
    done: BTreeMap<NodeId, BTreeSet<u64>>,
}

/// The state with the terms of the pool, as a snapshot has it.
#[derive(Debug, Wire)]
struct StateImage {
    pool_name: String,
    size: u32,
    is_open: bool,
    records: u64,
    pool: PoolState,
    first: u64,
    entries: Vec<LogEntry>,
    names: KeptNames,
    keys: UsedKeys,
    done: BTreeMap<NodeId, BTreeSet<u64>>,
}

impl KeptState {
    /// Before the first record of a pool.
    pub(super) fn new(terms: &PoolTerms) -> Self {
        Self {
            is_open: terms.is_open,
            records: 0,
            pool: PoolState::of_size(terms.closed_size()),
            log: BoundedLog::beginning_at(0),
            names: KeptNames::default(),
            keys: UsedKeys::default(),
            done: BTreeMap::new(),
        }
    }

    /// How many records have been applied.
    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    /// Whether this record can come next.
    pub(super) fn allows(&self, record: &StateRecord) -> bool {
        match &record.change {
            StateChange::Entry(entry) => self.pool.allows(entry),
            StateChange::Bound { owner, .. } => self.pool.member(*owner).is_some(),
            StateChange::Unbound { name, owner } => self.names.owner(name) == Some(*owner),
        }
    }

    /// Applies the record that comes next, and says what it means to a program.
    pub(super) fn apply(&mut self, record: &StateRecord, say: impl FnMut(Event)) {
        self.records += 1;
        match &record.change {
            StateChange::Entry(entry) => self.apply_entry(entry, say),
            StateChange::Bound { name, owner, bytes } => {
                self.names.bind(*owner, name.clone(), bytes.clone());
            }
            StateChange::Unbound { name, owner } => self.names.release(*owner, name),
        }
        if let Some(QuestionNumber { node, number, floor }) = record.question
            && self.pool.member(node).is_some()
        {
            let done = self.done.entry(node).or_default();
            done.insert(number);
            *done = done.split_off(&floor.min(number));
            if done.len() > DONE_MAX {
                done.pop_first();
            }
        }
    }

    fn apply_entry(&mut self, entry: &LogEntry, say: impl FnMut(Event)) {
        self.pool.apply(entry, say);
        self.log.push(entry.clone(), entry.len());
        match entry {
            LogEntry::Joined(member) => {
                if let Some(key) = member.key() {
                    self.keys.insert(key, member.id);
                }
                if !self.is_open {
                    self.names.begin_anew(member.id.rank);
                }
            }
            LogEntry::Left(node) | LogEntry::Died { node, .. } => {
                self.done.remove(node);
                if !planted(Fault::NamesKept) {
                    self.names.forget(*node);
                }
            }
            _ => {}
        }
    }

    /// Whether a question was carried out.
    pub(super) fn is_done(&self, node: NodeId, number: u64) -> bool {
        let done = self.done.get(&node).is_some_and(|done| done.contains(&number));
        done && !planted(Fault::CarriedOutTwice)
    }

    /// The state as a snapshot has it.
    pub(super) fn to_bytes(&self, terms: &PoolTerms) -> Vec<u8> {
        let first = self.log.first();
        bytes_of(&StateImage {
            pool_name: terms.pool.clone(),
            size: terms.size,
            is_open: terms.is_open,
            records: self.records,
            pool: self.pool.clone(),
            first,
            entries: self.log.from(first).map(|(entry, _)| entry.clone()).collect(),
            names: fault::saved(self.names.clone()),
            keys: self.keys.clone(),
            done: self.done.clone(),
        })
    }

    /// The state of a snapshot of a pool with these terms.
    ///
    /// # Errors
    ///
    /// How it is the state of no pool, or of another one.
    pub(super) fn from_bytes(bytes: &[u8], terms: &PoolTerms) -> Result<Self, String> {
        let image: StateImage = Reader::new(bytes)
            .read_last()
            .map_err(|why| format!("its bytes are no state of a registry: {why}"))?;
        let StateImage {
            pool_name,
            size,
            is_open,
            records,
            pool,
            first,
            entries,
            names,
            keys,
            done,
        } = image;
        if (&pool_name, size, is_open) != (&terms.pool, terms.size, terms.is_open) {
            let shown = |pool: &str, size: u32, is_open: bool| {
                format!("{} pool {pool:?} of {size} nodes", if is_open { "open" } else { "closed" })
            };
            return Err(format!(
                "it is the state of the {}, and the registry is to have the {}: another pool needs another directory",
                shown(&pool_name, size, is_open),
                shown(&terms.pool, terms.size, terms.is_open),
            ));
        }
        let mut log = BoundedLog::beginning_at(first);
        entries.into_iter().for_each(|entry| {
            let len = entry.len();
            log.push(entry, len);
        });
        if !pool.is_sound() || log.next() != pool.next() {
            return Err("no pool has such a state".to_owned());
        }
        Ok(Self { is_open, records, pool, log, names, keys, done })
    }
}

/// Numbers of questions that are kept of a member: more than it has questions under way.
const DONE_MAX: usize = 1024;
