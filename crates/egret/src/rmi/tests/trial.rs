//! One trial.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::Nic;
use egret_node::node::{Config, Joining, Node};
use egret_node::registry::{Registry, RegistryOptions};

use super::thing::{It, KNOWN, Known, NIC, NODES, Step, Task, ThingStub, change, noted, outcome};
use crate::rmi::__private::{calls_account, run_calls};
use crate::rmi::exchange::Exchange;
use crate::rmi::{CallError, Exported, ObjectRef, Pending, Remoting};

struct Place {
    host: String,
    /// Kept while its links say farewell.
    nic: Nic,
    what: What,
    /// Until when it runs no calls.
    is_lazy: Option<Instant>,
    /// Whether a thread serves it, and runs what it receives.
    serves: bool,
}

enum What {
    Empty,
    Joining(Joining),
    Here(Box<Here>),
}

struct Here {
    /// Dropped before the node.
    calls: Vec<(u64, Kind)>,
    stubs: BTreeMap<(u64, usize), ThingStub>,
    exported: Exported,
    node: Node,
}

enum Kind {
    Task(Pending<u64, String>),
    Quick(Pending<u64>),
}

pub(super) struct Trial<'a> {
    sim: &'a Sim,
    registry: Registry,
    nic: Nic,
    places: Vec<Place>,
    /// Objects that are or were.
    objects: Vec<ObjectRef>,
    next: u64,
    /// When something last happened that delays messages or ends links.
    harmed: Instant,
    is_cut: bool,
    /// Lives that ended, when, and how soon others know.
    ended: BTreeMap<u64, (Instant, Duration)>,
}

/// Runs one; how many calls were answered, refused, cancelled, and calls of calls.
pub(super) fn run(sim: &Sim) -> [usize; 4] {
    KNOWN.with_borrow_mut(BTreeMap::clear);
    NODES.with_borrow_mut(Vec::clear);
    let mut trial = Trial::new(sim);
    NIC.set(Some(trial.nic.clone()));
    for _ in 0..150 {
        trial.turn();
    }
    trial.finish();
    NIC.set(None);
    NODES.with_borrow_mut(Vec::clear);
    KNOWN.with_borrow(|known| {
        let count = |which: fn(&&Known) -> bool| known.values().filter(which).count();
        [
            count(|known| known.is_ok),
            count(|known| known.error.is_some()),
            count(|known| known.dropped.is_some()),
            trial.nested(),
        ]
    })
}

fn below(below: u64) -> u64 {
    rt::random() % below
}

fn any<T>(all: &[T]) -> Option<&T> {
    all.get(usize::try_from(below((all.len() as u64).max(1))).expect("it is short"))
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

impl<'a> Trial<'a> {
    fn new(sim: &'a Sim) -> Self {
        sim.links().latency(Duration::from_micros(below(5_000)));
        let nic = sim.nic("registry");
        let registry = Registry::over(nic.clone(), RegistryOptions::new("trial", 3)).unwrap();
        let place = |at| {
            let host = format!("n{at}");
            Place { nic: sim.nic(&host), host, what: What::Empty, is_lazy: None, serves: false }
        };
        let (places, objects, ended) = ((0..3).map(place).collect(), Vec::new(), BTreeMap::new());
        Self {
            sim,
            registry,
            nic,
            places,
            objects,
            next: 1,
            harmed: rt::now(),
            is_cut: false,
            ended,
        }
    }

    fn turn(&mut self) {
        let at = usize::try_from(below(3)).unwrap();
        match below(100) {
            0..=9 => self.begin(at),
            10 => self.crash(at),
            11 => self.leave(at),
            12..=13 => self.cut(at),
            14..=17 => self.heal(),
            18..=24 => self.laze(at),
            25..=34 => self.drop_call(at),
            35..=84 => self.call(at),
            _ => {}
        }
        let end = rt::now() + Duration::from_micros(below(40_000));
        while rt::now() < end {
            self.step();
        }
    }

    /// A new life at a place.
    fn begin(&mut self, at: usize) {
        let place = &mut self.places[at];
        if let What::Empty = place.what {
            place.nic = self.sim.nic(&place.host);
            let config =
                Config::new("trial").registry("registry").over(place.nic.clone()).in_flight(4);
            let config = config.deadline(Deadline::In(Duration::from_secs(3)));
            place.what = What::Joining(Node::begin_join(config).unwrap());
        }
    }

    fn crash(&mut self, at: usize) {
        self.sim.crash(&self.places[at].host);
        self.end(at, Duration::from_secs(20));
    }

    fn leave(&mut self, at: usize) {
        self.end(at, Duration::from_millis(200));
    }

    fn end(&mut self, at: usize, known: Duration) {
        let now = rt::now();
        if let What::Here(here) = std::mem::replace(&mut self.places[at].what, What::Empty) {
            let id = here.node.id();
            NODES.with_borrow_mut(|nodes| nodes.retain(|node| node.id() != id));
            let known = if self.is_cut { Duration::from_secs(20) } else { known };
            self.ended.insert(id.incarnation, (now, known));
            here.calls.iter().for_each(|(number, _)| change(*number, |it| it.dropped = Some(now)));
            self.harmed = now;
        }
    }

    fn cut(&mut self, at: usize) {
        let other = &self.places[(at + 1) % 3].host;
        self.sim.partition(&[&self.places[at].host], &[other]);
        (self.harmed, self.is_cut) = (rt::now(), true);
    }

    fn heal(&mut self) {
        self.sim.heal();
        self.is_cut = false;
    }

    fn laze(&mut self, at: usize) {
        self.places[at].is_lazy = Some(rt::now() + Duration::from_millis(below(4000)));
    }

    fn drop_call(&mut self, at: usize) {
        if let What::Here(here) = &mut self.places[at].what
            && !here.calls.is_empty()
        {
            let which = usize::try_from(below(here.calls.len() as u64)).unwrap();
            let (number, call) = here.calls.swap_remove(which);
            change(number, |known| known.dropped = Some(rt::now()));
            drop(call);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn call(&mut self, at: usize) {
        let Some(to) = any(&self.objects).cloned() else { return };
        let number = self.number();
        let task = self.task(number);
        let What::Here(here) = &mut self.places[at].what else { return };
        let key = (to.node.incarnation, usize::try_from(to.number).unwrap());
        let stub = here.stubs.entry(key).or_insert_with(|| here.node.stub(&to));
        let deadline = match below(8) {
            // Two chains that wait for each other end by their deadlines alone.
            0 if task.way.is_empty() => Deadline::UntilDead,
            1 => Deadline::In(Duration::from_micros(below(500))),
            _ => Deadline::In(Duration::from_millis(1 + below(3000))),
        };
        let stub = stub.with_deadline(deadline);
        noted(number, deadline.until(), here.node.id().incarnation);
        let call = match below(6) {
            0 => Kind::Quick(stub.begin().quick(number, task.ballast)),
            1 => {
                // Over when it is sent; if it was not, it never is.
                return drop(stub.begin().tell(number));
            }
            2..=3 => Kind::Task(stub.begin().change(task)),
            _ => Kind::Task(stub.begin().look(task)),
        };
        here.calls.push((number, call));
    }

    fn task(&mut self, number: u64) -> Task {
        let steps = if below(3) == 0 { below(4) } else { 0 };
        let mut way = Vec::new();
        for _ in 0..steps {
            let number = self.number();
            let to = any(&self.objects).expect("there is one").clone();
            way.push(Step { to, number, alone: below(2) == 0 });
        }
        let len = [0, 3, 600, 3000][usize::try_from(below(4)).unwrap()];
        Task { number, way, ballast: vec![1.5; len] }
    }

    fn step(&mut self) {
        let (now, seen) = (rt::now(), self.nic.poll());
        self.registry.poll();
        let mut next = vec![now + Duration::from_millis(20)];
        next.extend(self.registry.next_event());
        for at in 0..self.places.len() {
            self.go_on(at, &mut next);
        }
        self.nic.wait(seen, next.into_iter().min());
        self.check();
    }

    fn go_on(&mut self, at: usize, next: &mut Vec<Instant>) {
        let place = &mut self.places[at];
        match &mut place.what {
            What::Empty => {}
            What::Joining(joining) => match poll(joining) {
                Poll::Pending => next.push(rt::now() + Duration::from_millis(5)),
                Poll::Ready(Ok(node)) => {
                    let thing = It { node: node.handle() };
                    let exported = node.export(thing).unwrap();
                    place.serves = below(2) == 0;
                    if place.serves {
                        Exchange::of(&node).workers.lend();
                    }
                    self.objects.push(exported.object().clone());
                    NODES.with_borrow_mut(|nodes| nodes.push(node.handle()));
                    let (calls, stubs) = (Vec::new(), BTreeMap::new());
                    place.what = What::Here(Box::new(Here { calls, stubs, exported, node }));
                }
                Poll::Ready(Err(_)) => place.what = What::Empty,
            },
            What::Here(here) => {
                if place.serves && place.is_lazy.is_none() {
                    let links = here.node.links();
                    links.iter().for_each(|(_, links)| _ = links.serve(Deadline::NOW, || false));
                }
                here.node.poll();
                next.extend(here.node.next_event());
                if place.is_lazy.is_none_or(|until| rt::now() >= until) {
                    place.is_lazy = None;
                    run_calls(&here.node);
                }
                here.poll_calls();
            }
        }
    }

    /// What must hold at all times.
    fn check(&self) {
        KNOWN.with_borrow(|all| all.iter().for_each(|(number, known)| self.fits(*number, known)));
    }

    fn fits(&self, number: u64, known: &Known) {
        let ran = known.ran.len();
        assert!(ran <= 1, "call {number} ran {ran} times");
        if known.is_ok {
            assert_eq!(ran, 1, "call {number} was answered and has not run");
        }
        if let Some(error) = &known.error {
            let cannot = match error {
                CallError::PeerDied { may_have_run, .. }
                | CallError::NotMember { may_have_run, .. }
                | CallError::Deadline { may_have_run, .. } => !may_have_run,
                CallError::Failed(_) => {
                    assert_eq!(ran, 1, "call {number} failed and has not run");
                    false
                }
                CallError::Panicked { message, .. } => panic!("call {number} panicked: {message}"),
                CallError::Unreadable { why, .. } => panic!("call {number} is unreadable: {why}"),
                _ => true,
            };
            assert!(!cannot || ran == 0, "call {number} ran, and its caller got {error:?}");
        }
        let Some(started) = known.ran.first() else { return };
        // For so long a link that was cut may wait until it repeats what was lost.
        let calm = |since: Instant| {
            self.harmed < Instant::from_nanos(since.as_nanos().saturating_sub(5_000_000_000))
        };
        // The way there does not count as the call's time, and a link that repeats what was lost waits
        // for longer each time.
        if let Some(until) = known.until
            && calm(Instant::from_nanos(until.as_nanos().saturating_sub(4_000_000_000)))
        {
            let late = *started - until;
            assert!(late < Duration::from_millis(60), "call {number} began {late:?} too late");
        }
        if let Some(dropped) = known.dropped
            && calm(dropped)
            && !self.ended.contains_key(&known.by)
            && known.error.is_none()
        {
            let late = *started - dropped;
            assert!(late < Duration::from_millis(500), "call {number} ran {late:?} after its drop");
        }
        if let Some((ended, soon)) = self.ended.get(&known.by) {
            let late = *started - *ended;
            assert!(late < *soon, "call {number} ran {late:?} after its caller");
        }
    }

    fn nested(&self) -> usize {
        KNOWN.with_borrow(|all| all.values().filter(|known| !known.ran.is_empty()).count())
    }

    /// All is well again: every call has its answer, and nothing is left.
    fn finish(&mut self) {
        self.heal();
        let end = rt::now() + Duration::from_secs(40);
        while rt::now() < end {
            self.step();
        }
        for place in &self.places {
            let What::Here(here) = &place.what else { continue };
            for (number, _) in &here.calls {
                let until = KNOWN.with_borrow(|all| all[number].until);
                assert!(until.is_none(), "call {number} has no answer");
            }
            assert!(here.calls.is_empty(), "calls without a deadline have no answer");
            let account = calls_account(&here.node);
            assert_eq!((account.objects, account.calls), (1, 0), "at {}", place.host);
            for (_, links) in here.node.links() {
                let account = links.account();
                // One is the node's own: what happens in the pool.
                assert!(account.calls <= 1, "{account:?} at {}", place.host);
                assert_eq!(account.out_bytes, 0, "at {}", place.host);
            }
            assert_eq!(here.exported.object().node, here.node.id());
        }
    }
}

impl Here {
    fn poll_calls(&mut self) {
        for (number, mut call) in std::mem::take(&mut self.calls) {
            let until = KNOWN.with_borrow(|all| all[&number].until);
            let is_late = until.is_some_and(|until| rt::now() >= until);
            let came = match &mut call {
                Kind::Task(call) => poll(call),
                Kind::Quick(call) => poll(call).map(|came| came.map_err(CallError::widen)),
            };
            match came {
                Poll::Ready(came) => {
                    if let Ok(answer) = came {
                        assert!(answer >= number && answer <= number + 3000, "another's answer");
                    }
                    outcome(number, &came);
                }
                Poll::Pending => {
                    assert!(!is_late, "call {number} waits for longer than it may");
                    self.calls.push((number, call));
                }
            }
        }
    }
}
