//! Other processes, which are killed or flood.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_node::LinksOptions;
use egret_node::am::MessageError;
use egret_node::link::LinkError;

use super::peer::{FLOOD, Peer};
use super::{LONG, map, open};

/// A name that nobody else has, as the fabric wants it.
pub(crate) fn name(fabric: &str, what: &str) -> String {
    match fabric {
        "shm" => format!("{what}-{}-{}", std::process::id(), rt::random()),
        _ => "127.0.0.1".to_owned(),
    }
}

/// How long it takes until all requests to a process that was killed have failed.
fn kill(fabric: &str) -> Duration {
    let here = open(fabric, &name(fabric, "here"), LinksOptions::default());
    let start = |name: &str| Peer::start(&format!("serve|{fabric}|{name}|256|"), None);
    let there = name(fabric, "victim");
    let (victim, other) = (start(&there), start(&name(fabric, "other")));
    let mine = here.bundle().endpoint(0);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&ended);
    mine.on_end(move |it| told.lock().unwrap().push(it));
    let dying = map(&mine, &victim.host, "serve");
    let living = map(&mine, &other.host, "serve");
    let calls: Vec<_> =
        (0..100).map(|_| dying.wait_request((1, &[1]), Deadline::In(LONG)).unwrap()).collect();
    dying.wait_call((0, &[1]), Deadline::In(LONG)).unwrap();
    victim.kill();
    let killed = rt::now();
    for call in calls {
        let why = call.wait(Deadline::In(LONG)).unwrap_err();
        let died = matches!(&why, MessageError::LinkLost { why: LinkError::PeerDied { .. }, .. });
        assert!(died, "{why:?}");
    }
    let took = rt::now() - killed;
    assert!(took < Duration::from_secs(30), "it took {took:?}");
    assert_eq!(living.wait_call((0, &[7]), Deadline::In(LONG)).unwrap().words(), [7]);
    until("told", || ended.lock().unwrap().len() == 1);
    drop(dying);
    let again = start(&there);
    let remote = map(&mine, &again.host, "serve");
    assert_eq!(remote.wait_call((0, &[8]), Deadline::In(LONG)).unwrap().words(), [8]);
    let hosts = (again.host.clone(), other.host.clone());
    drop((remote, living));
    again.close();
    until("told", || ended.lock().unwrap().len() == 2);
    other.kill();
    until("told", || ended.lock().unwrap().len() == 3);
    until("settled", || here.account().is_settled());
    let ended = ended.lock().unwrap();
    let [died, closed, last] = &ended[..] else { panic!("{ended:#?}") };
    assert!(matches!(&died.why, LinkError::PeerDied { peer, .. } if *peer == died.host));
    assert!(matches!(closed.why, LinkError::ClosedByPeer { .. }), "{closed:?}");
    assert!(matches!(last.why, LinkError::PeerDied { .. }), "{last:?}");
    assert_eq!((&closed.host, &last.host), (&hosts.0, &hosts.1));
    assert!(died.peer != closed.peer && died.incarnation != closed.incarnation, "{ended:#?}");
    took
}

pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let end = rt::now() + LONG;
    while !done() {
        assert!(rt::now() < end, "not {what}");
        rt::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_to_a_killed_process_fail_and_others_go_on_over_shm() {
    println!("all requests have failed after {:?}", kill("shm"));
}

#[test]
fn requests_to_a_killed_process_fail_and_others_go_on_over_tcp() {
    println!("all requests have failed after {:?}", kill("tcp"));
}

/// The process is killed before it has said how far it is in what it returned.
fn come_back(fabric: &str) {
    let here = open(fabric, &name(fabric, "here"), LinksOptions::default());
    let peer = Peer::start(&format!("serve|{fabric}|{}|256|", name(fabric, "returns")), None);
    let mine = here.bundle().endpoint(0);
    let (told, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let (tell, end) = (Arc::clone(&told), Arc::clone(&ended));
    mine.on_error(move |back| tell.lock().unwrap().push(back.words[0]));
    mine.on_end(move |_| _ = end.fetch_add(1, Ordering::Relaxed));
    let remote = map(&mine, &peer.host, "serve");
    for word in 0..20 {
        remote.wait_send((200, &[word / 2]), Deadline::In(LONG)).unwrap();
    }
    until("returned", || told.lock().unwrap().len() == 20);
    peer.kill();
    // It is told behind all that comes back.
    until("told", || ended.load(Ordering::Relaxed) == 1);
    let words: Vec<u64> = (0..20).map(|word| word / 2).collect();
    assert_eq!(*told.lock().unwrap(), words, "each once");
}

#[test]
fn what_has_come_back_does_not_come_back_again_when_its_process_is_killed() {
    ["shm", "tcp", "udp"].into_iter().for_each(come_back);
}

fn fail(fabric: &str) {
    let here = open(fabric, &name(fabric, "here"), LinksOptions::default());
    let part = format!("fail|{fabric}|{}|256|", name(fabric, "fails"));
    let peer = Peer::start(&part, None);
    let mine = here.bundle().endpoint(0);
    let remote = map(&mine, &peer.host, "serve");
    let call = remote.try_request((1, &[])).unwrap();
    remote.wait_call((0, &[1]), Deadline::In(LONG)).unwrap();
    let host = peer.host.clone();
    peer.close();
    let failed = call.wait(Deadline::In(LONG)).unwrap_err();
    let MessageError::LinkLost { why, .. } = failed else { panic!("{failed}") };
    let said = "it was told to fail".to_owned();
    assert_eq!(why, LinkError::PeerFailed { peer: host, why: said });
}

#[test]
fn a_process_says_why_it_fails() {
    ["shm", "tcp", "udp"].into_iter().for_each(fail);
}

fn flood(fabric: &str) {
    let here = open(fabric, &name(fabric, "one"), LinksOptions::default().window(1));
    let served = here.bundle().register("serve", 0).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    served.on(0, |request| request.reply(&[1]));
    served.on(2, move |request| {
        assert_eq!(request.words(), [counted.fetch_add(1, Ordering::Relaxed)]);
    });
    let part = format!("flood|{fabric}|{}|1|{}", name(fabric, "two"), here.host());
    let mut peer = Peer::start(&part, None);
    let remote = map(&served, &peer.host, "serve");
    for number in 0..FLOOD {
        let reply = remote.wait_call((2, &[number]), Deadline::In(LONG)).unwrap();
        assert_eq!(reply.words(), [number + 1]);
    }
    assert_eq!(peer.said(), "done");
    assert_eq!(count.load(Ordering::Relaxed), FLOOD);
}

#[test]
fn two_processes_flood_each_other_with_a_window_of_one_over_shm() {
    flood("shm");
}

#[test]
fn two_processes_flood_each_other_with_a_window_of_one_over_tcp() {
    flood("tcp");
}
