//! Connecting: names, types, versions, refusals.

use std::time::Duration;

use egret_net::rt;
use egret_node::node::{NodeError, Property};
use egret_node::port::{PortError, PortRefusal, PortType, ReceiveOptions};
use egret_stream::Wire;

use crate::{LONG, Nodes, SHORT, everywhere};

#[test]
fn a_sender_waits_for_its_receive_port_and_says_which_is_missing() {
    let nodes = Nodes::over("shm", 2);
    let kind = PortType::one_to_one();
    let mut port = nodes.all[0].send_port::<u32>(&kind).unwrap();
    let missing = port.connect("late", SHORT).unwrap_err();
    assert!(matches!(missing, PortError::Node(NodeError::NotBound { .. })), "{missing}");
    assert!(matches!(port.send(&1), Err(PortError::NotConnected { .. })));
    let there = nodes.all[1].handle();
    let receiver = crate::spawn(move || {
        rt::sleep(Duration::from_millis(50));
        let mut sink = there.receive_port::<u32>("late", &kind).unwrap();
        sink.receive(LONG).unwrap().value
    });
    port.connect("late", LONG).unwrap();
    port.send(&1).unwrap();
    assert_eq!(receiver.join().unwrap(), 1);
}

#[test]
fn ports_of_other_types_are_refused_by_the_name_of_the_difference() {
    everywhere(|from, to| {
        let _sink = to.receive_port::<u32>("typed", &PortType::many_to_one()).unwrap();
        let mut other = from.send_port::<u32>(&PortType::many_to_many().bytes()).unwrap();
        match other.connect("typed", LONG) {
            Err(PortError::Refused { why: PortRefusal::Types { differences }, .. }) => {
                assert_eq!(differences.len(), 2, "{differences:?}");
                assert_eq!(differences[0], "receive ports: here one, there many");
            }
            other => panic!("{other:?}"),
        }
        let mut other = from.send_port::<String>(&PortType::many_to_one()).unwrap();
        let refused = other.connect("typed", LONG).unwrap_err();
        assert!(
            matches!(refused, PortError::Refused { why: PortRefusal::Values { .. }, .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains("u32"), "{refused}");
    });
}

mod old {
    #[derive(egret_stream::Wire)]
    pub(super) struct Row {
        pub(super) id: u32,
        pub(super) note: String,
    }
}

mod new {
    #[derive(Debug, PartialEq, egret_stream::Wire)]
    pub(super) struct Row {
        pub(super) id: u32,
        #[wire(default)]
        pub(super) weight: f64,
    }
}

#[test]
fn a_receiver_reads_the_rows_of_another_version() {
    everywhere(|from, to| {
        let kind = PortType::one_to_one();
        let mut sink = to.receive_port::<Vec<new::Row>>("rows", &kind).unwrap();
        let mut port = from.send_port::<Vec<old::Row>>(&kind).unwrap();
        port.connect("rows", LONG).unwrap();
        let rows = |count: u32| -> Vec<_> {
            (0..count).map(|id| old::Row { id, note: "a note".to_owned() }).collect()
        };
        let sender = crate::spawn(move || {
            port.send(&rows(2)).unwrap();
            port.send(&rows(5000)).unwrap();
            port
        });
        let got = sink.receive(LONG).unwrap().value;
        assert_eq!(got, [new::Row { id: 0, weight: 0.0 }, new::Row { id: 1, weight: 0.0 }]);
        assert_eq!(sink.receive(LONG).unwrap().value.len(), 5000);
        drop(sender.join().unwrap());
    });
}

#[test]
fn names_belong_to_one_port_of_a_node_and_are_free_again() {
    let nodes = Nodes::over("shm", 2);
    let kind = PortType::many_to_many();
    let first = nodes.all[0].receive_port::<u32>("name", &kind).unwrap();
    let taken = nodes.all[0].receive_port::<u32>("name", &kind).unwrap_err();
    assert!(matches!(taken, PortError::NameTaken { .. }), "{taken}");
    // Another node may have one of this name: it is reached by the node.
    let mut second = nodes.all[1].receive_port::<u32>("name", &kind).unwrap();
    let mut port = nodes.all[0].send_port::<u32>(&kind).unwrap();
    port.connect("name", LONG).unwrap();
    assert_eq!(port.connected(), [first.id().clone()]);
    let twice = port.connect("name", LONG).unwrap_err();
    assert!(matches!(twice, PortError::AlreadyConnected { .. }), "{twice}");
    port.connect_to(nodes.all[1].id(), "name", LONG).unwrap();
    port.send(&7).unwrap();
    assert_eq!(*second.receive(LONG).unwrap(), 7);
    drop(first);
    let mut again = nodes.all[0].receive_port::<u32>("name", &kind).unwrap();
    let mut port = nodes.all[1].send_port::<u32>(&kind).unwrap();
    port.connect_to(nodes.all[0].id(), "name", LONG).unwrap();
    port.send(&8).unwrap();
    assert_eq!(*again.receive(LONG).unwrap(), 8);
    let long = "n".repeat(201);
    let long = nodes.all[0].receive_port::<u32>(&*long, &kind).unwrap_err();
    assert!(matches!(long, PortError::NameTooLong { bytes: 201 }), "{long}");
}

#[test]
fn a_type_says_how_many_may_connect() {
    everywhere(|from, to| {
        let one = PortType::one_to_one();
        let sink = to.receive_port::<u32>("one", &one).unwrap();
        let mut first = from.send_port::<u32>(&one).unwrap();
        first.connect("one", LONG).unwrap();
        let mut second = from.send_port::<u32>(&one).unwrap();
        let refused = second.connect("one", LONG).unwrap_err();
        let sender = first.id();
        assert!(
            matches!(&refused, PortError::Refused { why: PortRefusal::HasSender { sender: has }, .. } if *has == sender),
            "{refused}"
        );
        let _other = to.receive_port::<u32>("other", &one).unwrap();
        let twice = first.connect("other", LONG).unwrap_err();
        assert!(matches!(twice, PortError::AlreadyConnected { .. }), "{twice}");
        assert_eq!(sink.senders(), [sender]);
        // When the first has gone, and that was received, the next may come.
        drop(first);
        let mut sink = sink;
        crate::left(&mut sink);
        second.connect("one", LONG).unwrap();
        second.send(&3).unwrap();
        assert_eq!(*sink.receive(LONG).unwrap(), 3);
    });
}

#[test]
fn a_port_accepts_whom_it_wants_when_it_is_enabled() {
    everywhere(|from, to| {
        let kind = PortType::many_to_one();
        let nobody = ReceiveOptions::new("nobody").accept(|_| false);
        let _nobody = to.receive_port::<u32>(nobody, &kind).unwrap();
        let mut port = from.send_port::<u32>(&kind).unwrap();
        let refused = port.connect("nobody", LONG).unwrap_err();
        assert!(
            matches!(refused, PortError::Refused { why: PortRefusal::ByProgram, .. }),
            "{refused}"
        );
        let later = ReceiveOptions::new("later").disabled();
        let mut later = to.receive_port::<u32>(later, &kind).unwrap();
        let early = port.connect("later", SHORT).unwrap_err();
        // On a busy machine there is not even a link yet.
        let is_late = matches!(early, PortError::NotReached { .. } | PortError::Node(_));
        assert!(is_late, "{early}");
        let sender = crate::spawn(move || {
            port.connect("later", LONG).unwrap();
            port.send(&5).unwrap();
            port
        });
        rt::sleep(Duration::from_millis(20));
        assert_eq!(later.poll(), Ok(None));
        later.enable();
        assert_eq!(*later.receive(LONG).unwrap(), 5);
        drop(sender.join().unwrap());
    });
}

#[derive(Wire)]
struct Unit;

#[test]
fn a_message_of_nothing_is_a_message() {
    everywhere(|from, to| {
        let (mut port, mut sink) = crate::connected::<Unit>((from, to), &PortType::one_to_one());
        for _ in 0..3 {
            port.send(&Unit).unwrap();
        }
        for number in 1..=3 {
            assert_eq!(sink.receive(LONG).unwrap().sequence, number);
        }
    });
}

#[test]
fn a_port_takes_the_fabric_that_its_type_prefers() {
    let nodes = Nodes::over("shm,tcp", 2);
    let kind = PortType::many_to_one();
    let mut sink = nodes.all[0].receive_port::<u32>("any", &kind).unwrap();
    for (fabric, number) in [("tcp", 0), ("shm", 1), ("tcp", 2)] {
        let kind = PortType::many_to_one().prefer(fabric);
        let mut port = nodes.all[1].send_port::<u32>(&kind).unwrap();
        port.connect("any", LONG).unwrap();
        assert_eq!(port.fabric(sink.id()), Some(fabric));
        port.send(&number).unwrap();
        // Whichever fabric the thread waits at.
        assert_eq!(*sink.receive(LONG).unwrap(), number);
    }
    let near = PortType::many_to_one().require(Property::SAME_MACHINE);
    let mut own = nodes.all[0].receive_port::<u32>("near", &near).unwrap();
    let mut port = nodes.all[1].send_port::<u32>(&near.clone().prefer("tcp")).unwrap();
    port.connect("near", LONG).unwrap();
    assert_eq!(port.fabric(own.id()), Some("shm"));
    port.send(&7).unwrap();
    assert_eq!(*own.receive(LONG).unwrap(), 7);
    let red =
        nodes.all[0].receive_port::<u32>("red", &kind.require(Property::new("colour", "red")));
    assert!(matches!(red, Err(PortError::Unsupported { .. })), "{red:?}");
}
