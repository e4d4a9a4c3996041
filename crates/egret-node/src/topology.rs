//! Where nodes are, and trees that follow it.
//!
//! ```
//! use egret_node::topology;
//!
//! let pool = egret_node::local::pool(4)?;
//! let here = &pool[0];
//! println!("{:?}", here.distance(here.id(), pool[1].id())); // Some(Host)
//!
//! // Who sends to whom, when node 0 has something for all.
//! let tree = topology::tree(here.id(), &here.members());
//! assert_eq!(tree.parent(here.id()), None);
//! for node in tree.nodes() {
//!     println!("{node} sends to {:?}", tree.children(*node));
//! }
//! # Ok::<(), egret_node::node::JoinError>(())
//! ```

use std::collections::BTreeMap;

pub use crate::pool::{Distance, Location};
use crate::pool::{Member, NodeId};

/// A tree over members, whose edges follow where they are; made by [`tree`]. The [module](self) has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTree {
    /// The parent of each node; of the root none.
    parents: BTreeMap<NodeId, Option<NodeId>>,
    children: BTreeMap<NodeId, Vec<NodeId>>,
    /// The root first, each parent before its children.
    order: Vec<NodeId>,
}

impl NodeTree {
    /// The node that this one receives from; `None` for the root, and for a node that is not in the tree.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.parents.get(&node).copied().flatten()
    }

    /// The nodes that this one sends to, the farthest first.
    #[must_use]
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        self.children.get(&node).map_or(&[], Vec::as_slice)
    }

    /// All nodes of the tree: the root first, and each parent before its children.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.order
    }
}

/// A tree from `root` to all members. What travels along it crosses the way between the root's site and each other
/// site once, and so enters each rack and each host once. Sites are served by the root directly, for messages
/// between sites take longest; racks of a site, hosts of a rack and nodes of a host receive along binomial trees,
/// in as many steps as their number has binary digits.
///
/// The same members in the same order give the same tree at each node; [`NodeTree`] says who sends to whom. If the root
/// is not among the members it is the parent of the first of each site. The [module](self) has an example.
#[must_use]
pub fn tree(root: NodeId, members: &[Member]) -> NodeTree {
    let at = members.iter().find(|member| member.id == root).map(|member| member.location.clone());
    let root = LocatedNode { id: root, location: at.unwrap_or_default() };
    let others = members.iter().filter(|member| member.id != root.id);
    let others =
        others.map(|it| LocatedNode { id: it.id, location: it.location.clone() }).collect();
    let mut tree =
        NodeTree { parents: BTreeMap::new(), children: BTreeMap::new(), order: Vec::new() };
    tree.parents.insert(root.id, None);
    tree.grow(&root, others, &LEVELS);
    tree.number(root.id);
    tree
}

/// A member, and where it is.
struct LocatedNode {
    id: NodeId,
    location: Location,
}

/// A level of locations, and whether the parts of a level are served by one node directly.
type Level = (fn(&Location) -> &str, bool);

/// From the outside to the inside.
const LEVELS: [Level; 3] = [(|at| &at.site, true), (|at| &at.rack, false), (|at| &at.host, false)];

impl NodeTree {
    /// Has `from` send to the others: to a leader of each part of this level, and within each part likewise.
    fn grow(&mut self, from: &LocatedNode, others: Vec<LocatedNode>, levels: &[Level]) {
        let Some(((part, is_flat), inner)) = levels.split_first() else {
            let all: Vec<_> = others.iter().map(|node| node.id).collect();
            return self.send(from.id, &all, false);
        };
        let mut own = Vec::new();
        // In the order in which the parts first come.
        let mut parts: Vec<Vec<LocatedNode>> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for node in others {
            let name = part(&node.location);
            if name == part(&from.location) {
                own.push(node);
                continue;
            }
            let at = *known.entry(name.to_owned()).or_insert(parts.len());
            if at == parts.len() {
                parts.push(Vec::new());
            }
            parts[at].push(node);
        }
        let mut leaders = Vec::new();
        for nodes in parts {
            let mut nodes = nodes.into_iter();
            let Some(leader) = nodes.next() else { continue };
            leaders.push((leader, nodes.collect::<Vec<_>>()));
        }
        let all: Vec<_> = leaders.iter().map(|(leader, _)| leader.id).collect();
        // Behind the leaders, for they are farther away.
        self.send(from.id, &all, *is_flat);
        self.grow(from, own, inner);
        leaders.into_iter().for_each(|(leader, nodes)| self.grow(&leader, nodes, inner));
    }

    /// Has `from` send to all of these, each directly or along a binomial tree.
    fn send(&mut self, from: NodeId, to: &[NodeId], is_flat: bool) {
        if is_flat {
            to.iter().for_each(|node| self.add(from, *node));
            return;
        }
        // The first half is the sender's; the other half is that of its first node.
        let mut left = to;
        while !left.is_empty() {
            let (near, far) = left.split_at(left.len() / 2);
            self.add(from, far[0]);
            self.send(far[0], &far[1..], false);
            left = near;
        }
    }

    fn add(&mut self, from: NodeId, to: NodeId) {
        self.parents.insert(to, Some(from));
        self.children.entry(from).or_default().push(to);
    }

    /// Lists the nodes, each parent before its children.
    fn number(&mut self, root: NodeId) {
        self.order.push(root);
        let mut at = 0;
        while let Some(node) = self.order.get(at).copied() {
            self.order.extend_from_slice(self.children.get(&node).map_or(&[], Vec::as_slice));
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use egret_net::rt::SplitMix64;

    use super::*;

    fn member(rank: u32, location: &str) -> Member {
        let id = NodeId { rank, incarnation: u64::from(rank) + 1 };
        Member::new(id, "m".into(), location.parse().unwrap(), Vec::new(), None)
    }

    fn depth(tree: &NodeTree, node: NodeId) -> usize {
        tree.parent(node).map_or(0, |parent| 1 + depth(tree, parent))
    }

    /// Crossings into a part of the world: edges whose ends are in different parts.
    fn crossings(tree: &NodeTree, members: &[Member], far: Distance) -> usize {
        let at = |node| members.iter().find(|member| member.id == node).unwrap();
        let edges = members.iter().filter_map(|member| Some((member.id, tree.parent(member.id)?)));
        edges.filter(|(a, b)| at(*a).location.distance(&at(*b).location) >= far).count()
    }

    #[test]
    fn each_site_rack_and_host_is_entered_once() {
        for seed in 0..200 {
            let mut rng = SplitMix64(seed);
            let mut below = |n: usize| rng.below(n);
            let members: Vec<_> = (0..1 + u32::try_from(below(60)).unwrap())
                .map(|rank| {
                    let (host, rack, site) = (below(3), below(3), below(4));
                    member(rank, &format!("@h{host}@r{rack}@s{site}"))
                })
                .collect();
            let root = members[below(members.len())].id;
            let tree = tree(root, &members);
            let all: BTreeSet<_> = members.iter().map(|member| member.id).collect();
            assert_eq!(tree.nodes().iter().copied().collect::<BTreeSet<_>>(), all, "seed {seed}");
            assert_eq!(tree.nodes().len(), all.len(), "seed {seed}: each once");
            let parts = |of: &dyn Fn(&Location) -> Vec<String>| {
                members.iter().map(|it| of(&it.location)).collect::<BTreeSet<_>>().len() - 1
            };
            let sites = parts(&|at| vec![at.site.clone()]);
            let racks = parts(&|at| vec![at.site.clone(), at.rack.clone()]);
            let hosts = parts(&|at| vec![at.site.clone(), at.rack.clone(), at.host.clone()]);
            assert_eq!(crossings(&tree, &members, Distance::World), sites, "seed {seed}");
            assert_eq!(crossings(&tree, &members, Distance::Site), racks, "seed {seed}");
            assert_eq!(crossings(&tree, &members, Distance::Rack), hosts, "seed {seed}");
            for node in tree.nodes() {
                let mut children = tree.children(*node).iter();
                assert!(children.all(|child| tree.parent(*child) == Some(*node)), "seed {seed}");
            }
        }
    }

    #[test]
    fn nodes_of_one_host_receive_in_as_many_steps_as_digits() {
        for n in 1..=65u32 {
            let members: Vec<_> = (0..n).map(|rank| member(rank, "@h@r@s")).collect();
            let tree = tree(members[0].id, &members);
            let digits = (u32::BITS - n.leading_zeros()) as usize;
            let deepest = tree.nodes().iter().map(|node| depth(&tree, *node)).max().unwrap();
            assert!(deepest <= digits, "{n} nodes, {deepest} deep");
            assert!(tree.children(members[0].id).len() <= digits, "{n} nodes");
        }
    }

    #[test]
    fn other_sites_are_served_by_the_root_and_before_its_own() {
        let members: Vec<_> =
            (0..9).map(|rank| member(rank, &format!("@h{rank}@@s{}", rank / 3))).collect();
        let tree = tree(members[0].id, &members);
        let first: Vec<_> = tree.children(members[0].id).iter().map(|node| node.rank).collect();
        assert_eq!(first[..2], [3, 6]);
        assert!(first[2..].iter().all(|rank| *rank < 3));
    }
}
