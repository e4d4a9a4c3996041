//! Calls over seeds, at nodes that have threads: those in the background, with their standbys, and
//! workers, all of them the simulated world's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use egret_net::fabric::sim::{Sim, check, count, seeds};
use egret_net::rt::{self, Deadline, Instant, JoinHandle};
use egret_node::node::{Config, Node, NodeHandle};
use egret_node::registry::{Registry, RegistryOptions};

use crate::blocking;
use crate::rmi::fault::{Fault, caught};
use crate::rmi::{CallError, ObjectRef, Remoting};

#[crate::remote]
trait Lasting {
    fn short(&self, number: u64) -> u64;
    fn lasts(&self, number: u64, micros: u64) -> u64;
    fn blocks(&self, number: u64, micros: u64) -> u64;
    fn calls(&self, number: u64, to: ObjectRef, micros: u64) -> Result<u64, String>;
    fn panics(&self, number: u64) -> u64;
}

#[crate::remote]
trait Gated {
    fn put(&mut self, caller: u64, nth: u64, micros: u64) -> u64;
    /// Is told what the caller has put last.
    fn see(&self, caller: u64, nth: u64, micros: u64) -> u64;
}

/// How often each call ran, and when last; and which threads ran them, by their names.
type Ran = Arc<Mutex<(BTreeMap<u64, (u32, Instant)>, BTreeMap<String, Vec<ThreadId>>)>>;

struct It {
    node: NodeHandle,
    ran: Ran,
}

impl It {
    fn note(&self, number: u64) {
        let mut ran = self.ran.lock().unwrap();
        let (times, at) = ran.0.entry(number).or_default();
        (*times, *at) = (*times + 1, rt::now());
        let me = rt::current();
        let by = ran.1.entry(me.name().unwrap_or_default().to_owned()).or_default();
        if !by.contains(&me.id()) {
            by.push(me.id());
        }
    }
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[crate::remote]
impl Lasting for It {
    fn short(&self, number: u64) -> u64 {
        self.note(number);
        number + 1
    }
    fn lasts(&self, number: u64, time: u64) -> u64 {
        self.note(number);
        rt::sleep(micros(time));
        number + 1
    }
    fn blocks(&self, number: u64, time: u64) -> u64 {
        self.note(number);
        // One that was relieved says so again.
        blocking(|| rt::sleep(micros(time)));
        blocking(|| rt::sleep(micros(time)));
        number + 1
    }
    fn calls(&self, number: u64, to: ObjectRef, time: u64) -> Result<u64, String> {
        self.note(number);
        rt::sleep(micros(time));
        let stub: LastingStub = self.node.stub(&to);
        let back = stub.lasts(number + INNER, time).map_err(|why| why.to_string())?;
        Ok(back - INNER)
    }
    fn panics(&self, number: u64) -> u64 {
        self.note(number);
        rt::sleep(micros(300));
        std::panic::resume_unwind(Box::new("of a test"))
    }
}

/// The last that each caller has put.
#[derive(Default)]
struct Order {
    last: BTreeMap<u64, u64>,
    is_inside: bool,
}

#[crate::remote]
impl Gated for Order {
    fn put(&mut self, caller: u64, nth: u64, time: u64) -> u64 {
        assert!(!std::mem::replace(&mut self.is_inside, true), "two are inside");
        let last = self.last.insert(caller, nth).unwrap_or_default();
        assert!(nth > last, "{nth} of {caller} is behind {last}");
        rt::sleep(micros(time));
        self.is_inside = false;
        nth
    }
    fn see(&self, caller: u64, nth: u64, time: u64) -> u64 {
        let last = self.last.get(&caller).copied().unwrap_or_default();
        assert_eq!(last, nth, "{caller} sees what it has put before, and nothing behind that");
        rt::sleep(micros(time));
        nth
    }
}

/// What the callers of a trial have in common.
#[derive(Clone)]
struct Scene {
    objects: Vec<ObjectRef>,
    gated: Vec<ObjectRef>,
    ran: Ran,
    /// Whether a node dies.
    dies: bool,
    /// Whether each node has one worker, or takes few calls of another, for which short calls may wait.
    is_narrow: bool,
}

/// What came of calls: answered, failed, short ones among them; and how many threads in the
/// background and workers ran some.
type Counts = [usize; 5];

fn below(below: u64) -> u64 {
    rt::random() % below
}

fn any<T>(all: &[T]) -> &T {
    &all[usize::try_from(below(all.len() as u64)).unwrap()]
}

impl Scene {
    fn call(&self, node: &NodeHandle, number: u64, counts: &mut Counts) {
        let (to, time) =
            (any(&self.objects), [20, 200, 2_000, 30_000][usize::try_from(below(4)).unwrap()]);
        let stub: LastingStub = node.stub(to);
        let stub = stub.with_deadline(DEADLINE);
        let started = rt::now();
        let kind = below(8);
        let came = match kind {
            0..=2 => stub.short(number).map_err(CallError::widen),
            3..=4 => stub.lasts(number, time).map_err(CallError::widen),
            5 => stub.blocks(number, time).map_err(CallError::widen),
            6 => stub.calls(number, any(&self.objects).clone(), time),
            _ => match stub.panics(number) {
                Err(CallError::Panicked { .. }) => Ok(number + 1),
                Ok(_) => panic!("call {number} has not panicked"),
                Err(why) => Err(why.widen()),
            },
        };
        let took = rt::now() - started;
        let ran = self.ran.lock().unwrap().0.get(&number).map_or(0, |(times, _)| *times);
        assert!(ran <= 1, "call {number} ran {ran} times");
        match came {
            Ok(answer) => {
                assert_eq!((answer, ran), (number + 1, 1));
                counts[0] += 1;
                if kind <= 2 {
                    counts[2] += 1;
                    assert!(
                        self.dies || self.is_narrow || took < SOON,
                        "a short call took {took:?}"
                    );
                }
            }
            Err(why) => {
                assert!(self.dies, "call {number}, {kind}: {why}");
                counts[1] += 1;
            }
        }
    }

    /// Several that are under way at once are run in the order in which they were begun.
    fn put(&self, node: &NodeHandle, caller: u64, nth: &mut u64, counts: &mut Counts) {
        let stub: GatedStub = node.stub(any(&self.gated));
        let stub = stub.with_deadline(DEADLINE);
        let mut begun: Vec<_> = (0..1 + below(8))
            // There may be room when the next is begun, and those before it wait for it.
            .inspect(|_| rt::sleep(micros(below(2) * below(1_000))))
            .map(|at| match below(2) {
                0 if at > 0 => (*nth, stub.begin().see(caller, *nth, below(400))),
                _ => {
                    *nth += 1;
                    (*nth, stub.begin().put(caller, *nth, below(400)))
                }
            })
            .collect();
        // Whoever is waited for first has those before it sent.
        if below(2) == 0 {
            begun.reverse();
        }
        for (nth, call) in begun {
            match call.wait() {
                Ok(answer) => {
                    assert_eq!(answer, nth);
                    counts[0] += 1;
                }
                Err(why) => {
                    assert!(self.dies, "{nth} of {caller}: {why}");
                    counts[1] += 1;
                }
            }
        }
    }

    fn caller(&self, node: &NodeHandle, caller: u64) -> Counts {
        let (mut counts, mut nth) = (Counts::default(), 0);
        for turn in 0..TURNS {
            match below(4) {
                0 => self.put(node, caller, &mut nth, &mut counts),
                _ => self.call(node, caller * 1000 + turn, &mut counts),
            }
            rt::sleep(micros(below(3_000)));
        }
        counts
    }
}

/// A node that has more calls under way than are run at once, and goes. When that was.
fn guest(node: Node, to: &ObjectRef) -> Instant {
    let stub: LastingStub = node.stub(to);
    let stub = stub.with_deadline(DEADLINE);
    // From then on calls are sent when they are begun.
    _ = stub.short(GUEST);
    let begun: Vec<_> = (1..8).map(|at| stub.begin().lasts(GUEST + at, 30_000)).collect();
    rt::sleep(micros(below(20_000)));
    drop(node);
    // Later than the node, whose links have ended: nothing is cancelled one by one.
    drop(begun);
    rt::now()
}

fn run(sim: &Sim) -> Counts {
    sim.background();
    sim.links().latency(micros(below(200)));
    let registry = Registry::over(sim.nic("registry"), RegistryOptions::new("trial", 4)).unwrap();
    let ran = Ran::default();
    let (dies, is_narrow) = (below(4) == 0, below(2) == 0);
    let join = |at| {
        let nic = sim.nic(&format!("n{at}"));
        let config = Config::new("trial").registry("registry").over(nic).deadline(DEADLINE);
        Node::join(if is_narrow { config.in_flight(2) } else { config }).unwrap()
    };
    let nodes: Vec<_> = (0..3).map(join).collect();
    let export = |node: &Node| {
        let it = It { node: node.handle(), ran: Arc::clone(&ran) };
        [node.export(it).unwrap(), node.export(Order::default()).unwrap()]
    };
    let exported: Vec<_> = nodes.iter().map(export).collect();
    let of = |which: usize| exported.iter().map(|both| both[which].object().clone()).collect();
    if is_narrow {
        nodes.iter().for_each(|node| node.set_workers(1));
    }
    if dies {
        sim.at(sim.elapsed() + micros(below(60_000)), |sim| sim.crash("n2"));
    }
    let (objects, gated) = (of(0), of(1));
    let scene = Scene { objects, gated, ran: Arc::clone(&ran), dies, is_narrow };
    let call = |at: u64| -> JoinHandle<Counts> {
        let (scene, node) = (scene.clone(), any(&nodes).handle());
        rt::spawn("caller", move || scene.caller(&node, at + 1)).unwrap()
    };
    let callers: Vec<_> = (0..CALLERS).map(call).collect();
    let gone = (is_narrow && below(2) == 0).then(|| {
        let (node, to) = (join(3), scene.objects[0].clone());
        rt::spawn("guest", move || guest(node, &to)).unwrap().join().unwrap()
    });
    let mut counts = Counts::default();
    for caller in callers {
        let came = caller.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
        counts.iter_mut().zip(came).for_each(|(count, more)| *count += more);
    }
    for (number, (_, at)) in ran.lock().unwrap().0.range(GUEST..INNER) {
        let late = at.since(gone.expect("a guest"));
        assert!(late < SOON, "call {number} ran {late:?} after its caller was gone");
    }
    drop((exported, nodes, registry));
    // Whoever looks now and then whether there is something left has done so.
    rt::sleep(Duration::from_secs(6));
    assert_eq!(sim.threads(), 0, "threads that do not end");
    let by = |name: &str| ran.lock().unwrap().1.get(name).map_or(0, Vec::len);
    (counts[3], counts[4]) = (by("egret links"), by("egret-call"));
    counts
}

#[test]
fn nodes_with_threads_answer_every_call_also_behind_those_that_last() {
    let seeds = seeds(100);
    let nodes = usize::try_from(seeds.end - seeds.start).unwrap() * 3;
    let [answered, failed, short, background, workers] = count(seeds, run);
    println!("{answered} answered, {failed} failed, {short} short");
    println!("by {background} threads in the background and {workers} workers");
    assert!(answered > nodes && failed > 0 && short > nodes / 2);
    assert!(background > 2 * nodes && workers > nodes / 2, "nobody took over");
}

#[test]
fn faults_of_nodes_with_threads_are_noticed() {
    let faults = [
        Fault::TwoInside,
        Fault::NobodyNext,
        Fault::JumpsQueue,
        Fault::BegunOvertakes,
        Fault::GoneUnheard,
        Fault::ServesOthers,
        Fault::CloseUnheard,
    ];
    let unnoticed: Vec<_> =
        faults.into_iter().filter(|fault| !caught(*fault, || _ = count(0..600, run))).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

#[test]
fn threads_of_nodes_repeat_from_their_seed() {
    for seed in 0..3 {
        let once = || {
            let sim = Sim::new(seed);
            (run(&sim), sim.digest(), sim.elapsed())
        };
        assert_eq!(once(), once(), "seed {seed}");
    }
    check(0..1, |sim| assert!(run(sim)[0] > 0));
}

const DEADLINE: Deadline = Deadline::In(Duration::from_secs(20));
/// What a short call takes at most, whatever lasts meanwhile.
const SOON: Duration = Duration::from_millis(10);
/// As few as find a worker each, whatever they call.
const CALLERS: u64 = 5;
const TURNS: u64 = 12;
/// Calls of a guest.
const GUEST: u64 = 900_000;
/// Calls that a method makes.
const INNER: u64 = 1_000_000;
