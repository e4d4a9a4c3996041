//! Deadlines of calls that are awaited, and who keeps them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use egret::node::Node;
use egret::rmi::CallError;
use egret::rt::{self, Deadline};

use crate::awaited::block_on;
use crate::grid::{LONG, WAYS, pair, pair_with};

/// A future, and the names of the threads that have woken it.
struct Heard<F> {
    future: Pin<Box<F>>,
    by: Arc<Mutex<Vec<String>>>,
}

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

impl<F: Future> Heard<F> {
    fn new(future: F) -> Self {
        Self { future: Box::pin(future), by: Arc::default() }
    }
}

impl<F: Future> Future for Heard<F> {
    /// The last of the threads as well.
    type Output = (F::Output, String);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (by, waker) = (Arc::clone(&self.by), context.waker().clone());
        let waker = Waker::from(Arc::new(Hears { by, waker }));
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        polled.map(|output| (output, self.by.lock().unwrap().pop().unwrap_or_default()))
    }
}

fn threads() -> Vec<String> {
    let all = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).ok();
    let names = all.filter_map(|thread| name(thread.unwrap().path()));
    names.map(|name| name.trim().to_owned()).collect()
}

fn alarms(node: &Node) -> usize {
    node.links().iter().map(|(_, links)| links.account().alarms).sum()
}

#[test]
fn a_thread_that_runs_a_future_keeps_its_deadline() {
    for (fabric, how) in WAYS {
        let pair = pair_with(fabric, |config| config.wait(how));
        pair.grid.ping().unwrap();
        let short = pair.grid.with_deadline(Duration::from_millis(20));
        let me = rt::current().name().unwrap_or_default().to_owned();
        // The background thread may have the role for a moment, of a machine that is busy.
        let by_itself = (0..20).any(|_| {
            let call = Heard::new(short.begin().sleep_ms(5_000));
            let (late, by) = pair.client.block_on(call);
            let is_late = matches!(late, Err(CallError::Deadline { may_have_run: true, .. }));
            assert!(is_late, "{fabric}, {how:?}: {late:?}");
            by == me
        });
        assert!(by_itself, "{fabric}, {how:?}: another thread keeps the deadline");
        let names = threads();
        assert!(!names.iter().any(|name| name.contains("clock")), "{names:?}");
        assert_eq!(alarms(&pair.client), 0);
    }
}

#[test]
fn the_background_keeps_the_deadlines_of_an_executor_that_drives_nothing() {
    let pair = pair("shm");
    pair.grid.ping().unwrap();
    let short = pair.grid.with_deadline(Duration::from_millis(20));
    let (late, by) = block_on(Heard::new(short.begin().sleep_ms(5_000)));
    assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    assert_eq!(by, "egret links");
    assert_eq!(alarms(&pair.client), 0);
}

#[test]
fn a_deadline_passes_though_the_node_has_closed() {
    let pair = pair("shm");
    let call = pair.grid.with_deadline(Duration::from_millis(20)).begin().sleep_ms(5_000);
    drop((pair.client, pair.server));
    let ended = block_on(call);
    assert!(ended.is_err(), "{ended:?}");
}

#[test]
fn a_future_that_is_dropped_has_no_deadline() {
    let pair = pair("tcp");
    pair.grid.ping().unwrap();
    let stub = pair.grid.with_deadline(LONG);
    let waker = Waker::noop();
    let mut calls: Vec<_> = (0..100).map(|_| Box::pin(stub.begin().sleep_ms(200))).collect();
    for call in &mut calls {
        assert!(call.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    assert_eq!(alarms(&pair.client), 100);
    calls.truncate(30);
    assert_eq!(alarms(&pair.client), 30);
    drop(calls);
    assert_eq!(alarms(&pair.client), 0);
    // One without a deadline has no alarm.
    let mut call = pin!(pair.grid.with_deadline(Deadline::UntilDead).begin().sleep_ms(1));
    let polled = call.as_mut().poll(&mut Context::from_waker(waker));
    assert!(polled.is_pending() || polled == Poll::Ready(Ok(true)));
    assert_eq!(alarms(&pair.client), 0);
}

#[test]
fn many_deadlines_pass() {
    let pair = pair_with("shm", |config| config.in_flight(16_000));
    pair.grid.ping().unwrap();
    let mut calls: Vec<_> = (0..10_000_u64)
        .map(|at| {
            let deadline = Duration::from_millis(100 + at % 100);
            pair.grid.with_deadline(deadline).begin().sleep_ms(5_000)
        })
        .collect();
    let mut late = 0;
    pair.client.block_on(poll_fn(|context| {
        calls.retain_mut(|call| match Pin::new(call).poll(context) {
            Poll::Pending => true,
            Poll::Ready(ended) => {
                assert!(matches!(ended, Err(CallError::Deadline { .. })), "{ended:?}");
                late += 1;
                false
            }
        });
        if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert_eq!(late, 10_000);
    assert_eq!(alarms(&pair.client), 0);
}
