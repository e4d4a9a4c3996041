//! How connections end.

use egret_net::rt;
use egret_node::port::{PortEnd, PortError, PortEvent, PortType};

use crate::{LONG, Nodes, connected, everywhere};

/// Sends until the port says that the connection is lost.
fn lost(port: &mut egret_node::port::SendPort<u32>) -> PortEnd {
    loop {
        match port.send(&0) {
            Ok(()) => rt::sleep(std::time::Duration::from_millis(1)),
            Err(PortError::Lost { receivers }) => return receivers[0].1.clone(),
            Err(why) => panic!("{why}"),
        }
    }
}

#[test]
fn all_messages_come_before_the_end_of_their_sender() {
    everywhere(|from, to| {
        let (mut port, mut sink) = connected::<u32>((from, to), &PortType::many_to_one());
        let sender = port.id();
        assert_eq!(sink.wait_event(LONG), Ok(PortEvent::Connected { sender }));
        for number in 0..100 {
            port.send(&number).unwrap();
        }
        drop(port);
        for number in 0..100 {
            assert_eq!(*sink.receive(LONG).unwrap(), number);
            assert_eq!(sink.poll_event(), None);
        }
        crate::left(&mut sink);
        assert_eq!(sink.poll_event(), Some(PortEvent::Disconnected { sender }));
    });
}

#[test]
fn a_sender_is_told_that_its_receive_port_was_closed_or_has_disconnected_it() {
    everywhere(|from, to| {
        let (mut port, sink) = connected::<u32>((from, to), &PortType::many_to_one());
        assert!(sink.disconnect(port.id()));
        assert!(!sink.disconnect(port.id()));
        assert_eq!(lost(&mut port), PortEnd::Closed);
        port.connect("sink", LONG).unwrap();
        port.send(&1).unwrap();
        drop(sink);
        assert_eq!(lost(&mut port), PortEnd::Closed);
        assert!(matches!(port.send(&1), Err(PortError::NotConnected { .. })));
        assert_eq!(port.lost().len(), 2);
    });
}

#[test]
fn both_sides_are_told_when_a_node_goes() {
    for fabric in ["shm", "tcp"] {
        let mut nodes = Nodes::over(fabric, 3);
        let third = nodes.all.pop().unwrap();
        let (mut port, mut sink) =
            connected::<u32>((&nodes.all[0], &third), &PortType::many_to_one());
        port.send(&1).unwrap();
        assert_eq!(*sink.receive(LONG).unwrap(), 1);
        drop(sink);
        let mut back = nodes.all[1].receive_port::<u32>("back", &PortType::many_to_one()).unwrap();
        let mut other = third.send_port::<u32>(&PortType::many_to_one()).unwrap();
        other.connect("back", LONG).unwrap();
        other.send(&2).unwrap();
        assert_eq!(*back.receive(LONG).unwrap(), 2);
        assert!(matches!(back.wait_event(LONG), Ok(PortEvent::Connected { .. })));
        let sender = other.id();
        drop(third);
        drop(other);
        _ = lost(&mut port);
        crate::left(&mut back);
        match back.wait_event(LONG).unwrap() {
            PortEvent::Lost { sender: who, .. } | PortEvent::Disconnected { sender: who } => {
                assert_eq!(who, sender);
            }
            other => panic!("{other:?}"),
        }
        drop(nodes.registry);
    }
}

#[test]
fn a_closed_node_closes_its_ports() {
    let nodes = Nodes::over("shm", 1);
    let kind = PortType::one_to_one();
    let mut sink = nodes.all[0].receive_port::<u32>("gone", &kind).unwrap();
    let Nodes { all, registry } = nodes;
    drop(all);
    let closed = sink.receive(LONG).unwrap_err();
    assert!(matches!(closed, PortError::Closed { .. }), "{closed}");
    drop(registry);
}

#[test]
fn a_sender_that_goes_while_the_window_is_full_is_missed_when_there_is_room() {
    everywhere(|from, to| {
        let few = PortType::many_to_one().window(4);
        let (mut port, mut sink) = connected::<u32>((from, to), &few);
        let mut sent = 0;
        while port.try_send(&sent).is_ok() {
            sent += 1;
        }
        let sender = port.id();
        drop(port);
        for number in 0..sent {
            assert_eq!(*sink.receive(LONG).unwrap(), number);
        }
        assert_eq!(sink.wait_event(LONG), Ok(PortEvent::Connected { sender }));
        // Who leaves is noted when the program asks for the next message.
        crate::left(&mut sink);
        assert_eq!(sink.poll_event(), Some(PortEvent::Disconnected { sender }));
    });
}
