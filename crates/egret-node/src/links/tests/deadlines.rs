//! Deadlines of who waits while others ask: each handler takes its time, of which the world
//! has as much as it says.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline};

use super::ended::{go_on, nodes};
use super::hostile::run;
use super::moved::{links_with, until};
use super::world::Node;
use crate::am::{BundleState, EndpointName, MessageError, RemoteEndpoint, UpcallKind};
use crate::links::LinksOptions;
use crate::links::state::LinksState;

/// Two nodes, the first with an endpoint to which the second has sent a flood of messages.
struct Flooded {
    sim: Sim,
    nodes: Vec<Node>,
    /// The flooded endpoint, and one of the same bundle to which nobody sends.
    flooded: crate::am::Endpoint,
    quiet: crate::am::Endpoint,
    /// What the flooded node has mapped; nobody answers.
    there: RemoteEndpoint,
    /// The numbers of the messages that were served.
    served: Arc<Mutex<Vec<u64>>>,
    _sender: RemoteEndpoint,
}

impl Flooded {
    fn new() -> Self {
        let sim = Sim::new(1);
        let options = LinksOptions::default().window(u32::try_from(FLOOD).unwrap());
        let nodes = nodes(&sim, &options, &["a", "b"]);
        let bundle = nodes[0].links.bundle();
        let (flooded, quiet) = (bundle.register("flooded", 0).unwrap(), bundle.endpoint(0));
        let served = Arc::new(Mutex::new(Vec::new()));
        let (links, notes) = (nodes[0].links.clone(), Arc::clone(&served));
        flooded.on(0, move |request| {
            // As if another thread drove while the first handler runs: all that has come
            // waits for who serves the bundle.
            if request.words() == [0] {
                links.poll();
            }
            rt::sleep(HANDLER);
            notes.lock().unwrap().push(request.words()[0]);
        });
        let to = EndpointName::new("a", "flooded", 0);
        let there = {
            let name = &nodes[1].endpoints[0].name;
            run(&nodes, quiet.map(name, &[], Deadline::DEFAULT)).unwrap()
        };
        let sender =
            run(&nodes, nodes[1].endpoints[0].endpoint.map(&to, &[], Deadline::DEFAULT)).unwrap();
        for number in 0..FLOOD {
            sender.try_send((0, &[number])).unwrap();
        }
        // They arrive, and nobody looks.
        sim.run_until(sim.elapsed() + Duration::from_secs(1));
        Self { sim, nodes, flooded, quiet, there, served, _sender: sender }
    }

    fn served(&self) -> usize {
        self.served.lock().unwrap().len()
    }

    /// Runs a wait that is to end in time, and sees that everything is served by others then.
    fn ends_in_time(&self, wait: impl FnOnce(&Self)) {
        self.takes_no_longer(wait);
        self.serves_all();
    }

    /// Runs something that is to end in time.
    fn takes_no_longer(&self, wait: impl FnOnce(&Self)) {
        let (began, before) = (self.sim.elapsed(), self.served());
        wait(self);
        let (took, ran) = (self.sim.elapsed() - began, self.served() - before);
        assert!(took < TIME + 2 * HANDLER, "{took:?} instead of {TIME:?}");
        assert!(ran <= IN_TIME + 1, "{ran} handlers ran, of which {IN_TIME} had time");
    }

    /// Whoever drives next serves what is left, in order.
    fn serves_all(&self) {
        go_on(&self.sim, &self.nodes, HANDLER * 2 * u32::try_from(FLOOD).unwrap());
        assert_eq!(*self.served.lock().unwrap(), (0..FLOOD).collect::<Vec<u64>>());
    }
}

const FLOOD: u64 = 600;
const HANDLER: Duration = Duration::from_micros(300);
const TIME: Duration = Duration::from_millis(20);
/// Handlers that fit into the time, and the one that began within it.
const IN_TIME: usize = 67;

#[test]
fn a_flooded_node_gives_up_mapping_in_time() {
    Flooded::new().ends_in_time(|it| {
        let to = EndpointName::new("b", "e1", 0);
        let mapped = it.quiet.wait_map(&to, TIME);
        assert!(matches!(mapped, Err(MessageError::NotMappedInTime { .. })), "{mapped:?}");
    });
}

#[test]
fn a_flooded_node_gives_up_a_call_in_time() {
    Flooded::new().ends_in_time(|it| {
        let reply = it.there.wait_call((0, &[1]), TIME);
        assert!(matches!(reply, Err(MessageError::TimedOut { .. })), "{reply:?}");
    });
}

#[test]
fn a_flooded_node_drives_until_its_deadline() {
    Flooded::new().ends_in_time(|it| {
        assert!(!it.nodes[0].links.drive(TIME, || false));
    });
    // It is asked whenever a handler has run.
    let flooded = Flooded::new();
    let mut ran = Vec::new();
    assert!(flooded.nodes[0].links.drive(Deadline::UntilDead, || {
        ran.push(flooded.served());
        flooded.served() >= 5
    }));
    assert_eq!(ran, [0, 1, 2, 3, 4, 5]);
    flooded.serves_all();
}

#[test]
fn a_flooded_node_closes_its_links_in_time() {
    for why in [None, Some("it panicked")] {
        let flooded = Flooded::new();
        flooded.takes_no_longer(|it| {
            let links = &it.nodes[0].links;
            links.drive(Deadline::UntilDead, || it.served() > 0);
            match why {
                None => links.core.close(TIME.into()),
                Some(why) => links.core.close_because(why, TIME.into()),
            }
        });
        // What the links had taken is served in order by who drives next, the rest went with them.
        let before = flooded.served() as u64;
        go_on(&flooded.sim, &flooded.nodes, HANDLER * 2 * u32::try_from(FLOOD).unwrap());
        let after = flooded.served() as u64;
        assert!(after > before && after < FLOOD, "{before}, then {after}");
        assert_eq!(*flooded.served.lock().unwrap(), (0..after).collect::<Vec<u64>>());
    }
}

#[test]
fn a_flooded_endpoint_is_not_moved_in_time() {
    Flooded::new().ends_in_time(|it| {
        let bundle = it.nodes[0].links.bundle();
        // One handler has begun, and the others wait for it.
        it.nodes[0].links.drive(Deadline::UntilDead, || it.served() > 0);
        let moved = it.flooded.wait_move_to(&bundle, TIME - HANDLER);
        assert!(matches!(moved, Err(MessageError::Busy { .. })), "{moved:?}");
    });
}

/// What was waited for is there: nobody else's handlers are run for that any more.
#[test]
fn a_wait_ends_when_it_has_what_it_was_for() {
    let flooded = Flooded::new();
    let bundle = flooded.nodes[0].links.bundle();
    flooded.quiet.wait_move_to(&bundle, Deadline::DEFAULT).unwrap();
    assert!(flooded.served() <= 1, "{} handlers ran", flooded.served());
    flooded.serves_all();
}

/// Who has no time at all still does its share: else nobody would, if all were so.
#[test]
fn waits_without_time_serve_everything_in_the_end() {
    let flooded = Flooded::new();
    for _ in 0..2 * FLOOD {
        flooded.nodes[1].links.poll();
        rt::sleep(HANDLER);
        flooded.nodes[0].links.drive(Duration::ZERO, || false);
    }
    assert_eq!(flooded.served() as u64, FLOOD);
}

/// A thread leaves a bundle for which upcalls wait while another sleeps in the nic: that one is
/// woken, and serves them.
#[test]
fn a_sleeping_thread_is_woken_for_upcalls_of_another_thread() {
    let options = LinksOptions::default().background(false);
    let (here, there) = (links_with("sends", options.clone()), links_with("served", options));
    let (inside, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let endpoint = there.bundle().register("served", 0).unwrap();
    let (links, entered, count) = (there.clone(), Arc::clone(&inside), Arc::clone(&served));
    endpoint.on(0, move |_| {
        if !entered.swap(true, Ordering::AcqRel) {
            let waiting = |state: &mut LinksState| {
                state.bundles.values().map(BundleState::waiting).sum::<usize>()
            };
            until("the others wait", || links.core.state.with(waiting) == 19);
        }
        count.fetch_add(1, Ordering::AcqRel);
    });
    let (mine, asked) = (here.bundle().register("asked", 0).unwrap(), Arc::new(Mutex::new(None)));
    let slot = Arc::clone(&asked);
    mine.on(0, move |request| *slot.lock().unwrap() = Some(request.later()));
    let mut mapped = None;
    let to = EndpointName::new(there.host(), "served", 0);
    let mut mapping = pin!(mine.map(&to, &[], Deadline::DEFAULT));
    until("mapped", || {
        there.poll();
        match mapping.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(remote) => mapped = Some(remote.unwrap()),
            Poll::Pending => {}
        }
        mapped.is_some()
    });
    let remote = mapped.unwrap();
    (0..20).for_each(|number| remote.try_send((0, &[number])).unwrap());
    let leaver = there.clone();
    let leaves = rt::spawn("leaves", move || leaver.drive(Duration::from_millis(1), || false));
    until("a handler runs", || inside.load(Ordering::Acquire));
    let back = EndpointName::new(here.host(), "asked", 0);
    let sleeps = rt::spawn("sleeps", move || {
        let remote = endpoint.wait_map(&back, Deadline::UntilDead).unwrap();
        remote.wait_call(0, Deadline::UntilDead).unwrap();
    });
    until("all are served, and it asks", || {
        here.poll();
        served.load(Ordering::Acquire) == 20 && asked.lock().unwrap().is_some()
    });
    asked.lock().unwrap().take().unwrap().reply(&[]);
    assert!(!leaves.unwrap().join().unwrap());
    sleeps.unwrap().join().unwrap();
}

/// The same for upcalls of other bundles, which a handler has caused.
#[test]
fn a_sleeping_thread_is_woken_for_upcalls_of_a_handler() {
    let options = LinksOptions::default().background(false);
    let (here, there) = (links_with("sends", options.clone()), links_with("served", options));
    let endpoint = there.bundle().register("served", 0).unwrap();
    let (waits, told) = (there.bundle().endpoint(0), there.bundle().endpoint(0));
    let (inside, goes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (links, entered, go_on) = (there.clone(), Arc::clone(&inside), Arc::clone(&goes));
    endpoint.on(0, move |_| {
        entered.store(true, Ordering::Release);
        until("another thread sleeps", || go_on.load(Ordering::Acquire));
        links.core.state.with(|state| {
            let last = state.endpoints.keys().last().copied().expect("the one that is told");
            state.enqueue(last, UpcallKind::Closed);
        });
    });
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    told.on(0, move |_| _ = &holds);
    let (mine, to) = (here.bundle().register("mine", 0).unwrap(), there.host().to_owned());
    let to = EndpointName::new(&to, "served", 0);
    let mut mapping = pin!(mine.map(&to, &[], Deadline::DEFAULT));
    let mut mapped = None;
    until("mapped", || {
        there.poll();
        match mapping.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(remote) => mapped = Some(remote.unwrap()),
            Poll::Pending => {}
        }
        mapped.is_some()
    });
    mapped.as_ref().unwrap().try_send(0).unwrap();
    let leaver = there.clone();
    let leaves = rt::spawn("leaves", move || leaver.drive(Duration::from_millis(1), || false));
    until("a handler runs", || inside.load(Ordering::Acquire));
    let back = EndpointName::new(here.host(), "mine", 0);
    let is_back = Arc::new(AtomicBool::new(false));
    let came = Arc::clone(&is_back);
    let sleeps = rt::spawn("sleeps", move || {
        drop(waits.wait_map(&back, Deadline::UntilDead).unwrap());
        came.store(true, Ordering::Release);
    });
    rt::sleep(Duration::from_millis(300));
    goes.store(true, Ordering::Release);
    until("the other endpoint is told", || Arc::strong_count(&held) == 1);
    assert!(!leaves.unwrap().join().unwrap());
    until("mapped back", || {
        here.poll();
        is_back.load(Ordering::Acquire)
    });
    sleeps.unwrap().join().unwrap();
}
