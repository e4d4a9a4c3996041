//! Calls that make calls: deadlines, and coming back.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use egret::node::NodeHandle;
use egret::rmi::{CallError, Export, ObjectRef, Remoting, current};
use egret::rt::{self, Deadline};

use crate::grid::{SOON, pool, wait};

/// Calls others.
#[egret::remote]
pub(crate) trait Relay {
    /// Goes along the rest of a way, and says how many steps it was.
    fn go(&self, way: Vec<ObjectRef>) -> Result<u32, String>;
    /// The same, and nobody else may be there meanwhile.
    fn go_alone(&mut self, way: Vec<ObjectRef>, alone: Vec<bool>) -> Result<u32, String>;
    /// As `go`, to two at the same time.
    fn go_twice(&self, to: ObjectRef) -> Result<u32, String>;
    /// How much time is left for this call.
    fn left_ms(&self) -> u64;
    /// How much is left for a call that this makes.
    fn left_there_ms(&self, there: ObjectRef) -> u64;
    fn sleep_ms(&mut self, ms: u64);
    #[nonblocking]
    fn call_inline(&self, there: ObjectRef) -> String;
}

#[derive(Debug)]
pub(crate) struct Hop {
    node: NodeHandle,
}

impl Hop {
    fn next(&self, to: &ObjectRef) -> RelayStub {
        self.node.stub(to)
    }
}

#[egret::remote]
impl Relay for Hop {
    fn go(&self, mut way: Vec<ObjectRef>) -> Result<u32, String> {
        if way.is_empty() {
            return Ok(0);
        }
        let next = self.next(&way.remove(0));
        next.go(way).map(|steps| steps + 1).map_err(|why| text(&why))
    }

    fn go_alone(&mut self, mut way: Vec<ObjectRef>, mut alone: Vec<bool>) -> Result<u32, String> {
        if way.is_empty() {
            return Ok(0);
        }
        let next = self.next(&way.remove(0));
        let went = if alone.remove(0) { next.go_alone(way, alone) } else { next.go(way) };
        went.map(|steps| steps + 1).map_err(|why| text(&why))
    }

    fn go_twice(&self, to: ObjectRef) -> Result<u32, String> {
        let next = self.next(&to);
        let both: Vec<_> = (0..2).map(|_| next.begin().go_alone(Vec::new(), Vec::new())).collect();
        both.into_iter().map(|call| call.wait().map_err(|why| text(&why))).sum()
    }

    fn left_ms(&self) -> u64 {
        match current().map(|current| current.deadline()) {
            Some(Deadline::In(left)) => u64::try_from(left.as_millis()).unwrap(),
            _ => u64::MAX,
        }
    }

    fn left_there_ms(&self, there: ObjectRef) -> u64 {
        rt::sleep(Duration::from_millis(50));
        self.next(&there).with_deadline(Deadline::UntilDead).left_ms().unwrap()
    }

    fn sleep_ms(&mut self, ms: u64) {
        rt::sleep(Duration::from_millis(ms));
    }

    fn call_inline(&self, there: ObjectRef) -> String {
        format!("{:?}", self.next(&there).left_ms())
    }
}

/// An error's name, through all the calls it came by.
fn text(error: &CallError<String>) -> String {
    match error {
        CallError::Failed(inner) => inner.clone(),
        CallError::Reentered { .. } => "Reentered".to_owned(),
        other => format!("{other:?}"),
    }
}

/// A hop on each of some nodes.
struct Hops {
    stubs: Vec<RelayStub>,
    refs: Vec<ObjectRef>,
    _exported: Vec<egret::rmi::Exported>,
    nodes: Vec<egret::node::Node>,
    _registry: egret::node::registry::Registry,
}

fn hops(count: u32) -> Hops {
    let (registry, nodes) = pool(count, "shm");
    let exported: Vec<_> =
        nodes.iter().map(|node| node.export(Hop { node: node.handle() }).unwrap()).collect();
    let refs: Vec<_> = exported.iter().map(|exported| exported.object().clone()).collect();
    let stubs = refs.iter().map(|to| nodes[0].stub(to)).collect();
    nodes.iter().for_each(|node| node.wait_all(SOON).unwrap());
    Hops { stubs, refs, _exported: exported, nodes, _registry: registry }
}

#[test]
fn calls_go_on_from_node_to_node_and_back() {
    let hops = hops(3);
    let way: Vec<_> = [2, 1, 2, 0, 1].iter().map(|at| hops.refs[*at].clone()).collect();
    assert_eq!(hops.stubs[1].go(way.clone()), Ok(5), "shared calls come back as they like");
    // With one worker a node still serves the calls that come back to it.
    hops.nodes.iter().for_each(|node| node.set_workers(1));
    assert_eq!(hops.stubs[1].go(way), Ok(5));
}

#[test]
fn a_call_that_comes_back_to_who_waits_for_it_is_refused_at_once() {
    let hops = hops(3);
    let way = |steps: &[usize]| steps.iter().map(|at| hops.refs[*at].clone()).collect::<Vec<_>>();
    let alone = |alone: &[bool]| alone.to_vec();
    let reentered = Err(CallError::Failed("Reentered".to_owned()));
    let stub = &hops.stubs[1].with_deadline(SOON);
    // 1 alone → 2 → 1: the first waits for the last.
    assert_eq!(stub.go_alone(way(&[2, 1]), alone(&[false])), reentered);
    // 1 alone → 2 alone → 1 alone.
    assert_eq!(stub.go_alone(way(&[2, 1]), alone(&[true, true])), reentered);
    // Through a node that is its own.
    assert_eq!(stub.go_alone(way(&[1]), alone(&[true])), reentered);
    // Different objects are no coming back.
    assert_eq!(stub.go_alone(way(&[2, 0]), alone(&[true, true])), Ok(2));
    assert_eq!(stub.go_alone(way(&[2]), alone(&[true])), Ok(1), "all are free again");
}

#[test]
fn two_calls_of_one_call_are_not_in_each_others_way() {
    let hops = hops(2);
    assert_eq!(hops.stubs[0].go_twice(hops.refs[1].clone()), Ok(0));
}

#[test]
fn the_time_that_is_left_is_inherited() {
    let hops = hops(3);
    let stub = hops.stubs[1].with_deadline(Duration::from_secs(10));
    assert!((5_000..=10_000).contains(&stub.left_ms().unwrap()));
    let left = stub.left_there_ms(hops.refs[2].clone()).unwrap();
    assert!((3_000..=9_950).contains(&left), "{left} ms");
    let forever = hops.stubs[1].with_deadline(Deadline::UntilDead);
    assert_eq!(forever.left_ms(), Ok(u64::MAX));
}

#[test]
fn a_method_that_is_declared_nonblocking_may_not_wait() {
    let hops = hops(2);
    let said = hops.stubs[1].call_inline(hops.refs[0].clone()).unwrap();
    assert!(said.starts_with("Err(InHandler { may_have_run: false, "), "{said}");
}

/// Counts itself.
#[derive(Debug)]
struct Counted(Arc<OnceLock<()>>);

#[egret::remote]
trait Quiet {
    fn nothing(&self);
}

#[egret::remote]
impl Quiet for Counted {
    fn nothing(&self) {}
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(()).unwrap();
    }
}

#[test]
fn an_object_is_dropped_with_its_export_and_with_its_node() {
    let (_registry, nodes) = pool(2, "shm");
    let (first, second) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let exported = nodes[0].export(Counted(Arc::clone(&first))).unwrap();
    let stub: QuietStub = nodes[1].stub(exported.object());
    stub.nothing().unwrap();
    drop(exported);
    // Whoever ran the call has answered, and lets go of the object next.
    wait("it is dropped", || first.get().is_some());
    let object: Box<dyn Quiet> = Box::new(Counted(Arc::clone(&second)));
    let exported = nodes[0].export_as(object, Export::default()).unwrap();
    drop(nodes);
    drop(exported);
    wait("it is dropped too", || second.get().is_some());
}
