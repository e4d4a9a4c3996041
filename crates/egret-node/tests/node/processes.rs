//! Nodes that are killed, panic, are restarted, or have no time.

use std::error::Error;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_node::am::EndpointName;
use egret_node::node::{Config, Departure, Event, Node, NodeError, NodeId};
use egret_node::registry::{Registry, RegistryOptions};

use super::peer::Peer;
use super::{LONG, SOON, join, registry};

/// Not a test by itself: a program that is started by hand.
#[test]
fn by_hand() -> Result<(), Box<dyn Error>> {
    if std::env::var_os("EGRET_TEST_BY_HAND").is_some() {
        Node::join(Config::from_env()?)?;
    }
    Ok(())
}

#[test]
fn a_program_without_a_launcher_says_what_to_do() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::by_hand", "--nocapture"]).env("EGRET_TEST_BY_HAND", "1");
    for variable in ["EGRET_REGISTRY", "EGRET_CONFIG"] {
        command.env_remove(variable);
    }
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    // As `main` prints it, which is by `Debug`.
    let said = String::from_utf8(output.stderr).unwrap();
    let wanted = "Error: registry is not set: start the program with `egret run -n N PROGRAM`, \
                  which sets it, or by `srun` or `mpiexec`, or set EGRET_REGISTRY, or say `Config::registry(…)`";
    assert!(said.lines().any(|line| line == wanted), "{said}");
}

fn id(text: &str) -> NodeId {
    let (rank, incarnation) = text.split_once('#').unwrap();
    NodeId { rank: rank.parse().unwrap(), incarnation: incarnation.parse().unwrap() }
}

#[test]
fn a_killed_process_is_dead_for_all_and_its_rank_may_be_joined_again() {
    let registry = registry(4);
    let node = join(&registry);
    let mut watchers = [1, 2].map(|rank| Peer::start("watch", &registry, rank));
    watchers.iter_mut().for_each(|peer| _ = peer.said());
    let (mut before, mut took) = (0, Vec::new());
    for _ in 0..3 {
        let mut victim = Peer::start("idle", &registry, 3);
        let dead = id(&victim.said());
        assert!(dead.rank == 3 && dead.incarnation > before);
        before = dead.incarnation;
        let joined = || node.member(dead).is_some();
        assert!(node.links()[1].1.drive(SOON, joined), "it is not here");
        let killed = rt::now();
        victim.child.kill().unwrap();
        let fate = node.wait_fate(dead, SOON);
        assert!(matches!(fate, Some(Departure::Died { .. })), "{fate:?}");
        for watcher in &mut watchers {
            while !watcher.said().starts_with(&format!("died {dead} ")) {}
        }
        took.push(rt::now() - killed);
        assert!(matches!(node.route(dead), Err(NodeError::Gone { .. })));
    }
    println!("known to all after {took:?}");
    // Once at least the machine had time.
    assert!(took.iter().min().unwrap() < &Duration::from_secs(2), "it took {took:?}");
}

#[test]
fn all_nodes_see_the_same_in_the_same_order() {
    let registry = registry(6);
    let mut watchers = [0, 1, 2].map(|rank| Peer::start("watch", &registry, rank));
    watchers.iter_mut().for_each(|peer| _ = peer.said());
    for round in 0..3 {
        let mut some = [3, 4, 5].map(|rank| Peer::start("idle", &registry, rank));
        some.iter_mut().for_each(|peer| _ = peer.said());
        let [a, b, mut c] = some;
        c.child.kill().unwrap();
        drop(a);
        registry.ended(4, &format!("round {round}"));
        drop(b);
    }
    let mut told = registry.events();
    let mut log = Vec::new();
    while log.len() < 3 + 3 * 6 {
        log.push(match told.wait_next(SOON).unwrap() {
            Event::Joined(member) => format!("joined {}", member.id),
            Event::Left(id) => format!("left {id}"),
            Event::Died { node, why } => format!("died {node} {why}"),
            other => panic!("{other:?}"),
        });
    }
    for watcher in &mut watchers {
        let seen: Vec<_> = log.iter().map(|_| watcher.said()).collect();
        assert_eq!(seen, log);
    }
}

#[test]
fn a_process_that_ended_before_joining_is_not_waited_for() {
    let registry = registry(2);
    let node = join(&registry);
    registry.ended(1, "exit code 3");
    let why = node.wait_all(SOON).unwrap_err().to_string();
    assert!(why.contains("1#0") && why.contains("exit code 3"), "{why}");
}

#[test]
fn a_node_that_loses_the_registry_knows() {
    let registry = registry(2);
    let node = join(&registry);
    let mut events = node.events();
    drop(registry);
    while !matches!(events.wait_next(SOON).unwrap(), Event::RegistryLost { .. }) {}
    assert!(node.bind("x", b"").is_err());
    assert!(node.wait_all(SOON).is_err());
}

#[test]
fn a_node_declared_dead_is_fenced() {
    let registry = registry(2);
    let (a, b) = (join(&registry), join(&registry));
    b.bind("mine", b"").unwrap();
    registry.ended(1, "somebody said so");
    assert_eq!(b.wait_fate(b.id(), SOON), Some(Departure::Died { why: "somebody said so".into() }));
    let end = rt::now() + LONG;
    while b.bind("again", b"").is_ok() {
        assert!(rt::now() < end, "it is served");
    }
    let refused = b.bind("again", b"").unwrap_err().to_string();
    assert!(refused.contains("somebody said so"), "{refused}");
    assert!(matches!(b.route(a.id()), Err(NodeError::Fenced { .. })));
    assert_eq!(a.wait_bound("mine", Deadline::NOW).ok(), None);
}

#[test]
fn busy_processes_are_not_taken_for_dead() {
    let seconds = std::env::var("EGRET_BUSY_SECONDS").map_or(4, |text| text.parse().unwrap());
    let registry = registry(8);
    let mut peers: Vec<_> = (0..8).map(|rank| Peer::start("busy", &registry, rank)).collect();
    peers.iter_mut().for_each(|peer| _ = peer.said());
    peers.iter_mut().for_each(|peer| peer.tell(&(seconds * 1000).to_string()));
    let died: Vec<_> = peers.iter_mut().map(Peer::said).collect();
    assert_eq!(died, vec!["0"; 8], "of {seconds} s");
    let mut events = registry.events();
    while let Some(event) = events.try_next() {
        assert!(matches!(event, Event::Joined(_)), "{event:?}");
    }
}

#[test]
fn a_stopped_process_is_given_up_and_knows_when_it_goes_on() {
    let options = RegistryOptions::new("test", 2).secret(crate::SECRET.into());
    let registry = Registry::open(options.patience(Duration::from_secs(1))).unwrap();
    let node = join(&registry);
    let mut peer = Peer::start("watch", &registry, 1);
    let stopped = id(&peer.said());
    node.wait_all(SOON).unwrap();
    peer.stop();
    let fate = node.wait_fate(stopped, SOON);
    let expected = Departure::Died { why: "it has not answered for 1s".to_owned() };
    assert_eq!(fate, Some(expected));
    peer.go_on();
    while peer.said() != format!("died {stopped} it has not answered for 1s") {}
}

#[test]
fn waits_for_a_stopped_process_end_when_it_is_declared_dead() {
    let options = RegistryOptions::new("test", 2).secret(crate::SECRET.into());
    let registry = Registry::open(options.patience(Duration::from_secs(1))).unwrap();
    let node = join(&registry);
    let mut peer = Peer::start("serve", &registry, 1);
    let stopped = id(&peer.said());
    assert_eq!(peer.said(), "ready");
    node.wait_all(SOON).unwrap();
    let member = node.id_of(1).and_then(|it| node.member(it)).unwrap();
    let (tell, told) = mpsc::channel();
    let links = node.links().iter().zip(&member.fabrics);
    let remotes: Vec<_> = links
        .map(|((fabric, links), offer)| {
            assert_eq!(*fabric, offer.fabric);
            let mine = links.bundle().endpoint(0);
            let remote = mine.wait_map(&EndpointName::new(&offer.host, "echo", 0), SOON).unwrap();
            assert_eq!(remote.wait_call((0, &[]), SOON).unwrap().words(), [1]);
            (fabric.clone(), mine, remote)
        })
        .collect();
    assert_eq!(remotes.len(), 2);
    peer.stop();
    for (fabric, mine, remote) in remotes {
        let tell = tell.clone();
        let wait = move || {
            let ended = remote.wait_call((0, &[]), Deadline::UntilDead);
            _ = tell.send((fabric, ended.map(drop)));
            drop(mine);
        };
        drop(rt::spawn("caller", wait).unwrap());
    }
    for _ in 0..2 {
        let end = rt::now() + LONG;
        let (fabric, ended) = loop {
            match told.try_recv() {
                Ok(told) => break told,
                Err(_) => assert!(rt::now() < end, "nobody is told"),
            }
            rt::park(Some(rt::now() + Duration::from_millis(10)));
        };
        let why = ended.unwrap_err().to_string();
        assert!(why.contains("it has not answered for 1s"), "{fabric}: {why}");
    }
    assert!(matches!(node.fate(stopped), Some(Departure::Died { .. })));
}

#[test]
fn a_panic_is_printed_with_the_rank_of_the_process_whichever_nodes_are_in_it() {
    let registry = registry(3);
    let peer = Peer::start("panic of two", &registry, 1);
    let errors = peer.ended();
    assert!(errors.lines().any(|line| line.starts_with("rank 1 panicked at ")), "{errors}");
}

#[test]
fn a_panic_is_printed_once_with_its_rank_and_told_to_all() {
    let registry = registry(2);
    let node = join(&registry);
    let mut peer = Peer::start("panic", &registry, 1);
    let dead = id(&peer.said());
    peer.tell("now");
    let fate = node.wait_fate(dead, SOON);
    assert_eq!(fate, Some(Departure::Died { why: "the parrot is dead".to_owned() }));
    let errors = peer.ended();
    let lines: Vec<_> = errors.lines().filter(|line| line.contains("parrot")).collect();
    let [line] = lines[..] else { panic!("{errors}") };
    assert!(line.starts_with("rank 1 panicked at "), "{line}");
    assert!(line.ends_with(": the parrot is dead"), "{line}");
}
