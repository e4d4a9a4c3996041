//! Rounds in which one side of some connections is killed, stopped, cut off or
//! leaves, while messages of all sizes flow: with `EGRET_TESTS=all` a thousand over shared memory and a
//! thousand over `tcp`, else an eighth of that. What is left must be able to go on as if it had never been.
//! Some more rounds are of eager messages alone, and of `udp` over a link that loses, as many as
//! `EGRET_ROUNDS` says.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod eager;
mod flood;
mod flow;
mod lossy;
mod network;
mod notes;
mod party;
mod peer;
mod relay;
mod shm;
mod spaces;

use std::env;
use std::process::Command;
use std::time::Duration;

use egret_net::rt;

const LONG: Duration = Duration::from_secs(20);
/// The secret of all processes here, which has the form of one that nobody can guess.
const SECRET: &str = "egret1.00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Not a test by itself: the other process.
#[test]
fn other() {
    let Ok(part) = env::var(peer::PART) else { return };
    match part.split('|').collect::<Vec<_>>()[..] {
        ["peer", fabric, name, known_ms, seed] => {
            let known = Duration::from_millis(known_ms.parse().unwrap());
            peer::run(fabric, name, known, seed.parse().unwrap());
        }
        ["flood", fabric, name, seed, fault] => {
            eager::run(fabric, name, seed.parse().unwrap(), fault);
        }
        ["relay"] => relay::run(),
        _ => panic!("{part}"),
    }
}

/// What a child is to be.
fn part(fabric: &str, name: &str, known: Duration, seed: u64) -> String {
    format!("peer|{fabric}|{name}|{}|{seed}", known.as_millis())
}

/// Runs the test of this name alone in a process, since other tests open
/// descriptors too, or says that this is that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "EGRET_TEST_ROUNDS_ALONE";
    let is_alone = env::var(ALONE).is_ok();
    if !is_alone {
        run_alone(command(None).env(ALONE, ""), test);
    }
    is_alone
}

/// What it said.
fn run_alone(command: &mut Command, test: &str) -> String {
    let output = command.args(["--exact", test, "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    said.into_owned()
}

/// This program, in a network namespace if one is named.
fn command(space: Option<&str>) -> Command {
    let this = env::current_exe().unwrap();
    match space {
        None => Command::new(this),
        Some(space) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", space]).arg(this);
            command
        }
    }
}

/// Of `EGRET_SEED`, or another one each time.
fn seed() -> u64 {
    env::var("EGRET_SEED").map_or_else(|_| rt::random(), |seed| seed.parse().unwrap())
}
