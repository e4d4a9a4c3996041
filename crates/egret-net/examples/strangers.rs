//! How much longer an honest connect takes while strangers come in numbers.
//!
//! ```text
//! cargo run --release -p egret-net --example strangers -- [tcp|udp|shm] [strangers a second]
//! ```
//!
//! A nic listens in this process; a thread of it connects again and again, and another process
//! is the strangers. All of it stays on this machine, and ends by itself: with an error that names
//! the kinds of strangers beside whom the median or the 99th percentile of the connects is more
//! than 50 ms above that without any, three times in a row: a machine that stands still for a moment
//! makes a connect late too.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement"
)]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egret_net::fabric::Fabrics;
use egret_net::rt::{self, Deadline};
use egret_net::vi::{Address, Nic, NicOptions, Reliability, ViOptions, Wait};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

const SECRET: &str = "egret1.00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// Honest connects that are measured, one after another.
const CONNECTS: usize = 200;
/// Between two of them.
const BETWEEN: Duration = Duration::from_millis(5);
/// How long the strangers come at most.
const FLOOD: Duration = Duration::from_secs(30);
/// Sockets that the strangers hold at once.
const HELD: usize = 800;
/// Honest openings that the strangers have recorded.
const RECORDED: usize = 32;
/// How much longer a connect may take beside strangers.
const LONGER_MAX: Duration = Duration::from_millis(50);
/// How often a kind is measured that seems to make connects take longer.
const TRIES: usize = 3;
const LONG: Deadline = Deadline::In(Duration::from_secs(20));

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let arg = |at: usize| args.get(at).map(String::as_str);
    if arg(0) == Some("flood") {
        let recorded = args[5..].iter().map(|hex| from_hex(hex)).collect::<Vec<_>>();
        flood(&args[1], &args[2], &args[3], args[4].parse().unwrap(), &recorded);
        return ExitCode::SUCCESS;
    }
    let rate = arg(1).unwrap_or("4000");
    println!(
        "{:6} {:8} {:>10} {:>10} {:>10}",
        "fabric", "strangers", "median us", "p99 us", "most us"
    );
    let fabrics = ["tcp", "udp", "shm"].into_iter();
    let measured = fabrics.filter(|fabric| arg(0).is_none_or(|it| it == *fabric));
    let too_long: Vec<_> = measured.flat_map(|fabric| measure(fabric, rate)).collect();
    for what in &too_long {
        eprintln!("error: {what}");
    }
    if too_long.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What honest connects took.
#[derive(Clone, Copy)]
struct Took {
    median: Duration,
    late: Duration,
    most: Duration,
}

impl Took {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort();
        let [median, late, most] =
            [CONNECTS / 2, CONNECTS * 99 / 100, CONNECTS - 1].map(|at| all[at]);
        Self { median, late, most }
    }

    /// What is wrong with it, beside what they took `alone`.
    fn too_long(self, alone: Self) -> Option<String> {
        let of = [("median", self.median, alone.median), ("p99", self.late, alone.late)];
        let mut too_long = of.into_iter().filter(|(_, took, alone)| *took > *alone + LONGER_MAX);
        too_long.next().map(|(what, took, alone)| {
            let [took, alone] = [took, alone].map(|it| it.as_micros());
            format!("{what} of {took} us, {alone} us without strangers")
        })
    }
}

fn open(fabric: &str, name: &str, wait: Wait) -> Nic {
    let host =
        if fabric == "shm" { format!("{name}-{}", std::process::id()) } else { "127.0.0.1".into() };
    let options = NicOptions::new(&host).secret(SECRET.into()).wait(wait);
    Fabrics::default().open(fabric, options).unwrap()
}

fn vi_options(nic: &Nic) -> ViOptions {
    let is_reliable = nic.limits().offers(Reliability::Reception);
    ViOptions::of(if is_reliable { Reliability::Reception } else { Reliability::Unreliable })
}

/// Measures one fabric beside each kind of strangers. Beside which of them connects take too long.
fn measure(fabric: &str, rate: &str) -> Vec<String> {
    let host = open(fabric, "host", Wait::Balanced);
    let caller = open(fabric, "caller", Wait::Balanced);
    let recorded = record(fabric, &caller, &host);
    let (options, is_over) = (vi_options(&host), Arc::new(AtomicBool::new(false)));
    let at = host.host().to_owned();
    let accepting = rt::spawn("accepts", {
        let (options, is_over) = (options.clone(), Arc::clone(&is_over));
        move || {
            let listener = host.listen("honest", 0, &options).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let _ = listener.wait_accept(Deadline::In(Duration::from_millis(50)));
            }
        }
    })
    .unwrap();
    let beside = |kind: &str| {
        let mut strangers = (kind != "none").then(|| start(fabric, kind, &at, rate, &recorded));
        rt::sleep(Duration::from_millis(500));
        let took =
            Took::of((0..CONNECTS).map(|_| connect(&caller, &at, &options)).collect::<Vec<_>>());
        let mut said = String::new();
        if let Some(strangers) = &mut strangers {
            drop(strangers.stdin.take());
            strangers.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            strangers.wait().unwrap();
        }
        let [median, late, most] = [took.median, took.late, took.most].map(|it| it.as_micros());
        println!("{fabric:6} {kind:8} {median:>10} {late:>10} {most:>10}   {}", said.trim());
        took
    };
    let alone = [beside("none"), beside("none")].into_iter().min_by_key(|took| took.late).unwrap();
    let mut too_long = Vec::new();
    for kind in ["silent", "garbage", "cut", "part", "replay"] {
        let mut why = beside(kind).too_long(alone);
        for _ in 1..TRIES {
            why = why.and_then(|_| beside(kind).too_long(alone));
        }
        too_long.extend(why.map(|why| format!("{fabric} beside strangers of kind {kind}: {why}")));
    }
    is_over.store(true, Ordering::Relaxed);
    accepting.join().unwrap();
    too_long
}

fn connect(caller: &Nic, at: &str, options: &ViOptions) -> Duration {
    rt::sleep(BETWEEN);
    let since = rt::now();
    caller.wait_connect(&Address::new(at, "honest", 0), options, LONG).unwrap();
    rt::now() - since
}

/// What honest callers of the host say first.
fn record(fabric: &str, caller: &Nic, host: &Nic) -> Vec<Vec<u8>> {
    let (tcp, udp) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (at_tcp, at_udp) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    let name = format!("recorder-{}", std::process::id());
    let shm = unix_socket();
    rustix::net::bind(&shm, &unix_address(&name)).unwrap();
    rustix::net::listen(&shm, 8).unwrap();
    let options = vi_options(host);
    (0..RECORDED)
        .map(|_| {
            let at = match fabric {
                "tcp" => at_tcp.to_string(),
                "udp" => at_udp.to_string(),
                _ => name.clone(),
            };
            let mut to = Address::new(&at, "honest", 0);
            to.key = host.key();
            let calling = caller.connect(&to, &options, Deadline::In(Duration::from_secs(2)));
            for _ in 0..3 {
                caller.poll();
                rt::sleep(Duration::from_millis(1));
            }
            let mut bytes = vec![0; 2000];
            let len = match fabric {
                "tcp" => {
                    let (mut stream, _) = tcp.accept().unwrap();
                    (0..40).for_each(|_| {
                        caller.poll();
                    });
                    stream.read(&mut bytes).unwrap()
                }
                "udp" => udp.recv(&mut bytes).unwrap(),
                _ => {
                    let socket = rustix::net::accept(&shm).unwrap();
                    (0..40).for_each(|_| {
                        caller.poll();
                    });
                    rustix::net::recv(&socket, bytes.as_mut_slice(), RecvFlags::empty()).unwrap().0
                }
            };
            drop(calling);
            caller.poll();
            bytes.truncate(len);
            bytes
        })
        .collect()
}

fn start(fabric: &str, kind: &str, at: &str, rate: &str, recorded: &[Vec<u8>]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["flood", fabric, kind, at, rate])
        .args(recorded.iter().map(|bytes| to_hex(bytes)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Comes `rate` times a second, until nobody wants it any more.
fn flood(fabric: &str, kind: &str, at: &str, rate: u32, recorded: &[Vec<u8>]) {
    let is_over = Arc::new(AtomicBool::new(false));
    rt::spawn("stops", {
        let is_over = Arc::clone(&is_over);
        move || {
            let _ = std::io::stdin().read(&mut [0]);
            is_over.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    // Those who came, and those who came or were left out.
    let (since, mut came, mut count, mut failed) = (rt::now(), 0_u32, 0_u32, 0_u32);
    let mut stranger = Strangers::new(fabric, at);
    while !is_over.load(Ordering::Relaxed) && (rt::now() - since) < FLOOD {
        let due = (rt::now() - since).as_micros() * u128::from(rate) / 1_000_000;
        let due = u32::try_from(due).unwrap();
        // Who is late does not come in a heap.
        let some = due.saturating_sub(count).min(64);
        for _ in 0..some {
            let bytes = &recorded[count as usize % recorded.len()];
            failed += u32::from(!stranger.comes(kind, bytes));
            came += 1;
            count += 1;
        }
        count = count.max(due.saturating_sub(256));
        stranger.go_on();
        rt::sleep(Duration::from_micros(500));
    }
    println!(
        "{:.0} a second, {failed} found no way",
        f64::from(came) / (rt::now() - since).as_secs_f64()
    );
}

struct Strangers {
    at: String,
    fabric: String,
    streams: VecDeque<TcpStream>,
    sockets: VecDeque<OwnedFd>,
    udp: UdpSocket,
    /// Handshakes that wait for their tokens.
    handshakes: VecDeque<(u64, Vec<u8>)>,
    numbers: u64,
}

impl Strangers {
    fn new(fabric: &str, at: &str) -> Self {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let (streams, sockets, handshakes) = Default::default();
        let numbers = u64::from(std::process::id()) << 32;
        Self { at: at.into(), fabric: fabric.into(), streams, sockets, udp, handshakes, numbers }
    }

    fn comes(&mut self, kind: &str, opening: &[u8]) -> bool {
        let garbage = [7; 64];
        let said: &[u8] = match kind {
            "garbage" => &garbage,
            "part" => &opening[..20],
            "replay" => opening,
            _ => &[],
        };
        match &*self.fabric {
            "tcp" => {
                let Ok(mut stream) = TcpStream::connect(&self.at) else { return false };
                let _ = stream.write(said);
                if kind != "cut" {
                    self.streams.push_back(stream);
                }
                if self.streams.len() > HELD {
                    self.streams.pop_front();
                }
            }
            "shm" => {
                let socket = unix_socket();
                if rustix::net::connect(&socket, &unix_address(&self.at)).is_err() {
                    return false;
                }
                // An empty packet is one, too.
                if !said.is_empty() {
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    let _ = rustix::net::send(&socket, said, flags);
                }
                if kind != "cut" {
                    self.sockets.push_back(socket);
                }
                if self.sockets.len() > HELD {
                    self.sockets.pop_front();
                }
            }
            _ => {
                self.numbers += 1;
                let mut handshake = opening.to_vec();
                handshake[16..24].copy_from_slice(&self.numbers.to_le_bytes());
                match kind {
                    "garbage" => {
                        let _ = self.udp.send_to(&[9; 1200], &self.at);
                    }
                    "part" => handshake[30..].fill(3),
                    // Nothing of it would be a handshake.
                    "silent" | "cut" => handshake[8..16].fill(1),
                    _ => {}
                }
                let _ = self.udp.send_to(&handshake, &self.at);
                if matches!(kind, "part" | "replay") {
                    self.handshakes.push_back((self.numbers, handshake));
                    if self.handshakes.len() > 4000 {
                        self.handshakes.pop_front();
                    }
                }
            }
        }
        true
    }

    /// Whoever is given a token shows it.
    fn go_on(&mut self) {
        let mut bytes = [0; 2000];
        while let Ok(len) = self.udp.recv(&mut bytes) {
            if len < 24 {
                continue;
            }
            let [to, token] =
                [8, 16].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
            let Some(at) = self.handshakes.iter().position(|(number, _)| *number == to) else {
                continue;
            };
            let Some((_, mut handshake)) = self.handshakes.remove(at) else { continue };
            handshake[8..16].copy_from_slice(&token.to_le_bytes());
            let _ = self.udp.send_to(&handshake, &self.at);
        }
    }
}

fn unix_socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn unix_address(host: &str) -> SocketAddrUnix {
    let user = rustix::process::getuid().as_raw();
    SocketAddrUnix::new_abstract_name(format!("egret/{user}/{host}").as_bytes()).unwrap()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}
