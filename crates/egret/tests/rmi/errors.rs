//! Everything that can go wrong with a call, by its name.

use std::time::Duration;

use egret::node::{Departure, NodeError};
use egret::rmi::__private::calls_account;
use egret::rmi::{CallError, CallStage, Export, Limit, Remoting};
use egret::rt::{self, Deadline};

use crate::grid::{Board, Grid, GridStub, SOON, pair, pair_with, pool_with};

mod other {
    /// The same name, and another idea of it.
    #[egret::remote]
    pub(crate) trait Grid {
        fn greet(&self, name: &str, times: u16) -> String;
    }
}

mod newer {
    /// One method more.
    #[egret::remote]
    pub(crate) trait Grid {
        fn ping(&self);
        fn pong(&self);
    }
}

/// Something else.
#[egret::remote]
trait Tower {
    fn ping(&self);
}

#[test]
fn a_panic_arrives_with_its_message_and_the_object_lives() {
    let pair = pair("shm");
    let failed = pair.grid.fail("design").unwrap_err();
    assert!(
        matches!(&failed, CallError::Panicked { message, .. } if message == "it failed by design"),
        "{failed:?}"
    );
    let failed = pair.grid.begin().fail("design".to_owned()).wait().unwrap_err();
    assert!(
        matches!(&failed, CallError::Panicked { message, .. } if message == "it failed by design"),
        "{failed:?}"
    );
    pair.grid.ping().unwrap();
    assert_eq!(pair.grid.best(3), Ok(0));
}

#[test]
fn an_object_that_is_gone_is_unknown() {
    let pair = pair("shm");
    pair.grid.ping().unwrap();
    drop(pair.exported);
    assert!(matches!(pair.grid.ping(), Err(CallError::UnknownObject { .. })));
    let again: GridStub = pair.client.stub(&pair.grid.object());
    assert!(matches!(again.ping(), Err(CallError::UnknownObject { .. })), "at the first call too");
    let gone = pair.client.lookup::<GridStub>("grid", Duration::from_millis(50));
    assert!(matches!(gone, Err(CallError::Registry(_))), "its name is free: {gone:?}");
}

#[test]
fn lookup_of_an_object_of_a_gone_node_fails_at_once() {
    let pair = pair("shm");
    let owner = pair.server.id();
    pair.server.leave(SOON).unwrap();
    let gone = pair.client.lookup::<GridStub>("grid", Deadline::UntilDead);
    let Err(CallError::Registry(NodeError::OwnerGone { name, owner: of, fate })) = gone else {
        panic!("{gone:?}");
    };
    assert_eq!((name.as_str(), of, fate), ("grid", owner, Departure::Left));
}

#[test]
fn other_types_are_found_by_name_at_the_first_call() {
    let pair = pair("shm");
    let other: other::GridStub = pair.client.lookup("grid", SOON).unwrap();
    match other.greet("x", 1) {
        Err(CallError::TypeMismatch { field, ours, theirs, call }) => {
            assert_eq!((call.interface(), call.method(), &*field), ("Grid", "greet", "times"));
            assert_eq!((&*ours, &*theirs), ("`u16`", "`u8`"));
        }
        other => panic!("{other:?}"),
    }
    let newer: newer::GridStub = pair.client.lookup("grid", SOON).unwrap();
    newer.ping().unwrap();
    let pending = newer.begin().pong();
    let unknown = pending.wait().unwrap_err();
    assert!(
        matches!(&unknown, CallError::UnknownMethod { name, .. } if name == "pong"),
        "{unknown}"
    );
    assert!(matches!(
        pair.client.lookup::<TowerStub>("grid", SOON),
        Err(CallError::NameOfOther { ours: "Tower", .. })
    ));
    pair.server.bind("stone", b"no object").unwrap();
    assert!(matches!(
        pair.client.lookup::<GridStub>("stone", SOON),
        Err(CallError::NoObject { .. })
    ));
}

#[test]
fn the_time_that_a_first_call_spends_on_connecting_is_waited_too() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        let short = pair.grid.with_deadline(Duration::from_millis(30));
        match short.sleep_ms(60_000) {
            Err(CallError::Deadline { deadline, stage: CallStage::Sent, .. }) => {
                assert_eq!(deadline, Duration::from_millis(30), "{fabric}");
            }
            other => panic!("{fabric}: {other:?}"),
        }
    }
}

#[test]
fn a_deadline_ends_a_call_and_a_late_one_never_runs() {
    let pair = pair("shm");
    pair.grid.ping().unwrap();
    let short = pair.grid.with_deadline(Duration::from_millis(30));
    match short.sleep_ms(60_000) {
        Err(CallError::Deadline { deadline, may_have_run: true, .. }) => {
            assert_eq!(deadline, Duration::from_millis(30));
        }
        other => panic!("{other:?}"),
    }
    let pending = short.begin().sleep_ms(60_000);
    assert!(matches!(pending.wait(), Err(CallError::Deadline { may_have_run: true, .. })));
    // With one worker, and that busy, the next has not begun when its time is up.
    pair.server.set_workers(1);
    let busy = pair.grid.begin().sleep_ms(300);
    let late = short.best(1);
    assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    assert_eq!(busy.wait(), Ok(true));
    assert_eq!(pair.grid.best(2), Ok(0), "the late one has not run");
}

#[test]
fn arguments_that_are_too_large_are_not_sent() {
    let pair = pair("shm");
    let how = Export::default().bytes_max(10_000);
    let small = pair.server.export_as::<dyn Grid>(Box::new(Board::default()), how).unwrap();
    let grid: GridStub = pair.client.stub(small.object());
    grid.put_row(0, &[0.0; 1000]).unwrap();
    let refused = grid.put_row(0, &[0.0; 2000]);
    let said = refused.clone().unwrap_err().to_string();
    assert!(["16008", "10000", "`Export::bytes_max`"].iter().all(|it| said.contains(it)), "{said}");
    assert!(
        matches!(
            refused,
            Err(CallError::TooLarge { bytes: 16_008, most: 10_000, limit: Limit::Object, .. })
        ),
        "{refused:?}"
    );
    let refused = grid.begin().put_row(0, vec![0.0; 2000]).wait();
    assert!(
        matches!(
            refused,
            Err(CallError::TooLarge { bytes: 16_008, most: 10_000, limit: Limit::Object, .. })
        ),
        "{refused:?}"
    );
}

#[test]
fn what_a_node_does_not_take_says_which_setting_raises_it() {
    let (_registry, nodes) = pool_with(2, "shm", |config| config.budget(4 << 20));
    let how = Export::default().bytes_max(1 << 30);
    let board = nodes[0].export_with(Board::default(), how.clone()).unwrap();
    let grid: GridStub = nodes[1].stub(board.object());
    grid.ping().unwrap();
    let row = vec![1.0; 1 << 20];
    let refused = grid.put_row(0, &row).unwrap_err();
    let CallError::TooLarge { bytes, most, limit: Limit::Node, .. } = refused else {
        panic!("{refused}")
    };
    assert!(bytes >= 8 << 20 && most < 4 << 20, "{refused}");
    let said = refused.to_string();
    let parts = [bytes.to_string(), most.to_string(), "`Config::budget`".to_owned()];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    // The object has the row, and the caller does not take it.
    let own: GridStub = nodes[0].stub(board.object());
    own.put_row(0, &row).unwrap();
    let refused = grid.row(0).unwrap_err();
    let CallError::AnswerTooLarge { bytes, most, .. } = refused else { panic!("{refused}") };
    assert!(bytes >= 8 << 20 && most < 4 << 20, "{refused}");
    let said = refused.to_string();
    let parts = [bytes.to_string(), most.to_string(), "`Config::budget`".to_owned()];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    // What it names raises it.
    let (_registry, nodes) = pool_with(2, "shm", |config| config.budget(64 << 20));
    let board = nodes[0].export_with(Board::default(), how).unwrap();
    let grid: GridStub = nodes[1].stub(board.object());
    grid.put_row(0, &row).unwrap();
    assert_eq!(grid.row(0).unwrap(), row);
}

/// Lists that are far larger in memory than in a message.
#[egret::remote]
trait Sparse {
    fn count(&self, all: Vec<Option<[u64; 7]>>) -> u64;
    fn make(&self, count: u64) -> Vec<Option<[u64; 7]>>;
}

struct Lists;

#[egret::remote]
impl Sparse for Lists {
    fn count(&self, all: Vec<Option<[u64; 7]>>) -> u64 {
        all.len() as u64
    }

    fn make(&self, count: u64) -> Vec<Option<[u64; 7]>> {
        (0..count).map(|_| None).collect()
    }
}

#[test]
fn the_values_of_a_call_take_no_more_memory_than_the_budget_of_their_node() {
    const COUNT: u64 = 120_000;
    let large = || vec![None; usize::try_from(COUNT).unwrap()];
    let (_registry, nodes) = pool_with(2, "shm", |config| config.budget(4 << 20));
    let lists = nodes[0].export(Lists).unwrap();
    let stub: SparseStub = nodes[1].stub(lists.object());
    let said = [stub.count(large()).unwrap_err(), stub.make(COUNT).unwrap_err()];
    for (refused, whose) in said.into_iter().zip(["of the object's node", "of this node"]) {
        assert!(matches!(refused, CallError::Unreadable { .. }), "{refused:?}");
        let said = refused.to_string();
        let parts = [(4 << 20).to_string(), format!("`Config::budget` {whose}")];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    // What it names raises it.
    let (_registry, nodes) = pool_with(2, "shm", |config| config.budget(64 << 20));
    let lists = nodes[0].export(Lists).unwrap();
    let stub: SparseStub = nodes[1].stub(lists.object());
    assert_eq!(stub.count(large()), Ok(COUNT));
    assert_eq!(stub.make(COUNT).unwrap().len() as u64, COUNT);
}

#[test]
fn a_client_waits_when_as_many_calls_are_under_way_as_it_may_have() {
    let pair = pair_with("shm", |config| config.in_flight(2));
    let narrow = pair.server.export(Board::default()).unwrap();
    let grid: GridStub = pair.client.stub(narrow.object());
    grid.ping().unwrap();
    let (a, b) = (grid.begin().sleep_ms(200), grid.begin().sleep_ms(200));
    let waits = grid.with_deadline(Deadline::In(Duration::from_millis(20)));
    let refused = waits.ping();
    assert!(
        matches!(
            refused,
            Err(CallError::Deadline {
                may_have_run: false,
                stage: CallStage::NoRoom { most: 2 },
                ..
            })
        ),
        "it was not even sent: {refused:?}"
    );
    let said = refused.unwrap_err().to_string();
    assert!(
        ["takes 2 calls", "20ms", "not sent", "in_flight"].iter().all(|it| said.contains(it)),
        "{said}"
    );
    let third = grid.begin().sleep_ms(0);
    assert_eq!((a.wait(), b.wait(), third.wait()), (Ok(true), Ok(true), Ok(true)));
}

#[test]
fn dropping_a_call_cancels_it() {
    let pair = pair("shm");
    pair.grid.ping().unwrap();
    // One that runs sees it.
    let running = pair.grid.begin().sleep_ms(60_000);
    rt::sleep(Duration::from_millis(50));
    drop(running);
    // One that waits for its turn never runs.
    pair.server.set_workers(1);
    let busy = pair.grid.begin().sleep_ms(300);
    let waits = pair.grid.begin().best(1000);
    rt::sleep(Duration::from_millis(50));
    drop(waits);
    assert_eq!(busy.wait(), Ok(true));
    assert_eq!(pair.grid.best(3), Ok(0), "the one that was dropped has not run");
    let until = rt::now() + Duration::from_secs(20);
    while calls_account(&pair.server).calls > 0 {
        assert!(rt::now() < until, "the one that ran has not seen that nobody waits");
        rt::sleep(Duration::from_millis(1));
    }
}
