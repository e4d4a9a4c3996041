//! A hostile program at the other end: a process of its own that meets a nic as
//! a real peer would, and then does everything it can.
//!
//! `victim.rs` uses the public interface alone; `peer.rs` and `files.rs` are the
//! other program, which knows the wire.

mod acceptor;
mod files;
mod peer;
mod victim;

use std::fmt::Write;

use self::victim::Victim;
use super::program::{Program, is_alone, part};
use crate::rt;

/// What the hostile program does, each by its name.
const ATTACKS: [&str; 13] = [
    "scribble", "posted", "replay", "counts", "files", "truncate", "regions", "control", "names",
    "silence", "attempts", "bell", "keys",
];

/// Not a test by itself: the other program.
#[test]
fn program() {
    let Some(part) = part() else { return };
    let [attack, victim, own, seed] = part.split('|').collect::<Vec<_>>()[..] else { panic!() };
    match attack {
        "echo" => victim::echo(victim, own),
        "acceptor" => acceptor::answer_nonsense(own, seed.parse().unwrap()),
        attack => peer::attack(attack, victim, seed.parse().unwrap()),
    }
}

fn start(attack: &str, victim: &str, own: &str, seed: u64) -> Program {
    let part = format!("{attack}|{victim}|{own}|{seed}");
    Program::start("fabric::shm::tests::attack::program", &part)
}

fn seed() -> u64 {
    std::env::var("EGRET_SEED").map_or_else(|_| rt::random(), |seed| seed.parse().unwrap())
}

/// Alone in a process: it counts descriptors and bytes.
#[test]
fn a_hostile_program_ends_only_its_own_connections() {
    const NAME: &str =
        "fabric::shm::tests::attack::a_hostile_program_ends_only_its_own_connections";
    if !is_alone(NAME) {
        return;
    }
    let seed = seed();
    println!("EGRET_SEED={seed}");
    let mut victim = Victim::new();
    victim.endure("posted", seed);
    let before = victim.lasting_footprint();
    let mut told = String::new();
    for attack in ATTACKS {
        victim.endure(attack, seed);
        let after = victim.settled_footprint(&before);
        assert_eq!(after.descriptors, before.descriptors, "{attack}: descriptors");
        assert_eq!(after.mappings, before.mappings, "{attack}: mappings");
        assert_eq!(after.threads, before.threads, "{attack}: threads");
        let grown = after.resident_kib.saturating_sub(before.resident_kib);
        assert!(grown < GROWTH_MAX_KIB, "{attack}: {grown} KiB more");
        writeln!(told, "{attack}: {}, {grown} KiB", victim.report()).unwrap();
    }
    println!("{told}");
}

#[test]
fn a_hostile_door_refuses_only_itself() {
    let seed = seed();
    println!("EGRET_SEED={seed}");
    acceptor::endure(seed);
}

/// Far below what an attack can send in its time.
const GROWTH_MAX_KIB: u64 = 32 << 10;
