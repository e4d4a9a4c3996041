//! One caller of many does not take all that a node has.

use std::sync::{Arc, Mutex};

use egret::node::Node;
use egret::rmi::__private::{calls_account, run_calls};
use egret::rmi::{CallError, Exported, Remoting};

use crate::grid::{pool_with, wait};

#[egret::remote]
trait Notes {
    fn note(&self, who: u32);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u32>>>);

#[egret::remote]
impl Notes for Log {
    fn note(&self, who: u32) {
        self.0.lock().unwrap().push(who);
    }
}

/// As many calls as a node ever lets wait.
const MOST: u32 = 16_384;

fn export(node: &Node, log: &Log) -> Exported {
    node.export(log.clone()).unwrap()
}

fn stub(node: &Node, exported: &Exported) -> NotesStub {
    let stub: NotesStub = node.stub(exported.object());
    stub.note(0).unwrap();
    stub
}

#[test]
fn a_caller_that_fills_a_node_gets_nobody_else_refused() {
    let (_registry, nodes) = pool_with(3, "shm", |config| config.in_flight(2 * MOST));
    let exported = export(&nodes[0], &Log::default());
    let [many, few] = [stub(&nodes[1], &exported), stub(&nodes[2], &exported)];
    // Nobody runs what lines up.
    nodes[0].set_workers(0);
    let calls: Vec<_> = (0..MOST).map(|_| many.begin().note(1)).collect();
    assert!(matches!(many.note(1), Err(CallError::Busy { .. })), "it has all that it may have");
    let before = calls_account(&nodes[0]).calls;
    let other = few.begin().note(2);
    let own: NotesStub = nodes[0].stub(exported.object());
    let own = own.begin().note(3);
    wait("they wait as well", || calls_account(&nodes[0]).calls == before + 2);
    assert!(run_calls(&nodes[0]));
    assert_eq!((other.wait(), own.wait()), (Ok(()), Ok(())));
    let (ran, refused): (Vec<_>, Vec<_>) =
        calls.into_iter().map(|call| call.wait()).partition(Result::is_ok);
    assert!(ran.len() > refused.len(), "most of a node is whose calls come: {}", ran.len());
    assert!(refused.iter().all(|call| matches!(call, Err(CallError::Busy { .. }))));
}

#[test]
fn callers_take_turns() {
    let (_registry, nodes) = pool_with(3, "shm", |config| config.in_flight(2 * MOST));
    let log = Log::default();
    let exported = export(&nodes[0], &log);
    let [many, few] = [stub(&nodes[1], &exported), stub(&nodes[2], &exported)];
    nodes[0].set_workers(0);
    log.0.lock().unwrap().clear();
    let calls: Vec<_> = (0..100).map(|_| many.begin().note(1)).collect();
    wait("they wait", || calls_account(&nodes[0]).calls == 100);
    let others: Vec<_> = (0..3).map(|_| few.begin().note(2)).collect();
    wait("they all wait", || calls_account(&nodes[0]).calls == 103);
    assert!(run_calls(&nodes[0]));
    assert!(calls.into_iter().chain(others).all(|call| call.wait() == Ok(())));
    let log = log.0.lock().unwrap();
    let turns: Vec<_> = (0..log.len()).filter(|at| log[*at] == 2).collect();
    assert!(turns.len() == 3 && turns[2] < 8, "the others have waited for all: {turns:?}");
}
