//! Which fabric leads to a node, and why.

use std::fmt;
use std::net::SocketAddr;

use egret_net::vi::{Address, PublicKey, Vi};

use super::fault::{Fault, planted};
use super::place;
use crate::Links;
use crate::pool::{FabricOffer, Member, NodeId, Requirement, lacking};

/// The route to a node: the links to use, and the node's host there. The link itself is made at first
/// use. The [module](super) has an example.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Route {
    /// The fabric's name.
    pub fabric: String,
    /// This node's links over it.
    pub links: Links,
    /// The host of the other node.
    pub host: String,
    /// The key that the other node proves; `None` on a fabric without keys.
    pub key: Option<PublicKey>,
}

impl Route {
    /// Where the other listens with its nic, for a connection beside the links: a process that answers
    /// there has to be that node.
    #[must_use]
    pub fn address(&self, service: &str, tag: u64) -> Address {
        let to = Address::new(&self.host, service, tag);
        match self.key {
            Some(key) => to.key(key),
            None => to,
        }
    }

    /// Whether a connection that was accepted is with that node, which alone can prove its key. A
    /// nic accepts any process with the secret of the pool, member or not.
    #[must_use]
    pub fn is_with(&self, vi: &Vi) -> bool {
        vi.peer_key() == self.key
    }
}

/// Which fabric two nodes use, and why ([`id_of`](super::NodeHandle::id_of) has an example); made by [`NodeHandle::explain`](super::NodeHandle::explain).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The other node.
    pub node: NodeId,
    /// The fabric, if there is one.
    pub fabric: Option<String>,
    /// Why this fabric, or why none.
    pub why: String,
    /// The other fabrics, and why each is not used.
    pub others: Vec<(String, String)>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fabric = self.fabric.as_deref().unwrap_or("no fabric");
        write!(f, "rank {}: {fabric}, because {}", self.node.rank, self.why)?;
        self.others.iter().try_for_each(|(name, what)| write!(f, "; {name}: {what}"))
    }
}

/// What decides between the fabrics of two nodes, besides the nodes.
#[derive(Clone, Copy)]
pub(super) struct RouteChoice<'a> {
    pub(super) requirement: &'a Requirement,
    /// The fabrics that have failed to connect, and why, the last one last.
    pub(super) failed: &'a [(String, String)],
}

/// A fabric that one of two nodes has, and what speaks against it.
pub(super) struct Candidate<'a> {
    pub(super) name: &'a str,
    /// Why it does not lead from one to the other.
    pub(super) obstacle: Option<String>,
    /// What it does not give of what is required.
    pub(super) lacking: Option<String>,
    /// Why it has failed to connect.
    pub(super) failed: Option<&'a str>,
    same_machine: bool,
}

impl Candidate<'_> {
    /// Whether it may be used.
    pub(super) fn is_suitable(&self) -> bool {
        self.obstacle.is_none() && (self.lacking.is_none() || planted(Fault::RequirementIgnored))
    }

    /// What is to say of it, if it is not used.
    pub(super) fn told(&self) -> String {
        let failed = self.failed.map(|why| format!("failed to connect: {why}"));
        let known = self.obstacle.clone().or_else(|| self.lacking.clone()).or(failed);
        known.unwrap_or_else(|| "is possible".to_owned())
    }
}

/// The fabrics of two nodes, the best first: without a requirement both come to the same, as the
/// preference of the one with the lower rank counts.
pub(super) fn candidates<'a>(
    here: &'a Member,
    there: &'a Member,
    choice: RouteChoice<'a>,
) -> Vec<Candidate<'a>> {
    let (first, second) = if here.id.rank < there.id.rank { (here, there) } else { (there, here) };
    let only = second.fabrics.iter().filter(|offer| first.offer(&offer.fabric).is_none());
    let all = first.fabrics.iter().chain(only);
    all.map(|offer| candidate(offer, here, there, choice)).collect()
}

/// The fabrics to use, the best first: one that is preferred is first, and those that have failed to connect
/// are last, the one that failed longest ago before the others.
pub(super) fn suitable<'a, 'b>(
    all: &'b [Candidate<'a>],
    choice: RouteChoice<'_>,
) -> Vec<&'b Candidate<'a>> {
    let preferred = choice.requirement.preferred().filter(|_| !planted(Fault::PreferenceIgnored));
    let mut suitable: Vec<_> = all.iter().filter(|candidate| candidate.is_suitable()).collect();
    suitable.sort_by_key(|candidate| {
        let failed = choice.failed.iter().position(|(name, _)| name == candidate.name);
        (failed.map(|at| at + 1), preferred != Some(candidate.name))
    });
    suitable
}

fn candidate<'a>(
    offer: &'a FabricOffer,
    here: &Member,
    there: &Member,
    choice: RouteChoice<'a>,
) -> Candidate<'a> {
    let name = offer.fabric.as_str();
    let gives =
        |who: &Member, is: &str| lacking(choice.requirement, &who.offer(name)?.properties, is);
    let lacking = gives(here, "it").or_else(|| gives(there, &format!("rank {}", there.id.rank)));
    let failed = choice.failed.iter().find(|(failed, _)| failed == name);
    let failed = failed.map(|(_, why)| why.as_str());
    let obstacle = match (here.offer(name), there.offer(name)) {
        (None, _) => Some("this node does not use it".to_owned()),
        (_, None) => Some(format!("rank {} does not use it", there.id.rank)),
        _ if here.machine == there.machine => None,
        (Some(ours), Some(theirs)) => {
            let inner = ours.properties.same_machine || theirs.properties.same_machine;
            let hidden = [(here, ours), (there, theirs)].into_iter().find(|(_, offer)| {
                matches!(name, "tcp" | "udp")
                    && is_loopback(&offer.host)
                    && !place::may_share_loopback(&here.machine, &there.machine)
            });
            match hidden {
                _ if inner => Some("it does not lead to another machine".to_owned()),
                Some((who, FabricOffer { host, .. })) => Some(format!(
                    "rank {} listens at {host}, where other machines do not reach it (EGRET_LISTEN)",
                    who.id.rank
                )),
                None => None,
            }
        }
    };
    let same_machine = offer.properties.same_machine;
    Candidate { name, obstacle, lacking, failed, same_machine }
}

fn is_loopback(host: &str) -> bool {
    host.parse().is_ok_and(|at: SocketAddr| at.ip().to_canonical().is_loopback())
}

/// Why two nodes use what they do.
pub(super) fn explain(
    here: &Member,
    there: &Member,
    choice: RouteChoice<'_>,
    skipped: &[(String, String)],
) -> Explanation {
    let all = candidates(here, there, choice);
    let suitable = suitable(&all, choice);
    let chosen = suitable.first().copied();
    let is_here = here.machine == there.machine;
    let why = match chosen {
        Some(chosen) => why(chosen, &all, choice, is_here),
        None if all.iter().any(|candidate| candidate.obstacle.is_none()) => {
            format!("none gives what is required, {}", choice.requirement)
        }
        None => "none leads from one to the other".to_owned(),
    };
    let fabric = chosen.map(|chosen| chosen.name.to_owned());
    let others = others(&all, fabric.as_deref(), skipped);
    Explanation { node: there.id, fabric, why, others }
}

/// Why one of the suitable fabrics is used.
fn why(
    chosen: &Candidate<'_>,
    all: &[Candidate<'_>],
    choice: RouteChoice<'_>,
    is_here: bool,
) -> String {
    if let Some(why) = chosen.failed {
        return format!("no other gives what is required, though it failed to connect: {why}");
    }
    let by_preference = suitable(all, RouteChoice { failed: &[], ..choice });
    let before = by_preference.iter().take_while(|candidate| candidate.name != chosen.name);
    let failed = before.filter_map(|candidate| Some((candidate.name, candidate.failed?)));
    let failed: Vec<_> =
        failed.map(|(name, why)| format!("{name} failed to connect: {why}")).collect();
    if !failed.is_empty() {
        return failed.join(", and ");
    }
    if choice.requirement.preferred() == Some(chosen.name) {
        return "it is preferred".to_owned();
    }
    match is_here {
        _ if chosen.same_machine => "both are on one machine".to_owned(),
        true if choice.requirement.has_needed() => {
            "it is the first that gives what is required".to_owned()
        }
        true => "it is the first that both have".to_owned(),
        false => "it leads from one machine to another".to_owned(),
    }
}

/// The fabrics that are not used, and why.
pub(super) fn others(
    all: &[Candidate<'_>],
    used: Option<&str>,
    skipped: &[(String, String)],
) -> Vec<(String, String)> {
    let unused = all.iter().filter(|candidate| Some(candidate.name) != used);
    let mut others: Vec<_> =
        unused.map(|candidate| (candidate.name.to_owned(), candidate.told())).collect();
    for (name, why) in skipped {
        match others.iter_mut().find(|(known, _)| known == name) {
            Some((_, what)) => why.clone_into(what),
            None => others.push((name.clone(), why.clone())),
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::fault::caught;
    use crate::pool::{Location, Properties, Property};

    const ANY: Requirement = Requirement::ANY;

    fn explain(here: &Member, there: &Member, skipped: &[(String, String)]) -> Explanation {
        super::explain(here, there, RouteChoice { requirement: &ANY, failed: &[] }, skipped)
    }

    fn member(rank: u32, machine: &str, fabrics: &[&str]) -> Member {
        let is = |name: &str| Properties::network().same_machine(name == "shm");
        let fabrics = fabrics.iter().map(|name| FabricOffer::new(name, "host", is(name))).collect();
        Member::new(
            NodeId { rank, incarnation: 1 },
            machine.to_owned(),
            Location::default(),
            fabrics,
            None,
        )
    }

    const NAMES: [&str; 3] = ["shm", "tcp", "udp"];

    /// The fabrics in the order in which they are tried, and why the first is.
    fn order(
        here: &Member,
        there: &Member,
        requirement: &Requirement,
        failed: &[&str],
    ) -> (Vec<String>, String) {
        let failed: Vec<_> =
            failed.iter().map(|name| ((*name).to_owned(), "no answer".to_owned())).collect();
        let choice = RouteChoice { requirement, failed: &failed };
        let all = candidates(here, there, choice);
        let order = suitable(&all, choice).iter().map(|found| found.name.to_owned()).collect();
        (order, super::explain(here, there, choice, &[]).to_string())
    }

    #[test]
    fn a_preferred_fabric_is_first_if_it_leads_there() {
        let check = || {
            let (here, there) = (member(0, "a", &NAMES), member(1, "a", &NAMES));
            let udp = Requirement::default().prefer("udp");
            let (names, why) = order(&here, &there, &udp, &[]);
            assert_eq!(names, ["udp", "shm", "tcp"]);
            let others = "shm: is possible; tcp: is possible";
            assert_eq!(why, format!("rank 1: udp, because it is preferred; {others}"));
            let shm = Requirement::default().prefer("shm");
            let far = order(&here, &member(1, "b", &NAMES), &shm, &[]);
            assert_eq!(far.0, ["tcp", "udp"]);
            assert!(far.1.starts_with("rank 1: tcp, because it leads from one machine"), "{far:?}");
            let unknown = Requirement::default().prefer("smoke");
            assert_eq!(order(&here, &there, &unknown, &[]).0, NAMES);
        };
        check();
        assert!(caught(Fault::PreferenceIgnored, check));
    }

    #[test]
    fn what_both_give_is_taken_and_the_rest_says_what_it_lacks() {
        let offers = |private: [bool; 3]| {
            let is = |(name, private)| {
                let is = Properties::network().same_machine(name == "shm").private(private);
                FabricOffer::new(name, "host", is)
            };
            NAMES.into_iter().zip(private).map(is).collect()
        };
        let with = |rank, private| {
            let mut member = member(rank, "a", &NAMES);
            member.fabrics = offers(private);
            member
        };
        let check = || {
            let (here, there) = (with(0, [false, true, true]), with(1, [true, false, true]));
            let private = Requirement::from(Property::PRIVATE);
            let (names, why) = order(&here, &there, &private, &[]);
            assert_eq!(names, ["udp"]);
            let because = "rank 1: udp, because it is the first that gives what is required";
            let [shm, tcp] = [
                "shm: it has private=false, and private=true is required",
                "tcp: rank 1 has private=false, and private=true is required",
            ];
            assert_eq!(why, format!("{because}; {shm}; {tcp}"));
            // A preference is none for what does not give what is required.
            assert_eq!(order(&here, &there, &private.clone().prefer("shm"), &[]).0, ["udp"]);
            let near = private.require(Property::SAME_MACHINE);
            let (names, why) = order(&here, &there, &near, &[]);
            assert_eq!(names, [""; 0]);
            let none = "rank 1: no fabric, because none gives what is required, private=true, \
                        same_machine=true; shm: it has private=false";
            assert!(why.starts_with(none), "{why}");
        };
        check();
        assert!(caught(Fault::RequirementIgnored, check));
    }

    #[test]
    fn what_failed_to_connect_is_last_and_what_failed_last_behind_it() {
        let (here, there) = (member(0, "a", &NAMES), member(1, "a", &NAMES));
        let (names, why) = order(&here, &there, &ANY, &["shm"]);
        assert_eq!(names, ["tcp", "udp", "shm"]);
        let because = "rank 1: tcp, because shm failed to connect: no answer";
        assert_eq!(why, format!("{because}; shm: failed to connect: no answer; udp: is possible"));
        let (names, why) = order(&here, &there, &ANY, &["tcp", "shm"]);
        assert_eq!(names, ["udp", "tcp", "shm"]);
        let because = "shm failed to connect: no answer, and tcp failed to connect: no answer; ";
        assert!(why.starts_with(&format!("rank 1: udp, because {because}")), "{why}");
        // What comes behind the chosen one does not say why that is chosen.
        let (names, why) = order(&here, &there, &ANY, &["udp"]);
        assert_eq!(names, NAMES);
        assert!(why.starts_with("rank 1: shm, because both are on one machine; "), "{why}");
        let tcp = Requirement::default().prefer("tcp");
        assert_eq!(order(&here, &there, &tcp, &["tcp"]).0, ["shm", "udp", "tcp"]);
        let near = Requirement::from(Property::SAME_MACHINE);
        let (names, why) = order(&here, &there, &near, &["shm"]);
        assert_eq!(names, ["shm"]);
        assert!(why.contains("though it failed to connect: no answer; tcp: it has same"), "{why}");
    }

    #[test]
    fn another_machine_is_reached_over_a_network() {
        let (here, there) = (member(0, "a", &["shm", "tcp"]), member(1, "b", &["shm", "tcp"]));
        let told = explain(&here, &there, &[]).to_string();
        let why = "rank 1: tcp, because it leads from one machine to another";
        assert_eq!(told, format!("{why}; shm: it does not lead to another machine"));
        let near = member(1, "a", &["tcp", "shm"]);
        assert_eq!(explain(&here, &near, &[]).fabric.as_deref(), Some("shm"));
        assert_eq!(explain(&near, &here, &[]).fabric.as_deref(), Some("shm"), "as the other");
        let hidden = |machine| {
            let offer = FabricOffer::new("tcp", "127.0.0.1:7", Properties::network());
            let id = NodeId { rank: 1, incarnation: 1 };
            Member::new(id, machine, Location::default(), vec![offer], None)
        };
        let here_too = member(0, "boot/net/user/0", &["tcp"]);
        let other_user = explain(&here_too, &hidden("boot/net/user/1".to_owned()), &[]);
        assert_eq!(other_user.fabric.as_deref(), Some("tcp"), "they share loopback");
        for there in ["boot/other/user/0", "other/net/user/0"] {
            let told = explain(&here_too, &hidden(there.to_owned()), &[]).to_string();
            let why = "tcp: rank 1 listens at 127.0.0.1:7, where other machines do not reach it";
            assert!(told.starts_with("rank 1: no fabric") && told.contains(why), "{told}");
        }
        let alone = member(1, "b", &["shm"]);
        let told = explain(&here, &alone, &[]).to_string();
        assert!(told.starts_with("rank 1: no fabric, because "), "{told}");
    }
}
