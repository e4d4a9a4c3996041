//! Messages that arrive while their endpoint moves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::rt::{self, Deadline};
use egret_net::vi::NicOptions;

use crate::am::{Endpoint, EndpointName, EndpointState, MessageError, RemoteEndpoint};
use crate::links::{Links, LinksOptions};

pub(super) fn links(name: &str) -> Links {
    links_with(name, LinksOptions::default())
}

pub(super) fn links_with(name: &str, options: LinksOptions) -> Links {
    let host = format!("{name}-{}-{}", std::process::id(), rt::random());
    let nic = ShmFabric.open(&NicOptions::new(&host)).unwrap();
    Links::open(nic, options).unwrap()
}

/// Waits for something that another thread does.
pub(super) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = rt::now() + Duration::from_secs(30);
    while !done() {
        assert!(rt::now() < end, "not {what}");
        rt::sleep(Duration::from_millis(1));
    }
}

#[test]
pub(super) fn what_comes_during_a_move_is_served_after_it_in_order() {
    let (here, there) = (links("sender"), links("mover"));
    let (from, to) = (there.bundle(), there.bundle());
    let endpoint = Arc::new(from.register("moves", 0).unwrap());
    let (go, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (went, entered, notes) = (Arc::clone(&go), Arc::clone(&inside), Arc::clone(&seen));
    endpoint.on(0, move |request| {
        if request.words() == [0] {
            entered.store(true, Ordering::Release);
            until("told to go on", || went.load(Ordering::Acquire));
        }
        notes.lock().unwrap().push(request.words()[0]);
    });
    let mine = here.bundle().endpoint(0);
    let remote =
        mine.wait_map(&EndpointName::new(there.host(), "moves", 0), Deadline::DEFAULT).unwrap();
    for number in 0..20 {
        remote.wait_send((0, &[number]), Deadline::DEFAULT).unwrap();
    }
    until("a handler runs", || inside.load(Ordering::Acquire));
    let (watched, freed) = (there.clone(), Arc::clone(&go));
    let arrive = rt::spawn("watches", move || {
        until("all the others wait", || watched.account().parked >= 20);
        freed.store(true, Ordering::Release);
    });
    // The mover waits for the handler; what is sent from here on waits for the mover.
    let moving = Arc::clone(&endpoint);
    let moves = there.clone();
    let later = rt::spawn("sends", move || {
        until("the move has begun", || {
            let is_moving = |it: &EndpointState| it.parked.is_some();
            moves.core.state.with(|state| state.endpoints.values().any(is_moving))
        });
        for number in 20..40 {
            remote.wait_send((0, &[number]), Deadline::DEFAULT).unwrap();
        }
        remote
    });
    moving.wait_move_to(&to, Deadline::In(Duration::from_secs(60))).unwrap();
    drop(later.unwrap().join().unwrap());
    arrive.unwrap().join().unwrap();
    until("all are served", || seen.lock().unwrap().len() == 40);
    assert_eq!(*seen.lock().unwrap(), (0..40).collect::<Vec<u64>>());
}

/// Maps an endpoint that will be there soon.
pub(super) fn mapped(mine: &Endpoint, name: &EndpointName) -> RemoteEndpoint {
    let end = rt::now() + Duration::from_secs(30);
    loop {
        match mine.wait_map(name, Deadline::DEFAULT) {
            Ok(remote) => return remote,
            Err(MessageError::NoSuchEndpoint { .. }) if rt::now() < end => {
                rt::sleep(Duration::from_millis(1));
            }
            Err(why) => panic!("{why}"),
        }
    }
}
