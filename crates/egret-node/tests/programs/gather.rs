//! Requests of several pieces that are sent from where they lie.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::Fabrics;
use egret_net::rt::{self, Deadline};
use egret_node::am::{
    Endpoint, EndpointName, MEDIUM_MAX, Message, MessageError, RemoteEndpoint, ReplySlot,
};
use egret_node::{Links, LinksOptions};

const FABRICS: [&str; 3] = ["shm", "tcp", "udp"];

/// Two sides, the endpoint of each, and what is answered later.
struct Pair {
    remote: RemoteEndpoint,
    later: Arc<Mutex<Vec<ReplySlot>>>,
    ends: [Endpoint; 2],
    links: [Links; 2],
}

fn pair(fabric: &str, options: &LinksOptions) -> Pair {
    let name = |what: &str| match fabric {
        "shm" => format!("{what}-{}-{}", std::process::id(), rt::random()),
        _ => "127.0.0.1".to_owned(),
    };
    let links = ["here", "there"].map(|what| {
        let nic = Fabrics::default().open(fabric, &*name(what)).unwrap();
        Links::open(nic, options.clone()).unwrap()
    });
    let later = Arc::new(Mutex::new(Vec::new()));
    let ends = [links[0].bundle().endpoint(0), links[1].bundle().register("all", 0).unwrap()];
    ends[1].on(0, |request| {
        let sum = request.bytes().iter().enumerate();
        let sum: u64 = sum.map(|(at, byte)| at as u64 * u64::from(*byte)).sum();
        let len = request.bytes().len() as u64;
        request.reply(&[len, sum]);
    });
    let keep = Arc::clone(&later);
    ends[1].on(1, move |request| keep.lock().unwrap().push(request.later()));
    let to = EndpointName::new(links[1].host(), "all", 0);
    let remote = ends[0].wait_map(&to, Deadline::DEFAULT).unwrap();
    Pair { remote, later, ends, links }
}

fn pieces(lens: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    lens.enumerate().map(|(at, len)| vec![(at + 1).to_le_bytes()[0]; len]).collect()
}

fn check(remote: &RemoteEndpoint, pieces: &[Vec<u8>]) {
    let lent: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
    let reply =
        remote.wait_call_with(Message::to(0).words(&[7]), &lent, Deadline::DEFAULT).unwrap();
    let all = lent.concat();
    let sum: u64 = all.iter().enumerate().map(|(at, byte)| at as u64 * u64::from(*byte)).sum();
    assert_eq!(reply.words(), [all.len() as u64, sum]);
}

#[test]
fn pieces_of_any_size_arrive_behind_each_other() {
    for fabric in FABRICS {
        let pair = pair(fabric, &LinksOptions::default());
        check(&pair.remote, &[]);
        check(&pair.remote, &pieces([0, 1, 0, 300, 2].into_iter()));
        check(&pair.remote, &pieces([MEDIUM_MAX / 2, MEDIUM_MAX / 2].into_iter()));
        check(&pair.remote, &pieces([MEDIUM_MAX, 1].into_iter()));
        check(&pair.remote, &pieces([100_000, 3, 50_000, 0, 9].into_iter()));
        check(&pair.remote, &pieces((0..300).map(|at| at * 7 % 500)));
        check(&pair.remote, &pieces([3 << 20, 1 << 20].into_iter()));
        assert!(pair.links.iter().all(|links| links.counters().cut_off == 0));
    }
}

#[test]
fn memory_is_back_when_the_time_is_over() {
    for fabric in FABRICS {
        let pair = pair(fabric, &LinksOptions::default().budget(1 << 20));
        let mut memory = pieces([200_000, 10].into_iter());
        for turn in 0..5 {
            let lent: Vec<&[u8]> = memory.iter().map(|piece| &piece[..]).collect();
            let soon = Deadline::In(Duration::from_millis(turn * 20));
            let why = pair.remote.wait_call_with(Message::to(1), &lent, soon).unwrap_err();
            assert!(matches!(why, MessageError::TimedOut { .. }), "{fabric}: {why}");
            memory[0].fill(9);
        }
        pair.later.lock().unwrap().clear();
        check(&pair.remote, &memory);
        let [here, there] = pair.links.each_ref().map(|links| links.counters().ended);
        assert_eq!((here, there), (0, 0), "{fabric}: nothing was harmed");
        let closed = pair.links[1].clone();
        let closes = rt::spawn("closes", move || {
            rt::sleep(Duration::from_millis(50));
            closed.close();
        });
        let lent: Vec<&[u8]> = memory.iter().map(|piece| &piece[..]).collect();
        let why = pair.remote.wait_call_with(Message::to(1), &lent, Deadline::DEFAULT).unwrap_err();
        assert!(matches!(why, MessageError::LinkLost { .. }), "{fabric}: {why}");
        closes.unwrap().join().unwrap();
        drop(pair.ends);
    }
}

/// A handler does not wait, and what it is told was not done was not.
#[test]
fn a_handler_may_not_call() {
    let pair = pair("shm", &LinksOptions::default());
    let mine = pair.links[1].bundle().endpoint(0);
    let served = pair.links[0].bundle().register("back", 0).unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let runs = Arc::clone(&count);
    served.on(0, move |request| {
        runs.fetch_add(1, Ordering::Relaxed);
        request.reply(&[]);
    });
    let to = EndpointName::new(pair.links[0].host(), "back", 0);
    let back = mine.wait_map(&to, Deadline::DEFAULT).unwrap();
    pair.ends[1].on(2, move |request| {
        let mut refused = vec![back.wait_call(0, Deadline::DEFAULT).unwrap_err()];
        for len in [10, 100_000] {
            let memory = vec![0_u8; len];
            let lent = [&memory[..]];
            refused
                .push(back.wait_call_with(Message::to(0), &lent, Deadline::DEFAULT).unwrap_err());
            refused.push(back.try_call_with(Message::to(0), &lent, Deadline::DEFAULT).unwrap_err());
        }
        let all = refused.iter().all(|why| *why == MessageError::InHandler);
        // What comes behind whatever was sent.
        back.try_send(1).unwrap();
        request.reply(&[u64::from(all)]);
    });
    let came = Arc::new(AtomicU32::new(0));
    let comes = Arc::clone(&came);
    served.on(1, move |_| comes.store(1, Ordering::Relaxed));
    assert_eq!(pair.remote.wait_call(2, Deadline::DEFAULT).unwrap().words(), [1]);
    assert!(pair.links[0].drive(Deadline::DEFAULT, || came.load(Ordering::Relaxed) == 1));
    assert_eq!(count.load(Ordering::Relaxed), 0, "nothing was sent");
}

#[test]
fn a_full_window_can_be_waited_for() {
    for len in [10, 100_000] {
        let pair = pair("shm", &LinksOptions::default().window(1));
        let memory = vec![0_u8; len];
        let first = pair.remote.try_request(1).unwrap();
        let full =
            pair.remote.try_call_with(Message::to(0), &[&memory], Deadline::DEFAULT).unwrap_err();
        assert_eq!(full, MessageError::Full { window: 1 });
        let soon = pair.remote.wait_room(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(soon, MessageError::NoRoomInTime { window: 1, .. }), "{soon}");
        let later = Arc::clone(&pair.later);
        let answers = rt::spawn("answers", move || {
            while later.lock().unwrap().pop().map(|slot| slot.reply(&[])).is_none() {
                rt::sleep(Duration::from_millis(5));
            }
        });
        pair.remote.wait_room(Deadline::DEFAULT).unwrap();
        pair.remote.try_call_with(Message::to(0), &[&memory], Deadline::DEFAULT).unwrap();
        answers.unwrap().join().unwrap();
        drop(first);
    }
}
