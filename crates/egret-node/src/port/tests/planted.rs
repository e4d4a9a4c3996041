//! Planted faults, each found by a test that passes without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use egret_net::fabric::sim::work;
use egret_net::rt::{self, Deadline};
use egret_net::sync::Mutex;

use super::trial;
use crate::cluster::{Cluster, cluster};
use crate::node::Node;
use crate::port::fault::{Fault, caught};
use crate::port::{PortError, PortEvent, PortRefusal, PortType};

const LONG: Deadline = Deadline::In(Duration::from_secs(60));

/// The test passes, and fails with the fault.
fn finds(fault: Fault, test: impl Fn()) {
    test();
    assert!(caught(fault, test), "nothing notices {fault:?}");
}

/// Rank 0 receives, rank 1 sends.
fn pair(
    receives: impl Fn(&Node) + Send + Sync + 'static,
    sends: impl Fn(&Node) + Send + Sync + 'static,
) {
    cluster(3, 2, move |node| {
        node.wait_all(LONG).unwrap();
        if node.rank() == 0 {
            receives(&node);
        } else {
            sends(&node);
        }
        node.bind(&format!("done {}", node.rank()), &[]).unwrap();
        for rank in 0..2 {
            node.wait_bound(&format!("done {rank}"), LONG).unwrap();
        }
        // The names of a node go with it.
        work(Duration::from_secs(1));
    });
}

#[test]
fn the_order_of_messages() {
    finds(Fault::LastFirst, || trial::run(4));
}

#[test]
fn the_place_of_a_long_message() {
    finds(Fault::PlaceLost, || trial::run(4));
}

#[test]
fn messages_of_one_connection_one_at_a_time() {
    finds(Fault::BusyIgnored, || {
        pair(
            |node| {
                let kind = PortType::many_to_one().concurrent_upcalls(4);
                let (running, done) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
                let (most, count) = (Arc::new(AtomicU32::new(0)), Arc::clone(&done));
                let seen = Arc::clone(&most);
                let port = node.receive_port_with("one", &kind, move |_: u32, _| {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    seen.fetch_max(now, Ordering::SeqCst);
                    rt::sleep(Duration::from_millis(5));
                    running.fetch_sub(1, Ordering::SeqCst);
                    count.fetch_add(1, Ordering::SeqCst);
                });
                let port = port.unwrap();
                while done.load(Ordering::SeqCst) < 20 {
                    rt::sleep(Duration::from_millis(1));
                }
                assert_eq!(most.load(Ordering::SeqCst), 1, "several at once");
                drop(port);
            },
            |node| {
                let mut port = node.send_port(&PortType::many_to_one()).unwrap();
                port.connect("one", LONG).unwrap();
                (0..20_u32).for_each(|number| port.send(&number).unwrap());
                node.wait_bound("done 0", LONG).unwrap();
            },
        );
    });
}

#[test]
fn a_window_is_full_until_messages_are_received() {
    finds(Fault::CreditAtOnce, || {
        let kind = || PortType::many_to_one().window(5);
        pair(
            move |node| {
                let mut sink = node.receive_port::<u32>("full", &kind()).unwrap();
                node.wait_bound("filled", LONG).unwrap();
                for number in 0..5 {
                    assert_eq!(*sink.receive(LONG).unwrap(), number);
                }
                node.wait_bound("done 1", LONG).unwrap();
            },
            move |node| {
                let mut port = node.send_port::<u32>(&kind()).unwrap();
                port.connect("full", LONG).unwrap();
                let mut sent = 0;
                while port.try_send(&sent).is_ok() {
                    sent += 1;
                    work(Duration::from_millis(10)); // time for the credit of it
                    assert!(sent < 50, "messages that nobody receives find room");
                }
                node.bind("filled", &[]).unwrap();
                port.set_deadline(LONG);
                port.send(&sent).unwrap();
            },
        );
    });
}

#[test]
fn a_panic_ends_one_connection_alone() {
    finds(Fault::PanicCounts, || {
        pair(
            |node| {
                let got = Arc::new(Mutex::new(Vec::new()));
                let seen = Arc::clone(&got);
                let port = node.receive_port_with(
                    "touchy",
                    &PortType::many_to_one(),
                    move |value: u32, _| {
                        assert!(value != 13, "of a test");
                        seen.lock().push(value);
                    },
                );
                let port = port.unwrap();
                let until = rt::now() + Duration::from_secs(30);
                while got.lock().len() < 2 {
                    assert!(rt::now() < until, "no upcall runs any more");
                    rt::sleep(Duration::from_millis(1));
                }
                drop(port);
            },
            |node| {
                let kind = PortType::many_to_one();
                let mut bad = node.send_port::<u32>(&kind).unwrap();
                let mut good = node.send_port::<u32>(&kind).unwrap();
                bad.connect("touchy", LONG).unwrap();
                good.connect("touchy", LONG).unwrap();
                good.send(&1).unwrap();
                bad.send(&13).unwrap();
                rt::sleep(Duration::from_millis(10));
                assert!(matches!(bad.send(&14), Err(PortError::Lost { .. })));
                _ = good.send(&2);
                node.wait_bound("done 0", LONG).unwrap();
            },
        );
    });
}

#[test]
fn ports_of_other_types_are_not_connected() {
    finds(Fault::TypesUnchecked, || {
        pair(
            |node| {
                let sink = node.receive_port::<u32>("typed", &PortType::many_to_one()).unwrap();
                node.wait_bound("done 1", LONG).unwrap();
                assert!(sink.senders().is_empty());
            },
            |node| {
                let mut port = node.send_port::<u32>(&PortType::many_to_many()).unwrap();
                let refused = port.connect("typed", LONG).unwrap_err();
                let PortError::Refused { why: PortRefusal::Types { differences }, .. } = refused
                else {
                    panic!("{refused}");
                };
                assert_eq!(differences, ["receive ports: here one, there many"]);
            },
        );
    });
}

#[test]
fn what_came_by_a_link_is_received_before_its_end() {
    finds(Fault::EndFirst, || {
        let run = Cluster::new(5, 2).crash(1, Duration::from_secs(20)).run(|node| {
            node.wait_all(LONG).unwrap();
            let kind = PortType::many_to_one();
            if node.rank() == 1 {
                let mut port = node.send_port::<u32>(&kind).unwrap();
                port.connect("end", LONG).unwrap();
                (0..10).for_each(|number| port.send(&number).unwrap());
                rt::sleep(Duration::from_secs(3600));
                return 0;
            }
            let mut sink = node.receive_port::<u32>("end", &kind).unwrap();
            let other = node.id_of(1).unwrap();
            node.wait_fate(other, LONG).expect("it crashes");
            rt::sleep(Duration::from_secs(1));
            for number in 0..10 {
                assert_eq!(*sink.receive(Duration::from_secs(1)).unwrap(), number);
            }
            assert!(sink.receive(Duration::from_secs(1)).is_err());
            let is_lost = |event| matches!(event, Ok(PortEvent::Lost { .. }));
            assert!(is_lost(sink.wait_event(LONG)) || is_lost(sink.wait_event(LONG)));
            1
        });
        assert_eq!(run.results[0], Some(1));
    });
}

#[test]
fn a_long_message_that_is_given_up_leaves_its_place() {
    use crate::channel_table::fault as channels;
    let test = || {
        pair(
            |node| {
                let mut sink =
                    node.receive_port::<Vec<u64>>("given", &PortType::one_to_one()).unwrap();
                let first = sink.receive(LONG);
                assert!(matches!(first, Err(PortError::Aborted { .. })), "{first:?}");
                assert_eq!(sink.receive(LONG).unwrap().value, vec![1; 10_000]);
                assert_eq!(sink.receive(LONG).unwrap().value, [2]);
            },
            |node| {
                let mut port = node.send_port::<Vec<u64>>(&PortType::one_to_one()).unwrap();
                port.connect("given", LONG).unwrap();
                let mut message = port.message();
                message.write(&vec![0_u64; 1_000]).unwrap(); // collected, and nothing has gone
                message.abort();
                port.send(&vec![1; 10_000]).unwrap();
                port.send(&vec![2]).unwrap();
                node.wait_bound("done 0", LONG).unwrap();
            },
        );
    };
    test();
    assert!(channels::caught(channels::Fault::PlaceEmpty, test), "nothing notices it");
}
