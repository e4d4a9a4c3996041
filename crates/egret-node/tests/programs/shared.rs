//! Handlers that several threads share, and what they do outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::rt::{self, Deadline};
use egret_net::vi::NicOptions;
use egret_node::am::{
    Endpoint, EndpointName, Message, MessageError, RemoteEndpoint, Request, in_handler,
};
use egret_node::{Links, LinksOptions};

fn links(name: &str) -> Links {
    let host = format!("shared-{name}-{}-{:x}", std::process::id(), rt::random());
    let nic = ShmFabric.open(&NicOptions::new(&host)).unwrap();
    Links::open(nic, LinksOptions::default()).unwrap()
}

/// Threads that serve until they are told to stop.
struct Servers {
    stop: Arc<AtomicBool>,
    threads: Vec<rt::JoinHandle<()>>,
}

impl Servers {
    fn of(links: &Links, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let serve = |_| {
            let (links, stop) = (links.clone(), Arc::clone(&stop));
            let is_over = move || stop.load(Ordering::Relaxed);
            let body = move || while !links.serve(Duration::from_millis(20), &is_over) {};
            rt::spawn("server", body).unwrap()
        };
        let threads = (0..count).map(serve).collect();
        Self { stop, threads }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Two nodes, an endpoint of one that the other has mapped, and threads that serve it.
struct Scene {
    remote: RemoteEndpoint,
    mine: Endpoint,
    here: Links,
    endpoint: Endpoint,
    there: Links,
    _servers: Servers,
}

fn scene(servers: usize) -> Scene {
    let (here, there) = (links("here"), links("there"));
    let endpoint = there.bundle().register("it", 0).unwrap();
    let servers = Servers::of(&there, servers);
    let mine = here.bundle().endpoint(0);
    let to = EndpointName::new(there.host(), "it", 0);
    let remote = mine.wait_map(&to, Deadline::DEFAULT).unwrap();
    Scene { remote, mine, here, endpoint, there, _servers: servers }
}

/// Goes outside if that is possible here.
fn outside(request: &mut Request<'_>, body: impl FnOnce()) {
    if request.can_go_outside() {
        request.outside(|_| body());
    } else {
        body();
    }
}

#[test]
fn several_run_at_once() {
    let scene = scene(2);
    let both = Barrier::new(2);
    scene.endpoint.on_shared(0, move |request| {
        both.wait();
        request.reply(&[1]);
    });
    let calls = [(); 2].map(|()| scene.remote.try_request(0).unwrap());
    for call in calls {
        assert_eq!(call.wait(Deadline::DEFAULT).unwrap().words(), [1]);
    }
}

#[test]
fn those_in_order_are_begun_in_order_also_when_they_go_outside() {
    const CALLS: u64 = 2000;
    let scene = scene(3);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&begun);
    scene.endpoint.on_shared_in_order(0, move |mut request| {
        let number = request.words()[0];
        seen.lock().unwrap().push(number);
        if number % 3 != 0 {
            outside(&mut request, || rt::sleep(Duration::from_micros(number % 50)));
        }
        request.reply(&[number]);
    });
    let mut calls = Vec::new();
    for number in 0..CALLS {
        let message = Message::to(0).words(std::slice::from_ref(&number));
        calls.push(scene.remote.wait_request(message, Deadline::DEFAULT).unwrap());
    }
    for (number, call) in (0..).zip(calls) {
        assert_eq!(call.wait(Deadline::DEFAULT).unwrap().words(), [number]);
    }
    assert!(begun.lock().unwrap().iter().copied().eq(0..CALLS));
}

#[test]
fn outside_is_no_handler_and_may_call() {
    let scene = scene(1);
    scene.mine.on(1, |request| {
        let word = request.words()[0];
        request.reply(&[word + 1]);
    });
    scene.mine.register("back").unwrap();
    let (there, back) = (scene.there.clone(), EndpointName::new(scene.here.host(), "back", 0));
    scene.endpoint.on_shared(0, move |mut request| {
        assert!(in_handler());
        if !request.may_last() {
            return request.reply(&[0]);
        }
        let reply = request.outside(|bytes| {
            assert!(!in_handler());
            let other = there.bundle().endpoint(0);
            let remote = other.wait_map(&back, Deadline::DEFAULT).unwrap();
            let reply = remote.wait_call((1, &[bytes.len() as u64]), Deadline::DEFAULT).unwrap();
            reply.words()[0]
        });
        assert!(in_handler());
        request.reply(&[reply]);
    });
    // The background may receive one too, before it has a standby.
    let called = (0..100).map(|_| {
        let message = Message::to(0).bytes(&[0; 99]);
        scene.remote.wait_call(message, Deadline::DEFAULT).unwrap().words()[0]
    });
    assert!(called.into_iter().any(|word| word == 100));
}

#[test]
fn a_panic_outside_is_answered_and_the_next_is_served() {
    let scene = scene(1);
    scene.endpoint.on_shared(0, |mut request| {
        if request.words()[0] > 0 && request.can_go_outside() {
            request.outside(|_| panic!("outside"));
        }
        let is_inside = request.can_go_outside() && in_handler();
        request.reply(&[u64::from(is_inside)]);
    });
    for _ in 0..20 {
        let panicked = scene.remote.wait_call((0, &[1]), Deadline::DEFAULT).unwrap_err();
        assert_eq!(panicked, MessageError::Panicked);
        let reply = scene.remote.wait_call((0, &[0]), Deadline::DEFAULT).unwrap();
        assert_eq!(reply.words(), [1], "the thread is as before");
    }
}

#[test]
fn one_that_is_not_shared_cannot_go_outside() {
    let scene = scene(1);
    scene.endpoint.on(0, |request| {
        let can = request.can_go_outside() || request.may_last();
        request.reply(&[u64::from(can)]);
    });
    assert_eq!(scene.remote.wait_call(0, Deadline::DEFAULT).unwrap().words(), [0]);
}

#[test]
fn a_second_answer_is_ignored() {
    let scene = scene(1);
    let ended = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ended);
    scene.endpoint.on_shared(0, move |mut request| {
        request.reply_now(Message::answer().words(&[1]));
        match request.words()[0] {
            0 => request.reply(&[2]),
            1 => request.reply_with(Message::answer().words(&[2])),
            2 => request.later().reply(&[2]),
            3 => drop(request.later()),
            _ => {}
        }
        count.fetch_add(1, Ordering::Relaxed);
    });
    for round in 0..50 {
        let reply = scene.remote.wait_call((0, &[round % 5]), Deadline::DEFAULT).unwrap();
        assert_eq!(reply.words(), [1]);
    }
    let until = rt::now() + Duration::from_secs(30);
    while ended.load(Ordering::Relaxed) < 50 {
        assert!(rt::now() < until, "a handler has not ended");
        rt::sleep(Duration::from_millis(1));
    }
    assert_eq!(scene.here.account().calls, 0);
}

/// A handler that has its bundle until it is let go.
fn hold(endpoint: &Endpoint, number: u8) -> (Receiver<()>, Sender<()>) {
    let (begun, has_begun) = mpsc::channel();
    let (goes, go) = mpsc::channel();
    endpoint.on(number, move |request| {
        begun.send(()).unwrap();
        go.recv().unwrap();
        request.reply(&[]);
    });
    (has_begun, goes)
}

#[test]
fn what_waits_for_a_bundle_is_served_also_behind_one_that_became_shared() {
    let scene = scene(2);
    let (has_begun, goes) = hold(&scene.endpoint, 0);
    scene.endpoint.on(1, |request| request.reply(&[0]));
    scene.endpoint.on_shared_in_order(2, |request| request.reply(&[2]));
    for _ in 0..20 {
        let held = scene.remote.try_request(0).unwrap();
        has_begun.recv().unwrap();
        let calls = [1, 2, 2].map(|number| scene.remote.try_request(number).unwrap());
        // They have come, and wait for the bundle.
        let until = rt::now() + Duration::from_secs(30);
        while scene.there.account().upcalls < 3 {
            assert!(rt::now() < until, "{:?}", scene.there.account());
            rt::sleep(Duration::from_millis(1));
        }
        scene.endpoint.on_shared(1, |request| request.reply(&[1]));
        goes.send(()).unwrap();
        held.wait(Deadline::DEFAULT).unwrap();
        let said = calls.map(|call| call.wait(Deadline::DEFAULT).unwrap().words()[0]);
        assert_eq!(said, [1, 2, 2]);
        scene.endpoint.on(1, |request| request.reply(&[0]));
    }
}

#[test]
fn an_endpoint_may_go_while_one_is_outside() {
    let scene = scene(2);
    let (begun, has_begun) = mpsc::channel();
    let (goes, go) = mpsc::channel::<()>();
    let (begun, go) = (Mutex::new(begun), Mutex::new(go));
    scene.endpoint.on_shared(0, move |mut request| {
        outside(&mut request, || {
            begun.lock().unwrap().send(()).unwrap();
            go.lock().unwrap().recv().unwrap();
        });
        request.reply(&[7]);
    });
    let call = scene.remote.try_request(0).unwrap();
    has_begun.recv().unwrap();
    let Scene { endpoint, .. } = scene;
    drop(endpoint);
    goes.send(()).unwrap();
    assert_eq!(call.wait(Deadline::DEFAULT).unwrap().words(), [7]);
}

/// A thread that waits for something of its own has the thread in the background do what lasts; and while
/// that does, another in the background.
#[test]
fn the_background_does_what_a_thread_that_waits_has_no_time_for() {
    let scene = scene(0);
    let names = Arc::new(Mutex::new(Vec::new()));
    let until = rt::now() + LONG;
    let [is_open, is_later] = [false; 2].map(|no| Arc::new(AtomicBool::new(no)));
    let (opened, seen) = (Arc::clone(&is_open), Arc::clone(&names));
    scene.endpoint.on_shared(0, move |request| {
        if request.may_last() {
            return request.reply(&[0]);
        }
        let Some(background) = request.background() else { return request.reply(&[0]) };
        let (is_open, names) = (Arc::clone(&opened), Arc::clone(&seen));
        let is_first = !is_later.swap(true, Ordering::Relaxed);
        let slot = request.later();
        background.run(move || {
            assert!(!in_handler());
            names.lock().unwrap().push(rt::current().name().unwrap_or_default().to_owned());
            // The first lasts until another is done.
            while is_first && !is_open.load(Ordering::Relaxed) && rt::now() < until {
                rt::sleep(Duration::from_millis(1));
            }
            slot.reply(&[if is_first { 1 } else { 2 }]);
        });
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let (there, stop) = (scene.there.clone(), Arc::clone(&is_over));
    let waits = rt::spawn("waits", move || {
        let is_over = move || stop.load(Ordering::Relaxed);
        while !there.drive(Duration::from_millis(20), &is_over) {}
    });
    let to = EndpointName::new(scene.there.host(), "it", 0);
    let remote = scene.mine.wait_map(&to, LONG).unwrap();
    let first = rt::spawn("first", move || {
        loop {
            assert!(rt::now() < until, "the thread that waits receives nothing");
            let reply = remote.wait_call(0, LONG).unwrap();
            if reply.words() != [0] {
                return reply.words().to_vec();
            }
        }
    });
    while names.lock().unwrap().is_empty() {
        assert!(rt::now() < until, "the background does nothing");
        rt::sleep(Duration::from_millis(1));
    }
    while scene.remote.wait_call(0, Deadline::DEFAULT).unwrap().words() != [2] {
        assert!(rt::now() < until, "nobody takes over");
    }
    is_open.store(true, Ordering::Relaxed);
    assert_eq!(first.unwrap().join().unwrap(), [1]);
    assert!(names.lock().unwrap().iter().all(|name| name == "egret links"));
    is_over.store(true, Ordering::Relaxed);
    waits.unwrap().join().unwrap();
}

const LONG: Duration = Duration::from_secs(60);
