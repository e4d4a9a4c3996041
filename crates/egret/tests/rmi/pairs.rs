//! What all stubs of a node's objects share, and that it goes when it is not needed.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use egret::node::{Node, NodeHandle, NodePart};
use egret::rmi::__private::calls_account;
use egret::rmi::{CallError, ObjectRef, Remoting};
use egret::rt;

use crate::grid::{Board, GridStub, SOON, pair_with, pool, pool_with, wait};

/// Mappings of a node's endpoints to those of others, and links that are dead and not forgotten.
fn held(node: &Node) -> (usize, usize) {
    let accounts = node.links().iter().map(|(_, links)| links.account());
    accounts.fold((0, 0), |sum, one| (sum.0 + one.outgoing, sum.1 + one.dead))
}

#[test]
fn stubs_of_all_objects_of_a_node_share_one_connection() {
    let (_registry, nodes) = pool(2, "shm");
    let exported: Vec<_> = (0..50).map(|_| nodes[1].export(Board::default()).unwrap()).collect();
    let first: GridStub = nodes[0].stub(exported[0].object());
    first.ping().unwrap();
    let before = held(&nodes[0]);
    let stubs: Vec<GridStub> = exported.iter().map(|it| nodes[0].stub(it.object())).collect();
    for (at, stub) in (0..).zip(&stubs) {
        assert_eq!(stub.best(at + 1), Ok(0), "each is an object of its own");
    }
    assert_eq!(held(&nodes[0]), before);
    assert!(size_of::<GridStub>() <= 128, "{} bytes", size_of::<GridStub>());
    // One that is not exported any more is not there for any stub, and the others are.
    let mut exported = exported;
    let gone = exported.remove(7);
    let reference = gone.object().clone();
    drop(gone);
    assert!(matches!(stubs[7].hints(), Err(CallError::UnknownObject { .. })));
    let again: GridStub = nodes[0].stub(&reference);
    assert!(matches!(again.hints(), Err(CallError::UnknownObject { .. })));
    // Its place is given to another, and its number is not.
    let next = nodes[1].export(Board::default()).unwrap();
    assert_ne!(next.object(), &reference);
    assert!(matches!(again.hints(), Err(CallError::UnknownObject { .. })));
    assert_eq!(stubs[8].hints(), Ok(0));
}

#[test]
fn objects_are_exported_by_several_threads_at_once() {
    for _ in 0..10 {
        let (_registry, nodes) = pool(1, "shm,tcp");
        let start = Arc::new(Barrier::new(4));
        let threads = (0..4).map(|_| {
            let (node, start) = (nodes[0].handle(), Arc::clone(&start));
            rt::spawn("exports", move || {
                start.wait();
                node.export(Board::default()).map(drop)
            })
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.unwrap().join().unwrap().unwrap();
        }
    }
}

#[test]
fn a_node_that_is_gone_keeps_nothing_of_who_called_it() {
    let (_registry, mut nodes) = pool(2, "shm");
    let (server, client) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let exported = server.export(Board::default()).unwrap();
    let before = held(&client);
    let stub: GridStub = client.stub(exported.object());
    stub.ping().unwrap();
    // A connection that was begun, too.
    drop(stub.begin().hints());
    drop(stub);
    drop((exported, server));
    wait("its link is forgotten", || held(&client) == before);
}

#[test]
fn calls_that_are_dropped_before_they_arrive_never_run() {
    let pair = pair_with("shm", |config| config.budget(1 << 20));
    pair.grid.ping().unwrap();
    pair.server.set_workers(0);
    // Their bytes wait: words that cancel them are there first.
    let calls: Vec<_> = (0..300).map(|_| pair.grid.begin().put_row(1, vec![1.0; 2000])).collect();
    drop(calls);
    wait("all are cancelled", || {
        let mut links = pair.client.links().iter();
        let is_sent = links.all(|(_, links)| links.account().out_bytes == 0);
        is_sent && calls_account(&pair.server).calls == 0
    });
    rt::sleep(Duration::from_millis(50));
    assert_eq!(calls_account(&pair.server).calls, 0);
    pair.server.set_workers(2);
    assert_eq!(pair.grid.row(1), Ok(Vec::new()), "none has run");
}

#[egret::remote]
trait Tells {
    fn connect(&self, to: ObjectRef);
    /// Tells another object something, through a stub that was made just now.
    #[nonblocking]
    fn tell(&self, to: ObjectRef, what: u64) -> String;
}

struct Teller(NodeHandle);

#[egret::remote]
impl Tells for Teller {
    fn connect(&self, to: ObjectRef) {
        self.0.stub::<GridStub>(&to).ping().unwrap();
    }
    fn tell(&self, to: ObjectRef, what: u64) -> String {
        let stub: GridStub = self.0.stub(&to);
        format!("{:?}", stub.with_deadline(SOON).hint(what))
    }
}

#[test]
fn a_handler_sends_by_a_stub_that_it_has_just_made() {
    let (_registry, nodes) = pool(2, "shm");
    let board = nodes[1].export(Board::default()).unwrap();
    let teller = nodes[0].export(Teller(nodes[0].handle())).unwrap();
    let stub: TellsStub = nodes[1].stub(teller.object());
    stub.connect(board.object().clone()).unwrap();
    assert_eq!(stub.tell(board.object().clone(), 5).unwrap(), "Ok(())");
    let grid: GridStub = nodes[0].stub(board.object());
    wait("it was told", || grid.hints() == Ok(5));
}

#[egret::remote]
trait Relays {
    /// Tells an object so many times.
    fn relay(&self, to: ObjectRef, count: u64) -> bool;
    /// Calls back and forth, so many times.
    fn bounce(&self, here: ObjectRef, there: ObjectRef, times: u32) -> u32;
}

struct Relay(NodeHandle);

#[egret::remote]
impl Relays for Relay {
    fn relay(&self, to: ObjectRef, count: u64) -> bool {
        let stub: GridStub = self.0.stub(&to);
        (0..count).all(|_| stub.hint(1).is_ok())
    }
    fn bounce(&self, here: ObjectRef, there: ObjectRef, times: u32) -> u32 {
        if times == 0 {
            return 0;
        }
        let stub: RelaysStub = self.0.stub(&there);
        stub.bounce(there, here, times - 1).unwrap() + 1
    }
}

/// Of those that nobody waits for none is lost, however many a method sends.
#[test]
fn what_a_method_tells_others_arrives() {
    let (_registry, nodes) = pool(3, "shm");
    let board = nodes[2].export(Board::default()).unwrap();
    let relay = nodes[1].export(Relay(nodes[1].handle())).unwrap();
    let stub: RelaysStub = nodes[0].stub(relay.object());
    let grid: GridStub = nodes[0].stub(board.object());
    grid.ping().unwrap();
    // More than a node takes on, of a node whose workers are slow to begin.
    let busy: Vec<_> = (0..8).map(|_| grid.begin().sleep_ms(300)).collect();
    assert_eq!(stub.relay(board.object().clone(), 20_000), Ok(true));
    wait("all have come", || grid.hints() == Ok(20_000));
    assert!(busy.into_iter().all(|call| call.wait() == Ok(true)));
}

/// As many calls as may be under way, each of which is answered when its own have been.
#[test]
fn calls_that_fill_the_window_do_not_keep_their_own_out() {
    let (_registry, nodes) = pool_with(2, "shm", |config| config.in_flight(2));
    let relays: Vec<_> =
        nodes.iter().map(|node| node.export(Relay(node.handle())).unwrap()).collect();
    let [here, there] = [0, 1].map(|at: usize| relays[at].object().clone());
    let stub: RelaysStub = nodes[0].stub(&there);
    let call = || stub.begin().bounce(there.clone(), here.clone(), 8);
    let calls: Vec<_> = (0..20).map(|_| call()).collect();
    assert!(calls.into_iter().all(|call| call.wait() == Ok(8)));
}

/// Is dropped with what a node keeps.
struct Canary(#[expect(dead_code, reason = "it is held")] Arc<()>);

impl NodePart for Canary {}

#[test]
fn a_handle_that_outlives_its_node_keeps_nothing() {
    let (_registry, nodes) = pool(2, "shm");
    let exported = nodes[1].export(Board::default()).unwrap();
    let (handle, object) = (nodes[0].handle(), exported.object().clone());
    drop((exported, nodes));
    let stub: GridStub = handle.stub(&object);
    assert!(matches!(stub.with_deadline(SOON).ping(), Err(CallError::NotMember { .. })));
    let kept = Arc::new(());
    drop(handle.part(|| Canary(Arc::clone(&kept))));
    drop((stub, handle));
    assert_eq!(Arc::strong_count(&kept), 1, "the node is still there");
}
