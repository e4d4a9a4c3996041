//! Several nodes in one process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Deadline};
use egret_net::vi::{ConnectError, ViOptions};
use egret_node::am::EndpointName;
use egret_node::channel::Post;
use egret_node::node::{Departure, Event, JoinError, Node, NodeError, RegistryRefusal};
use egret_node::registry::{Registry, RegistryOptions};

use super::{LONG, SOON, config, join, registry};

#[test]
fn two_nodes_of_one_process_find_each_other_and_talk() {
    let registry = registry(2);
    let (a, b) = (join(&registry), join(&registry));
    a.wait_all(SOON).unwrap();
    assert_eq!((a.rank(), b.rank(), a.size(), a.pool()), (0, 1, 2, "test"));
    let ids: Vec<_> = a.members().iter().map(|member| member.id).collect();
    assert_eq!(ids, [a.id(), b.id()]);
    for fabric in ["shm", "tcp"] {
        let (_, links) = b.links().iter().find(|(name, _)| name == fabric).unwrap();
        let served = links.bundle().register("echo", 7).unwrap();
        served.on(0, |request| {
            let words = request.words();
            request.reply(words);
        });
        let (_, own) = a.links().iter().find(|(name, _)| name == fabric).unwrap();
        let mine = own.bundle().endpoint(0);
        let to = EndpointName::new(links.host(), "echo", 7);
        let remote = mine.wait_map(&to, SOON).unwrap();
        assert_eq!(remote.wait_call((0, &[42]), SOON).unwrap().words(), [42]);
    }
    let route = a.route(b.id()).unwrap();
    assert_eq!(route.fabric, "shm");
    route.links.wait_connect(&route.host, SOON).unwrap();
    assert_eq!(a.route(a.id()).unwrap_err(), NodeError::Oneself);
}

#[test]
fn a_connection_beside_the_links_is_with_the_member_that_it_is_for() {
    let registry = registry(3);
    let (a, b, c) = (join(&registry), join(&registry), join(&registry));
    [&a, &b].iter().for_each(|node| node.wait_all(SOON).unwrap());
    let [to, from, other] = [a.route(b.id()), b.route(a.id()), b.route(c.id())].map(Result::unwrap);
    let key = |node: &Node| node.member(node.id()).unwrap().key();
    assert_eq!(to.key, key(&b));
    let options = ViOptions::default();
    let listener = from.links.nic().listen("beside", 0, &options).unwrap();
    let connecting = to.links.nic().connect(&to.address("beside", 0), &options, SOON);
    let accepted = listener.wait_accept(SOON).unwrap();
    let connected = to.links.nic().block_on(connecting).unwrap();
    assert!(from.is_with(&accepted) && to.is_with(&connected));
    assert!(!other.is_with(&accepted), "another member has another key");
    let wrong = to.address("beside", 0).key(key(&c).unwrap());
    let refused = to.links.nic().connect(&wrong, &options, SOON);
    let refused = to.links.nic().block_on(refused).unwrap_err();
    let is_stranger = matches!(refused, ConnectError::OtherSecretOrKey);
    assert!(is_stranger || refused.is_key_refused(), "{refused}");
}

#[test]
fn the_longest_name_stands_for_as_many_bytes_as_may_be() {
    let registry = registry(1);
    let (node, name) = (join(&registry), "n".repeat(255));
    node.bind(&name, &[7; 3 << 10]).unwrap();
    assert_eq!(node.bound(&name).unwrap().unwrap().bytes, [7; 3 << 10]);
    let more = node.bind("more", &[7; (3 << 10) + 1]).unwrap_err();
    assert!(
        matches!(more, NodeError::Refused(RegistryRefusal::TooLarge { most: 3072, .. })),
        "{more}"
    );
}

#[test]
fn names_are_bound_looked_up_waited_for_and_gone_with_their_node() {
    let registry = registry(2);
    let (a, b) = (join(&registry), join(&registry));
    assert_eq!(a.bound("one").unwrap(), None);
    b.bind("one", b"1").unwrap();
    let found = a.bound("one").unwrap().unwrap();
    assert_eq!((found.owner, found.bytes), (b.id(), b"1".to_vec()));
    let taken = NodeError::NameTaken { name: "one".to_owned(), owner: b.id() };
    let long = a.wait_bound(&"x".repeat(256), SOON).unwrap_err();
    assert!(
        matches!(long, NodeError::Refused(RegistryRefusal::TooLarge { most: 255, .. })),
        "{long}"
    );
    assert_eq!(a.bind("one", b"2").unwrap_err(), taken);
    assert_eq!(a.unbind("one", b"1").unwrap_err(), taken);
    a.rebind("one", b"2").unwrap();
    assert_eq!(b.bound("one").unwrap().unwrap().owner, a.id());
    assert!(!a.unbind("one", b"1").unwrap());
    assert!(a.unbind("one", b"2").unwrap());
    assert!(!a.unbind("one", b"2").unwrap());
    let late = a.wait_bound("never", Deadline::In(std::time::Duration::from_millis(20)));
    assert!(matches!(late, Err(NodeError::NotBound { .. })), "{late:?}");
    let handle = b.handle();
    let binder = rt::spawn("binder", move || handle.bind("two", b"x")).unwrap();
    assert_eq!(a.wait_bound("two", SOON).unwrap().bytes, b"x");
    binder.join().unwrap().unwrap();
    b.leave(SOON).unwrap();
    assert_eq!(a.bound("two").unwrap(), None);
}

#[test]
fn a_wait_for_a_name_of_a_gone_node_fails_at_once() {
    let registry = registry(3);
    let (a, b, c) = (join(&registry), join(&registry), join(&registry));
    let (left, died) = (b.id(), c.id());
    b.bind("kept", b"1").unwrap();
    b.bind("taken back", b"2").unwrap();
    b.unbind("taken back", b"2").unwrap();
    c.bind("lost", b"3").unwrap();
    // While its last owner is there it may bind the name again.
    let handle = a.handle();
    let waits = move || handle.wait_bound("taken back", Deadline::UntilDead);
    let waiter = rt::spawn("waiter", waits).unwrap();
    b.leave(SOON).unwrap();
    let gone =
        |name: &str, owner, fate| Err(NodeError::OwnerGone { name: name.into(), owner, fate });
    assert_eq!(waiter.join().unwrap(), gone("taken back", left, Departure::Left));
    let kept = a.wait_bound("kept", Deadline::UntilDead);
    assert_eq!(kept, gone("kept", left, Departure::Left));
    assert_eq!(a.bound("kept"), Ok(None), "who does not wait is told what is");
    // A name that nobody ever had may come of whoever is there.
    let handle = a.handle();
    let waits = move || handle.wait_bound("nobody's", Deadline::UntilDead);
    let waiter = rt::spawn("waiter", waits).unwrap();
    registry.ended(died.rank, "it was shot");
    let fate = Departure::Died { why: "it was shot".into() };
    assert_eq!(a.wait_bound("lost", Deadline::UntilDead), gone("lost", died, fate));
    let nobody = NodeError::NobodyLeft { name: "nobody's".into() };
    assert_eq!(waiter.join().unwrap(), Err(nobody.clone()));
    assert_eq!(a.wait_bound("nobody's", Deadline::UntilDead), Err(nobody));
    // Another life of the rank may bind what it likes.
    let b = join(&registry);
    assert_eq!(b.rank(), left.rank);
    let handle = a.handle();
    let waits = move || handle.wait_bound("kept", Deadline::UntilDead);
    let waiter = rt::spawn("waiter", waits).unwrap();
    b.bind("kept", b"4").unwrap();
    assert_eq!(waiter.join().unwrap().unwrap().owner, b.id());
}

#[test]
fn a_node_that_left_may_join_as_another_life() {
    let registry = registry(2);
    let (a, b) = (join(&registry), join(&registry));
    let before = b.id();
    b.leave(SOON).unwrap();
    assert_eq!(a.wait_fate(before, SOON), Some(Departure::Left));
    assert!(matches!(a.route(before), Err(NodeError::Gone { .. })));
    let b = join(&registry);
    assert_eq!(b.rank(), 1);
    assert!(b.id().incarnation > before.incarnation);
    let mut events = a.events();
    let seen: Vec<Event> = (0..4).map(|_| events.wait_next(SOON).unwrap()).collect();
    let mut told = registry.events();
    let same: Vec<Event> = (0..4).map(|_| told.wait_next(SOON).unwrap()).collect();
    assert_eq!(seen, same);
    let ids = seen.iter().map(|event| match event {
        Event::Joined(member) => (true, member.id),
        Event::Left(id) => (false, *id),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        ids.collect::<Vec<_>>(),
        [(true, a.id()), (true, before), (false, before), (true, b.id())]
    );
    assert_eq!(events.try_next(), None);
}

#[test]
fn the_registry_refuses_who_does_not_belong() {
    let registry = registry(1);
    let refused = |config| match Node::join(config) {
        Err(JoinError::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let own = || config(&registry);
    let other = egret_node::Config::new("other").registry(registry.address());
    assert_eq!(
        refused(other.secret(crate::SECRET.into())),
        RegistryRefusal::OtherPool { pool: "test".to_owned() }
    );
    assert_eq!(refused(own().size(2)), RegistryRefusal::OtherSize { size: 1 });
    assert_eq!(refused(own().rank(1)), RegistryRefusal::NoSuchRank { size: 1 });
    let node = Node::join(own().size(1).rank(0)).unwrap();
    assert_eq!(refused(own()), RegistryRefusal::PoolFull { size: 1 });
    assert_eq!(refused(own().rank(0)), RegistryRefusal::RankTaken { by: node.id() });
    let stranger = own().secret(egret_net::vi::Secret::random());
    assert!(matches!(Node::join(stranger), Err(JoinError::NoRegistry { .. })));
    // Whoever answers could guess it.
    let guess = Node::join(own().secret("guess".into()));
    assert!(matches!(guess, Err(JoinError::KeyUnknown { .. })), "{guess:?}");
}

#[test]
fn a_part_is_made_once_and_goes_with_its_node() {
    struct Part(Arc<AtomicU32>);
    impl egret_node::node::NodePart for Part {}
    impl Drop for Part {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let registry = registry(1);
    let node = join(&registry);
    let dropped = Arc::new(AtomicU32::new(0));
    let one = node.part(|| Part(Arc::clone(&dropped)));
    let two = node.part(|| -> Part { unreachable!("there is one") });
    assert!(Arc::ptr_eq(&one, &two));
    drop((one, two));
    let handle = node.handle();
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(node);
    assert_eq!(dropped.load(Ordering::Relaxed), 1, "a handle does not keep it");
    assert!(handle.bind("x", b"").is_err());
}

#[test]
fn a_name_is_taken_back_when_there_is_room_to_say_so() {
    let registry = registry(2);
    let (a, b) = (join(&registry), join(&registry));
    a.bind("old", b"1").unwrap();
    let mut waiting = Vec::new();
    loop {
        let mut asking = a.begin().bound("never", std::time::Duration::from_secs(3600));
        let polled = Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Pending => waiting.push(asking),
            Poll::Ready(Err(_)) => break,
            Poll::Ready(other) => panic!("{other:?}"),
        }
    }
    a.unbind_soon("old", b"1");
    assert!(b.bound("old").unwrap().is_some(), "there was room after {}", waiting.len());
    b.bind("never", b"now").unwrap();
    let end = rt::now() + LONG;
    while b.bound("old").unwrap().is_some() {
        assert!(rt::now() < end, "it was forgotten");
    }
}

#[test]
fn a_handler_does_not_wait_for_what_happens() {
    let registry = registry(2);
    let (a, b) = (join(&registry), join(&registry));
    a.wait_all(SOON).unwrap();
    let route = b.route(a.id()).unwrap();
    let (_, links) = a.links().iter().find(|(name, _)| *name == route.fabric).unwrap();
    let (served, handle) = (links.bundle().register("wait", 0).unwrap(), a.handle());
    served.on(0, move |request| {
        let mut events = handle.events();
        while events.wait_next(Deadline::UntilDead).is_ok() {}
        let fate = handle.wait_fate(handle.id(), Deadline::UntilDead);
        let asked = handle.wait_bound("nobody's", Deadline::UntilDead);
        request.reply(&[u64::from(fate.is_none() && asked.is_err())]);
    });
    let mine = route.links.bundle().endpoint(0);
    let remote = mine.wait_map(&EndpointName::new(&route.host, "wait", 0), SOON).unwrap();
    assert_eq!(remote.wait_call((0, &[]), SOON).unwrap().words(), [1]);
}

/// Notes until when it may take.
#[derive(Default)]
struct Timed(Arc<std::sync::Mutex<Option<rt::Instant>>>);

impl egret_node::node::NodePart for Timed {
    fn close(&self, until: rt::Instant) {
        *self.0.lock().unwrap() = Some(until);
    }
}

#[test]
fn what_a_node_keeps_ends_by_the_deadline_of_leaving() {
    let registry = registry(1);
    let node = join(&registry);
    let noted = Arc::clone(&node.part(Timed::default).0);
    let most = std::time::Duration::from_millis(200);
    let began = rt::now();
    // Whether the registry answers in time does not matter here.
    drop(node.leave(most));
    let until = noted.lock().unwrap().expect("it is closed");
    let latest = rt::now().min(began + std::time::Duration::from_secs(1)) + most;
    assert!(until <= latest, "{:?} instead of {most:?}", until - began);
}

#[test]
fn what_a_node_has_sent_arrives_before_it_is_gone() {
    const MESSAGES: usize = 40;
    let registry = registry(2);
    let (a, b) = (join(&registry), join(&registry));
    a.wait_all(SOON).unwrap();
    let route = b.route(a.id()).unwrap();
    let (_, links) = a.links().iter().find(|(name, _)| *name == route.fabric).unwrap();
    let listener = links.listen("last words", 1).unwrap();
    let writer = route.links.wait_channel(&route.host, "last words", SOON).unwrap();
    // More than the reader gives credit for at once: most of it waits when the node leaves.
    for number in 0..MESSAGES {
        let bytes = vec![u8::try_from(number).unwrap(); 300_000];
        let (post, _) = Post::new(vec![bytes.into()], Vec::new());
        writer.post(post);
    }
    #[expect(clippy::disallowed_methods, reason = "nodes of this test have no virtual time")]
    std::thread::scope(|scope| {
        let leaves = scope.spawn(|| b.leave(SOON));
        let mut reader = listener.wait_accept(SOON).unwrap();
        for number in 0..MESSAGES {
            let mut message = reader.wait_next(SOON).unwrap().unwrap();
            let bytes = message.wait_array::<u8>(SOON).unwrap();
            assert_eq!((bytes.len(), usize::from(bytes[0])), (300_000, number));
        }
        leaves.join().unwrap().unwrap();
    });
    drop(writer);
}

#[test]
fn a_late_member_of_an_open_pool_gets_the_state_and_resync() {
    let options = RegistryOptions::open("test").secret(crate::SECRET.into());
    let registry = Registry::open(options).unwrap();
    let stays = join(&registry);
    stays.enter("view").unwrap();
    for _ in 0..40 {
        join(&registry).leave(SOON).unwrap();
    }
    let late = join(&registry);
    let mut events = late.events();
    let event = events.wait_next(SOON).unwrap();
    let Event::Resync { from: 0, to } = event else { panic!("{event:?}") };
    assert!(to > 64, "{to}");
    assert_eq!(late.members().iter().map(|it| it.id).collect::<Vec<_>>(), [stays.id(), late.id()]);
    assert_eq!(late.view("view").members, [stays.id()]);
    // It goes on with the events behind the state.
    stays.exit("view").unwrap();
    while late.view("view").first().is_some() {
        events.wait_next(SOON).unwrap();
    }
}
