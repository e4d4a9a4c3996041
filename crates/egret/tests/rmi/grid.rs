//! An object to call, and nodes to call it from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Config, Node};
use egret::prelude::Wire;
use egret::rmi::{Remoting, current};
use egret::rt::{self, Deadline};
use egret::vi::Wait;

/// A tree by value.
#[derive(Debug, Clone, PartialEq, Wire)]
pub(crate) struct Tree {
    pub(crate) value: i64,
    pub(crate) left: Option<Box<Tree>>,
    pub(crate) right: Option<Box<Tree>>,
}

impl Tree {
    pub(crate) fn of_depth(depth: u32) -> Self {
        let child = || (depth > 1).then(|| Box::new(Self::of_depth(depth - 1)));
        Self { value: 1, left: child(), right: child() }
    }

    pub(crate) fn sum(&self) -> i64 {
        let sum = |child: &Option<Box<Self>>| child.as_ref().map_or(0, |child| child.sum());
        self.value + sum(&self.left) + sum(&self.right)
    }
}

/// Why a value is no better.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct Worse {
    pub(crate) best: u64,
}

impl std::fmt::Display for Worse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is better", self.best)
    }
}

/// What others can do with a grid.
#[egret::remote]
pub(crate) trait Grid {
    /// Puts a row.
    fn put_row(&mut self, i: u32, row: &[f64]);
    fn row(&self, i: u32) -> Vec<f64>;
    fn sum(&self, t: Tree) -> i64;
    fn sum_lent(&self, t: &Tree) -> i64;
    fn best(&mut self, x: u64) -> Result<u64, Worse>;
    #[oneway]
    fn hint(&self, x: u64);
    fn hints(&self) -> u64;
    #[nonblocking]
    fn ping(&self);
    #[nonblocking]
    fn place_of(&self, row: &[f64]) -> u64;
    fn greet(&self, name: &str, times: u8) -> String;
    fn wide(&self, x: u128, rows: &[u128]) -> u128;
    fn fail(&self, how: &str);
    fn sleep_ms(&self, ms: u64) -> bool;
}

#[derive(Debug, Default)]
pub(crate) struct Board {
    rows: std::collections::BTreeMap<u32, Vec<f64>>,
    best: u64,
    hints: AtomicU64,
}

#[egret::remote]
impl Grid for Board {
    fn put_row(&mut self, i: u32, row: &[f64]) {
        self.rows.insert(i, row.to_vec());
    }
    fn row(&self, i: u32) -> Vec<f64> {
        self.rows.get(&i).cloned().unwrap_or_default()
    }
    fn sum(&self, t: Tree) -> i64 {
        t.sum()
    }
    fn sum_lent(&self, t: &Tree) -> i64 {
        t.sum()
    }
    fn best(&mut self, x: u64) -> Result<u64, Worse> {
        if x <= self.best {
            return Err(Worse { best: self.best });
        }
        Ok(std::mem::replace(&mut self.best, x))
    }
    fn hint(&self, x: u64) {
        self.hints.fetch_add(x, Ordering::Relaxed);
    }
    fn hints(&self) -> u64 {
        self.hints.load(Ordering::Relaxed)
    }
    fn ping(&self) {}
    fn place_of(&self, row: &[f64]) -> u64 {
        row.as_ptr() as u64
    }
    fn greet(&self, name: &str, times: u8) -> String {
        format!("hello {name}, ").repeat(times.into())
    }
    fn wide(&self, x: u128, rows: &[u128]) -> u128 {
        rows.iter().fold(x, |sum, row| sum.wrapping_add(*row))
    }
    fn fail(&self, how: &str) {
        panic!("it failed by {how}");
    }
    fn sleep_ms(&self, ms: u64) -> bool {
        let until = rt::now() + Duration::from_millis(ms);
        while rt::now() < until {
            if current().is_some_and(|current| current.is_cancelled()) {
                // Its caller has time to notice by itself.
                rt::sleep(Duration::from_millis(200));
                return false;
            }
            rt::sleep(Duration::from_millis(1));
        }
        true
    }
}

/// A pool of `size` nodes in this process, over a fabric.
pub(crate) fn pool(size: u32, fabric: &str) -> (Registry, Vec<Node>) {
    pool_with(size, fabric, |config| config)
}

/// The same, of nodes that are changed in some way.
pub(crate) fn pool_with(
    size: u32,
    fabric: &str,
    change: impl Fn(Config) -> Config,
) -> (Registry, Vec<Node>) {
    let options = RegistryOptions::new("rmi", size).secret(crate::peer::SECRET.into());
    let registry = Registry::open(options).unwrap();
    let nodes = (0..size).map(|_| {
        let config = registry.config();
        Node::join(change(config.fabrics(fabric))).unwrap()
    });
    let nodes = nodes.collect();
    (registry, nodes)
}

/// A board on the second of two nodes, and a stub on the first.
pub(crate) fn pair(fabric: &str) -> Pair {
    pair_with(fabric, |config| config)
}

/// The same, of nodes that are changed in some way.
pub(crate) fn pair_with(fabric: &str, change: impl Fn(Config) -> Config) -> Pair {
    let (registry, mut nodes) = pool_with(2, fabric, change);
    let (server, client) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let exported = server.export(Board::default()).unwrap();
    exported.bind("grid").unwrap();
    let grid = client.lookup("grid", SOON).unwrap();
    Pair { grid, exported, client, server, _registry: registry }
}

/// Two nodes; the fields are dropped in this order.
pub(crate) struct Pair {
    pub(crate) grid: GridStub,
    pub(crate) exported: egret::rmi::Exported,
    pub(crate) client: Node,
    pub(crate) server: Node,
    pub(crate) _registry: Registry,
}

/// Waits until it is so.
pub(crate) fn wait(what: &str, done: impl Fn() -> bool) {
    let until = rt::now() + LONG;
    while !done() {
        assert!(rt::now() < until, "not within {LONG:?}: {what}");
        rt::sleep(Duration::from_millis(2));
    }
}

/// Long enough for anything that comes to an end.
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const SOON: Deadline = Deadline::In(LONG);

/// Fabrics, and ways to wait for what comes by them.
pub(crate) const WAYS: [(&str, Wait); 5] = [
    ("shm", Wait::Spin),
    ("shm", Wait::Balanced),
    ("shm", Wait::Frugal),
    ("tcp", Wait::Balanced),
    ("tcp", Wait::Frugal),
];
