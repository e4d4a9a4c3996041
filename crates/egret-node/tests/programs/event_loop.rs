//! Links that an event loop drives through a descriptor.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::fabric::sim::Sim;
use egret_net::fabric::tcp::TcpFabric;
use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::{Arming, Nic, NicOptions, Wait};
use egret_node::am::EndpointName;
use egret_node::{Links, LinksOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Drives the links until told to stop, asleep in `poll(2)` in between; how often it slept.
fn run(links: &Links, stop: &AtomicBool) -> u64 {
    let mut slept = 0;
    while !stop.load(Ordering::Relaxed) {
        if let Arming::Armed { until } = links.arm() {
            slept += 1;
            sleep(links, until);
            links.disarm();
        }
    }
    slept
}

fn sleep(links: &Links, until: Option<Instant>) {
    // Its own look at `stop` now and again; everything else must make it readable.
    let most = Duration::from_secs(1);
    let left = until.map_or(most, |until| until.since(rt::now()).min(most));
    let within = Timespec::try_from(left).unwrap();
    let fd = links.fd().unwrap();
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&within)).unwrap();
}

fn serve_in_a_loop(open: impl Fn(&str) -> Nic) {
    let options = LinksOptions::default().background(false);
    let links = |name: &str| Links::open(open(name), options.clone()).unwrap();
    let (here, there) = (links("asks"), links("loops"));
    let endpoint = there.bundle().register("double", 0).unwrap();
    endpoint.on(0, |request| {
        let word = request.words()[0];
        request.reply(&[2 * word]);
    });
    let stop = Arc::new(AtomicBool::new(false));
    let looping = rt::spawn("loop", {
        let (there, stop) = (there.clone(), Arc::clone(&stop));
        move || run(&there, &stop)
    })
    .unwrap();
    let mine = here.bundle().endpoint(0);
    let to = EndpointName::new(there.host(), "double", 0);
    let remote = mine.wait_map(&to, Deadline::DEFAULT).unwrap();
    for i in 0..300 {
        if i % 100 == 0 {
            rt::sleep(Duration::from_millis(5));
        }
        assert_eq!(remote.wait_call((0, &[i]), Deadline::DEFAULT).unwrap().words(), [2 * i]);
    }
    stop.store(true, Ordering::Relaxed);
    remote.wait_call((0, &[0]), Deadline::In(Duration::from_millis(100))).ok();
    assert!(looping.join().unwrap() > 0, "it slept now and again");
}

#[test]
fn a_loop_serves_over_shared_memory() {
    serve_in_a_loop(|name| {
        let host = format!("{name}-loop-{}", std::process::id());
        ShmFabric.open(&NicOptions::new(&host).wait(Wait::Frugal)).unwrap()
    });
}

#[test]
fn a_loop_serves_over_tcp() {
    serve_in_a_loop(|_| TcpFabric.open(&NicOptions::new("").wait(Wait::Frugal)).unwrap());
}

#[test]
fn a_simulated_nic_has_no_descriptor() {
    let sim = Sim::new(1);
    let links = Links::open(sim.nic("a"), LinksOptions::default()).unwrap();
    assert!(links.fd().is_none());
}
