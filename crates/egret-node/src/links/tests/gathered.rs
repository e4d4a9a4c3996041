//! Messages of several pieces, and room for messages.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline};

use super::ended::{go_on, map, nodes, worlds};
use super::hostile::run;
use crate::am::{Message, MessageError, Request};
use crate::links::{Links, LinksOptions};

#[test]
pub(super) fn pieces_arrive_behind_each_other() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        all[1].endpoints[0].endpoint.on(0, |request| {
            let (words, bytes) = (request.words().to_vec(), request.bytes().to_vec());
            let pieces = bytes.chunks(bytes.len() / 5 + 1).map(|piece| piece.to_vec().into());
            request.reply_with(Message::to(255).words(&words).gather(pieces.collect()));
        });
        let remote = map(&all, [0, 0], [1, 0]);
        for count in [0_usize, 1, 2, 15, 16, 63, 64, 65, 200] {
            let piece = |at: usize| vec![at.to_le_bytes()[0]; at * 37 % 400];
            let pieces: Vec<Vec<u8>> = (1..=count).map(piece).collect();
            for words in [&[][..], &[1, 2, 3]] {
                let memory = pieces.iter().map(|piece| piece.clone().into()).collect();
                let message = Message::to(0).words(words).gather(memory);
                let mut reply = run(&all, remote.try_request(message).unwrap()).unwrap();
                assert_eq!((reply.words(), reply.bytes()), (words, &pieces.concat()[..]));
                assert!(reply.take_sent().is_none(), "it was dropped");
            }
        }
        drop(remote);
        go_on(&sim, &all, Duration::from_secs(2));
        assert!(all.iter().all(|node| node.links.account().is_settled()), "all is given back");
    }
}

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn room_wakes_the_waiting_task() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options.window(2), &["a", "b"]);
        let later = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&later);
        let keep = move |request: Request<'_>| kept.lock().unwrap().push(request.later());
        all[1].endpoints[0].endpoint.on(0, keep);
        let remote = map(&all, [0, 0], [1, 0]);
        run(&all, poll_fn(|context| remote.poll_room(context))).unwrap();
        let calls = [(); 2].map(|()| remote.try_request(0).unwrap());
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        for _ in 0..10 {
            assert!(remote.poll_room(&mut context).is_pending());
            go_on(&sim, &all, Duration::from_millis(50));
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        later.lock().unwrap().pop().unwrap().reply(&[]);
        go_on(&sim, &all, Duration::from_millis(500));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(matches!(remote.poll_room(&mut context), Poll::Ready(Ok(()))));
        drop(remote.try_request(0).unwrap());
        assert!(remote.poll_room(&mut context).is_pending());
        sim.crash("b");
        go_on(&sim, &all[..1], Duration::from_secs(30));
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        let gone = remote.poll_room(&mut context);
        assert!(matches!(gone, Poll::Ready(Err(MessageError::Link(_)))), "{gone:?}");
        drop(calls);
    }
}

/// The time for room and that for the answer are one.
#[test]
fn a_call_that_waits_for_room_has_no_more_time() {
    for with in [false, true] {
        let sim = Sim::new(1);
        let all = nodes(&sim, &LinksOptions::default().window(1), &["a", "b"]);
        let later = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&later);
        let keep = move |request: Request<'_>| kept.lock().unwrap().push(request.later());
        all[1].endpoints[0].endpoint.on(0, keep);
        let remote = map(&all, [0, 0], [1, 0]);
        let first = remote.try_request(0).unwrap();
        sim.links().latency(Duration::from_millis(200));
        go_on(&sim, &all, Duration::from_secs(1));
        later.lock().unwrap().pop().unwrap().reply(&[]);
        let (begun, time) = (sim.elapsed(), Duration::from_millis(300));
        let why = match with {
            false => remote.wait_call(0, Deadline::In(time)).unwrap_err(),
            true => {
                remote.wait_call_with(Message::to(0), &[b"short"], Deadline::In(time)).unwrap_err()
            }
        };
        assert!(matches!(why, MessageError::TimedOut { .. }), "{why}");
        assert!(sim.elapsed() < begun + time + Duration::from_millis(50), "it has more time");
        drop(first);
    }
}

/// Uses the links when it is woken and when it is dropped, as a task may.
struct Uses {
    links: Links,
    woken: Arc<AtomicU32>,
}

impl Wake for Uses {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        let _used = self.links.counters();
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        let _used = self.links.counters();
    }
}

#[test]
fn a_waker_may_use_the_links() {
    let done = Arc::new(AtomicU32::new(0));
    let tell = Arc::clone(&done);
    let tries = rt::spawn("tries", move || {
        worlds().for_each(|(sim, options)| use_wakers(&sim, &options.window(1)));
        tell.store(1, Ordering::Relaxed);
    });
    let end = rt::now() + Duration::from_secs(60);
    while done.load(Ordering::Relaxed) == 0 {
        assert!(rt::now() < end, "it stands still");
        rt::sleep(Duration::from_millis(10));
    }
    tries.unwrap().join().unwrap();
}

fn use_wakers(sim: &Sim, options: &LinksOptions) {
    let all = nodes(sim, options, &["a", "b"]);
    let later = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&later);
    let keep = move |request: Request<'_>| kept.lock().unwrap().push(request.later());
    all[1].endpoints[0].endpoint.on(0, keep);
    let remote = map(&all, [0, 0], [1, 0]);
    let woken = Arc::new(AtomicU32::new(0));
    let links = &all[0].links;
    let uses = || Waker::from(Arc::new(Uses { links: links.clone(), woken: woken.clone() }));
    let mut call = remote.try_request(0).unwrap();
    for _ in 0..100 {
        let (mine, room) = (uses(), uses());
        assert!(Pin::new(&mut call).poll(&mut Context::from_waker(&mine)).is_pending());
        assert!(remote.poll_room(&mut Context::from_waker(&room)).is_pending());
    }
    assert_eq!(woken.load(Ordering::Relaxed), 64, "too many wait for room");
    go_on(sim, &all, Duration::from_millis(500));
    later.lock().unwrap().pop().unwrap().reply(&[]);
    go_on(sim, &all, Duration::from_millis(500));
    assert_eq!(woken.load(Ordering::Relaxed), 101, "and one for the answer");
    drop(call);
    let mut calls = [remote.try_request(0).unwrap()];
    for call in &mut calls {
        let (mine, room) = (uses(), uses());
        assert!(Pin::new(call).poll(&mut Context::from_waker(&mine)).is_pending());
        assert!(remote.poll_room(&mut Context::from_waker(&room)).is_pending());
    }
    links.end_link("b", "of a test");
    assert_eq!(woken.load(Ordering::Relaxed), 103);
    drop((calls, remote));
}
