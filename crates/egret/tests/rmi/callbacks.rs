//! Calls that come back to a thread which awaits.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::ThreadId;
use std::time::Duration;

use egret::node::{Node, NodeHandle};
use egret::rmi::{ObjectRef, Remoting};
use egret::rt;
use egret::vi::Wait;

use crate::grid::{LONG, SOON, pool, pool_with, wait};

#[egret::remote]
trait Echoes {
    /// Calls `to` so many times, and says what came of it.
    fn call_back(&self, to: ObjectRef, times: u64) -> Result<u64, String>;
    /// Runs on some thread, which is noted.
    fn note(&self, number: u64) -> u64;
    /// To and fro, by futures.
    fn to_and_fro(&self, own: ObjectRef, other: ObjectRef, times: u32) -> Result<u32, String>;
    /// Until it is let go.
    fn hold(&self);
    fn sleep_ms(&self, ms: u64);
}

#[derive(Clone, Default)]
struct Notes {
    ran_by: Arc<Mutex<Vec<ThreadId>>>,
    is_held: Arc<AtomicBool>,
    lets_go: Arc<AtomicBool>,
}

struct Echo {
    node: NodeHandle,
    notes: Notes,
}

#[egret::remote]
impl Echoes for Echo {
    fn call_back(&self, to: ObjectRef, times: u64) -> Result<u64, String> {
        let stub: EchoesStub = self.node.stub(&to);
        let calls = (0..times).map(|number| stub.note(number).map_err(|why| why.to_string()));
        calls.sum()
    }

    fn note(&self, number: u64) -> u64 {
        self.notes.ran_by.lock().unwrap().push(rt::current().id());
        number
    }

    fn to_and_fro(&self, own: ObjectRef, other: ObjectRef, times: u32) -> Result<u32, String> {
        if times == 0 {
            return Ok(0);
        }
        let stub: EchoesStub = self.node.stub(&other);
        let went = self.node.block_on(stub.begin().to_and_fro(other, own, times - 1));
        went.map(|times| times + 1).map_err(|why| why.to_string())
    }

    fn hold(&self) {
        self.notes.is_held.store(true, Ordering::Release);
        wait("it is let go", || self.notes.lets_go.load(Ordering::Acquire));
    }

    fn sleep_ms(&self, ms: u64) {
        rt::sleep(Duration::from_millis(ms));
    }
}

fn export(node: &Node) -> (egret::rmi::Exported, Notes) {
    let notes = Notes::default();
    let echo = Echo { node: node.handle(), notes: notes.clone() };
    (node.export(echo).unwrap(), notes)
}

#[test]
fn a_thread_that_runs_a_future_runs_the_callbacks_of_its_calls() {
    for (fabric, how) in [
        ("shm", Wait::Spin),
        ("shm", Wait::Balanced),
        ("tcp", Wait::Balanced),
        ("tcp", Wait::Frugal),
    ] {
        let (_registry, nodes) = pool_with(2, fabric, |config| config.wait(how));
        let ((here, notes), (there, _)) = (export(&nodes[0]), export(&nodes[1]));
        // The only worker has something else to do.
        nodes[0].set_workers(1);
        let own: EchoesStub = nodes[1].stub(here.object());
        let holds = rt::spawn("holds", move || own.with_deadline(SOON).hold()).unwrap();
        wait("it is held", || notes.is_held.load(Ordering::Acquire));
        let stub: EchoesStub = nodes[0].stub(there.object());
        let me = rt::current().id();
        let mut own = 0;
        // The background thread may have the role for a moment.
        for _ in 0..50 {
            let call = stub.begin().call_back(here.object().clone(), 4);
            assert_eq!(nodes[0].block_on(call), Ok(6), "{fabric}, {how:?}");
            let ran_by = std::mem::take(&mut *notes.ran_by.lock().unwrap());
            assert_eq!(ran_by.len(), 4);
            own += ran_by.into_iter().filter(|by| *by == me).count();
            if own >= 4 {
                break;
            }
        }
        assert!(own >= 4, "{fabric}, {how:?}: {own} ran on the thread that awaits");
        notes.lets_go.store(true, Ordering::Release);
        holds.join().unwrap().unwrap();
    }
}

#[test]
fn calls_of_several_futures_come_back() {
    let (_registry, nodes) = pool(2, "shm");
    let ((here, notes), (there, _)) = (export(&nodes[0]), export(&nodes[1]));
    let stub: EchoesStub = nodes[0].stub(there.object());
    let mut calls: Vec<_> = (0..20)
        .map(|times| (times, stub.begin().call_back(here.object().clone(), times)))
        .collect();
    nodes[0].block_on(poll_fn(|context| {
        calls.retain_mut(|(times, call)| match Pin::new(call).poll(context) {
            Poll::Pending => true,
            Poll::Ready(sum) => {
                assert_eq!(sum, Ok((0..*times).sum()));
                false
            }
        });
        if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert_eq!(notes.ran_by.lock().unwrap().len(), (0..20).sum());
}

#[test]
fn calls_of_others_are_run_by_other_threads() {
    let (_registry, nodes) = pool(2, "shm");
    let ((here, notes), (there, _)) = (export(&nodes[0]), export(&nodes[1]));
    let stub: EchoesStub = nodes[0].stub(there.object());
    nodes[0].block_on(stub.begin().note(1)).unwrap();
    let (others, stops) = (nodes[1].handle(), Arc::new(AtomicBool::new(false)));
    let (object, stop) = (here.object().clone(), Arc::clone(&stops));
    let others = rt::spawn("others", move || {
        let stub: EchoesStub = others.stub(&object);
        let mut calls = 0;
        while !stop.load(Ordering::Relaxed) || calls < 100 {
            stub.with_deadline(SOON).note(calls).unwrap();
            calls += 1;
        }
        calls
    })
    .unwrap();
    let call = stub.with_deadline(LONG).begin().sleep_ms(200);
    nodes[0].block_on(call).unwrap();
    stops.store(true, Ordering::Relaxed);
    let calls = others.join().unwrap();
    let (ran_by, me) = (notes.ran_by.lock().unwrap(), rt::current().id());
    assert_eq!(ran_by.len() as u64, calls);
    assert!(!ran_by.contains(&me), "a thread that awaits has run what is no part of its call");
}

#[test]
fn futures_inside_of_callbacks_come_back_too() {
    for fabric in ["shm", "tcp"] {
        let (_registry, nodes) = pool(2, fabric);
        let ((here, _), (there, _)) = (export(&nodes[0]), export(&nodes[1]));
        let stub: EchoesStub = nodes[0].stub(there.object());
        let (own, other) = (there.object().clone(), here.object().clone());
        let call = stub.with_deadline(SOON).begin().to_and_fro(own, other, 6);
        assert_eq!(nodes[0].block_on(call), Ok(6), "{fabric}");
    }
}
