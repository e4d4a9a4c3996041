//! Active messages between two nics of one process, over shared memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::rt::{self, Deadline};
use egret_net::vi::NicOptions;
use egret_node::am::{EndpointName, MEDIUM_MAX, Message, MessageError, Signature};
use egret_node::{Links, LinksOptions};

fn links(name: &str) -> Links {
    let host = format!("{name}-{}", std::process::id());
    let nic = ShmFabric.open(&NicOptions::new(&host)).unwrap();
    Links::open(nic, LinksOptions::default()).unwrap()
}

/// A thread that serves until it is told to stop.
struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<rt::JoinHandle<()>>,
}

impl Server {
    fn of(links: &Links) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (links, stopped) = (links.clone(), Arc::clone(&stop));
        let thread = rt::spawn("server", move || {
            while !stopped.load(Ordering::Relaxed) {
                links.drive(std::time::Duration::from_millis(20), || {
                    stopped.load(Ordering::Relaxed)
                });
            }
        });
        Self { stop, thread: Some(thread.unwrap()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_request_is_answered() {
    let (here, there) = (links("ask"), links("answer"));
    let endpoint = there.bundle().register("adder", 7).unwrap();
    endpoint.on(3, |request| {
        let sum = request.words().iter().sum();
        request.reply(&[sum]);
    });
    let _server = Server::of(&there);
    let mine = here.bundle().endpoint(0);
    let to = EndpointName::new(there.host(), "adder", 7);
    let remote = mine.wait_map(&to, Deadline::DEFAULT).unwrap();
    for i in 0..10_000 {
        let reply = remote.wait_call((3, &[i, 5]), Deadline::DEFAULT).unwrap();
        assert_eq!(reply.words(), [i + 5]);
    }
    let unknown = remote.wait_call(9, Deadline::DEFAULT).unwrap_err();
    assert_eq!(unknown, MessageError::NoHandler { handler: 9 });
    let wrong = EndpointName::new(there.host(), "adder", 8);
    let refused = mine.wait_map(&wrong, Deadline::DEFAULT).unwrap_err();
    assert!(matches!(refused, MessageError::OtherTag { .. }), "{refused}");
}

#[test]
fn one_way_messages_arrive_in_order() {
    let (here, there) = (links("send"), links("take"));
    let endpoint = there.bundle().register("counter", 0).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&count);
    endpoint.on(0, move |request| {
        assert_eq!(request.words(), [seen.fetch_add(1, Ordering::Relaxed)]);
    });
    let _server = Server::of(&there);
    let mine = here.bundle().endpoint(0);
    let remote =
        mine.wait_map(&EndpointName::new(there.host(), "counter", 0), Deadline::DEFAULT).unwrap();
    for i in 0..100_000 {
        remote.wait_send(Message::to(0).words(&[i]), Deadline::DEFAULT).unwrap();
    }
    let until = rt::now() + std::time::Duration::from_secs(30);
    while count.load(Ordering::Relaxed) < 100_000 && rt::now() < until {
        rt::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(count.load(Ordering::Relaxed), 100_000);
}

#[test]
fn medium_and_bulk_messages_arrive_whole() {
    let (here, there) = (links("large"), links("small"));
    let endpoint = there.bundle().register("echo", 0).unwrap();
    endpoint.on(0, |request| {
        let bytes = request.bytes().to_vec();
        let words = request.words().to_vec();
        request.reply_with(Message::to(255).words(&words).bytes(&bytes));
    });
    endpoint.on(1, |request| {
        let sum: u64 = request.bytes().iter().map(|byte| u64::from(*byte)).sum();
        let len = request.bytes().len() as u64;
        assert_eq!(request.words(), [1, 2, 3]);
        request.reply(&[len, sum]);
    });
    let _server = Server::of(&there);
    let mine = here.bundle().endpoint(0);
    let remote =
        mine.wait_map(&EndpointName::new(there.host(), "echo", 0), Deadline::DEFAULT).unwrap();
    for len in [0, 1, 100, 256, 257, MEDIUM_MAX] {
        let bytes: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let words = [len as u64, 7];
        let message = Message::to(0).words(&words).bytes(&bytes);
        let reply = remote.wait_call(message, Deadline::DEFAULT).unwrap();
        assert_eq!(reply.words(), words);
        assert_eq!(reply.bytes(), bytes);
    }
    for len in [0_usize, 10, 1000, 8000, 1 << 20, 30 << 20] {
        let message = Message::to(1).words(&[1, 2, 3]).data(vec![2_u8; len]);
        let mut reply = remote.wait_call(message, Deadline::DEFAULT).unwrap();
        assert_eq!(reply.words(), [len as u64, 2 * len as u64]);
        assert_eq!(reply.take_sent().unwrap().into_vec::<u8>().unwrap(), vec![2; len]);
    }
}

const SCALE: Signature<[f64; 2], f64> = Signature::new("scale");
const OTHER: Signature<[f32; 2], f64> = Signature::new("scale");

#[test]
fn types_are_checked_when_an_endpoint_is_mapped() {
    let (here, there) = (links("typed"), links("served"));
    let endpoint = there.bundle().register("math", 0).unwrap();
    endpoint.serve(&SCALE, |[a, b]| a * b);
    let _server = Server::of(&there);
    let mine = here.bundle().endpoint(0);
    let to = EndpointName::new(there.host(), "math", 0);
    let remote = mine.wait_map_with(&to, &[SCALE.needed()], Deadline::DEFAULT).unwrap();
    assert_eq!(remote.wait_ask(&SCALE, [1.5, 4.0], Deadline::DEFAULT).unwrap(), 6.0);
    let refused = mine.wait_map_with(&to, &[OTHER.needed()], Deadline::DEFAULT).unwrap_err();
    assert!(matches!(&refused, MessageError::OtherTypes { handler, .. } if handler == "scale"));
}

#[test]
fn data_lands_in_supplied_buffers_and_may_be_held() {
    let (here, there) = (links("giver"), links("holder"));
    let endpoint = there.bundle().register("keep", 0).unwrap();
    let pool = egret_net::buf::Pool::new(1 << 16, 8).unwrap();
    for _ in 0..4 {
        endpoint.supply(pool.take(1 << 16).unwrap());
    }
    let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    endpoint.on(0, move |mut request| {
        if request.words() == [1] {
            keep.lock().unwrap().push(request.hold());
        }
        request.reply(&[]);
    });
    endpoint.on(1, |request| {
        let len = usize::try_from(request.words()[0]).unwrap();
        request.reply_with(Message::to(255).words(&[5]).data(vec![9_u8; len]));
    });
    let _server = Server::of(&there);
    let mine = here.bundle().endpoint(0);
    let remote =
        mine.wait_map(&EndpointName::new(there.host(), "keep", 0), Deadline::DEFAULT).unwrap();
    for i in 0..6_u8 {
        let message = Message::to(0).words(&[1]).data(vec![i; 1 << 16]);
        remote.wait_call(message, Deadline::DEFAULT).unwrap();
    }
    assert_eq!(endpoint.landed(), (4, 2), "four were supplied, the others are fresh");
    for (i, kept) in kept.lock().unwrap().drain(..).enumerate() {
        assert!(kept.iter().all(|byte| usize::from(*byte) == i) && kept.len() == 1 << 16);
        assert!(kept.is_resident());
    }
    endpoint.supply(pool.take(1 << 16).unwrap());
    for _ in 0..3 {
        let message = Message::to(0).words(&[0]).data(vec![1_u8; 1000]);
        remote.wait_call(message, Deadline::DEFAULT).unwrap();
    }
    assert_eq!(endpoint.landed(), (7, 2), "what is not held is used again");
    drop(pool);
    for _ in 0..3 {
        let message = Message::to(0).words(&[0]).data(vec![1_u8; 100_000]);
        remote.wait_call(message, Deadline::DEFAULT).unwrap();
    }
    assert_eq!(endpoint.landed(), (7, 5), "fresh memory is not supplied");
    assert_eq!(endpoint.supplied(), 1);
    for len in [0, 10, 100_000, 20 << 20] {
        let reply = remote.wait_call((1, &[len]), Deadline::DEFAULT).unwrap();
        assert_eq!(reply.words(), [5]);
        assert!(reply.bytes().len() as u64 == len && reply.bytes().iter().all(|byte| *byte == 9));
    }
    let large = remote.wait_call((1, &[200 << 20]), Deadline::DEFAULT).unwrap_err();
    let MessageError::ReplyTooLarge { bytes, most } = large else { panic!("{large}") };
    assert!(bytes > most && most > 0, "{large}");
    assert!(large.to_string().contains("`Config::budget`"), "{large}");
    let sent = remote.try_transfer(Message::to(0).words(&[0]).data(vec![3_u8; 5000])).unwrap();
    let back = sent.wait(Deadline::DEFAULT).unwrap().take_sent().unwrap();
    assert_eq!(back.into_vec::<u8>().unwrap(), vec![3; 5000]);
    let never = remote.wait_call(Message::to(0).data(vec![0_u8; 200 << 20]), Deadline::DEFAULT);
    let never = never.unwrap_err();
    let MessageError::TooLarge { bytes, most } = never else {
        panic!("{never}");
    };
    assert!(bytes > most && most > 0, "{never}");
    remote.wait_call((0, &[0]), Deadline::DEFAULT).unwrap();
}

#[test]
fn segments_are_read_and_written_from_afar() {
    let (here, there) = (links("getter"), links("segment"));
    let endpoint = there.bundle().register("memory", 0).unwrap();
    let pool = egret_net::buf::Pool::new(1 << 16, 1).unwrap();
    let access = egret_net::vi::Access::READ_WRITE;
    endpoint.set_segment(pool.take(1 << 16).unwrap(), access).unwrap();
    let _server = Server::of(&there);
    let mine = here.bundle().endpoint(0);
    let to = EndpointName::new(there.host(), "memory", 0);
    let remote = mine.wait_map(&to, Deadline::DEFAULT).unwrap();
    let mut put = remote.wait_put(100, vec![7_u8; 5000], Deadline::DEFAULT).unwrap();
    assert_eq!(put.take_sent().unwrap().into_vec::<u8>().unwrap(), vec![7; 5000]);
    let got = remote.wait_get(99, 5002, Deadline::DEFAULT).unwrap();
    assert_eq!((got.bytes()[0], got.bytes()[5001]), (0, 0));
    assert!(got.bytes()[1..5001].iter().all(|byte| *byte == 7));
    let mut own = [0; 2];
    endpoint.read_segment(5099, &mut own);
    assert_eq!(own, [7, 0]);
    let outside = remote.wait_get(1 << 16, 1, Deadline::DEFAULT).unwrap_err();
    assert!(matches!(outside, MessageError::OutsideSegment { .. }), "{outside}");
    drop(endpoint.take_segment());
    let gone = remote.wait_get(0, 1, Deadline::DEFAULT).unwrap_err();
    assert!(matches!(gone, MessageError::Access(_)), "{gone}");
}

#[test]
fn a_message_knows_when_it_was_taken_in_and_not_when_its_handler_had_time() {
    const NAP: std::time::Duration = std::time::Duration::from_millis(10);
    let (here, there) = (links("sends"), links("takes-in"));
    let endpoint = there.bundle().register("slow", 7).unwrap();
    let (came, began) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (first, then) = (Arc::clone(&came), Arc::clone(&began));
    endpoint.on(0, move |request| {
        first.store(request.came().as_nanos(), Ordering::Relaxed);
        rt::sleep(NAP);
        request.reply(&[]);
    });
    endpoint.on(1, move |request| {
        then.store(rt::now().as_nanos(), Ordering::Relaxed);
        let came = request.came().as_nanos();
        request.reply(&[came]);
    });
    let mine = here.bundle().endpoint(0);
    let to = EndpointName::new(there.host(), "slow", 7);
    let remote = mine.wait_map(&to, Deadline::DEFAULT).unwrap();
    // Both lie there before anybody looks, but for a thread in the background that came in between.
    let is_found = (0..50).any(|_| {
        let calls = [0, 1].map(|handler| remote.try_request((handler, &[])).unwrap());
        let [_, second] = calls.map(|call| call.wait(Deadline::DEFAULT).unwrap());
        let came = came.load(Ordering::Relaxed);
        second.words() == [came] && began.load(Ordering::Relaxed) - came >= 10_000_000
    });
    assert!(is_found, "of two that were taken in together the second waited for the first");
}
