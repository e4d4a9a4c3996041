//! What links carry: counters of bytes, round trips, probes, and the changes from look to look.

use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::am::{Endpoint, EndpointName, Message, RemoteEndpoint};
use egret_node::cluster::Cluster;
use egret_node::local;
use egret_node::node::{Node, NodeError, NodeHandle, PeerReport};

const SOON: Duration = Duration::from_secs(20);

/// Answers requests over all links of a node.
fn serve(node: &Node) -> Vec<Endpoint> {
    let serve = |(_, links): &(String, egret_node::Links)| {
        let endpoint = links.bundle().register("echo", 0).unwrap();
        endpoint.on(0, |request| request.reply(&[]));
        endpoint
    };
    node.links().iter().map(serve).collect()
}

/// Another node's endpoint.
fn echo(node: &NodeHandle, other: egret_node::NodeId) -> RemoteEndpoint {
    let route = node.route(other).unwrap();
    let here = route.links.bundle().endpoint(0);
    here.wait_map(&EndpointName::new(&route.host, "echo", 0), SOON).unwrap()
}

fn of(peers: &[PeerReport], other: egret_node::NodeId) -> &PeerReport {
    peers.iter().find(|peer| peer.node == Some(other)).expect("a link with the other node")
}

#[test]
fn a_report_has_the_bytes_and_the_round_trip_of_each_link() {
    let pool = local::pool(2).unwrap();
    let (here, there) = (&pool[0], &pool[1]);
    let _served = serve(there);
    let remote = echo(here, there.id());
    for _ in 0..100 {
        remote.wait_call(Message::to(0).bytes(&[7; 1000]), SOON).unwrap();
    }
    remote.wait_call(Message::to(0).data(vec![1_u8; 300_000]), SOON).unwrap();
    let (report, other) = (here.report(), there.report());
    let link = of(&report.peers, there.id());
    let bytes = 400_000..440_000;
    assert!(bytes.contains(&link.count.sent_bytes), "{report}");
    let back = of(&other.peers, here.id());
    assert!(bytes.contains(&back.count.received_bytes), "{other}");
    assert!(link.count.received_bytes < 40_000, "answers are empty: {report}");
    let round_trip = link.round_trip.expect("requests were measured");
    assert!(round_trip > Duration::ZERO && round_trip < SOON, "{report}");
    assert!(report.to_string().contains("round trip"), "{report}");
    assert_eq!(report.total.sent_bytes, link.count.sent_bytes, "it has one link with a node");
    let is_registry = |peer: &&PeerReport| peer.fabric == "registry";
    assert_eq!(report.peers.iter().filter(is_registry).count(), 1, "{report}");
    assert_eq!(report.peers.len(), 2, "no link is reported twice: {report}");
}

#[test]
fn a_probe_measures_the_link_and_says_why_it_cannot() {
    let (_registry, mut nodes) = local::pool(2).unwrap().into_parts();
    let (there, here) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let probe = here.probe(there.id(), SOON).unwrap();
    assert_eq!(probe.fabric, here.route(there.id()).unwrap().fabric);
    assert!(probe.round_trip > Duration::ZERO && probe.round_trip < SOON, "{probe:?}");
    assert!(probe.bandwidth > 100_000, "{probe:?}");
    assert!(there.probe(here.id(), SOON).is_ok(), "both ways");
    assert_eq!(here.probe(here.id(), SOON), Err(NodeError::Oneself));
    let late = here.probe(there.id(), Deadline::NOW);
    assert!(matches!(late, Err(NodeError::NotProbed { node, .. }) if node == there.id()));
    let gone = there.id();
    there.leave(SOON).unwrap();
    assert!(here.wait_fate(gone, SOON).is_some());
    assert!(matches!(here.probe(gone, SOON), Err(NodeError::Gone { .. })));
}

#[test]
fn changes_are_what_was_carried_since_the_look_before() {
    let (_registry, mut nodes) = local::pool(2).unwrap().into_parts();
    let (there, here) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let _served = serve(&there);
    let remote = echo(&here, there.id());
    remote.wait_call(Message::to(0).bytes(&[0; 3000]), SOON).unwrap();
    let mut traffic = here.traffic(Duration::from_millis(20));
    let early = here.traffic(SOON).wait_next(Duration::from_millis(1));
    assert!(matches!(early, Err(NodeError::NoEvent { .. })), "{early:?}");
    assert!(here.traffic(SOON).try_next().is_none());
    for _ in 0..50 {
        remote.wait_call(Message::to(0).bytes(&[7; 1000]), SOON).unwrap();
    }
    let change = traffic.wait_next(SOON).unwrap();
    let link = of(&change.peers, there.id());
    assert!(link.count.sent >= 50 && link.count.sent < 60, "{link}");
    assert!((50_000..55_000).contains(&link.count.sent_bytes), "{link}");
    assert!(change.over >= Duration::from_millis(20));
    let rate = change.per_second(link.count.sent_bytes);
    assert!(rate > 1_000.0 && rate < 60_000.0 / 0.02, "{rate}");
    let idle = traffic.wait_next(SOON).unwrap();
    assert!(of(&idle.peers, there.id()).count.sent_bytes < 1000, "{idle:?}");
    let id = here.id();
    here.leave(SOON).unwrap();
    let ended = traffic.wait_next(SOON);
    assert!(matches!(ended, Err(NodeError::NotMember { node, .. }) if node == id), "{ended:?}");
}

#[test]
fn in_virtual_time_looks_and_round_trips_are_exact() {
    let latency = Duration::from_millis(40);
    let run = Cluster::new(7, 2)
        .site("north", [0])
        .site("south", [1])
        .latency("north", "south", latency)
        .run(move |node| {
            node.wait_all(node.deadline()).unwrap();
            let served = serve(&node);
            node.enter("here").unwrap();
            let mut events = node.events();
            while node.view("here").members.len() < 2 {
                events.wait_next(node.deadline()).unwrap();
            }
            if node.rank() == 1 {
                // Its endpoints go with it.
                assert!(node.wait_fate(node.id_of(0).unwrap(), Duration::from_secs(600)).is_some());
                drop(served);
                return None;
            }
            let other = node.id_of(1).unwrap();
            let remote = echo(&node, other);
            let mut traffic = node.traffic(Duration::from_secs(60));
            for _ in 0..10 {
                remote.wait_call(Message::to(0).bytes(&[7; 100]), SOON).unwrap();
            }
            let change = traffic.wait_next(Duration::from_secs(600)).unwrap();
            let probe = node.probe(other, Duration::from_secs(60)).unwrap();
            Some((change.over, of(&change.peers, other).clone(), probe.round_trip))
        });
    let (over, link, probed) = run.results[0].clone().unwrap().expect("of node 0");
    assert!(over >= Duration::from_secs(60) && over < Duration::from_secs(61), "{over:?}");
    assert!(link.count.sent >= 10 && link.count.sent_bytes >= 1000, "{link}");
    let measured = link.round_trip.expect("requests were measured");
    for trip in [measured, probed] {
        assert!(trip >= latency * 2 && trip < latency * 3, "{trip:?}");
    }
}

#[test]
fn the_sums_of_a_report_are_over_links_that_it_has_no_room_for() {
    const NODES: u32 = 48;
    let run = Cluster::new(3, NODES).run(|node| {
        node.wait_all(node.deadline()).unwrap();
        let served = serve(&node);
        node.enter("here").unwrap();
        let mut events = node.events();
        while node.view("here").members.len() < NODES as usize {
            events.wait_next(node.deadline()).unwrap();
        }
        let first = node.id_of(0).unwrap();
        if node.rank() > 0 {
            assert!(node.wait_fate(first, Duration::from_secs(600)).is_some());
            drop(served);
            return None;
        }
        for rank in 1..NODES {
            let remote = echo(&node, node.id_of(rank).unwrap());
            remote.wait_call(Message::to(0).bytes(&[7; 1000]), SOON).unwrap();
        }
        Some(node.report())
    });
    let report = run.results[0].clone().unwrap().expect("of node 0");
    let others = u64::from(NODES - 1);
    assert!(report.peers.len() <= 32 && report.omitted_peers >= 16, "{report}");
    assert_eq!(report.peers.len() + report.omitted_peers as usize, NODES as usize, "{report}");
    assert!((others * 1000..others * 1400).contains(&report.total.sent_bytes), "{report}");
    assert!(report.total.received >= others && report.progress() > 2 * others, "{report}");
}
