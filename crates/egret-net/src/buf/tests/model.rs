//! Random histories of one pool against a model of it.
//!
//! The model knows the bytes, the slot and the sharing of every handle. After
//! each step: all handles have their bytes, no two share a byte unless they are
//! clones, as many slots are out as the model says, and exactly the callbacks
//! ran that had to.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::buf::{Buf, Held, Pool, Shared, Typed};

#[test]
fn histories_agree_with_the_model() {
    random_histories();
}

pub(super) fn random_histories() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let histories = prop::collection::vec(step(), 1..60);
    let outcome = TestRunner::new(config).run(&histories, |steps| {
        let mut world = World::new();
        let lived = world.live(&steps);
        if lived.is_err() {
            std::mem::forget(world);
        }
        lived
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Take { len: usize },
    Drop,
    Write { mark: u8 },
    Resize { len: usize, mark: u8 },
    Split { at: usize },
    Join { other: usize },
    Retype,
    Share { callback: bool },
    Clone,
    Unique,
    Hold,
    Evacuate,
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

/// A handle, and what the model knows about it.
struct Entry {
    handle: Handle,
    bytes: Vec<u8>,
    /// Where its slot starts, for a slot that starts with it.
    slot: usize,
}

enum Handle {
    Buf(Buf),
    Words(Typed<u32>),
    Shared { data: Shared<u8>, group: usize, callback: bool },
    Held(Held<u8>),
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

impl Entry {
    /// Start and end in the region, and whose clone it is.
    fn place(&self) -> Option<(usize, usize, Option<usize>)> {
        let (start, len) = match &self.handle {
            Handle::Buf(buf) => (buf.offset_in_region(), buf.capacity()),
            Handle::Words(words) => (words.offset_in_region(), words.len() * 4),
            Handle::Shared { data, .. } => (data.offset_in_region(), data.len()),
            Handle::Held(_) => return None,
        };
        (len > 0).then_some((start, start + len, self.group()))
    }

    fn group(&self) -> Option<usize> {
        match self.handle {
            Handle::Shared { group, .. } => Some(group),
            _ => None,
        }
    }

    fn split(self, at: usize) -> Vec<Self> {
        let Self { handle, mut bytes, slot } = self;
        let (head, rest, at) = match handle {
            Handle::Buf(buf) => {
                let at = at % (buf.len() + 1);
                let (head, rest) = buf.split_at(at);
                (Handle::Buf(head), rest, at)
            }
            Handle::Words(words) => {
                let at = at % (words.len() + 1);
                let (head, rest) = words.split_at(at);
                (Handle::Words(head), rest, at * 4)
            }
            handle => return vec![Self { handle, bytes, slot }],
        };
        let tail = bytes.split_off(at);
        let rest = Self { handle: Handle::Buf(rest), bytes: tail, slot };
        vec![Self { handle: head, bytes, slot }, rest]
    }

    fn duplicate(self) -> Vec<Self> {
        let Handle::Shared { data, group, callback } = &self.handle else { return vec![self] };
        let (data, group, callback) = (data.clone(), *group, *callback);
        let handle = Handle::Shared { data, group, callback };
        let clone = Self { handle, bytes: self.bytes.clone(), slot: self.slot };
        vec![self, clone]
    }

    fn change(mut self, step: Step) -> Self {
        self.handle = match (step, self.handle) {
            (Step::Write { mark }, Handle::Buf(mut buf)) => {
                buf.bytes_mut().fill(mark);
                self.bytes.fill(mark);
                Handle::Buf(buf)
            }
            (Step::Write { mark }, Handle::Words(mut words)) => {
                words.fill(u32::from_ne_bytes([mark; 4]));
                self.bytes.fill(mark);
                Handle::Words(words)
            }
            (Step::Resize { len, mark }, Handle::Buf(mut buf)) => {
                buf.resize(len % (buf.capacity() + 1));
                buf.bytes_mut().fill(mark);
                self.bytes = vec![mark; buf.len()];
                Handle::Buf(buf)
            }
            (Step::Retype, Handle::Buf(buf)) => match buf.typed() {
                Ok(words) => Handle::Words(words),
                Err(error) => Handle::Buf(error.buf),
            },
            (Step::Retype, Handle::Words(words)) => Handle::Buf(words.into()),
            (Step::Hold, Handle::Buf(buf)) => Handle::Held(buf.hold()),
            (Step::Evacuate, Handle::Held(mut held)) => {
                held.evacuate();
                Handle::Held(held)
            }
            (_, handle) => handle,
        };
        self
    }
}

impl Handle {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Buf(buf) => buf.bytes(),
            Self::Words(words) => bytemuck::cast_slice(words),
            Self::Shared { data, .. } => data,
            Self::Held(held) => held,
        }
    }

    fn is_resident(&self) -> bool {
        !matches!(self, Self::Held(held) if !held.is_resident())
    }
}
