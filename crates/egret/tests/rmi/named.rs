//! What the errors of calls name: the node that is to blame, the node that was called, and the method.

use std::time::Duration;

use egret::node::{Departure, Node, NodeError};
use egret::rmi::{CallError, Export, NodeId, Remoting};
use egret::rt;

use crate::grid::{Board, GridStub, SOON, pair, pair_with, pool};

/// That an error says to what the call was made.
#[track_caller]
fn names<E: std::fmt::Display>(failed: &CallError<E>, node: NodeId, method: &str) {
    let call = failed.call().unwrap();
    assert_eq!((call.node(), call.interface(), call.method()), (node, "Grid", method), "{failed}");
    let said = failed.to_string();
    let parts = [format!("node {node}"), format!("`Grid::{method}`")];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

/// That an error blames the caller's node.
#[track_caller]
fn blames<E: std::fmt::Display>(failed: &CallError<E>, own: NodeId) -> bool {
    let CallError::NotMember { node, fate, may_have_run, .. } = failed else { panic!("{failed}") };
    assert_eq!((*node, fate), (own, &Departure::Left));
    let said = failed.to_string();
    let parts = [&format!("this node, {own}"), "it has left", "`Node::join`"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    *may_have_run
}

/// Ends the node of stubs: of one that is connected and has a call under way, of one that has not
/// called, and of one of an object of the node.
fn ends_the_caller(fabric: &str, end: impl FnOnce(Node)) {
    let (_registry, mut nodes) = pool(2, fabric);
    let (server, client) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let (there, here) =
        (server.export(Board::default()).unwrap(), client.export(Board::default()).unwrap());
    let (grid, fresh): (GridStub, GridStub) =
        (client.stub(there.object()), client.stub(there.object()));
    let own: GridStub = client.stub(here.object());
    assert_eq!((grid.ping(), own.ping()), (Ok(()), Ok(())));
    let under_way = grid.begin().sleep_ms(60_000);
    rt::sleep(Duration::from_millis(50));
    let (id, handle) = (client.id(), client.handle());
    end(client);
    let started = rt::now();
    let lost = under_way.wait().unwrap_err();
    assert!(blames(&lost, id), "it may have run: {lost}");
    names(&lost, server.id(), "sleep_ms");
    let late: GridStub = handle.stub(there.object());
    for stub in [&grid, &grid, &fresh, &late, &own] {
        let calls = [stub.ping(), stub.begin().ping().wait(), handle.block_on(stub.begin().ping())];
        for failed in calls {
            let failed = failed.unwrap_err();
            assert!(!blames(&failed, id), "it has not run: {failed}");
            names(&failed, stub.object().node, "ping");
        }
        let failed = stub.hint(1).unwrap_err();
        assert!(!blames(&failed, id), "it has not run: {failed}");
        names(&failed, stub.object().node, "hint");
    }
    let gone = handle.lookup::<GridStub>("grid", SOON).unwrap_err();
    let CallError::Registry(NodeError::NotMember { node, fate: Departure::Left }) = gone else {
        panic!("{gone}");
    };
    assert_eq!(node, id);
    let took = rt::now() - started;
    assert!(took < Duration::from_secs(3), "nobody is waited for: {took:?}");
}

#[test]
fn calls_of_a_node_that_has_left_say_that_it_has() {
    ends_the_caller("shm", |node| node.leave(SOON).unwrap());
}

#[test]
fn calls_of_a_node_that_was_dropped_say_that_it_has_left() {
    ends_the_caller("tcp", drop);
}

#[test]
fn errors_of_calls_name_the_node_and_the_method() {
    let pair = pair_with("shm", |config| config.in_flight(2));
    let (grid, there) = (&pair.grid, pair.server.id());
    grid.ping().unwrap();
    let short = grid.with_deadline(Duration::from_millis(30));
    names(&short.sleep_ms(60_000).unwrap_err(), there, "sleep_ms");
    names(&short.begin().sleep_ms(60_000).wait().unwrap_err(), there, "sleep_ms");
    let awaited = pair.client.block_on(short.begin().sleep_ms(60_000));
    names(&awaited.unwrap_err(), there, "sleep_ms");
    names(&grid.fail("design").unwrap_err(), there, "fail");
    names(&grid.begin().fail("design".to_owned()).wait().unwrap_err(), there, "fail");
    let how = Export::default().bytes_max(100);
    let small = pair.server.export_with(Board::default(), how).unwrap();
    let small: GridStub = pair.client.stub(small.object());
    names(&small.put_row(0, &[0.0; 100]).unwrap_err(), there, "put_row");
    names(&small.begin().put_row(0, vec![0.0; 100]).wait().unwrap_err(), there, "put_row");
    // Of an object of the same node.
    let own = pair.client.export(Board::default()).unwrap();
    let stub: GridStub = pair.client.stub(own.object());
    names(&stub.fail("design").unwrap_err(), pair.client.id(), "fail");
    drop(own);
    names(&stub.ping().unwrap_err(), pair.client.id(), "ping");
    drop(pair.exported);
    names(&grid.best(1).unwrap_err(), there, "best");
    names(&grid.begin().best(1).wait().unwrap_err(), there, "best");
    pair.server.leave(SOON).unwrap();
    let gone = grid.hints().unwrap_err();
    assert!(matches!(gone, CallError::PeerDied { node, .. } if node == there), "{gone}");
    names(&gone, there, "hints");
}

#[test]
fn a_name_that_was_withdrawn_is_told_as_that() {
    let pair = pair("shm");
    let owner = pair.server.id();
    let found: GridStub = pair.client.try_lookup("grid").unwrap();
    found.ping().unwrap();
    drop(pair.exported);
    let withdrawn = |failed: CallError| {
        let said = failed.to_string();
        assert!(
            said.contains(&format!("node {owner} had the name and has withdrawn it")),
            "{said}"
        );
        match failed {
            CallError::Registry(NodeError::NotBound { withdrawn_by, waited, .. }) => {
                assert_eq!(withdrawn_by, Some(owner));
                waited
            }
            other => panic!("{other:?}"),
        }
    };
    // Who waits does so, as somebody may bind it again.
    let waited = Duration::from_millis(50);
    let late = pair.client.lookup::<GridStub>("grid", waited).unwrap_err();
    assert!(withdrawn(late) >= waited);
    // Who does not is told at once.
    let started = rt::now();
    withdrawn(pair.client.try_lookup::<GridStub>("grid").unwrap_err());
    let never = pair.client.try_lookup::<GridStub>("never").unwrap_err();
    let said = never.to_string();
    assert!(said.contains("no node has published"), "{said}");
    assert!(rt::now() - started < Duration::from_secs(2));
    let again = pair.server.export(Board::default()).unwrap();
    let client = pair.client.handle();
    let waits = rt::spawn("waits", move || client.lookup::<GridStub>("grid", SOON)).unwrap();
    rt::sleep(Duration::from_millis(50));
    again.bind("grid").unwrap();
    waits.join().unwrap().unwrap().ping().unwrap();
    pair.server.leave(SOON).unwrap();
    let gone = pair.client.try_lookup::<GridStub>("grid").unwrap_err();
    assert!(matches!(gone, CallError::Registry(NodeError::OwnerGone { .. })), "{gone}");
}
