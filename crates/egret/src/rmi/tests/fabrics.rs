//! Over which fabric calls go, and what becomes of those that need another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use egret_net::rt;
use egret_net::vi::Encrypt;
use egret_node::Links;
use egret_node::local;
use egret_node::node::{Config, Node, NodeError, NodeHandle, Property, Requirement};
use egret_node::registry::{Registry, RegistryOptions};

use crate::rmi::exchange::Exchange;
use crate::rmi::{CallError, Export, ObjectRef, Remoting};

#[crate::remote]
trait Counts {
    fn add(&self, more: u64) -> u64;
}

#[derive(Clone, Default)]
struct Counter(Arc<AtomicU64>);

#[crate::remote]
impl Counts for Counter {
    fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, Relaxed) + more
    }
}

fn over<'a>(node: &'a NodeHandle, fabric: &str) -> &'a Links {
    &node.links().iter().find(|(name, _)| name == fabric).unwrap().1
}

/// The fabrics over which a node is connected for its calls.
fn connected(node: &NodeHandle) -> Vec<String> {
    let exchange = Exchange::of(node);
    let all = node.members().into_iter().flat_map(|member| {
        let names = member.fabrics.into_iter().map(|offer| offer.fabric);
        names.map(move |fabric| (member.id, fabric)).collect::<Vec<_>>()
    });
    let connected = all.filter(|(id, fabric)| exchange.connection(*id, fabric).is_some());
    connected.map(|(_, fabric)| fabric).collect()
}

/// Two nodes of which this is said, over fabrics that encrypt nothing.
fn open_pool(fabrics: [&str; 2]) -> (Registry, [Node; 2]) {
    let options = RegistryOptions::new("fabrics", 2).secret("hush".into());
    let registry = Registry::open(options).unwrap();
    let join = |fabrics: &str| {
        let config: Config = registry.config().fabrics(fabrics).encrypt(Encrypt::Never);
        Node::join(config).unwrap()
    };
    let nodes = fabrics.map(join);
    nodes.iter().for_each(|node| node.wait_all(SOON).unwrap());
    (registry, nodes)
}

fn private() -> Export {
    Export::default().require(Property::PRIVATE)
}

#[test]
fn stubs_that_prefer_a_fabric_share_its_connection() {
    let pool = local::pool(2).unwrap();
    let (server, client) = (&pool[0], &pool[1]);
    let exported = server.export_with(Counter::default(), private()).unwrap();
    exported.bind("counter").unwrap();
    let tcp = Requirement::default().prefer("tcp");
    let first: CountsStub = client.lookup_with("counter", &tcp, SOON).unwrap();
    assert_eq!(first.add(1), Ok(1));
    assert_eq!(connected(client), ["tcp"]);
    assert_eq!(&first.object(), exported.object(), "the preference is no part of the object");
    let made = over(client, "tcp").counters().made;
    let other = tcp.clone().require(Property::RELIABLE);
    let stubs =
        [&tcp, &other].map(|how| -> CountsStub { client.stub_with(exported.object(), how) });
    assert_eq!(stubs.each_ref().map(|stub| stub.add(1)), [Ok(2), Ok(3)]);
    let pairs = [tcp, other].map(|how| {
        let how = Requirement::from(Property::PRIVATE).and(&how);
        Exchange::of(client).pair(client, server.id(), how).there().unwrap()
    });
    assert!(Arc::ptr_eq(&pairs[0], &pairs[1]));
    assert_eq!(
        (connected(client), over(client, "tcp").counters().made),
        (vec!["tcp".to_owned()], made)
    );
    let plain: CountsStub = client.lookup("counter", SOON).unwrap();
    assert_eq!(plain.add(1), Ok(4));
    assert_eq!(connected(client), ["shm", "tcp"]);
    drop(pairs);
    // A link that ends takes the connections of all pairs over it along; the next calls make another.
    let host = server.member(server.id()).unwrap().fabrics[1].host.clone();
    over(client, "tcp").end_link(&host, "it is pulled");
    let until = rt::now() + SOON;
    while first.add(0).is_err() || stubs[1].add(0).is_err() {
        assert!(rt::now() < until, "no other link");
    }
    assert_eq!(connected(client), ["shm", "tcp"]);
}

#[test]
fn an_object_is_called_over_what_it_requires_alone() {
    let (_registry, [server, client]) = open_pool(["tcp,shm", "tcp,shm"]);
    let counter = Counter::default();
    let exported = server.export_with(counter.clone(), private()).unwrap();
    let object = exported.object();
    let tcp = Requirement::default().prefer("tcp");
    let stub: CountsStub = client.stub_with(object, &tcp);
    assert_eq!(stub.add(1), Ok(1));
    assert_eq!(connected(&client), ["shm"], "what is preferred does not give what is required");
    // A reference that was sent on still has the requirement.
    let sent: ObjectRef = egret_stream::read(&object.to_bytes()).unwrap();
    assert_eq!((&sent, &stub.object()), (object, object));
    let here: CountsStub = server.stub(&sent);
    assert_eq!(here.add(1), Ok(2), "the node's own calls take no fabric");
    // A caller that leaves it out is refused by the object's node.
    let bare = ObjectRef { requirement: Requirement::default(), ..sent };
    let stub: CountsStub = client.stub(&bare);
    let why = stub.add(1).unwrap_err();
    assert!(matches!(&why, CallError::Unsuitable { .. }), "{why}");
    let text = "the call of `Counts::add` of node 0#1 has not run, for the fabric that it needs: tcp does not give \
                private=true";
    assert_eq!(why.to_string(), text);
    assert!(matches!(stub.begin().add(1).wait(), Err(CallError::Unsuitable { .. })));
    assert_eq!(connected(&client), ["tcp", "shm"]);
    assert_eq!(counter.0.load(Relaxed), 2);
}

#[test]
fn what_no_fabric_gives_is_told_before_anything_is_connected() {
    let (_registry, [server, client]) = open_pool(["tcp,shm", "tcp"]);
    let refused = client.export_with(Counter::default(), private()).unwrap_err();
    let CallError::Registry(NodeError::Unsuitable { node, fabrics, .. }) = &refused else {
        panic!("{refused}")
    };
    let told = "it has private=false, and private=true is required";
    assert_eq!((*node, &fabrics[0]), (client.id(), &("tcp".to_owned(), told.to_owned())));
    let exported = server.export_with(Counter::default(), private()).unwrap();
    exported.bind("counter").unwrap();
    let made = over(&client, "tcp").counters().made;
    let refused = client.lookup::<CountsStub>("counter", SOON).unwrap_err();
    assert!(matches!(&refused, CallError::Registry(NodeError::Unsuitable { .. })), "{refused}");
    let stub: CountsStub = client.stub(exported.object());
    for refused in [stub.add(1).unwrap_err(), stub.begin().add(1).wait().unwrap_err()] {
        let text = refused.to_string();
        assert!(matches!(refused, CallError::Unsuitable { .. }), "{text}");
        let all = [told, "tcp: ", "shm: this node does not use it", "`Counts::add` of node 0#1"];
        assert!(all.iter().all(|part| text.contains(part)), "{text}");
    }
    assert!(connected(&client).is_empty());
    assert_eq!(over(&client, "tcp").counters().made, made);
}

#[test]
fn calls_go_over_the_next_fabric_if_one_does_not_connect() {
    let pool = local::pool(2).unwrap();
    let (server, client) = (&pool[0], &pool[1]);
    let exported = server.export(Counter::default()).unwrap();
    over(server, "shm").close();
    let stub: CountsStub = client.stub(exported.object());
    assert_eq!(stub.add(1), Ok(1));
    assert_eq!(connected(client), ["tcp"]);
    let told = client.explain(server.id()).unwrap().to_string();
    assert!(told.starts_with("rank 0: tcp, because shm failed to connect: "), "{told}");
    let near = Requirement::from(Property::SAME_MACHINE);
    let stub: CountsStub = client.stub_with(exported.object(), &near);
    let why = stub.with_deadline(Duration::from_millis(500)).add(1).unwrap_err();
    assert!(
        !matches!(why, CallError::Unsuitable { .. }),
        "it gives that, and does not connect: {why}"
    );
}

#[test]
fn calls_that_do_not_wait_long_go_over_the_next_fabric_as_well() {
    let pool = local::pool(2).unwrap();
    let (server, client) = (&pool[0], &pool[1]);
    let exported = server.export(Counter::default()).unwrap();
    let caller = client.member(client.id()).unwrap();
    over(server, "shm").disallow(&caller.fabrics[0].host, caller.key());
    let stub: CountsStub = client.stub(exported.object());
    let (stub, started) = (stub.with_deadline(Duration::from_secs(2)), rt::now());
    let late = stub.add(1).unwrap_err();
    assert!(matches!(late, CallError::Deadline { may_have_run: false, .. }), "{late}");
    while stub.add(1).is_err() {
        assert!(rt::now() - started < SOON, "it never goes over tcp");
    }
    assert_eq!(connected(client), ["tcp"]);
}

const SOON: Duration = Duration::from_secs(30);
