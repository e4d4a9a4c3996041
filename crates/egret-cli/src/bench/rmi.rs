//! `egret bench rmi`: remote calls, held against the virtual interface.

use std::hint::black_box;
use std::rc::Rc;

use anyhow::Result;
use clap::ValueEnum;
use egret::net::limit::Limit;
use egret::net::rt;
use egret::stream::Reader;

use super::args::{self, Common};
use super::asking::{self, Asking, Task};
use super::duo::{Answers, Led, Plan, Trusting, Waiting};
use super::machine;
use super::measure::{Against, Case, Further, Probe, Unit};
use super::peer::Peer;
use super::probe::{Linked, with, with_slot};
use super::report::{Column, Line, Of};
use super::rmi_calls::{Call, Calls, Many, OneByOne, StubMemory};
use super::rmi_crowd::{Alone, BEHIND_MAX, Behind, Crossing, Crowd, Work};
use super::rmi_limit::WithTree;
use super::serialize;
use super::side::Mode;
use super::{Suite, am};

/// Remote calls: their time, and how many a second
///
/// An object of another process is called. Held against messages over the virtual
/// interface: as many bytes there as the arguments have, and as many back as the
/// answer has; small arguments also against an active message with as much (of am).
/// The limit of a tree is besides that the time to write and to read it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What carries the calls: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How to wait for the other side
    #[arg(long, default_value = "spin")]
    wait: Waiting,
    /// What is called, instead of all
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    calls: Vec<What>,
    /// Calls under way at once; more than one of calls without arguments
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,64",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    inflight: Vec<u16>,
    /// Calls by so many stubs in turn, too, held against calls by one; and the memory of each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    stubs: Option<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Null,
    /// Of a method that calls an object of its caller, held against a call that does not
    Nested,
    /// While the other side calls an object here; held against a call that is alone
    Crossing,
    /// Sent behind one of a method that blocks for 3 ms
    Behind,
    /// Of a method that sleeps for 50 µs, by 4 threads; held against as many that sleep
    #[value(name = "sleep-50us")]
    Sleep,
    /// Of a method that computes for 50 µs, by 16 threads; held against a thread on each core
    #[value(name = "compute-50us")]
    Compute,
    I32,
    #[value(name = "bytes-64")]
    Bytes64,
    #[value(name = "bytes-1k")]
    Bytes1k,
    #[value(name = "bytes-100k")]
    Bytes100k,
    #[value(name = "i32-100k")]
    Ints100k,
    #[value(name = "f64-100k")]
    Floats100k,
    /// Out of a shareable pool, as the limit's are, and not out of a vector
    #[value(name = "f64-100k-pool")]
    Pool100k,
    Tree1023,
    /// And how its server comes by the array
    #[value(name = "f64-1k")]
    Floats1k,
    /// The same
    #[value(name = "f64-1m")]
    Floats1m,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Nested => "nested",
            Self::Crossing => "crossing",
            Self::Behind => "behind",
            Self::Sleep => "sleep-50us",
            Self::Compute => "compute-50us",
            Self::I32 => "i32",
            Self::Bytes64 => "bytes-64",
            Self::Bytes1k => "bytes-1k",
            Self::Bytes100k => "bytes-100k",
            Self::Ints100k => "i32-100k",
            Self::Floats100k => "f64-100k",
            Self::Pool100k => "f64-100k-pool",
            Self::Tree1023 => "tree1023",
            Self::Floats1k => "f64-1k",
            Self::Floats1m => "f64-1m",
        }
    }

    /// What the method does meanwhile, of those that several threads call.
    const fn work(self) -> Option<Work> {
        match self {
            Self::Sleep => Some(Work::Sleeps),
            Self::Compute => Some(Work::Computes),
            _ => None,
        }
    }

    const fn call(self) -> Call {
        match self {
            Self::Null => Call::Null,
            // Those of the crowd are plain.
            Self::Crossing | Self::Behind | Self::Sleep | Self::Compute => Call::Plain,
            Self::Nested => Call::Nested,
            Self::I32 => Call::Int,
            Self::Bytes64 => Call::Bytes(64),
            Self::Bytes1k => Call::Bytes(1024),
            Self::Bytes100k => Call::Bytes(100_000),
            Self::Ints100k => Call::Ints(25_000),
            Self::Floats100k => Call::Floats(12_500),
            Self::Pool100k => Call::PoolFloats(12_500),
            Self::Tree1023 => Call::Tree,
            Self::Floats1k => Call::Floats(128),
            Self::Floats1m => Call::Floats(128 << 10),
        }
    }
}

/// A line to measure.
#[derive(Debug, Clone, Copy)]
enum Row {
    Call {
        what: What,
        call: Call,
        inflight: usize,
    },
    /// What the server does to come by an array.
    Read {
        what: What,
        len: usize,
    },
    /// A call that is not alone.
    Crowd {
        what: What,
    },
    /// Calls by many stubs, or what each takes of memory.
    Stubs {
        count: usize,
        is_memory: bool,
    },
}

pub(crate) fn suite(args: &Args) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let fabric = args::between_processes(&args.fabric)?;
    let whats = match &args.calls[..] {
        [] => What::value_variants(),
        calls => calls,
    };
    let mut rows: Vec<Row> = whats.iter().flat_map(|what| rows(*what, &args.inflight)).collect();
    if let Some(count) = args.stubs {
        let count = usize::try_from(count)?;
        rows.extend([true, false].map(|is_memory| Row::Stubs { count, is_memory }));
    }
    machine::open_many();
    let (peer, wait) = (Rc::new(Peer::start()?), args.wait);
    let calls = Rc::new(Calls::new(&peer, fabric, wait)?);
    let cases = rows.into_iter().map(move |row| match row {
        Row::Read { what, len } => Ok(read_case(what, len)),
        Row::Crowd { what } => {
            let line = Line { fabric: Some(fabric), wait: Some(wait.name()), ..line(what) };
            Ok(crowd_case(&calls, line, what))
        }
        Row::Call { what, call, inflight } => {
            let line = Line { fabric: Some(fabric), wait: Some(wait.name()), ..line(what) };
            call_case(&peer, &calls, Line { inflight: Some(inflight), ..line }, call)
        }
        Row::Stubs { count, is_memory } => {
            let line = Line { fabric: Some(fabric), wait: Some(wait.name()), ..line(What::Null) };
            Ok(stubs_case(&calls, line, count, is_memory))
        }
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

fn rows(what: What, inflight: &[u16]) -> Vec<Row> {
    let mut rows = Vec::new();
    for &inflight in inflight {
        let (inflight, call) = (inflight.into(), what.call());
        if let What::Crossing | What::Behind | What::Sleep | What::Compute = what {
            rows.extend((inflight == 1).then_some(Row::Crowd { what }));
        } else if what == What::Null {
            rows.push(Row::Call { what, call, inflight });
            rows.push(Row::Call { what, call: Call::Plain, inflight });
            if inflight == 1 {
                rows.push(Row::Call { what, call: Call::Awaited, inflight });
                rows.push(Row::Call { what, call: Call::Tokio, inflight });
            }
        } else if inflight == 1 {
            rows.push(Row::Call { what, call, inflight });
        }
    }
    if let What::Floats1k | What::Floats1m = what
        && let Call::Floats(len) = what.call()
    {
        rows.push(Row::Read { what, len });
    }
    rows
}

fn line(what: What) -> Line {
    Line { bench: NAME, call: Some(what.name()), limit: VI, ..Line::default() }
}

fn call_case(peer: &Rc<Peer>, calls: &Rc<Calls>, line: Line, call: Call) -> Result<Case> {
    let inflight = line.inflight.unwrap_or(1);
    let mode = Some(match call {
        Call::Plain => "plain",
        Call::Awaited => "await",
        Call::Tokio => "tokio",
        Call::Nested | Call::Stubs(_) => "plain",
        _ => "inline",
    });
    if call == Call::Nested {
        return Ok(against_plain(calls, Line { mode, ..line }, call));
    }
    let (there, back) = call.bytes()?;
    let line = Line { mode, bytes: there, trust: Some(Trusting::Isolated.name()), ..line };
    let answers = if inflight > 1 { Answers::Ahead(back) } else { Answers::Each(back) };
    let vi = |bytes| Led::new(peer, plan(&line, calls.wait(), bytes, answers));
    let limit: Box<dyn Probe> = match call {
        Call::Tree => Box::new(WithTree::new(vi)?),
        Call::Tokio => Box::new(Linked::new(peer, Limit::Eventfd, 8)?),
        _ => Box::new(vi(there)?),
    };
    let (calls, fabric, wait) = (Rc::clone(calls), line.fabric.unwrap_or_default(), calls.wait());
    let name = match call {
        Call::Tree => VI_AND_TREE,
        Call::Tokio => Limit::Eventfd.name(),
        _ => VI,
    };
    let line = Line { limit: name, ..line };
    let against = match inflight {
        1 if call == Call::Tokio => Against::Limit(limit),
        1 if there <= SMALL_MAX => {
            let against = with_slot(peer, (name, limit), fabric, there)?;
            with_am(peer, against, (fabric, wait), there)?
        }
        1 => Against::Limit(limit),
        _ => with(peer, (name, limit), fabric, (Of::LineEcho, Limit::LineEcho, 8))?,
    };
    let (subject, unit): (Box<dyn Probe>, _) = match inflight {
        1 => (Box::new(OneByOne::new(calls, call)), Unit::Nanos),
        _ => (Box::new(Many { calls, call, inflight }), Unit::Messages),
    };
    Ok(Case { line, unit, subject, against, rounds: None })
}

/// Arguments are held against an active message with as much, too, answered as the call is.
fn with_am(
    peer: &Rc<Peer>,
    against: Against,
    (fabric, wait): (&str, Waiting),
    bytes: usize,
) -> Result<Against> {
    let (limit, mut further) = match against {
        Against::Limit(limit) => (limit, Vec::new()),
        Against::Limits(limit, further) => (limit, further),
        other => return Ok(other),
    };
    if bytes > 0 {
        let (words, copied) = if bytes <= 8 { (1, 0) } else { (0, bytes) };
        let (what, fabric, host) = (asking::What::Marked, fabric.to_owned(), am::host("am"));
        let task = Task { fabric, wait, what, words, bytes: 0, copied, window: 1, host };
        further.push(Further { of: Of::Am, probe: Some(Box::new(Asking::new(peer, task)?)) });
    }
    Ok(Against::Limits(limit, further))
}

/// Calls one at a time, held against those of a plain method by one stub.
fn against_plain(calls: &Rc<Calls>, line: Line, call: Call) -> Case {
    let probe = |call| Box::new(OneByOne::new(Rc::clone(calls), call));
    let line = Line { limit: "one plain call", ..line };
    let against = Against::Limit(probe(Call::Plain));
    Case { line, unit: Unit::Nanos, subject: probe(call), against, rounds: None }
}

/// Calls that are not alone.
fn crowd_case(calls: &Rc<Calls>, line: Line, what: What) -> Case {
    let own = Rc::clone(calls);
    let plain = || Box::new(OneByOne::new(Rc::clone(calls), Call::Plain));
    let (inflight, subject, against): (_, Box<dyn Probe>, Against) = match what.work() {
        Some(work) => {
            let alone = Against::Limit(Box::new(Alone(work)));
            (work.callers(), Box::new(Crowd { calls: own, work }), alone)
        }
        None if what == What::Behind => (1, Box::new(Behind(own)), Against::Allowance(BEHIND_MAX)),
        None => (1, Box::new(Crossing(own)), Against::Limit(plain())),
    };
    let (limit, unit) = match what {
        What::Behind => ("allowed", Unit::Nanos),
        What::Crossing => ("one plain call", Unit::Nanos),
        _ => ("threads", Unit::Messages),
    };
    let line = Line { mode: Some("plain"), inflight: Some(inflight), limit, ..line };
    Case { line, unit, subject, against, rounds: None }
}

/// Calls by many stubs in turn, or what each takes of memory.
fn stubs_case(calls: &Rc<Calls>, line: Line, count: usize, is_memory: bool) -> Case {
    let line = Line { mode: Some("plain"), objects: Some(count), ..line };
    if !is_memory {
        return against_plain(calls, Line { call: Some("stubs"), ..line }, Call::Stubs(count));
    }
    let line = Line { call: Some("stub-memory"), limit: "allowed", ..line };
    let subject = Box::new(StubMemory::new(Rc::clone(calls), count));
    let against = Against::Allowance(STUB_BYTES);
    Case { line, unit: Unit::Bytes, subject, against, rounds: Some(1) }
}

/// The same over the virtual interface.
fn plan(line: &Line, wait: Waiting, bytes: usize, answers: Answers) -> Plan {
    Plan {
        fabric: line.fabric.unwrap_or_default().to_owned(),
        mode: Mode::Posted,
        bytes,
        wait,
        trust: Trusting::Isolated,
        encrypt: None,
        answers,
        window: match answers {
            Answers::Ahead(_) => line.inflight.unwrap_or(1),
            _ => Mode::Posted.many(false, bytes),
        },
        idle: 0,
        host: format!("bench-vi-{}-{:x}", std::process::id(), rt::random()),
        to: String::new(),
        secret: None,
    }
}

/// The arguments are taken apart as a server does it, held against copying the array.
fn read_case(what: What, len: usize) -> Case {
    let data: Vec<f64> = (0..len).map(|at| at as f64).collect();
    let bytes: &'static [u8] = serialize::aligned(&(&data[..],));
    let read = move || -> &'static [f64] {
        let (data,) = Reader::new(black_box(bytes)).read_last().expect("it was written");
        data
    };
    let (limit, memcpy) = serialize::memcpy(bytes);
    let op = Some("read-in-place");
    let line = Line { op, limit, bytes: bytes.len(), ..line(what) };
    let subject = serialize::repeat(serialize::NOTHING, read);
    Case { line, unit: Unit::Nanos, subject, against: Against::Limit(memcpy), rounds: None }
}

/// What a stub may take of memory.
const STUB_BYTES: f64 = 200.0;
const NAME: &str = "rmi";
/// The virtual interface.
const VI: &str = "vi";
/// And what a tree costs besides.
const VI_AND_TREE: &str = "vi+tree";
/// Arguments of more bytes are no small message.
const SMALL_MAX: usize = 4096;
const COLUMNS: &[Column] = &[
    Column::CALL,
    Column::IN_FLIGHT,
    Column::HOW,
    Column::SIZE,
    Column::P50,
    Column::P99,
    Column::MSG_S,
    Column::LIMIT,
    Column::LIMIT_NS,
    Column::LIMIT_MSG_S,
    Column::RATIO,
    Column::OF_SLOT,
    Column::OF_AM,
    Column::OF_LINE_ECHO,
    Column::SPREAD,
];
