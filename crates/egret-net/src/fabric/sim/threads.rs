//! The threads of a simulated world. One of them runs, until it waits or ends; who is next, the seed
//! decides, and time moves on when no thread can run.
//!
//! Each is a thread of the machine, which sleeps while another has the turn. The thread that waits
//! carries out what happens in the world until a thread can run, and hands the turn on. Nobody has
//! the turn taken from it: what a thread does between two waits is one step to all others. So a lock
//! that is held over a wait could stop the world; none of ours is.

use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use super::SimFabric;
use super::world::SimWorld;
use crate::fabric::EventCount;
use crate::rt::{self, Instant};

/// The threads of a world. The first is the one that entered it.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: Vec<SimThread>,
    /// Whose turn it is.
    running: usize,
    /// How often the turn was handed on.
    switches: u64,
    /// Looks at the network in this turn.
    looks: u64,
    over: Option<WorldEnd>,
    /// What the first of them that panicked did so with.
    panicked: Option<String>,
    /// Whether nodes have threads of their own.
    pub has_background: bool,
    /// Waits without end of the first thread, since the world is over.
    endless: u32,
    /// How long a thread may take between two waits, if not as long as usual.
    #[cfg(test)]
    patience: Option<Duration>,
}

#[derive(Debug)]
struct SimThread {
    os: std::thread::Thread,
    name: Arc<str>,
    state: ThreadState,
    /// Whether it was unparked since its last park.
    is_unparked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ThreadState {
    Runs,
    Waits(ThreadWait),
    Ended,
}

/// What ends a wait, besides being unparked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ThreadWait {
    /// More has happened than this.
    pub seen: Option<EventCount>,
    pub until: Option<Instant>,
    since: Instant,
}

/// Why no thread runs any more.
#[derive(Debug, Clone)]
enum WorldEnd {
    /// The world was left.
    Left,
    /// The world has come to a halt, with this report, or a plan of it has panicked.
    Halted(String),
}

/// What a thread of a world that is over unwinds with.
struct WorldOver;

/// What the thread that waits is to do.
enum NextThread {
    /// Its wait has ended.
    Mine,
    /// Another has the turn.
    Other(std::thread::Thread),
    /// No thread can run: the next event is due.
    Nobody,
}

impl Threads {
    /// The number of the calling thread; the first to ask is the first.
    fn me(&mut self) -> usize {
        let os = rt::this_thread();
        if self.all.is_empty() {
            let name = os.name().unwrap_or("the first").into();
            self.all.push(SimThread { os, name, state: ThreadState::Runs, is_unparked: false });
            return 0;
        }
        let found = self.all.iter().position(|member| member.os.id() == os.id());
        let Some(found) = found else {
            panic!("a simulated world runs all its nodes on threads of its own");
        };
        found
    }

    /// Whether the calling thread, which must be of this world, is its only one.
    pub(super) fn is_alone(&mut self) -> bool {
        let _ = self.me();
        self.all.len() == 1
    }

    /// Threads that were spawned and have not ended.
    pub(super) fn spawned(&self) -> usize {
        self.all.iter().skip(1).filter(|member| member.state != ThreadState::Ended).count()
    }

    /// A thread that has the turn looks at the network once more.
    pub(super) fn look(&mut self) {
        self.looks += u64::from(self.all.len() > 1);
        assert!(self.looks < LOOKS_MAX, "a thread looks for ever, and others cannot run");
    }

    fn is_ready(&self, at: usize, now: Instant, happened: u64) -> bool {
        let member = &self.all[at];
        let ThreadState::Waits(wait) = member.state else { return false };
        // A word to a thread that parks ends no wait for the network.
        wait.seen.is_none() && member.is_unparked
            || wait.until.is_some_and(|until| now >= until)
            || wait.seen.is_some_and(|EventCount(seen)| seen != happened)
    }

    /// When the next wait ends by itself.
    fn next_until(&self) -> Option<Instant> {
        let until = |member: &SimThread| match member.state {
            ThreadState::Waits(wait) => wait.until,
            ThreadState::Runs | ThreadState::Ended => None,
        };
        self.all.iter().filter_map(until).min()
    }

    /// Whether the first thread has waited for an hour, without end.
    fn is_stalled(&self, now: Instant) -> bool {
        let first = self.all.first().map(|first| first.state);
        matches!(first, Some(ThreadState::Waits(ThreadWait { until: None, since, .. })) if now - since > STALLED)
    }

    /// The text of the waiting threads, with their deadlines.
    fn print(&self) -> String {
        let line = |member: &SimThread| match member.state {
            ThreadState::Waits(ThreadWait { until: Some(until), .. }) => {
                format!("{} waits until {until:?}\n", member.name)
            }
            ThreadState::Waits(_) => format!("{} waits for ever\n", member.name),
            ThreadState::Runs => format!("{} runs\n", member.name),
            ThreadState::Ended => String::new(),
        };
        self.all.iter().map(line).collect()
    }
}

impl SimWorld {
    /// Hands the turn to one of those that can run, by the seed.
    fn choose(&mut self, me: Option<usize>) -> NextThread {
        let Self { now, happened, .. } = *self;
        let threads = &self.threads;
        let ready: Vec<_> =
            (0..threads.all.len()).filter(|at| threads.is_ready(*at, now, happened)).collect();
        let Some(at) = ready.get(self.rng.below(ready.len())).copied() else {
            return NextThread::Nobody;
        };
        self.trace.mix(&[now.as_nanos(), at as u64]);
        self.seen = now;
        self.threads.give(at);
        if Some(at) == me {
            NextThread::Mine
        } else {
            NextThread::Other(self.threads.all[at].os.clone())
        }
    }

    /// Something happens: the next event, or the end of a wait. `false` if there is neither.
    fn advance(&mut self) -> bool {
        let until = self.threads.next_until();
        if self.threads.is_stalled(self.now) {
            return false;
        }
        if self.step(until) {
            return until.is_some() || !self.is_stalled();
        }
        until.is_some_and(|until| {
            self.now = self.now.max(until);
            true
        })
    }
}

impl Threads {
    fn give(&mut self, at: usize) {
        let member = &mut self.all[at];
        let parks = matches!(member.state, ThreadState::Waits(ThreadWait { seen: None, .. }));
        member.is_unparked &= !parks;
        member.state = ThreadState::Runs;
        (self.running, self.looks) = (at, 0);
        self.switches += 1;
    }

    /// The thread that has the turn counts as ended, and the first one goes on. Its name.
    fn lose(&mut self) -> Arc<str> {
        let member = &mut self.all[self.running];
        member.state = ThreadState::Ended;
        let name = Arc::clone(&member.name);
        self.give(0);
        name
    }
}

impl SimFabric {
    /// A thread panicked, unless it ends so with its world.
    pub(super) fn has_panicked(&self, why: &(dyn Any + Send)) {
        if why.is::<WorldOver>() {
            return;
        }
        self.look_in(|world| {
            let threads = &mut world.threads;
            let name = threads.all[threads.running].name.clone();
            threads.panicked.get_or_insert_with(|| format!("{name} panicked: {}", text(why)));
        });
    }

    /// What a spawned thread panicked with, if one did.
    pub(super) fn panic_of_thread(&self) -> Option<String> {
        self.look_in(|world| world.threads.panicked.clone())
    }

    /// A plan panicked, on whichever thread carried it out: the world is over, and its first thread
    /// says so.
    pub(super) fn plan_panicked(&self, why: Box<dyn Any + Send>) {
        if self.look_in(|world| world.threads.me()) == 0 {
            resume_unwind(why);
        }
        let report = self.report();
        let why = format!("a plan of this world panicked: {}\n{report}", text(&*why));
        self.look_in(|world| _ = world.threads.over.get_or_insert(WorldEnd::Halted(why)));
    }

    /// Starts a thread, which runs when another waits.
    pub(super) fn start(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<rt::Thread> {
        let at = self.look_in(|world| {
            _ = world.threads.me();
            world.threads.over.is_none().then_some(world.threads.all.len())
        });
        let is_over = || io::Error::new(io::ErrorKind::Unsupported, "this world is over");
        let (at, world) = (at.ok_or_else(is_over)?, self.clone());
        let run = move || {
            world.wait_for_turn(at);
            // Of a world that is over none begins, and what it would have had goes.
            let is_over = world.look_in(|world| world.threads.over.is_some());
            let entered = is_over.then(|| rt::enter(Arc::new(world.clone())));
            let body = AssertUnwindSafe(|| if is_over { drop(body) } else { body() });
            _ = catch_unwind(body);
            drop(entered);
            world.end_thread(at);
        };
        let os = rt::spawn_on_machine(name, run)?.thread().clone();
        self.look_in(|world| {
            let wait = ThreadWait { seen: None, until: None, since: world.now };
            let (name, state) = (name.into(), ThreadState::Waits(wait));
            world.threads.all.push(SimThread { os: os.clone(), name, state, is_unparked: true });
        });
        Ok(rt::Thread::of(os))
    }

    pub(super) fn end_park(&self, thread: ThreadId) {
        self.look_in(|world| {
            let all = &mut world.threads.all;
            if let Some(member) = all.iter_mut().find(|member| member.os.id() == thread) {
                member.is_unparked = true;
            }
        });
    }

    /// The calling thread waits, and others run.
    pub(super) fn give_way(&self, seen: Option<EventCount>, until: Option<Instant>) {
        let me = self.look_in(|world| {
            let me = world.threads.me();
            let wait = ThreadWait { seen, until, since: world.now };
            world.threads.all[me].state = ThreadState::Waits(wait);
            me
        });
        if self.leave_if_over(me, until) {
            return;
        }
        if let NextThread::Other(next) = self.hand_on(Some(me)) {
            next.unpark();
            self.wait_for_turn(me);
        }
        _ = self.leave_if_over(me, until);
    }

    /// Carries out what happens until a thread can run.
    fn hand_on(&self, me: Option<usize>) -> NextThread {
        loop {
            let next = self.look_in(|world| world.choose(me));
            if !matches!(next, NextThread::Nobody) {
                return next;
            }
            if !self.with(SimWorld::advance) {
                self.halt();
            }
            let first = self.look_in(|world| {
                let threads = &mut world.threads;
                threads.over.as_ref()?;
                threads.give(0);
                Some(threads.all[0].os.clone())
            });
            if let Some(first) = first {
                return if me == Some(0) { NextThread::Mine } else { NextThread::Other(first) };
            }
        }
    }

    /// Ends the world when no thread can run and no event is left: the first thread reports it.
    fn halt(&self) {
        let (waiting, report) = (self.look_in(|world| world.threads.print()), self.report());
        let why = format!("everybody waits and nothing will happen:\n{waiting}{report}");
        self.look_in(|world| world.threads.over = Some(WorldEnd::Halted(why)));
    }

    /// Sleeps until it is the thread's turn.
    fn wait_for_turn(&self, me: usize) {
        let (mut before, mut sleeps) = (0, 0);
        loop {
            let (is_mine, switches) =
                self.look_in(|world| (world.threads.running == me, world.threads.switches));
            if is_mine {
                return;
            }
            sleeps = if switches == before { sleeps + 1 } else { 0 };
            before = switches;
            if me == 0 && sleeps > SLEEPS && !std::thread::panicking() {
                let waiting = self.look_in(|world| {
                    world.threads.over = Some(WorldEnd::Left);
                    world.threads.print()
                });
                panic!("a thread has neither waited nor ended for long:\n{waiting}");
            }
            rt::park_on_machine(self.patience() / SLEEPS);
        }
    }

    /// Ends the thread if its world is over; the first one goes on without waiting, once it has said
    /// so, and so does who unwinds. Whether it is.
    fn leave_if_over(&self, me: usize, until: Option<Instant>) -> bool {
        let Some(over) = self.look_in(|world| world.threads.over.clone()) else { return false };
        // What waits while it unwinds finds its time passed.
        self.look_in(|world| {
            world.now = until.map_or(world.now, |until| world.now.max(until));
            world.threads.all[me].state = ThreadState::Runs;
        });
        match over {
            _ if std::thread::panicking() => {
                if me == 0 && until.is_none() {
                    self.wait_without_end();
                }
                true
            }
            WorldEnd::Halted(why) if me == 0 => panic!("{why}"),
            WorldEnd::Left if me == 0 && until.is_none() => {
                panic!("this world is over, and nothing will end a wait without end")
            }
            _ if me == 0 => true,
            _ => resume_unwind(Box::new(WorldOver) as Box<dyn Any + Send>),
        }
    }

    /// The first thread unwinds, and waits without end in a world that is over, perhaps again and
    /// again: for another thread, which ends now, or for what will never happen.
    fn wait_without_end(&self) {
        self.end_threads();
        let waits = self.look_in(|world| {
            world.threads.endless += 1;
            world.threads.endless
        });
        if waits > ENDLESS_MAX {
            let said = "a destructor waits without end in a simulated world that is over";
            _ = writeln!(io::stderr(), "{said}; the process is aborted\n{}", self.report());
            std::process::abort();
        }
        rt::park_on_machine(Duration::from_millis(1));
    }

    fn end_thread(&self, me: usize) {
        let over = self.look_in(|world| {
            let threads = &mut world.threads;
            threads.all[me].state = ThreadState::Ended;
            let is_over = threads.over.is_some();
            if is_over {
                threads.give(0);
            }
            is_over.then(|| threads.all[0].os.clone())
        });
        let next = match over {
            Some(first) => NextThread::Other(first),
            None => self.hand_on(None),
        };
        if let NextThread::Other(next) = next {
            next.unpark();
        }
    }

    /// The world is left: its other threads end, one after the other. One that does not is left
    /// alone.
    ///
    /// # Panics
    ///
    /// If there is such a thread, unless the calling one unwinds: then it is said on stderr.
    pub(super) fn end_threads(&self) {
        let mut left = Vec::new();
        loop {
            let next = self.look_in(|world| {
                let threads = &mut world.threads;
                threads.over.get_or_insert(WorldEnd::Left);
                let lives = |member: &SimThread| member.state != ThreadState::Ended;
                let at = (1..threads.all.len()).find(|at| lives(&threads.all[*at]))?;
                threads.give(at);
                Some(threads.all[at].os.clone())
            });
            let Some(next) = next else { break };
            next.unpark();
            if !self.is_back() {
                left.push(self.look_in(|world| world.threads.lose()));
            }
        }
        if left.is_empty() {
            return;
        }
        let (names, patience) = (left.join(", "), self.patience());
        let said = format!("threads that have not ended {patience:?} after their world: {names}");
        if std::thread::panicking() {
            _ = writeln!(io::stderr(), "{said}");
        } else {
            panic!("{said}");
        }
    }

    #[cfg(test)]
    fn patience(&self) -> Duration {
        self.look_in(|world| world.threads.patience).unwrap_or(PATIENCE)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "in tests it depends on the world")]
    const fn patience(&self) -> Duration {
        PATIENCE
    }

    /// Waits for a thread to end. `false` if that lasts: it is left alone then.
    fn is_back(&self) -> bool {
        let is_mine = || self.look_in(|world| world.threads.running == 0);
        for _ in 0..SLEEPS {
            if is_mine() {
                return true;
            }
            rt::park_on_machine(self.patience() / SLEEPS);
        }
        is_mine()
    }
}

/// What a panic says.
pub(super) fn text(panic: &(dyn Any + Send)) -> &str {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)")
}

/// Looks at the network without a wait, while others could run.
const LOOKS_MAX: u64 = 10_000_000;
/// A wait without end that has lasted for so long is one for ever.
const STALLED: Duration = Duration::from_secs(3600);
/// How long a thread may take between two waits, in the time of the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked meanwhile.
const SLEEPS: u32 = 100;
/// How often a thread that unwinds may wait without end in a world that is over.
const ENDLESS_MAX: u32 = 1000;

#[cfg(test)]
mod tests;
