//! The man in the middle of all connections: he sees every byte, and passes on what he likes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret::rt;
use hmac::{Hmac, KeyInit, Mac};
use rustix::net::sockopt::ip_original_dst;
use sha2::Sha256;

use crate::actor::obey;
use crate::rng::Rng;
use crate::spaces::{GATE, HERE, RELAY_PORT};

/// What he keeps of a connection.
struct Record {
    /// Where it was to lead.
    to: String,
    /// What the caller said, and what the callee did.
    said: [Vec<u8>; 2],
    ends: [TcpStream; 2],
}

/// What he does, and has seen.
struct Middle {
    records: Vec<Record>,
    /// Who is connected with another than it asked for, who has this secret.
    diverted: BTreeMap<String, (String, Vec<u8>)>,
    /// One bit of so many bytes is changed, about; none if it is 0.
    every: u64,
    /// Bytes until the next is.
    next: u64,
    /// Whose bytes are passed on as they are.
    spared: String,
    changed: u64,
    /// Bytes after which each way of a new connection ends.
    cut: Option<usize>,
    /// Callers are answered what was answered before.
    answers_old: bool,
    rng: Rng,
}

type Shared = Arc<Mutex<Middle>>;

pub(crate) fn run() {
    let middle = Middle {
        records: Vec::new(),
        diverted: BTreeMap::new(),
        every: 0,
        next: 0,
        spared: String::new(),
        changed: 0,
        cut: None,
        answers_old: false,
        rng: Rng::new(0),
    };
    let middle = Arc::new(Mutex::new(middle));
    let datagrams = crate::datagrams::start();
    let listener = TcpListener::bind(("0.0.0.0", RELAY_PORT)).unwrap();
    let shared = Arc::clone(&middle);
    rt::spawn("accepts", move || {
        for near in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            rt::spawn("connects", move || connect(&shared, near)).unwrap();
        }
    })
    .unwrap();
    obey(|order| match order {
        ["udp", order @ ..] => crate::datagrams::carry_out(&datagrams, order),
        order => carry_out(&middle, order),
    });
}

fn carry_out(shared: &Shared, order: &[&str]) -> String {
    let mut middle = shared.lock().unwrap();
    match *order {
        ["begin"] => {}
        ["divert", from, to, secret] => {
            middle.diverted.insert(from.to_owned(), (to.to_owned(), bytes_of(secret)));
        }
        ["divert", from] => drop(middle.diverted.remove(from)),
        ["change", every, seed, spared] => {
            middle.rng = Rng::new(seed.parse().unwrap());
            middle.every = every.parse().unwrap();
            middle.spared = spared.to_owned();
            middle.draw();
        }
        ["changed"] => return middle.changed.to_string(),
        ["cut", bytes] => middle.cut = bytes.parse().ok(),
        ["answer-old", yes] => middle.answers_old = yes == "yes",
        ["end"] => middle.records.iter().for_each(Record::end),
        ["connections", to] => {
            let all = middle.records.iter().filter(|record| record.to == to);
            return all.count().to_string();
        }
        ["seen"] => {
            let all = middle.records.iter().flat_map(|record| &record.said);
            return all.map(Vec::len).sum::<usize>().to_string();
        }
        ["find", hex] => {
            let sought = bytes_of(hex);
            let all = middle.records.iter().flat_map(|record| &record.said);
            let times =
                |said: &Vec<u8>| said.windows(sought.len()).filter(|at| *at == sought).count();
            return all.map(times).sum::<usize>().to_string();
        }
        ["replay"] => {
            let old: Vec<_> =
                middle.records.iter().map(|old| (old.to.clone(), old.said[0].clone())).collect();
            drop(middle);
            return old.iter().filter(|(to, said)| replay(to, said)).count().to_string();
        }
        _ => panic!("{order:?}"),
    }
    "done".to_owned()
}

/// The bytes that a test has written as digits.
pub(crate) fn bytes_of(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// Says to a callee what somebody said to it before; whether it was heard out, and listened to until
/// it ended the connection.
fn replay(to: &str, said: &[u8]) -> bool {
    let Ok(mut stream) = TcpStream::connect(to) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // Who refuses may end the connection before all is said.
    _ = stream.write_all(said);
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(why) => why.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Connects a caller on, and passes on what both say.
fn connect(shared: &Shared, mut near: TcpStream) {
    let to = ip_original_dst(&near).unwrap().to_string().replace(GATE, HERE);
    let (goal, sign, old) = {
        let middle = shared.lock().unwrap();
        let old = middle.records.iter().find(|record| record.to == to);
        let old = old.filter(|_| middle.answers_old).map(|record| record.said[1].clone());
        let (goal, sign) = match middle.diverted.get(&to) {
            Some((goal, secret)) => (goal.clone(), Some(secret.clone())),
            None => (to.clone(), None),
        };
        (goal, sign, old)
    };
    if let Some(old) = old {
        _ = near.write_all(&old);
        _ = near.set_read_timeout(Some(Duration::from_secs(5)));
        return drop(near.read_to_end(&mut Vec::new()));
    }
    let Ok(mut far) = TcpStream::connect(&goal) else { return };
    if let Some(secret) = sign
        && sign_anew(&secret, &mut near, &mut far).is_err()
    {
        return;
    }
    let ends = [near, far];
    ends.iter().for_each(|end| end.set_nodelay(true).unwrap());
    let both = || ends.each_ref().map(|end| end.try_clone().unwrap());
    let at = {
        let mut middle = shared.lock().unwrap();
        middle.records.push(Record { to, said: [Vec::new(), Vec::new()], ends: both() });
        middle.records.len() - 1
    };
    let ([near, far], back) = (both(), Arc::clone(shared));
    let backward = rt::spawn("backward", move || pass_on(&back, (at, 1), far, near)).unwrap();
    let [near, far] = ends;
    pass_on(shared, (at, 0), near, far);
    _ = backward.join();
}

/// Passes the first step of a handshake on, with the sign of one who has the secret instead of one
/// who knows the key: a callee with another key takes it, and the handshake is the same.
fn sign_anew(secret: &[u8], near: &mut TcpStream, far: &mut TcpStream) -> std::io::Result<()> {
    let mut opening = [0; OPENING];
    near.read_exact(&mut opening)?;
    sign(secret, &mut opening);
    far.write_all(&opening)
}

/// Gives the first step of a handshake the sign of one who has the secret.
pub(crate) fn sign(secret: &[u8], opening: &mut [u8]) {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length");
    mac.update(b"egret: who has the secret knocks");
    mac.update(&opening[HEAD + SIGN..]);
    let sign = mac.finalize().into_bytes();
    opening[HEAD..HEAD + SIGN].copy_from_slice(&sign[..SIGN]);
}

/// Bytes of the first step of a handshake.
pub(crate) const OPENING: usize = HEAD + SIGN + FIRST;
/// Bytes of a step's head, of the sign, and of the first message of the handshake.
const HEAD: usize = 12;
const SIGN: usize = 16;
const FIRST: usize = 48;

/// Passes on what one side says until it ends.
fn pass_on(shared: &Shared, (at, way): (usize, usize), mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let len = match from.read(&mut bytes) {
            Ok(0) => return drop(to.shutdown(Shutdown::Write)),
            Ok(len) => len,
            Err(_) => 0,
        };
        let passed = shared.lock().unwrap().see((at, way), &mut bytes[..len]);
        let is_over = to.write_all(&bytes[..passed]).is_err();
        if is_over || passed < len || len == 0 {
            return shared.lock().unwrap().records[at].end();
        }
    }
}

impl Middle {
    /// Keeps what one side says, does to it what was ordered, and how much of it is passed on.
    fn see(&mut self, (at, way): (usize, usize), bytes: &mut [u8]) -> usize {
        let record = &mut self.records[at];
        let before = record.said[way].len();
        record.said[way].extend_from_slice(bytes);
        if self.every > 0 && record.to != self.spared {
            let mut rest = bytes.len() as u64;
            let mut place = 0;
            while self.next <= rest {
                place += self.next;
                rest -= self.next;
                bytes[usize::try_from(place).unwrap() - 1] ^= 1 << (self.rng.next() % 8);
                self.changed += 1;
                self.draw();
            }
            self.next -= rest;
        }
        match self.cut {
            Some(cut) => bytes.len().min(cut.saturating_sub(before)),
            None => bytes.len(),
        }
    }

    /// Where the next bit is changed.
    fn draw(&mut self) {
        self.next = self.rng.up_to((2 * self.every).max(1));
    }
}

impl Record {
    fn end(&self) {
        for end in &self.ends {
            _ = end.shutdown(Shutdown::Both);
        }
    }
}
