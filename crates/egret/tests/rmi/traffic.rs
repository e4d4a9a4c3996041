//! What calls send.

use egret::node::Node;

use crate::grid::pair;

/// Messages that a node has received over shared memory, where the registry is not.
fn received(node: &Node) -> u64 {
    node.links().iter().map(|(_, links)| links.counters().received).sum()
}

#[test]
fn the_second_call_sends_no_set_up() {
    let pair = pair("shm");
    // What is received was there before the call is over, which is not so of what is sent.
    let during = |call: &dyn Fn()| {
        let nodes = [&pair.server, &pair.client];
        let before = nodes.map(received);
        call();
        let after = nodes.map(received);
        [after[0] - before[0], after[1] - before[1]]
    };
    let ping = || pair.grid.ping().unwrap();
    let [there, back] = during(&ping);
    assert!(there > 1 && back > 1, "the first one connects: {there} there, {back} back");
    for nth in 2..=100 {
        assert_eq!(during(&ping), [1, 1], "call {nth}: the request, and its answer");
    }
    assert_eq!(during(&|| pair.grid.begin().ping().wait().unwrap()), [1, 1]);
    assert_eq!(during(&|| _ = pair.grid.hints().unwrap()), [1, 1], "run by a worker");
    let clone = pair.grid.clone();
    assert_eq!(during(&|| clone.ping().unwrap()), [1, 1], "it has the same connection");
}
