//! Calls enter a gate in the order in which they are begun, also those that cannot be sent at once.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use egret::node::registry::Registry;
use egret::node::{Node, NodeHandle};
use egret::rmi::{CallError, CallStage, Exported, Pending, Remoting};
use egret::rt;

use crate::grid::pool_with;

#[egret::remote]
trait Log {
    fn add(&mut self, number: u64) -> u64;
    fn add_bytes(&mut self, number: u64, bytes: &[u8]) -> u64;
    #[oneway]
    fn put(&mut self, number: u64);
    fn all(&self) -> Vec<u64>;
    /// Is there until it is let go.
    fn hold(&self);
    /// Adds to another log, some of it at once.
    fn pass_on(&self, to: egret::rmi::ObjectRef, count: u64);
}

struct Numbers(Vec<u64>, NodeHandle, Arc<AtomicBool>);

#[egret::remote]
impl Log for Numbers {
    fn add(&mut self, number: u64) -> u64 {
        self.0.push(number);
        number
    }
    fn add_bytes(&mut self, number: u64, _bytes: &[u8]) -> u64 {
        self.0.push(number);
        number
    }
    fn put(&mut self, number: u64) {
        self.0.push(number);
    }
    fn all(&self) -> Vec<u64> {
        self.0.clone()
    }
    fn hold(&self) {
        while !self.2.load(Ordering::SeqCst) {
            rt::sleep(Duration::from_millis(1));
        }
    }
    fn pass_on(&self, to: egret::rmi::ObjectRef, count: u64) {
        let stub: LogStub = self.1.stub(&to);
        let begun: Vec<_> = (0..count).map(|number| stub.begin().add(number)).collect();
        let ran = begun.into_iter().rev().map(Pending::wait);
        assert!(ran.zip((0..count).rev()).all(|(ran, number)| ran == Ok(number)));
    }
}

struct Logs {
    /// Lets those go that are held.
    lets_go: Arc<AtomicBool>,
    stub: LogStub,
    exported: Vec<Exported>,
    nodes: Vec<Node>,
    _registry: Registry,
}

/// Of a node that takes so many calls of another.
fn logs(fabric: &str, in_flight: u32) -> Logs {
    let (_registry, nodes) = pool_with(2, fabric, |config| config.in_flight(in_flight));
    let lets_go = Arc::<AtomicBool>::default();
    let held = || Arc::clone(&lets_go);
    let export = |node: &Node| node.export(Numbers(Vec::new(), node.handle(), held())).unwrap();
    let exported: Vec<_> = nodes.iter().map(export).collect();
    let stub = nodes[1].stub(exported[0].object());
    Logs { lets_go, stub, exported, nodes, _registry }
}

impl Logs {
    fn begin(&self, numbers: std::ops::Range<u64>) -> Vec<Pending<u64>> {
        numbers
            .map(|number| match number % 10 {
                3 => self.stub.begin().add_bytes(number, vec![7; 200]),
                7 => self.stub.begin().add_bytes(number, vec![7; 20_000]),
                _ => self.stub.begin().add(number),
            })
            .collect()
    }

    fn has(&self, numbers: impl Iterator<Item = u64>) {
        assert_eq!(self.stub.all().unwrap(), numbers.collect::<Vec<_>>());
    }
}

/// Which of those that were begun is waited for next.
type Next = fn(&mut Vec<Pending<u64>>) -> Pending<u64>;

const ORDERS: [Next; 3] = [
    |calls| calls.remove(0),
    |calls| calls.pop().unwrap(),
    |calls| {
        let at = rt::random() % calls.len() as u64;
        calls.swap_remove(usize::try_from(at).unwrap())
    },
];

fn wait_all(mut calls: Vec<Pending<u64>>, next: Next) {
    while !calls.is_empty() {
        next(&mut calls).wait().unwrap();
    }
}

#[test]
fn calls_that_are_begun_before_there_is_a_connection_keep_their_order() {
    for fabric in ["shm", "tcp"] {
        for next in ORDERS {
            let logs = logs(fabric, 64);
            wait_all(logs.begin(0..50), next);
            logs.has(0..50);
        }
    }
}

#[test]
fn more_calls_than_may_be_under_way_keep_their_order() {
    for fabric in ["shm", "tcp"] {
        for next in ORDERS {
            let logs = logs(fabric, 8);
            let mut calls = logs.begin(0..300);
            // One that is waited for at once, and one that nobody waits for, are behind them.
            assert_eq!(logs.stub.add(300), Ok(300));
            calls.extend(logs.begin(301..400));
            logs.stub.put(400).unwrap();
            wait_all(calls, next);
            logs.has(0..401);
        }
    }
}

#[test]
fn calls_that_are_awaited_keep_their_order() {
    for fabric in ["shm", "tcp"] {
        let logs = logs(fabric, 8);
        let mut calls = logs.begin(0..100);
        logs.nodes[1].block_on(async {
            while let Some(call) = calls.pop() {
                call.await.unwrap();
            }
        });
        logs.has(0..100);
    }
}

#[test]
fn calls_of_a_method_keep_their_order() {
    let logs = logs("shm", 8);
    let back: LogStub = logs.nodes[1].stub(logs.exported[1].object());
    logs.stub.pass_on(logs.exported[1].object().clone(), 100).unwrap();
    assert_eq!(back.all().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn dropped_calls_leave_the_queue_and_others_keep_their_order() {
    for fabric in ["shm", "tcp"] {
        let logs = logs(fabric, 8);
        let calls = logs.begin(0..100);
        // Whoever was to send for the others is dropped.
        let mut context = Context::from_waker(Waker::noop());
        let mut kept = Vec::new();
        for (number, mut call) in calls.into_iter().enumerate() {
            if number % 3 == 0 {
                _ = Pin::new(&mut call).poll(&mut context);
                drop(call);
            } else {
                kept.push(call);
            }
        }
        for call in kept {
            call.wait().unwrap();
        }
        let all = logs.stub.all().unwrap();
        assert!(all.is_sorted(), "{all:?}");
        assert!((0..100).filter(|number| number % 3 > 0).all(|number| all.contains(&number)));
    }
}

#[test]
fn threads_whose_calls_wait_are_all_served() {
    for fabric in ["shm", "tcp"] {
        let logs = logs(fabric, 2);
        let begin = |thread: u64| {
            let stub = logs.stub.clone();
            rt::spawn("caller", move || {
                for round in 0..20 {
                    let first = thread * 10_000 + round * 100;
                    let calls: Vec<_> = (0..10).map(|at| stub.begin().add(first + at)).collect();
                    assert_eq!(stub.add(first + 10), Ok(first + 10));
                    for (at, call) in (0..).zip(calls) {
                        assert_eq!(call.wait(), Ok(first + at));
                    }
                }
            })
            .unwrap()
        };
        let threads: Vec<_> = (0..6).map(begin).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let all = logs.stub.all().unwrap();
        assert_eq!(all.len(), 6 * 20 * 11);
        for thread in 0..6 {
            assert!(all.iter().filter(|number| **number / 10_000 == thread).is_sorted());
        }
    }
}

#[test]
fn a_call_that_waits_behind_others_ends_at_its_deadline() {
    let logs = logs("shm", 1);
    logs.stub.add(0).unwrap();
    let held = logs.stub.begin().hold();
    let before: Vec<_> = (1..4).map(|number| logs.stub.begin().add(number)).collect();
    let short = logs.stub.with_deadline(Duration::from_millis(1));
    let late = short.begin().add(4);
    let behind = logs.stub.begin().add(5);
    rt::sleep(Duration::from_millis(2));
    let why = late.wait().unwrap_err();
    let is_told =
        matches!(why, CallError::Deadline { stage: CallStage::Begun, may_have_run: false, .. });
    assert!(is_told, "{why:?}");
    // One without any time is not even begun.
    let never = logs.stub.with_deadline(Duration::ZERO);
    for why in [never.add(6).unwrap_err(), never.begin().add(6).wait().unwrap_err()] {
        let is_told =
            matches!(why, CallError::Deadline { stage: CallStage::Made, may_have_run: false, .. });
        assert!(is_told, "{why:?}");
    }
    logs.lets_go.store(true, Ordering::SeqCst);
    assert_eq!((held.wait(), behind.wait()), (Ok(()), Ok(5)));
    before.into_iter().for_each(|call| _ = call.wait().unwrap());
    logs.has([0, 1, 2, 3, 5].into_iter());
}
