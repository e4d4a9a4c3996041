//! Requests that keep their order, some of them with data.

use std::sync::{Arc, Mutex};

use egret_net::rt::Deadline;

use super::ended::{nodes, worlds};
use super::hostile::run;
use crate::am::fault::{Fault, caught};
use crate::am::{Call, EndpointName, Message};

fn requests_arrive_as_they_were_sent() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options, &["a", "b"]);
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
        let mut sent = 0;
        // The first of each round is short again: all that had data were answered.
        for round in 0..3 {
            let send = |at| {
                let words = [sent + at];
                let message = Message::to(0).words(&words).in_order();
                let data = at % 3 == 1;
                let message = if data { message.data(vec![7_u8; 200_000]) } else { message };
                remote.try_request(message).unwrap()
            };
            let calls: Vec<Call> = (0..8).map(send).collect();
            sent += 8;
            for call in calls {
                drop(run(&nodes, call).unwrap());
            }
            assert_eq!(*served.lock().unwrap(), (0..sent).collect::<Vec<_>>(), "round {round}");
        }
    }
}

#[test]
fn a_short_request_does_not_overtake_one_with_data() {
    requests_arrive_as_they_were_sent();
}

#[test]
fn one_that_overtakes_is_noticed() {
    assert!(caught(Fault::Overtakes, requests_arrive_as_they_were_sent));
}
