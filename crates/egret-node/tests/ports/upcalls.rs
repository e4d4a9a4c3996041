//! Upcalls.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use egret_net::rt;
use egret_node::port::{PortEnd, PortError, PortEvent, PortType};

use crate::{LONG, Nodes, everywhere, next};

#[test]
fn upcalls_run_one_at_a_time_and_in_order() {
    everywhere(|from, to| {
        let (tell, told) = mpsc::channel();
        let running = AtomicU32::new(0);
        let kind = PortType::many_to_one();
        let sink = to.receive_port_with("calls", &kind, move |value: Vec<u32>, from| {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two at once");
            if value[0].is_multiple_of(100) {
                rt::sleep(Duration::from_millis(1));
            }
            _ = tell.send((value[0], value.len(), from.sequence()));
            running.fetch_sub(1, Ordering::SeqCst);
        });
        let sink = sink.unwrap();
        let mut port = from.send_port::<Vec<u32>>(&kind).unwrap();
        port.connect("calls", LONG).unwrap();
        for number in 0..1000 {
            port.send(&vec![number; if number % 50 == 0 { 20_000 } else { 3 }]).unwrap();
        }
        for number in 0..1000 {
            let len = if number % 50 == 0 { 20_000 } else { 3 };
            assert_eq!(next(&told), (number, len, u64::from(number) + 1));
        }
        drop(sink);
    });
}

#[test]
fn an_upcall_may_connect_send_and_wait() {
    everywhere(|from, to| {
        let kind = PortType::many_to_one();
        let node = to.handle();
        let back = Mutex::new(None);
        let answers = PortType::many_to_one();
        let there = from.id();
        let echo = to.receive_port_with("echo", &kind, move |value: u32, _| {
            let mut back = back.lock().unwrap();
            let port = back.get_or_insert_with(|| {
                let mut port = node.send_port::<u32>(&PortType::many_to_one()).unwrap();
                port.connect_to(there, "answers", LONG).unwrap();
                port
            });
            port.send(&(value + 1)).unwrap();
        });
        let echo = echo.unwrap();
        let mut sink = from.receive_port::<u32>("answers", &answers).unwrap();
        let mut port = from.send_port::<u32>(&kind).unwrap();
        port.connect("echo", LONG).unwrap();
        for number in 0..200 {
            port.send(&number).unwrap();
            assert_eq!(*sink.receive(LONG).unwrap(), number + 1);
        }
        drop(echo);
    });
}

#[test]
fn a_panic_is_an_error_at_the_sender_and_ends_nothing_else() {
    everywhere(|from, to| {
        let (tell, told) = mpsc::channel();
        let kind = PortType::many_to_one();
        let sink = to.receive_port_with("touchy", &kind, move |value: u32, _| {
            assert!(value != 13, "thirteen of all numbers");
            _ = tell.send(value);
        });
        let sink = sink.unwrap();
        let mut bad = from.send_port::<u32>(&kind).unwrap();
        let mut good = from.send_port::<u32>(&kind).unwrap();
        bad.connect("touchy", LONG).unwrap();
        good.connect("touchy", LONG).unwrap();
        bad.send(&13).unwrap();
        let why = loop {
            match bad.send(&13) {
                Ok(()) => rt::sleep(Duration::from_millis(1)),
                Err(PortError::Lost { receivers }) => break receivers[0].1.clone(),
                Err(why) => panic!("{why}"),
            }
        };
        match why {
            PortEnd::Panicked { message } => {
                assert!(message.contains("thirteen"), "{message}");
            }
            other => panic!("{other:?}"),
        }
        good.send(&1).unwrap();
        assert_eq!(next(&told), 1);
        assert_eq!(sink.senders(), [good.id()]);
        let events: Vec<_> = std::iter::from_fn(|| sink.poll_event()).collect();
        let is_lost = |event: &PortEvent| matches!(event, PortEvent::Lost { .. });
        assert_eq!(events.iter().filter(|event| is_lost(event)).count(), 1, "{events:?}");
    });
}

#[test]
fn an_upcall_that_finishes_early_lets_the_next_begin() {
    everywhere(|from, to| {
        let (tell, told) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let goes = Mutex::new(goes);
        let kind = PortType::many_to_one();
        let sink = to.receive_port_with("early", &kind, move |value: u32, from| {
            if value == 0 {
                from.finish();
                // The next one lets this one go on.
                next(&goes.lock().unwrap());
            } else {
                _ = go.send(());
            }
            _ = tell.send(value);
        });
        let sink = sink.unwrap();
        let mut port = from.send_port::<u32>(&kind).unwrap();
        port.connect("early", LONG).unwrap();
        port.send(&0).unwrap();
        port.send(&1).unwrap();
        let mut got = [next(&told), next(&told)];
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
        port.send(&2).unwrap();
        assert_eq!(next(&told), 2);
        drop(sink);
    });
}

#[test]
fn several_upcalls_at_once_if_the_type_says_so() {
    let nodes = Nodes::over("shm", 2);
    let kind = PortType::many_to_one().concurrent_upcalls(2);
    let meet = Arc::new(std::sync::Barrier::new(2));
    let (tell, told) = mpsc::channel();
    let both = Arc::clone(&meet);
    let sink = nodes.all[1].receive_port_with("two", &kind, move |value: u32, _| {
        both.wait();
        _ = tell.send(value);
    });
    let sink = sink.unwrap();
    let ports: Vec<_> = (0..2)
        .map(|number| {
            let mut port = nodes.all[0].send_port::<u32>(&kind).unwrap();
            port.connect("two", LONG).unwrap();
            port.send(&number).unwrap();
            port
        })
        .collect();
    let mut got = [next(&told), next(&told)];
    got.sort_unstable();
    assert_eq!(got, [0, 1]);
    drop((ports, sink));
}

#[test]
fn a_streaming_upcall_reads_while_the_rest_arrives() {
    everywhere(|from, to| {
        let kind = PortType::many_to_one();
        let (tell, told) = mpsc::channel();
        let sink = to.receive_port_streaming::<()>("stream", &kind, move |message| {
            while let Ok(value) = message.read::<u32>() {
                _ = tell.send(value);
            }
        });
        let sink = sink.unwrap();
        let mut port = from.send_port::<()>(&kind).unwrap();
        port.connect("stream", LONG).unwrap();
        let mut message = port.message();
        for number in 0..10 {
            message.write(&number).unwrap();
            message.flush().unwrap();
            assert_eq!(next(&told), number, "before the message is over");
        }
        assert_eq!(message.finish(), Ok(40));
        drop(sink);
    });
}
