//! A cluster in a unit test: ordinary programs as the nodes of a pool, in a simulated world.
//!
//! Each program runs on a thread of its own, on a simulated machine of its own, with all threads that its node starts.
//! One thread of all runs at a time, until it waits; the seed decides which one is next, and virtual time passes when
//! all of them wait. So a run repeats from its seed, and a wait of an hour takes no time. [`cluster`] has an example.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use egret_net::fabric::sim::{Sim, SimFabric};
use egret_net::rt::{self, Instant, Thread};
use egret_net::sync::Mutex;

use crate::node::{Config, Node, NodeHandle, NodeReport, wait_circle};
use crate::pool::Location;
use crate::registry::{MemoryDisk, Registry, RegistryOptions};

/// Runs `program` on each of so many nodes, until it has returned on all of them; what it returned, by rank. The pool is
/// closed. [`Cluster`] has rules: crashes, restarts, partitions, latencies.
///
/// ```
/// use egret_node::cluster;
///
/// let sizes = cluster::cluster(7, 3, |node| {
///     node.wait_all(node.deadline())?;
///     node.bind(&format!("name of {}", node.rank()), b"bytes")?;
///     let next = (node.rank() + 1) % node.size();
///     let found = node.wait_bound(&format!("name of {next}"), node.deadline())?;
///     egret_net::fabric::sim::work(std::time::Duration::from_secs(1)); // the names of a node go with it
///     Ok::<_, egret_node::node::NodeError>(found.bytes.len())
/// });
/// assert_eq!(sizes, [Ok(5), Ok(5), Ok(5)]);
/// ```
///
/// # Panics
///
/// As [`Cluster::run`].
pub fn cluster<T: Send + 'static>(
    seed: u64,
    nodes: u32,
    program: impl Fn(Node) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let results = Cluster::new(seed, nodes).run(program).results.into_iter();
    results.map(|result| result.expect("no rule crashes a node")).collect()
}

/// A simulated cluster, and rules of what happens to it and when. Times are virtual, and count from the beginning of the
/// run. The nodes have the numbers from 0 and the hosts `n0`, `n1` and so on; in a closed pool the number of a node is
/// its rank.
///
/// ```
/// use std::time::Duration;
/// use egret_node::cluster::Cluster;
/// use egret_node::node::Event;
///
/// let run = Cluster::new(1, 3).crash(2, Duration::from_secs(5)).run(|node| {
///     let mut events = node.events();
///     loop {
///         if let Event::Died { node, .. } = events.wait_next(Duration::from_secs(60)).unwrap() {
///             break node.rank;
///         }
///     }
/// });
/// assert_eq!(run.results, [Some(2), Some(2), None]);
/// ```
#[must_use = "nothing runs before `run`"]
pub struct Cluster {
    seed: u64,
    nodes: u32,
    is_open: bool,
    sites: Vec<(String, Vec<u32>)>,
    network: Vec<NetworkRule>,
    plans: Vec<(Duration, ClusterPlan)>,
    config: ConfigChange,
    limit: Duration,
    patience: Duration,
}

type NetworkRule = Box<dyn FnOnce(&SimFabric)>;
type ConfigChange = Arc<dyn Fn(Config) -> Config + Send + Sync>;

/// Something that happens to a cluster.
#[derive(Debug, Clone)]
enum ClusterPlan {
    Start(u32),
    Crash(u32),
    Restart(u32),
    CrashRegistry,
    RestartRegistry,
    Part(Vec<u32>, Vec<u32>),
    Rejoin(Vec<u32>, Vec<u32>),
}

/// What came of a run of a [`Cluster`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterRun<T> {
    /// What the program returned on each node, by the node's number; after a restart, what the last life returned.
    /// `None` for a node that crashed before its program returned.
    pub results: Vec<Option<T>>,
    /// How long the run took in virtual time.
    pub elapsed: Duration,
    /// A number over everything that happened: equal for equal runs.
    pub digest: u64,
}

impl Cluster {
    /// A cluster of so many nodes, which form a closed pool. All that is random in the run comes from the seed.
    pub fn new(seed: u64, nodes: u32) -> Self {
        Self {
            seed,
            nodes,
            is_open: false,
            sites: Vec::new(),
            network: Vec::new(),
            plans: Vec::new(),
            config: Arc::new(|config| config),
            limit: LIMIT,
            patience: PATIENCE,
        }
    }

    /// The pool is open: a node's rank is its number in the order of joining, and a node that was restarted is another
    /// member. In a closed pool it has the same rank in another incarnation.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_net::fabric::sim::work;
    /// use egret_node::cluster::Cluster;
    ///
    /// let seconds = Duration::from_secs;
    /// let cluster = Cluster::new(1, 2).open().crash(1, seconds(5)).restart(1, seconds(20));
    /// let run = cluster.run(move |node| {
    ///     work(seconds(60));
    ///     node.rank()
    /// });
    /// assert_eq!(run.results[1], Some(2), "the third that has joined");
    /// ```
    pub fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Puts nodes into a site, for [latencies](Self::latency); the site is a part of their
    /// [location](crate::topology::Location). The registry is where node 0 is.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_node::cluster::Cluster;
    ///
    /// let cluster = Cluster::new(1, 2).site("north", [0]).site("south", [1]);
    /// let run = cluster.latency("north", "south", Duration::from_millis(40)).run(|node| {
    ///     let started = egret_net::rt::now();
    ///     node.bound("a name").expect("an answer of the registry");
    ///     egret_net::rt::now() - started
    /// });
    /// assert!(run.results[1] >= Some(Duration::from_millis(80)), "there and back: {run:?}");
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn site(mut self, name: &str, nodes: impl IntoIterator<Item = u32>) -> Self {
        let nodes = self.known(nodes);
        self.sites.push((name.to_owned(), nodes));
        self
    }

    /// Messages between nodes of two sites take so long in each direction, or between nodes of one site, instead of
    /// 10 µs. [`site`](Self::site) has an example.
    pub fn latency(self, site: &str, other: &str, latency: Duration) -> Self {
        let (site, other) = (site.to_owned(), other.to_owned());
        self.network(move |sim| {
            sim.sites(&site, &other).latency(latency);
        })
    }

    /// Applies rules of the network before the run begins, as loss.
    ///
    /// ```
    /// use egret_node::cluster::Cluster;
    ///
    /// let cluster = Cluster::new(1, 2).network(|sim| {
    ///     sim.links().loss(0.01);
    /// });
    /// assert_eq!(cluster.run(|node| node.size()).results, [Some(2), Some(2)]);
    /// ```
    pub fn network(mut self, rules: impl FnOnce(&SimFabric) + 'static) -> Self {
        self.network.push(Box::new(rules));
        self
    }

    /// The program of a node begins at this time, instead of at the beginning of the run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_node::cluster::Cluster;
    ///
    /// let late = Duration::from_secs(5);
    /// let run = Cluster::new(3, 2).open().start(1, late).run(|node| {
    ///     let mut events = node.events();
    ///     while node.size() < 2 {
    ///         events.wait_next(Duration::from_secs(60)).unwrap();
    ///     }
    ///     egret_net::rt::sleep(Duration::from_secs(1)); // the other one sees it, too
    ///     egret_net::rt::now() - egret_net::rt::Instant::default()
    /// });
    /// assert!(run.results.iter().all(|at| at.is_some_and(|at| at > late)));
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn start(mut self, node: u32, at: Duration) -> Self {
        let node = self.known([node])[0];
        self.plans.push((at, ClusterPlan::Start(node)));
        self
    }

    /// The machine of a node crashes at this time: its program and all its threads end, without a word to the others.
    /// [`Cluster`] has an example.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn crash(mut self, node: u32, at: Duration) -> Self {
        let node = self.known([node])[0];
        self.plans.push((at, ClusterPlan::Crash(node)));
        self
    }

    /// The machine of a node that [crashes](Self::crash) before starts again at this time, and the program begins anew.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_net::fabric::sim::work;
    /// use egret_node::cluster::Cluster;
    ///
    /// let seconds = Duration::from_secs;
    /// let run = Cluster::new(1, 2).crash(1, seconds(5)).restart(1, seconds(20)).run(move |node| {
    ///     work(seconds(60));
    ///     (node.rank(), node.id().incarnation)
    /// });
    /// assert_eq!(run.results[1], Some((1, 3)), "the third life of the pool");
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn restart(mut self, node: u32, at: Duration) -> Self {
        let node = self.known([node])[0];
        self.plans.push((at, ClusterPlan::Restart(node)));
        self
    }

    /// The machine of the registry crashes at this time. Unless a rule [restarts](Self::restart_registry) it, the nodes
    /// have lost their registry then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_node::cluster::Cluster;
    ///
    /// let seconds = Duration::from_secs;
    /// let cluster = Cluster::new(1, 2).crash_registry(seconds(1)).restart_registry(seconds(3));
    /// let run = cluster.run(move |node| {
    ///     egret_net::fabric::sim::work(seconds(2));
    ///     node.bind(&format!("node {}", node.rank()), b"") // waits for the registry
    /// });
    /// assert_eq!(run.results, [Some(Ok(())), Some(Ok(()))]);
    /// ```
    pub fn crash_registry(mut self, at: Duration) -> Self {
        self.plans.push((at, ClusterPlan::CrashRegistry));
        self
    }

    /// The registry that [crashes](Self::crash_registry) before starts again at this time with what was on its disk, as
    /// one with a [state](RegistryOptions::state) directory. [`crash_registry`](Self::crash_registry) has an example.
    pub fn restart_registry(mut self, at: Duration) -> Self {
        self.plans.push((at, ClusterPlan::RestartRegistry));
        self
    }

    /// Nothing gets from one side to the other, either way, between these two times. The registry is on neither side;
    /// [`network`](Self::network) can cut it off, by its host `registry`. So no node is declared dead. What the nodes
    /// send to each other waits; a link without an answer for five seconds ends.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_net::fabric::sim::work;
    /// use egret_node::cluster::Cluster;
    ///
    /// let seconds = Duration::from_secs;
    /// let run = Cluster::new(1, 2).partition([0], [1], seconds(1), seconds(20)).run(move |node| {
    ///     work(seconds(10));
    ///     let members = node.members().len();
    ///     work(seconds(20));
    ///     members
    /// });
    /// assert_eq!(run.results, [Some(2), Some(2)]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn partition(
        mut self,
        one: impl IntoIterator<Item = u32>,
        other: impl IntoIterator<Item = u32>,
        from: Duration,
        to: Duration,
    ) -> Self {
        let (one, other) = (self.known(one), self.known(other));
        self.plans.push((from, ClusterPlan::Part(one.clone(), other.clone())));
        self.plans.push((to, ClusterPlan::Rejoin(one, other)));
        self
    }

    /// Changes the configuration by which each node joins.
    ///
    /// ```
    /// use std::time::Duration;
    /// use egret_net::rt::Deadline;
    /// use egret_node::cluster::Cluster;
    ///
    /// let minute = Duration::from_secs(60);
    /// let cluster = Cluster::new(1, 2).config(move |config| config.deadline(minute));
    /// let run = cluster.run(|node| node.deadline());
    /// assert_eq!(run.results, [Some(Deadline::In(minute)); 2]);
    /// ```
    pub fn config(mut self, change: impl Fn(Config) -> Config + Send + Sync + 'static) -> Self {
        self.config = Arc::new(change);
        self
    }

    /// The run may take so much virtual time, instead of one hour.
    ///
    /// ```should_panic
    /// use std::time::Duration;
    /// use egret_net::fabric::sim::work;
    /// use egret_node::cluster::Cluster;
    ///
    /// let cluster = Cluster::new(1, 2).limit(Duration::from_secs(10));
    /// cluster.run(|_| work(Duration::from_secs(60))); // panics after ten seconds of virtual time
    /// ```
    pub const fn limit(mut self, time: Duration) -> Self {
        self.limit = time;
        self
    }

    /// A thread may take so long between two waits, in real time, instead of ten seconds.
    #[doc(hidden)]
    pub const fn patience(mut self, real: Duration) -> Self {
        self.patience = real;
        self
    }

    /// Runs `program` on each node, until it has returned on all of them. A node joins before its program begins, and
    /// leaves when the program drops it.
    ///
    /// Threads that a program starts by [`rt::spawn`] belong to its machine. A program must start
    /// no others, and wait for others by no other means than those of this crate and of `rt`; a lock that it holds
    /// while it waits is one that no other thread may want meanwhile.
    ///
    /// # Panics
    ///
    /// With the seed, what each node waits for, and what happened last, if a program panics, which is named; if a node
    /// cannot join; if the run takes longer than its [limit](Self::limit), or nothing can happen any more; if a thread,
    /// which is named, neither waits nor ends for ten seconds of real time, because it computes, or because it wants a
    /// lock that a thread which waits has. Also if a rule restarts a node, or the registry, that has not crashed.
    pub fn run<T: Send + 'static>(
        self,
        program: impl Fn(Node) -> T + Send + Sync + 'static,
    ) -> ClusterRun<T> {
        let sim = Sim::new(self.seed);
        let (seed, running) = (self.seed, Arc::new(RunningNodes::default()));
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_in(&sim, &running, Arc::new(program))));
        let said = match (ran, sim.panicked()) {
            (Ok(run), None) => return run,
            (_, Some(said)) => said,
            (Err(panic), None) => text(&*panic).to_owned(),
        };
        // A thread that has kept its turn still runs.
        let waits = if sim.has_stuck_thread() { String::new() } else { running.waits() };
        let report = format!("{waits}{}", sim.report());
        let left = catch_unwind(AssertUnwindSafe(|| drop(sim))).err();
        let left = left.map_or_else(String::new, |left| format!("\n{}", text(&*left)));
        panic!("{said}{left}\nthe cluster of seed {seed} failed\n{report}");
    }

    fn known(&self, nodes: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let nodes: Vec<_> = nodes.into_iter().collect();
        let unknown = nodes.iter().find(|node| **node >= self.nodes);
        assert!(
            unknown.is_none(),
            "there is no node {} in a cluster of {} nodes, which are numbered from 0",
            unknown.copied().unwrap_or_default(),
            self.nodes
        );
        nodes
    }

    fn run_in<T: Send + 'static, P: Fn(Node) -> T + Send + Sync + 'static>(
        self,
        sim: &Sim,
        running: &Arc<RunningNodes>,
        program: Arc<P>,
    ) -> ClusterRun<T> {
        sim.background();
        sim.set_patience(self.patience);
        // Rules name them before their programs begin.
        (0..self.nodes).for_each(|node| sim.on_node(&host(node), || ()));
        sim.on_node(REGISTRY, || ());
        for (site, nodes) in &self.sites {
            nodes.iter().for_each(|node| sim.put_into_site(&host(*node), site));
            if nodes.contains(&0) {
                sim.put_into_site(REGISTRY, site);
            }
        }
        self.network.into_iter().for_each(|rules| rules(sim));
        let options = match self.is_open {
            true => RegistryOptions::open(POOL),
            false => RegistryOptions::new(POOL, self.nodes),
        };
        let restarts = |(_, plan): &(_, ClusterPlan)| matches!(plan, ClusterPlan::RestartRegistry);
        let disk = self.plans.iter().any(restarts).then(MemoryDisk::default);
        let registry = RegistryMachine { options, disk, lives: Mutex::default() };
        registry.start(sim);
        let mut site_of = vec![String::new(); self.nodes as usize];
        for (site, nodes) in &self.sites {
            nodes.iter().for_each(|node| site_of[*node as usize].clone_from(site));
        }
        let restarts =
            self.plans.iter().filter(|(_, plan)| matches!(plan, ClusterPlan::Restart(_)));
        let programs = Arc::new(Programs {
            registry,
            is_open: self.is_open,
            site_of,
            config: self.config,
            program,
            first: rt::current(),
            running: Arc::clone(running),
            state: Mutex::new(ProgramsState {
                lives: vec![ProgramLife::Runs; self.nodes as usize],
                results: (0..self.nodes).map(|_| None).collect(),
                left: self.nodes as usize + restarts.count(),
            }),
        });
        let late = self.plans.iter().filter_map(|(_, plan)| match plan {
            ClusterPlan::Start(node) => Some(*node),
            _ => None,
        });
        let late: BTreeSet<u32> = late.collect();
        late.iter().for_each(|node| _ = programs.set_life(*node, ProgramLife::Waits));
        for (at, plan) in self.plans {
            let programs = Arc::clone(&programs);
            sim.at(at, move |sim| programs.carry_out(sim, plan));
        }
        let first = (0..self.nodes).filter(|node| !late.contains(node));
        first.for_each(|node| programs.start(sim, node));
        programs.wait(sim, self.limit);
        if let Some(said) = sim.panicked() {
            resume_unwind(Box::new(said)); // while the others wait for what they have waited for
        }
        let elapsed = sim.elapsed();
        let results = std::mem::take(&mut programs.state.lock().results);
        programs.registry.end();
        ClusterRun { results, elapsed, digest: sim.digest() }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, sites, plans, .. } = self;
        f.debug_struct("Cluster")
            .field("seed", seed)
            .field("nodes", nodes)
            .field("sites", sites)
            .field("plans", plans)
            .finish_non_exhaustive()
    }
}

/// The machine of the registry.
struct RegistryMachine {
    options: RegistryOptions,
    /// Where the registry keeps its state, if a rule starts it again.
    disk: Option<MemoryDisk>,
    /// The registries that have run here: all but the last one have crashed.
    lives: Mutex<RegistryLives>,
}

#[derive(Default)]
struct RegistryLives {
    all: Vec<Registry>,
    is_up: bool,
}

impl RegistryMachine {
    fn start(&self, sim: &SimFabric) {
        let (nic, options) = (sim.nic(REGISTRY), self.options.clone());
        let open = || match &self.disk {
            Some(disk) => Registry::in_memory(nic, options, disk),
            None => Registry::over(nic, options),
        };
        let before = std::mem::replace(&mut self.lives.lock().is_up, true);
        assert!(!before, "a rule restarts the registry, which has not crashed");
        let opened = sim.on_node(REGISTRY, open).expect("the registry of a cluster");
        self.lives.lock().all.push(opened);
    }

    fn crash(&self, sim: &SimFabric) {
        sim.crash(REGISTRY);
        self.disk.iter().for_each(MemoryDisk::take);
        self.lives.lock().is_up = false;
    }

    /// The run is over.
    fn end(&self) {
        let lives = std::mem::take(&mut *self.lives.lock());
        drop(lives);
    }
}

/// The programs of a cluster.
struct Programs<T, P> {
    registry: RegistryMachine,
    is_open: bool,
    site_of: Vec<String>,
    config: ConfigChange,
    program: Arc<P>,
    /// The thread that waits for all.
    first: Thread,
    running: Arc<RunningNodes>,
    state: Mutex<ProgramsState<T>>,
}

/// The nodes whose programs run, by the numbers of the machines.
#[derive(Default)]
struct RunningNodes(Mutex<BTreeMap<u32, NodeHandle>>);

impl RunningNodes {
    /// What the threads of each node wait for, and the circle of waits if there is one.
    fn waits(&self) -> String {
        let nodes = self.0.lock().clone();
        let reports: BTreeMap<u32, NodeReport> =
            nodes.iter().map(|(machine, node)| (*machine, node.report())).collect();
        let mut text = String::new();
        for (machine, report) in &reports {
            for wait in report.waits.iter().filter(|wait| !wait.is_idle()) {
                text += &format!("{} ({}): {wait}\n", host(*machine), report.node);
            }
        }
        let circle = wait_circle(&reports.into_values().collect::<Vec<_>>());
        if let Some(first) = circle.first() {
            let nodes: Vec<_> = circle.iter().chain([first]).map(ToString::to_string).collect();
            text += &format!("circle of waits: {}\n", nodes.join(" → "));
        }
        text
    }
}

struct ProgramsState<T> {
    lives: Vec<ProgramLife>,
    results: Vec<Option<T>>,
    /// Lives that are to end, those of restarts included.
    left: usize,
}

/// What the program of a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramLife {
    /// It begins later.
    Waits,
    Runs,
    Returned,
    Crashed,
}

impl<T: Send + 'static, P: Fn(Node) -> T + Send + Sync + 'static> Programs<T, P> {
    /// Starts the program of a node, on the node's machine.
    fn start(self: &Arc<Self>, sim: &SimFabric, node: u32) {
        let (programs, world) = (Arc::clone(self), sim.clone());
        let run = move || {
            let config = programs.config(node).over(world.nic(&host(node)));
            let joined = Node::join((programs.config)(config));
            let joined = joined.unwrap_or_else(|why| panic!("node {node} cannot join: {why}"));
            programs.running.0.lock().insert(node, joined.handle());
            let result = (programs.program)(joined);
            programs.returned(node, result);
        };
        let started = sim.on_node(&host(node), || rt::spawn(&host(node), run));
        if let Err(why) = started {
            panic!("no thread for the program of node {node}: {why}");
        }
    }

    fn config(&self, node: u32) -> Config {
        let site = self.site_of[node as usize].clone();
        let location = Location { host: host(node), site, ..Location::default() };
        let config = Config::new(POOL).registry(REGISTRY).location(&location).receives(RECEIVES);
        if self.is_open { config } else { config.rank(node) }
    }

    fn returned(&self, node: u32, result: T) {
        let handle = self.running.0.lock().remove(&node);
        drop(handle);
        let mut state = self.state.lock();
        state.lives[node as usize] = ProgramLife::Returned;
        state.results[node as usize] = Some(result);
        state.left -= 1;
        drop(state);
        self.first.unpark();
    }

    /// Sets what the program of a node does; returns what it did before.
    fn set_life(&self, node: u32, life: ProgramLife) -> ProgramLife {
        std::mem::replace(&mut self.state.lock().lives[node as usize], life)
    }

    fn carry_out(self: &Arc<Self>, sim: &SimFabric, plan: ClusterPlan) {
        match plan {
            ClusterPlan::Crash(node) => {
                sim.crash(&host(node));
                let handle = self.running.0.lock().remove(&node);
                drop(handle);
                let before = self.set_life(node, ProgramLife::Crashed);
                if matches!(before, ProgramLife::Waits | ProgramLife::Runs) {
                    self.state.lock().left -= 1;
                    self.first.unpark();
                }
            }
            ClusterPlan::Start(node) => {
                let before = self.set_life(node, ProgramLife::Runs);
                assert!(
                    before == ProgramLife::Waits,
                    "a rule starts node {node}, which was started or has crashed before"
                );
                self.start(sim, node);
            }
            ClusterPlan::Restart(node) => {
                let before = self.set_life(node, ProgramLife::Runs);
                assert!(
                    before == ProgramLife::Crashed,
                    "a rule restarts node {node}, which has not crashed"
                );
                self.start(sim, node);
            }
            ClusterPlan::CrashRegistry => self.registry.crash(sim),
            ClusterPlan::RestartRegistry => self.registry.start(sim),
            ClusterPlan::Part(one, other) => between(&one, &other, |a, b| sim.partition(a, b)),
            ClusterPlan::Rejoin(one, other) => between(&one, &other, |a, b| sim.reconnect(a, b)),
        }
    }

    /// Waits until all programs have returned.
    fn wait(&self, sim: &Sim, limit: Duration) {
        let until = Instant::default() + limit;
        loop {
            let left = self.state.lock().left;
            if sim.panicked().is_some() || left == 0 {
                return;
            }
            if rt::now() >= until {
                let said = format!(
                    "{left} programs have not returned after {limit:?} of virtual time:\n{}",
                    sim.waiting()
                );
                resume_unwind(Box::new(said)); // `run` says it, with what the nodes wait for
            }
            rt::park(Some(until));
        }
    }
}

/// Calls `does` with the hosts of both sides.
fn between(one: &[u32], other: &[u32], does: impl FnOnce(&[&str], &[&str])) {
    let hosts = |nodes: &[u32]| nodes.iter().map(|node| host(*node)).collect::<Vec<_>>();
    let (one, other) = (hosts(one), hosts(other));
    does(&texts(&one), &texts(&other));
}

fn texts(hosts: &[String]) -> Vec<&str> {
    hosts.iter().map(String::as_str).collect()
}

fn host(node: u32) -> String {
    format!("n{node}")
}

/// What a panic says.
fn text(panic: &(dyn Any + Send)) -> &str {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)")
}

/// The host of the registry.
const REGISTRY: &str = "registry";
const POOL: &str = "cluster";
/// Receives that each connection has posted. Each takes half a KiB, and a large cluster has many connections.
const RECEIVES: u32 = 16;
/// Virtual time that a run may take.
const LIMIT: Duration = Duration::from_secs(3600);
/// Real time that a thread may take between two waits.
const PATIENCE: Duration = Duration::from_secs(10);
