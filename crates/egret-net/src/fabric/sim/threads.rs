//! The threads of a simulated world. One of them runs, until it waits or ends; who is next, the seed
//! decides, and time moves on when no thread can run.
//!
//! Each is a thread of the machine, which sleeps while another has the turn. The thread that waits
//! carries out what happens in the world until a thread can run, and hands the turn on. Nobody has
//! the turn taken from it: what a thread does between two waits is one step to all others. So a lock
//! that is held over a wait could stop the world; none of ours is. The first thread, while it waits, watches for a turn
//! that does not end.
//!
//! A thread may belong to a node. When the node crashes, the thread unwinds at its next wait.

use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use super::SimFabric;
use super::node::SimNode;
use super::wire::SimNodeId;
use super::world::SimWorld;
use crate::fabric::EventCount;
use crate::rt::{self, Instant, WakeSignal};

/// The threads of a world. The first is the one that entered it.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: Vec<SimThread>,
    /// Their numbers, by the hashes of their ids.
    numbers: BTreeMap<u64, usize>,
    /// Those whose waits have ended.
    ready: Vec<usize>,
    /// When waits end by themselves.
    timers: BTreeSet<(Instant, usize)>,
    /// Who waits for the network, at which node.
    waiters: BTreeMap<SimNodeId, Vec<usize>>,
    /// Whose turn it is.
    running: usize,
    /// How often the turn was handed on.
    switches: u64,
    /// Looks at the network in this turn.
    looks: u64,
    over: Option<WorldEnd>,
    /// What the first of them that panicked did so with.
    panicked: Option<String>,
    /// The thread that kept the turn for too long.
    stuck: Option<usize>,
    /// Whether nodes have threads of their own.
    pub has_background: bool,
    /// How long a thread may take between two waits, if not as long as usual.
    pub patience: Option<Duration>,
}

#[derive(Debug)]
struct SimThread {
    os: std::thread::Thread,
    /// Where it sleeps while another has the turn.
    signal: Arc<WakeSignal>,
    name: Arc<str>,
    /// The node that the thread belongs to, and ends with.
    node: Option<SimNodeId>,
    state: ThreadState,
    /// Whether it was unparked since its last park.
    is_unparked: bool,
    /// Whether its wait has ended, and it is among those that are.
    is_ready: bool,
    /// Whether its node has crashed.
    is_dead: bool,
    /// How often it has waited since its node has crashed; of the first thread without end, since the world is over.
    waits: u32,
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
    /// More has happened at a node than this.
    pub seen: Option<(SimNodeId, EventCount)>,
    pub until: Option<Instant>,
    since: Instant,
}

/// The node of a thread, and whether that has crashed.
pub(super) type ThreadPlace = (Option<SimNodeId>, bool);

/// Why no thread runs any more.
#[derive(Debug, Clone)]
enum WorldEnd {
    /// The world was left.
    Left,
    /// The world has come to a halt, with this report, or a plan of it has panicked.
    Halted(String),
}

/// What a thread of a world that is over, or of a node that has crashed, unwinds with.
struct WorldOver;

/// What the thread that waits is to do.
enum NextThread {
    /// Its wait has ended.
    Mine,
    /// Another has the turn.
    Other(Arc<WakeSignal>),
    /// No thread can run: the next event is due.
    Nobody,
}

impl Threads {
    /// The number of the calling thread; the first to ask is the first.
    fn me(&mut self) -> usize {
        let os = rt::this_thread();
        if self.all.is_empty() {
            let name = os.name().unwrap_or("the first").into();
            return self.add(SimThread::new(os, name, ThreadState::Runs));
        }
        let Some(found) = self.find(os.id()) else {
            panic!("a simulated world runs all its nodes on threads of its own");
        };
        found
    }

    fn add(&mut self, thread: SimThread) -> usize {
        let at = self.all.len();
        self.numbers.insert(hash(thread.os.id()), at);
        self.all.push(thread);
        at
    }

    fn find(&self, id: ThreadId) -> Option<usize> {
        let is_it = |at: &usize| self.all[*at].os.id() == id;
        let found = self.numbers.get(&hash(id)).copied().filter(is_it);
        found.or_else(|| (0..self.all.len()).find(is_it))
    }

    /// Whether the calling thread, which must be of this world, is its only one.
    pub(super) fn is_alone(&mut self) -> bool {
        let _ = self.me();
        self.all.len() == 1
    }

    /// Whether a thread has kept its turn for too long.
    pub(super) const fn has_stuck(&self) -> bool {
        self.stuck.is_some()
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

    /// The wait of a thread begins. `happened` is how much has happened at the node that it waits at.
    fn begin_wait(&mut self, at: usize, wait: ThreadWait, happened: Option<EventCount>) {
        self.all[at].state = ThreadState::Waits(wait);
        if let Some(until) = wait.until {
            self.timers.insert((until, at));
        }
        if let Some((node, _)) = wait.seen {
            self.waiters.entry(node).or_default().push(at);
        }
        // A word to a thread that parks ends no wait for the network.
        let is_over = match wait.seen {
            None => self.all[at].is_unparked,
            Some((_, seen)) => happened != Some(seen),
        };
        if is_over || self.all[at].is_dead {
            self.end_wait(at);
        }
    }

    /// The wait of a thread, if it waits, has ended: the thread can run.
    fn end_wait(&mut self, at: usize) {
        let ThreadState::Waits(wait) = self.all[at].state else { return };
        if std::mem::replace(&mut self.all[at].is_ready, true) {
            return;
        }
        self.forget_wait(at, wait);
        self.ready.push(at);
    }

    /// Ends the present or next park of a thread.
    fn end_park(&mut self, at: usize) {
        self.all[at].is_unparked = true;
        if matches!(self.all[at].state, ThreadState::Waits(ThreadWait { seen: None, .. })) {
            self.end_wait(at);
        }
    }

    /// Nothing ends this wait any more.
    fn forget_wait(&mut self, at: usize, wait: ThreadWait) {
        if let Some(until) = wait.until {
            self.timers.remove(&(until, at));
        }
        if let Some((node, _)) = wait.seen
            && let Some(waiters) = self.waiters.get_mut(&node)
        {
            waiters.retain(|waiter| *waiter != at);
        }
    }

    /// Something has happened at a node, or everywhere.
    pub(super) fn something_happened(&mut self, node: Option<SimNodeId>) {
        let end = |threads: &mut Self, waiters: Vec<usize>| {
            waiters.into_iter().for_each(|at| threads.end_wait(at));
        };
        match node {
            Some(node) => {
                if let Some(waiters) = self.waiters.get_mut(&node) {
                    let waiters = std::mem::take(waiters);
                    end(self, waiters);
                }
            }
            None => {
                let all = std::mem::take(&mut self.waiters);
                all.into_values().for_each(|waiters| end(self, waiters));
            }
        }
    }

    /// Ends the waits whose time has passed.
    fn ring(&mut self, now: Instant) {
        while let Some((until, at)) = self.timers.first().copied()
            && until <= now
        {
            self.timers.pop_first();
            self.end_wait(at);
        }
    }

    /// The threads of a node end, each with its wait.
    pub(super) fn crash(&mut self, node: SimNodeId) {
        for at in 0..self.all.len() {
            if self.all[at].node == Some(node) && self.all[at].state != ThreadState::Ended {
                self.all[at].is_dead = true;
                self.end_wait(at);
            }
        }
    }

    /// Moves the calling thread, and with it the threads that it starts, to a node; returns where it was before, and
    /// whether that has crashed.
    pub(super) fn move_to(&mut self, (node, is_dead): ThreadPlace) -> ThreadPlace {
        let me = self.me();
        let member = &mut self.all[me];
        (std::mem::replace(&mut member.node, node), std::mem::replace(&mut member.is_dead, is_dead))
    }

    /// Whether the first thread has waited for an hour, without end.
    fn is_stalled(&self, now: Instant) -> bool {
        let first = self.all.first().map(|first| first.state);
        matches!(first, Some(ThreadState::Waits(ThreadWait { until: None, since, .. })) if now - since > STALLED)
    }

    /// The text of the waiting threads, with their deadlines.
    pub(super) fn print(&self, nodes: &[SimNode]) -> String {
        let line = |member: &SimThread| {
            let name = member.full_name(nodes);
            match member.state {
                ThreadState::Waits(ThreadWait { until: Some(until), .. }) => {
                    Some(format!("{name} waits until {until:?}\n"))
                }
                ThreadState::Waits(_) => Some(format!("{name} waits for ever\n")),
                ThreadState::Runs => Some(format!("{name} runs\n")),
                ThreadState::Ended => None,
            }
        };
        let (runs, others): (Vec<_>, Vec<_>) =
            self.all.iter().partition(|member| member.state == ThreadState::Runs);
        let mut lines = runs.into_iter().chain(others).filter_map(line);
        let mut text: String = lines.by_ref().take(PRINTED).collect();
        let more = lines.count();
        if more > 0 {
            writeln!(text, "and {more} more threads").expect("a string takes all");
        }
        text
    }
}

impl SimThread {
    fn new(os: std::thread::Thread, name: Arc<str>, state: ThreadState) -> Self {
        let (is_unparked, is_ready, is_dead) = (false, false, false);
        let signal = Arc::default();
        Self { os, signal, name, node: None, state, is_unparked, is_ready, is_dead, waits: 0 }
    }

    /// The name of the thread, and that of its node.
    fn full_name(&self, nodes: &[SimNode]) -> String {
        match self.node {
            Some(node) if nodes[node].name != self.name => {
                format!("{} of {}", self.name, nodes[node].name)
            }
            _ => self.name.to_string(),
        }
    }
}

impl SimWorld {
    /// Hands the turn to one of those that can run, by the seed.
    fn choose(&mut self, me: Option<usize>) -> NextThread {
        let now = self.now;
        self.threads.ring(now);
        let ready = &self.threads.ready;
        let Some(at) = ready.get(self.rng.below(ready.len())).copied() else {
            return NextThread::Nobody;
        };
        self.trace.mix(&[now.as_nanos(), at as u64]);
        self.seen = now;
        self.threads.give(at);
        if Some(at) == me {
            NextThread::Mine
        } else {
            NextThread::Other(Arc::clone(&self.threads.all[at].signal))
        }
    }

    /// Something happens: the next event, or the end of a wait. `false` if there is neither.
    fn advance(&mut self) -> bool {
        let until = self.threads.timers.first().map(|(until, _)| *until);
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
        if let ThreadState::Waits(wait) = self.all[at].state {
            if self.all[at].is_ready {
                let place = self.ready.iter().position(|ready| *ready == at);
                place.map(|place| self.ready.swap_remove(place));
            } else {
                self.forget_wait(at, wait);
            }
        }
        let member = &mut self.all[at];
        let parks = matches!(member.state, ThreadState::Waits(ThreadWait { seen: None, .. }));
        member.is_unparked &= !parks;
        member.is_ready = false;
        member.state = ThreadState::Runs;
        (self.running, self.looks) = (at, 0);
        self.switches += 1;
    }

    /// The thread that has the turn counts as ended, and the first one goes on. Its name.
    fn lose(&mut self, nodes: &[SimNode]) -> String {
        let member = &mut self.all[self.running];
        member.state = ThreadState::Ended;
        let name = member.full_name(nodes);
        self.give(0);
        name
    }
}

impl SimFabric {
    /// A thread panicked, unless it ends so with its world, or its node has crashed: what it does then is lost.
    pub(super) fn has_panicked(&self, why: &(dyn Any + Send)) {
        if why.is::<WorldOver>() {
            return;
        }
        self.look_in(|world| {
            let threads = &mut world.threads;
            if threads.all[threads.running].is_dead {
                return;
            }
            let name = threads.all[threads.running].full_name(&world.nodes);
            threads.panicked.get_or_insert_with(|| format!("{name} panicked: {}", text(why)));
            threads.end_park(0);
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
        let starts = self.look_in(|world| {
            let me = world.threads.me();
            let SimThread { node, is_dead, .. } = world.threads.all[me];
            world.threads.over.is_none().then_some((world.threads.all.len(), node, is_dead))
        });
        let is_over = || io::Error::new(io::ErrorKind::Unsupported, "this world is over");
        let ((at, node, is_dead), world) = (starts.ok_or_else(is_over)?, self.clone());
        let signal = Arc::new(WakeSignal::default());
        let sleeps = Arc::clone(&signal);
        let run = move || {
            world.wait_for_turn(at, &sleeps);
            // Of a world that is over, or of a node that has crashed, none begins, and what it would have had goes.
            let is_over = world
                .look_in(|world| world.threads.over.is_some() || world.threads.all[at].is_dead);
            let entered = is_over.then(|| rt::enter(Arc::new(world.clone())));
            let body = AssertUnwindSafe(|| if is_over { drop(body) } else { body() });
            _ = catch_unwind(body);
            drop(entered);
            // What happens next in the world may happen on this thread.
            let entered = rt::enter(Arc::new(world.clone()));
            world.end_thread(at);
            drop(entered);
        };
        let os = rt::spawn_on_machine(name, run)?.thread().clone();
        self.look_in(|world| {
            let wait = ThreadWait { seen: None, until: None, since: world.now };
            let member = SimThread::new(os.clone(), name.into(), ThreadState::Runs);
            let at =
                world.threads.add(SimThread { signal, node, is_dead, is_unparked: true, ..member });
            world.threads.begin_wait(at, wait, None);
        });
        Ok(rt::Thread::of(os))
    }

    pub(super) fn end_park(&self, thread: ThreadId) {
        self.look_in(|world| {
            let threads = &mut world.threads;
            threads.find(thread).into_iter().for_each(|at| threads.end_park(at));
        });
    }

    /// The calling thread waits, and others run.
    pub(super) fn give_way(&self, seen: Option<(SimNodeId, EventCount)>, until: Option<Instant>) {
        rt::before_wait();
        let me = self.look_in(|world| world.threads.me());
        if self.leave_if_over(me, until) {
            return;
        }
        if self.leave_if_dead(me) {
            self.wait_dead(me, until);
        }
        self.look_in(|world| {
            let happened = seen.map(|(node, _)| world.happened_at(node));
            let wait = ThreadWait { seen, until, since: world.now };
            world.threads.begin_wait(me, wait, happened);
        });
        if let NextThread::Other(next) = self.hand_on(Some(me)) {
            next.wake();
            let signal = self.signal_of(me);
            self.wait_for_turn(me, &signal);
        }
        if !self.leave_if_over(me, until) {
            self.leave_if_dead(me);
        }
    }

    /// Ends the thread if its node has crashed, unless it unwinds already: whether that is so.
    fn leave_if_dead(&self, me: usize) -> bool {
        let is_dead = self.look_in(|world| world.threads.all[me].is_dead);
        if is_dead && !std::thread::panicking() {
            resume_unwind(Box::new(WorldOver) as Box<dyn Any + Send>);
        }
        is_dead
    }

    /// A thread whose node has crashed waits while it unwinds: it finds its time passed, and others run before it goes
    /// on. The world is over if it waits again and again.
    fn wait_dead(&self, me: usize, until: Option<Instant>) {
        DEAD_TIME.set(until.map_or(DEAD_TIME.get(), |until| DEAD_TIME.get().max(until)));
        let waits = self.look_in(|world| {
            world.threads.all[me].waits += 1;
            world.threads.all[me].waits
        });
        if waits > DEAD_WAITS_MAX {
            let report = self.report();
            self.look_in(|world| {
                let name = world.threads.all[me].full_name(&world.nodes);
                let why = format!(
                    "a destructor waits without end on {name}, which has crashed\n{report}"
                );
                world.threads.over.get_or_insert(WorldEnd::Halted(why));
            });
        }
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
                Some(Arc::clone(&threads.all[0].signal))
            });
            if let Some(first) = first {
                return if me == Some(0) { NextThread::Mine } else { NextThread::Other(first) };
            }
        }
    }

    /// Ends the world when no thread can run and no event is left: the first thread reports it.
    fn halt(&self) {
        let (waiting, report) =
            (self.look_in(|world| world.threads.print(&world.nodes)), self.report());
        let why = format!("everybody waits and nothing will happen:\n{waiting}{report}");
        self.look_in(|world| world.threads.over = Some(WorldEnd::Halted(why)));
    }

    /// Sleeps until it is the thread's turn.
    fn wait_for_turn(&self, me: usize, signal: &WakeSignal) {
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
                let said = self.keeps_turn();
                panic!("{said}");
            }
            // The first thread watches the others.
            let most = if me == 0 { self.patience() / SLEEPS } else { UNWATCHED };
            signal.sleep(most);
        }
    }

    /// A thread has the turn for too long: the world is over. What is to be said of that.
    fn keeps_turn(&self) -> String {
        let patience = self.patience();
        let (name, others) = self.look_in(|world| {
            let threads = &mut world.threads;
            threads.over = Some(WorldEnd::Left);
            threads.stuck = Some(threads.running);
            let name = threads.all[threads.running].full_name(&world.nodes);
            (name, threads.print(&world.nodes))
        });
        format!(
            "{name} has neither waited nor ended for {patience:?} of real time. Either it computes without a wait, or it \
             blocks in the operating system, as for a lock that a thread below holds while that thread waits:\n{others}"
        )
    }

    /// Ends the thread if its world is over; the first one goes on without waiting, once it has said
    /// so, and so does who unwinds. Whether it is.
    fn leave_if_over(&self, me: usize, until: Option<Instant>) -> bool {
        let Some(over) = self.look_in(|world| world.threads.over.clone()) else { return false };
        // What waits while it unwinds finds its time passed.
        self.look_in(|world| {
            world.now = until.map_or(world.now, |until| world.now.max(until));
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
            world.threads.all[0].waits += 1;
            world.threads.all[0].waits
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
            is_over.then(|| Arc::clone(&threads.all[0].signal))
        });
        let next = match over {
            Some(first) => NextThread::Other(first),
            None => self.hand_on(None),
        };
        if let NextThread::Other(next) = next {
            next.wake();
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
                // One that keeps the turn may wait for what another holds.
                let stuck = threads.stuck.filter(|at| lives(&threads.all[*at]));
                let at = (1..threads.all.len())
                    .find(|at| stuck != Some(*at) && lives(&threads.all[*at]))
                    .or(stuck)?;
                threads.give(at);
                Some(Arc::clone(&threads.all[at].signal))
            });
            let Some(next) = next else { break };
            next.wake();
            if !self.is_back() {
                left.push(self.look_in(|world| world.threads.lose(&world.nodes)));
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

    fn signal_of(&self, thread: usize) -> Arc<WakeSignal> {
        self.look_in(|world| Arc::clone(&world.threads.all[thread].signal))
    }

    fn patience(&self) -> Duration {
        self.look_in(|world| world.threads.patience).unwrap_or(PATIENCE)
    }

    /// Waits for a thread to end. `false` if that lasts: it is left alone then.
    fn is_back(&self) -> bool {
        let signal = self.signal_of(0);
        let is_mine = || self.look_in(|world| world.threads.running == 0);
        for _ in 0..SLEEPS {
            if is_mine() {
                return true;
            }
            signal.sleep(self.patience() / SLEEPS);
        }
        is_mine()
    }
}

/// What a panic says.
pub(super) fn text(panic: &(dyn Any + Send)) -> &str {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)")
}

/// The present moment for the calling thread: of a thread whose node has crashed, not before what it waited for.
pub(super) fn in_dead_time(now: Instant) -> Instant {
    now.max(DEAD_TIME.get())
}

thread_local! {
    static DEAD_TIME: Cell<Instant> = const { Cell::new(Instant::from_nanos(0)) };
}

/// Thread ids have no order, so they are found by their hashes.
fn hash(id: ThreadId) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Looks at the network without a wait, while others could run.
const LOOKS_MAX: u64 = 10_000_000;
/// A wait without end that has lasted for so long is one for ever.
const STALLED: Duration = Duration::from_secs(3600);
/// How long a thread may take between two waits, in the time of the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a thread sleeps that watches no other.
const UNWATCHED: Duration = Duration::from_secs(3600);
/// Threads that a report lists.
const PRINTED: usize = 60;
/// How often it is looked meanwhile.
const SLEEPS: u32 = 100;
/// How often a thread that unwinds may wait without end in a world that is over.
const ENDLESS_MAX: u32 = 1000;
/// How often a thread that unwinds may wait after its node has crashed.
const DEAD_WAITS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests;
