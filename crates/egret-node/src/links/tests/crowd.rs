//! Who takes links and mappings as fast as it can, and those who still get theirs.

use egret_net::fabric::sim::Sim;
use egret_net::rt::Deadline;

use super::ended::{map, nodes, worlds};
use super::hostile::run;
use super::ledger::Ledger;
use super::world::{AT_ONCE, DATA, Node};
use crate::am::{EndpointName, Message, MessageError, RemoteEndpoint};
use crate::link::LinkError;
use crate::links::LinksOptions;

/// A node more, with a link to the first and nothing mapped.
fn link(sim: &Sim, nodes: &mut Vec<Node>, host: &str, options: &LinksOptions) {
    nodes.push(Node::new(sim, host, options, &Ledger::default()));
    let to = EndpointName::new("honest", "nobody", 0);
    let asks = nodes.last().unwrap().endpoints[0].endpoint.map(&to, &[], Deadline::DEFAULT);
    let refused = run(nodes, asks).unwrap_err();
    assert!(matches!(refused, MessageError::NoSuchEndpoint { .. }), "{host}: {refused}");
}

fn try_map(nodes: &[Node], from: usize) -> Result<RemoteEndpoint, MessageError> {
    let (mine, name) = (&nodes[from].endpoints[0].endpoint, &nodes[0].endpoints[0].name);
    run(nodes, mine.map(name, &[], Deadline::DEFAULT))
}

/// Maps until there is no room; and why there is none.
fn map_all(nodes: &[Node], from: usize) -> (Vec<RemoteEndpoint>, MessageError) {
    let mut taken = Vec::new();
    loop {
        match try_map(nodes, from) {
            Ok(remote) => taken.push(remote),
            Err(why) => return (taken, why),
        }
    }
}

fn asks(nodes: &[Node], remote: &RemoteEndpoint) {
    let call = remote.try_request((AT_ONCE, &[1, 2])).unwrap();
    // What the words mean does not matter here, but that somebody answers.
    drop(run(nodes, call));
    assert_eq!(remote.host(), "honest");
    assert!(remote.try_send((AT_ONCE, &[1, 2])).is_ok());
}

/// A program that has set how many links there may be is not overruled by the pool's size.
#[test]
fn the_size_of_a_pool_replaces_only_the_default() {
    let sim = Sim::new(1);
    let peers = |node: &Node| node.links.core.state.with(|state| state.fixed.options.peers_max);
    let set = nodes(&sim, &LinksOptions::default().peers_max(6), &["a"]);
    let unset = nodes(&sim, &LinksOptions::default(), &["b"]);
    for size in [100, 200] {
        set[0].links.set_pool_size(size);
        unset[0].links.set_pool_size(size);
        assert_eq!((peers(&set[0]), peers(&unset[0])), (6, size + 16));
    }
}

#[test]
fn links_under_many_names_leave_room_for_others() {
    for (sim, options) in worlds() {
        let bounded = options.clone().peers_max(6);
        let mut nodes = nodes(&sim, &bounded, &["honest"]);
        for at in 0..20 {
            link(&sim, &mut nodes, &format!("many{at}"), &options);
            assert!(nodes[0].links.account().links <= 6, "{}", nodes[0].links.account().links);
        }
        nodes.push(Node::new(&sim, "good", &options, &Ledger::default()));
        let remote = try_map(&nodes, 21).unwrap();
        asks(&nodes, &remote);
        for at in 20..30 {
            link(&sim, &mut nodes, &format!("many{at}"), &options);
        }
        assert!(nodes[0].links.account().links <= 6);
        asks(&nodes, &remote);
        let said = nodes[0].links.cut_off_last().unwrap().to_string();
        assert!(said.contains("at most 6"), "{said}");
    }
}

#[test]
fn a_full_peer_reports_its_number_of_links() {
    for (sim, options) in worlds() {
        let bounded = options.clone().peers_max(2);
        let mut nodes = nodes(&sim, &bounded, &["honest"]);
        nodes.extend(super::ended::nodes(&sim, &options, &["a", "b", "c"]));
        let mut taken: Vec<RemoteEndpoint> =
            (1..3).map(|from| map(&nodes, [from, 0], [0, 0])).collect();
        let full = LinkError::Full { peer: "honest".to_owned(), links: 2 };
        assert_eq!(try_map(&nodes, 3).unwrap_err(), MessageError::NoLink(full));
        taken.iter().for_each(|remote| asks(&nodes, remote));
        // A link by which nothing is mapped any more gives way.
        drop(taken.pop());
        run(&nodes, std::future::ready(()));
        super::ended::go_on(&sim, &nodes, std::time::Duration::from_millis(100));
        let remote = try_map(&nodes, 3).unwrap();
        asks(&nodes, &remote);
        asks(&nodes, &taken[0]);
        // What this side calls for is not refused.
        drop((map(&nodes, [0, 0], [1, 0]), map(&nodes, [0, 0], [2, 0])));
    }
}

#[test]
fn mappings_of_one_peer_leave_the_share_of_another() {
    for (sim, options) in worlds() {
        let bounded = options.clone().peers_max(8).budget(1 << 20);
        let mut nodes = nodes(&sim, &bounded, &["honest"]);
        nodes.extend(super::ended::nodes(&sim, &options, &["greedy", "good"]));
        let (mut taken, why) = map_all(&nodes, 1);
        // Seven others have two each for certain, of 64.
        assert_eq!(taken.len(), 64 - 7 * 2, "{why}");
        let said = why.to_string();
        assert!(matches!(why, MessageError::NoRoom { .. }), "{said}");
        assert!(
            ["50 channels and mappings", "1048576", "32768"].iter().all(|it| said.contains(it)),
            "{said}"
        );
        let good = [try_map(&nodes, 2).unwrap(), map(&nodes, [2, 0], [0, 1])];
        good.iter().for_each(|remote| asks(&nodes, remote));
        let data = Message::to(DATA).words(&[1, 2]).data(vec![7_u8; 8000]);
        assert!(good[0].try_send(data).is_ok());
        assert!(matches!(try_map(&nodes, 2), Err(MessageError::NoRoom { .. })), "it has its share");
        taken.clear();
        super::ended::go_on(&sim, &nodes, std::time::Duration::from_millis(100));
        drop(try_map(&nodes, 2).unwrap());
    }
}

#[test]
fn windows_of_one_peer_leave_the_messages_of_another() {
    for (sim, options) in worlds() {
        let bounded = options.clone().peers_max(8).messages(8192);
        let mut nodes = nodes(&sim, &bounded, &["honest"]);
        nodes.extend(super::ended::nodes(&sim, &options, &["greedy", "good"]));
        let (mut taken, why) = map_all(&nodes, 1);
        // All have 256 messages each for certain, and a mapping has a quarter of the rest at most.
        let windows: Vec<u32> = taken.iter().map(RemoteEndpoint::window).collect();
        assert_eq!((windows[0], windows.last()), (256, Some(&16)));
        assert!(windows.is_sorted_by(|before, then| before >= then), "{windows:?}");
        let all: u32 = windows.iter().sum();
        assert!((6400 - 16..=6400).contains(&all), "{all} messages");
        let why = why.to_string();
        let named = [&format!("{} mappings", taken.len()), "8192 messages", "::messages"];
        assert!(named.iter().all(|it| why.contains(it)), "{why}");
        asks(&nodes, taken.last().unwrap());
        let good = try_map(&nodes, 2).unwrap();
        assert_eq!(good.window(), 256);
        asks(&nodes, &good);
        // What is given up is free again.
        taken.clear();
        super::ended::go_on(&sim, &nodes, std::time::Duration::from_millis(100));
        assert_eq!(try_map(&nodes, 1).unwrap().window(), windows[0]);
        let free = || nodes[0].links.core.state.with(|state| state.admitted.free());
        drop(good);
        super::ended::go_on(&sim, &nodes, std::time::Duration::from_millis(100));
        assert_eq!(free(), 8192, "of mappings that are given up");
        drop(try_map(&nodes, 2).unwrap().host());
        nodes[2].links.close();
        super::ended::go_on(&sim, &nodes, std::time::Duration::from_millis(100));
        assert_eq!(free(), 8192, "of links that have ended");
    }
}

#[test]
fn each_peer_of_a_large_pool_has_a_share() {
    let sim = Sim::new(1);
    let nodes = nodes(&sim, &LinksOptions::default(), &["honest"]);
    let share = || {
        nodes[0].links.core.state.with(|state| {
            let terms = *state.inflows.budget.terms();
            assert_eq!(
                terms.bytes - terms.guarantee * state.inflows.budget.flows(),
                state.inflows.budget.free()
            );
            assert_eq!(terms.bytes, state.fixed.options.budget);
            terms.share() / terms.guarantee
        })
    };
    for size in [2, 4080, 4081, 8177, 65_536] {
        nodes[0].links.set_pool_size(size);
        assert!(share() >= 2, "{size} nodes: a share of {} flows", share());
    }
    // Who takes little does so in a large pool, too.
    let small = super::ended::nodes(&sim, &LinksOptions::default().budget(1 << 20), &["small"]);
    small[0].links.set_pool_size(65_536);
    assert_eq!(small[0].links.core.state.with(|state| state.inflows.budget.terms().bytes), 1 << 20);
}
