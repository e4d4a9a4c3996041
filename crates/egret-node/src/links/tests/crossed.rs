//! Two nodes that call each other at the same time have one link.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::check;
use egret_net::rt::{self, Deadline};
use egret_net::vi::Reliability;

use super::ledger::Ledger;
use super::moved::links;
use super::random::Random;
use super::world::{Node, step};
use crate::am::{EndpointName, RemoteEndpoint};
use crate::links::LinksOptions;
use crate::links::opening::LinkAttempt;
use crate::links::state::LinksState;

/// Both map the other, one a little later.
fn both(nodes: &[Node; 2], late: u64) -> [RemoteEndpoint; 2] {
    let [a, b] = nodes;
    let [one, other] = [(a, b), (b, a)].map(|(from, to)| {
        from.endpoints[0].endpoint.map(&to.endpoints[0].name, &[], Deadline::DEFAULT)
    });
    let (mut one, mut other) = (pin!(one), pin!(other));
    let mut mapped = [None, None];
    let mut context = Context::from_waker(Waker::noop());
    for turn in 0..100_000 {
        if mapped[0].is_none()
            && let Poll::Ready(remote) = one.as_mut().poll(&mut context)
        {
            mapped[0] = Some(remote.unwrap());
        }
        if turn >= late
            && mapped[1].is_none()
            && let Poll::Ready(remote) = other.as_mut().poll(&mut context)
        {
            mapped[1] = Some(remote.unwrap());
        }
        if let [Some(_), Some(_)] = mapped {
            return mapped.map(Option::unwrap);
        }
        step(nodes.iter());
    }
    panic!("they do not find each other");
}

#[test]
fn crossing_calls_make_one_link() {
    check(0..300, |sim| {
        let mut random = Random(rt::random());
        let level = [Reliability::Delivery, Reliability::Reception][random.index(2)];
        if level == Reliability::Delivery {
            sim.links().loss(0.05).duplicate(0.05).reorder(0.05).corrupt(0.05);
        }
        let options = LinksOptions::default().reliability(level);
        let ledger = Ledger::default();
        let mut hosts = ["a", "b"];
        if random.is(50) {
            hosts.reverse();
        }
        let nodes = hosts.map(|host| Node::new(sim, host, &options, &ledger));
        let remotes = both(&nodes, random.below(30));
        let end = sim.elapsed() + Duration::from_secs(15);
        while sim.elapsed() < end {
            step(nodes.iter());
        }
        for (node, remote) in nodes.iter().zip(&remotes) {
            assert_eq!(node.links.account().links, 1, "{level}");
            let live = node.links.core.state.with(|state| state.links.live(remote.link()).is_ok());
            assert!(live, "{level}: the link died");
        }
    });
}

/// A call that has failed, and of which nobody asks any more what became of it, is in nobody's way.
#[test]
fn a_host_that_was_called_in_vain_can_call() {
    check(0..20, |sim| {
        let (options, ledger) = (LinksOptions::default(), Ledger::default());
        let a = Node::new(sim, "a", &options, &ledger);
        let mut context = Context::from_waker(Waker::noop());
        {
            // It is there, and does not listen.
            let _b = sim.nic("b");
            let name = EndpointName::new("b", "nobody", 0);
            let soon = Deadline::In(Duration::from_millis(50));
            let mut early = pin!(a.endpoints[0].endpoint.map(&name, &[], soon));
            assert!(early.as_mut().poll(&mut context).is_pending());
            while sim.elapsed() < Duration::from_secs(1) {
                step([&a].into_iter());
            }
        }
        let failed =
            |state: &mut LinksState| state.opening.calls.get("b").map(LinkAttempt::has_failed);
        assert_eq!(a.links.core.state.with(failed), Some(true));
        let b = Node::new(sim, "b", &options, &ledger);
        let nodes = [a, b];
        let [a, b] = &nodes;
        let name = &a.endpoints[0].name;
        let mut mapping = pin!(b.endpoints[0].endpoint.map(name, &[], Deadline::DEFAULT));
        let mapped = (0..10_000).any(|_| {
            step(nodes.iter());
            matches!(mapping.as_mut().poll(&mut context), Poll::Ready(Ok(_)))
        });
        assert!(mapped, "it is told that calls crossed, again and again");
    });
}

#[test]
fn two_threads_that_call_each_other_have_one_link() {
    for _ in 0..20 {
        let sides = [links("left"), links("right")];
        let hosts = sides.clone().map(|links| links.host().to_owned());
        // Before either of them calls: one may be faster.
        let served = sides.each_ref().map(|links| links.bundle().register("here", 0).unwrap());
        served.iter().for_each(|served| served.on(0, |request| request.reply(&[3])));
        let threads = [0, 1].map(|at| {
            let (links, host) = (sides[at].clone(), hosts[1 - at].clone());
            let thread = rt::spawn("calls", move || {
                links.wait_connect(&host, Deadline::DEFAULT).unwrap();
                let mine = links.bundle().endpoint(0);
                let name = EndpointName::new(&host, "here", 0);
                let remote = super::moved::mapped(&mine, &name);
                let reply = remote.wait_call(0, Deadline::DEFAULT).unwrap();
                assert_eq!(reply.words(), [3]);
                (mine, remote)
            });
            thread.unwrap()
        });
        let kept = threads.map(|thread| thread.join().unwrap());
        let counts = sides.each_ref().map(|links| links.account().links);
        assert_eq!(counts, [1, 1]);
        drop((kept, served));
    }
}
