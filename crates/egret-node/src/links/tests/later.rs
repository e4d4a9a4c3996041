//! Handlers that run later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use egret_net::rt::Deadline;

use super::ended::{nodes, worlds};
use super::hostile::run;
use super::world::step;
use crate::am::{EndpointName, handlers_later};

#[test]
fn handlers_that_run_later_run_behind_what_polls() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        let (ran, late) = (Arc::new(AtomicU32::new(0)), all[1].links.bundle());
        let endpoint = late.register("late", 9).unwrap();
        let runs = Arc::clone(&ran);
        endpoint.on(0, move |_| _ = runs.fetch_add(1, Ordering::Relaxed));
        let mine = all[0].links.bundle().endpoint(0);
        let to = EndpointName::new("b", "late", 9);
        let remote = run(&all, mine.map(&to, &[], Deadline::DEFAULT)).unwrap();
        for sent in 1..20 {
            remote.try_send(0).unwrap();
            while ran.load(Ordering::Relaxed) < sent {
                step(all[..1].iter());
                handlers_later(|| {
                    handlers_later(|| all[1].links.poll());
                    all[1].links.poll();
                    assert_eq!(ran.load(Ordering::Relaxed), sent - 1, "it runs behind this");
                });
            }
        }
    }
}

#[test]
fn a_handler_that_polls_so_runs_no_other_inside() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        let (ran, depth) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
        let (runs, links) = (Arc::clone(&ran), all[1].links.clone());
        let endpoint = all[1].links.bundle().register("late", 9).unwrap();
        endpoint.on_shared(0, move |_| {
            let inside = depth.fetch_add(1, Ordering::Relaxed);
            handlers_later(|| links.poll());
            depth.fetch_sub(1, Ordering::Relaxed);
            runs.fetch_add(if inside == 0 { 1 } else { 100 }, Ordering::Relaxed);
        });
        let mine = all[0].links.bundle().endpoint(0);
        let to = EndpointName::new("b", "late", 9);
        let remote = run(&all, mine.map(&to, &[], Deadline::DEFAULT)).unwrap();
        for _ in 0..8 {
            remote.try_send(0).unwrap();
        }
        while ran.load(Ordering::Relaxed) < 8 {
            step(all.iter());
        }
        assert_eq!(ran.load(Ordering::Relaxed), 8, "one inside another");
        // It has the links.
        drop(endpoint);
    }
}
