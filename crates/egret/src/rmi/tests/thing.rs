//! The object of the trials, and the account of what ran.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::Nic;
use egret_node::node::NodeHandle;
use egret_stream::Wire;

use crate::rmi::__private::run_calls;
use crate::rmi::{CallError, ObjectRef, Pending, Remoting, current};

/// What a call is to do.
#[derive(Debug, Clone, Wire)]
pub(super) struct Task {
    pub(super) number: u64,
    /// Calls to make from there, one from the other.
    pub(super) way: Vec<Step>,
    /// So that it goes by one path or another.
    pub(super) ballast: Vec<f64>,
}

#[derive(Debug, Clone, Wire)]
pub(super) struct Step {
    pub(super) to: ObjectRef,
    pub(super) number: u64,
    pub(super) alone: bool,
}

#[crate::remote]
pub(super) trait Thing {
    fn look(&self, task: Task) -> Result<u64, String>;
    fn change(&mut self, task: Task) -> Result<u64, String>;
    #[nonblocking]
    fn quick(&self, number: u64, ballast: &[f64]) -> u64;
    #[oneway]
    fn tell(&self, number: u64);
}

pub(super) struct It {
    pub(super) node: NodeHandle,
}

#[crate::remote]
impl Thing for It {
    fn look(&self, task: Task) -> Result<u64, String> {
        self.go_on(task)
    }
    fn change(&mut self, task: Task) -> Result<u64, String> {
        self.go_on(task)
    }
    fn quick(&self, number: u64, ballast: &[f64]) -> u64 {
        ran(number);
        number + ballast.len() as u64
    }
    fn tell(&self, number: u64) {
        ran(number);
    }
}

impl It {
    fn go_on(&self, mut task: Task) -> Result<u64, String> {
        ran(task.number);
        let answer = task.number + task.ballast.len() as u64;
        if task.way.is_empty() {
            return Ok(answer);
        }
        let Step { to, number, alone } = task.way.remove(0);
        let stub: ThingStub = self.node.stub(&to);
        // Longer than anybody waits here: what is left of this call is less.
        let stub = stub.with_deadline(Deadline::In(Duration::from_secs(15)));
        let until = current().map(|current| current.deadline());
        noted(number, until.and_then(Deadline::until), self.node.id().incarnation);
        let task = Task { number, ..task };
        let went = wait(if alone { stub.begin().change(task) } else { stub.begin().look(task) });
        outcome(number, &went);
        went.map(|_| answer).map_err(|why| why.to_string())
    }
}

/// What is known of a call.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// When its caller gives up.
    pub(super) until: Option<Instant>,
    /// The life of the node that makes it.
    pub(super) by: u64,
    pub(super) ran: Vec<Instant>,
    pub(super) dropped: Option<Instant>,
    pub(super) error: Option<CallError<String>>,
    pub(super) is_ok: bool,
}

thread_local! {
    pub(super) static KNOWN: RefCell<BTreeMap<u64, Known>> = const { RefCell::new(BTreeMap::new()) };
    /// Everybody who is polled while a call waits for another.
    pub(super) static NODES: RefCell<Vec<NodeHandle>> = const { RefCell::new(Vec::new()) };
    pub(super) static NIC: RefCell<Option<Nic>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A call is made.
pub(super) fn noted(number: u64, until: Option<Instant>, by: u64) {
    let (ran, dropped, error) = (Vec::new(), None, None);
    let known = Known { until, by, ran, dropped, error, is_ok: false };
    KNOWN.with_borrow_mut(|all| all.insert(number, known));
}

fn ran(number: u64) {
    // What its node knows of its deadline, however long the way was.
    let left = current().map(|current| current.deadline());
    assert!(left != Some(Deadline::In(Duration::ZERO)), "call {number} has no time left");
    change(number, |known| known.ran.push(rt::now()));
}

pub(super) fn change(number: u64, change: impl FnOnce(&mut Known)) {
    KNOWN.with_borrow_mut(|all| change(all.get_mut(&number).expect("a call that was made")));
}

/// What came of a call, which must fit what ran.
pub(super) fn outcome<T>(number: u64, came: &Result<T, CallError<String>>) {
    change(number, |known| match came {
        Ok(_) => known.is_ok = true,
        Err(why) => known.error = Some(why.clone()),
    });
}

/// Lets the world go on until a call is answered.
fn wait<T>(mut pending: Pending<T, String>) -> Result<T, CallError<String>>
where
    T: for<'a> egret_stream::FromWire<'a>,
{
    loop {
        let polled = Pin::new(&mut pending).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(came) = polled {
            return came;
        }
        step();
    }
}

/// One step of all nodes, from inside of a call.
fn step() {
    DEPTH.set(DEPTH.get() + 1);
    let nic = NIC.with_borrow(Clone::clone).expect("a world");
    let seen = nic.poll();
    let mut next = vec![rt::now() + Duration::from_millis(50)];
    for node in NODES.with_borrow(Clone::clone) {
        node.poll();
        if DEPTH.get() < 6 {
            run_calls(&node);
        }
        next.extend(node.next_event());
    }
    nic.wait(seen, next.into_iter().min());
    DEPTH.set(DEPTH.get() - 1);
}
