//! Rounds over `udp` between two network namespaces whose link loses 2 % each way: a process is
//! killed, stopped, leaves, or the link is cut, and another one beside it goes on.
//! `EGRET_ROUNDS` says how often.

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use egret_net::rt;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

use super::flow::{Flow, Footprint};
use super::network::settled;
use super::party::Party;
use super::peer::Peer;
use super::spaces::{HERE, LINK, Spaces, THERE, run};
use super::{command, part, run_alone, seed};

/// One of each event, if nothing is said.
const ROUNDS: u64 = EVENTS.len() as u64;
/// Within this an end must know that the other one is gone: a link that was cut and a process that
/// is stopped show only by silence.
const KNOWN: Duration = Duration::from_secs(20);
/// Tells the process in the first namespace what the other one is called.
const OTHER: &str = "EGRET_TEST_ROUNDS_LOSSY";
const LOSS: &str = "meta l4proto udp numgen random mod 100 < 2 counter drop";

/// What happens to a process.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Kill,
    /// It is stopped until it is known to be gone, and killed then.
    Stop,
    /// It is stopped for a moment, and nothing is wrong with that.
    Pause,
    /// It closes its connections.
    Leave,
    /// This side closes them.
    Close,
    /// The link is down, and everybody is gone.
    Cut,
}

const EVENTS: [Event; 6] =
    [Event::Kill, Event::Stop, Event::Pause, Event::Leave, Event::Close, Event::Cut];

/// This side, and the process beside the one that is killed.
struct Rounds {
    party: Party,
    beside: Option<Peer>,
    there: String,
    base: Footprint,
    /// Of each event: how often, and how long it took at most until it was known.
    known: [(u32, Duration); EVENTS.len()],
}

impl Rounds {
    fn new(there: &str, seed: u64) -> Self {
        let party = Party::new("udp", HERE, KNOWN, seed);
        let base = Footprint::now();
        let known = [(0, Duration::ZERO); EVENTS.len()];
        Self { party, beside: None, there: there.to_owned(), base, known }
    }

    fn start(&mut self) -> Peer {
        let seed = self.party.rng.next();
        Peer::start(&part("udp", THERE, KNOWN, seed), Some(&self.there))
    }

    fn round(&mut self, event: Event) {
        let mut beside = self.beside.take().unwrap_or_else(|| self.start());
        let mut peer = self.start();
        for _ in 0..1 + self.party.rng.below(3) {
            self.party.connect(&mut peer);
        }
        self.party.connect(&mut beside);
        let messages = self.party.rng.below(60);
        self.party.flow_on(messages);
        // The event comes while this side does nothing, or has just done something.
        rt::sleep(Duration::from_micros(self.party.rng.below(3000) as u64));
        if event == Event::Cut {
            self.cut(peer, beside);
        } else {
            let kept = self.party.flows.pop().unwrap();
            self.event(event, peer);
            self.go_on(kept);
            self.beside = Some(beside);
        }
        self.assert_nothing_left();
    }

    fn event(&mut self, event: Event, mut peer: Peer) {
        match event {
            Event::Kill => {
                peer.kill();
                self.timed(event, Party::lose_flows);
            }
            Event::Stop => {
                peer.stop();
                self.timed(event, Party::lose_flows);
                peer.kill();
            }
            Event::Pause => {
                peer.stop();
                self.party.pass_time();
                peer.go_on();
                self.party.flow_on(20);
                self.timed(event, Party::close_flows);
            }
            Event::Leave => self.timed(event, |party| party.see_off(peer)),
            Event::Close => self.timed(event, Party::close_flows),
            Event::Cut => unreachable!("it is not of one process"),
        }
    }

    /// What flows to the process beside goes on.
    fn go_on(&mut self, kept: Flow) {
        self.party.flows.push(kept);
        self.party.flow_on(20);
        self.party.close_flows();
    }

    fn cut(&mut self, peer: Peer, beside: Peer) {
        self.link("down");
        self.timed(Event::Cut, Party::lose_flows);
        self.link("up");
        // They have found it out too, and given everything back.
        for peer in [peer, beside] {
            self.party.see_off(peer);
        }
    }

    fn timed(&mut self, event: Event, end: impl FnOnce(&mut Party)) {
        let start = rt::now();
        end(&mut self.party);
        let (count, most) = &mut self.known[event as usize];
        (*count, *most) = (*count + 1, (*most).max(rt::now() - start));
    }

    fn link(&self, state: &str) {
        run("ip", &["-n", &self.there, "link", "set", LINK, state]).unwrap();
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.party.flows.len(), 0);
        self.party.side.assert_all_back();
        let others = usize::from(self.beside.is_some());
        settled(&self.party, &self.base.with_descriptors(others));
        if self.beside.is_none() {
            assert_eq!(wait(WaitOptions::NOHANG).unwrap_err(), Errno::CHILD, "a process is left");
        }
    }

    /// What was seen, on one line.
    fn said(&self) -> String {
        let mut said = "known after at most:".to_owned();
        for (event, (count, most)) in EVENTS.iter().zip(self.known) {
            write!(said, " {event:?} {most:.1?} ({count})").unwrap();
        }
        said
    }
}

/// Packets that were lost on purpose in this namespace.
fn lost(space: &str) -> u64 {
    let list = ["netns", "exec", space, "nft", "list chain inet lossy in"];
    let rules = String::from_utf8(run("ip", &list).unwrap().stdout).unwrap();
    let counted = rules.split_once("counter packets ").map(|(_, rest)| rest);
    counted.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap()
}

/// Both namespaces lose what arrives there. Each packet by itself: what the system sends as one
/// large packet and cuts later would be lost as one.
fn make_lossy(spaces: &Spaces) -> Result<(), String> {
    for space in &spaces.names {
        run("ip", &["-n", space, "link", "set", LINK, "gso_max_segs", "1"])?;
        let chain = "add chain inet lossy in { type filter hook input priority 0; }";
        let rule = format!("add rule inet lossy in {LOSS}");
        for rule in ["add table inet lossy", chain, &rule] {
            run("ip", &["netns", "exec", space, "nft", rule])?;
        }
    }
    Ok(())
}

/// The test itself, outside of the namespaces.
#[expect(clippy::print_stdout, reason = "what was seen, and why it was not")]
fn between_namespaces(test: &str) {
    let spaces = Spaces::make();
    let made = spaces.and_then(|spaces| make_lossy(&spaces).map(|()| spaces));
    let spaces = match made {
        Ok(spaces) => spaces,
        Err(why) => return println!("skipped: no network namespaces that lose here: {why}"),
    };
    let [a, b] = &spaces.names;
    let said = run_alone(command(Some(a)).env(OTHER, b), test);
    let seen = said.lines().find(|line| line.starts_with("known after"));
    println!("{}; packets lost: {} and {}", seen.unwrap(), lost(a), lost(b));
    let names = spaces.names.clone();
    for name in &names {
        let left = run("ip", &["netns", "pids", name]).unwrap().stdout;
        assert!(left.is_empty(), "processes are left: {}", String::from_utf8_lossy(&left));
    }
    drop(spaces);
    let left = |name: &String| Path::new("/run/netns").join(name).exists();
    assert!(!names.iter().any(left), "a namespace is left");
}

#[test]
fn rounds_of_loss_and_death_leave_nothing() {
    let Ok(there) = env::var(OTHER) else {
        return between_namespaces("lossy::rounds_of_loss_and_death_leave_nothing");
    };
    let count = env::var("EGRET_ROUNDS").map_or(ROUNDS, |count| count.parse().unwrap());
    let seed = seed();
    let before = Footprint::now();
    let mut rounds = Rounds::new(&there, seed);
    for round in 0..count {
        let event = match round < ROUNDS {
            true => EVENTS[usize::try_from(round).unwrap()],
            false => EVENTS[rounds.party.rng.below(EVENTS.len())],
        };
        println!("EGRET_SEED={seed}, round {round}: {event:?} at {:?}", rt::now());
        rounds.round(event);
    }
    if let Some(beside) = rounds.beside.take() {
        rounds.party.see_off(beside);
    }
    rounds.assert_nothing_left();
    println!("{}", rounds.said());
    drop(rounds);
    assert_eq!(Footprint::now(), before);
}
