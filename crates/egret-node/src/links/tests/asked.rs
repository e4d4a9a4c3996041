//! Who drives until something is done is asked again whenever it may be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline};

use super::ended::nodes;
use super::hostile::run;
use super::moved::{links_with, until};
use crate::am::{EndpointName, ReplySlot};
use crate::links::LinksOptions;

/// A handler that somebody else runs between the question and the wait.
#[test]
fn what_was_served_while_it_was_asked_is_asked_for_again() {
    let sim = Sim::new(1);
    let nodes = nodes(&sim, &LinksOptions::default(), &["a", "b"]);
    let served = Arc::new(Mutex::new(0));
    let endpoint = nodes[0].links.bundle().register("served", 0).unwrap();
    let count = Arc::clone(&served);
    endpoint.on(0, move |_| *count.lock().unwrap() += 1);
    let to = EndpointName::new("a", "served", 0);
    let mapping = nodes[1].endpoints[0].endpoint.map(&to, &[], Deadline::DEFAULT);
    let sender = run(&nodes, mapping).unwrap();
    sender.try_send(0).unwrap();
    sim.run_until(sim.elapsed() + Duration::from_secs(1));
    let (began, links, mut asked) = (sim.elapsed(), &nodes[0].links, 0);
    let is_done = links.drive(Duration::from_secs(5), || {
        let is_done = *served.lock().unwrap() > 0;
        asked += 1;
        if asked == 1 {
            links.poll();
        }
        is_done
    });
    assert!(is_done, "it was served");
    let waited = sim.elapsed() - began;
    assert!(waited < Duration::from_secs(5), "it was asked only when its time was over");
}

/// A handler has left its answer to another thread, which gives it while the first sleeps.
#[test]
fn drive_checks_its_condition_after_an_answer_of_another_thread() {
    for answers in [true, false] {
        let options = LinksOptions::default().background(false);
        let (here, there) = (links_with("asks", options.clone()), links_with("serves", options));
        let endpoint = there.bundle().register("later", 0).unwrap();
        let slot: Arc<Mutex<Option<ReplySlot>>> = Arc::default();
        let came = Arc::new(AtomicBool::new(false));
        let (put, comes) = (Arc::clone(&slot), Arc::clone(&came));
        endpoint.on(0, move |request| {
            *put.lock().unwrap() = Some(request.later());
            comes.store(true, Ordering::Release);
        });
        let (to, mine) = (there.host().to_owned(), here.bundle().endpoint(0));
        let caller = rt::spawn("caller", move || {
            let to = EndpointName::new(&to, "later", 0);
            let remote = mine.wait_map(&to, Deadline::UntilDead).unwrap();
            remote.wait_call(0, Deadline::UntilDead).is_ok()
        });
        let taken = Arc::clone(&slot);
        let other = rt::spawn("other", move || {
            until("asked", || taken.lock().unwrap().is_some());
            rt::sleep(Duration::from_millis(100));
            match taken.lock().unwrap().take().unwrap() {
                slot if answers => slot.reply(&[]),
                slot => drop(slot),
            }
        });
        let end = rt::now() + Duration::from_secs(20);
        let is_done = there.drive(Duration::from_secs(30), || {
            let was_taken = slot.lock().unwrap().is_none();
            came.load(Ordering::Acquire) && was_taken && rt::now() < end
        });
        assert!(is_done, "nobody asked whether it is done (answers: {answers})");
        other.unwrap().join().unwrap();
        assert_eq!(caller.unwrap().join().unwrap(), answers);
    }
}
