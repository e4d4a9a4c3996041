//! Records that are not on disk yet, and what waits for them.

use std::collections::{BTreeMap, VecDeque};

use super::fault::{Fault, planted};
use super::record::{StateChange, StateRecord};
use crate::pool::Event;

/// Which records are on disk, and which are to be written. If the state does not last, each record counts as written
/// at once.
#[derive(Debug)]
pub(super) struct UnwrittenRecords {
    lasts: bool,
    /// The records below this number are on disk.
    written: u64,
    /// The entries of the pool's log below this number are on disk.
    lasting: u64,
    /// Of each record that is not on disk: the number behind the record, and the number of the log's next entry then.
    behind: VecDeque<(u64, u64)>,
    /// The records that are to be written.
    records: Vec<StateRecord>,
    /// The number behind the last record of each name, of those that are not on disk.
    names: BTreeMap<String, u64>,
    /// What entries mean that are not on disk.
    events: VecDeque<(u64, Event)>,
    /// Why records cannot be written just now.
    failure: Option<String>,
    is_of_another_run: bool,
}

impl UnwrittenRecords {
    pub(super) const fn new(lasts: bool) -> Self {
        Self {
            lasts,
            written: 0,
            lasting: 0,
            behind: VecDeque::new(),
            records: Vec::new(),
            names: BTreeMap::new(),
            events: VecDeque::new(),
            failure: None,
            is_of_another_run: false,
        }
    }

    /// So many records, and entries of the log, are on disk from the beginning.
    pub(super) const fn begin_at(&mut self, records: u64, entries: u64) {
        (self.written, self.lasting, self.is_of_another_run) = (records, entries, records > 0);
    }

    /// Whether records were written before this registry was started.
    pub(super) const fn is_of_another_run(&self) -> bool {
        self.is_of_another_run
    }

    /// Adds a record, with the numbers of records and of entries behind it, and what it means.
    pub(super) fn push(
        &mut self,
        record: StateRecord,
        (records, entries): (u64, u64),
        events: VecDeque<(u64, Event)>,
    ) {
        self.events.extend(events);
        if !self.lasts {
            return self.lasting = entries;
        }
        if let StateChange::Bound { name, .. } | StateChange::Unbound { name, .. } = &record.change
        {
            self.names.insert(name.clone(), records);
        }
        self.behind.push_back((records, entries));
        self.records.push(record);
    }

    /// Whether there are records to be written.
    pub(super) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Takes the records that are to be written.
    pub(super) fn take(&mut self) -> Vec<StateRecord> {
        std::mem::take(&mut self.records)
    }

    /// The records below this number are on disk.
    pub(super) fn written(&mut self, records: u64) {
        (self.written, self.failure) = (self.written.max(records), None);
        let count = self.behind.partition_point(|(behind, _)| *behind <= records);
        self.lasting =
            self.behind.drain(..count).next_back().map_or(self.lasting, |(_, entries)| entries);
        self.names.retain(|_, behind| *behind > records);
    }

    /// Records cannot be written.
    pub(super) fn fail(&mut self, why: &str) {
        self.failure = Some(why.to_owned());
    }

    /// Why records cannot be written just now, if that is so.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether the records below this number are on disk.
    pub(super) fn has_written(&self, records: u64) -> bool {
        !self.lasts || records <= self.written || planted(Fault::AnsweredEarly)
    }

    /// The number of the log's first entry that is not on disk; `next` comes behind all.
    pub(super) fn lasting(&self, next: u64) -> u64 {
        if !self.lasts || planted(Fault::AnsweredEarly) { next } else { self.lasting }
    }

    /// The number behind the last record of this name, if it is not on disk.
    pub(super) fn last_of_name(&self, name: &str) -> u64 {
        self.names.get(name).copied().unwrap_or(0)
    }

    /// Takes what entries mean that are on disk.
    pub(super) fn take_events(&mut self) -> Vec<(u64, Event)> {
        let lasting = self.lasting;
        let count = self.events.partition_point(|(entry, _)| *entry < lasting);
        self.events.drain(..count).collect()
    }
}
