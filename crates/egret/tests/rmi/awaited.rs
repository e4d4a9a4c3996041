//! Calls that are awaited, by an executor that polls when it is woken and not otherwise.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use egret::buf::Pool;
use egret::node::NodeHandle;
use egret::rmi::{CallError, Remoting};
use egret::rt::{self, Deadline, Thread};

use crate::grid::{Board, GridStub, LONG, SOON, Tree, WAYS, pair, pool_with};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Fails if nobody wakes it.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(rt::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    let until = rt::now() + LONG;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        assert!(rt::now() < until, "nobody has woken it");
        rt::park(Some(until));
    }
}

#[test]
fn the_answer_of_the_first_call_wakes_the_awaiting_task() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        assert_eq!(block_on(pair.grid.begin().sum(Tree::of_depth(4))), Ok(15), "{fabric}");
        block_on(pair.grid.begin().put_row(1, vec![1.5; 100_000])).unwrap();
        assert_eq!(block_on(pair.grid.begin().row(1)).unwrap(), [1.5; 100_000]);
    }
}

#[test]
fn an_array_can_be_shared_with_calls_that_are_under_way() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        let pool = Pool::new(800_000, 1).unwrap();
        let mut row = pool.take_typed::<f64>(100_000).unwrap();
        row.fill(2.5);
        let row = row.share();
        let calls = [1, 2].map(|at| pair.grid.begin().put_row(at, row.clone()));
        assert!(row.iter().all(|value| *value == 2.5), "it can be read meanwhile");
        calls.into_iter().for_each(|call| block_on(call).unwrap());
        for at in [1, 2] {
            assert_eq!(pair.grid.row(at).unwrap(), [2.5; 100_000], "{fabric}");
        }
        drop(row);
        pool.wait_take(800_000, SOON).expect("it is given back when it is sent");
    }
}

#[test]
fn room_wakes_the_awaiting_task() {
    for fabric in ["shm", "tcp"] {
        let (_registry, nodes) = pool_with(2, fabric, |config| config.in_flight(1));
        let exported = nodes[1].export(Board::default()).unwrap();
        exported.bind("narrow").unwrap();
        let grid: GridStub = nodes[0].lookup("narrow", SOON).unwrap();
        grid.ping().unwrap();
        let (first, second) = (grid.begin().sleep_ms(50), grid.begin().greet("x".into(), 1));
        let first = rt::spawn("first", move || block_on(first)).unwrap();
        assert_eq!(block_on(second).unwrap(), "hello x, ");
        assert_eq!(first.join().unwrap(), Ok(true));
    }
}

#[test]
fn the_deadline_wakes_the_awaiting_task() {
    let pair = pair("tcp");
    pair.grid.ping().unwrap();
    let short = pair.grid.with_deadline(Deadline::In(Duration::from_millis(50)));
    let awaited = block_on(short.begin().sleep_ms(5_000));
    assert!(matches!(awaited, Err(CallError::Deadline { may_have_run: true, .. })), "{awaited:?}");
}

#[test]
fn the_name_of_an_object_goes_to_the_next_and_stays_there() {
    let pair = pair("shm");
    let next = pair.server.export(Board::default()).unwrap();
    next.rebind("grid").unwrap();
    drop(pair.exported);
    let grid: GridStub = pair.client.lookup("grid", SOON).unwrap();
    assert_eq!(grid.best(3), Ok(0));
    assert!(matches!(pair.grid.best(3).unwrap_err(), CallError::UnknownObject { .. }));
}

#[egret::remote]
trait Hasty {
    /// Awaits something where nobody may wait.
    #[nonblocking]
    fn block(&self);
}

struct Haste(NodeHandle);

#[egret::remote]
impl Hasty for Haste {
    fn block(&self) {
        self.0.block_on(std::future::pending::<()>());
    }
}

#[test]
fn a_thread_that_drives_awaits_calls_and_what_others_wake() {
    for (fabric, how) in WAYS {
        let (_registry, nodes) = pool_with(2, fabric, |config| config.wait(how));
        let exported = nodes[1].export(Board::default()).unwrap();
        let grid: GridStub = nodes[0].stub(exported.object());
        for _ in 0..50 {
            assert_eq!(nodes[0].block_on(grid.begin().hints()), Ok(0), "{fabric}, {how:?}");
        }
        let sums = nodes[0].block_on(async {
            let calls = [1, 3, 5].map(|depth| grid.begin().sum(Tree::of_depth(depth)));
            let mut sums = Vec::new();
            for call in calls {
                sums.push(call.await.unwrap());
            }
            sums
        });
        assert_eq!(sums, [1, 7, 31]);
        // Another thread wakes it, which has nothing to do with the links.
        let (state, mut other) = (Arc::new(Mutex::new((false, None::<Waker>))), None);
        let mut polls = 0;
        nodes[0].block_on(poll_fn(|context| {
            polls += 1;
            let mut inner = state.lock().unwrap();
            if inner.0 {
                return Poll::Ready(());
            }
            inner.1 = Some(context.waker().clone());
            other.get_or_insert_with(|| {
                let state = Arc::clone(&state);
                rt::spawn("other", move || {
                    rt::sleep(Duration::from_millis(20));
                    let mut inner = state.lock().unwrap();
                    inner.0 = true;
                    inner.1.take().unwrap().wake();
                })
                .unwrap()
            });
            Poll::Pending
        }));
        assert!(polls < 10, "{polls} times, and it was woken once");
        other.unwrap().join().unwrap();
        let hasty = nodes[1].export(Haste(nodes[1].handle())).unwrap();
        let stub: HastyStub = nodes[0].stub(hasty.object());
        let said = stub.block().unwrap_err().to_string();
        assert!(said.contains("in a handler"), "{said}");
    }
}
