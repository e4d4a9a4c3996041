//! Over `udp` between two network namespaces, with packets lost on the way.

use std::env;
use std::process::{Command, Output};

use egret_net::rt::Deadline;
use egret_node::LinksOptions;
use egret_node::am::Message;

use super::peer::Peer;
use super::{LONG, map, open};

/// Tells the process in the first of them the name of the second.
const SPACES: &str = "EGRET_TEST_LINKS_SPACE";
const HERE: &str = "10.213.9.1";
const THERE: &str = "10.213.9.2";
/// The name of the cable's end, in both.
const LINK: &str = "egret";

/// Two namespaces with a cable between them that loses one of twenty packets each way.
struct Spaces([String; 2]);

impl Spaces {
    fn make() -> Result<Self, String> {
        let number = std::process::id();
        let spaces = Self(["a", "b"].map(|side| format!("egret-links-{number}-{side}")));
        let [a, b] = &spaces.0;
        run("ip", &["netns", "add", a])?;
        run("ip", &["netns", "add", b])?;
        let cable = ["link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", b];
        run("ip", &[&["-n", a][..], &cable].concat())?;
        for (space, address) in [(a, HERE), (b, THERE)] {
            run("ip", &["-n", space, "address", "add", &format!("{address}/24"), "dev", LINK])?;
            run("ip", &["-n", space, "link", "set", "lo", "up"])?;
            run("ip", &["-n", space, "link", "set", LINK, "up"])?;
            let chain = "add chain inet try in { type filter hook input priority 0; }";
            let loss = "add rule inet try in numgen random mod 100 < 5 counter drop";
            for rule in ["add table inet try", chain, loss] {
                run("ip", &["netns", "exec", space, "nft", rule])?;
            }
        }
        Ok(spaces)
    }

    /// Packets that were lost, in both.
    fn lost(&self) -> u64 {
        let lost = |space: &String| {
            let list = ["netns", "exec", space, "nft", "list chain inet try in"];
            let rules = String::from_utf8(run("ip", &list).unwrap().stdout).unwrap();
            let counted = rules.split_once("counter packets ").map(|(_, rest)| rest.to_owned());
            counted.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
        };
        self.0.iter().map(lost).sum()
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            _ = run("ip", &["netns", "delete", name]);
        }
    }
}

fn run(program: &str, args: &[&str]) -> Result<Output, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|why| format!("{program}: {why}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[test]
fn nothing_is_lost_over_udp_that_loses() {
    const TEST: &str = "spaces::nothing_is_lost_over_udp_that_loses";
    if let Ok(there) = env::var(SPACES) {
        return talk(&there);
    }
    let spaces = match Spaces::make() {
        Ok(spaces) => spaces,
        Err(why) => return println!("skipped: no network namespaces with nft here: {why}"),
    };
    let this = env::current_exe().unwrap();
    let [a, b] = &spaces.0;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", a]).arg(this).args(["--exact", TEST, "--nocapture"]);
    let output = command.env(SPACES, b).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    // Small messages share packets, so that there are few.
    assert!(spaces.lost() > 0, "no packets were lost");
    println!("{} packets were lost", spaces.lost());
}

/// Once and in order: the other side says so of each by what it answers.
fn talk(there: &str) {
    let here = open("udp", HERE, LinksOptions::default());
    let peer = Peer::start(&format!("serve|udp|{THERE}|64|"), Some(there));
    let mine = here.bundle().endpoint(0);
    let remote = map(&mine, &peer.host, "serve");
    let mut calls = Vec::new();
    for number in 0..3000 {
        if number % 3 == 0 {
            calls.push((number, remote.wait_request((2, &[number]), Deadline::In(LONG)).unwrap()));
        } else {
            remote.wait_send((2, &[number]), Deadline::In(LONG)).unwrap();
        }
    }
    for (number, call) in calls {
        assert_eq!(call.wait(Deadline::In(LONG)).unwrap().words(), [number + 1]);
    }
    let data = Message::to(0).words(&[5]).data(vec![7_u8; 1 << 20]);
    let mut reply = remote.wait_call(data, Deadline::In(LONG)).unwrap();
    assert_eq!(reply.words(), [5]);
    assert_eq!(reply.take_sent().unwrap().into_vec::<u8>().unwrap().len(), 1 << 20);
}
