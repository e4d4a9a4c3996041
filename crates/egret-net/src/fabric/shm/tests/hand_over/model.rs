//! Random histories of a home and a visitor against a model of them.
//!
//! Whoever has a buffer writes its own mark into it, and finds it there as long
//! as it has the buffer: a slot with two owners would lose one of them. While
//! the home reads, as many slots are free as the model says; in the end, all.

use std::collections::VecDeque;
use std::mem;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::{EACH, LARGE, REGION, Rig, SMALL, assert_all_home, until};
use crate::buf::{Buf, LendError, Pool};
use crate::fabric::shm::cooperating::lent::{BufferTicket, LentBuffers};
use crate::fabric::shm::cooperating::received::ReceivedBuffers;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The home takes a buffer.
    Take {
        len: usize,
    },
    Drop,
    Lend,
    /// And then it cannot tell the visitor.
    LendInVain,
    /// The visitor reads a message.
    Arrive,
    VisitorDrops,
    VisitorClones,
    GiveBack,
    GiveBackInVain,
    /// The home reads a message.
    ComeBack,
    Poll,
    VisitorLeaves,
    HomeLeaves,
    Die,
}

#[test]
fn histories_agree_with_the_model() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let histories = prop::collection::vec((step(), any::<usize>()), 1..80);
    let outcome = TestRunner::new(config).run(&histories, |steps| {
        let mut world = World::new();
        for (step, which) in steps {
            world.step(step, which);
            world.verify()?;
        }
        world.end();
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1..=LARGE).prop_map(|len| Step::Take { len }),
        4 => Just(Step::Drop),
        12 => Just(Step::Lend),
        2 => Just(Step::LendInVain),
        12 => Just(Step::Arrive),
        6 => Just(Step::VisitorDrops),
        4 => Just(Step::VisitorClones),
        6 => Just(Step::GiveBack),
        2 => Just(Step::GiveBackInVain),
        6 => Just(Step::ComeBack),
        8 => Just(Step::Poll),
        1 => Just(Step::VisitorLeaves),
        1 => Just(Step::HomeLeaves),
        1 => Just(Step::Die),
    ]
}

/// A buffer and the mark of its owner.
type Marked = (Buf, u8);

struct World {
    pool: Pool,
    /// Until the home leaves.
    loans: Option<LentBuffers>,
    /// Until the visitor leaves.
    visiting: Option<ReceivedBuffers>,
    life: std::os::unix::net::UnixStream,
    at_home: Vec<Marked>,
    at_visitor: Vec<Marked>,
    to_visitor: VecDeque<(BufferTicket, u8)>,
    to_home: VecDeque<(BufferTicket, u8)>,
    /// Returned, and the home has not looked.
    dropped: usize,
    marks: u8,
}

impl World {
    fn new() -> Self {
        let Rig { pool, loans, visiting, life, .. } = Rig::new();
        let (loans, visiting) = (Some(loans), Some(visiting));
        let (to_visitor, to_home) = Default::default();
        let (at_home, at_visitor) = Default::default();
        let (dropped, marks) = (0, 0);
        Self {
            pool,
            loans,
            visiting,
            life,
            at_home,
            at_visitor,
            to_visitor,
            to_home,
            dropped,
            marks,
        }
    }

    fn step(&mut self, step: Step, which: usize) {
        match step {
            Step::Take { len } => self.take(len),
            Step::Drop => drop(pick(&mut self.at_home, which)),
            Step::Lend => self.lend(which, true),
            Step::LendInVain => self.lend(which, false),
            Step::Arrive => self.arrive(),
            Step::VisitorDrops => {
                self.dropped += usize::from(pick(&mut self.at_visitor, which).is_some());
            }
            Step::VisitorClones => self.clone_and_drop(which),
            Step::GiveBack => self.give_back(which, true),
            Step::GiveBackInVain => self.give_back(which, false),
            Step::ComeBack => self.come_back(),
            Step::Poll => {
                if let Some(loans) = &mut self.loans {
                    assert_eq!(loans.poll(), self.dropped > 0);
                    self.dropped = 0;
                }
            }
            Step::VisitorLeaves => drop(self.visiting.take()),
            Step::HomeLeaves => drop(self.loans.take()),
            Step::Die => self.die(),
        }
    }

    fn mark(&mut self, mut buf: Buf) -> Marked {
        self.marks = self.marks.wrapping_add(1);
        buf.bytes_mut().fill(self.marks);
        (buf, self.marks)
    }

    fn take(&mut self, len: usize) {
        if let Ok(buf) = self.pool.take(len) {
            let marked = self.mark(buf);
            self.at_home.push(marked);
        }
    }

    fn lend(&mut self, which: usize, tell: bool) {
        let Some(loans) = &mut self.loans else { return };
        let Some((buf, mark)) = pick(&mut self.at_home, which) else { return };
        let ticket = match loans.lend(REGION, buf) {
            Ok(ticket) => ticket,
            Err((buf, why)) => {
                assert!(why == LendError::Gone && self.visiting.is_none(), "{why}");
                return self.at_home.push((buf, mark));
            }
        };
        if tell {
            self.to_visitor.push_back((ticket, mark));
        } else {
            self.at_home.push((loans.undo(ticket), mark));
        }
    }

    fn arrive(&mut self) {
        let Some(visiting) = &mut self.visiting else { return };
        let Some((ticket, mark)) = self.to_visitor.pop_front() else { return };
        let buf = visiting.arrived(ticket).unwrap();
        assert!(buf.bytes().iter().all(|byte| *byte == mark));
        let marked = self.mark(buf);
        self.at_visitor.push(marked);
    }

    fn clone_and_drop(&mut self, which: usize) {
        let Some((buf, mark)) = pick(&mut self.at_visitor, which) else { return };
        let shared = buf.share();
        drop(shared.clone());
        self.at_visitor.push((shared.try_unique().unwrap().into(), mark));
    }

    fn give_back(&mut self, which: usize, tell: bool) {
        let Some(visiting) = &mut self.visiting else { return };
        let Some((buf, mark)) = pick(&mut self.at_visitor, which) else { return };
        let ticket = visiting.give_back(buf).unwrap();
        if tell {
            self.to_home.push_back((ticket, mark));
        } else {
            self.at_visitor.push((visiting.undo(ticket), mark));
        }
    }

    fn come_back(&mut self) {
        let Some(loans) = &mut self.loans else { return };
        let Some((ticket, mark)) = self.to_home.pop_front() else { return };
        let buf = loans.came_back(ticket).unwrap();
        assert!(buf.bytes().iter().all(|byte| *byte == mark));
        let marked = self.mark(buf);
        self.at_home.push(marked);
    }

    /// The visitor is no more, wherever it was: its handles end without a word.
    fn die(&mut self) {
        use std::io::Write;
        mem::forget((mem::take(&mut self.at_visitor), self.visiting.take()));
        self.to_visitor.clear();
        self.dropped = 0;
        // Perhaps nobody cares any more.
        _ = self.life.write_all(&[0]);
        while self.loans.is_some() && !self.to_home.is_empty() {
            self.come_back();
        }
        let gone = self.loans.as_mut().is_none_or(LentBuffers::owner_gone);
        assert!(gone, "the kernel says so");
        self.loans = None;
    }

    fn verify(&self) -> Result<(), TestCaseError> {
        for (buf, mark) in self.at_home.iter().chain(&self.at_visitor) {
            prop_assert!(buf.bytes().iter().all(|byte| byte == mark), "{buf:?} has two owners");
        }
        let owned = self.at_home.len() + self.at_visitor.len();
        let under_way = self.to_visitor.len() + self.to_home.len() + self.dropped;
        let free = self.pool.available(SMALL) + self.pool.available(LARGE);
        prop_assert!(free + owned <= 2 * EACH, "{free} free and {owned} owned");
        if self.loans.is_some() {
            prop_assert_eq!(free + owned + under_way, 2 * EACH);
        }
        Ok(())
    }

    /// Both leave and drop what they have, and all is home.
    fn end(mut self) {
        self.loans = None;
        self.visiting = None;
        self.at_visitor.clear();
        self.at_home.clear();
        let pool = &self.pool;
        let all = || pool.available(SMALL) + pool.available(LARGE) == 2 * EACH;
        until(all, "the reaper brings home what is left");
        assert_all_home(pool);
    }
}

fn pick<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(which % from.len()))
}
