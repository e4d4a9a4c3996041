//! Random histories of one pool against a model of it.
//!
//! The model knows the bytes, the slot and the sharing of every handle. After
//! each step: all handles have their bytes, no two share a byte unless they are
//! clones, as many slots are out as the model says, and exactly the callbacks
//! ran that had to.

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::entry::{Entry, Handle, Step};
use crate::buf::{Buf, Pool, Typed};

#[test]
fn histories_agree_with_the_model() {
    random_histories();
}

pub(super) fn random_histories() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let histories = prop::collection::vec(step(), 1..60);
    let outcome = TestRunner::new(config).run(&histories, |steps| {
        // A world in disorder cannot be taken down in order.
        let mut world = ManuallyDrop::new(World::new());
        world.live(&steps)?;
        drop(ManuallyDrop::into_inner(world));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// A step and the handle it is for.
fn step() -> impl Strategy<Value = (Step, usize)> {
    let steps = prop_oneof![
        4 => (0..300usize).prop_map(|len| Step::Take { len }),
        3 => Just(Step::Drop),
        2 => any::<u8>().prop_map(|mark| Step::Write { mark }),
        1 => (0..300usize, any::<u8>()).prop_map(|(len, mark)| Step::Resize { len, mark }),
        3 => (0..300usize).prop_map(|at| Step::Split { at }),
        3 => any::<usize>().prop_map(|other| Step::Join { other }),
        2 => Just(Step::Retype),
        3 => any::<bool>().prop_map(|callback| Step::Share { callback }),
        3 => Just(Step::Clone),
        2 => Just(Step::Unique),
        1 => Just(Step::Hold),
        1 => Just(Step::Evacuate),
    ];
    (steps, any::<usize>())
}

struct World {
    entries: Vec<Entry>,
    groups: usize,
    /// Groups of clones whose callback has run, and should have.
    ran: Arc<Mutex<Vec<usize>>>,
    due: Vec<usize>,
    pool: Pool,
}

type Verdict = Result<(), TestCaseError>;

impl World {
    fn new() -> Self {
        let pool = Pool::builder().class(64, 3).class(256, 2).low_water(1).build().unwrap();
        Self { entries: Vec::new(), groups: 0, ran: Arc::default(), due: Vec::new(), pool }
    }

    fn live(&mut self, steps: &[(Step, usize)]) -> Verdict {
        for &(step, which) in steps {
            self.step(step, which);
            self.verify()?;
        }
        while let Some(entry) = self.entries.pop() {
            self.note_drop(&entry);
            drop(entry);
            self.verify()?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step, which: usize) {
        if let Step::Take { len } = step {
            return self.take(len);
        }
        if self.entries.is_empty() {
            return;
        }
        let entry = self.entries.swap_remove(which % self.entries.len());
        match step {
            Step::Take { .. } => {}
            Step::Drop => self.note_drop(&entry),
            Step::Join { other } => self.join(entry, other),
            Step::Split { at } => self.entries.extend(entry.split(at)),
            Step::Clone => self.entries.extend(entry.duplicate()),
            Step::Share { callback } => self.share(entry, callback),
            Step::Unique => self.unique(entry),
            step => self.entries.push(entry.change(step)),
        }
    }

    fn take(&mut self, len: usize) {
        let Ok(mut buf) = self.pool.take(len) else { return };
        let mark = u8::try_from(len % 256).unwrap();
        buf.bytes_mut().fill(mark);
        let slot = buf.offset_in_region();
        self.entries.push(Entry { handle: Handle::Buf(buf), bytes: vec![mark; len], slot });
    }

    /// A callback is due if the entry is the last of its group.
    fn note_drop(&mut self, entry: &Entry) {
        if let Handle::Shared { group, callback: true, .. } = entry.handle
            && !self.entries.iter().any(|other| other.group() == Some(group))
        {
            self.due.push(group);
        }
    }

    fn join(&mut self, head: Entry, other: usize) {
        if self.entries.is_empty() {
            return self.entries.push(head);
        }
        let rest = self.entries.swap_remove(other % self.entries.len());
        match (head.handle, rest.handle) {
            (Handle::Buf(a), Handle::Buf(b)) => match Buf::join(a, b) {
                Ok(buf) => {
                    let bytes = [head.bytes, rest.bytes].concat();
                    self.entries.push(Entry { handle: Handle::Buf(buf), bytes, slot: head.slot });
                }
                Err((a, b)) => {
                    self.entries.push(Entry { handle: Handle::Buf(a), ..head });
                    self.entries.push(Entry { handle: Handle::Buf(b), ..rest });
                }
            },
            (a, b) => {
                self.entries.push(Entry { handle: a, ..head });
                self.entries.push(Entry { handle: b, ..rest });
            }
        }
    }

    fn share(&mut self, entry: Entry, callback: bool) {
        let Handle::Buf(buf) = entry.handle else { return self.entries.push(entry) };
        self.groups += 1;
        let (group, ran) = (self.groups, Arc::clone(&self.ran));
        let data = if callback {
            Typed::from(buf).share_with(move |_buf| ran.lock().unwrap().push(group))
        } else {
            buf.share()
        };
        self.entries.push(Entry { handle: Handle::Shared { data, group, callback }, ..entry });
    }

    fn unique(&mut self, entry: Entry) {
        let Handle::Shared { data, group, callback } = entry.handle else {
            return self.entries.push(entry);
        };
        let last = !self.entries.iter().any(|other| other.group() == Some(group));
        let handle = match data.try_unique() {
            Ok(data) if last => Handle::Buf(data.into()),
            Err(data) if !last => Handle::Shared { data, group, callback },
            other => panic!("the model says last = {last}, the buffer {other:?}"),
        };
        self.entries.push(Entry { handle, ..entry });
    }

    fn verify(&self) -> Verdict {
        for entry in &self.entries {
            prop_assert_eq!(entry.handle.bytes(), &entry.bytes[..]);
        }
        let mut places: Vec<_> = self.entries.iter().filter_map(Entry::place).collect();
        places.sort_unstable();
        places.dedup();
        for pair in places.windows(2) {
            prop_assert!(pair[0].1 <= pair[1].0, "two owners of a byte: {:?}", pair);
        }
        let resident = self.entries.iter().filter(|entry| entry.handle.is_resident());
        let slots: BTreeSet<usize> = resident.map(|entry| entry.slot).collect();
        let free = self.pool.available(64) + self.pool.available(256);
        prop_assert_eq!(slots.len() + free, 5, "slots out and free");
        prop_assert_eq!(&*self.ran.lock().unwrap(), &self.due);
        Ok(())
    }
}
