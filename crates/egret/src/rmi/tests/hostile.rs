//! What a stranger may send to an object: words and bytes that no stub sends, over a link.

use std::sync::Arc;
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline};
use egret_net::vi::Nic;
use egret_node::am::{Call, CallReply, EndpointName, Message, RemoteEndpoint};
use egret_node::node::{Node, Property, Requirement};
use egret_node::registry::{Registry, RegistryOptions};
use egret_node::{Links, LinksOptions};

use crate::rmi::answer::{AnswerError, open};
use crate::rmi::callee::fabrics::FabricNeeds;
use crate::rmi::callee::load::CallLoad;
use crate::rmi::callee::object::ExportedObject;
use crate::rmi::callee::objects::{CALL, ENDPOINTS, MEET, ObjectTable};
use crate::rmi::context::Inherited;
use crate::rmi::fault::{Fault, caught};
use crate::rmi::fuzzing;
use crate::rmi::head::{AnswerCode, CallAddress, CallHead, EnclosingCalls, WORDS_MAX};
use crate::rmi::interface_table::{InterfaceReply, MethodReply};
use crate::rmi::threads::workers::Workers;
use crate::rmi::{CallError, Exports, NodeId, ObjectRef, Remoting};

/// What a stranger calls.
#[crate::remote]
trait Target {
    #[nonblocking]
    fn quick(&self, x: u64) -> u64;
    #[nonblocking]
    fn sum(&self, all: &[f64]) -> f64;
}

/// The same, without an attribute.
#[crate::remote]
trait Plain {
    fn plain(&self) -> u64;
}

struct It;

#[crate::remote]
impl Target for It {
    fn quick(&self, x: u64) -> u64 {
        x + 1
    }
    fn sum(&self, all: &[f64]) -> f64 {
        all.iter().sum()
    }
}

#[crate::remote]
impl Plain for It {
    fn plain(&self) -> u64 {
        1
    }
}

/// A stranger with an object before it.
struct Scene {
    nic: Nic,
    links: [Links; 2],
    remote: RemoteEndpoint,
    object: Arc<ExportedObject>,
    plain: Arc<ExportedObject>,
    /// An object that is not called over the fabric of the scene.
    choosy: Arc<ExportedObject>,
    workers: Arc<Workers>,
    _endpoints: [egret_node::am::Endpoint; 3],
    _sim: Sim,
}

impl Scene {
    fn new() -> Self {
        let sim = Sim::new(7);
        let open = |nic: &Nic| Links::open(nic.clone(), LinksOptions::default()).unwrap();
        let (nic, other) = (sim.nic("here"), sim.nic("there"));
        let (here, there) = (open(&nic), open(&other));
        let (workers, load) = (Arc::new(Workers::new(0, 1)), Arc::new(CallLoad::new(1)));
        let objects =
            Arc::new(ObjectTable::new(NodeId { rank: 0, incarnation: 0 }, &workers, &load, 64));
        let object = objects.add(Exports::<dyn Target>::held(It), 100, None).unwrap();
        let plain = objects.add(Exports::<dyn Plain>::held(It), 100, None).unwrap();
        let needs = FabricNeeds::of(&Requirement::from(Property::PRIVATE), &[]);
        let choosy = objects.add(Exports::<dyn Target>::held(It), 100, needs).unwrap();
        let [served, within] = objects.endpoints((&there, 0), 1, |_| {});
        served.register(ENDPOINTS[0]).unwrap();
        let client = here.bundle().endpoint(0);
        let to = EndpointName::new("there", ENDPOINTS[0], 1);
        let mut mapping = client.map(&to, &[], Deadline::DEFAULT);
        let links = [here, there];
        let remote = until(&nic, &links, &mut mapping).unwrap();
        let _endpoints = [served, within, client];
        Self { nic, links, remote, object, plain, choosy, workers, _endpoints, _sim: sim }
    }

    /// The words of a call of a method, with others behind them.
    fn words(&self, method: u8, more: &[u64]) -> Vec<u64> {
        Self::words_to(&self.object, method, more)
    }

    fn words_to(object: &ExportedObject, method: u8, more: &[u64]) -> Vec<u64> {
        let (object, interface) = (object.number, object.interface);
        let to = CallAddress { object, interface, method, handler: CALL, version: 0 };
        let deadline = Deadline::In(Duration::from_millis(1));
        let within = EnclosingCalls::default();
        let head = CallHead { to, deadline, chain: 5, number: 0, within, version: None };
        let mut words = [0; WORDS_MAX];
        let count = head.write(&mut words);
        [&words[..count], more].concat()
    }

    /// What a call of a method is answered.
    fn call(&self, method: u8, bytes: &[u8]) -> CallReply {
        self.ask(CALL, &self.words(method, &[]), bytes)
    }

    /// What the node answers to some words and bytes.
    fn ask(&self, handler: u8, words: &[u64], bytes: &[u8]) -> CallReply {
        let message = Message::to(handler).words(words).bytes(bytes);
        let mut call = self.remote.try_request(message).unwrap();
        until(&self.nic, &self.links, &mut call).unwrap()
    }
}

fn until<F: Future + Unpin>(nic: &Nic, links: &[Links; 2], future: &mut F) -> F::Output {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    loop {
        let seen = nic.poll();
        links.iter().for_each(Links::poll);
        let polled = Pin::new(&mut *future).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = polled {
            return output;
        }
        nic.wait(seen, Some(rt::now() + Duration::from_millis(10)));
    }
}

/// A caller may leave out of the reference what the object requires.
#[test]
fn a_call_over_a_fabric_that_the_object_does_not_take_is_refused() {
    let check = || {
        let scene = Scene::new();
        let reply = scene.ask(CALL, &Scene::words_to(&scene.choosy, 0, &[]), &41_u64.to_le_bytes());
        match open::<u64>(reply.words(), reply.bytes(), usize::MAX) {
            Err(AnswerError::Error(CallError::Unsuitable { why, .. })) => {
                assert_eq!(why, "it is none of the object's node");
            }
            other => panic!("{other:?}"),
        }
    };
    check();
    assert!(caught(Fault::AnyFabric, check));
}

/// A thread that waits for a call runs calls that are a part of it, which have the number of its chain.
/// Who does not know the number has others run by workers, whatever is said of them.
#[test]
fn a_thread_that_waits_runs_no_call_whose_chain_was_guessed() {
    guesses_of_a_chain();
    assert!(caught(Fault::ServesOthers, guesses_of_a_chain));
}

fn guesses_of_a_chain() {
    let scene = Scene::new();
    scene.workers.lend();
    let [before, mine] = [(); 2].map(|()| Inherited::by(Deadline::UntilDead));
    let chain = mine.chain;
    let guesses = [0, 1, u64::MAX, before.chain, before.chain + 1, chain ^ 1, chain << 1, !chain];
    let begin = |chain: u64| {
        let (object, interface) = (scene.plain.number, scene.plain.interface);
        let to = CallAddress { object, interface, method: 0, handler: CALL, version: 0 };
        let (deadline, within) = (Deadline::UntilDead, EnclosingCalls::default());
        let head = CallHead { to, deadline, chain, number: 0, within, version: None };
        let mut words = [0; WORDS_MAX];
        let count = head.write(&mut words);
        scene.remote.try_request((CALL, &words[..count])).unwrap()
    };
    // What comes of calls while the thread drives for a while.
    let driven = |calls: &mut [Call]| -> Vec<bool> {
        for _ in 0..100 {
            scene.nic.wait(scene.nic.poll(), Some(rt::now() + Duration::from_micros(10)));
            scene.links.iter().for_each(Links::poll);
        }
        calls.iter_mut().map(|call| call.poll_reply().is_some()).collect()
    };
    let mut guessed = guesses.map(begin);
    assert_eq!(mine.away(|| driven(&mut guessed)), [false; 8], "it was run");
    assert_eq!(mine.away(|| driven(&mut [begin(chain)])), [false], "others wait for a worker");
    while scene.workers.run_one() {}
    assert_eq!(driven(&mut guessed), [true; 8]);
    assert_eq!(mine.away(|| driven(&mut [begin(chain)])), [true], "it was left to a worker");
}

#[test]
fn words_and_bytes_of_a_stranger_get_errors() {
    let scene = Scene::new();
    let said = |reply: &CallReply| open::<u64>(reply.words(), reply.bytes(), usize::MAX);
    assert_eq!(said(&scene.call(0, &41_u64.to_le_bytes())).unwrap(), 42);
    let unreadable = |reply: &CallReply| match said(reply) {
        Err(AnswerError::Error(CallError::Unreadable { .. })) => {}
        other => panic!("{other:?}"),
    };
    unreadable(&scene.ask(CALL, &[], &41_u64.to_le_bytes()));
    for bytes in [&[][..], &[1; 7], &[1; 9], &[255; 100]] {
        unreadable(&scene.call(0, bytes));
        unreadable(&scene.ask(CALL, &scene.words(1, &[7, 8, 9]), bytes));
    }
    // A length of four billion elements takes no memory.
    unreadable(&scene.call(1, &[0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0]));
    let large = scene.call(0, &[0; 101]);
    assert_eq!(large.words(), [AnswerCode::TooLarge as u64, 101, 100]);
    // Chains and deadlines that no caller has.
    let unknown = said(&scene.ask(CALL, &[u64::MAX; 16], &1_u64.to_le_bytes()));
    assert!(matches!(unknown, Err(AnswerError::Error(CallError::UnknownObject { .. }))));
    // A version of the types that nobody has described.
    for version in [1, u64::MAX] {
        let mut words = scene.words(0, &[version]);
        words[0] |= 1 << 62;
        unreadable(&scene.ask(CALL, &words, &1_u64.to_le_bytes()));
    }
    let mut odd = [u64::MAX; 16];
    odd[..3].copy_from_slice(&scene.words(0, &[]));
    odd[0] |= 1 << 63 | ((1 << 40) - 1);
    assert_eq!(said(&scene.ask(CALL, &odd, &1_u64.to_le_bytes())).unwrap(), 2);
    // The object is as it was.
    assert_eq!(said(&scene.call(0, &1_u64.to_le_bytes())).unwrap(), 2);
}

#[test]
fn a_stranger_that_guesses_finds_no_object_and_no_method() {
    let scene = Scene::new();
    let said = |words: &[u64]| {
        let reply = scene.ask(CALL, words, &1_u64.to_le_bytes());
        open::<u64>(reply.words(), reply.bytes(), usize::MAX)
    };
    let right = scene.words(0, &[]);
    assert_eq!(said(&right).unwrap(), 2);
    // Any other object: at the same place, at others, at none.
    for change in [1 << 24, 1 << 63, 1, 0xFF_FFFF, u64::MAX] {
        let mut words = right.clone();
        words[2] ^= change;
        let refused = said(&words);
        assert!(
            matches!(refused, Err(AnswerError::Error(CallError::UnknownObject { .. }))),
            "{change:x}: {refused:?}"
        );
    }
    // Another interface, though the methods would fit.
    for interface in [1, 2, 0x3FFF] {
        let mut words = right.clone();
        words[0] ^= interface << 48;
        let refused = said(&words);
        assert!(
            matches!(&refused, Err(AnswerError::OtherInterface(theirs)) if theirs == "Target"),
            "{interface}: {refused:?}"
        );
    }
    for method in [2, 3, 255] {
        let refused = said(&scene.words(method, &[]));
        assert!(
            matches!(refused, Err(AnswerError::Error(CallError::UnknownMethod { .. }))),
            "{method}: {refused:?}"
        );
    }
    // What it needs of an interface that there is not, or cannot be read.
    for (words, bytes) in [(&[0][..], &[255; 40][..]), (&[], &[]), (&[u64::MAX], &[0; 8])] {
        let reply = scene.ask(MEET, words, bytes);
        let met: InterfaceReply = egret_stream::read(reply.bytes()).unwrap();
        assert!(matches!(met, InterfaceReply::UnknownInterface), "{met:?}");
    }
    assert_eq!(said(&right).unwrap(), 2, "the object is as it was");
}

#[test]
fn an_answer_that_never_comes_is_told_as_that() {
    let registry = Registry::open(RegistryOptions::new("lost", 2).secret("hush".into())).unwrap();
    let join = || {
        let config = registry.config();
        Node::join(config.fabrics("shm")).unwrap()
    };
    let (server, client) = (join(), join());
    // It is met as a node with an object, and drops what it is asked.
    let endpoints = ENDPOINTS.map(|name| {
        let bundle = server.links()[0].1.bundle();
        let endpoint = bundle.register(name, server.id().incarnation).unwrap();
        endpoint.on(CALL, |request| drop(request.later()));
        endpoint.on(MEET, |request| {
            let methods = vec![MethodReply::Same(0), MethodReply::Same(1)];
            let met = InterfaceReply::Methods { methods, has_gate: false };
            let mut writer = egret_stream::Writer::new();
            writer.write(&met).unwrap();
            request.reply_with(Message::answer().bytes(&writer.to_vec()));
        });
        endpoint
    });
    let (node, interface) = (server.id(), "Target".to_owned());
    let object = ObjectRef {
        node,
        interface,
        number: 9,
        kind: 5,
        bytes_max: 100,
        requirement: Requirement::default(),
    };
    let stub: TargetStub = client.stub(&object);
    let refused = stub.quick(1).unwrap_err();
    assert!(matches!(refused, CallError::NoAnswer { node: of, .. } if of == node), "{refused:?}");
    let refused = stub.begin().quick(1).wait().unwrap_err();
    assert!(matches!(refused, CallError::NoAnswer { node: of, .. } if of == node), "{refused:?}");
    assert!(refused.to_string().contains(&node.to_string()), "{refused}");
    drop(endpoints);
}

#[test]
fn any_request_is_answered() {
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..20_000 {
        let few = [2, 4, 20, 256][usize::try_from(next(4)).unwrap()];
        let len = next(300);
        let input: Vec<u8> = (0..len).map(|_| u8::try_from(next(few)).unwrap()).collect();
        fuzzing::request(&input);
    }
}

/// Schemas that differ a little from those of the methods, and any arguments.
#[test]
fn any_schema_is_answered() {
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % below
    };
    for _ in 0..5_000 {
        let method = next(5);
        let text = fuzzing::schema(method);
        let mut lines: Vec<&str> = text.lines().collect();
        for _ in 0..next(3) {
            let (one, other) = (next(lines.len()), next(lines.len()));
            match next(4) {
                0 => lines.swap(one, other),
                1 => lines.insert(one, lines[other]),
                2 if lines.len() > 1 => drop(lines.remove(one)),
                _ => {
                    lines.push(["  0: u8", "    more: string", "  9: f64", "      x: u8"][next(4)]);
                }
            }
        }
        let args = (0..next(100)).map(|_| u8::try_from(next(3)).unwrap());
        let args: Vec<u8> = args.collect();
        let start = [u8::try_from(method).unwrap(), 0];
        fuzzing::request(&[&start[..], lines.join("\n").as_bytes(), b"\n\0", &args].concat());
    }
}

#[test]
fn answers_of_a_stranger_get_errors() {
    let refused = |words: &[u64], bytes: &[u8]| open::<u64>(words, bytes, usize::MAX).unwrap_err();
    for words in [&[14][..], &[u64::MAX], &[99, 1, 2]] {
        assert!(matches!(refused(words, &[]), AnswerError::Error(CallError::Unreadable { .. })));
    }
    assert!(matches!(refused(&[], &[1; 7]), AnswerError::Error(CallError::Unreadable { .. })));
    let panicked = refused(&[AnswerCode::Panicked as u64], &[0xff; 3000]);
    match panicked {
        AnswerError::Error(CallError::Panicked { message, .. }) => {
            assert!(message.len() <= 3 * 1024);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        refused(&[AnswerCode::TooLarge as u64], &[]),
        AnswerError::Error(CallError::TooLarge { bytes: 0, most: 0, .. })
    ));
}
