//! `egret bench connect`: what it takes to connect.

use std::collections::VecDeque;
use std::process;
use std::rc::Rc;
use std::time::Duration;

use crate::limit::{MachineLimit, Stopwatch};
use anyhow::{Context, Result};
use egret::fabric::Fabrics;
use egret::vi::{Address, Listener, Nic, NicOptions, Vi};
use serde::{Deserialize, Serialize};

use crate::Suite;
use crate::args::{Common, Usage};
use crate::idle::still::cpu_time;
use crate::measure::probe::Linked;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe, Sample};
use crate::peer::{Follower, FollowerProcess, PeerFigures, PeerStation, PeerTask};
use crate::side::PATIENCE;
use crate::vi::duo::{Encrypting, WaitMode, options};

/// What it takes to connect two processes over tcp or udp.
///
/// A caller connects and leaves, again and again; both sides sleep while they wait. `time` is from
/// the call until the connection is there, over tcp held against a bare connection, accepted by the
/// other process, which says one byte. `caller-cpu` and `callee-cpu` are what one connection takes
/// of the processor in the two processes, kernel and leaving included, held against 1 ms.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectArgs {
    /// What connects: tcp or udp
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    fabric: String,
    /// Encrypt the connections, or do not; both, one after the other, without this
    #[arg(long, value_name = "on|off")]
    encrypt: Option<Encrypting>,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &ConnectArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let fabric = ["tcp", "udp"].into_iter().find(|fabric| *fabric == args.fabric);
    let fabric = fabric.ok_or_else(|| {
        Usage(format!(
            "{NAME} is for tcp and udp, which do handshakes over a network, not {}",
            args.fabric
        ))
    })?;
    let both = [Encrypting::Off, Encrypting::On];
    let encrypts = both.into_iter().filter(|each| args.encrypt.is_none_or(|only| only == *each));
    let ops = [ConnectOp::Time, ConnectOp::CallerCpu, ConnectOp::CalleeCpu];
    let looks = encrypts.flat_map(|encrypt| ops.map(|op| (encrypt, op))).collect::<Vec<_>>();
    let rounds = if args.common.quick { 10 } else { 200 };
    let peer = Rc::new(FollowerProcess::start()?);
    let cases =
        looks.into_iter().map(move |(encrypt, op)| case(&peer, fabric, encrypt, op, rounds));
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// What of it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectOp {
    Time,
    CallerCpu,
    CalleeCpu,
}

impl ConnectOp {
    const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::CallerCpu => "caller-cpu",
            Self::CalleeCpu => "callee-cpu",
        }
    }
}

fn case(
    peer: &Rc<FollowerProcess>,
    fabric: &'static str,
    encrypt: Encrypting,
    op: ConnectOp,
    rounds: u64,
) -> Result<Case> {
    let (limit, against) = match op {
        ConnectOp::Time if fabric == "tcp" => {
            let limit = MachineLimit::TcpConnect;
            (limit.name(), Against::Limit(Box::new(Linked::new(peer, limit, 1)?)))
        }
        ConnectOp::Time => ("", Against::Nothing),
        ConnectOp::CallerCpu | ConnectOp::CalleeCpu => ("allowed", Against::Allowance(CPU_NS)),
    };
    let line = ReportLine {
        bench: NAME,
        fabric: Some(fabric),
        wait: Some(WaitMode::Frugal.name()),
        encrypt: Some(encrypt.name()),
        op: Some(op.name()),
        limit,
        ..ReportLine::default()
    };
    let host = format!("connect-{}", process::id());
    let subject = Box::new(ConnectCaller::new(
        peer,
        op,
        &CalleeKind { fabric: fabric.to_owned(), encrypt, host },
    )?);
    Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: Some(rounds) })
}

/// The called side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CalleeKind {
    fabric: String,
    encrypt: Encrypting,
    host: String,
}

impl CalleeKind {
    fn nic(&self, host: &str) -> Result<Nic> {
        let options = NicOptions::new(host).wait(WaitMode::Frugal.of_nic());
        let options = options.encrypt(self.encrypt.of_nic());
        Ok(Fabrics::default().open(&self.fabric, options)?)
    }
}

/// The caller, and the station of who is called.
struct ConnectCaller {
    op: ConnectOp,
    nic: Nic,
    station: PeerStation,
}

impl ConnectCaller {
    fn new(peer: &Rc<FollowerProcess>, op: ConnectOp, called: &CalleeKind) -> Result<Self> {
        let nic = called.nic(&format!("{}-caller", called.host))?;
        let station = peer.open(&CONNECTS, called, &[])?;
        Ok(Self { op, nic, station })
    }

    /// The time of each, and what all took of the processor.
    fn call(&self, rounds: u64) -> Result<(Vec<f64>, Duration)> {
        let (to, options) = (Address::new(&self.station.host, SERVICE, 0), options(&self.nic));
        let (mut times, before) = (Vec::new(), cpu_time());
        for _ in 0..rounds {
            let start = Stopwatch::start();
            let vi = self.nic.wait_connect(&to, &options, PATIENCE)?;
            times.push(start.nanos());
            drop(vi);
        }
        Ok((times, cpu_time().saturating_sub(before)))
    }
}

impl Probe for ConnectCaller {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.station.begin(rounds)?;
        let called = self.call(rounds);
        let theirs = self.station.end();
        let (times, mine) = called?;
        let theirs = theirs?.first().copied().context("what it took there")?;
        Ok(match self.op {
            ConnectOp::Time => Sample::Times(times),
            ConnectOp::CallerCpu => Sample::Value(mine.as_nanos() as f64 / rounds as f64),
            ConnectOp::CalleeCpu => Sample::Value(theirs / rounds as f64),
        })
    }
}

/// The side that is called, in the second process.
pub(crate) const CONNECTS: PeerTask<CalleeKind> =
    PeerTask { name: "connects", start: |called, _| Ok(Box::new(ConnectCallee::new(&called)?)) };

/// The side that is called.
struct ConnectCallee {
    nic: Nic,
    listener: Listener,
    /// Connections that the caller may not know of yet.
    young: VecDeque<Vi>,
}

impl ConnectCallee {
    fn new(called: &CalleeKind) -> Result<Self> {
        let nic = called.nic(&called.host)?;
        let listener = nic.listen(SERVICE, 0, &options(&nic))?;
        Ok(Self { nic, listener, young: VecDeque::new() })
    }
}

impl Follower for ConnectCallee {
    fn host(&self) -> &str {
        self.nic.host()
    }

    /// Accepts so many; the nanoseconds of the processor that this took.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        let before = cpu_time();
        for _ in 0..rounds {
            self.young.push_back(self.listener.wait_accept(PATIENCE)?);
            if self.young.len() > YOUNG {
                self.young.pop_front();
            }
        }
        Ok(vec![cpu_time().saturating_sub(before).as_nanos() as f64])
    }
}

const NAME: &str = "connect";
const SERVICE: &str = "bench";
/// Of the processor, for one side of one connection.
const CPU_NS: f64 = 1e6;
/// Connections that are kept.
const YOUNG: usize = 8;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::ENCRYPT,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
