//! Which fabric leads to a node, and why.

use std::fmt;
use std::net::SocketAddr;

use egret_net::vi::{Address, PublicKey, Vi};

use super::place;
use crate::Links;
use crate::pool::{FabricOffer, Member, NodeId};

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

/// A fabric that one of two nodes has, and what speaks against it.
pub(super) struct Candidate<'a> {
    pub(super) name: &'a str,
    pub(super) obstacle: Option<String>,
    same_machine: bool,
}

/// The fabrics of two nodes, the best first: both come to the same, as the preference of
/// the one with the lower rank counts.
pub(super) fn candidates<'a>(here: &'a Member, there: &'a Member) -> Vec<Candidate<'a>> {
    let (first, second) = if here.id.rank < there.id.rank { (here, there) } else { (there, here) };
    let only = second.fabrics.iter().filter(|offer| first.offer(&offer.fabric).is_none());
    let all = first.fabrics.iter().chain(only);
    all.map(|offer| candidate(offer, here, there)).collect()
}

fn candidate<'a>(offer: &'a FabricOffer, here: &Member, there: &Member) -> Candidate<'a> {
    let name = offer.fabric.as_str();
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
    Candidate { name, obstacle, same_machine: offer.properties.same_machine }
}

fn is_loopback(host: &str) -> bool {
    host.parse().is_ok_and(|at: SocketAddr| at.ip().to_canonical().is_loopback())
}

/// Why two nodes use what they do.
pub(super) fn explain(here: &Member, there: &Member, skipped: &[(String, String)]) -> Explanation {
    let all = candidates(here, there);
    let chosen = all.iter().find(|candidate| candidate.obstacle.is_none());
    let fabric = chosen.map(|chosen| chosen.name.to_owned());
    let why = match chosen {
        Some(chosen) if chosen.same_machine => "both are on one machine".to_owned(),
        Some(_) if here.machine == there.machine => "it is the first that both have".to_owned(),
        Some(_) => "it leads from one machine to another".to_owned(),
        None => "none leads from one to the other".to_owned(),
    };
    let unused = |candidate: &&Candidate<'_>| Some(candidate.name) != fabric.as_deref();
    let said = |candidate: &Candidate<'_>| {
        let what = candidate.obstacle.clone().unwrap_or_else(|| "is possible".to_owned());
        (candidate.name.to_owned(), what)
    };
    let mut others: Vec<_> = all.iter().filter(unused).map(said).collect();
    for (name, why) in skipped {
        match others.iter_mut().find(|(known, _)| known == name) {
            Some((_, what)) => why.clone_into(what),
            None => others.push((name.clone(), why.clone())),
        }
    }
    Explanation { node: there.id, fabric, why, others }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Location, Properties};

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
