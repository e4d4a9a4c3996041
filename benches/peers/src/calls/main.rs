//! Calls by egret, tonic, tarpc and capnp-rpc between two processes, in one run.
//!
//! `cargo run --release --features calls --bin calls` prints the table; with
//! `--features capnp` capnp-rpc is in it, whose schema takes `capnp` of the Debian package
//! capnproto to compile. Names of peers and of calls as arguments restrict it to
//! them, `--reps N` repeats more or less often. docs/reference/bench.md says what is measured.
#![forbid(unsafe_code)]

#[cfg(feature = "capnp")]
mod by_capnp;
mod by_egret;
mod by_hand;
mod by_tarpc;
mod by_tonic;
mod duo;
mod measure;
#[path = "../values.rs"]
#[expect(dead_code, reason = "of all values this has only the tree")]
mod values;
mod what;

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use egret::vi::Wait;
use tokio::runtime::{Builder, Runtime};

use what::{CASES, Case};

/// Somebody to call through.
pub struct Peer {
    name: &'static str,
    /// Serves, and says where when it does.
    serve: fn(Told<'_>) -> Result<()>,
    connect: fn(&str) -> Result<Box<dyn Client>>,
}

/// Where a server says where it is.
pub type Told<'a> = &'a dyn Fn(&str) -> Result<()>;

/// The one that calls.
pub trait Client {
    /// Calls `rounds` times: nanoseconds of each, or one figure for all where many are
    /// under way. `None` if this is not for it.
    fn run(&mut self, case: Case, rounds: u64) -> Result<Option<Vec<f64>>>;
}

const PEERS: &[Peer] = &[
    Peer {
        name: "egret-shm",
        serve: |told| by_egret::serve("shm", Wait::Spin, told),
        connect: |to| by_egret::connect("shm", Wait::Spin, to),
    },
    Peer {
        name: "egret-tcp",
        serve: |told| by_egret::serve("tcp", Wait::Spin, told),
        connect: |to| by_egret::connect("tcp", Wait::Spin, to),
    },
    // The same, and asleep when there is nothing to do, as the others are.
    Peer {
        name: "shm-sleeps",
        serve: |told| by_egret::serve("shm", Wait::Balanced, told),
        connect: |to| by_egret::connect("shm", Wait::Balanced, to),
    },
    Peer {
        name: "tcp-sleeps",
        serve: |told| by_egret::serve("tcp", Wait::Balanced, told),
        connect: |to| by_egret::connect("tcp", Wait::Balanced, to),
    },
    Peer { name: "tcp", serve: by_hand::serve, connect: by_hand::connect },
    Peer { name: "tonic", serve: by_tonic::serve, connect: by_tonic::connect },
    Peer { name: "tarpc", serve: by_tarpc::serve, connect: by_tarpc::connect },
    #[cfg(feature = "capnp")]
    Peer { name: "capnp-rpc", serve: by_capnp::serve, connect: by_capnp::connect },
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, name, core] = &args[..]
        && serve == "serve"
    {
        let known = PEERS.iter().find(|peer| peer.name == name);
        return duo::serve(known.context("nobody of this name")?, core.parse()?);
    }
    let asked = Asked::read(&args)?;
    let [mine, theirs] = duo::cores()?;
    duo::pin(mine)?;
    table(&asked, theirs)
}

/// What the arguments say.
struct Asked {
    peers: Vec<&'static Peer>,
    cases: Vec<Case>,
    reps: usize,
}

impl Asked {
    fn read(args: &[String]) -> Result<Self> {
        let (mut names, mut reps, mut args) = (Vec::new(), 5, args.iter());
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--reps" => reps = args.next().context("--reps N")?.parse().context("--reps N")?,
                name => names.push(name),
            }
        }
        for name in &names {
            let is_known = PEERS.iter().any(|peer| peer.name == *name)
                || CASES.iter().any(|case| case.call.name() == *name);
            ensure!(is_known, "no peer and no call is named {name}");
        }
        ensure!(reps > 0, "--reps 1 at least");
        let peers = only(PEERS.iter(), |peer| names.contains(&peer.name));
        let cases = only(CASES.into_iter(), |case| names.contains(&case.call.name()));
        Ok(Self { peers, cases, reps })
    }
}

/// Those that are named, or all if none is.
fn only<T: Copy>(all: impl Iterator<Item = T>, is_named: impl Fn(&T) -> bool) -> Vec<T> {
    let all: Vec<T> = all.collect();
    let named: Vec<T> = all.iter().copied().filter(is_named).collect();
    if named.is_empty() { all } else { named }
}

/// Measures and prints.
fn table(asked: &Asked, core: usize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let titles: String = asked.peers.iter().map(|peer| format!("{:>14}", peer.name)).collect();
    writeln!(out, "{:<12}{:>10}{titles}", "call", "in flight")?;
    for &case in &asked.cases {
        let mut times: Vec<Vec<f64>> = asked.peers.iter().map(|_| Vec::new()).collect();
        for rep in 0..asked.reps {
            for turn in 0..asked.peers.len() {
                // Each time another one is first.
                let at = (turn + rep) % asked.peers.len();
                times[at].extend(turn_of(asked.peers[at], core, case)?);
            }
        }
        let figures = times.into_iter().map(|times| figure(case, times));
        let figures: String = figures.map(|figure| format!("{figure:>14}")).collect();
        writeln!(out, "{:<12}{:>10}{figures}", case.call.name(), case.inflight)?;
        out.flush()?;
    }
    Ok(())
}

/// Microseconds of a call, or calls a second.
fn figure(case: Case, times: Vec<f64>) -> String {
    match case.inflight {
        _ if times.is_empty() => "-".to_owned(),
        1 => format!("{:.2} us", measure::median(times) / 1e3),
        _ => format!("{:.0} /s", 1e9 / measure::median(times)),
    }
}

/// One turn of one peer, whose server is started for it: the median.
fn turn_of(peer: &Peer, core: usize, case: Case) -> Result<Option<f64>> {
    let server = duo::Server::start(peer, core)?;
    let mut client = (peer.connect)(&server.at).with_context(|| peer.name)?;
    let mut rounds = 64;
    loop {
        let start = Instant::now();
        let Some(times) = client.run(case, rounds).with_context(|| peer.name)? else {
            return Ok(None);
        };
        // Runs get longer until one is long enough; the others were to get warm.
        if start.elapsed().as_millis() >= LONG_MS {
            return Ok(Some(measure::median(times)));
        }
        rounds *= 2;
    }
}

/// Of one thread: there is a core for each process.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// How long the run of a turn that counts takes at least.
const LONG_MS: u128 = 100;
