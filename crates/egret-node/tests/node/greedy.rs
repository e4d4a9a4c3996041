//! A member that asks for all it can get: it gets its own share, and an honest pair beside it goes
//! on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, JoinHandle};
use egret_node::am::{Endpoint, EndpointName, Message, MessageError, RemoteEndpoint};
use egret_node::node::{Config, Event, Node, NodeError, NodeHandle, RegistryRefusal};
use egret_node::registry::Registry;

use super::{LONG, SOON, config, join, registry};

/// Rounds of the honest pair while the other floods.
const ROUNDS: u64 = 20;

/// Bytes of data that a node takes whose mappings are flooded, and as many mappings as these can
/// guarantee 16 KiB.
const BUDGET: u64 = 16 << 20;
const MAPPINGS_MAX: usize = 1024;

/// Two honest nodes of a pool that has room for more, and what one serves to the other.
pub(super) struct Pair {
    pub(super) a: Node,
    pub(super) b: Node,
    served: Endpoint,
    mine: Endpoint,
    taken: Arc<AtomicU64>,
}

impl Pair {
    /// The served one takes so much.
    pub(super) fn new(registry: &Registry, bounded: impl Fn(Config) -> Config) -> Self {
        let a = join(registry);
        let b = Node::join(bounded(config(registry))).unwrap();
        // Links are for members, and it hears of this one a little later.
        let mut events = a.events();
        while a.member(b.id()).is_none() {
            events.wait_next(SOON).unwrap();
        }
        let served = links(&b).bundle().register("served", 7).unwrap();
        let taken = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&taken);
        served.on(0, move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        served.on(1, |request| {
            let words = request.words();
            request.reply(words);
        });
        let mine = links(&a).bundle().endpoint(0);
        Self { a, b, served, mine, taken }
    }

    pub(super) fn map(&self) -> RemoteEndpoint {
        self.mine.wait_map(&to(&self.b), SOON).unwrap()
    }

    /// Whatever happens beside them: they call each other, and find each other's names.
    pub(super) fn goes_on(&self, remote: &RemoteEndpoint, round: u64) {
        assert_eq!(remote.wait_call((1, &[round]), SOON).unwrap().words(), [round]);
        let words = [round];
        let data = Message::to(1).words(&words).data(vec![1_u8; 100_000]);
        assert_eq!(remote.wait_call(data, SOON).unwrap().words(), [round]);
        let (name, bytes) = (format!("honest {round}"), round.to_le_bytes());
        self.b.bind(&name, &bytes).unwrap();
        assert_eq!(self.a.wait_bound(&name, SOON).unwrap().bytes, bytes);
        assert!(self.b.unbind(&name, &bytes).unwrap());
    }
}

/// Over tcp, by which a node can be reached from anywhere.
pub(super) fn links(node: &Node) -> &egret_node::Links {
    &node.links().iter().find(|(name, _)| name == "tcp").unwrap().1
}

fn to(node: &Node) -> EndpointName {
    EndpointName::new(links(node).host(), "served", 7)
}

/// Does this again and again, until it is told to stop; says how often.
struct Flood {
    stop: Arc<AtomicBool>,
    flooding: JoinHandle<u64>,
}

impl Flood {
    fn begin(mut act: impl FnMut(u64) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let flooding = rt::spawn("floods", move || {
            let mut count = 0;
            while !told.load(Ordering::Relaxed) {
                act(count);
                count += 1;
            }
            count
        });
        Self { stop, flooding: flooding.unwrap() }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.flooding.join().unwrap() > 0, "nobody has flooded");
    }
}

#[test]
fn a_flood_of_mappings_fills_only_its_share() {
    let registry = registry(4);
    let pair = Pair::new(&registry, |config| config.budget(BUDGET));
    let (greedy, remote) = (join(&registry), pair.map());
    let (from, host) = (links(&greedy).bundle().endpoint(0), to(&pair.b));
    let mut taken = Vec::new();
    let why = loop {
        match from.wait_map(&host, SOON) {
            Ok(mapped) => taken.push(mapped),
            Err(why) => break why,
        }
        assert!(taken.len() < MAPPINGS_MAX, "more than the budget can guarantee");
    };
    assert!(matches!(why, MessageError::NoRoom { .. }), "{why}");
    // It goes on asking, and has no more than what others do not need.
    let (mut more, most) = (Vec::new(), MAPPINGS_MAX - taken.len());
    let flood = Flood::begin(move |_| match from.wait_map(&host, SOON) {
        Ok(mapped) => {
            more.push(mapped);
            assert!(more.len() < most, "more than the budget can guarantee");
        }
        Err(why) => assert!(matches!(why, MessageError::NoRoom { .. }), "{why}"),
    });
    for round in 0..ROUNDS {
        pair.goes_on(&remote, round);
    }
    // Others have a mapping for certain.
    let newcomer = pair.map();
    pair.goes_on(&newcomer, ROUNDS);
    flood.end();
    assert_eq!(taken[0].wait_call((1, &[5]), SOON).unwrap().words(), [5], "its share stays");
}

#[test]
fn a_flood_of_calls_fills_only_its_windows() {
    let registry = registry(4);
    let pair = Pair::new(&registry, |config| config.budget(16 << 20).messages(4096));
    let (greedy, remote) = (join(&registry), pair.map());
    let from = links(&greedy).bundle().endpoint(0);
    let mapped = from.wait_map(&to(&pair.b), SOON).unwrap();
    let large = vec![7_u8; 1 << 20];
    let flood = Flood::begin(move |count| {
        let words = [count];
        let message = Message::to(0).words(&words);
        let message = if count % 64 == 0 { message.data(large.clone()) } else { message };
        mapped.wait_send(message, SOON).unwrap();
    });
    for round in 0..ROUNDS {
        pair.goes_on(&remote, round);
    }
    let until = rt::now() + LONG;
    while pair.taken.load(Ordering::Relaxed) == 0 {
        assert!(rt::now() < until, "what it says arrives as well");
        rt::sleep(Duration::from_millis(1));
    }
    flood.end();
    drop(pair.served);
}

#[test]
fn a_flood_of_names_fills_only_its_share() {
    let registry = registry(4);
    let pair = Pair::new(&registry, |config| config);
    let (greedy, remote) = (join(&registry), pair.map());
    let mut names = 0;
    let why = loop {
        match greedy.bind(&format!("greedy {names}"), &[0; 1024]) {
            Ok(()) => names += 1,
            Err(why) => break why,
        }
    };
    assert!(matches!(why, NodeError::Refused(RegistryRefusal::TooLarge { .. })), "{why}");
    assert_eq!(names, 4096);
    let waiting = wait_for_all(&greedy);
    // It goes on: names beyond its own, and others that it binds anew again and again.
    let handle = greedy.handle();
    let flood = Flood::begin(move |count| flood_names(&handle, count));
    for round in 0..ROUNDS {
        pair.goes_on(&remote, round);
    }
    flood.end();
    // It has used up its questions itself, so it may not be able to say that it leaves.
    drop(waiting);
    drop(greedy);
    let until = rt::now() + LONG;
    while pair.a.bound("greedy 0").unwrap().is_some() {
        assert!(rt::now() < until, "its names go with it");
    }
    pair.goes_on(&remote, ROUNDS);
}

/// Waits for names that nobody binds, until it may wait for no more.
fn wait_for_all(greedy: &Node) -> Vec<impl Future> {
    let mut waiting = Vec::new();
    loop {
        let name = format!("never {}", waiting.len());
        let mut asking = greedy.begin().bound(&name, Duration::from_secs(3600));
        match Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => waiting.push(asking),
            Poll::Ready(Err(_)) => return waiting,
            Poll::Ready(other) => panic!("{other:?}"),
        }
    }
}

fn flood_names(greedy: &NodeHandle, count: u64) {
    let mut asked = [
        greedy.begin().bind(&format!("more {count}"), &[1; 1024]),
        greedy.begin().rebind(&format!("greedy {}", count % 4096), &count.to_le_bytes()),
    ];
    for asking in &mut asked {
        // As many questions may be under way as there may be: then it is told so.
        _ = Pin::new(asking).poll(&mut Context::from_waker(Waker::noop()));
    }
}

#[test]
fn endless_joins_and_leaves_disturb_no_member() {
    let registry = Arc::new(registry(3));
    let pair = Pair::new(&registry, |config| config);
    let remote = pair.map();
    let mut events = pair.a.events();
    let of = Arc::clone(&registry);
    let flood = Flood::begin(move |_| join(&of).leave(SOON).unwrap());
    let (mut round, mut lives) = (0, 0);
    while lives < 2 * ROUNDS {
        pair.goes_on(&remote, round);
        round += 1;
        let seen = std::iter::from_fn(|| events.try_next());
        let ended = seen.filter(|event| match event {
            Event::Joined(_) => false,
            Event::Left(id) => id.rank == 2,
            other => panic!("{other:?}"),
        });
        lives += ended.count() as u64;
    }
    flood.end();
    assert!(pair.a.own_fate().is_none() && pair.b.own_fate().is_none());
    pair.goes_on(&remote, round);
}
