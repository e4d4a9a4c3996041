//! The same man in the middle of all datagrams between the two nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use egret::rt;

use crate::relay::{OPENING, bytes_of, sign};
use crate::rng::Rng;
use crate::spaces::{HERE, THERE, UDP_PORTS, run, side};

/// What he does to datagrams, and has seen of them.
#[derive(Default)]
pub(crate) struct Datagrams {
    /// Where those lead that come from the first namespace, and from the second.
    goals: [Option<SocketAddr>; 2],
    /// At which port the answers leave, who has sent and to whom, and what passes on what it sends.
    ways: BTreeMap<(u16, SocketAddr, SocketAddr), Arc<UdpSocket>>,
    /// Where the datagrams of each side come to him.
    near: Vec<Arc<UdpSocket>>,
    /// Whose datagrams are led to another, who it is, and how many of them still are.
    diverted: Option<Diversion>,
    led: u64,
    /// The impostor, the numbers under which it listens, and how often it was answered.
    impostor: Option<SocketAddr>,
    claims: BTreeSet<[u8; 8]>,
    answered: u64,
    /// All that was said, and the way it went: on by a socket, or back by it to whom.
    seen: Vec<(Vec<u8>, Arc<UdpSocket>, Option<SocketAddr>)>,
    /// One of so many is changed, or dropped, or said twice; none if it is 0.
    every: [u64; 3],
    changed: u64,
    dropped: u64,
    rng: Option<Rng>,
}

type Shared = Arc<Mutex<Datagrams>>;

/// What was said to one, led to another.
struct Diversion {
    from: SocketAddr,
    to: SocketAddr,
    /// Handshakes are signed as by one who has this secret.
    secret: Option<Vec<u8>>,
    /// How many more are led astray.
    most: u64,
}

/// Passes on what comes from all sides.
pub(crate) fn start() -> Shared {
    let shared = Shared::default();
    let bind = |port| Arc::new(UdpSocket::bind(("0.0.0.0", port)).unwrap());
    let near = UDP_PORTS.map(bind);
    shared.lock().unwrap().near = near.to_vec();
    for (side, socket) in near.into_iter().enumerate() {
        let shared = Arc::clone(&shared);
        rt::spawn("datagrams", move || onward(&shared, side, &socket)).unwrap();
    }
    shared
}

fn onward(shared: &Shared, side: usize, socket: &Arc<UdpSocket>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok((len, from)) = socket.recv_from(&mut bytes) {
        let bytes = &mut bytes[..len];
        let goals = shared.lock().unwrap().goals;
        let [Some(away), Some(home)] = goals else { continue };
        let way = if side == IMPOSTOR {
            // It goes on as if rank 0 had said it.
            let near = shared.lock().unwrap().claim(from, bytes);
            open_way(shared, (home, away), (near, Some(home)))
        } else {
            let goal = shared.lock().unwrap().lead([away, home][side], bytes);
            open_way(shared, (from, goal), (Arc::clone(socket), Some(from)))
        };
        pass_on(shared, bytes, &way, None);
    }
}

/// Which of the sides is the impostor's.
const IMPOSTOR: usize = 2;
/// The kind of datagrams that begin a handshake.
const HANDSHAKE: u8 = 7;

/// How datagrams of one go on to another, and how the answers come back.
fn open_way(
    shared: &Shared,
    (from, goal): (SocketAddr, SocketAddr),
    back: (Arc<UdpSocket>, Option<SocketAddr>),
) -> Arc<UdpSocket> {
    let way = (back.0.local_addr().unwrap().port(), from, goal);
    let mut all = shared.lock().unwrap();
    if let Some(socket) = all.ways.get(&way) {
        return Arc::clone(socket);
    }
    let socket = Arc::new(UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect(goal).unwrap();
    all.ways.insert(way, Arc::clone(&socket));
    let (far, shared) = (Arc::clone(&socket), Arc::clone(shared));
    rt::spawn("back", move || {
        let mut bytes = vec![0; 64 << 10];
        loop {
            // A port that nobody listens at any more is no end.
            let Ok(len) = far.recv(&mut bytes) else { continue };
            let bytes = &mut bytes[..len];
            let (claimed, led) = {
                let mut all = shared.lock().unwrap();
                (all.claimed(bytes), all.lead(from, bytes))
            };
            if let Some((near, impostor)) = claimed {
                pass_on(&shared, bytes, &near, Some(impostor));
            } else if led == from {
                pass_on(&shared, bytes, &back.0, back.1);
            } else {
                let way = open_way(&shared, (goal, led), (Arc::clone(&far), None));
                pass_on(&shared, bytes, &way, None);
            }
        }
    })
    .unwrap();
    socket
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
    /// Where a datagram to this goal is led.
    fn lead(&mut self, goal: SocketAddr, bytes: &mut [u8]) -> SocketAddr {
        let diverted = self.diverted.as_mut();
        let Some(diversion) = diverted.filter(|one| one.from == goal && one.most > 0) else {
            return goal;
        };
        diversion.most -= 1;
        self.led += 1;
        let is_handshake = bytes[0] == HANDSHAKE && bytes.get(24..28) == Some(b"EGRT");
        if let Some(secret) = diversion.secret.as_ref().filter(|_| is_handshake && bytes[32] == 1) {
            sign(secret, &mut bytes[24..24 + OPENING]);
        }
        diversion.to
    }

    /// The impostor says something; what hears the answers of those to whom it is rank 0.
    fn claim(&mut self, from: SocketAddr, bytes: &[u8]) -> Arc<UdpSocket> {
        self.impostor = Some(from);
        if bytes[0] == HANDSHAKE {
            self.claims.insert(bytes[16..24].try_into().unwrap());
        }
        Arc::clone(&self.near[0])
    }

    /// How an answer comes to the impostor, if it is for a number of the impostor's.
    fn claimed(&mut self, bytes: &[u8]) -> Option<(Arc<UdpSocket>, SocketAddr)> {
        bytes.get(8..16).filter(|number| self.claims.contains(*number))?;
        self.answered += 1;
        Some((Arc::clone(&self.near[IMPOSTOR]), self.impostor?))
    }

    fn draw(&mut self, below: usize) -> usize {
        let most = u64::try_from(below).unwrap();
        usize::try_from(self.rng.get_or_insert(Rng::new(7)).up_to(most) - 1).unwrap()
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
        // So many datagrams to the first come to the second.
        ["divert", from, to, secret, most] => {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let secret = (secret != "unsigned").then(|| bytes_of(secret));
            all.led = 0;
            all.diverted = Some(Diversion { from, to, secret, most: most.parse().unwrap() });
        }
        ["divert"] => all.diverted = None,
        ["led"] => return all.led.to_string(),
        ["answered"] => return all.answered.to_string(),
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
