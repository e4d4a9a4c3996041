//! Requests that keep their order, some of them with data.

use std::sync::{Arc, Mutex};

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline};

use super::ended::{nodes, worlds};
use super::hostile::run;
use super::world::Node;
use crate::LinksOptions;
use crate::am::fault::{Fault, caught};
use crate::am::{Call, Endpoint, EndpointName, Message, MessageError, RemoteEndpoint};

/// Two nodes, a mapping from one to the other, and what is served there.
struct Pair {
    nodes: Vec<Node>,
    remote: RemoteEndpoint,
    served: Arc<Mutex<Vec<u64>>>,
    _endpoints: [Endpoint; 2],
}

impl Pair {
    fn new(sim: &Sim, options: &LinksOptions) -> Self {
        let nodes = nodes(sim, options, &["a", "b"]);
        let served = Arc::new(Mutex::new(Vec::new()));
        let numbers = Arc::clone(&served);
        let endpoint = nodes[1].links.bundle().register("in order", 1).unwrap();
        endpoint.on(0, move |request| {
            numbers.lock().unwrap().push(request.words()[0]);
            request.reply(&[]);
        });
        let mine = nodes[0].links.bundle().endpoint(0);
        let to = EndpointName::new("b", "in order", 1);
        let remote = run(&nodes, mine.map(&to, &[], Deadline::DEFAULT)).unwrap();
        Self { nodes, remote, served, _endpoints: [endpoint, mine] }
    }

    /// Sends a request that keeps the order, with so many bytes of data if any.
    fn send(&self, number: u64, bytes: usize) -> Call {
        let words = [number];
        let message = Message::to(0).words(&words).in_order();
        let message = if bytes > 0 { message.data(vec![7_u8; bytes]) } else { message };
        self.remote.try_request(message).unwrap()
    }
}

/// Sends rounds of requests, of which these have so much data, each round behind the one before.
fn rounds(each: u64, bytes: impl Fn(u64) -> usize) {
    for (sim, options) in worlds() {
        let pair = Pair::new(&sim, &options);
        for round in 0..3 {
            let numbers = round * each..(round + 1) * each;
            let calls: Vec<_> = numbers.map(|at| pair.send(at, bytes(at % each))).collect();
            for call in calls {
                drop(run(&pair.nodes, call).unwrap());
            }
            let served = pair.served.lock().unwrap();
            assert_eq!(*served, (0..(round + 1) * each).collect::<Vec<_>>(), "round {round}");
        }
    }
}

fn short_ones_stay_behind_data() {
    rounds(8, |at| if at % 3 == 1 { 200_000 } else { 0 });
}

fn data_stays_behind_short_ones() {
    rounds(200, |at| if at == 198 { 5_000 } else { 0 });
}

/// The data of one request is more than the peer ever takes: those behind it are served.
fn refused_data_keeps_nobody_waiting() {
    for (sim, options) in worlds() {
        let pair = Pair::new(&sim, &options.budget(4 << 20));
        let calls = [0, 100_000, 64 << 20, 0, 100_000].into_iter().zip(0..);
        let calls: Vec<_> = calls.map(|(bytes, number)| pair.send(number, bytes)).collect();
        let ends: Vec<_> = calls.into_iter().map(|call| run(&pair.nodes, call)).collect();
        let refused: Vec<_> = ends.into_iter().filter_map(Result::err).collect();
        let [MessageError::TooLarge { .. }] = &refused[..] else {
            panic!("{refused:?}");
        };
        assert_eq!(*pair.served.lock().unwrap(), [0, 1, 3, 4]);
    }
}

/// Requests that follow a refused one at once, which may come before that is given up.
fn refused_data_is_followed_by_others() {
    for (sim, options) in worlds() {
        let pair = Pair::new(&sim, &options.budget(4 << 20));
        let mut expected = Vec::new();
        for round in (0..4 * rt::trials(100)).step_by(4) {
            let refused = pair.send(round, 8 << 20);
            if round % 8 == 0 {
                drop(run(&pair.nodes, refused).unwrap_err());
            }
            // Otherwise it is given up before it is refused.
            let calls = [100_000, 0, 5_000].into_iter().zip(round + 1..);
            let calls: Vec<_> = calls.map(|(bytes, number)| pair.send(number, bytes)).collect();
            for call in calls {
                drop(run(&pair.nodes, call).unwrap());
            }
            expected.extend(round + 1..round + 4);
            assert_eq!(*pair.served.lock().unwrap(), expected);
        }
    }
}

#[test]
fn those_that_follow_a_refused_request_have_their_own_places() {
    refused_data_is_followed_by_others();
}

#[test]
fn short_requests_do_not_overtake_one_with_data() {
    short_ones_stay_behind_data();
}

#[test]
fn one_with_data_does_not_overtake_short_ones() {
    data_stays_behind_short_ones();
}

#[test]
fn a_request_that_is_refused_gives_its_place_up() {
    refused_data_keeps_nobody_waiting();
}

#[test]
fn those_that_overtake_are_noticed() {
    assert!(caught(Fault::Overtakes, short_ones_stay_behind_data));
    assert!(caught(Fault::NotPlaced, data_stays_behind_short_ones));
    assert!(caught(Fault::PlaceKept, refused_data_keeps_nobody_waiting));
}
