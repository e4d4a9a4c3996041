//! Nodes that a runtime of tokio's drives.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{self, Config, Node, NodeHandle};
use egret::rmi::{CallError, Exported, ObjectRef, Remoting};
use egret::rt;
use egret::vi::Wait;
use tokio::task::{LocalSet, spawn_local};

#[egret::remote]
trait Adds {
    fn add(&self, a: u64, b: u64) -> u64;
    #[nonblocking]
    fn runs_on(&self) -> String;
    fn plain_runs_on(&self) -> String;
    fn sleep_ms(&self, ms: u64);
    fn row(&self, row: &[f64]) -> Vec<f64>;
}

struct Adder(Arc<AtomicU32>);

#[egret::remote]
impl Adds for Adder {
    fn add(&self, a: u64, b: u64) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        a + b
    }
    fn runs_on(&self) -> String {
        rt::current().name().unwrap_or_default().to_owned()
    }
    fn plain_runs_on(&self) -> String {
        self.runs_on()
    }
    fn sleep_ms(&self, ms: u64) {
        rt::sleep(Duration::from_millis(ms));
    }
    fn row(&self, row: &[f64]) -> Vec<f64> {
        row.iter().rev().copied().collect()
    }
}

#[egret::remote]
trait Calls {
    /// Says which thread runs a plain method of another object.
    fn call(&self, object: ObjectRef) -> Result<String, String>;
}

struct Caller(NodeHandle);

#[egret::remote]
impl Calls for Caller {
    fn call(&self, object: ObjectRef) -> Result<String, String> {
        let stub: AddsStub = self.0.stub(&object);
        stub.plain_runs_on().map_err(|why| why.to_string())
    }
}

struct Pair {
    stub: AddsStub,
    ran: Arc<AtomicU32>,
    exported: Exported,
    client: Node,
    server: Node,
    _registry: Registry,
}

fn pair(fabric: &str) -> Pair {
    pair_with(fabric, |config| config)
}

fn pair_with(fabric: &str, change: impl Fn(Config) -> Config) -> Pair {
    let options = RegistryOptions::new("tokio", 2).secret("hush".into());
    let registry = Registry::open(options).unwrap();
    let join = || {
        let config = registry.config();
        Node::join(change(config.fabrics(fabric))).unwrap()
    };
    let (server, client) = (join(), join());
    let ran = Arc::new(AtomicU32::new(0));
    let exported = server.export(Adder(Arc::clone(&ran))).unwrap();
    let stub: AddsStub = client.stub(exported.object());
    Pair { stub, ran, exported, client, server, _registry: registry }
}

/// Runs a future on a runtime of one thread, which drives these nodes meanwhile.
fn driven<F: Future>(nodes: &[&Node], future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let drivers: Vec<_> = nodes
            .iter()
            .map(|node| {
                let handle = node.handle();
                spawn_local(async move { node::tokio::drive(&handle).await })
            })
            .collect();
        let output = future.await;
        drivers.iter().for_each(tokio::task::JoinHandle::abort);
        output
    })
}

#[test]
fn calls_are_answered_by_the_thread_of_the_runtime() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        driven(&[&pair.client, &pair.server], async {
            let stub = Rc::new(pair.stub.clone());
            for a in 0..200 {
                assert_eq!(stub.begin().add(a, 1).await, Ok(a + 1), "{fabric}");
            }
            let tasks: Vec<_> = (0..50)
                .map(|a| {
                    let stub = Rc::clone(&stub);
                    spawn_local(async move { stub.begin().add(a, a).await })
                })
                .collect();
            for (a, task) in (0..).zip(tasks) {
                assert_eq!(task.await.unwrap(), Ok(2 * a), "{fabric}");
            }
            let row: Vec<f64> = (0..100_000).map(f64::from).collect();
            let back = stub.begin().row(row).await.unwrap();
            assert_eq!((back.len(), back[0]), (100_000, 99_999.0), "{fabric}");
            // Answers of several reads of a socket, by one edge of its descriptor.
            for _ in 0..10 {
                let calls: Vec<_> = (0..6)
                    .map(|_| {
                        let stub = Rc::clone(&stub);
                        spawn_local(async move { stub.begin().row(vec![1.0; 50_000]).await })
                    })
                    .collect();
                for call in calls {
                    assert_eq!(call.await.unwrap().unwrap().len(), 50_000, "{fabric}");
                }
            }
            // The nodes' own threads stay out of it, once they have seen that.
            let mut runs_on = String::new();
            for _ in 0..500 {
                runs_on = stub.begin().runs_on().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                if runs_on != "egret links" {
                    break;
                }
            }
            assert_ne!(runs_on, "egret links", "{fabric}");
        });
        assert_eq!(pair.ran.load(Ordering::Relaxed), 250);
        // Without the runtime they do it themselves again.
        assert_eq!(pair.stub.add(1, 2), Ok(3));
        drop(pair.exported);
    }
}

#[test]
fn one_future_drives_a_node() {
    let pair = pair("shm");
    driven(&[&pair.client], async {
        tokio::task::yield_now().await;
        let handle = pair.client.handle();
        let second = node::tokio::drive(&handle);
        let second = tokio::time::timeout(Duration::from_secs(30), second).await.unwrap();
        assert_eq!(second.kind(), std::io::ErrorKind::AlreadyExists, "{second}");
        assert_eq!(pair.stub.begin().add(1, 2).await, Ok(3), "the first goes on");
    });
}

#[test]
fn deadlines_pass_while_the_runtime_sleeps() {
    let pair = pair("shm");
    driven(&[&pair.client, &pair.server], async {
        let hasty = pair.stub.with_deadline(Duration::from_millis(50));
        let late = hasty.begin().sleep_ms(400).await;
        assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
        assert_eq!(pair.stub.begin().add(1, 2).await, Ok(3));
    });
}

/// Wakes another, and knows which threads did so.
struct Hears {
    by: Arc<Mutex<Vec<String>>>,
    waker: Waker,
}

impl Wake for Hears {
    fn wake(self: Arc<Self>) {
        self.by.lock().unwrap().push(rt::current().name().unwrap_or_default().to_owned());
        self.waker.wake_by_ref();
    }
}

fn alarms(node: &Node) -> usize {
    node.links().iter().map(|(_, links)| links.account().alarms).sum()
}

#[test]
fn the_runtime_keeps_deadlines_while_nothing_else_happens() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        assert_eq!(pair.stub.add(1, 2), Ok(3));
        driven(&[&pair.client], async {
            let hasty = pair.stub.with_deadline(Duration::from_millis(20));
            let me = rt::current().name().unwrap_or_default().to_owned();
            let mut last = None;
            // The node's own thread stays out of it, once it has seen that.
            for _ in 0..50 {
                let by: Arc<Mutex<Vec<String>>> = Arc::default();
                let mut call = pin!(hasty.begin().sleep_ms(2_000));
                let late = poll_fn(|context| {
                    let (by, waker) = (Arc::clone(&by), context.waker().clone());
                    let waker = Waker::from(Arc::new(Hears { by, waker }));
                    call.as_mut().poll(&mut Context::from_waker(&waker))
                });
                let late = tokio::time::timeout(Duration::from_secs(30), late).await.unwrap();
                assert!(matches!(late, Err(CallError::Deadline { .. })), "{fabric}: {late:?}");
                last = by.lock().unwrap().pop();
                if last.as_ref() == Some(&me) {
                    break;
                }
            }
            assert_eq!(last, Some(me), "{fabric}: another thread keeps the deadline");
        });
        assert_eq!(alarms(&pair.client), 0);
    }
}

#[test]
fn the_runtime_keeps_ten_thousand_deadlines() {
    let pair = pair_with("shm", |config| config.in_flight(16_000));
    assert_eq!(pair.stub.add(1, 2), Ok(3));
    driven(&[&pair.client], async {
        let tasks: Vec<_> = (0..10_000_u64)
            .map(|at| {
                let hasty = pair.stub.with_deadline(Duration::from_millis(100 + at % 100));
                spawn_local(async move { hasty.begin().sleep_ms(5_000).await })
            })
            .collect();
        for task in tasks {
            let late = tokio::time::timeout(Duration::from_secs(60), task).await.unwrap();
            assert!(matches!(late, Ok(Err(CallError::Deadline { .. }))), "{late:?}");
        }
    });
    assert_eq!(alarms(&pair.client), 0);
}

/// A runtime drives the node, and its thread runs a future by `block_on`: there is nobody else. The nic
/// spins, so that no loop sleeps on its descriptor which nobody polls.
#[test]
fn a_thread_that_awaits_needs_no_other() {
    let pair = pair_with("shm", |config| config.wait(Wait::Spin));
    let caller = pair.server.export(Caller(pair.server.handle())).unwrap();
    let own = pair.client.export(Adder(Arc::default())).unwrap();
    let stub: CallsStub = pair.client.stub(caller.object());
    driven(&[&pair.client], async {
        let me = rt::current().name().unwrap_or_default().to_owned();
        let mut ran_by = String::new();
        // The node's own thread leaves soon.
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            ran_by = pair.client.block_on(stub.begin().call(own.object().clone())).unwrap();
            if ran_by == me {
                break;
            }
        }
        assert_eq!(ran_by, me);
        let hasty = pair.stub.with_deadline(Duration::from_millis(20));
        let late = pair.client.block_on(hasty.begin().sleep_ms(2_000));
        assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    });
}

/// A task that waits, instead of awaiting, has its answer though the runtime rests meanwhile.
#[test]
fn a_task_that_waits_hears_for_itself() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        driven(&[&pair.client], async {
            for round in 0..4 {
                // The loop is armed by then.
                tokio::time::sleep(Duration::from_millis(5)).await;
                let started = rt::now();
                assert_eq!(pair.stub.add(round, 1), Ok(round + 1));
                assert_eq!(pair.stub.begin().add(round, 2).wait(), Ok(round + 2));
                pair.stub.sleep_ms(2).unwrap();
                assert!(rt::now() - started < Duration::from_secs(20), "it heard nothing");
            }
            // Calls that are awaited go on.
            assert_eq!(pair.stub.begin().add(1, 1).await, Ok(2));
        });
    }
}

#[test]
fn a_peer_that_goes_is_noticed() {
    let Pair { stub, client, server, exported, _registry, .. } = pair("tcp");
    driven(&[&client], async {
        assert_eq!(stub.begin().add(1, 2).await, Ok(3));
        let call = stub.begin().sleep_ms(20_000);
        let gone = tokio::task::spawn_blocking(move || {
            rt::sleep(Duration::from_millis(50));
            drop((exported, server));
        });
        let lost = call.await;
        assert!(
            matches!(lost, Err(CallError::PeerDied { .. } | CallError::UnknownObject { .. })),
            "{lost:?}"
        );
        gone.await.unwrap();
    });
}
