//! Clusters in a unit test: ordinary programs in a simulated world.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret::node::{Event, NodeError};
use egret::prelude::*;
use egret::rt;
use egret::sim::{Cluster, ClusterRun, cluster, work};

#[egret::remote]
trait Adder {
    fn add(&self, a: u64, b: u64) -> u64;
    /// Waits so many milliseconds.
    fn lasts(&self, millis: u64) -> u64;
}

struct Sums;

#[egret::remote]
impl Adder for Sums {
    fn add(&self, a: u64, b: u64) -> u64 {
        a + b
    }
    fn lasts(&self, millis: u64) -> u64 {
        rt::sleep(Duration::from_millis(millis));
        millis
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A program that exports an object, calls those of `calls` other nodes, and leaves when all have done so.
fn calls_others(node: Node, calls: u32) -> Result<u64, Failure> {
    let (rank, size) = (node.rank(), node.size());
    let object = node.export(Sums)?;
    object.bind(&format!("adder {rank}"))?;
    let mut sum = 0;
    for step in 1..=calls {
        let other = (rank + step) % size;
        let adder: AdderStub = node.lookup(&format!("adder {other}"), node.deadline())?;
        sum += adder.add(u64::from(rank), u64::from(other))?;
    }
    node.enter("done")?;
    let mut events = node.events();
    while node.view("done").members.len() < size as usize {
        events.wait_next(node.deadline())?;
    }
    drop(object);
    node.leave(Deadline::DEFAULT)?;
    Ok(sum)
}

fn all_call(seed: u64, nodes: u32, calls: u32) -> ClusterRun<u64> {
    Cluster::new(seed, nodes).run(move |node| calls_others(node, calls).expect("calls"))
}

#[test]
fn ten_programs_join_call_each_other_and_leave() {
    let run = all_call(1, 10, 3);
    let sum = |rank: u64| (1..=3).map(|step| rank + (rank + step) % 10).sum::<u64>();
    assert_eq!(run.results, (0..10).map(|rank| Some(sum(rank))).collect::<Vec<_>>());
}

/// What a run says when it fails.
fn failure<T: Send + 'static>(
    cluster: Cluster,
    program: impl Fn(Node) -> T + Send + Sync + 'static,
) -> String {
    let ran = catch_unwind(AssertUnwindSafe(|| drop(cluster.run(program))));
    *ran.expect_err("the run fails").downcast::<String>().expect("a text")
}

/// Waits until a node has died; who it was, and when that was known.
fn wait_death(node: &Node) -> (egret::node::NodeId, Duration) {
    let (mut events, started) = (node.events(), rt::now());
    loop {
        if let Event::Died { node: died, .. } = events.wait_next(minutes(5)).expect("an event") {
            return (died, rt::now() - started);
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_another_one() {
    let run = |seed| all_call(seed, 12, 5);
    let first = run(3);
    assert_eq!(run(3), first);
    let other = run(4);
    assert_eq!(other.results, first.results);
    assert_ne!(other.digest, first.digest);
}

#[test]
fn the_simple_form_has_the_results_by_rank() {
    assert_eq!(cluster(1, 3, |node| node.rank() * 2), [0, 2, 4]);
}

#[test]
fn work_takes_virtual_time_and_computing_takes_none() {
    let run = Cluster::new(1, 2).run(|_| {
        let started = rt::now();
        let sum: u64 = std::hint::black_box((0..100_000).sum());
        assert_eq!((sum > 0, rt::now() - started), (true, Duration::ZERO));
        work(minutes(30));
        rt::now() - started
    });
    assert_eq!(run.results, [Some(minutes(30)), Some(minutes(30))]);
    assert!(run.elapsed >= minutes(30) && run.elapsed < minutes(31), "{:?}", run.elapsed);
}

#[test]
fn a_crash_is_seen_by_the_others_and_calls_fail() {
    let run = Cluster::new(5, 3).crash(2, seconds(10)).run(|node| {
        let object = node.export(Sums).unwrap();
        object.bind(&format!("adder {}", node.rank())).unwrap();
        let last: AdderStub = node.lookup("adder 2", minutes(1)).unwrap();
        let called = last.with_deadline(minutes(5)).lasts(60_000);
        let died = wait_death(&node).0;
        assert_eq!(died.rank, 2);
        called.unwrap_err().to_string()
    });
    assert_eq!(run.results[2], None);
    for said in &run.results[..2] {
        let said = said.as_ref().unwrap();
        assert!(said.contains("is gone: it has not answered"), "{said}");
    }
    assert!(run.elapsed < minutes(1), "{:?}", run.elapsed);
}

/// What was dropped by threads that ended with their machine.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn all_threads_of_a_machine_end_when_it_crashes() {
    let dropped = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&dropped);
    let run = Cluster::new(6, 2).crash(1, seconds(10)).run(move |node| {
        if node.rank() == 1 {
            let inner = Counted(Arc::clone(&seen));
            let spawned = rt::spawn("waits", move || {
                let _inner = inner;
                rt::sleep(minutes(30));
            });
            let _outer = Counted(Arc::clone(&seen));
            spawned.unwrap().join().unwrap();
            unreachable!("the machine has crashed");
        }
        wait_death(&node);
        seen.load(Ordering::Relaxed)
    });
    assert_eq!(run.results, [Some(2), None]);
}

#[test]
fn a_restarted_node_of_a_closed_pool_has_its_rank_in_another_life() {
    let run =
        Cluster::new(7, 3).crash(1, seconds(5)).restart(1, seconds(30)).run(|node| lives(&node));
    let last = run.results.into_iter().map(Option::unwrap).collect::<Vec<_>>();
    assert!(last.iter().all(|seen| *seen == last[1]), "{last:?}");
    assert_eq!(last[0].rank, 1);
    assert!(last[0].incarnation > 3, "{last:?}");
}

#[test]
fn a_restarted_node_of_an_open_pool_is_another_member() {
    let run = Cluster::new(8, 3)
        .open()
        .crash(1, seconds(5))
        .restart(1, seconds(30))
        .run(|node| lives(&node));
    let last = run.results.into_iter().map(Option::unwrap).collect::<Vec<_>>();
    assert!(last.iter().all(|seen| *seen == last[1]), "{last:?}");
    assert_eq!(last[0].rank, 3, "no rank is used again");
}

/// Waits until a fourth life has begun, and returns whose.
fn lives(node: &Node) -> egret::node::NodeId {
    let (mut events, mut joined) = (node.events(), Vec::new());
    while joined.len() < 4 {
        if let Event::Joined(member) = events.wait_next(minutes(5)).expect("an event") {
            joined.push(member.id);
        }
    }
    node.bind(&format!("seen by {}", node.id()), b"").expect("a name");
    while node.names("seen by").expect("names").len() < 3 {
        rt::sleep(seconds(1));
    }
    work(seconds(5));
    joined[3]
}

/// The members of a pool whose registry is started again find it by themselves, and lose nothing.
#[test]
fn a_registry_that_crashes_and_starts_again_is_found_by_its_nodes() {
    let seconds = Duration::from_secs;
    let cluster = Cluster::new(8, 4).crash_registry(seconds(5)).restart_registry(seconds(9));
    let run = cluster.run(move |node| {
        let _kept = node.export(Sums).expect("an object");
        let winner = node.elect("chief", minutes(1)).expect("a winner");
        if winner == node.id() {
            node.bind("kept", b"for ever").expect("a name");
        }
        work(seconds(6));
        // Without a registry, and with it again.
        let bound = node.wait_bound("kept", minutes(1)).expect("a name");
        assert!(rt::now() - rt::Instant::default() >= seconds(9), "{:?}", rt::now());
        assert_eq!(
            (bound.owner, node.elected("chief").map(|(winner, _)| winner)),
            (winner, Some(winner))
        );
        let events = std::iter::from_fn({
            let mut events = node.events();
            move || events.try_next()
        });
        let joined = events.filter(|event| matches!(event, Event::Joined(_))).count();
        node.leave(minutes(1)).expect("to leave");
        joined
    });
    assert_eq!(run.results, [Some(4); 4]);
}

#[test]
fn a_registry_that_crashes_for_good_is_lost() {
    let run = Cluster::new(9, 2).crash_registry(Duration::from_secs(5)).run(|node| {
        let mut events = node.events();
        loop {
            if let Event::RegistryLost { .. } = events.wait_next(minutes(5)).expect("an event") {
                return rt::now() - rt::Instant::default();
            }
        }
    });
    let lost = run.results.into_iter().map(|at| at.expect("it returns"));
    assert!(
        lost.clone().all(|at| at > Duration::from_secs(5) && at < Duration::from_secs(40)),
        "{lost:?}"
    );
}

/// A node that was declared dead while it had no link to the registry is told so when it has one.
#[test]
fn a_node_that_comes_back_too_late_to_a_registry_is_told_that_it_is_dead() {
    let seconds = Duration::from_secs;
    let cluster = Cluster::new(12, 2).crash_registry(seconds(5)).restart_registry(seconds(6));
    let cluster = cluster.config(|config| config.registry_grace(Deadline::UntilDead));
    let cluster = cluster.network(move |sim| {
        sim.at(seconds(4), |sim| sim.partition(&["registry"], &["n1"]));
        sim.at(seconds(60), |sim| sim.reconnect(&["registry"], &["n1"]));
    });
    let run = cluster.run(move |node| {
        if node.rank() == 0 {
            return wait_death(&node).0.rank.to_string();
        }
        let mut events = node.events();
        let why = loop {
            if let Event::RegistryLost { why } = events.wait_next(minutes(5)).expect("an event") {
                break why;
            }
        };
        assert!(node.fenced().is_some() && node.own_fate().is_some(), "{:?}", node.own_fate());
        assert!(node.wait_terminated(Deadline::UntilDead).is_err());
        why
    });
    assert_eq!(run.results[0].as_deref(), Some("1"));
    let why = run.results[1].as_deref().expect("it returns");
    assert!(why.contains("declared this node dead") && why.contains("come back"), "{why}");
}

/// What a node has seen of what all nodes are told.
fn seen(node: &Node) -> Vec<Event> {
    let mut events = node.events();
    let all = std::iter::from_fn(|| events.try_next());
    all.filter(|event| !matches!(event, Event::Signal { .. } | Event::RegistryLost { .. }))
        .collect()
}

/// Changes views, elects, binds names and sends signals for some time; what it has seen by the end.
fn changes_much(node: &Node) -> Vec<Event> {
    let until = rt::Instant::default() + Duration::from_secs(60);
    while rt::now() < until {
        let name = format!("view {}", rt::random() % 3);
        // Some fail: the name is taken, or the node was cut off for too long.
        _ = match rt::random() % 5 {
            0 => node.enter(&name).map(drop),
            1 => node.exit(&name).map(drop),
            2 => node.elect("chief", minutes(2)).map(drop),
            3 => node.bind(&name, b"bytes"),
            _ => node.signal(&[node.members()[0].id], b"signal"),
        };
        rt::sleep(Duration::from_millis(rt::random() % 2000));
    }
    // What is under way arrives.
    rt::sleep(minutes(2));
    seen(node)
}

#[test]
fn all_nodes_see_one_order_and_one_winner_whatever_crashes() {
    let seconds = Duration::from_secs;
    for seed in egret_net::fabric::sim::seeds(20) {
        let cluster = Cluster::new(seed, 6).open().start(5, seconds(15));
        let cluster = cluster.crash_registry(seconds(8)).restart_registry(seconds(12));
        let cluster = cluster.crash(2, seconds(10)).restart(2, seconds(50)).crash(3, seconds(20));
        let cluster = cluster.partition([0, 1], [4, 5], seconds(14), seconds(22));
        let run = cluster.run(|node| changes_much(&node));
        let all: Vec<_> = run.results.into_iter().flatten().collect();
        assert_eq!(all.len(), 5, "seed {seed}");
        let is_whole =
            |seen: &&Vec<Event>| !seen.iter().any(|it| matches!(it, Event::Resync { .. }));
        let longest = all.iter().filter(is_whole).max_by_key(|seen| seen.len()).expect("nodes");
        let mut winners = BTreeMap::new();
        for event in longest {
            if let Event::Elected { view, winner, epoch } = event {
                let known = winners.insert((view, epoch), winner);
                assert_eq!(known, None, "seed {seed}: two winners of {view} at {epoch}");
            }
        }
        assert!(winners.len() > 5, "seed {seed}: {winners:?}");
        for seen in &all {
            // A node that joins late may have the state of the pool instead of the first events.
            let late = seen.iter().rposition(|event| matches!(event, Event::Resync { .. }));
            if let Some(late) = late {
                let behind = &seen[late + 1..];
                let from = longest.iter().position(|event| behind.first() == Some(event));
                let mut both = longest[from.unwrap_or(longest.len())..].iter().zip(behind);
                assert!(both.all(|(a, b)| a == b), "seed {seed}: another order at a late node");
                continue;
            }
            assert!(longest.starts_with(seen), "seed {seed}: another order at a node");
            let deaths = seen.iter().filter(|event| matches!(event, Event::Died { .. }));
            assert_eq!(deaths.count(), 2, "seed {seed}: the two that crashed, and no other");
        }
    }
}

/// A question whose answer has come, and was not taken, is not asked again.
#[test]
fn an_answer_that_came_before_the_registry_crashed_counts() {
    let seconds = Duration::from_secs;
    let cluster = Cluster::new(10, 2).crash_registry(seconds(60)).restart_registry(seconds(61));
    let run = cluster.run(move |node| {
        let name = format!("name {}", node.rank());
        let asked = node.begin().bind(&name, b"once");
        // The registry forgets which questions it has carried out before so many others.
        for _ in 0..520 {
            node.enter("view").expect("in");
            node.exit("view").expect("out");
        }
        work(seconds(70));
        node.wait_bound(&name, minutes(1)).expect("the name");
        let bound = node.wait_on(asked, minutes(1)).expect("an answer");
        bound.map_err(|why| why.to_string())
    });
    assert_eq!(run.results, [Some(Ok(())), Some(Ok(()))]);
}

#[test]
fn events_are_told_to_a_function_in_their_order() {
    let run = Cluster::new(11, 5).crash(4, Duration::from_secs(3)).run(|node| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = Arc::clone(&told);
        // What the function waits for does not hold up the node.
        let calls = node.events().call_each(move |event| {
            rt::sleep(Duration::from_millis(500));
            tells.lock().unwrap().push(format!("{event:?}"));
        });
        let calls = calls.expect("a thread");
        node.enter("view").expect("in");
        rt::sleep(Duration::from_secs(20));
        drop(calls);
        let before = told.lock().unwrap().clone();
        node.exit("view").expect("out");
        rt::sleep(Duration::from_secs(5));
        let after = told.lock().unwrap().clone();
        let mut events = node.events();
        let all: Vec<_> =
            std::iter::from_fn(|| events.try_next()).map(|it| format!("{it:?}")).collect();
        (before == after && all.starts_with(&before), before.len())
    });
    // Five joins, five who enter, an election, a death and its place in the view.
    let [.., crashed] = &run.results[..] else { panic!() };
    assert!(crashed.is_none());
    let told = run.results[..4].iter().flatten();
    assert!(told.clone().all(|(same, count)| *same && *count >= 13), "{:?}", run.results);
}

#[test]
fn a_partition_delays_a_call_until_it_heals() {
    let run = Cluster::new(9, 2).partition([0], [1], seconds(2), seconds(5)).run(|node| {
        let object = node.export(Sums).unwrap();
        object.bind(&format!("adder {}", node.rank())).unwrap();
        let other: AdderStub =
            node.lookup(&format!("adder {}", 1 - node.rank()), minutes(1)).unwrap();
        assert_eq!(other.add(1, 2), Ok(3));
        rt::sleep(seconds(3));
        let started = rt::now();
        assert_eq!(other.add(3, 4), Ok(7));
        let took = rt::now() - started;
        rt::sleep(seconds(5));
        took
    });
    for took in run.results {
        let took = took.unwrap();
        assert!(took > Duration::from_millis(1500) && took < seconds(10), "{took:?}");
    }
}

#[test]
fn latencies_between_sites_are_seen_in_virtual_time() {
    let latency = Duration::from_millis(40);
    let cluster = Cluster::new(10, 4).site("north", [0, 1]).site("south", [2, 3]);
    let run = cluster.latency("north", "south", latency).run(|node| {
        node.wait_all(node.deadline()).unwrap();
        let object = node.export(Sums).unwrap();
        object.bind(&format!("adder {}", node.rank())).unwrap();
        let took = (0..4).filter(|other| *other != node.rank()).map(|other| {
            let adder: AdderStub = node.lookup(&format!("adder {other}"), minutes(1)).unwrap();
            adder.add(0, 0).unwrap();
            let started = rt::now();
            adder.add(1, 1).unwrap();
            (other, rt::now() - started)
        });
        let took: Vec<_> = took.collect();
        let site = node.member(node.id()).unwrap().location.site;
        node.enter("done").unwrap();
        while node.view("done").members.len() < 4 {
            rt::sleep(seconds(1));
        }
        rt::sleep(seconds(1));
        (site, took)
    });
    for (rank, result) in (0_u32..).zip(run.results) {
        let (site, took) = result.unwrap();
        assert_eq!(site, if rank < 2 { "north" } else { "south" });
        for (other, took) in took {
            if (rank < 2) == (other < 2) {
                assert!(took < Duration::from_millis(1), "{rank} calls {other}: {took:?}");
            } else {
                assert!(
                    took >= 2 * latency && took < 3 * latency,
                    "{rank} calls {other}: {took:?}"
                );
            }
        }
    }
}

#[test]
fn a_method_that_waits_lets_another_thread_receive_at_once() {
    let run = Cluster::new(11, 3).run(|node| {
        let object = node.export(Sums).unwrap();
        object.bind(&format!("adder {}", node.rank())).unwrap();
        let adder: AdderStub = node.lookup("adder 0", minutes(1)).unwrap();
        let mut slowest = Duration::ZERO;
        match node.rank() {
            1 => drop(adder.lasts(10_000).unwrap()),
            2 => {
                adder.add(1, 1).unwrap();
                rt::sleep(seconds(1));
                for _ in 0..10 {
                    let started = rt::now();
                    adder.add(1, 1).unwrap();
                    slowest = slowest.max(rt::now() - started);
                }
            }
            _ => rt::sleep(seconds(20)),
        }
        slowest
    });
    let slowest = run.results[2].unwrap();
    assert!(slowest > Duration::ZERO && slowest < Duration::from_micros(300), "{slowest:?}");
}

#[test]
fn a_panic_ends_the_run_with_the_seed_and_the_node() {
    let said = failure(Cluster::new(12, 3), |node| {
        assert_ne!(node.rank(), 1, "a fault of this test");
        rt::sleep(minutes(30));
    });
    assert!(said.contains("n1 panicked") && said.contains("a fault of this test"), "{said}");
    assert!(said.contains("the cluster of seed 12"), "{said}");
}

#[test]
fn programs_that_do_not_return_end_the_run_at_its_limit() {
    let said = failure(Cluster::new(13, 2).limit(minutes(10)), |node| {
        if node.rank() == 1 {
            rt::park(None);
        }
    });
    assert!(said.contains("1 programs have not returned after 600s"), "{said}");
    assert!(said.contains("n1 waits for ever"), "{said}");
}

#[egret::remote]
trait Visits {
    fn visit(&mut self);
    fn back(&mut self);
}

struct Room(egret::node::NodeHandle);

impl Room {
    /// A stub of the other of two nodes, whose calls have no deadline.
    fn other(node: &egret::node::NodeHandle) -> VisitsStub {
        let name = format!("room {}", 1 - node.rank());
        let found: VisitsStub = node.lookup(&name, minutes(1)).expect("the other room");
        found.with_deadline(Deadline::UntilDead)
    }
}

#[egret::remote]
impl Visits for Room {
    fn visit(&mut self) {
        rt::sleep(seconds(1));
        Self::other(&self.0).back().expect("an answer");
    }
    fn back(&mut self) {}
}

#[test]
fn a_deadlock_is_shown_with_its_waits_and_its_circle() {
    let said = failure(Cluster::new(21, 2).limit(minutes(10)), |node| {
        let object = node.export(Room(node.handle())).unwrap();
        object.bind(&format!("room {}", node.rank())).unwrap();
        Room::other(&node).visit().unwrap();
    });
    assert!(said.contains("2 programs have not returned after 600s"), "{said}");
    // The incarnations are in the order of joining, which the seed decides.
    let incarnation = |node: u32| 1 + u32::from(said.contains(&format!("n{node} ({node}#2)")));
    let ids = [0, 1].map(|node| format!("{node}#{}", incarnation(node)));
    for (node, id) in ids.iter().enumerate() {
        let of_node = || said.lines().filter(|line| line.starts_with(&format!("n{node} ({id}): ")));
        for method in ["visit", "back"] {
            let other = &ids[1 - node];
            let waits = format!("for answer Visits::{method} of {other} at {}:", file!());
            assert!(of_node().any(|line| line.contains(&waits)), "{waits}: {said}");
        }
    }
    let [first, second] = &ids;
    assert!(said.contains(&format!("circle of waits: {first} → {second} → {first}\n")), "{said}");
    let threads = said.lines().filter(|line| *line == "n1 waits for ever");
    assert_eq!(threads.count(), 1, "the threads are listed once: {said}");
}

/// Calls node 0 from the others once a second, `count` times; what the calls said that failed.
fn calls_that_fail(
    node: &egret::node::NodeHandle,
    count: usize,
) -> Result<Vec<CallError>, CallError> {
    let adder: AdderStub = node.lookup("adder", minutes(1))?;
    let calls = (0..count).map(|_| {
        rt::sleep(seconds(1));
        adder.add(1, 2).err()
    });
    Ok(calls.collect::<Vec<_>>().into_iter().flatten().collect())
}

#[test]
fn a_call_of_a_member_that_is_cut_off_does_not_say_that_the_node_is_gone() {
    let cluster = Cluster::new(22, 2).partition([0], [1], seconds(3), seconds(10));
    let run = cluster.run(|node| {
        if node.rank() == 0 {
            let object = node.export(Sums).unwrap();
            object.bind("adder").unwrap();
            rt::sleep(seconds(60));
            return (Vec::new(), None);
        }
        let failed = calls_that_fail(&node, 15).unwrap();
        let adder: AdderStub = node.lookup("adder", minutes(1)).unwrap();
        (failed, Some(adder.add(1, 2)))
    });
    let (failed, after) = run.results[1].clone().unwrap();
    assert_eq!(after, Some(Ok(3)), "the node was well all the time");
    let lost = |why: &&CallError| matches!(why, CallError::PeerDied { is_member: true, .. });
    let lost = failed.iter().find(lost).unwrap_or_else(|| panic!("{failed:?}")).to_string();
    assert!(!lost.contains("gone"), "{lost}");
    assert!(lost.starts_with("node 0#") && lost.contains("was not reached: "), "{lost}");
    assert!(lost.contains("still a member"), "{lost}");
    assert!(lost.contains("may have run"), "it was sent: {lost}");
}

#[test]
fn a_node_that_was_declared_dead_is_told_so_by_the_first_call_that_fails() {
    // As a process that was stopped: nothing reaches it for four seconds.
    let cut = |sim: &egret::sim::SimFabric| {
        sim.at(seconds(3), |sim| sim.partition(&["n1"], &["n0", "registry"]));
        sim.at(seconds(7), |sim| sim.reconnect(&["n1"], &["n0", "registry"]));
    };
    let run = Cluster::new(23, 2).network(cut).run(|node| {
        if node.rank() == 0 {
            let object = node.export(Sums).unwrap();
            object.bind("adder").unwrap();
            rt::sleep(seconds(60));
            return Vec::new();
        }
        calls_that_fail(&node, 10).unwrap()
    });
    let failed = run.results[1].clone().unwrap();
    let is_it = |why: &CallError| matches!(why, CallError::NotMember { .. });
    assert!(!failed.is_empty() && failed.iter().all(is_it), "{failed:?}");
    assert!(matches!(failed[0], CallError::NotMember { may_have_run: true, .. }), "{failed:?}");
}

#[test]
fn a_name_in_an_open_pool_whose_owner_has_died_is_not_withdrawn() {
    let cluster = Cluster::new(24, 2).open().start(1, seconds(1)).crash(0, seconds(3));
    let run = cluster.run(|node| {
        if node.rank() == 0 {
            node.bind("name", b"").unwrap();
            rt::park(None);
        }
        assert_eq!(wait_death(&node).0.rank, 0);
        let started = rt::now();
        let at_once = node.try_bound("name");
        let waited = node.wait_bound("name", seconds(5));
        assert!(rt::now() - started >= seconds(5), "another node may bind the name");
        [at_once, waited].map(|bound| bound.unwrap_err())
    });
    let is_gone =
        |why: &NodeError| matches!(why, NodeError::OwnerGone { owner, .. } if owner.rank == 0);
    let said = run.results[1].clone().unwrap();
    assert!(said.iter().all(is_gone), "{said:?}");
}

#[test]
fn a_program_that_never_waits_ends_the_run_and_is_named() {
    let ends = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&ends);
    let said = failure(Cluster::new(14, 3).patience(Duration::from_millis(500)), move |node| {
        while node.rank() == 1 && seen.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
        rt::sleep(seconds(1));
    });
    ends.store(1, Ordering::Relaxed);
    assert!(said.contains("n1 has neither waited nor ended for 500ms"), "{said}");
    assert!(said.contains("the cluster of seed 14"), "{said}");
}

#[test]
fn a_lock_held_in_a_wait_ends_the_run_and_the_thread_that_wants_it_is_named() {
    let lock = Arc::new(Mutex::new(()));
    let said = failure(Cluster::new(15, 2).patience(Duration::from_millis(500)), move |node| {
        if node.rank() == 1 {
            rt::sleep(seconds(1));
        }
        let held = lock.lock();
        rt::sleep(seconds(10));
        drop(held);
    });
    assert!(said.contains("n1 has neither waited nor ended for 500ms"), "{said}");
    assert!(said.contains("a lock that a thread below holds"), "{said}");
    assert!(said.contains("n0 waits until"), "{said}");
    assert!(!said.contains("have not ended"), "both end: {said}");
}

#[test]
fn all_call_all() {
    let run = all_call(16, 12, 11);
    assert!(run.results.iter().all(Option::is_some));
}

/// 200 nodes, of which each calls 4 others; as many as `EGRET_NODES` says, of which each calls 16 others.
#[test]
fn many_nodes_join_call_others_and_leave() {
    let said = std::env::var("EGRET_NODES").ok().map(|said| said.parse().expect("a number"));
    let (nodes, calls) = said.map_or((200, 4), |nodes: u32| (nodes, 16));
    let run = all_call(17, nodes, calls);
    assert!(run.results.len() == nodes as usize && run.results.iter().all(Option::is_some));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{nodes} nodes: {:?} of virtual time; {peak}", run.elapsed);
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}
