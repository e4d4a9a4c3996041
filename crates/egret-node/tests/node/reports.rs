//! What nodes report of themselves: traffic and waits.

use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_node::am::{EndpointName, Message};
use egret_node::local;
use egret_node::node::{Node, NodeReport};

const SOON: Duration = Duration::from_secs(20);

/// The report of a node as its registry receives it, when that satisfies `is_so`.
fn report_when(
    reports: impl Fn() -> Vec<(egret_node::NodeId, Option<NodeReport>)>,
    node: &Node,
    is_so: impl Fn(&NodeReport) -> bool,
) -> NodeReport {
    let until = rt::now() + SOON;
    loop {
        let all = reports();
        let report = all.into_iter().find(|(id, _)| *id == node.id()).and_then(|(_, it)| it);
        match report {
            Some(report) if is_so(&report) => return report,
            other => assert!(rt::now() < until, "{other:?}"),
        }
        rt::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_wait_is_reported_with_its_kind_its_object_and_its_line() {
    let pool = local::pool(2).unwrap();
    let first = line!();
    #[expect(clippy::disallowed_methods, reason = "nodes of this test have no virtual time")]
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pool[0].wait_bound("late", SOON).map(|bound| bound.owner));
        let reports = || pool.registry().reports(SOON);
        let report = report_when(reports, &pool[0], |report| !report.waits.is_empty());
        let wait = &report.waits[0];
        assert_eq!((&wait.kind[..], &wait.object[..], wait.node), ("name", "late", None));
        let lines = (first..line!()).map(|line| format!("{}:{line}", file!()));
        assert!(lines.into_iter().any(|line| line == wait.at), "{}", wait.at);
        assert_eq!((report.members, report.process), (2, std::process::id()));
        assert!(!report.location.host.is_empty(), "{report}");
        pool[1].bind("late", b"here").unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), pool[1].id());
    });
    assert!(pool[0].report().waits.is_empty(), "a wait that has ended is not reported");
}

#[test]
fn a_wait_for_an_answer_and_the_traffic_name_the_other_node() {
    let pool = local::pool(2).unwrap();
    let route = pool[0].route(pool[1].id()).unwrap();
    let there = pool[1].links().iter().find(|(name, _)| *name == route.fabric).unwrap();
    let held = egret_net::sync::Mutex::new(None);
    #[expect(clippy::disallowed_methods, reason = "nodes of this test have no virtual time")]
    std::thread::scope(|scope| {
        let endpoint = there.1.bundle().register("slow", 0).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        endpoint.on(0, move |request| _ = send.send(request.later()));
        let waits = scope.spawn(|| {
            let here = route.links.bundle().endpoint(0);
            let to = EndpointName::new(&route.host, "slow", 0);
            let remote = here.wait_map(&to, SOON).unwrap();
            remote.wait_call(Message::to(0), SOON).map(drop)
        });
        there.1.drive(SOON, || {
            *held.lock() = receive.try_recv().ok();
            held.lock().is_some()
        });
        let reports = || pool.registry().reports(SOON);
        let is_so = |report: &NodeReport| report.waits.iter().any(|wait| wait.kind == "answer");
        let report = report_when(reports, &pool[0], is_so);
        let wait = report.waits.iter().find(|wait| wait.kind == "answer").unwrap();
        assert_eq!(wait.node, Some(pool[1].id()), "{report}");
        let peer = report.peers.iter().find(|peer| peer.node == Some(pool[1].id())).unwrap();
        assert!(peer.count.sent > 0 && peer.count.calls == 1, "{report}");
        assert!(report.progress() > 0);
        let slot = held.lock().take().unwrap();
        slot.reply(&[]);
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn a_member_that_does_not_answer_in_time_is_reported_without() {
    let pool = local::pool(1).unwrap();
    let mut rounds = (0..200).map(|_| pool.registry().reports(Deadline::NOW));
    assert!(rounds.all(|round| round.len() == 1 && round[0].0 == pool[0].id()));
    // The rounds before are over, and their reports count in none that follows.
    let reports = || pool.registry().reports(SOON);
    assert_eq!(report_when(reports, &pool[0], |_| true).node, pool[0].id());
}
