//! Who runs a method: the thread that receives its call, a worker, or who waits for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use egret::node::{Node, NodeHandle};
use egret::rmi::__private::calls_account;
use egret::rmi::{Exported, ObjectRef, Remoting};
use egret::rt;

use crate::grid::{LONG, SOON, pool, wait};

/// Tells who runs it.
#[egret::remote]
trait Who {
    /// The name of the thread.
    fn name(&self) -> String;
    fn is_mine(&self) -> bool;
    /// Has an object of the caller tell.
    fn ask_back(&self, there: ObjectRef) -> bool;
    /// Calls an object of the caller, which calls this one, until there are no more steps.
    fn bounce(&self, steps: u32, here: ObjectRef, there: ObjectRef) -> u32;
    /// The same with an array that goes as data.
    fn bounce_large(&self, steps: u32, here: ObjectRef, there: ObjectRef, ballast: &[u8]) -> u32;
    /// Returns when [`open`](Self::open) was called.
    fn wait_open(&self) -> bool;
    /// The same, and says that it may block.
    fn block_until_open(&self) -> bool;
    fn open(&self);
    /// Takes a lock of the program's.
    fn take_lock(&self) -> bool;
    fn spin_us(&self, us: u64) -> String;
    /// The same. How many were inside at once, at most, since it was asked last.
    fn spin_together(&self, us: u64);
    fn most_together(&self) -> usize;
    fn count(&mut self) -> u64;
    fn count_with(&mut self, ballast: &[u8]) -> u64;
    /// Begins a call inside the handler, which takes what has come.
    #[nonblocking]
    fn poll_inside(&self, there: ObjectRef);
}

struct It {
    node: NodeHandle,
    mine: Mutex<Option<ThreadId>>,
    is_open: Arc<(Mutex<bool>, Condvar)>,
    lock: Arc<Mutex<()>>,
    count: u64,
    /// How many are inside, and were at most.
    together: Mutex<[usize; 2]>,
}

impl It {
    fn new(node: &Node) -> Self {
        let (node, lock) = (node.handle(), Arc::default());
        let mine = Mutex::new(Some(rt::current().id()));
        Self { node, mine, is_open: Arc::default(), lock, count: 0, together: Mutex::default() }
    }
}

#[egret::remote]
impl Who for It {
    fn name(&self) -> String {
        rt::current().name().unwrap_or_default().to_owned()
    }
    fn is_mine(&self) -> bool {
        *self.mine.lock().unwrap() == Some(rt::current().id())
    }
    fn ask_back(&self, there: ObjectRef) -> bool {
        let stub: WhoStub = self.node.stub(&there);
        stub.is_mine().unwrap()
    }
    fn bounce(&self, steps: u32, here: ObjectRef, there: ObjectRef) -> u32 {
        let Some(left) = steps.checked_sub(1) else { return 0 };
        let stub: WhoStub = self.node.stub(&there);
        stub.bounce(left, there, here).unwrap() + 1
    }
    fn bounce_large(&self, steps: u32, here: ObjectRef, there: ObjectRef, ballast: &[u8]) -> u32 {
        if steps == 0 || ballast != [7; 5000] {
            return 0;
        }
        let next: WhoStub = self.node.stub(&there);
        1 + next.bounce_large(steps - 1, there, here, ballast).unwrap()
    }
    fn wait_open(&self) -> bool {
        let (is_open, opened) = &*self.is_open;
        let is_open = is_open.lock().unwrap();
        let (is_open, _) = opened.wait_timeout_while(is_open, LONG, |is_open| !*is_open).unwrap();
        *is_open
    }
    fn block_until_open(&self) -> bool {
        egret::blocking(|| self.wait_open())
    }
    fn open(&self) {
        *self.is_open.0.lock().unwrap() = true;
        self.is_open.1.notify_all();
    }
    fn take_lock(&self) -> bool {
        let _held = self.lock.lock().unwrap();
        self.is_mine()
    }
    fn spin_us(&self, us: u64) -> String {
        let until = rt::now() + Duration::from_micros(us);
        while rt::now() < until {
            std::hint::spin_loop();
        }
        self.name()
    }
    fn spin_together(&self, us: u64) {
        let change = |change: fn(&mut [usize; 2])| change(&mut self.together.lock().unwrap());
        change(|[inside, most]| {
            *inside += 1;
            *most = (*most).max(*inside);
        });
        self.spin_us(us);
        change(|[inside, _]| *inside -= 1);
    }
    fn most_together(&self) -> usize {
        std::mem::take(&mut self.together.lock().unwrap()[1])
    }
    fn count(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn count_with(&mut self, ballast: &[u8]) -> u64 {
        assert!(ballast.iter().all(|byte| *byte == 7));
        self.count()
    }
    fn poll_inside(&self, there: ObjectRef) {
        let stub: WhoStub = self.node.stub(&there);
        drop(stub.begin().name());
        self.node.links().iter().for_each(|(_, links)| links.poll());
    }
}

/// Objects of two nodes, and stubs by which each calls the other's.
struct Two {
    stubs: [WhoStub; 2],
    exported: [Exported; 2],
    nodes: Vec<Node>,
    _registry: egret::node::registry::Registry,
}

fn two(fabric: &str) -> Two {
    two_with(fabric, |_, it| it)
}

fn two_with(fabric: &str, change: impl Fn(usize, It) -> It) -> Two {
    let (registry, nodes) = pool(2, fabric);
    let exported = [0, 1].map(|at| nodes[at].export(change(at, It::new(&nodes[at]))).unwrap());
    let stub = |from: usize| -> WhoStub {
        let stub: WhoStub = nodes[from].stub(exported[1 - from].object());
        stub.with_deadline(SOON)
    };
    let stubs = [stub(0), stub(1)];
    assert!(!stubs[0].is_mine().unwrap());
    Two { stubs, exported, nodes, _registry: registry }
}

impl Two {
    fn object(&self, at: usize) -> ObjectRef {
        self.exported[at].object().clone()
    }
}

#[test]
fn a_method_runs_on_the_thread_that_receives_its_call() {
    for fabric in ["shm", "tcp"] {
        let two = two(fabric);
        assert_eq!(two.stubs[0].name().unwrap(), "egret links", "{fabric}");
        // One that serves does so itself.
        let (calls, done) = (two.stubs[0].clone(), Arc::new(AtomicBool::new(false)));
        let is_done = Arc::clone(&done);
        let caller = rt::spawn("caller", move || {
            wait("the thread that serves runs a call", || calls.is_mine().unwrap());
            is_done.store(true, Ordering::Relaxed);
            calls.open().unwrap();
        })
        .unwrap();
        assert!(two.nodes[1].serve(SOON, || done.load(Ordering::Relaxed)), "{fabric}");
        caller.join().unwrap();
    }
}

#[test]
fn while_a_method_blocks_others_are_served() {
    for fabric in ["shm", "tcp"] {
        for blocks in [false, true] {
            let two = two(fabric);
            let stub = &two.stubs[0];
            // Fewer than there are workers.
            let calls: Vec<_> = (0..5)
                .map(|_| match blocks {
                    false => stub.begin().wait_open(),
                    true => stub.begin().block_until_open(),
                })
                .collect();
            assert!((1..=100).all(|_| !stub.name().unwrap().is_empty()));
            stub.open().unwrap();
            assert!(calls.into_iter().all(|call| call.wait().unwrap()), "{fabric}");
        }
    }
}

#[test]
fn while_a_thread_that_serves_runs_a_method_others_are_served() {
    let two = two("shm");
    let (stub, done) = (two.stubs[0].clone(), Arc::new(AtomicBool::new(false)));
    let is_done = Arc::clone(&done);
    let caller = rt::spawn("caller", move || {
        let blocked = stub.begin().wait_open();
        assert!((0..100).all(|_| !stub.name().unwrap().is_empty()));
        stub.open().unwrap();
        assert!(blocked.wait().unwrap());
        is_done.store(true, Ordering::Relaxed);
        stub.open().unwrap();
    })
    .unwrap();
    assert!(two.nodes[1].serve(SOON, || done.load(Ordering::Relaxed)));
    caller.join().unwrap();
}

#[test]
fn a_waiting_thread_runs_only_the_callbacks_of_its_call() {
    let two = two("shm");
    // The other node's method calls back while this thread waits for it.
    let back = |_| two.stubs[0].ask_back(two.object(0)).unwrap();
    let runs = (0..50).map(back).filter(|is_mine| *is_mine).count();
    assert!(runs > 0, "the thread that waits runs what it waits for");
    // Others call this node while its threads wait: none of those runs them.
    let count = Arc::new(AtomicU64::new(0));
    let (other, counts) = (two.stubs[1].clone(), Arc::clone(&count));
    let other = rt::spawn("other", move || {
        (0..200)
            .filter(|_| {
                counts.fetch_add(1, Ordering::Relaxed);
                other.is_mine().unwrap()
            })
            .count()
    })
    .unwrap();
    let until = rt::now() + LONG;
    while count.load(Ordering::Relaxed) < 200 && rt::now() < until {
        two.stubs[0].open().unwrap();
    }
    assert_eq!(other.join().unwrap(), 0, "of 200 calls");
}

#[test]
fn a_lock_may_be_held_over_a_call() {
    let lock = Arc::new(Mutex::new(()));
    let held = Arc::clone(&lock);
    let two = two_with("shm", |_, it| It { lock: Arc::clone(&held), ..it });
    let taken = Arc::new(AtomicU64::new(0));
    let (other, counts) = (two.stubs[1].clone(), Arc::clone(&taken));
    // It wants the lock at the node that calls with it.
    let other = rt::spawn("other", move || {
        for _ in 0..50 {
            assert!(!other.take_lock().unwrap());
            counts.fetch_add(1, Ordering::Relaxed);
        }
    })
    .unwrap();
    let until = rt::now() + LONG;
    while taken.load(Ordering::Relaxed) < 50 && rt::now() < until {
        let held = lock.lock().unwrap();
        two.stubs[0].spin_us(50).unwrap();
        two.stubs[0].open().unwrap();
        drop(held);
        rt::sleep(Duration::from_micros(100));
    }
    other.join().unwrap();
}

#[test]
fn calls_go_a_thousand_deep() {
    let two = two("shm");
    let (here, there) = (two.object(0), two.object(1));
    let steps = 1000;
    let went = two.stubs[0].bounce(steps, there, here);
    assert_eq!(went, Ok(steps));
}

#[test]
fn calls_with_data_go_deep_though_none_has_ended() {
    for fabric in ["shm", "tcp"] {
        let two = two(fabric);
        let (here, there) = (two.object(0), two.object(1));
        let went = two.stubs[0].bounce_large(20, there, here, &[7; 5000]);
        assert_eq!(went, Ok(20), "{fabric}");
    }
}

#[test]
fn a_method_that_takes_long_runs_on_workers() {
    let two = two("shm");
    let stub = &two.stubs[0];
    (0..40).for_each(|_| drop(stub.spin_us(200).unwrap()));
    assert_eq!(stub.spin_us(200).unwrap(), "egret-call");
    assert_eq!(stub.name().unwrap(), "egret links", "others are not concerned");
}

#[test]
fn methods_that_compute_use_all_cores() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let two = two("shm");
    let stub = &two.stubs[0];
    // It becomes known how long they take; one after the other they stay where they are received.
    (0..40).for_each(|_| stub.spin_together(50).unwrap());
    wait("as many run as there are cores", || {
        let calls: Vec<_> = (0..4 * cores).map(|_| stub.begin().spin_together(50)).collect();
        assert!(calls.into_iter().all(|call| call.wait().is_ok()));
        stub.most_together().unwrap() >= cores
    });
}

#[test]
fn short_methods_stay_on_the_thread_that_receives_them() {
    let two = two("shm");
    let stub = &two.stubs[0];
    let mut here = 0;
    for _ in 0..100 {
        let calls: Vec<_> = (0..20).map(|_| stub.begin().name()).collect();
        here += calls
            .into_iter()
            .map(egret::rmi::Pending::wait)
            .filter(|name| name.as_deref() == Ok("egret links"))
            .count();
    }
    // A thread that loses its core in the middle of one is taken for one that is busy.
    assert!(here > 1000, "{here} of 2000");
}

#[test]
fn calls_of_one_caller_enter_in_the_order_in_which_they_were_sent() {
    for fabric in ["shm", "tcp"] {
        let two = two(fabric);
        let stub = &two.stubs[0];
        let mut last = 0;
        for round in 0..50 {
            // Now and then the thread that receives is taken over from.
            let long = (round % 10 == 0).then(|| stub.begin().spin_us(1000));
            let calls: Vec<_> = (0..32).map(|_| stub.begin().count()).collect();
            long.into_iter().for_each(|call| drop(call.wait().unwrap()));
            for call in calls {
                last += 1;
                assert_eq!(call.wait(), Ok(last), "{fabric}");
            }
        }
    }
}

/// Arguments that do not fit a message go by another lane.
#[test]
fn calls_with_large_arguments_keep_their_order_among_small_ones() {
    for fabric in ["shm", "tcp"] {
        let two = two(fabric);
        let stub = &two.stubs[0];
        let mut last = 0;
        for round in 0..20 {
            let calls: Vec<_> = (0..200)
                .map(|at| match at {
                    150 => stub.begin().count_with(vec![7; 5_000]),
                    152 if round % 4 == 0 => stub.begin().count_with(vec![7; 100_000]),
                    160..170 => stub.begin().count_with(vec![7; 64]),
                    _ => stub.begin().count(),
                })
                .collect();
            for call in calls {
                last += 1;
                assert_eq!(call.wait(), Ok(last), "{fabric}, round {round}");
            }
        }
    }
}

#[test]
fn a_node_waits_a_moment_for_the_methods_that_run_when_it_goes() {
    let is_open: Arc<(Mutex<bool>, Condvar)> = Arc::default();
    let shared = Arc::clone(&is_open);
    let two = two_with("shm", |_, it| It { is_open: Arc::clone(&shared), ..it });
    let call = two.stubs[0].begin().wait_open();
    wait("it runs", || calls_account(&two.nodes[1]).calls > 0);
    let Two { nodes, exported, stubs, _registry } = two;
    let [client, server] = <[Node; 2]>::try_from(nodes).unwrap();
    let (gate, was_open) = (Arc::clone(&is_open), Arc::new(AtomicBool::new(false)));
    let opened = Arc::clone(&was_open);
    let opener = rt::spawn("opener", move || {
        rt::sleep(Duration::from_millis(100));
        *gate.0.lock().unwrap() = true;
        opened.store(true, Ordering::SeqCst);
        gate.1.notify_all();
    })
    .unwrap();
    drop(server);
    assert!(was_open.load(Ordering::SeqCst), "the node has waited for the method");
    opener.join().unwrap();
    drop((call, exported, stubs, client));
}

/// A method that polls another fabric inside its handler: what that brings is no business of the
/// thread's.
#[test]
fn what_a_handler_runs_by_polling_does_not_go_outside() {
    let two = two("shm,tcp");
    let stub = &two.stubs[0];
    for _ in 0..200 {
        let calls: Vec<_> = (0..8).map(|_| stub.begin().name()).collect();
        stub.poll_inside(two.object(0)).unwrap();
        assert!(calls.into_iter().all(|call| !call.wait().unwrap().is_empty()));
    }
    assert!(!stub.name().unwrap().is_empty(), "there is still somebody on duty");
}
