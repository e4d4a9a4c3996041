//! Methods that are declared non-blocking, and the calls that they make.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret::node::NodeHandle;
use egret::rmi::{ObjectRef, Remoting};
use egret::rt;

use crate::grid::{pool, wait};

#[egret::remote]
trait Counts {
    fn count(&self);
}

struct Counter(Arc<AtomicU64>);

#[egret::remote]
impl Counts for Counter {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[egret::remote]
trait Hasty {
    /// Connects a stub.
    fn connect(&self, there: ObjectRef);
    /// Begins a call by it, sees that the call has run, and waits for the answer.
    #[nonblocking]
    fn begin_and_wait(&self) -> String;
    /// Waits for a call that cannot be sent while this thread is the only one that receives.
    #[nonblocking]
    fn wait_unsent(&self, there: ObjectRef) -> String;
}

struct Haste {
    node: NodeHandle,
    stub: Mutex<Option<CountsStub>>,
    counted: Arc<AtomicU64>,
}

#[egret::remote]
impl Hasty for Haste {
    fn connect(&self, there: ObjectRef) {
        let stub: CountsStub = self.node.stub(&there);
        stub.count().unwrap();
        *self.stub.lock().unwrap() = Some(stub);
    }

    fn begin_and_wait(&self) -> String {
        let before = self.counted.load(Ordering::Relaxed);
        let call = self.stub.lock().unwrap().as_ref().unwrap().begin().count();
        wait("it has run", || self.counted.load(Ordering::Relaxed) > before);
        call.wait().map_or_else(|why| why.to_string(), |()| "answered".to_owned())
    }

    fn wait_unsent(&self, there: ObjectRef) -> String {
        let stub: CountsStub = self.node.stub(&there);
        let waited = stub.begin().count().wait();
        waited.map_or_else(|why| why.to_string(), |()| "answered".to_owned())
    }
}

#[test]
fn a_call_that_ran_is_not_said_not_to_have() {
    let (_registry, nodes) = pool(3, "shm");
    let counted = Arc::new(AtomicU64::new(0));
    let haste =
        Haste { node: nodes[0].handle(), stub: Mutex::default(), counted: Arc::clone(&counted) };
    let hasty = nodes[0].export(haste).unwrap();
    let stub: HastyStub = nodes[1].stub(hasty.object());
    // An object of another node, and one of the node itself.
    for at in [2, 0] {
        let counter = nodes[at].export(Counter(Arc::clone(&counted))).unwrap();
        stub.connect(counter.object().clone()).unwrap();
        let said = stub.begin_and_wait().unwrap();
        assert!(said == "answered" || said.contains("may have run"), "node {at}: {said}");
    }
    // Of a node that this one has not called.
    let counter = nodes[1].export(Counter(Arc::clone(&counted))).unwrap();
    let before = counted.load(Ordering::Relaxed);
    let said = stub.wait_unsent(counter.object().clone()).unwrap();
    // On a machine that is busy another thread may have received meanwhile, and the call was sent.
    rt::sleep(Duration::from_millis(100));
    let ran = counted.load(Ordering::Relaxed) - before;
    let is_true = match &said[..] {
        "answered" => ran == 1,
        said if said.contains("may have run") => ran <= 1,
        said => said.contains("has not run") && ran == 0,
    };
    assert!(is_true, "{said}; it ran {ran} times");
}
