//! Paths: what comes by them, and when they end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::Fabrics;
use egret_net::fabric::sim::{Sim, check, seeds};
use egret_net::rt::{self, Deadline};
use egret_net::vi::{Address, Descriptor, Lane, NicOptions, Reliability, ViOptions};

use super::ended::{go_on, nodes, worlds};
use super::hostile::{Stage, hello, run, say};
use super::ledger::Ledger;
use super::world::Node;
use crate::am::handlers_later;
use crate::link::LinkError;
use crate::links::path::fault::{Fault, caught};
use crate::links::{Links, LinksOptions, PATH_MAX, Path};

/// The port, the peer and the bytes of what has come.
type Heard = Arc<Mutex<Vec<(u64, String, Vec<u8>)>>>;

const PORTS: [u64; 3] = [0, 7, u64::MAX];
/// Of links, and with that whether a window stands between them and the simulator.
const LEVELS: [Reliability; 2] = [Reliability::Reception, Reliability::Delivery];
const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);

fn hear(links: &Links) -> Heard {
    let heard = Heard::default();
    for port in PORTS {
        let note = Arc::clone(&heard);
        links.on_path(port, move |peer, bytes| {
            note.lock().unwrap().push((port, peer.to_owned(), bytes.to_vec()));
        });
    }
    heard
}

fn port(number: u64) -> u64 {
    PORTS[usize::try_from(number % 3).unwrap()]
}

/// Bytes that say which message it is, and that are no other's.
fn payload(number: u64) -> Vec<u8> {
    let len = usize::try_from(number % 100).unwrap();
    let filler = std::iter::repeat_n(number.to_le_bytes()[0] ^ 0x5a, len);
    number.to_le_bytes().into_iter().chain(filler).collect()
}

fn send(path: &Path, number: u64) -> Result<(), LinkError> {
    let bytes = payload(number);
    let (a, b) = bytes.split_at(bytes.len() / 2);
    path.send(port(number), &[a, b])
}

/// The numbers of what has come, each of which was sent so, and once.
fn numbers(heard: &Heard, peer: &str) -> BTreeSet<u64> {
    let (heard, mut all) = (heard.lock().unwrap(), BTreeSet::new());
    for (at, from, bytes) in heard.iter() {
        let number = u64::from_le_bytes(*bytes.first_chunk().expect("a damaged message"));
        assert_eq!(*bytes, payload(number), "damaged");
        assert_eq!((*at, &**from), (port(number), peer), "to another port");
        assert!(all.insert(number), "{number} came twice");
    }
    all
}

fn path(all: &[Node], from: usize, to: &str) -> Path {
    run(all, all[from].links.path(to, Deadline::DEFAULT)).unwrap()
}

#[test]
fn all_arrive_where_nothing_is_lost() {
    for level in LEVELS {
        let sim = Sim::new(1);
        let all = nodes(&sim, &LinksOptions::default().reliability(level), &["a", "b"]);
        let heard = hear(&all[1].links);
        let path = path(&all, 0, "b");
        for number in 0..1000 {
            send(&path, number).unwrap();
            if number % 16 == 0 {
                go_on(&sim, &all, Duration::from_millis(1));
            }
        }
        go_on(&sim, &all, SECOND);
        assert_eq!(numbers(&heard, "a").len(), 1000);
        assert_eq!((path.peer(), path.sent(), path.dropped(), path.ended()), ("b", 1000, 0, None));
        let counters = all[1].links.counters();
        assert_eq!((counters.path_received, counters.path_dropped), (1000, 0));
        assert_eq!(counters.turned_away, 0);
    }
}

/// Where messages are lost, doubled, overtaken and damaged.
fn run_lossy(sim: &Sim, level: Reliability) {
    sim.links().loss(0.1).duplicate(0.2).reorder(0.2).corrupt(0.05);
    let all = nodes(sim, &LinksOptions::default().reliability(level), &["a", "b"]);
    let heards = [0, 1].map(|at| hear(&all[at].links));
    let paths = [path(&all, 0, "b"), path(&all, 1, "a")];
    for number in 0..300 {
        for path in &paths {
            send(path, number).unwrap();
        }
        if number % 8 == 0 {
            go_on(sim, &all, Duration::from_micros(200));
        }
    }
    go_on(sim, &all, SECOND);
    for (heard, from) in heards.iter().zip(["b", "a"]) {
        let count = numbers(heard, from).len();
        assert!((150..300).contains(&count), "{count} of 300");
    }
}

#[test]
fn what_comes_was_sent_so_and_comes_once() {
    for level in LEVELS {
        check(seeds(rt::trials(15)), |sim| run_lossy(sim, level));
    }
}

#[test]
fn what_is_doubled_damaged_or_misled_is_found() {
    for fault in [Fault::Doubled, Fault::Damaged, Fault::OtherPort] {
        for level in LEVELS {
            let test = || check(0..5, |sim| run_lossy(sim, level));
            assert!(caught(fault, test), "{fault:?} goes unnoticed");
        }
    }
}

#[test]
fn a_message_has_up_to_so_many_bytes() {
    let sim = Sim::new(1);
    let all = nodes(&sim, &LinksOptions::default(), &["a", "b"]);
    let heard = hear(&all[1].links);
    let path = path(&all, 0, "b");
    let bytes = vec![3; PATH_MAX + 1];
    path.send(0, &[]).unwrap();
    path.send(0, &[&[], &bytes[..1], &[], &bytes[2..]]).unwrap();
    let too_large = LinkError::PathTooLarge { len: PATH_MAX + 1, max: PATH_MAX };
    assert_eq!(path.send(0, &[&bytes]), Err(too_large));
    go_on(&sim, &all, SECOND);
    let lens: Vec<usize> = heard.lock().unwrap().iter().map(|heard| heard.2.len()).collect();
    assert_eq!((lens, path.sent()), (vec![0, PATH_MAX], 2));
}

fn what_has_no_handler_or_no_room_is_counted() {
    let sim = Sim::new(1);
    let all = nodes(&sim, &LinksOptions::default(), &["a", "b"]);
    let path = path(&all, 0, "b");
    let dropped = || all[1].links.counters().path_dropped;
    send(&path, 0).unwrap();
    go_on(&sim, &all, SECOND);
    assert_eq!(dropped(), 1, "nobody has the port");

    let heard = hear(&all[1].links);
    handlers_later(|| {
        for number in 0..1000 {
            send(&path, number).unwrap();
            if number % 16 == 0 {
                go_on(&sim, &all, Duration::from_millis(1));
            }
        }
        go_on(&sim, &all, SECOND);
        assert_eq!(dropped(), 1 + 1000 - 256, "others wait");
    });
    go_on(&sim, &all, SECOND);
    assert_eq!(numbers(&heard, "a"), (0..256).collect());

    // More than the connection holds, of which nobody takes any.
    for number in 1000..2000 {
        send(&path, number).unwrap();
    }
    go_on(&sim, &all[..1], SECOND);
    go_on(&sim, &all, SECOND);
    let came = numbers(&heard, "a").len() as u64 - 256;
    assert!((1..1000).contains(&came), "{came}");
    assert_eq!(dropped(), 1 + 1000 - 256 + 1000 - came);

    assert!(all[1].links.off_path(0) && !all[1].links.off_path(0));
    send(&path, 3000).unwrap();
    go_on(&sim, &all, SECOND);
    assert_eq!(dropped(), 2 + 1000 - 256 + 1000 - came, "nobody has the port any more");
    assert_eq!(all[1].links.account().upcalls, 0);
}

#[test]
fn what_is_dropped_is_counted() {
    what_has_no_handler_or_no_room_is_counted();
    let test = what_has_no_handler_or_no_room_is_counted;
    assert!(caught(Fault::Boundless, test), "what waits without bound goes unnoticed");
}

fn a_path_ends_with_its_link() {
    for (sim, options) in worlds() {
        let mut all = nodes(&sim, &options, &["a", "b"]);
        for end in 0..5 {
            let (there, mut back) = (path(&all, 0, "b"), Some(path(&all, 1, "a")));
            go_on(&sim, &all, SECOND);
            assert_eq!((all[0].links.account().paths, all[1].links.account().paths), (2, 2));
            match end {
                0 => all[0].links.end_link("b", "of a test"),
                1 => all[1].links.close(),
                2 => all[1].links.close_because("enough"),
                3 => sim.crash("b"),
                _ => drop((all.pop(), back.take())),
            }
            go_on(&sim, &all, LONG);
            let (peer, why) = ("b".to_owned(), "of a test".to_owned());
            let Err(LinkError::PathEnded(ended)) = send(&there, 0) else {
                panic!("{end}: it lives")
            };
            let ended = *ended;
            assert_eq!(there.ended(), Some(ended.clone()));
            match end {
                0 => assert_eq!(ended, LinkError::PeerFailed { peer, why }),
                1 | 4 => assert_eq!(ended, LinkError::ClosedByPeer { peer }),
                2 => assert!(matches!(ended, LinkError::PeerFailed { .. }), "{ended}"),
                _ => assert!(matches!(ended, LinkError::PeerDied { .. }), "{ended}"),
            }
            assert!(end == 3 || back.iter().all(|back| send(back, 0).is_err()));
            assert_eq!(all[0].links.account().paths, 0);
            if end > 0 {
                drop(back);
                all.truncate(1);
                sim.restart("b");
                all.push(Node::new(&sim, "b", &options, &Ledger::default()));
            }
        }
    }
}

#[test]
fn its_end_is_that_of_its_link() {
    a_path_ends_with_its_link();
    assert!(caught(Fault::Outlives, a_path_ends_with_its_link), "it goes on unnoticed");
}

#[test]
fn a_new_life_of_the_peer_has_paths_of_its_own() {
    let sim = Sim::new(1);
    let mut all = nodes(&sim, &LinksOptions::default(), &["a", "b"]);
    let (first, back) = (path(&all, 0, "b"), path(&all, 1, "a"));
    sim.crash("b");
    drop((back, all.pop()));
    sim.restart("b");
    all.push(Node::new(&sim, "b", &LinksOptions::default(), &Ledger::default()));
    let heards = [0, 1].map(|at| hear(&all[at].links));
    // Its call replaces the link of the former life.
    let back = path(&all, 1, "a");
    assert!(matches!(send(&first, 0), Err(LinkError::PathEnded(_))), "{:?}", first.ended());
    let second = path(&all, 0, "b");
    send(&second, 1).and(send(&back, 2)).unwrap();
    go_on(&sim, &all, SECOND);
    assert_eq!(numbers(&heards[1], "a"), BTreeSet::from([1]));
    assert_eq!(numbers(&heards[0], "b"), BTreeSet::from([2]));
}

#[test]
fn a_link_has_one_path_and_its_last_handle_closes_it() {
    let sim = Sim::new(1);
    let all = nodes(&sim, &LinksOptions::default(), &["a", "b"]);
    let heard = hear(&all[1].links);
    let first = path(&all, 0, "b");
    let (second, third) = (path(&all, 0, "b"), first.clone());
    drop(first);
    send(&second, 0).unwrap();
    drop(second);
    send(&third, 1).unwrap();
    go_on(&sim, &all, SECOND);
    assert_eq!((numbers(&heard, "a").len(), third.sent()), (2, 2));
    assert_eq!((all[0].links.account().paths, all[1].links.account().paths), (1, 1));
    drop(third);
    go_on(&sim, &all, SECOND);
    assert_eq!((all[0].links.account().paths, all[1].links.account().paths), (0, 0));
    assert_eq!(all[0].links.counters().ended, 0, "the link goes on");
}

#[test]
fn a_link_with_a_path_gives_way_to_nobody() {
    let sim = Sim::new(1);
    let all = nodes(&sim, &LinksOptions::default().peers_max(1), &["hub", "a", "b"]);
    let first = path(&all, 1, "hub");
    let why = run(&all, all[2].links.path("hub", Deadline::DEFAULT)).unwrap_err();
    assert!(matches!(why, LinkError::Full { links: 1, .. }), "{why}");
    drop(first);
    go_on(&sim, &all, SECOND);
    send(&path(&all, 2, "hub"), 0).unwrap();
}

#[test]
fn closing_gives_everything_back() {
    let sim = Sim::new(1);
    let all = nodes(&sim, &LinksOptions::default(), &["a", "b"]);
    let heard = hear(&all[1].links);
    let (there, back) = (path(&all, 0, "b"), path(&all, 1, "a"));
    send(&there, 0).unwrap();
    all[1].links.close();
    assert_eq!(Arc::strong_count(&heard), 1, "the handlers are gone");
    assert_eq!(send(&back, 0), Err(LinkError::PathEnded(Box::new(LinkError::Closed))));
    assert!(!all[1].links.off_path(0));
    let unused = Arc::clone(&heard);
    all[1].links.on_path(0, move |_, _| drop(unused.lock().unwrap()));
    assert_eq!(Arc::strong_count(&heard), 1, "there are none any more");
    let why = run(&all, all[1].links.path("a", Deadline::DEFAULT)).unwrap_err();
    assert_eq!(why, LinkError::Closed);
    go_on(&sim, &all, SECOND);
    assert!(all.iter().all(|node| node.links.account().paths == 0));
    assert!(send(&there, 1).is_err());
    assert!(heard.lock().unwrap().is_empty());
}

fn a_peer_has_one_path_and_a_stranger_none() {
    let sim = Sim::new(1);
    let stage = Stage::new(&sim);
    let honest = &stage.nodes[0].links;
    let heard = hear(honest);
    let options = ViOptions::of(Reliability::Unreliable);
    let to = Address::new("honest", "egret.path", 0);
    let connect = || {
        let vi = run(&stage.nodes, stage.nic.connect(&to, &options, Deadline::DEFAULT)).unwrap();
        stage.steps(50);
        vi
    };
    let stranger = connect();
    assert!(stranger.error().is_some() && honest.account().paths == 0);
    assert_eq!(honest.counters().turned_away, 1);

    let link = stage.connect();
    say(&link, &hello());
    stage.steps(100);
    let mut all: Vec<_> = (0..5).map(|_| connect()).collect();
    assert_eq!(honest.account().paths, 1);
    let last = all.pop().unwrap();
    assert!(all.iter().all(|vi| vi.error().is_some()) && last.error().is_none());
    for len in [0, 7, 8, 100, 4096] {
        last.send_eager(Lane::Talk, 7, &[&vec![0xa5; len]]).unwrap();
        stage.steps(20);
    }
    assert_eq!((honest.counters().path_dropped, heard.lock().unwrap().len()), (5, 0));
    last.post_send(Descriptor::new(vec![0_u8; 10])).unwrap();
    stage.steps(50);
    assert!(last.error().is_some() && honest.account().paths == 0);
    assert!(link.error().is_none(), "its link is another matter");
    stage.assert_goes_on();
}

#[test]
fn a_peer_has_one_path() {
    a_peer_has_one_path_and_a_stranger_none();
    let test = a_peer_has_one_path_and_a_stranger_none;
    assert!(caught(Fault::Hoarded, test), "that it keeps all goes unnoticed");
}

#[test]
fn a_path_to_an_absent_peer_fails() {
    let sim = Sim::new(1);
    let all = nodes(&sim, &LinksOptions::default(), &["a"]);
    let links = &all[0].links;
    let within = Duration::from_millis(200);
    assert_eq!(links.wait_path("a", within).unwrap_err(), LinkError::Oneself);
    assert!(links.wait_path("nobody", within).is_err());
    assert_eq!(links.account().paths, 0);
}

/// Over the fabrics of the real world, between two nics of one process.
#[test]
fn every_fabric_carries_them() {
    for fabric in ["shm", "tcp", "udp"] {
        let open = |side: &str| {
            let name = format!("path-{side}-{}", std::process::id());
            let name = if fabric == "shm" { &*name } else { "" };
            let nic = Fabrics::default().open(fabric, NicOptions::new(name)).unwrap();
            Links::open(nic, LinksOptions::default()).unwrap()
        };
        let (here, there) = (open("here"), open("there"));
        let heard = hear(&there);
        let path = here.wait_path(there.host(), LONG).unwrap();
        let (mut sent, end) = (0, rt::now() + LONG);
        while numbers(&heard, here.host()).len() < 500 {
            assert!(rt::now() < end, "{fabric}: {sent} sent, {:?}", there.counters());
            (0..20).for_each(|at| send(&path, sent + at).unwrap());
            sent += 20;
            rt::sleep(Duration::from_millis(1));
        }
        path.send(1, &[&vec![1; PATH_MAX]]).unwrap();
        assert_eq!((path.sent(), path.peer()), (sent + 1, there.host()));
        // Beyond what any of them holds: neither side waits, and the link goes on.
        (0..20_000).for_each(|at| send(&path, sent + at).unwrap());
        here.wait_connect(there.host(), LONG).unwrap();
        there.close();
        while send(&path, 0).is_ok() || here.account().paths > 0 {
            assert!(rt::now() < end, "{fabric}: its end goes unnoticed");
            rt::sleep(Duration::from_millis(1));
        }
        let counters = there.counters();
        let (all, known) = (sent + 20_001, counters.path_received + counters.path_dropped);
        assert!(known <= all && known >= 500, "{fabric}: {known} of {all}");
        assert_eq!((here.account().paths, there.account().paths), (0, 0), "{fabric}");
    }
}
