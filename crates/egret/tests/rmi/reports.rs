//! What nodes report of calls that wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use egret::am::blocking;
use egret::node::{NodeReport, WaitReport, wait_circle};
use egret::rmi::Remoting;
use egret::rt;

use crate::grid::{LONG, pool};

#[egret::remote]
trait Forks {
    /// Waits until the fork is free.
    fn take(&self);
}

#[derive(Clone, Default)]
struct Fork(Arc<AtomicBool>);

#[egret::remote]
impl Forks for Fork {
    fn take(&self) {
        blocking(|| {
            while !self.0.load(Ordering::Acquire) {
                rt::sleep(std::time::Duration::from_millis(1));
            }
        });
    }
}

fn answers(report: &NodeReport) -> Vec<WaitReport> {
    report.waits.iter().filter(|wait| wait.object == "Forks::take").cloned().collect()
}

/// Frees the fork when it is dropped.
struct Frees<'a>(&'a Fork);

impl Drop for Frees<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

#[test]
fn calls_that_wait_for_each_other_are_a_circle_with_their_lines() {
    let (registry, nodes) = pool(2, "shm");
    let fork = Fork::default();
    let exports: Vec<_> =
        nodes.iter().map(|node| node.export::<dyn Forks>(fork.clone()).unwrap()).collect();
    let stub = |at: usize| -> ForksStub { nodes[at].stub(exports[1 - at].object()) };
    let first = line!();
    #[expect(clippy::disallowed_methods, reason = "nodes of this test have no virtual time")]
    std::thread::scope(|scope| {
        let frees = Frees(&fork);
        let calls = [0, 1].map(|at| {
            scope.spawn({
                let stub = stub(at);
                move || stub.take()
            })
        });
        let until = rt::now() + LONG;
        let reports = loop {
            let all = registry.reports(LONG);
            let all: Vec<_> = all.into_iter().filter_map(|(_, report)| report).collect();
            if all.len() == 2 && all.iter().all(|report| !answers(report).is_empty()) {
                break all;
            }
            assert!(rt::now() < until, "{all:?}");
            rt::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(wait_circle(&reports), [nodes[0].id(), nodes[1].id()]);
        for (at, report) in reports.iter().enumerate() {
            let wait = &answers(report)[0];
            assert_eq!((&wait.kind[..], wait.node), ("answer", Some(nodes[1 - at].id())));
            let mut lines = (first..line!()).map(|line| format!("{}:{line}", file!()));
            assert!(lines.any(|line| line == wait.at), "the line of the program: {}", wait.at);
        }
        drop(frees);
        calls.into_iter().for_each(|call| call.join().unwrap().unwrap());
    });
    assert!(nodes.iter().all(|node| answers(&node.report()).is_empty()));
}

#[egret::remote]
trait Errands {
    /// Takes the fork of another node.
    fn fetch(&self);
}

struct Errand(ForksStub);

#[egret::remote]
impl Errands for Errand {
    fn fetch(&self) {
        self.0.take().unwrap();
    }
}

/// The nodes that threads of `node` wait for, and the methods there, once `count` of them wait.
fn waits_of(node: &egret::node::Node, count: usize) -> Vec<(String, egret::node::NodeId)> {
    let until = rt::now() + LONG;
    loop {
        let waits = node.report().waits.into_iter().filter(|wait| wait.kind == "answer");
        let waits: Vec<_> = waits.filter_map(|wait| Some((wait.object, wait.node?))).collect();
        if waits.len() == count {
            return waits;
        }
        assert!(rt::now() < until, "{waits:?}");
        rt::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_call_of_an_own_object_shows_what_its_method_waits_for_and_is_no_circle() {
    let (registry, nodes) = pool(2, "shm");
    let fork = Fork::default();
    let away = nodes[1].export::<dyn Forks>(fork.clone()).unwrap();
    let here = nodes[0].export(Errand(nodes[0].stub(away.object()))).unwrap();
    let stub: ErrandsStub = nodes[0].stub(here.object());
    let (own, other) = (nodes[0].id(), nodes[1].id());
    for is_begun in [false, true] {
        fork.0.store(false, Ordering::Release);
        #[expect(clippy::disallowed_methods, reason = "nodes of this test have no virtual time")]
        std::thread::scope(|scope| {
            let frees = Frees(&fork);
            let call = scope.spawn(|| match is_begun {
                true => stub.begin().fetch().wait(),
                false => stub.fetch(),
            });
            let mut waits = waits_of(&nodes[0], 1 + usize::from(is_begun));
            waits.sort();
            let innermost = ("Forks::take".to_owned(), other);
            // The method of a call that was begun runs on another thread.
            let outer = is_begun.then(|| ("Errands::fetch".to_owned(), own));
            assert_eq!(waits, outer.into_iter().chain([innermost]).collect::<Vec<_>>());
            let reports = registry.reports(LONG).into_iter().filter_map(|(_, report)| report);
            assert_eq!(wait_circle(&reports.collect::<Vec<_>>()), []);
            drop(frees);
            call.join().unwrap().unwrap();
        });
    }
}
