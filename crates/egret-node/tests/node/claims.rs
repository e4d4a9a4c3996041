//! A process that is a member, and says that it is where another member is. Over a nic that has the
//! address of another it does so in `crates/egret/tests/attack`, which needs namespaces.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use egret_net::fabric::{Fabric, tcp::TcpFabric};
use egret_net::rt;
use egret_net::vi::{Address, Lane, NicOptions, Vi, ViOptions};
use egret_node::am::{EndpointName, Message};
use egret_node::node::{Event, Node};
use egret_node::{Links, LinksOptions};

use super::greedy::{Pair, links};
use super::peer::{Peer, read};
use super::returned::links_of;
use super::{LONG, SOON, registry};

/// Rounds of the honest pair for each thing that the other claims.
const ROUNDS: u64 = 20;

#[test]
fn a_member_that_claims_the_host_of_another_takes_nothing_from_it() {
    let registry = registry(4);
    let pair = Pair::new(&registry, |config| config);
    let (remote, mut events) = (pair.map(), registry.events());
    let [a, b] = [&pair.a, &pair.b].map(|node| links(node).host().to_owned());
    let mut other = Peer::start("claims", &registry, 2);
    other.said();
    other.tell(&format!("hello {b} as itself"));
    assert_eq!(other.said(), "linked", "it is a member, and says hello as it should");
    let before = [&pair.a, &pair.b].map(|node| links(node).counters().made);
    // To both ends of their link, as the other end.
    for (to, host) in [(&a, &b), (&b, &a)] {
        other.tell(&format!("begin {to} as {host}"));
        assert_eq!(other.said(), "begun");
    }
    (0..ROUNDS).for_each(|round| pair.goes_on(&remote, round));
    other.tell("wait");
    assert_eq!(other.said(), "refused refused");
    let made = [&pair.a, &pair.b].map(|node| links(node).counters().made);
    assert_eq!(made, before, "no link was made with it as another");

    // By the link of its membership, and with another key: the host is another's all the same.
    other.tell(&format!("join {} as {a}", registry.address()));
    assert_eq!(other.said(), "refused");
    other.tell(&format!("join {} anew as {a}", registry.address()));
    assert_eq!(other.said(), "taken");
    other.tell(&format!("join {} anew as itself", registry.address()));
    assert_eq!(other.said(), "joined", "it asks as it should");
    (0..ROUNDS).for_each(|round| pair.goes_on(&remote, round));
    goes_on_anew(&pair);
    let honest = [pair.a.id(), pair.b.id()];
    let is_bad = |event: &Event| match event {
        Event::Died { node, .. } | Event::Left(node) => honest.contains(node),
        _ => false,
    };
    assert!(!std::iter::from_fn(|| events.try_next()).any(|event| is_bad(&event)));
    assert!(pair.a.own_fate().is_none() && pair.b.own_fate().is_none());
}

/// By another mapping, too.
fn goes_on_anew(pair: &Pair) {
    pair.goes_on(&pair.map(), ROUNDS);
}

/// What the child does: it carries out orders.
pub(crate) fn run(node: &Node, stream: &mut UnixStream) {
    let (own, mut begun) = (links(node), Vec::new());
    let mut anew = None;
    loop {
        let line = read(stream);
        let order: Vec<&str> = line.split(' ').collect();
        let host = match order.last() {
            Some(&"itself") => own.host(),
            Some(host) => host,
            None => return,
        };
        let said = match order[..] {
            ["hello", to, ..] => hello(own, to, host).wait(),
            ["begin", to, ..] => {
                begun.push(hello(own, to, host));
                "begun"
            }
            ["wait"] => &begun.drain(..).map(Claim::wait).collect::<Vec<_>>().join(" "),
            ["join", registry, "anew", "as", who] => {
                let secret = NicOptions::new("").secret(super::SECRET.into());
                let nic = TcpFabric.open(&secret).unwrap();
                let links: &Links = anew.insert(Links::open(nic, LinksOptions::default()).unwrap());
                join(links, registry, if who == "itself" { links.host() } else { host })
            }
            ["join", registry, "with", private, ..] => {
                let links: &Links = anew.insert(links_of(private.parse().unwrap()));
                join(links, registry, links.host())
            }
            ["join", registry, ..] => join(own, registry, host),
            _ => return,
        };
        writeln!(stream, "{said}").unwrap();
    }
}

/// A connection on which a hello was said.
struct Claim(Vi);

/// Says hello to another's links, by a connection that has proven the member's key.
fn hello(own: &Links, to: &str, host: &str) -> Claim {
    let to = Address::new(to, "egret.link", 0);
    let options = ViOptions::default();
    let vi = own.nic().block_on(own.nic().connect(&to, &options, SOON)).unwrap();
    // Version, number of the link, which life: as a first hello.
    let (version, numbers) = (2_u16.to_le_bytes(), [1_u64, 1].map(u64::to_le_bytes));
    let said = [&[HELLO][..], &version, &numbers.concat(), &text(host)].concat();
    vi.send_eager(Lane::Talk, 0, &[&said]).unwrap();
    Claim(vi)
}

/// The first byte of a hello.
const HELLO: u8 = 0;

impl Claim {
    /// Waits until it is answered with a hello, or sent away.
    fn wait(self) -> &'static str {
        let until = rt::now() + LONG;
        loop {
            let mut heard = None;
            self.0.drain().poll(1, |_, _, bytes| heard = bytes.first().copied());
            match heard {
                Some(HELLO) => return "linked",
                Some(_) => return "refused",
                None if self.0.error().is_some() => return "refused",
                None => assert!(rt::now() < until, "it is neither answered nor sent away"),
            }
            rt::sleep(Duration::from_millis(1));
        }
    }
}

/// Asks to be a member that has `tcp` at a host.
fn join(links: &Links, registry: &str, host: &str) -> &'static str {
    let answer = ask_to_join(links, registry, host);
    let says_host = answer.windows(host.len()).any(|at| at == host.as_bytes());
    // A welcome is the first of the answers, a refusal the sixth.
    match answer.first() {
        Some(0) => "joined",
        Some(5) if says_host => "taken",
        Some(5) => "refused",
        _ => "something else",
    }
}

/// What the registry answers.
pub(crate) fn ask_to_join(links: &Links, registry: &str, host: &str) -> Vec<u8> {
    // No size that it would have, any pool, no rank; nowhere; one fabric, which has these properties.
    let (none, one, properties) = ([0, 0, 0], 1_u32.to_le_bytes(), [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    let ask = [&[0][..], &text("test"), &none, &text("machine"), &[0; 16], &one].concat();
    let ask = [&ask[..], &text("tcp"), &text(host), &properties].concat();
    let to = EndpointName::new(registry, "egret.registry", 0);
    let remote = links.bundle().endpoint(0).wait_map(&to, SOON).unwrap();
    let answer = remote.wait_call(Message::to(0).words(&[5]).bytes(&ask), SOON).unwrap();
    answer.bytes().to_vec()
}

fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [&length[..], text.as_bytes()].concat()
}
