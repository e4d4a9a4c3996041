//! Links that are closed with a reason.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::rt::Deadline;

use super::ended::{go_on, listen, map, nodes, worlds};
use super::hostile::run;
use crate::am::{Message, MessageError, Request};
use crate::link::LinkError;

#[test]
pub(super) fn what_was_sent_before_arrives_and_then_the_reason() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        let seen = Arc::new(Mutex::new(0));
        let served = Arc::clone(&seen);
        all[1].endpoints[0].endpoint.on(0, move |request| {
            *served.lock().unwrap() += request.bytes().len();
        });
        let kept = Mutex::new(Vec::new());
        let keep = move |request: Request<'_>| kept.lock().unwrap().push(request.later());
        all[0].endpoints[0].endpoint.on(1, keep);
        let told = [0, 1].map(|at| listen(&all[at].endpoints[0].endpoint));
        let (remote, back) = (map(&all, [0, 0], [1, 0]), map(&all, [1, 0], [0, 0]));
        for _ in 0..20 {
            remote.try_send(Message::to(0).bytes(&[1])).unwrap();
            remote.try_send(Message::to(0).data(vec![1_u8; 10_000])).unwrap();
        }
        let unanswered = back.try_request(1).unwrap();
        all[0].links.core.state.with(|state| state.part("it \x1b[2J failed\nbadly"));
        go_on(&sim, &all, Duration::from_millis(600));
        let ended = told.each_ref().map(|told| told.lock().unwrap().clone());
        let [[mine], [theirs]] = ended.each_ref().map(|told| &told[..]) else {
            panic!("{ended:?}")
        };
        assert_eq!(*seen.lock().unwrap(), 20 * 10_001, "{}", options.reliability);
        assert_eq!(mine.why, LinkError::Closed);
        let (peer, why) = ("a".to_owned(), "it  [2J failed\nbadly".to_owned());
        assert_eq!(theirs.why, LinkError::PeerFailed { peer, why });
        let failed = run(&all, unanswered).unwrap_err();
        let MessageError::LinkLost { why, .. } = failed else { panic!("{failed}") };
        assert_eq!(why, theirs.why);
        assert_eq!(all[0].links.account().links, 0);
    }
}

#[test]
fn a_peer_that_does_not_listen_is_not_waited_for() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b", "c"]);
        let told = [0, 2].map(|at| listen(&all[at].endpoints[0].endpoint));
        let (remote, other) = (map(&all, [0, 0], [1, 0]), map(&all, [0, 0], [2, 0]));
        sim.partition(&["a"], &["b"]);
        remote.try_send(Message::to(0).data(vec![0_u8; 10_000])).unwrap();
        let long = "ä".repeat(1000);
        let begun = sim.elapsed();
        all[0].links.core.state.with(|state| state.part(&long));
        while all[0].links.account().links > 0 {
            go_on(&sim, &all, Duration::from_millis(10));
            assert!(sim.elapsed() < begun + Duration::from_millis(520), "it waits");
        }
        let ends = told[0].lock().unwrap().clone();
        assert_eq!(ends.iter().filter(|it| it.why == LinkError::Closed).count(), 2, "{ends:?}");
        let theirs = told[1].lock().unwrap();
        let [ended] = &theirs[..] else { panic!("{theirs:?}") };
        let LinkError::PeerFailed { why, .. } = &ended.why else { panic!("{ended:?}") };
        assert_eq!(why.len(), 1024);
        drop((remote, other));
    }
}

#[test]
fn a_handler_can_begin_it() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        let links = all[1].links.clone();
        all[1].endpoints[0].endpoint.on(0, move |_| links.close_because("asked to"));
        let told = listen(&all[0].endpoints[0].endpoint);
        map(&all, [0, 0], [1, 0]).try_send(0).unwrap();
        go_on(&sim, &all, Duration::from_millis(1000));
        let told = told.lock().unwrap();
        let [ended] = &told[..] else { panic!("{told:?}") };
        assert!(ended.why.to_string().ends_with("failed: asked to"), "{ended:?}");
    }
}

#[test]
fn only_the_failed_peer_loses_its_link() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b", "c"]);
        let kept = Mutex::new(Vec::new());
        let keep = move |request: Request<'_>| kept.lock().unwrap().push(request.later());
        all[1].endpoints[0].endpoint.on(1, keep);
        let told = listen(&all[0].endpoints[0].endpoint);
        let (lost, stays) = (map(&all, [0, 0], [1, 0]), map(&all, [0, 0], [2, 0]));
        let unanswered = lost.try_request(1).unwrap();
        go_on(&sim, &all, Duration::from_millis(500));
        sim.partition(&["a"], &["b"]);
        all[0].links.end_link("nobody", "it is not there");
        all[0].links.end_link("b", "declared dead");
        assert_eq!(all[0].links.account().links, 1);
        let gone = LinkError::PeerFailed { peer: "b".to_owned(), why: "declared dead".to_owned() };
        let failed = run(&all, unanswered).unwrap_err();
        let MessageError::LinkLost { why, .. } = failed else { panic!("{failed}") };
        assert_eq!(why, gone);
        assert_eq!(lost.try_send(0).unwrap_err().why, MessageError::Link(gone.clone()));
        go_on(&sim, &all, Duration::from_millis(50));
        let told = told.lock().unwrap();
        assert!(matches!(&told[..], [ended] if ended.why == gone), "{told:?}");
        all[0].links.end_link("b", "declared dead again");
        assert!(stays.try_send(0).is_ok());
        drop(lost);
        let account = all[0].links.account();
        assert_eq!((account.links, account.calls, account.outgoing), (1, 0, 1));
    }
}

#[test]
fn a_link_that_is_being_made_ends_with_its_host() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        sim.partition(&["a"], &["b"]);
        let name = &all[1].endpoints[0].name;
        let mut mapping =
            std::pin::pin!(all[0].endpoints[0].endpoint.map(name, &[], Deadline::DEFAULT));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(mapping.as_mut().poll(&mut context).is_pending());
        go_on(&sim, &all, Duration::from_millis(100));
        assert!(mapping.as_mut().poll(&mut context).is_pending());
        all[0].links.end_link("b", "declared dead");
        let (peer, why) = ("b".to_owned(), "declared dead".to_owned());
        let gone = LinkError::PeerFailed { peer, why };
        match mapping.as_mut().poll(&mut context) {
            std::task::Poll::Ready(Err(MessageError::NoLink(why))) => assert_eq!(why, gone),
            other => panic!("{other:?}"),
        }
    }
}
