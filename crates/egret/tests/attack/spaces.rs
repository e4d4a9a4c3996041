//! Four network namespaces: two of honest nodes, the attacker's between them, and an impostor's.

use std::process::{Command, Output};
use std::time::Duration;

use egret::rt;

/// Of the registry and rank 0; the impostor has the same.
pub(crate) const HERE: &str = "10.213.31.2";
/// Of rank 1.
pub(crate) const THERE: &str = "10.213.32.2";
/// Of the impostor alone.
pub(crate) const FALSE: &str = "10.213.33.2";
/// Of the attacker, as the impostor sees him: whoever is called there means [`HERE`].
pub(crate) const GATE: &str = "10.213.33.1";
/// Where the relay listens, for all that passes.
pub(crate) const RELAY_PORT: u16 = 7777;
/// Where it receives datagrams of the first, of the second, and of the impostor.
pub(crate) const UDP_PORTS: [u16; 3] = [7779, 7780, 7781];
/// The name of the cable's end in each but the attacker's.
const LINK: &str = "egret";

/// The namespaces, which go when this goes: here, there, the attacker's, the impostor's.
pub(crate) struct Spaces(pub(crate) [String; 4]);

impl Spaces {
    pub(crate) fn make() -> Result<Self, String> {
        let number = format!("{}-{:x}", std::process::id(), rt::random() & 0xffff);
        let spaces = Self(["a", "b", "m", "i"].map(|side| format!("egret-attack-{number}-{side}")));
        let [here, there, middle, aside] = &spaces.0;
        for space in &spaces.0 {
            run("ip", &["netns", "add", space])?;
            run("ip", &["-n", space, "link", "set", "lo", "up"])?;
        }
        for (space, own) in [(here, HERE), (there, THERE), (aside, FALSE)] {
            let last = own.rsplit_once('.').unwrap().0;
            let (to, gate) = (&last.replace('.', "-"), &format!("{last}.1"));
            let cable = ["link", "add", to, "type", "veth", "peer", "name", LINK, "netns", space];
            run("ip", &[&["-n", middle][..], &cable].concat())?;
            for (space, link, address) in [(space, LINK, own), (middle, to, gate)] {
                let address = &format!("{address}/24");
                run("ip", &["-n", space, "address", "add", address, "dev", link])?;
                run("ip", &["-n", space, "link", "set", link, "up"])?;
            }
            run("ip", &["-n", space, "route", "add", "default", "via", gate])?;
        }
        // Nothing is passed on by the kernel: what is for another comes to the relay.
        let all = format!("meta l4proto tcp redirect to :{RELAY_PORT}");
        diverts(middle, &all)?;
        for (from, port) in [HERE, THERE, FALSE].into_iter().zip(UDP_PORTS) {
            let from = side(from);
            let all = format!("iifname \"{from}\" meta l4proto udp redirect to :{port}");
            diverts(middle, &all)?;
        }
        // And what the relay diverts to the impostor comes to the address that it claims.
        run("ip", &["-n", aside, "address", "add", &format!("{HERE}/32"), "dev", "lo"])?;
        for fabric in ["tcp", "udp"] {
            let others = format!("ip daddr {FALSE} {fabric} dport != {OWN_PORT} dnat to {HERE}");
            diverts(aside, &others)?;
        }
        // Of what it says to that address itself nothing stays with it.
        let out = "add chain ip attack out { type nat hook output priority -100; }";
        let from = "add chain ip attack from { type nat hook postrouting priority 100; }";
        let leads = format!("add rule ip attack out ip daddr {HERE} tcp dport != 0 dnat to {GATE}");
        let leaves = format!("add rule ip attack from oifname {LINK} masquerade");
        for rule in [out, from, &leads, &leaves] {
            run("ip", &["netns", "exec", aside, "nft", rule])?;
        }
        spaces.0[..2].iter().for_each(|space| wait_up(space));
        Ok(spaces)
    }
}

/// The attacker's end of the cable to an address.
pub(crate) fn side(of: &str) -> String {
    of.rsplit_once('.').unwrap().0.replace('.', "-")
}

/// Where the impostor listens as itself.
pub(crate) const OWN_PORT: u16 = 7778;

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            _ = run("ip", &["netns", "delete", name]);
        }
    }
}

/// Does this to all connections that come to a namespace.
fn diverts(space: &str, what: &str) -> Result<(), String> {
    let chain = "add chain ip attack in { type nat hook prerouting priority -100; }";
    let rule = format!("add rule ip attack in {what}");
    for rule in ["add table ip attack", chain, &rule] {
        run("ip", &["netns", "exec", space, "nft", rule])?;
    }
    Ok(())
}

/// Waits until the system takes the cable for one that is there.
fn wait_up(space: &str) {
    let is_up = || {
        let shown = run("ip", &["-n", space, "link", "show", LINK]).unwrap().stdout;
        String::from_utf8_lossy(&shown).contains("state UP")
    };
    let until = rt::now() + Duration::from_secs(30);
    while !is_up() {
        assert!(rt::now() < until, "the cable in {space} is not up");
        rt::sleep(Duration::from_millis(5));
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
