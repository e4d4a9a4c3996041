//! `sim`: a seeded network in virtual time.
//!
//! Nodes, links and faults live in one [`Sim`]. Its clock stands still while
//! the program runs and moves when the program waits: a wait on any nic
//! carries out the next event. The same seed gives the same run, and
//! [`check`] runs a scenario over many seeds and reports the one that fails,
//! with the last things that happened.
//!
//! All nodes may run on one thread: start what waits for the other side first (a
//! posted receive, [`Nic::connect`](crate::vi::Nic::connect)) and wait for it
//! later, or write each side as a future and drive both. Threads that are
//! [spawned](rt::spawn) inside belong to the world: one of them runs at a time,
//! until it waits or ends, and the seed decides who is next. A wait on a thread
//! of another world panics. So does a wait without end for something that nothing
//! under way can bring, with the seed, the trace and who waits: that would be a hang.
//!
//! ```
//! use std::time::Duration;
//! use egret_net::fabric::sim::Sim;
//! use egret_net::rt::Deadline;
//! use egret_net::vi::{Address, ConnectError, ViOptions};
//!
//! let sim = Sim::new(42);
//! let (a, b) = (sim.nic("a"), sim.nic("b"));
//! sim.link("a", "b").latency(Duration::from_millis(3)).loss(0.02);
//! sim.at(Duration::from_secs(1), |sim| sim.crash("b"));
//!
//! let to = Address::new("b", "nobody home", 0);
//! let options = ViOptions::default();
//! let refused = a.wait_connect(&to, &options, Deadline::In(Duration::from_secs(2))).unwrap_err();
//! assert!(matches!(refused, ConnectError::NotListening { .. }), "{refused}");
//! assert_eq!(sim.elapsed().as_secs(), 2);
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `nic.rs`, `machine.rs` | a nic, which belongs to a node |
//! | `world.rs`, `node.rs`, `deferred.rs` | the world, which drives all nics: its nodes, its clock, its events |
//! | `rules.rs`, `rng.rs` | what the network does to frames |
//! | `clock.rs` | the world's time, as a nic knows it |
//! | `threads.rs` | threads, of which one runs at a time |
//! | `seeds.rs`, `trace.rs` | runs over many seeds, and the report of one that fails |
//! | `acceptor.rs`, `connector.rs` | inbound and outbound connections that are being made |
//! | `connection.rs` | a connection, being made, open or over |
//! | `datapath.rs`, `send.rs`, `recv.rs`, `eager.rs` | post and arrive, without clock or I/O |
//! | `wire.rs` | what travels between nodes |

mod acceptor;
mod clock;
mod connection;
mod connector;
mod datapath;
mod deferred;
mod eager;
mod fault;
mod machine;
mod nic;
mod node;
mod recv;
mod rng;
mod rules;
mod seeds;
mod send;
mod threads;
mod trace;
mod wire;
mod world;

use std::any::Any;
use std::io::{self, Write};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use deferred::ScheduledAction;
#[doc(hidden)]
pub use fault::Fault;
use machine::SimMachine;
pub use rules::LinkRules;
pub use seeds::{check, count, seed_from_env, seeds};
use wire::SimNodeId;
use world::{SimWorld, WorldEvent};

use crate::fabric::{self, EventCount, Fabric, OpenError, window};
use crate::rt::{self, Instant};
use crate::vi::{Nic, NicOptions, Wait};

/// A simulated network that the calling thread is inside of: [`rt::now`] and
/// its like answer for it until this is dropped. Other fabrics cannot be waited for on that
/// thread meanwhile: their deadlines would be in simulated time, which stands still.
/// The [module](self) has an example.
#[derive(Debug)]
pub struct Sim {
    fabric: SimFabric,
    _entered: rt::EnteredRuntime,
}

impl Sim {
    /// A world with nothing in it. Everything random in it comes from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let fabric = SimFabric(Arc::new(Mutex::new(SimWorld::new(seed))));
        let _entered = rt::enter(Arc::new(fabric.clone()));
        Self { fabric, _entered }
    }
}

/// Whatever panics inside a world leaves word of its seed and of what happened. Its threads end.
impl Drop for Sim {
    fn drop(&mut self) {
        self.end_threads();
        if std::thread::panicking() {
            let _ = writeln!(io::stderr(), "{}", self.report());
        }
    }
}

impl Deref for Sim {
    type Target = SimFabric;

    fn deref(&self) -> &SimFabric {
        &self.fabric
    }
}

/// A simulated network. Clones are handles to the same one.
/// [`Fabrics`](crate::fabric::Fabrics), of which it is one, has an example.
#[derive(Debug, Clone)]
pub struct SimFabric(Arc<Mutex<SimWorld>>);

impl Default for SimFabric {
    /// Seeded by `EGRET_SEED`, or at random.
    fn default() -> Self {
        let seed = seed_from_env().unwrap_or_else(rt::random);
        Self(Arc::new(Mutex::new(SimWorld::new(seed))))
    }
}

impl Fabric for SimFabric {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
        Ok(Nic::new(Box::new(nic::open(self, options)?), options.wait))
    }
}

impl rt::Runtime for SimFabric {
    fn now(&self) -> Instant {
        self.now()
    }

    fn park(&self, until: Option<Instant>) {
        self.step(None, until);
    }

    fn random(&self) -> u64 {
        self.with(|world| world.rng.next())
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<rt::Thread> {
        self.start(name, body)
    }

    fn unpark(&self, thread: ThreadId) {
        self.end_park(thread);
    }

    fn panicked(&self, why: &(dyn Any + Send)) {
        self.has_panicked(why);
    }

    fn has_background(&self) -> bool {
        self.look_in(|world| world.threads.has_background)
    }
}

impl SimFabric {
    /// Like [`nic`](Self::nic), with a [window] that repeats what the links
    /// lose, where [`nic`](Self::nic) repeats by itself.
    #[must_use]
    pub fn windowed_nic(&self, name: &str) -> Nic {
        Nic::new(window::over(Box::new(self.machine(name))), Wait::default())
    }

    /// The nic of a node; the node comes up if it is not, and goes down with
    /// the last handle to its nic.
    #[must_use]
    pub fn nic(&self, name: &str) -> Nic {
        Nic::new(Box::new(self.machine(name)), Wait::default())
    }

    fn machine(&self, name: &str) -> SimMachine {
        self.with(|world| {
            let node = world.node(name);
            world.nodes[node].up = true;
            SimMachine::new(self, world, node)
        })
    }

    /// The rules of the link between two nodes, both ways.
    pub fn link(&self, a: &str, b: &str) -> Rule<'_> {
        let links = vec![(a.to_owned(), b.to_owned()), (b.to_owned(), a.to_owned())];
        Rule { fabric: self, scope: RuleScope::Links(links) }
    }

    /// The rules of one direction of a link.
    pub fn one_way(&self, from: &str, to: &str) -> Rule<'_> {
        Rule { fabric: self, scope: RuleScope::Links(vec![(from.to_owned(), to.to_owned())]) }
    }

    /// The rules of all links.
    pub const fn links(&self) -> Rule<'_> {
        Rule { fabric: self, scope: RuleScope::All }
    }

    /// Puts a node into a site: for rules [between sites](Self::sites).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let sim = egret_net::fabric::sim::Sim::new(1);
    /// sim.put_into_site("a", "north");
    /// sim.put_into_site("b", "south");
    /// sim.sites("north", "south").latency(Duration::from_millis(40));
    /// ```
    pub fn put_into_site(&self, node: &str, site: &str) {
        self.look_in(|world| {
            let node = world.node(node);
            world.rules.put_into_site(node, site);
        });
    }

    /// The rules of all links between nodes of two sites, both ways, or within one site if both names are the same; a
    /// link with rules of its own keeps them. [`put_into_site`](Self::put_into_site) has an example.
    pub fn sites(&self, one: &str, other: &str) -> Rule<'_> {
        Rule { fabric: self, scope: RuleScope::Sites(one.to_owned(), other.to_owned()) }
    }

    /// How long a whole message lies in the receiver's fabric before it lies in
    /// the posted memory: what tells reliable delivery from reliable reception.
    pub fn placement(&self, duration: Duration) {
        self.with(|world| world.placement = duration);
    }

    /// Nodes that are made from now on have threads of their own, as in the real world: those in the
    /// background, and workers. They belong to this world, as all that is [spawned](rt::spawn) in it. A wait on a nic
    /// ends by what happens at that nic, where without such threads it ends by what happens at any.
    pub fn background(&self) {
        self.look_in(|world| world.threads.has_background = true);
    }

    /// Threads that are [spawned](rt::spawn) in this world and have not ended.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.look_in(|world| world.threads.spawned())
    }

    /// Nothing gets from one node to the other, this way only.
    pub fn cut(&self, from: &str, to: &str) {
        self.with(|world| {
            let (from, to) = (world.known(from), world.known(to));
            world.note("cut", from, to);
            world.rules.cut(from, to);
        });
    }

    /// Nothing gets from one side to the other, either way.
    pub fn partition(&self, one: &[&str], other: &[&str]) {
        for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
            self.cut(a, b);
            self.cut(b, a);
        }
    }

    /// The [cuts](Self::cut) between two sides end, both ways; those to other nodes stay, where [`heal`](Self::heal)
    /// ends all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_net::fabric::sim::Sim;
    /// use egret_net::rt::Deadline;
    /// use egret_net::vi::{Address, ViOptions};
    ///
    /// let sim = Sim::new(1);
    /// let (a, b) = (sim.nic("a"), sim.nic("b"));
    /// let (listener, to) = (b.listen("echo", 0, &ViOptions::default())?, Address::new("b", "echo", 0));
    /// sim.partition(&["a"], &["b"]);
    /// sim.at(Duration::from_secs(2), |sim| sim.reconnect(&["a"], &["b"]));
    /// let connecting = a.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
    /// let _both = (listener.wait_accept(Deadline::DEFAULT)?, a.block_on(connecting)?);
    /// assert!(sim.elapsed() >= Duration::from_secs(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconnect(&self, one: &[&str], other: &[&str]) {
        self.with(|world| {
            for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                let (a, b) = (world.known(a), world.known(b));
                world.note("reconnect", a, b);
                world.rules.reconnect(a, b);
            }
        });
    }

    /// All cuts and partitions end.
    pub fn heal(&self) {
        self.with(|world| {
            world.note("heal", 0, 0);
            world.rules.heal();
        });
    }

    /// The node is gone at once: its own descriptors come back as failed, its
    /// peers find out for themselves.
    pub fn crash(&self, name: &str) {
        self.with(|world| {
            let node = world.known(name);
            world.note("crash", node, node);
            world.threads.crash(node);
            world.crash(node);
        });
    }

    /// Runs `body` as a part of a node: the threads that it [spawns](rt::spawn), and those that these spawn, are of that
    /// node. They end when it [crashes](Self::crash), each at its next wait.
    #[doc(hidden)]
    pub fn on_node<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        let before = self.look_in(|world| {
            let node = world.node(name);
            world.threads.move_to((Some(node), false))
        });
        let result = body();
        self.look_in(|world| world.threads.move_to(before));
        result
    }

    /// Lets a thread take so long between two waits, in the time of the machine.
    #[doc(hidden)]
    pub fn set_patience(&self, real: Duration) {
        self.look_in(|world| world.threads.patience = Some(real));
    }

    /// The threads that run or wait, and until when.
    #[doc(hidden)]
    #[must_use]
    pub fn waiting(&self) -> String {
        self.look_in(|world| world.threads.print(&world.nodes))
    }

    /// Whether a thread has kept its turn for too long: it may still run.
    #[doc(hidden)]
    #[must_use]
    pub fn has_stuck_thread(&self) -> bool {
        self.look_in(|world| world.threads.has_stuck())
    }

    /// What the first thread that panicked did so with, if one did.
    #[doc(hidden)]
    #[must_use]
    pub fn panicked(&self) -> Option<String> {
        self.panic_of_thread()
    }

    /// A crashed node comes up again, knowing nothing, before any process has
    /// opened a nic there: peers are refused instead of left without an answer.
    pub fn restart(&self, name: &str) {
        self.with(|world| {
            let node = world.known(name);
            world.note("restart", node, node);
            world.nodes[node].up = true;
        });
    }

    /// Does something when this much time has passed since the world began.
    pub fn at(&self, elapsed: Duration, action: impl FnOnce(&Self) + Send + 'static) {
        let at = Instant::default() + elapsed;
        self.with(|world| world.schedule(at, WorldEvent::Plan(ScheduledAction(Box::new(action)))));
    }

    /// Does something right before event number `event`; see [`events`](Self::events).
    pub fn at_event(&self, event: u64, action: impl FnOnce(&Self) + Send + 'static) {
        self.with(|world| world.plan_at_event(event, ScheduledAction(Box::new(action))));
    }

    /// Plants a fault; see [`Fault`].
    #[cfg(any(test, feature = "conformance"))]
    pub fn plant(&self, fault: Fault) {
        self.with(|world| world.planted = Some(fault));
    }

    /// Events carried out so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.with(|world| world.events)
    }

    /// Virtual time since the world began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now() - Instant::default()
    }

    /// Lets the world go on until this much time has passed since it began.
    pub fn run_until(&self, elapsed: Duration) {
        let until = Instant::default() + elapsed;
        while self.now() < until {
            self.step(None, Some(until));
        }
    }

    /// A number over everything that happened: equal for equal runs.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.with(|world| world.trace.digest())
    }

    /// The seed, the clock, and what happened last.
    #[must_use]
    pub fn report(&self) -> String {
        self.with(|world| {
            let SimWorld { seed, now, events, .. } = world;
            let trace = world.trace.print(|node| world.nodes[node].name.to_string());
            format!("seed {seed}, {now:?} passed, {events} events; the last of them:\n{trace}")
        })
    }

    fn now(&self) -> Instant {
        threads::in_dead_time(self.look_in(|world| world.now))
    }

    /// Works on the world under its lock, then runs what that set free.
    fn with<R>(&self, work: impl FnOnce(&mut SimWorld) -> R) -> R {
        let (result, after) = self.look_in(|world| {
            let result = work(world);
            world.count_left(None);
            world.is_counted = false;
            (result, std::mem::take(&mut world.after))
        });
        after.run(self);
        result
    }

    /// Works on the world for a nic that is locked: what that sets free is left to `after`.
    fn work<R>(
        &self,
        (node, after): (SimNodeId, &mut fabric::After),
        work: impl FnOnce(&mut SimWorld) -> R,
    ) -> R {
        self.look_in(|world| {
            let result = work(world);
            world.count_left(Some(node));
            world.is_counted = false;
            world.after.told.move_to(after);
            result
        })
    }

    /// Works on the world where nothing is set free.
    fn look_in<R>(&self, work: impl FnOnce(&mut SimWorld) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries out the next event due by `until`, or moves the clock there;
    /// nothing if more has happened than was seen.
    fn step(&self, seen: Option<(SimNodeId, EventCount)>, until: Option<Instant>) {
        if !self.look_in(|world| world.threads.is_alone()) {
            return self.give_way(seen, until);
        }
        let stalled = self.with(|world| {
            if seen.is_some_and(|(node, seen)| seen != world.happened_at(node)) {
                return false;
            }
            let stepped = world.step(until);
            match until {
                None => !stepped || world.is_stalled(),
                Some(until) => {
                    if !stepped {
                        world.now = world.now.max(until);
                    }
                    world.seen = world.now;
                    false
                }
            }
        });
        if stalled {
            let report = self.report();
            panic!("everybody waits and nothing will happen; {report}");
        }
    }
}

/// Spends so much virtual time, as a program does that computes for so long: in virtual time, computing takes none. The
/// thread does not count as one that waits. Outside of a simulated world, where computing takes time, nothing happens.
///
/// ```
/// use std::time::Duration;
/// use egret_net::fabric::sim::{Sim, work};
///
/// let sim = Sim::new(1);
/// work(Duration::from_secs(3600));
/// assert_eq!(sim.elapsed(), Duration::from_secs(3600));
/// ```
pub fn work(time: Duration) {
    if rt::is_simulated() {
        let before = rt::set_before_wait(None);
        rt::sleep(time);
        rt::set_before_wait(before);
    }
}

/// The rules of some links. Each call takes effect at once.
///
/// ```
/// use std::time::Duration;
///
/// let sim = egret_net::fabric::sim::Sim::new(1);
/// sim.link("a", "b").latency(Duration::from_millis(3)).loss(0.02);
/// sim.links().bandwidth(1_000_000);
/// ```
#[derive(Debug)]
pub struct Rule<'a> {
    fabric: &'a SimFabric,
    scope: RuleScope,
}

/// The links that a rule is for.
#[derive(Debug)]
enum RuleScope {
    All,
    Links(Vec<(String, String)>),
    /// Those between two sites.
    Sites(String, String),
}

impl Rule<'_> {
    /// See [`LinkRules::latency`].
    pub fn latency(self, latency: Duration) -> Self {
        self.set(|link| link.latency = latency)
    }

    /// See [`LinkRules::bandwidth`].
    pub fn bandwidth(self, bytes_per_second: u64) -> Self {
        self.set(|link| link.bandwidth = bytes_per_second)
    }

    /// See [`LinkRules::loss`].
    pub fn loss(self, chance: f64) -> Self {
        self.set(|link| link.loss = chance)
    }

    /// See [`LinkRules::duplicate`].
    pub fn duplicate(self, chance: f64) -> Self {
        self.set(|link| link.duplicate = chance)
    }

    /// See [`LinkRules::reorder`].
    pub fn reorder(self, chance: f64) -> Self {
        self.set(|link| link.reorder = chance)
    }

    /// See [`LinkRules::corrupt`].
    pub fn corrupt(self, chance: f64) -> Self {
        self.set(|link| link.corrupt = chance)
    }

    fn set(self, change: impl Fn(&mut LinkRules)) -> Self {
        let mut changed = LinkRules::default();
        change(&mut changed);
        let LinkRules { loss, duplicate, reorder, corrupt, .. } = changed;
        let chances = [loss, duplicate, reorder, corrupt];
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)), "a chance is 0 to 1");
        self.fabric.with(|world| match &self.scope {
            RuleScope::All => world.rules.set_default(&change),
            RuleScope::Links(links) => {
                for (from, to) in links {
                    let (from, to) = (world.node(from), world.node(to));
                    world.rules.set(from, to, &change);
                }
            }
            RuleScope::Sites(one, other) => world.rules.set_between(one, other, &change),
        });
        self
    }
}
