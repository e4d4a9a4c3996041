//! The routes of a node to the others: chosen by what is required, and by what has connected.
//!
//! A fabric that fails to connect is remembered, for as long as the other node lives, while there is another that
//! leads there: routes and links take the others before it. When all have failed, the failures say something of the node and
//! nothing of the fabrics, and are forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;

use super::fault::{Fault, planted};
use super::route::{self, Candidate, RouteChoice, candidates, others, suitable};
use super::{Explanation, NodeHandle, Route};
use crate::link::LinkError;
use crate::pool::{Member, NodeError, NodeId, Requirement, lacking};

/// The routes that were found, and the fabrics that have failed, by node.
#[derive(Default)]
pub(super) struct RouteTable(Mutex<BTreeMap<NodeId, PeerRoutes>>);

/// What is kept of the ways to a node.
#[derive(Default)]
struct PeerRoutes {
    /// The route without a requirement.
    plain: Option<Route>,
    /// Those with one, the newest last.
    required: VecDeque<(Requirement, Route)>,
    /// The fabrics that have failed to connect, and why, the last one last.
    failed: Vec<(String, String)>,
}

impl RouteTable {
    /// The route that was found before.
    fn find(&self, node: NodeId, requirement: &Requirement) -> Option<Route> {
        let table = self.0.lock();
        let routes = table.get(&node)?;
        if requirement.is_any() {
            return routes.plain.clone();
        }
        let mut all = routes.required.iter();
        all.find(|(known, _)| known == requirement).map(|(_, route)| route.clone())
    }

    /// Keeps a route that was found when these fabrics had failed.
    fn keep(
        &self,
        node: NodeId,
        requirement: &Requirement,
        route: &Route,
        failed: &[(String, String)],
    ) {
        let mut table = self.0.lock();
        let routes = table.entry(node).or_default();
        if routes.failed != failed {
            return;
        }
        if requirement.is_any() {
            routes.plain = Some(route.clone());
            return;
        }
        if routes.required.len() == REQUIRED_MAX {
            routes.required.pop_front();
        }
        routes.required.push_back((requirement.clone(), route.clone()));
    }

    /// The fabrics that have failed to connect with a node.
    fn failed(&self, node: NodeId) -> Vec<(String, String)> {
        self.0.lock().get(&node).map(|routes| routes.failed.clone()).unwrap_or_default()
    }

    /// Changes which fabrics have failed to connect with a node; the routes are found anew then.
    fn change_failed(&self, node: NodeId, change: impl FnOnce(&mut Vec<(String, String)>)) {
        let mut table = self.0.lock();
        let routes = table.entry(node).or_default();
        change(&mut routes.failed);
        routes.plain = None;
        routes.required.clear();
    }

    fn forget(&self, node: NodeId) {
        self.0.lock().remove(&node);
    }

    /// Forgets the nodes that are no members, if there are more than so many.
    fn sweep(&self, most: usize, is_member: impl Fn(NodeId) -> bool) {
        let mut table = self.0.lock();
        if table.len() > most {
            table.retain(|node, _| is_member(*node));
        }
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

impl NodeHandle {
    /// The route to a node, by the best fabric that both have and that has not failed to connect.
    ///
    /// # Errors
    ///
    /// [`NodeError::Gone`] or [`NodeError::Unknown`] if the node is no member, [`NodeError::Fenced`] or
    /// [`NodeError::NotMember`] if this node is none, [`NodeError::NoFabric`] if they have no fabric in
    /// common, [`NodeError::Oneself`].
    pub fn route(&self, node: NodeId) -> Result<Route, NodeError> {
        self.route_with(node, &Requirement::ANY)
    }

    /// The route to a node by the best fabric that gives what is required. Nothing is connected, and nobody is
    /// asked. [`Requirement`] has an example.
    ///
    /// # Errors
    ///
    /// As [`route`](Self::route), and [`NodeError::Unsuitable`], with each fabric and what does not match, if none
    /// gives what is required.
    pub fn route_with(&self, node: NodeId, requirement: &Requirement) -> Result<Route, NodeError> {
        self.may_lead(node)?;
        if let Some(known) = self.routes().find(node, requirement) {
            return Ok(known);
        }
        let failed = self.routes().failed(node);
        let route = self.find_routes(node, requirement, &failed)?.swap_remove(0);
        // Those to nodes that are gone are not used again.
        self.routes().sweep(2 * self.size() as usize + 16, |node| self.member(node).is_some());
        self.routes().keep(node, requirement, &route, &failed);
        Ok(route)
    }

    /// Waits until there is a link with a node over a fabric that gives what is required, and says over which. There
    /// is at most one link for each node and fabric: who uses that [`Route`] uses this link.
    ///
    /// A fabric that does not connect within five seconds, or within its share of the deadline if that is less, is
    /// left for the next one that gives what is required. If that one connects, the first is not tried again while the
    /// other node lives, unless no other fabric gives what is required: [`explain`](Self::explain) says so, and
    /// [`route`](Self::route) takes the other one as well. A failure is not remembered if all fabrics have failed, or
    /// if the fabric had less than a second.
    ///
    /// ```
    /// use egret_node::node::{Property, Requirement};
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let (here, there) = (&pool[0], pool[1].id());
    /// let private = Requirement::from(Property::PRIVATE);
    /// let route = here.link(there, &private, here.deadline())?;
    /// assert_eq!(route.fabric, here.route_with(there, &private)?.fabric);
    /// println!("{}", here.explain_with(there, &private).unwrap());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`route_with`](Self::route_with), at once; the same when the other node, or this one, ends meanwhile; and
    /// [`NodeError::NotLinked`], with each fabric that was tried and why it has not connected.
    #[track_caller]
    pub fn link(
        &self,
        node: NodeId,
        requirement: &Requirement,
        deadline: impl Into<Deadline>,
    ) -> Result<Route, NodeError> {
        let _waits = self.waits("link", Some(node));
        let until = deadline.into().until();
        self.may_lead(node)?;
        let routes = self.find_routes(node, requirement, &self.routes().failed(node))?;
        let (mut tried, mut failed, count) = (Vec::new(), Vec::new(), routes.len());
        let is_wanted = || {
            if !rt::has_background() {
                self.poll();
            }
            self.may_lead(node).is_ok()
        };
        for (at, route) in routes.into_iter().enumerate() {
            let share = share(until, count - at);
            let started = rt::now();
            let linked = route.links.core.link_while(&route.host, share, Some(&is_wanted));
            let Err(why) = linked else {
                self.connected(node, &route.fabric, &failed);
                return Ok(route);
            };
            self.may_lead(node)?;
            let may_wait = why != LinkError::InHandler;
            let is_fair = !has_run_out(share, started) || rt::now() - started >= FAIR;
            // Whom the registry lists, this node hears once for all fabrics.
            if is_fair && !matches!(why, LinkError::NotMember { .. }) {
                failed.push((route.fabric.clone(), why.to_string()));
            }
            tried.push((route.fabric, why));
            if !may_wait {
                return Err(NodeError::NotLinked { node, tried });
            }
        }
        // What the registry says of the end of a node explains more than what its links do.
        self.wait_parted(node, shorter(Deadline::left(until), PATIENCE));
        self.may_lead(node)?;
        Err(NodeError::NotLinked { node, tried })
    }

    /// Whether this node has a fabric that gives what is required, whatever others have: what is asked before
    /// something is set up that needs one.
    ///
    /// ```
    /// use egret_node::node::{NodeError, Property, Requirement};
    ///
    /// let pool = egret_node::local::pool(1)?;
    /// pool[0].can(&Requirement::from(Property::PRIVATE))?;
    /// let why = pool[0].can(&Requirement::from(Property::new("colour", "red"))).unwrap_err();
    /// assert!(matches!(why, NodeError::Unsuitable { node, .. } if node == pool[0].id()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NodeError::Unsuitable`], with each fabric of the node and what does not match.
    pub fn can(&self, requirement: &Requirement) -> Result<(), NodeError> {
        let mut fabrics = Vec::new();
        for fabric in self.fabrics() {
            match lacking(requirement, &fabric.properties, "it") {
                Some(lacking) => fabrics.push((fabric.name, lacking)),
                None => return Ok(()),
            }
        }
        fabrics.extend(self.opened().skipped.iter().cloned());
        Err(NodeError::Unsuitable { node: self.id(), required: requirement.to_string(), fabrics })
    }

    /// Which fabric leads to a member, and why; [`id_of`](Self::id_of) has the node of a rank.
    #[must_use]
    pub fn explain(&self, node: NodeId) -> Option<Explanation> {
        self.explain_with(node, &Requirement::ANY)
    }

    /// The same for what is required; [`link`](Self::link) has an example.
    #[must_use]
    pub fn explain_with(&self, node: NodeId, requirement: &Requirement) -> Option<Explanation> {
        let (here, there) = (self.member(self.id())?, self.member(node)?);
        if here.id == there.id {
            let why = "it is this node".to_owned();
            return Some(Explanation { node: here.id, fabric: None, why, others: Vec::new() });
        }
        let choice = RouteChoice { requirement, failed: &self.routes().failed(node) };
        Some(route::explain(&here, &there, choice, &self.opened().skipped))
    }

    /// A fabric has failed to connect with a node, although it had the time. Whether there is another that gives what is
    /// required and has not failed: the next route is that one.
    #[doc(hidden)]
    pub fn not_connected(
        &self,
        node: NodeId,
        requirement: &Requirement,
        fabric: &str,
        why: &str,
    ) -> bool {
        let members = (self.member(self.id()), self.member(node));
        let (Some(here), Some(there)) = members else { return false };
        let all = candidates(&here, &there, RouteChoice { requirement, failed: &[] });
        let mut is_next = false;
        self.routes().change_failed(node, |failed| {
            add_failed(failed, fabric, why);
            let has_failed = |name| failed.iter().any(|(known, _)| known == name);
            let mut left = all.iter().filter(|candidate| !has_failed(candidate.name));
            is_next = left.clone().any(Candidate::is_suitable);
            if left.all(|candidate| candidate.obstacle.is_some()) {
                failed.clear();
            }
        });
        is_next
    }

    /// A fabric has connected with a node, when these had failed just before.
    #[doc(hidden)]
    pub fn connected(&self, node: NodeId, fabric: &str, failed: &[(String, String)]) {
        let known = self.routes().failed(node);
        if failed.is_empty() && !known.iter().any(|(name, _)| name == fabric) {
            return;
        }
        self.routes().change_failed(node, |known| {
            failed.iter().for_each(|(name, why)| add_failed(known, name, why));
            known.retain(|(name, _)| name != fabric);
        });
        // The node may have gone meanwhile.
        if self.member(node).is_none() {
            self.routes().forget(node);
        }
    }

    /// Whether there may be a way to a node: it and this one are members.
    fn may_lead(&self, node: NodeId) -> Result<(), NodeError> {
        if node == self.id() {
            return Err(NodeError::Oneself);
        }
        if let Some(why) = self.fenced() {
            return Err(NodeError::Fenced { why });
        }
        if let Some(fate) = self.own_fate() {
            return Err(NodeError::NotMember { node: self.id(), fate });
        }
        if let Some(fate) = self.fate(node) {
            self.routes().forget(node);
            return Err(NodeError::Gone { node, fate });
        }
        Ok(())
    }

    /// The routes over all fabrics that give what is required, the best first.
    fn find_routes(
        &self,
        node: NodeId,
        requirement: &Requirement,
        failed: &[(String, String)],
    ) -> Result<Vec<Route>, NodeError> {
        let unknown = NodeError::Unknown { node };
        let there = self.member(node).ok_or(unknown)?;
        let here = self.member(self.id()).ok_or(NodeError::Unknown { node })?;
        let choice = RouteChoice { requirement, failed };
        let all = candidates(&here, &there, choice);
        let suitable = suitable(&all, choice);
        let routes = suitable.iter().filter_map(|found| self.route_over(found.name, &there));
        let routes: Vec<_> = routes.collect();
        if !routes.is_empty() {
            return Ok(routes);
        }
        let skipped = &self.opened().skipped;
        if all.iter().any(|candidate| candidate.obstacle.is_none()) {
            let (required, fabrics) = (requirement.to_string(), others(&all, None, skipped));
            return Err(NodeError::Unsuitable { node, required, fabrics });
        }
        let why = route::explain(&here, &there, choice, skipped).to_string();
        Err(NodeError::NoFabric { node, why })
    }

    fn route_over(&self, fabric: &str, there: &Member) -> Option<Route> {
        let (name, links) = self.links().iter().find(|(name, _)| name == fabric)?;
        let host = there.offer(name)?.host.clone();
        let key = there.key().filter(|_| links.nic().key().is_some());
        Some(Route { fabric: name.clone(), links: links.clone(), host, key })
    }
}

/// A fabric has failed, behind all others.
fn add_failed(failed: &mut Vec<(String, String)>, fabric: &str, why: &str) {
    failed.retain(|(name, _)| name != fabric);
    if !planted(Fault::FailureForgotten) {
        failed.push((fabric.to_owned(), why.to_owned()));
    }
}

/// The time that a fabric may take to connect, if there are so many that may be tried, this one among them.
fn share(until: Option<Instant>, count: usize) -> Deadline {
    let (left, count) = (Deadline::left(until), u32::try_from(count).unwrap_or(1));
    match left {
        _ if count <= 1 => left,
        Deadline::In(left) => Deadline::In(ATTEMPT.min(left / count)),
        Deadline::UntilDead => Deadline::In(ATTEMPT),
    }
}

fn shorter(deadline: Deadline, most: Duration) -> Deadline {
    match deadline {
        Deadline::In(left) => Deadline::In(left.min(most)),
        Deadline::UntilDead => Deadline::In(most),
    }
}

/// Whether the time is over that something may take that has begun then.
fn has_run_out(deadline: Deadline, started: Instant) -> bool {
    deadline.until_from(started).is_some_and(|until| rt::now() >= until)
}

/// Routes with a requirement that are kept for each node.
const REQUIRED_MAX: usize = 16;
/// How long a fabric may take to connect, if there is another.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long the registry may take to say that a node with which no fabric has connected is gone.
const PATIENCE: Duration = Duration::from_millis(300);
/// A fabric that had so long, and has not connected, has failed.
const FAIR: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::fault::caught;
    use crate::node::{Node, NodeId};
    use crate::pool::Property;
    use crate::registry::{Registry, RegistryOptions};

    const SOON: Duration = Duration::from_secs(60);

    /// Two nodes over these fabrics, and their registry.
    fn pool(fabrics: &str) -> (Registry, [Node; 2]) {
        let options = RegistryOptions::new("test", 2).secret("hush".into());
        let registry = Registry::open(options).unwrap();
        let nodes = [(); 2].map(|()| Node::join(registry.config().fabrics(fabrics)).unwrap());
        nodes.iter().for_each(|node| node.wait_all(SOON).unwrap());
        (registry, nodes)
    }

    fn over<'a>(node: &'a NodeHandle, fabric: &str) -> &'a crate::Links {
        &node.links().iter().find(|(name, _)| name == fabric).unwrap().1
    }

    /// Has a node leave calls of another one over a fabric without an answer.
    fn mute(node: &NodeHandle, fabric: &str, caller: &NodeHandle) {
        let caller = caller.member(caller.id()).unwrap();
        let host = &caller.offer(fabric).unwrap().host;
        over(node, fabric).disallow(host, caller.key());
    }

    fn made(node: &NodeHandle) -> [u64; 2] {
        ["shm", "tcp"].map(|fabric| over(node, fabric).counters().made)
    }

    #[test]
    fn a_fabric_that_fails_to_connect_gives_way_to_the_next_one() {
        let check = || {
            let (_registry, pool) = pool("shm,tcp");
            let (here, there) = (&pool[0], pool[1].id());
            let any = Requirement::default();
            assert_eq!(here.route(there).unwrap().fabric, "shm");
            over(&pool[1], "shm").close();
            assert_eq!(here.link(there, &any, SOON).unwrap().fabric, "tcp");
            let told = here.explain(there).unwrap().to_string();
            assert!(told.starts_with("rank 1: tcp, because shm failed to connect: "), "{told}");
            assert_eq!(here.route(there).unwrap().fabric, "tcp", "{told}");
            // It is not tried again, and there is one link however often one is wanted.
            let before = made(here);
            let shm = Requirement::default().prefer("shm");
            assert_eq!(here.link(there, &shm, SOON).unwrap().fabric, "tcp");
            assert_eq!(here.link(there, &any, Duration::ZERO).unwrap().fabric, "tcp");
            assert_eq!(made(here), before);
            // What has failed is tried if nothing else gives what is required.
            let near = Requirement::from(Property::SAME_MACHINE);
            assert_eq!(here.route_with(there, &near).unwrap().fabric, "shm");
            let why = here.link(there, &near, Duration::from_millis(50)).unwrap_err();
            assert!(matches!(&why, NodeError::NotLinked { tried, .. } if tried.len() == 1));
        };
        check();
        assert!(caught(Fault::FailureForgotten, check));
    }

    #[test]
    fn if_none_connects_all_are_told_and_none_is_remembered() {
        let (_registry, nodes) = pool("shm,udp");
        let (here, there) = (&nodes[0], nodes[1].id());
        ["shm", "udp"].iter().for_each(|fabric| over(&nodes[1], fabric).close());
        let why = here.link(there, &Requirement::default(), Duration::from_secs(3)).unwrap_err();
        let text = why.to_string();
        assert!(text.starts_with("no link with node 1#"), "{text}");
        let NodeError::NotLinked { node, tried } = why else { panic!("{text}") };
        let names: Vec<_> = tried.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((node, &names[..]), (there, &["shm", "udp"][..]), "{text}");
        assert!(tried.iter().all(|(name, why)| text.contains(&format!("{name}: {why}"))), "{text}");
        let fabric = || here.route(there).unwrap().fabric;
        assert_eq!(fabric(), "shm", "the node may be what was slow");
        // A failure that a layer above has seen is taken back when all have failed.
        let any = Requirement::default();
        assert!(here.not_connected(there, &any, "shm", "no answer"));
        assert_eq!(fabric(), "udp");
        assert!(!here.not_connected(there, &any, "udp", "no answer"));
        assert_eq!(fabric(), "shm");
        let near = Requirement::from(Property::SAME_MACHINE);
        assert!(!here.not_connected(there, &near, "shm", "no answer"));
        assert_eq!(fabric(), "udp");
        here.connected(there, "shm", &[]);
        assert_eq!(fabric(), "shm");
    }

    #[test]
    fn a_fabric_has_its_share_of_the_time_and_with_little_it_has_not_failed() {
        let (_registry, pool) = pool("shm,tcp");
        let (here, there) = (&pool[0], pool[1].id());
        mute(&pool[1], "shm", here);
        let any = Requirement::default();
        for (time, then) in [(1000, "shm"), (4000, "tcp")] {
            let (time, started) = (Duration::from_millis(time), rt::now());
            assert_eq!(here.link(there, &any, time).unwrap().fabric, "tcp");
            assert!(rt::now() - started < time);
            assert_eq!(here.route(there).unwrap().fabric, then);
        }
        let (some, moment) = (|seconds| Duration::from_secs(seconds), rt::now());
        assert_eq!(share(None, 2), Deadline::In(ATTEMPT));
        assert_eq!(share(None, 1), Deadline::UntilDead);
        assert_eq!(share(Some(moment), 3), Deadline::NOW);
        assert_eq!(share(Some(moment + some(100)), 2), Deadline::In(ATTEMPT));
    }

    #[test]
    fn a_link_is_waited_for_no_longer_than_the_node_lives() {
        let (_registry, [here, other]) = pool("shm,tcp");
        mute(&other, "shm", &here);
        let (node, handle): (NodeId, _) = (other.id(), here.handle());
        let near = Requirement::from(Property::SAME_MACHINE);
        let waits = rt::spawn("waits", move || handle.link(node, &near, Deadline::UntilDead));
        rt::sleep(Duration::from_millis(300));
        drop(other);
        let gone = waits.unwrap().join().unwrap().unwrap_err();
        assert!(matches!(gone, NodeError::Gone { node: gone, .. } if gone == node), "{gone}");
        assert_eq!(here.routes().0.lock().len(), 0, "nothing is kept of it");
    }

    #[test]
    fn what_no_fabric_gives_is_refused_before_anything_starts() {
        let (_registry, pool) = pool("shm,tcp");
        let (here, there) = (&pool[0], pool[1].id());
        let (red, before) = (Requirement::from(Property::new("colour", "red")), made(here));
        let why = here.link(there, &red, SOON).unwrap_err();
        assert_eq!(why, here.route_with(there, &red).unwrap_err());
        let NodeError::Unsuitable { node, required, fabrics } = &why else { panic!("{why}") };
        assert_eq!((*node, required.as_str()), (there, "colour=red"));
        let told = "it has no colour, and colour=red is required";
        for name in ["shm", "tcp"] {
            assert!(fabrics.contains(&(name.to_owned(), told.to_owned())), "{why}");
        }
        assert_eq!(made(here), before);
        let own = here.can(&red).unwrap_err();
        assert!(matches!(own, NodeError::Unsuitable { node, .. } if node == here.id()), "{own}");
        assert!(own.to_string().contains(&format!("tcp: {told}")), "{own}");
        here.can(&Requirement::from(Property::FAST)).unwrap();
        assert_eq!(here.link(here.id(), &red, SOON).unwrap_err(), NodeError::Oneself);
    }

    #[test]
    fn a_few_requirements_of_each_node_are_kept() {
        let (_registry, pool) = pool("shm,tcp");
        let (here, there) = (&pool[0], pool[1].id());
        for number in 0..2 * REQUIRED_MAX {
            let requirement = Requirement::default().prefer(&format!("fabric {number}"));
            assert_eq!(here.route_with(there, &requirement).unwrap().fabric, "shm");
        }
        let table = here.routes().0.lock();
        assert_eq!(table[&there].required.len(), REQUIRED_MAX);
    }
}
