//! Flows of bytes over links: credit that a mapping does not use is there for others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ended::{go_on, map, nodes, worlds};
use crate::am::{Message, RemoteEndpoint, Request};
use crate::flow::fault::{Fault, caught};

const TAKEN: u8 = 100;

/// Many mappings have run and stand still; another needs what they were granted.
#[test]
fn what_a_mapping_does_not_use_is_there_for_others() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options.budget(16 << 20), &["a", "b"]);
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&sizes);
        let take = move |request: Request<'_>| taken.lock().unwrap().push(request.bytes().len());
        nodes[1].endpoints[0].endpoint.on(TAKEN, take);
        let remotes: Vec<RemoteEndpoint> = (0..31).map(|_| map(&nodes, [0, 0], [1, 0])).collect();
        let send = |remote: &RemoteEndpoint, len| {
            remote.try_send(Message::to(TAKEN).data(vec![7_u8; len])).unwrap();
        };
        remotes[1..].iter().for_each(|remote| send(remote, 60_000));
        go_on(&sim, &nodes, Duration::from_secs(2));
        assert_eq!(*sizes.lock().unwrap(), [60_000; 30]);
        send(&remotes[0], 5_500_000);
        go_on(&sim, &nodes, Duration::from_secs(5));
        assert_eq!(sizes.lock().unwrap().last(), Some(&5_500_000), "the others have it");
        drop(remotes);
        go_on(&sim, &nodes, Duration::from_secs(2));
        for node in &nodes {
            assert!(node.links.account().is_settled(), "{:?}", node.links.account());
        }
    }
}

#[test]
fn credit_that_is_not_asked_back_is_noticed() {
    let test = what_a_mapping_does_not_use_is_there_for_others;
    assert!(caught(Fault::NotRecalled, test), "it goes unnoticed");
}
