//! How much memory calls take.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Node, NodeHandle};
use egret::rmi::{Exported, Remoting};
use egret::rt::Deadline;
use egret_net::heap::{Allocations, CountingAllocator};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator::new();

#[egret::remote]
trait Memory {
    #[nonblocking]
    fn nothing(&self);
    #[nonblocking]
    fn add(&self, a: u64, b: u64) -> u64;
    fn nothing_plain(&self);
    #[nonblocking]
    fn look(&self, i: u32, row: &[f64]) -> (f64, u64);
    fn look_plain(&self, i: u32, row: &[f64]) -> (f64, u64);
}

struct It {
    node: NodeHandle,
}

#[egret::remote]
impl Memory for It {
    fn nothing(&self) {}
    fn add(&self, a: u64, b: u64) -> u64 {
        a + b
    }
    fn nothing_plain(&self) {}
    /// What is in the row, and how many bytes have arrived at the node and are in use.
    fn look(&self, i: u32, row: &[f64]) -> (f64, u64) {
        let out = self.node.links().iter().map(|(_, links)| links.account().out_bytes as u64);
        (row.iter().sum::<f64>() - f64::from(i), out.sum())
    }
    fn look_plain(&self, i: u32, row: &[f64]) -> (f64, u64) {
        self.look(i, row)
    }
}

/// An object on one node, a stub on another, both here; alone, as all are counted together.
struct Pair {
    stub: MemoryStub,
    _exported: Exported,
    _nodes: [Node; 2],
    _registry: Registry,
    _alone: MutexGuard<'static, ()>,
}

fn pair(fabric: &str) -> Pair {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = RegistryOptions::new("memory", 2).secret("hush".into());
    let registry = Registry::open(options).unwrap();
    let nodes = [(); 2].map(|()| {
        let config = registry.config();
        Node::join(config.fabrics(fabric)).unwrap()
    });
    nodes.iter().for_each(|node| node.wait_all(Deadline::DEFAULT).unwrap());
    let exported = nodes[1].export(It { node: nodes[1].handle() }).unwrap();
    let stub = nodes[0].stub(exported.object());
    Pair { stub, _exported: exported, _nodes: nodes, _registry: registry, _alone: alone }
}

/// What each of some calls takes. Of many times the least: what both nodes take for themselves
/// meanwhile comes with the time that passes, and what a wait takes that sleeps comes on a busy machine.
fn blocks_each(call: impl Fn()) -> f64 {
    (0..500).for_each(|_| call());
    let during = |_| HEAP.during(|| (0..CALLS).for_each(|_| call())).1;
    let least = (0..TIMES).map(during).map(|Allocations { blocks, .. }| blocks).min().unwrap();
    least as f64 / f64::from(CALLS)
}

#[test]
fn a_call_without_arguments_takes_no_memory() {
    for fabric in ["shm", "tcp"] {
        let Pair { stub, .. } = &pair(fabric);
        let each = [
            blocks_each(|| stub.nothing().unwrap()),
            blocks_each(|| assert_eq!(stub.add(1, 2), Ok(3))),
            blocks_each(|| stub.begin().nothing().wait().unwrap()),
        ];
        assert!(each.iter().all(|each| *each < 0.01), "{fabric}: {each:?}");
        let plain = blocks_each(|| stub.nothing_plain().unwrap());
        assert!(
            plain < 0.1,
            "{fabric}: {plain} of a plain method, which a worker runs now and then"
        );
    }
}

#[test]
fn a_row_is_read_where_it_arrived() {
    for fabric in ["shm", "tcp"] {
        let Pair { stub, .. } = &pair(fabric);
        for len in [1000, 12_800, 131_072, 500_000] {
            for (call, is_plain) in (10..16).zip([false, true, false, true, false, true]) {
                let row = vec![f64::from(call); len];
                let (looked, taken) = HEAP.during(|| match is_plain {
                    false => stub.look(call, &row),
                    true => stub.look_plain(call, &row),
                });
                let sum = f64::from(call) * (len as f64 - 1.0);
                // It came into one buffer, and a copy of it would be in another or in a block.
                let one = (8 * len + 8).next_power_of_two() as u64;
                assert_eq!(looked, Ok((sum, one)), "{fabric}, {len} numbers");
                assert!(taken.largest < 8 * len, "{fabric}, {len} numbers: {taken:?}");
            }
        }
    }
}

const CALLS: u32 = 20;
const TIMES: usize = 500;
