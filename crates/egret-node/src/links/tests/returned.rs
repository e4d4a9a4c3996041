//! Messages that could not be delivered: their data comes back, and who was refused is told why.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::buf::Pool;
use egret_net::vi::{Access, AccessError, Segment};

use super::ended::{go_on, map, nodes, worlds};
use super::hostile::run;
use super::world::Node;
use crate::am::{Call, Message, MessageError, RemoteEndpoint, Request, Undelivered};
use crate::flow::InflowKey;
use crate::links::Links;

const NONE: u8 = 200;
const KEPT: u8 = 100;
const SOON: Duration = Duration::from_secs(2);

/// The same bytes in all the forms in which they can be sent.
fn forms(bytes: &[u8]) -> Vec<Message<'_>> {
    let buf = || {
        let pool = Pool::new(bytes.len().max(1), 1).unwrap();
        let mut buf = pool.take(bytes.len()).unwrap();
        buf.bytes_mut().copy_from_slice(bytes);
        buf
    };
    let (one, other) = bytes.split_at(bytes.len() / 3);
    let pieces: Vec<Segment> = vec![one.to_vec().into(), other.to_vec().into()];
    let mut forms = vec![
        Message::to(NONE).data(bytes.to_vec()),
        Message::to(NONE).data(buf()),
        Message::to(NONE).data(buf().share()),
        Message::to(NONE).gather(pieces),
    ];
    if bytes.len() <= crate::am::MEDIUM_MAX {
        forms.push(Message::to(NONE).bytes(bytes));
    }
    forms
}

fn told(node: &Node) -> Arc<Mutex<Vec<Undelivered>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    node.endpoints[0].endpoint.on_error(move |undelivered| tell.lock().unwrap().push(undelivered));
    told
}

fn is_settled(nodes: &[Node]) {
    for node in nodes {
        assert!(node.links.account().is_settled(), "{:?}", node.links.account());
    }
}

#[test]
fn data_that_nobody_takes_comes_back_in_all_forms() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options, &["a", "b"]);
        let remote = map(&nodes, [0, 0], [1, 0]);
        let told = told(&nodes[0]);
        for len in [0, 1, 100, 4096, 20_000, 300_000] {
            let bytes: Vec<u8> = (0..len).map(|at: u32| at.to_le_bytes()[0]).collect();
            for (at, message) in forms(&bytes).into_iter().enumerate() {
                let words: Vec<u64> = (0..at as u64 * 4).collect();
                remote.try_send(message.words(&words)).unwrap();
                go_on(&sim, &nodes, Duration::from_millis(100));
                let back = told.lock().unwrap().pop().expect("it came back");
                assert!(back.bytes == bytes, "{} of {len} bytes, form {at}", back.bytes.len());
                assert_eq!((back.handler, back.words), (NONE, words), "{len} bytes, form {at}");
                assert_eq!(back.reason, MessageError::NoHandler { handler: NONE });
            }
        }
        assert_eq!(told.lock().unwrap().len(), 0, "each once");
        drop(remote);
        go_on(&sim, &nodes, SOON);
        is_settled(&nodes);
    }
}

/// More than a window, and more bytes than are granted at once.
#[test]
fn a_flood_that_nobody_takes_comes_back_whole() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options.window(16).budget(1 << 20), &["a", "b"]);
        let remote = map(&nodes, [0, 0], [1, 0]);
        let told = told(&nodes[0]);
        let (mut sent, mut steps) = (0_u64, 0);
        while told.lock().unwrap().len() < 100 {
            let data = vec![sent.to_le_bytes()[0]; 30_000];
            if sent < 100 && remote.try_send(Message::to(NONE).words(&[sent]).data(data)).is_ok() {
                sent += 1;
            }
            super::world::step(nodes.iter());
            steps += 1;
            assert!(steps < 100_000, "{sent} sent, {} back", told.lock().unwrap().len());
        }
        for back in told.lock().unwrap().iter() {
            let is_whole = back.bytes == vec![back.words[0].to_le_bytes()[0]; 30_000];
            assert!(is_whole, "{} bytes", back.bytes.len());
        }
        drop(remote);
        go_on(&sim, &nodes, SOON);
        is_settled(&nodes);
    }
}

/// Both sides hold data of the other that nobody takes, and neither has memory for its own.
#[test]
pub(super) fn two_sides_that_send_data_back_do_not_wait_for_each_other() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options.budget(1 << 20), &["a", "b"]);
        let pair = |_| [map(&nodes, [0, 0], [1, 0]), map(&nodes, [1, 0], [0, 0])];
        // Each has its guarantee, so that less is left for all.
        let remotes: Vec<RemoteEndpoint> = (0..5).flat_map(pair).collect();
        let told = [told(&nodes[0]), told(&nodes[1])];
        for remote in &remotes[..2] {
            let data = vec![7_u8; 200_000];
            remote.try_send(Message::to(NONE).words(&[1, 2]).data(data)).unwrap();
        }
        go_on(&sim, &nodes, SOON);
        for told in &told {
            let back = told.lock().unwrap().pop().expect("it came back");
            assert!(matches!(back.bytes.len(), 0 | 200_000), "{} bytes", back.bytes.len());
            assert_eq!((back.handler, &back.words[..]), (NONE, &[1, 2][..]));
        }
        drop(remotes);
        go_on(&sim, &nodes, SOON);
        is_settled(&nodes);
    }
}

/// Until the error handler has run, what came back is held by the flow that brought it.
#[test]
fn data_that_comes_back_is_charged_until_its_handler_has_run() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options, &["a", "b"]);
        let remote = map(&nodes, [0, 0], [1, 0]);
        // What the peer may still send by the first mapping.
        let left = move |links: &Links| {
            links.core.state.with(|state| {
                let link = state.links.to_host("b").unwrap();
                state.links.get(link).map_or(0, |it| it.lands.left(InflowKey::Replies(0)))
            })
        };
        let (links, seen) = (nodes[0].links.clone(), Arc::new(Mutex::new(Vec::new())));
        let notes = Arc::clone(&seen);
        nodes[0].endpoints[0].endpoint.on_error(move |back| {
            notes.lock().unwrap().push((back.bytes.len(), left(&links)));
        });
        remote.try_send(Message::to(NONE).data(vec![1_u8; 1 << 20])).unwrap();
        go_on(&sim, &nodes, Duration::from_secs(1));
        let seen = seen.lock().unwrap().clone();
        let after = left(&nodes[0].links);
        let is_charged = |before: u64| before + (1 << 20) <= after;
        assert!(
            matches!(seen[..], [(1_048_576, before)] if is_charged(before)),
            "{seen:?} {after}"
        );
        drop(remote);
        go_on(&sim, &nodes, SOON);
        is_settled(&nodes);
    }
}

/// What the sender could not take back comes back without its data.
#[test]
fn data_that_is_larger_than_the_sender_takes_is_told_of() {
    for (sim, options) in worlds() {
        let mut all = nodes(&sim, &options.clone().budget(1 << 20), &["a"]);
        all.extend(nodes(&sim, &options, &["b"]));
        let remote = map(&all, [0, 0], [1, 0]);
        let told = told(&all[0]);
        remote.try_send(Message::to(NONE).words(&[7]).data(vec![1_u8; 2 << 20])).unwrap();
        go_on(&sim, &all, SOON);
        let back = told.lock().unwrap().pop().expect("it was told of");
        assert_eq!((back.words, back.bytes.len()), (vec![7], 0));
        drop(remote);
        go_on(&sim, &all, SOON);
        is_settled(&all);
    }
}

fn segment(node: &Node, access: Access) {
    let pool = Pool::new(4096, 1).unwrap();
    node.endpoints[0].endpoint.set_segment(pool.take(4096).unwrap(), access).unwrap();
}

fn refused(nodes: &[Node], remote: &RemoteEndpoint, is_put: bool) -> MessageError {
    let call = if is_put { remote.try_put(8, vec![1_u8; 4]) } else { remote.try_get(8, 4) };
    run(nodes, call.unwrap()).unwrap_err()
}

#[test]
fn refused_gets_and_puts_say_why_over_any_fabric() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options, &["a", "b"]);
        let forbidden = |asked| MessageError::Access(AccessError::Forbidden { asked });
        segment(&nodes[1], Access::READ);
        let remote = map(&nodes, [0, 0], [1, 0]);
        assert_eq!(refused(&nodes, &remote, true), forbidden("write"));
        segment(&nodes[1], Access::WRITE);
        let remote = map(&nodes, [0, 0], [1, 0]);
        assert_eq!(refused(&nodes, &remote, false), forbidden("read"));
        drop(nodes[1].endpoints[0].endpoint.take_segment());
        let revoked = MessageError::Access(AccessError::Revoked);
        assert_eq!(refused(&nodes, &remote, false), revoked);
        assert_eq!(refused(&nodes, &remote, true), revoked);
    }
}

/// The memory of a request that failed is the call's.
#[test]
fn the_memory_of_a_request_without_an_answer_comes_back() {
    for (sim, options) in worlds() {
        let mut nodes = nodes(&sim, &options, &["a"]);
        nodes.extend(super::ended::nodes(&sim, &options.budget(1 << 20), &["b"]));
        let remote = map(&nodes, [0, 0], [1, 0]);
        let (bytes, back) = (vec![3_u8; 20_000], |call: &mut Call| {
            call.take_sent().expect("the memory").into_vec::<u8>().expect("a vector")
        });
        let ask = |handler| {
            let data = Message::to(handler).words(&[1, 2]).data(bytes.clone());
            remote.try_request(data).unwrap()
        };
        let mut call = ask(NONE);
        let why = run(&nodes, &mut call).unwrap_err();
        assert_eq!(why, MessageError::NoHandler { handler: NONE });
        assert!(back(&mut call) == bytes && call.take_sent().is_none());
        let mut call = remote.try_put(0, bytes.clone());
        assert!(call.is_err(), "there is no segment");
        segment(&nodes[1], Access::READ);
        let other = map(&nodes, [0, 0], [1, 0]);
        call = other.try_put(0, bytes[..4000].to_vec());
        let mut call = call.unwrap();
        assert!(matches!(run(&nodes, &mut call), Err(MessageError::Access(_))));
        assert!(back(&mut call) == bytes[..4000]);
        let mut call = remote.try_transfer(Message::to(NONE).data(vec![1_u8; 2 << 20])).unwrap();
        let why = run(&nodes, &mut call).unwrap_err();
        assert!(matches!(why, MessageError::TooLarge { .. }), "{why}");
        assert_eq!(back(&mut call).len(), 2 << 20);
        let later = Mutex::new(Vec::new());
        let keep = move |request: Request<'_>| later.lock().unwrap().push(request.later());
        nodes[1].endpoints[0].endpoint.on(KEPT, keep);
        let mut call = ask(KEPT);
        go_on(&sim, &nodes, Duration::from_millis(100));
        let mut never = ask(KEPT);
        sim.crash("b");
        let why = run(&nodes, &mut call).unwrap_err();
        assert!(matches!(why, MessageError::LinkLost { .. }), "{why}");
        assert!(back(&mut call) == bytes);
        assert!(run(&nodes, &mut never).is_err() && back(&mut never) == bytes);
    }
}
