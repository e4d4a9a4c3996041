//! Nodes join, leave, crash, hang, are cut off and come back, while everybody looks; so does a registry that keeps its
//! state.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::Nic;

use super::super::journal::Journal;
use super::super::{Registry, RegistryOptions};
use super::disk::TrialDisk;
use super::promises::{Promise, Promises, check_seen};
use crate::node::{Binding, Joining, Node, RegistryReply};
use crate::pool::state::PoolState;
use crate::pool::wire::LogEntry;
use crate::pool::{Event, NodeError, NodeId, View};
use crate::settings::config::Config;

/// Where a node may be.
struct Place {
    host: String,
    /// Kept while its links say farewell.
    nic: Nic,
    what: What,
    /// Until when nobody polls it.
    hangs: Option<Instant>,
    /// Something was done to it of which a node may die.
    harmed: bool,
}

enum What {
    Empty,
    Joining(Joining),
    Here(Box<Here>),
}

struct Here {
    node: Node,
    leaving: Option<RegistryReply<()>>,
    changes: Vec<RegistryReply<()>>,
    lookups: Vec<Lookup>,
    /// What the registry promises when it answers.
    promised: Vec<(Promise, RegistryReply<()>)>,
}

struct Lookup {
    /// How long the log was when it was asked.
    asked: usize,
    asking: RegistryReply<Option<Binding>>,
}

pub(super) struct Trial<'a> {
    sim: &'a Sim,
    options: RegistryOptions,
    /// `None` while the registry is down.
    registry: Option<Registry>,
    nic: Nic,
    /// Where the registry keeps its state, if it does, and until when nothing can be written there.
    disk: Option<TrialDisk>,
    full_until: Option<Instant>,
    /// When the registry is started again.
    starts: Instant,
    places: Vec<Place>,
    found: usize,
    starts_again: usize,
    promises: Promises,
}

/// Runs one; how many joined, left, died, and names that were found.
pub(super) fn run(sim: &Sim) -> [usize; 4] {
    let [joined, left, died, found, ..] = run_trial(Trial::new(sim, false), 150);
    [joined, left, died, found]
}

/// Runs one whose registry is killed and started again; how many joined, left, died, names that were found, starts of
/// the registry, and promises that were kept.
pub(super) fn run_with_restarts(sim: &Sim) -> [usize; 6] {
    run_trial(Trial::new(sim, true), 120)
}

fn run_trial(mut trial: Trial<'_>, turns: usize) -> [usize; 6] {
    for _ in 0..turns {
        trial.turn();
    }
    trial.finish();
    trial.counts()
}

fn below(below: u64) -> u64 {
    rt::random() % below
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

impl<'a> Trial<'a> {
    fn new(sim: &'a Sim, lasts: bool) -> Self {
        let size = 2 + below(4);
        sim.links().latency(Duration::from_micros(below(20_000)));
        let nic = sim.nic("registry");
        let mut options = RegistryOptions::new("trial", u32::try_from(size).unwrap());
        if lasts {
            options = options.state("memory".as_ref());
            options.is_open = below(2) == 0;
        }
        let place = |at| {
            let host = format!("n{at}");
            let nic = sim.nic(&host);
            Place { host, nic, what: What::Empty, hangs: None, harmed: false }
        };
        let mut trial = Self {
            sim,
            options,
            registry: None,
            nic,
            disk: lasts.then(TrialDisk::default),
            full_until: None,
            starts: rt::now(),
            places: (0..size).map(place).collect(),
            found: 0,
            starts_again: 0,
            promises: Promises::default(),
        };
        trial.start();
        trial
    }

    /// Starts the registry with what is on its disk.
    fn start(&mut self) {
        let kept = self.disk.as_ref().map(|disk| {
            let terms = self.options.clone().terms().unwrap();
            let opened = Journal::open(disk.open(), &terms);
            let (mut journal, state) = opened.expect("what was written whole");
            journal.snapshot_beyond(1 << 9);
            (journal, state)
        });
        let registry = Registry::serve(self.nic.clone(), self.options.clone(), kept).unwrap();
        self.registry = Some(registry);
    }

    /// Something becomes of the registry, or of its disk.
    fn harm_registry(&mut self) {
        let Some(disk) = self.disk.clone().filter(|_| self.registry.is_some()) else { return };
        match below(8) {
            0..=2 => {
                // Some questions are carried out, and not answered.
                (0..self.places.len()).for_each(|at| self.have_promised(at));
                self.pass(Duration::from_millis(below(40)));
                self.kill();
            }
            3..=4 => disk.tear(),
            5..=6 => {
                disk.set_full(true);
                self.full_until = Some(rt::now() + Duration::from_millis(below(2000)));
            }
            _ => {
                self.registry.as_ref().unwrap().close();
                self.go_down();
            }
        }
    }

    /// Kills the registry: what it has not written is lost.
    fn kill(&mut self) {
        self.sim.crash("registry");
        self.disk.iter().for_each(TrialDisk::take);
        self.go_down();
    }

    fn go_down(&mut self) {
        drop(self.registry.take());
        self.full_until = None;
        self.starts = rt::now() + Duration::from_millis(below(3000));
        // The log may be shorter than it was.
        for place in &mut self.places {
            if let What::Here(here) = &mut place.what {
                here.lookups.iter_mut().for_each(|lookup| lookup.asked = 0);
            }
        }
    }

    /// Starts the registry, kills it, or lets it write again, as it is time for.
    fn look_after_registry(&mut self) {
        let now = rt::now();
        if self.disk.as_ref().is_some_and(TrialDisk::is_torn) && self.registry.is_some() {
            self.kill();
        }
        if self.full_until.is_some_and(|until| until <= now) {
            self.full_until = None;
            self.disk.iter().for_each(|disk| disk.set_full(false));
        }
        if self.registry.is_none() && self.starts <= now {
            self.sim.crash("registry");
            self.nic = self.sim.nic("registry");
            self.start();
            self.starts_again += 1;
        }
    }

    fn turn(&mut self) {
        let at = usize::try_from(below(self.places.len() as u64)).unwrap();
        match below(60) {
            0..=19 => self.begin(at),
            20..=21 => self.leave(at),
            22 => self.drop_node(at),
            23 => self.crash(at),
            24 => self.hang(at),
            25 => self.cut(at),
            26..=27 => self.sim.heal(),
            28 => self.say_ended(at),
            29..=49 => self.ask(at),
            51..=52 => self.harm_registry(),
            53..=56 => self.have_promised(at),
            50 => self.pass(Duration::from_millis(below(6000))),
            _ => {}
        }
        self.pass(Duration::from_millis(below(60)));
    }

    fn pass(&mut self, time: Duration) {
        let end = rt::now() + time;
        while rt::now() < end {
            self.step();
        }
        self.look();
    }

    /// A new life begins at a place, with the rank that it had or any.
    fn begin(&mut self, at: usize) {
        let place = &mut self.places[at];
        match &place.what {
            What::Empty => {}
            // Some who are no members any more try again.
            What::Here(here) if here.node.fenced().is_some() && below(2) == 0 => {
                place.what = What::Empty;
            }
            _ => return,
        }
        if self.disk.is_some() {
            // Another life has another key, as processes have.
            self.sim.crash(&place.host);
        }
        (place.nic, place.harmed) = (self.sim.nic(&place.host), false);
        let config = Config::new("trial").registry("registry").over(place.nic.clone());
        let config = config.deadline(Deadline::In(Duration::from_secs(10)));
        let config = config.registry_grace(Duration::from_secs(300));
        let config = match below(2) {
            0 if !self.options.is_open => config.rank(u32::try_from(at).unwrap()),
            _ => config,
        };
        place.what = What::Joining(Node::begin_join(config).unwrap());
    }

    fn leave(&mut self, at: usize) {
        if let What::Here(here) = &mut self.places[at].what
            && here.leaving.is_none()
        {
            here.leaving = Some(here.node.begin().leave());
            self.places[at].harmed = true;
        }
    }

    fn drop_node(&mut self, at: usize) {
        self.places[at].what = What::Empty;
    }

    fn crash(&mut self, at: usize) {
        self.sim.crash(&self.places[at].host);
        self.places[at].what = What::Empty;
    }

    fn hang(&mut self, at: usize) {
        if self.places[at].hangs.is_some() {
            return;
        }
        let time = Duration::from_millis(below(20_000));
        self.places[at].hangs = Some(rt::now() + time);
        self.places[at].harmed |= time > Duration::from_millis(1500);
    }

    fn cut(&mut self, at: usize) {
        self.sim.partition(&["registry"], &[&self.places[at].host]);
        self.places[at].harmed = true;
    }

    fn say_ended(&mut self, at: usize) {
        let Some(registry) = &self.registry else { return };
        if let What::Here(here) = &self.places[at].what {
            registry.ended(here.node.rank(), "it is said to have ended");
            let id = here.node.id();
            let said =
                |entry: &LogEntry| matches!(entry, LogEntry::Died { node, .. } if *node == id);
            self.places[at].harmed |= self.log().iter().any(said);
            // Whoever has the rank now.
            let rank = id.rank;
            for place in &mut self.places {
                if let What::Here(other) = &place.what {
                    place.harmed |= other.node.rank() == rank;
                } else {
                    place.harmed = true;
                }
            }
        }
    }

    fn ask(&mut self, at: usize) {
        if self.disk.is_some() && below(2) == 0 {
            return self.have_promised(at);
        }
        let asked = self.log().len();
        let What::Here(here) = &mut self.places[at].what else { return };
        let name = format!("name {}", below(4));
        let begin = here.node.begin();
        match below(7) {
            4 => here.changes.push(begin.enter(&name)),
            5 => here.changes.push(begin.exit(&name)),
            6 => {
                let to: Vec<NodeId> = here.node.members().iter().map(|member| member.id).collect();
                here.changes.push(begin.signal(&to, name.as_bytes()));
            }
            0 => here.changes.push(begin.bind(&name, b"bound")),
            1 => here.changes.push(begin.rebind(&name, b"bound again")),
            _ => {
                let wait = Duration::from_millis(below(2) * below(3000));
                here.lookups.push(Lookup { asked, asking: begin.bound(&name, wait) });
            }
        }
    }

    /// Asks for something that the registry never forgets once it has answered.
    fn have_promised(&mut self, at: usize) {
        let What::Here(here) = &mut self.places[at].what else { return };
        let promise = self.promises.next();
        let begin = here.node.begin();
        let asking = match &promise {
            Promise::Bound(name) => begin.bind(name, b"for ever"),
            Promise::Entered(view) => begin.enter(view),
            Promise::Signalled(bytes) => begin.signal(&[here.node.id()], bytes),
        };
        here.promised.push((promise, asking));
    }

    /// One step of everybody.
    fn step(&mut self) {
        let (now, seen) = (rt::now(), self.nic.poll());
        let mut next = vec![now + Duration::from_millis(50)];
        if let Some(registry) = &self.registry {
            registry.poll();
            next.extend(registry.next_event());
        }
        self.look_after_registry();
        for place in &mut self.places {
            if place.hangs.is_some_and(|until| until > now) {
                continue;
            }
            place.hangs = None;
            if let Some(joined) = place.go_on(&mut next) {
                self.promises.begin_life(joined);
            }
        }
        self.take_answers();
        self.nic.wait(seen, next.into_iter().min());
    }

    fn take_answers(&mut self) {
        let log = self.log();
        for place in &mut self.places {
            let What::Here(here) = &mut place.what else { continue };
            if place.hangs.is_some() {
                continue;
            }
            here.changes.retain_mut(|change| poll(change).is_pending());
            let (id, promises) = (here.node.id(), &mut self.promises);
            here.promised.retain_mut(|(promise, asking)| match poll(asking) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    promises.answered(id, promise, &answer);
                    false
                }
            });
            for mut lookup in std::mem::take(&mut here.lookups) {
                match poll(&mut lookup.asking) {
                    Poll::Pending => here.lookups.push(lookup),
                    Poll::Ready(Ok(Some(found))) => {
                        let owner = found.owner;
                        let mut before = log.iter().take(lookup.asked);
                        let gone = before.any(|entry| ends(entry) == Some(owner));
                        assert!(!gone, "a name of {owner}, which was gone");
                        self.found += 1;
                    }
                    Poll::Ready(_) => {}
                }
            }
        }
    }

    /// All entries, while there is a registry.
    fn log(&self) -> Vec<LogEntry> {
        let Some(registry) = &self.registry else { return Vec::new() };
        registry.server.inner.lock().state.kept.log.to_vec()
    }

    /// What must hold at all times.
    fn look(&mut self) {
        let here = self.places.iter().filter_map(|place| match &place.what {
            What::Here(here) => Some(&here.node),
            _ => None,
        });
        here.for_each(|node| self.promises.look_at(node));
        let Some(registry) = &self.registry else { return };
        let log = self.log();
        check_log(&log);
        let died: BTreeSet<NodeId> = log.iter().filter_map(dies).collect();
        for place in &self.places {
            let What::Here(here) = &place.what else { continue };
            let seen = seen(&here.node);
            check_seen(&seen, &told_to(here.node.id(), &log), here.node.id());
            let id = here.node.id();
            let fate = registry.server.inner.lock().state.kept.pool.fate(id);
            let lost = lost(&here.node);
            assert!(
                place.harmed || !died.contains(&id),
                "{id} at {} lives: {fate:?}, {lost:?}",
                place.host
            );
        }
        let inner = registry.server.inner.lock();
        self.promises.check(&inner.state.kept, &log);
        let here = inner.state.kept.pool.members().values().map(|member| member.id);
        let here: BTreeSet<NodeId> = here.collect();
        let owners = inner.state.kept.names.bound.values().map(|(owner, _)| *owner);
        owners.for_each(|owner| assert!(here.contains(&owner), "a name of {owner}"));
    }

    /// All is well again: everybody comes to know everything.
    fn finish(&mut self) {
        self.sim.heal();
        self.pass(Duration::from_secs(if self.disk.is_some() { 80 } else { 40 }));
        let log = self.log();
        let mut members = BTreeMap::new();
        for entry in &log {
            match entry {
                LogEntry::Joined(member) => drop(members.insert(member.id.rank, member.clone())),
                other => drop(ends(other).map(|id| members.remove(&id.rank))),
            }
        }
        let (mut here, mut views) = (BTreeSet::new(), Vec::<(&str, View)>::new());
        for place in &self.places {
            let What::Here(known) = &place.what else { continue };
            let (node, id) = (&known.node, known.node.id());
            let asked = known.changes.len() + known.lookups.len() + known.promised.len();
            assert_eq!(asked, 0, "{id} has no answer");
            if members.get(&id.rank).is_some_and(|member| member.id == id) {
                let left = check_seen(&seen(node), &told_to(id, &log), id);
                assert_eq!(left, 0, "{id} knows everything");
                for name in ["name 0", "name 1", "name 2", "name 3"] {
                    let view = node.view(name);
                    assert!(view.members.iter().all(|it| node.member(*it).is_some()), "{view:?}");
                    if !views.contains(&(name, view.clone())) {
                        views.push((name, view));
                    }
                }
                assert_eq!(node.members(), members.values().cloned().collect::<Vec<_>>());
                here.insert(id);
            } else {
                let knows = node.fenced().is_some() || node.has_lost_registry();
                assert!(knows, "{id} takes itself for a member");
                assert!(place.harmed, "{id} is no member");
            }
        }
        let left: BTreeSet<NodeId> = members.values().map(|member| member.id).collect();
        assert_eq!(left, here, "who is gone is known to be");
        let names: BTreeSet<&str> = views.iter().map(|(name, _)| *name).collect();
        assert_eq!(views.len(), names.len(), "all nodes see the same views");
        // Some may just be asked whether they live.
        let end = rt::now() + Duration::from_secs(1);
        while self.standing() < here.len() && rt::now() < end {
            self.step();
        }
        self.nothing_is_left(here.len());
    }

    /// Questions that stand.
    fn standing(&self) -> usize {
        let inner = self.registry.as_ref().unwrap().server.inner.lock();
        inner.state.seats.values().filter(|seat| seat.follow.is_some()).count()
    }

    /// The registry keeps a standing question of each member, and nothing else.
    fn nothing_is_left(&self, members: usize) {
        let standing = self.standing();
        let inner = self.registry.as_ref().unwrap().server.inner.lock();
        assert!(inner.state.waits.len() == 0);
        assert_eq!(inner.slots.len(), standing);
        assert!((members..=self.places.len()).contains(&standing), "{standing} of {members}");
    }

    fn counts(&self) -> [usize; 6] {
        let log = self.log();
        let count = |which: fn(&LogEntry) -> bool| log.iter().filter(|entry| which(entry)).count();
        [
            count(|entry| matches!(entry, LogEntry::Joined(_))),
            count(|entry| matches!(entry, LogEntry::Left(_))),
            count(|entry| matches!(entry, LogEntry::Died { .. })),
            self.found,
            self.starts_again,
            self.promises.kept(),
        ]
    }
}

impl Place {
    /// Returns the node that has joined, if one has.
    fn go_on(&mut self, next: &mut Vec<Instant>) -> Option<NodeId> {
        match &mut self.what {
            What::Empty => {}
            What::Joining(joining) => match poll(joining) {
                Poll::Pending => next.push(rt::now() + Duration::from_millis(5)),
                Poll::Ready(Ok(node)) => {
                    let joined = node.id();
                    let (changes, lookups, promised) = (Vec::new(), Vec::new(), Vec::new());
                    let here = Here { node, leaving: None, changes, lookups, promised };
                    self.what = What::Here(Box::new(here));
                    return Some(joined);
                }
                Poll::Ready(Err(why)) => {
                    assert!(!is_of_the_log(&why.to_string()), "{why}");
                    self.what = What::Empty;
                }
            },
            What::Here(here) => {
                here.node.poll();
                next.extend(here.node.next_event());
                let left = here.leaving.as_mut().map(poll);
                if let Some(Poll::Ready(
                    Ok(()) | Err(NodeError::NoAnswer(_) | NodeError::Refused(_)),
                )) = left
                {
                    self.what = What::Empty;
                }
            }
        }
        None
    }
}

/// What a node has seen, but for the loss of the registry.
fn seen(node: &Node) -> Vec<Event> {
    let mut events = node.events();
    let mut seen = Vec::new();
    while let Some(event) = events.try_next() {
        if let Event::RegistryLost { why } = event {
            assert!(!is_of_the_log(&why), "{why}");
            assert_eq!(events.try_next(), None, "nothing comes after that");
            break;
        }
        seen.push(event);
    }
    seen
}

/// Why a node has lost the registry, if it has.
fn lost(node: &Node) -> Option<String> {
    let mut events = node.events();
    let all = std::iter::from_fn(|| events.try_next());
    all.filter_map(|event| if let Event::RegistryLost { why } = event { Some(why) } else { None })
        .last()
}

/// Whether a registry was lost because its log made no sense.
fn is_of_the_log(why: &str) -> bool {
    why.contains("cannot have happened") || why.contains("out of order")
}

fn ends(entry: &LogEntry) -> Option<NodeId> {
    match entry {
        LogEntry::Left(id) => Some(*id),
        LogEntry::Died { node, .. } => Some(*node),
        _ => None,
    }
}

/// The events of the log at a node, each with the number of its entry.
fn told_to(node: NodeId, log: &[LogEntry]) -> Vec<(u64, Event)> {
    let (mut state, mut events) = (PoolState::default(), Vec::new());
    for (number, entry) in (0..).zip(log) {
        let is_for = entry.is_for(Some(node));
        state.apply(entry, |event| events.extend(is_for.then_some((number, event))));
    }
    events
}

fn dies(entry: &LogEntry) -> Option<NodeId> {
    if let LogEntry::Died { node, .. } = entry { Some(*node) } else { None }
}

/// Each life begins once, with a key, and ends at most once, and a rank has one at a time.
fn check_log(log: &[LogEntry]) {
    let (mut here, mut last) = (BTreeMap::new(), 0);
    for entry in log {
        match entry {
            LogEntry::Joined(member) => {
                let NodeId { rank, incarnation } = member.id;
                assert!(incarnation > last, "{} is not a new life", member.id);
                assert_eq!(here.insert(rank, member.id), None, "the rank was taken");
                // Also if its link ended before the registry came to its question.
                assert!(member.key().is_some(), "{} has proven no key", member.id);
                last = incarnation;
            }
            other => {
                let Some(id) = ends(other) else { continue };
                let was = here.remove(&id.rank);
                assert!(
                    was == Some(id) || (was.is_none() && id.incarnation == 0),
                    "{other:?}: {was:?}"
                );
            }
        }
    }
}
