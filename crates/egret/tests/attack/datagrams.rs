//! The same man in the middle of all datagrams between the two nodes.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use egret::net::rt;

use crate::relay::bytes_of;
use crate::rng::Rng;
use crate::spaces::{HERE, THERE, UDP_PORTS, run, side};

/// What he does to datagrams, and has seen of them.
#[derive(Default)]
pub(crate) struct Datagrams {
    /// Where those lead that come from the first namespace, and from the second.
    goals: [Option<SocketAddr>; 2],
    /// Who has sent, from which side, and what passes on what it sends.
    ways: BTreeMap<(usize, SocketAddr), Arc<UdpSocket>>,
    /// All that was said, and the way it went: on by a socket, or back by it to whom.
    seen: Vec<(Vec<u8>, Arc<UdpSocket>, Option<SocketAddr>)>,
    /// One of so many is changed, or dropped, or said twice; none if it is 0.
    every: [u64; 3],
    changed: u64,
    dropped: u64,
    rng: Option<Rng>,
}

type Shared = Arc<Mutex<Datagrams>>;

/// Passes on what comes from both sides.
pub(crate) fn start() -> Shared {
    let shared = Shared::default();
    for (side, port) in UDP_PORTS.into_iter().enumerate() {
        let socket = Arc::new(UdpSocket::bind(("0.0.0.0", port)).unwrap());
        let shared = Arc::clone(&shared);
        rt::spawn("datagrams", move || onward(&shared, side, &socket)).unwrap();
    }
    shared
}

fn onward(shared: &Shared, side: usize, socket: &Arc<UdpSocket>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok((len, from)) = socket.recv_from(&mut bytes) {
        let way = way(shared, side, from, socket);
        let Some(way) = way else { continue };
        pass_on(shared, &bytes[..len], &way, None);
    }
}

/// How datagrams of this sender go on, and how the answers come back.
fn way(
    shared: &Shared,
    side: usize,
    from: SocketAddr,
    near: &Arc<UdpSocket>,
) -> Option<Arc<UdpSocket>> {
    let mut all = shared.lock().unwrap();
    if let Some(way) = all.ways.get(&(side, from)) {
        return Some(Arc::clone(way));
    }
    let way = Arc::new(UdpSocket::bind("0.0.0.0:0").unwrap());
    way.connect(all.goals[side]?).unwrap();
    all.ways.insert((side, from), Arc::clone(&way));
    let (far, near, shared) = (Arc::clone(&way), Arc::clone(near), Arc::clone(shared));
    rt::spawn("back", move || {
        let mut bytes = vec![0; 64 << 10];
        loop {
            // A port that nobody listens at any more is no end.
            if let Ok(len) = far.recv(&mut bytes) {
                pass_on(&shared, &bytes[..len], &near, Some(from));
            }
        }
    })
    .unwrap();
    Some(way)
}

fn pass_on(shared: &Shared, bytes: &[u8], by: &Arc<UdpSocket>, to: Option<SocketAddr>) {
    let mut bytes = bytes.to_vec();
    let times = {
        let mut all = shared.lock().unwrap();
        all.seen.push((bytes.clone(), Arc::clone(by), to));
        let [changes, drops, repeats] = all.every;
        if all.is_one_of(changes) {
            let at = all.draw(bytes.len() * 8);
            bytes[at / 8] ^= 1 << (at % 8);
            all.changed += 1;
        }
        let is_dropped = all.is_one_of(drops);
        all.dropped += u64::from(is_dropped);
        if is_dropped { 0 } else { 1 + usize::from(all.is_one_of(repeats)) }
    };
    for _ in 0..times {
        say(&bytes, by, to);
    }
}

fn say(bytes: &[u8], by: &UdpSocket, to: Option<SocketAddr>) {
    _ = match to {
        None => by.send(bytes),
        Some(to) => by.send_to(bytes, to),
    };
}

impl Datagrams {
    fn draw(&mut self, below: usize) -> usize {
        let most = u64::try_from(below).unwrap();
        usize::try_from(self.rng.get_or_insert(Rng(7)).up_to(most) - 1).unwrap()
    }

    fn is_one_of(&mut self, every: u64) -> bool {
        every > 0 && self.draw(usize::try_from(every).unwrap()) == 0
    }
}

/// Carries out the orders about datagrams.
pub(crate) fn carry_out(shared: &Shared, order: &[&str]) -> String {
    let mut all = shared.lock().unwrap();
    match *order {
        ["goals", home, away] => {
            // From where rank 0 is they lead to rank 1, and back.
            all.goals = [away, home].map(|goal| Some(goal.parse().unwrap()));
            // What is passed on has the address of who has said it.
            let chain = "add chain ip attack from { type nat hook postrouting priority 100; }";
            run("nft", &[chain]).unwrap();
            for (out, source) in [(THERE, home), (HERE, away)] {
                let out = side(out);
                let rule = format!("oifname \"{out}\" meta l4proto udp snat to {source}");
                run("nft", &[&format!("add rule ip attack from {rule}")]).unwrap();
            }
        }
        ["every", changed, dropped, repeated] => {
            all.every = [changed, dropped, repeated].map(|every| every.parse().unwrap());
        }
        ["changed"] => return all.changed.to_string(),
        ["dropped"] => return all.dropped.to_string(),
        ["seen"] => return all.seen.len().to_string(),
        ["find", hex] => {
            let sought = bytes_of(hex);
            let has = |said: &[u8]| said.windows(sought.len()).any(|at| at == sought);
            return all.seen.iter().filter(|(said, ..)| has(said)).count().to_string();
        }
        // All that was ever said, in the same order, to whom it was said.
        ["replay"] => {
            all.seen.iter().for_each(|(bytes, by, to)| say(bytes, by, *to));
            return all.seen.len().to_string();
        }
        _ => panic!("{order:?}"),
    }
    "done".to_owned()
}
