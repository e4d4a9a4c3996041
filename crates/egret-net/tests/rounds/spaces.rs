//! Rounds over `tcp` between two network namespaces: kill, cut, loss, reset.

use std::env;
use std::process::{Command, Output};
use std::time::Duration;

use egret_net::rt;

use super::flow::Footprint;
use super::network::settled;
use super::party::Party;
use super::peer::Peer;
use super::{command, part, run_alone, seed};

/// A cut shows only by silence, and a packet that is lost again and again by long
/// silence.
const KNOWN: Duration = Duration::from_secs(60);
/// Tells the process in the first of them what it has: both names, and whether
/// packets can be filtered.
const SPACES: &str = "EGRET_TEST_ROUNDS_SPACES";
pub(crate) const HERE: &str = "10.213.7.1";
pub(crate) const THERE: &str = "10.213.7.2";

/// Two namespaces with a cable between them, which go when this goes.
pub(crate) struct Spaces {
    pub(crate) names: [String; 2],
}

impl Spaces {
    pub(crate) fn make() -> Result<Self, String> {
        let number = format!("{}-{:x}", std::process::id(), rt::random() & 0xffff);
        let spaces = Self { names: [format!("egret-{number}-a"), format!("egret-{number}-b")] };
        let [a, b] = &spaces.names;
        run("ip", &["netns", "add", a])?;
        run("ip", &["netns", "add", b])?;
        let cable = ["link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", b];
        run("ip", &[&["-n", a][..], &cable].concat())?;
        for (space, address) in [(a, HERE), (b, THERE)] {
            run("ip", &["-n", space, "address", "add", &format!("{address}/24"), "dev", LINK])?;
            run("ip", &["-n", space, "link", "set", "lo", "up"])?;
            run("ip", &["-n", space, "link", "set", LINK, "up"])?;
        }
        Ok(spaces)
    }

    /// Whether packets can be filtered in them.
    fn try_filter(&self) -> Result<(), String> {
        let table = ["netns", "exec", &self.names[1], "nft", "add", "table", "inet", "try"];
        run("ip", &table).map(drop)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.names {
            _ = run("ip", &["netns", "delete", name]);
        }
    }
}

pub(crate) fn run(program: &str, args: &[&str]) -> Result<Output, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|why| format!("{program}: {why}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// This side, and the process in the other namespace.
struct Rounds {
    party: Party,
    peer: Option<Peer>,
    there: String,
    base: Footprint,
    /// Packets that were lost on purpose.
    lost: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Kill,
    Leave,
    Loss,
    Reset,
    Cut,
}

impl Rounds {
    fn new(there: &str, seed: u64) -> Self {
        let party = Party::new("tcp", HERE, KNOWN, seed);
        let base = Footprint::now();
        Self { party, peer: None, there: there.to_owned(), base, lost: 0 }
    }

    fn round(&mut self, event: Event) {
        let Self { party, there, .. } = self;
        let start = |seed| Peer::start(&part("tcp", THERE, KNOWN, seed), Some(there));
        let seed = party.rng.next();
        let mut peer = self.peer.take().unwrap_or_else(|| start(seed));
        for _ in 0..1 + party.rng.below(3) {
            party.connect(&mut peer);
        }
        let messages = party.rng.below(60);
        party.flow_on(messages);
        self.peer = self.event(event, peer);
        assert_eq!(self.party.flows.len(), 0);
        self.party.side.assert_all_back();
        let base = self.base.with_descriptors(usize::from(self.peer.is_some()));
        settled(&self.party, &base);
    }

    fn event(&mut self, event: Event, mut peer: Peer) -> Option<Peer> {
        match event {
            Event::Kill => {
                peer.kill();
                self.party.lose_flows();
                return None;
            }
            Event::Leave => {
                self.party.see_off(peer);
                return None;
            }
            Event::Loss => {
                self.filter("numgen random mod 100 < 2 counter drop");
                self.party.flow_on(500);
                self.party.close_flows();
                self.lost += self.unfilter();
            }
            Event::Reset => {
                self.filter("meta l4proto tcp reject with tcp reset");
                self.party.lose_flows();
                self.unfilter();
            }
            Event::Cut => {
                // On these nothing is outstanding: nobody posts a receive.
                for _ in 0..2 {
                    self.party.connect(&mut peer);
                }
                rt::sleep(Duration::from_millis(100));
                self.link("down");
                self.party.lose_flows();
                self.link("up");
                // The other end has found it out too, and given everything back.
                self.party.see_off(peer);
                return None;
            }
        }
        Some(peer)
    }

    fn link(&self, state: &str) {
        run("ip", &["-n", &self.there, "link", "set", LINK, state]).unwrap();
    }

    /// Does this to every packet that reaches the other namespace.
    fn filter(&self, what: &str) {
        let chain = "chain inet try in { type filter hook input priority 0; }";
        for rule in [format!("add {chain}"), format!("add rule inet try in {what}")] {
            run("ip", &["netns", "exec", &self.there, "nft", &rule]).unwrap();
        }
    }

    /// How many packets it was done to, if they were counted.
    fn unfilter(&self) -> u64 {
        let nft = |rule| run("ip", &["netns", "exec", &self.there, "nft", rule]).unwrap();
        let rules = String::from_utf8(nft("list chain inet try in").stdout).unwrap();
        nft("flush chain inet try in");
        nft("delete chain inet try in");
        let counted = rules.split_once("counter packets ").map(|(_, rest)| rest);
        counted.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
    }
}

/// What happens in each round.
fn events(can_filter: bool) -> impl Iterator<Item = Event> {
    let count = rt::trials(100).max(40);
    (0..count).map(move |round| match round % 10 {
        _ if round == count / 2 => Event::Cut,
        0 if can_filter => Event::Loss,
        5 if can_filter => Event::Reset,
        number if number % 4 == 0 => Event::Leave,
        _ => Event::Kill,
    })
}

#[test]
fn rounds_between_namespaces_leave_nothing() {
    const TEST: &str = "spaces::rounds_between_namespaces_leave_nothing";
    let Ok(spaces) = env::var(SPACES) else {
        let spaces = match Spaces::make() {
            Ok(spaces) => spaces,
            Err(why) => return println!("skipped: no network namespaces here: {why}"),
        };
        let [a, b] = &spaces.names;
        let filter = spaces.try_filter();
        if let Err(why) = &filter {
            println!("skipped: loss and reset, for want of nft: {why}");
        }
        let filter = if filter.is_ok() { "nft" } else { "" };
        run_alone(command(Some(a)).env(SPACES, format!("{b}|{filter}")), TEST);
        return;
    };
    let (there, filter) = spaces.split_once('|').unwrap();
    let seed = seed();
    let before = Footprint::now();
    let mut rounds = Rounds::new(there, seed);
    for (round, event) in events(!filter.is_empty()).enumerate() {
        println!("EGRET_SEED={seed}, round {round}: {event:?} at {:?}", rt::now());
        rounds.round(event);
    }
    assert!(filter.is_empty() || rounds.lost > 0, "no packet was lost");
    drop(rounds);
    assert_eq!(Footprint::now(), before);
}

/// The name of the cable's end, in both.
pub(crate) const LINK: &str = "egret";
