//! `egret bench look`: what idle connections cost who looks for messages.

use std::process;
use std::rc::Rc;

use anyhow::Result;
use egret::net::rt;

use super::Suite;
use super::args::{Common, between_processes};
use super::duo::{Trusting, Waiting};
use super::machine;
use super::many::{Many, Meeting};
use super::measure::{Against, Case, Probe, Unit};
use super::peer::Peer;
use super::probe::{Batches, with_slot};
use super::report::{Column, Line};
use super::side::Mode;
use super::vi;

/// What idle connections cost who looks for messages
///
/// "look": one poll of a nic that finds nothing, with so many connections. "found": a
/// message of 4 bytes over one of them and its answer, each time over another one, which
/// was idle; both sides look everywhere. Held against the same with one connection, and what is
/// found over shm against shm-slot ("of slot").
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many connections the nic has
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,64,1024",
          value_parser = clap::value_parser!(u32).range(0..=4096))]
    peers: Vec<u32>,
    /// What carries next to nothing: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Look,
    Found,
}

pub(crate) fn suite(args: &Args) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let fabric = between_processes(&args.fabric)?;
    let looks = args.peers.iter().map(|&peers| (What::Look, peers));
    // Nothing comes from nobody.
    let found = args.peers.iter().filter(|peers| **peers > 0);
    let rows: Vec<_> = looks.chain(found.map(|&peers| (What::Found, peers))).collect();
    machine::open_many();
    let peer = Rc::new(Peer::start()?);
    let cases = rows.into_iter().map(move |(what, peers)| {
        let many = |connections| {
            let host = format!("look-{}-{:x}", process::id(), rt::random());
            let (fabric, wait) = (fabric.to_owned(), Waiting::Spin);
            Many::new(&peer, &Meeting { fabric, wait, connections, host })
        };
        let (subject, one) = (what.probe(many(peers)?), what.probe(many(1)?));
        let line = Line {
            bench: NAME,
            fabric: Some(fabric),
            mode: Some(Mode::Posted.name()),
            ring: vi::ring(fabric, false),
            wait: Some(Waiting::Spin.name()),
            trust: Some(Trusting::Isolated.name()),
            op: Some(what.name()),
            peers: Some(peers),
            limit: ONE,
            ..Line::default()
        };
        let against = match what {
            What::Look => Against::Limit(one),
            What::Found => with_slot(&peer, (ONE, one), fabric, 0)?,
        };
        Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: None })
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Found => "found",
        }
    }

    fn probe(self, many: Many) -> Box<dyn Probe> {
        match self {
            Self::Look => Box::new(Batches::new(POLLS, move |polls| many.look(polls))),
            Self::Found => Box::new(many),
        }
    }
}

const NAME: &str = "look";
const ONE: &str = "one-peer";
/// Of one batch.
const POLLS: usize = 100;
const COLUMNS: &[Column] = &[
    Column::OP,
    Column::PEERS,
    Column::P50,
    Column::P99,
    Column::LIMIT,
    Column::LIMIT_NS,
    Column::RATIO,
    Column::OF_SLOT,
    Column::SPREAD,
];
