//! Nodes that end while a method runs, and methods that end badly.

use std::cell::Cell;
use std::panic::panic_any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret::node::Node;
use egret::rmi::__private::calls_account;
use egret::rmi::{CallError, Remoting};
use egret::rt::{self, Deadline};

use crate::grid::{SOON, pool, wait};

/// What has become of a call that blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Runs,
    Over,
    ThreadGone,
}

type Shared = Arc<Mutex<State>>;

#[egret::remote]
trait Blocks {
    fn block(&mut self) -> u64;
}

/// Blocks until it is released.
struct Blocker {
    state: Shared,
    release: Mutex<Receiver<()>>,
}

/// Tells that its thread has ended.
struct Sentinel(Cell<Option<Shared>>);

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|state| *state.lock().unwrap() = State::ThreadGone);
    }
}

thread_local! {
    static THREAD: Sentinel = const { Sentinel(Cell::new(None)) };
}

#[egret::remote]
impl Blocks for Blocker {
    fn block(&mut self) -> u64 {
        THREAD.with(|thread| thread.0.set(Some(Arc::clone(&self.state))));
        *self.state.lock().unwrap() = State::Runs;
        self.release.get_mut().unwrap().recv().unwrap();
        *self.state.lock().unwrap() = State::Over;
        7
    }
}

/// Ends the node of an object whose method runs; the method ends after that, and its thread.
fn ends_while_a_method_runs(end: impl FnOnce(Node)) {
    let (_registry, mut nodes) = pool(2, "shm");
    let (server, client) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let (release, released): (Sender<()>, _) = channel();
    let state = Arc::new(Mutex::new(State::Waiting));
    let blocker = Blocker { state: Arc::clone(&state), release: Mutex::new(released) };
    let exported = server.export(blocker).unwrap();
    let stub: BlocksStub = client.stub(exported.object());
    let stub = stub.with_deadline(SOON);
    let call = stub.begin().block();
    let caller = rt::spawn("caller", move || call.wait()).unwrap();
    wait("it runs", || *state.lock().unwrap() == State::Runs);
    // A node that waited for the method would wait for this.
    let releaser = rt::spawn("releaser", move || {
        rt::sleep(Duration::from_secs(4));
        // If the method is gone the test has failed already.
        let _ = release.send(());
    })
    .unwrap();
    drop(exported);
    end(server);
    assert_eq!(*state.lock().unwrap(), State::Runs, "the node has waited for the method");
    let lost = caller.join().unwrap();
    assert!(matches!(lost, Err(CallError::PeerDied { may_have_run: true, .. })), "{lost:?}");
    releaser.join().unwrap();
    wait("its thread ends", || *state.lock().unwrap() == State::ThreadGone);
}

#[test]
fn leave_waits_for_a_method_until_the_deadline() {
    ends_while_a_method_runs(|node| {
        // The registry may be slow; the node is gone anyhow.
        let _ = node.leave(Deadline::In(Duration::from_millis(200)));
    });
}

#[test]
fn a_node_that_is_dropped_does_not_wait_long_for_a_method() {
    ends_while_a_method_runs(drop);
}

/// A panic's payload that panics when it is dropped, with another of its kind.
struct Bomb(u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Self(self.0 - 1));
        }
    }
}

#[egret::remote]
trait Bombs {
    fn explode(&mut self, bombs: u8);
    #[nonblocking]
    fn explode_inline(&mut self, bombs: u8);
    fn count(&mut self) -> u64;
}

#[derive(Default)]
struct Store(u64);

#[egret::remote]
impl Bombs for Store {
    fn explode(&mut self, bombs: u8) {
        panic_any(Bomb(bombs));
    }
    fn explode_inline(&mut self, bombs: u8) {
        panic_any(Bomb(bombs));
    }
    fn count(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

#[test]
fn a_panic_that_panics_again_leaves_gate_and_worker_as_they_were() {
    let (_registry, nodes) = pool(2, "shm");
    let exported = nodes[0].export(Store::default()).unwrap();
    nodes[0].set_workers(1);
    let panicked = |failed: Result<(), CallError>, bombs| match failed {
        Err(CallError::Panicked { message, .. }) => assert_eq!(message, "(no message)", "{bombs}"),
        other => panic!("{bombs}: {other:?}"),
    };
    let mut count = 0;
    for node in &nodes {
        let stub: BombsStub = node.stub(exported.object());
        let stub = stub.with_deadline(Duration::from_secs(10));
        for bombs in [1, 3, 255] {
            panicked(stub.explode(bombs), bombs);
            panicked(stub.begin().explode(bombs).wait(), bombs);
            panicked(stub.explode_inline(bombs), bombs);
            count += 1;
            assert_eq!(stub.count(), Ok(count));
        }
    }
    wait("nothing is left", || calls_account(&nodes[0]).calls == 0);
}

/// Panics when it is dropped.
struct Last(Arc<Mutex<State>>, Mutex<Receiver<()>>);

#[egret::remote]
trait Lasts {
    fn last(&self) -> u64;
}

#[egret::remote]
impl Lasts for Last {
    fn last(&self) -> u64 {
        *self.0.lock().unwrap() = State::Runs;
        self.1.lock().unwrap().recv().unwrap();
        7
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = State::Over;
        panic!("dropped badly");
    }
}

#[test]
fn an_object_that_panics_when_it_is_dropped_costs_no_worker() {
    let (_registry, nodes) = pool(2, "shm");
    nodes[0].set_workers(1);
    let (release, released) = channel();
    let state = Arc::new(Mutex::new(State::Waiting));
    let exported = nodes[0].export(Last(Arc::clone(&state), Mutex::new(released))).unwrap();
    let stub: LastsStub = nodes[1].stub(exported.object());
    let call = stub.begin().last();
    let caller = rt::spawn("caller", move || call.wait()).unwrap();
    wait("it runs", || *state.lock().unwrap() == State::Runs);
    // The worker has the last of the object.
    drop(exported);
    release.send(()).unwrap();
    assert_eq!(caller.join().unwrap(), Ok(7));
    wait("it is dropped", || *state.lock().unwrap() == State::Over);
    let next = nodes[0].export(Store::default()).unwrap();
    let stub: BombsStub = nodes[1].stub(next.object());
    assert_eq!(stub.with_deadline(Duration::from_secs(10)).count(), Ok(1));
}
