//! Messages: values of all lengths, pieces, windows.

use egret_net::rt::{self, Deadline};
use egret_node::node::Node;
use egret_node::port::{DATAGRAM_MAX, PortError, PortType};
use egret_stream::graph::{Graph, Object, Ref};
use egret_stream::{Dynamic, Wire, dynamic, register};

use crate::{LONG, Nodes, SHORT, connected, everywhere};

#[test]
fn values_of_all_lengths_come_in_the_order_in_which_they_were_sent() {
    everywhere(|from, to| {
        let (mut port, mut sink) =
            connected::<(u32, Vec<u64>)>((from, to), &PortType::one_to_one());
        let lens = [0, 1, 400, 486, 487, 488, 2_048, 12_500, 100_000, 3];
        let sender = crate::spawn(move || {
            for (number, len) in (0..).zip(lens) {
                port.send(&(number, vec![u64::from(number); len])).unwrap();
            }
            port
        });
        for (number, len) in (0..).zip(lens) {
            let got = sink.receive(LONG).unwrap();
            assert_eq!(got.value, (number, vec![u64::from(number); len]));
            assert_eq!(got.sequence, u64::from(number) + 1);
            assert_eq!(got.origin.node, from.id());
        }
        let port = sender.join().unwrap();
        assert_eq!(sink.poll(), Ok(None));
        assert_eq!(port.connected(), [sink.id().clone()]);
    });
}

#[test]
fn pieces_are_read_as_they_were_written_and_a_message_that_is_given_up_spoils_no_other() {
    everywhere(|from, to| {
        let (mut port, mut sink) = connected::<()>((from, to), &PortType::one_to_one());
        let field: Vec<f64> = (0..50_000).map(f64::from).collect();
        let sender = crate::spawn(move || {
            let mut message = port.message();
            message.write("a head").unwrap();
            message.write_slice(&field).unwrap();
            message.write_slice(&field[..100]).unwrap();
            message.write(&vec![Some(7_u32), None]).unwrap();
            let bytes = message.finish().unwrap();
            // Given up before anything left, and behind that.
            port.message().abort();
            let mut message = port.message();
            message.write(&1_u8).unwrap();
            message.flush().unwrap();
            message.write_slice(&field).unwrap();
            drop(message);
            // Nothing at all.
            assert_eq!(port.message().finish(), Ok(0));
            let mut message = port.message();
            message.write(&field).unwrap();
            message.write(&2_u8).unwrap();
            message.finish().unwrap();
            (bytes, port)
        });
        let field: Vec<f64> = (0..50_000).map(f64::from).collect();
        let mut message = sink.receive_message(LONG).unwrap();
        assert_eq!(message.read::<String>().unwrap(), "a head");
        let mut into = vec![0.0; 60_000];
        assert_eq!(message.read_into(&mut into).unwrap(), 50_000);
        assert_eq!(into[..50_000], field);
        assert_eq!(message.array::<f64>().unwrap()[..], field[..100]);
        assert_eq!(message.read::<Vec<Option<u32>>>().unwrap(), [Some(7), None]);
        let bytes = message.bytes();
        let ended = message.read::<u8>().unwrap_err();
        assert!(matches!(ended, PortError::Unreadable { .. }), "{ended}");
        drop(message);
        // Of the one that was given up while it left a part may have come.
        let aborted = match sink.receive_message(LONG) {
            Ok(mut message) => {
                // All of what was written may have come, but for the end.
                let first = message.read::<u8>();
                let rest = first.and_then(|_| message.read::<Vec<f64>>());
                rest.and_then(|_| message.read::<u8>()).map(drop)
            }
            Err(why) => Err(why),
        };
        assert!(matches!(aborted, Err(PortError::Aborted { .. })), "{aborted:?}");
        let mut message = sink.receive_message(LONG).unwrap();
        assert!(message.read::<u8>().is_err(), "it is empty");
        drop(message);
        // Half of one that is not read is skipped.
        let mut message = sink.receive_message(LONG).unwrap();
        assert_eq!(message.array::<f64>().unwrap()[..], field);
        drop(message);
        let (sent, mut port) = sender.join().unwrap();
        assert_eq!(sent, bytes);
        port.message().finish().unwrap();
        assert_eq!(sink.receive_message(LONG).unwrap().sequence(), 5);
    });
}

#[test]
fn a_thread_that_sends_to_a_port_it_reads_itself_is_told_that_the_window_is_full() {
    everywhere(|from, to| {
        let few = PortType::one_to_one().window(4);
        let (mut port, mut sink) = connected::<u32>((from, to), &few);
        let mut sent = 0;
        while port.try_send(&sent).is_ok() {
            sent += 1;
            assert!(sent < 100, "the window lets everything through");
        }
        assert!(matches!(port.try_send(&sent), Err(PortError::Full { window: 4, .. })));
        port.set_deadline(SHORT);
        assert!(matches!(port.send(&sent), Err(PortError::NoRoomInTime { window: 4, .. })));
        assert!(sent >= 4, "{sent}");
        for number in 0..sent {
            assert_eq!(*sink.receive(LONG).unwrap(), number);
        }
        port.set_deadline(LONG);
        port.send(&99).unwrap();
        assert_eq!(*sink.receive(LONG).unwrap(), 99);
    });
}

#[test]
fn a_port_that_nobody_reads_holds_up_no_other() {
    let nodes = Nodes::over("shm", 2);
    let (from, to) = (&nodes.all[0], &nodes.all[1]);
    let kind = PortType::one_to_one();
    let _idle = to.receive_port::<Vec<u8>>("idle", &kind).unwrap();
    let mut stuck = from.send_port::<Vec<u8>>(&kind).unwrap();
    stuck.connect("idle", LONG).unwrap();
    stuck.set_deadline(SHORT);
    while stuck.send(&vec![1; 1000]).is_ok() {}
    let mut long = to.receive_port::<Vec<u8>>("long", &kind).unwrap();
    let mut port = from.send_port::<Vec<u8>>(&kind).unwrap();
    port.connect("long", LONG).unwrap();
    for _ in 0..1000 {
        port.send(&vec![2; 5000]).unwrap();
        assert_eq!(sink_len(&mut long), 5000);
    }
}

fn sink_len(sink: &mut egret_node::port::ReceivePort<Vec<u8>>) -> usize {
    sink.receive(LONG).unwrap().value.len()
}

#[test]
fn one_message_goes_to_all_receive_ports() {
    let nodes = Nodes::over("shm", 4);
    let news = PortType::one_to_many();
    let sinks: Vec<_> =
        nodes.all.iter().map(|node| node.receive_port::<Vec<u32>>("news", &news)).collect();
    let mut sinks: Vec<_> = sinks.into_iter().map(Result::unwrap).collect();
    let mut port = nodes.all[0].send_port::<Vec<u32>>(&news).unwrap();
    for node in &nodes.all {
        port.connect_to(node.id(), "news", LONG).unwrap();
    }
    let readers: Vec<_> = sinks
        .drain(..)
        .map(|mut sink| {
            crate::spawn(move || {
                for len in [1, 10_000, 2] {
                    assert_eq!(sink.receive(LONG).unwrap().value, vec![7_u32; len]);
                }
                sink
            })
        })
        .collect();
    for len in [1, 10_000, 2] {
        port.send(&vec![7; len]).unwrap();
    }
    let mut sinks: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    // One closes: the others get the next message, and the error names the one.
    let gone = sinks.remove(2).id().clone();
    let lost = loop {
        match port.send(&vec![8]) {
            Ok(()) => rt::sleep(std::time::Duration::from_millis(1)),
            Err(PortError::Lost { receivers }) => break receivers,
            Err(why) => panic!("{why}"),
        }
    };
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].0, gone);
    assert_eq!(port.lost(), lost);
    assert_eq!(port.connected().len(), 3);
    port.send(&vec![9]).unwrap();
    for sink in &mut sinks {
        while sink.receive(LONG).unwrap().value != [9] {}
    }
}

trait Shape: Dynamic {
    fn area(&self) -> f64;
}
dynamic!(Shape);
#[derive(Wire)]
struct Square(f64);
#[derive(Wire)]
struct Disc {
    radius: f64,
}
impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl Shape for Disc {
    fn area(&self) -> f64 {
        3.0 * self.radius * self.radius
    }
}
register!(Square as dyn Shape);
register!(Disc as dyn Shape);

#[test]
fn values_of_which_a_trait_alone_is_known_are_named_once_also_to_those_who_come_later() {
    let nodes = Nodes::over("shm", 3);
    let kind = PortType::one_to_many();
    let mut early = nodes.all[1].receive_port::<Vec<Box<dyn Shape>>>("shapes", &kind).unwrap();
    let mut late = nodes.all[2].receive_port::<Vec<Box<dyn Shape>>>("shapes", &kind).unwrap();
    let mut port = nodes.all[0].send_port::<Vec<Box<dyn Shape>>>(&kind).unwrap();
    port.connect_to(nodes.all[1].id(), "shapes", LONG).unwrap();
    let square = || Box::new(Square(2.0)) as Box<dyn Shape>;
    let disc = || Box::new(Disc { radius: 1.0 }) as Box<dyn Shape>;
    port.send(&vec![square()]).unwrap();
    port.connect_to(nodes.all[2].id(), "shapes", LONG).unwrap();
    port.send(&vec![square(), disc()]).unwrap();
    let many = || (0..1000).map(|at| if at % 2 == 0 { square() } else { disc() }).collect();
    port.send(&many()).unwrap();
    port.send(&vec![disc()]).unwrap();
    let areas = |sink: &mut egret_node::port::ReceivePort<Vec<Box<dyn Shape>>>| {
        let shapes = sink.receive(LONG).unwrap().value;
        shapes.iter().map(|shape| shape.area()).sum::<f64>()
    };
    assert!((areas(&mut early) - 4.0).abs() < 1e-9);
    for sink in [&mut early, &mut late] {
        assert!((areas(sink) - 7.0).abs() < 1e-9);
        assert!((areas(sink) - 3500.0).abs() < 1e-9);
        assert!((areas(sink) - 3.0).abs() < 1e-9);
    }
}

#[test]
fn a_value_that_explains_its_types_is_read_beside_values_that_do_not() {
    let nodes = Nodes::over("shm", 2);
    let kind = PortType::one_to_many();
    let open = |node: &Node| node.receive_port::<Vec<Box<dyn Shape>>>("shapes", &kind).unwrap();
    let (mut near, mut far) = (open(&nodes.all[0]), open(&nodes.all[1]));
    let mut port = nodes.all[0].send_port::<Vec<Box<dyn Shape>>>(&kind).unwrap();
    let square = || Box::new(Square(2.0)) as Box<dyn Shape>;
    port.connect_to(nodes.all[1].id(), "shapes", LONG).unwrap();
    port.send(&vec![square()]).unwrap(); // by names that were told
    let mut message = port.message();
    message.write(&vec![square(), square()]).unwrap();
    message.finish().unwrap(); // by names in it
    port.connect_to(nodes.all[0].id(), "shapes", LONG).unwrap();
    port.send(&vec![square()]).unwrap(); // the same, for a port of this node is told no names
    for (sink, lens) in [(&mut far, &[1, 2, 1][..]), (&mut near, &[1][..])] {
        for len in lens {
            assert_eq!(sink.receive(LONG).unwrap().len(), *len);
        }
    }
}

#[test]
fn a_message_that_does_not_go_on_is_given_up_and_the_next_is_received() {
    let registry = Nodes::over("shm", 1);
    let join = |deadline| {
        let config = registry.registry.config().fabrics("shm").deadline(deadline);
        Node::join(config).unwrap()
    };
    let (from, to) = (join(LONG), join(Deadline::In(std::time::Duration::from_secs(5))));
    let kind = PortType::one_to_one();
    let mut sink = to.receive_port::<Vec<u64>>("slow", &kind).unwrap();
    let mut port = from.send_port::<Vec<u64>>(&kind).unwrap();
    port.connect("slow", LONG).unwrap();
    let mut message = port.message();
    // More than a short message, and less than what leaves by itself.
    message.write(&vec![1_u64; 1_000]).unwrap();
    let late = sink.receive(LONG).unwrap_err();
    assert!(matches!(late, PortError::TimedOut { .. }), "{late}");
    message.finish().unwrap();
    let sender = crate::spawn(move || {
        port.send(&vec![2; 2_000]).unwrap();
        port.send(&vec![3; 2_000]).unwrap();
        port
    });
    assert_eq!(sink.receive(LONG).unwrap().value, vec![2; 2_000]);
    assert_eq!(sink.receive(LONG).unwrap().value, vec![3; 2_000]);
    drop(sender.join().unwrap());
}

#[test]
fn unreliable_messages_are_small_and_never_wait() {
    everywhere(|from, to| {
        let state = PortType::one_to_one().unreliable().window(8);
        let (mut port, mut sink) = connected::<Vec<u8>>((from, to), &state);
        // Nobody reads: what finds no room is lost, and sending goes on.
        for number in 0..100 {
            port.send(&vec![number; 10]).unwrap();
        }
        let mut last = sink.receive(LONG).unwrap().sequence;
        while let Ok(got) = sink.receive(SHORT) {
            assert!(got.sequence > last, "none comes twice, and on these fabrics in order");
            last = got.sequence;
        }
        let large = port.send(&vec![0; DATAGRAM_MAX + 1]).unwrap_err();
        assert!(matches!(large, PortError::TooLarge { .. }), "{large}");
    });
}

#[test]
fn a_future_has_whole_messages() {
    let nodes = Nodes::over("shm", 2);
    let kind = PortType::one_to_one();
    let (mut port, mut sink) = connected::<Vec<u32>>((&nodes.all[0], &nodes.all[1]), &kind);
    let sender = crate::spawn(move || {
        for len in [3, 50_000, 0] {
            port.send(&vec![5; len]).unwrap();
        }
    });
    let links = nodes.all[1].links()[0].1.clone();
    for len in [3, 50_000, 0] {
        let got = links.wait_on(sink.next(), LONG).expect("in time").unwrap();
        assert_eq!(got.value, vec![5; len]);
    }
    sender.join().unwrap();
    assert!(
        links.wait_on(sink.next(), Deadline::In(std::time::Duration::from_millis(10))).is_none()
    );
}

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Station {
    number: u64,
    next: Option<Ref<Station>>,
}

#[test]
fn graphs_arrive_as_the_memory_they_are() {
    everywhere(|from, to| {
        let (mut port, mut sink) = connected::<()>((from, to), &PortType::one_to_one().graphs());
        let mut line = Graph::<Station>::build(|graph| {
            let first = graph.insert(Station { number: 0, next: None });
            let mut last = first;
            for number in 1..5_000 {
                let next = graph.insert(Station { number, next: None });
                graph[last].next = Some(next);
                last = next;
            }
            graph[last].next = Some(first); // a circle
            first
        });
        let sender = crate::spawn(move || {
            let mut message = port.message();
            message.write("a circle line").unwrap();
            message.write_graph(&mut line).unwrap();
            message.finish().unwrap();
            port
        });
        let mut message = sink.receive_message(LONG).unwrap();
        assert_eq!(message.read::<String>().unwrap(), "a circle line");
        let mut line = message.graph::<Station>().unwrap();
        let (mut at, mut sum) = (line.root_ref(), 0);
        for _ in 0..5_000 {
            sum += line[at].number;
            at = line[at].next.unwrap();
        }
        assert_eq!((at, sum), (line.root_ref(), 4_999 * 2_500));
        line.root_mut().number = 7; // it is the receiver's
        drop(message);
        drop(sender.join().unwrap());
    });
}
