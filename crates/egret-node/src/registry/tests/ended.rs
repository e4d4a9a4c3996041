//! Who asks to join, and whose link ends meanwhile, is not a member for ever.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::fabric::{Fabric, tcp::TcpFabric};
use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::{Nic, NicOptions, PublicKey};

use super::super::fault::{Fault, caught};
use super::super::state::LOOK;
use super::super::{Registry, RegistryOptions};
use super::keys;
use crate::am::{Endpoint, EndpointName, LinkPeer, Message, RemoteEndpoint, fault as am};
use crate::node::Node;
use crate::pool::wire::{ASK, ENDPOINT, JoinRequest, LogEntry, RegistryQuestion, VERSION};
use crate::pool::{FabricOffer, Location, Properties};
use crate::settings::config::Config;
use crate::{Links, LinksOptions};

const POOL: &str = "p";
const HOST: &str = "caller";

/// A registry, and one who has a link with it and has not joined.
struct Stage {
    registry: Registry,
    nic: Nic,
    caller: Links,
    /// The registry, and what ends the caller's link there.
    asks: RemoteEndpoint,
    ends: RemoteEndpoint,
    /// The caller's link, as the registry has it, when it was last heard.
    heard: Arc<Mutex<Option<LinkPeer>>>,
    _served: Endpoint,
}

impl Stage {
    fn new(sim: &Sim) -> Self {
        let nic = sim.nic("registry");
        let registry = Registry::over(nic.clone(), RegistryOptions::new(POOL, 1)).unwrap();
        let caller = Links::open(sim.nic(HOST), LinksOptions::default()).unwrap();
        let heard = Arc::new(Mutex::new(None));
        let (links, peer) = (registry.server.links.clone(), Arc::clone(&heard));
        let served = registry.server.links.bundle().register("ends", 0).unwrap();
        served.on(0, move |request| {
            *peer.lock().unwrap() = Some(request.peer());
            if request.words() == [1] {
                links.end_link_of(HOST, links.key_of(request.peer()).unwrap(), "cut off");
            }
        });
        let mine = caller.bundle().endpoint(0);
        let map = |name: &str| {
            let to = EndpointName::new("registry", name, 0);
            go_on(&nic, &registry, &caller, mine.map(&to, &[], Deadline::DEFAULT)).unwrap()
        };
        let (asks, ends) = (map(ENDPOINT), map("ends"));
        Self { registry, nic, caller, asks, ends, heard, _served: served }
    }

    /// The caller's link, and the key that it has proven.
    fn caller(&self) -> (LinkPeer, PublicKey) {
        self.ends.try_send((0, &[0])).unwrap();
        self.steps();
        let peer = self.heard.lock().unwrap().unwrap();
        (peer, self.registry.server.links.key_of(peer).unwrap())
    }

    /// Everybody goes on, for less time than the registry is patient.
    fn steps(&self) {
        for _ in 0..100 {
            step(&self.nic, &self.registry, &self.caller);
        }
    }

    fn log(&self) -> Vec<LogEntry> {
        self.registry.server.inner.lock().state.kept.log.to_vec()
    }

    /// Nobody is a member, nothing is kept of anybody, and there is room for another.
    fn assert_nobody_is_here(&self, sim: &Sim) {
        {
            let inner = self.registry.server.inner.lock();
            let log = &inner.state.kept.log;
            assert!(inner.state.kept.pool.members().is_empty(), "{log:?}");
            assert!(inner.state.seats.is_empty() && inner.slots.is_empty());
        }
        let config = Config::new(POOL).registry("registry").over(sim.nic("another"));
        let joining = Node::begin_join(config).unwrap();
        let joined = go_on(&self.nic, &self.registry, &self.caller, joining).unwrap();
        assert_eq!(joined.rank(), 0);
    }
}

fn question() -> JoinRequest {
    let fabrics = vec![FabricOffer::new("sim", HOST, Properties::network())];
    JoinRequest {
        pool: POOL.into(),
        size: None,
        rank: None,
        is_open: false,
        machine: "m".into(),
        location: Location::default(),
        fabrics,
    }
}

fn step(nic: &Nic, registry: &Registry, caller: &Links) {
    let seen = nic.poll();
    registry.poll();
    caller.poll();
    nic.wait(seen, Some(rt::now() + Duration::from_millis(1)));
}

fn go_on<F: Future>(nic: &Nic, registry: &Registry, caller: &Links, future: F) -> F::Output {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        step(nic, registry, caller);
    }
}

/// The question has come when the link ends, and its turn comes afterwards.
#[test]
fn a_join_whose_link_has_ended_is_dropped() {
    let sim = Sim::new(1);
    let stage = Stage::new(&sim);
    stage.ends.try_send((0, &[1])).unwrap();
    let bytes = RegistryQuestion::Join(question()).to_bytes();
    let question = Message::to(ASK).words(&[VERSION]).bytes(&bytes);
    let call = stage.asks.try_request(question).unwrap();
    stage.steps();
    assert!(stage.heard.lock().unwrap().is_some(), "its link was ended");
    let said = go_on(&stage.nic, &stage.registry, &stage.caller, call);
    assert!(said.is_err(), "nobody answers it");
    assert_eq!(stage.log(), [], "nobody has joined, who would have proven no key");
    stage.assert_nobody_is_here(&sim);
}

/// The link ends while the question is answered: behind the look at who asks, and before the answer.
fn a_member_whose_link_ends_while_it_joins_dies() {
    let sim = Sim::new(2);
    let stage = Stage::new(&sim);
    let (peer, key) = stage.caller();
    let server = &stage.registry.server;
    server.change(|state, now| {
        server.links.end_link_of(HOST, key, "cut off");
        state.ask(now, (&peer, Some(key)), u64::MAX, RegistryQuestion::Join(question()));
    });
    assert!(matches!(stage.log()[..], [LogEntry::Joined(_)]));
    stage.steps();
    let log = stage.log();
    assert!(
        matches!(&log[..], [LogEntry::Joined(member), LogEntry::Died { node, .. }] if *node == member.id),
        "{log:?}"
    );
    stage.assert_nobody_is_here(&sim);
}

/// Should the end of a link be told before what came by it, who has joined is given up for its silence.
fn a_member_that_joined_after_its_link_ended_dies() {
    let (mut state, now) = (keys::state(), Instant::default());
    state.link_ended(now, &1, "cut off");
    let id = keys::join(&mut state, 1, 1, "a").unwrap();
    let steps = state.terms.patience.as_millis() / LOOK.as_millis();
    for step in 0..=u32::try_from(steps).unwrap() {
        state.tick(now + step * LOOK);
    }
    assert!(
        matches!(&state.kept.log.to_vec()[..], [LogEntry::Joined(_), LogEntry::Died { node, .. }] if *node == id)
    );
    assert!(state.kept.pool.members().is_empty());
    assert_eq!(state.take_moved(), [(1, true), (1, false)]);
    assert_eq!(
        keys::join(&mut state, 2, 2, "a").unwrap().rank,
        id.rank,
        "there is room for another"
    );
}

#[test]
fn members_without_a_link_die() {
    a_member_whose_link_ends_while_it_joins_dies();
    a_member_that_joined_after_its_link_ended_dies();
}

#[test]
fn planted_faults_are_found() {
    assert!(am::caught(am::Fault::EndUntold, a_member_whose_link_ends_while_it_joins_dies));
    assert!(caught(Fault::Deaf, a_member_that_joined_after_its_link_ended_dies));
}

/// Links are told whether they stay in the order in which members came and went: until a link is told,
/// nobody else comes or goes.
#[test]
fn links_are_told_in_the_order_of_what_happened() {
    let registry = Registry::open(RegistryOptions::new(POOL, 1)).unwrap();
    let nic = TcpFabric.open(&NicOptions::new("")).unwrap();
    let caller = Links::open(nic, LinksOptions::default()).unwrap();
    let (heard, server) = (Arc::new(Mutex::new(None)), Arc::clone(&registry.server));
    let probe = server.links.bundle().register("probe", 0).unwrap();
    let peer = Arc::clone(&heard);
    probe.on(0, move |request| {
        *peer.lock().unwrap() = Some(request.peer());
        request.reply(&[]);
    });
    let to = EndpointName::new(registry.address(), "probe", 0);
    let remote = caller.bundle().endpoint(0).wait_map(&to, Deadline::DEFAULT).unwrap();
    remote.wait_call(0, Deadline::DEFAULT).unwrap();
    let peer = heard.lock().unwrap().unwrap();
    // Nobody can tell a link anything now.
    let joining = server.links.core.state.with(|_| {
        let joins = Arc::clone(&server);
        let joining = rt::spawn("joins", move || {
            joins.change(|state, now| {
                state.ask(now, (&peer, None), u64::MAX, RegistryQuestion::Join(question()));
            });
        });
        let mut held = 0;
        while held < 50 {
            held += 1;
            if let Some(inner) = server.inner.try_lock() {
                assert!(
                    inner.state.seats.is_empty(),
                    "it could go before its link is told that it came"
                );
                held = 0;
            }
            rt::sleep(Duration::from_millis(1));
        }
        joining
    });
    joining.unwrap().join().unwrap();
    assert!(server.inner.lock().state.seats.contains_key(&peer));
}
