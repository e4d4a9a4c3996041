//! `egret bench rmi`: remote calls, held against the virtual interface.

use std::hint::black_box;
use std::rc::Rc;

use crate::limit::MachineLimit;
use anyhow::Result;
use clap::ValueEnum;
use egret::wire::Reader;

use super::calls::{CallsInFlight, MeasuredCall, OneByOne, RmiNodes, StubMemory};
use super::crowd::{BEHIND_MAX, CallBehindBlocked, Crossing, Crowd, MethodWork, WorkAlone};
use super::limit::WithTree;
use crate::Suite;
use crate::am::requester::RequestSender;
use crate::am::served::{RequestMeasure, RequestTask};
use crate::args::{self, Common};
use crate::machine;
use crate::measure::probe::{Linked, with, with_slot};
use crate::measure::report::{Of, ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Further, Probe};
use crate::peer::FollowerProcess;
use crate::serialize;
use crate::vi::duo::{Answers, DuoPlan, Led, Trusting, WaitMode, host};

/// Remote calls: their time, and how many a second
///
/// An object of another process is called. Held against messages over the virtual
/// interface: as many bytes there as the arguments have, and as many back as the
/// answer has; small arguments also against an active message with as much (of am).
/// The limit of a tree is besides that the time to write and to read it.
#[derive(Debug, clap::Args)]
pub(crate) struct RmiArgs {
    /// What carries the calls: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How to wait for the other side
    #[arg(long, default_value = "spin")]
    wait: WaitMode,
    /// What is called, instead of all
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    calls: Vec<CallMeasure>,
    /// Calls under way at once; more than one of calls without arguments
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,64",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    inflight: Vec<u32>,
    /// Calls by so many stubs in turn, too, held against calls by one; and the memory of each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    stubs: Option<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CallMeasure {
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

impl CallMeasure {
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
    const fn work(self) -> Option<MethodWork> {
        match self {
            Self::Sleep => Some(MethodWork::Sleeps),
            Self::Compute => Some(MethodWork::Computes),
            _ => None,
        }
    }

    const fn call(self) -> MeasuredCall {
        match self {
            Self::Null => MeasuredCall::Null,
            // Those of the crowd are plain.
            Self::Crossing | Self::Behind | Self::Sleep | Self::Compute => MeasuredCall::Plain,
            Self::Nested => MeasuredCall::Nested,
            Self::I32 => MeasuredCall::Int,
            Self::Bytes64 => MeasuredCall::Bytes(64),
            Self::Bytes1k => MeasuredCall::Bytes(1024),
            Self::Bytes100k => MeasuredCall::Bytes(100_000),
            Self::Ints100k => MeasuredCall::Ints(25_000),
            Self::Floats100k => MeasuredCall::Floats(12_500),
            Self::Pool100k => MeasuredCall::PoolFloats(12_500),
            Self::Tree1023 => MeasuredCall::Tree,
            Self::Floats1k => MeasuredCall::Floats(128),
            Self::Floats1m => MeasuredCall::Floats(128 << 10),
        }
    }
}

/// A line to measure.
#[derive(Debug, Clone, Copy)]
enum RmiRow {
    Call {
        what: CallMeasure,
        call: MeasuredCall,
        inflight: usize,
    },
    /// What the server does to come by an array.
    Read {
        what: CallMeasure,
        len: usize,
    },
    /// A call that is not alone.
    Crowd {
        what: CallMeasure,
    },
    /// Calls by many stubs, or what each takes of memory.
    Stubs {
        count: usize,
        is_memory: bool,
    },
}

pub(crate) fn suite(args: &RmiArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let fabric = args::between_processes(&args.fabric)?;
    let whats = match &args.calls[..] {
        [] => CallMeasure::value_variants(),
        calls => calls,
    };
    let mut rows: Vec<RmiRow> = whats.iter().flat_map(|what| rows(*what, &args.inflight)).collect();
    if let Some(count) = args.stubs {
        let count = usize::try_from(count)?;
        rows.extend([true, false].map(|is_memory| RmiRow::Stubs { count, is_memory }));
    }
    machine::open_many();
    let (peer, wait) = (Rc::new(FollowerProcess::start()?), args.wait);
    let calls = Rc::new(RmiNodes::new(&peer, fabric, wait)?);
    let cases = rows.into_iter().map(move |row| match row {
        RmiRow::Read { what, len } => Ok(read_case(what, len)),
        RmiRow::Crowd { what } => {
            let line = ReportLine { fabric: Some(fabric), wait: Some(wait.name()), ..line(what) };
            Ok(crowd_case(&calls, line, what))
        }
        RmiRow::Call { what, call, inflight } => {
            let line = ReportLine { fabric: Some(fabric), wait: Some(wait.name()), ..line(what) };
            call_case(&peer, &calls, ReportLine { inflight: Some(inflight), ..line }, call)
        }
        RmiRow::Stubs { count, is_memory } => {
            let line = ReportLine {
                fabric: Some(fabric),
                wait: Some(wait.name()),
                ..line(CallMeasure::Null)
            };
            Ok(stubs_case(&calls, line, count, is_memory))
        }
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

fn rows(what: CallMeasure, inflight: &[u32]) -> Vec<RmiRow> {
    let mut rows = Vec::new();
    for &inflight in inflight {
        let (inflight, call) = (inflight as usize, what.call());
        if let CallMeasure::Crossing
        | CallMeasure::Behind
        | CallMeasure::Sleep
        | CallMeasure::Compute = what
        {
            rows.extend((inflight == 1).then_some(RmiRow::Crowd { what }));
        } else if what == CallMeasure::Null {
            rows.push(RmiRow::Call { what, call, inflight });
            rows.push(RmiRow::Call { what, call: MeasuredCall::Plain, inflight });
            if inflight == 1 {
                rows.push(RmiRow::Call { what, call: MeasuredCall::Awaited, inflight });
                rows.push(RmiRow::Call { what, call: MeasuredCall::Tokio, inflight });
            }
        } else if inflight == 1 {
            rows.push(RmiRow::Call { what, call, inflight });
        }
    }
    if let CallMeasure::Floats1k | CallMeasure::Floats1m = what
        && let MeasuredCall::Floats(len) = what.call()
    {
        rows.push(RmiRow::Read { what, len });
    }
    rows
}

fn line(what: CallMeasure) -> ReportLine {
    ReportLine { bench: NAME, call: Some(what.name()), limit: VI, ..ReportLine::default() }
}

fn call_case(
    peer: &Rc<FollowerProcess>,
    calls: &Rc<RmiNodes>,
    line: ReportLine,
    call: MeasuredCall,
) -> Result<Case> {
    let inflight = line.inflight.unwrap_or(1);
    let mode = Some(match call {
        MeasuredCall::Plain => "plain",
        MeasuredCall::Awaited => "await",
        MeasuredCall::Tokio => "tokio",
        MeasuredCall::Nested | MeasuredCall::Stubs(_) => "plain",
        _ => "inline",
    });
    if call == MeasuredCall::Nested {
        return Ok(against_plain(calls, ReportLine { mode, ..line }, call));
    }
    let (there, back) = call.bytes()?;
    let line = ReportLine { mode, bytes: there, trust: Some(Trusting::Isolated.name()), ..line };
    let answers = if inflight > 1 { Answers::Ahead(back) } else { Answers::Each(back) };
    let vi = |bytes| Led::new(peer, plan(&line, calls.wait(), bytes, answers));
    let limit: Box<dyn Probe> = match call {
        MeasuredCall::Tree => Box::new(WithTree::new(vi)?),
        MeasuredCall::Tokio => Box::new(Linked::new(peer, MachineLimit::Eventfd, 8)?),
        _ => Box::new(vi(there)?),
    };
    let (calls, fabric, wait) = (Rc::clone(calls), line.fabric.unwrap_or_default(), calls.wait());
    let name = match call {
        MeasuredCall::Tree => VI_AND_TREE,
        MeasuredCall::Tokio => MachineLimit::Eventfd.name(),
        _ => VI,
    };
    let line = ReportLine { limit: name, ..line };
    let against = match inflight {
        1 if call == MeasuredCall::Tokio => Against::Limit(limit),
        1 if there <= SMALL_MAX => {
            let against = with_slot(peer, (name, limit), fabric, there)?;
            with_am(peer, against, (fabric, wait), there)?
        }
        1 => Against::Limit(limit),
        _ => with(peer, (name, limit), fabric, (Of::LineEcho, MachineLimit::LineEcho, 8))?,
    };
    let (subject, unit): (Box<dyn Probe>, _) = match inflight {
        1 => (Box::new(OneByOne::new(calls, call)), Unit::Nanos),
        _ => (Box::new(CallsInFlight { calls, call, inflight }), Unit::Messages),
    };
    Ok(Case { line, unit, subject, against, rounds: None })
}

/// Arguments are held against an active message with as much, too, answered as the call is.
fn with_am(
    peer: &Rc<FollowerProcess>,
    against: Against,
    (fabric, wait): (&str, WaitMode),
    bytes: usize,
) -> Result<Against> {
    let (limit, mut further) = match against {
        Against::Limit(limit) => (limit, Vec::new()),
        Against::Limits(limit, further) => (limit, further),
        other => return Ok(other),
    };
    if bytes > 0 {
        let (words, copied) = if bytes <= 8 { (1, 0) } else { (0, bytes) };
        let (what, fabric, host) = (RequestMeasure::Marked, fabric.to_owned(), host("am"));
        let task = RequestTask { fabric, wait, what, words, bytes: 0, copied, window: 1, host };
        further
            .push(Further { of: Of::Am, probe: Some(Box::new(RequestSender::new(peer, task)?)) });
    }
    Ok(Against::Limits(limit, further))
}

/// Calls one at a time, held against those of a plain method by one stub.
fn against_plain(calls: &Rc<RmiNodes>, line: ReportLine, call: MeasuredCall) -> Case {
    let probe = |call| Box::new(OneByOne::new(Rc::clone(calls), call));
    let line = ReportLine { limit: "one plain call", ..line };
    let against = Against::Limit(probe(MeasuredCall::Plain));
    Case { line, unit: Unit::Nanos, subject: probe(call), against, rounds: None }
}

/// Calls that are not alone.
fn crowd_case(calls: &Rc<RmiNodes>, line: ReportLine, what: CallMeasure) -> Case {
    let own = Rc::clone(calls);
    let plain = || Box::new(OneByOne::new(Rc::clone(calls), MeasuredCall::Plain));
    let (inflight, subject, against): (_, Box<dyn Probe>, Against) = match what.work() {
        Some(work) => {
            let alone = Against::Limit(Box::new(WorkAlone(work)));
            (work.callers(), Box::new(Crowd { calls: own, work }), alone)
        }
        None if what == CallMeasure::Behind => {
            (1, Box::new(CallBehindBlocked(own)), Against::Allowance(BEHIND_MAX))
        }
        None => (1, Box::new(Crossing(own)), Against::Limit(plain())),
    };
    let (limit, unit) = match what {
        CallMeasure::Behind => ("allowed", Unit::Nanos),
        CallMeasure::Crossing => ("one plain call", Unit::Nanos),
        _ => ("threads", Unit::Messages),
    };
    let line = ReportLine { mode: Some("plain"), inflight: Some(inflight), limit, ..line };
    Case { line, unit, subject, against, rounds: None }
}

/// Calls by many stubs in turn, or what each takes of memory.
fn stubs_case(calls: &Rc<RmiNodes>, line: ReportLine, count: usize, is_memory: bool) -> Case {
    let line = ReportLine { mode: Some("plain"), objects: Some(count), ..line };
    if !is_memory {
        return against_plain(
            calls,
            ReportLine { call: Some("stubs"), ..line },
            MeasuredCall::Stubs(count),
        );
    }
    let line = ReportLine { call: Some("stub-memory"), limit: "allowed", ..line };
    let subject = Box::new(StubMemory::new(Rc::clone(calls), count));
    let against = Against::Allowance(STUB_BYTES);
    Case { line, unit: Unit::Bytes, subject, against, rounds: Some(1) }
}

/// The same over the virtual interface.
fn plan(line: &ReportLine, wait: WaitMode, bytes: usize, answers: Answers) -> DuoPlan {
    let plan = DuoPlan::new(line.fabric.unwrap_or_default(), bytes, answers);
    let window = match answers {
        Answers::Ahead(_) => line.inflight.unwrap_or(1),
        _ => plan.window,
    };
    DuoPlan { wait, window, ..plan }
}

/// The arguments are taken apart as a server does it, held against copying the array.
fn read_case(what: CallMeasure, len: usize) -> Case {
    let data: Vec<f64> = (0..len).map(|at| at as f64).collect();
    let bytes: &'static [u8] = serialize::aligned(&(&data[..],));
    let read = move || -> &'static [f64] {
        let (data,) = Reader::new(black_box(bytes)).read_last().expect("it was written");
        data
    };
    let (limit, memcpy) = serialize::memcpy(bytes);
    let op = Some("read-in-place");
    let line = ReportLine { op, limit, bytes: bytes.len(), ..line(what) };
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
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::CALL,
    ReportColumn::IN_FLIGHT,
    ReportColumn::HOW,
    ReportColumn::SIZE,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::MSG_S,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::LIMIT_MSG_S,
    ReportColumn::RATIO,
    ReportColumn::OF_SLOT,
    ReportColumn::OF_AM,
    ReportColumn::OF_LINE_ECHO,
    ReportColumn::SPREAD,
];
