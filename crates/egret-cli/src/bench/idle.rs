//! `egret bench idle`: what a connection costs while nothing goes over it.

use std::fs;
use std::process;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use egret::net::fabric::Fabrics;
use egret::net::rt::{self, Deadline};
use egret::net::vi::{Address, Descriptor, Listener, Nic, NicOptions, Vi, ViOptions, WaitError};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::Suite;
use super::args::Common;
use super::duo::Waiting;
use super::measure::{Against, Case, Probe, Sample, Unit};
use super::peer::{Opening, Peer, Station, Told};
use super::report::{Column, Line};
use super::side::PATIENCE;

/// What connections cost while nothing goes over them.
///
/// Memory: two processes open connections over shared memory, and each looks how
/// much more of its memory is resident. Counted is the side that has more, all
/// of what it shares included, or `both`, each page once; `used` connections
/// carried messages before.
/// CPU: a process waits for a message that does not come. Both are held against
/// what they may cost: 256 KiB a connection, 1 % of a core.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many connections to open
    #[arg(long, value_name = "N", default_value = "64")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    connections: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &Args) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let memory = |used, both| What::Memory { connections: args.connections, used, both };
    let millis = if args.common.quick { 50 } else { 1000 };
    let all = [
        (memory(false, false), Waiting::Balanced),
        (memory(false, true), Waiting::Balanced),
        (memory(true, false), Waiting::Balanced),
        (memory(true, true), Waiting::Balanced),
        (What::Cpu { millis }, Waiting::Balanced),
        (What::Cpu { millis }, Waiting::Frugal),
    ];
    let cases = all.into_iter().map(|(what, wait)| Ok(case(what, wait)));
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// What is looked at.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum What {
    /// Of the side that has more, or of both together.
    Memory {
        connections: u32,
        used: bool,
        both: bool,
    },
    Cpu {
        millis: u64,
    },
}

fn case(what: What, wait: Waiting) -> Case {
    let (op, connections, unit, allowed) = match what {
        What::Memory { connections, used, both } => {
            let op = match (used, both) {
                (false, false) => "opened",
                (false, true) => "opened both",
                (true, false) => "used",
                (true, true) => "used both",
            };
            (op, connections, Unit::Bytes, BYTES)
        }
        What::Cpu { .. } => ("waiting", 1, Unit::Cpu, CPU),
    };
    let line = Line {
        bench: NAME,
        fabric: Some(FABRIC),
        wait: Some(wait.name()),
        trust: Some("isolated"),
        op: Some(op),
        connections: Some(connections),
        limit: "allowed",
        ..Line::default()
    };
    let subject = Box::new(Look { what, wait });
    Case { line, unit, subject, against: Against::Allowance(allowed), rounds: Some(1) }
}

/// Looks at two processes that were started for it.
struct Look {
    what: What,
    wait: Waiting,
}

impl Probe for Look {
    fn run(&mut self, _: u64) -> Result<Sample> {
        let host = format!("idle-{}-{}", process::id(), rt::random());
        let side = |dials| -> Result<Station> {
            let stillness =
                Stillness { what: self.what, wait: self.wait, host: host.clone(), dials };
            Rc::new(Peer::start_anywhere()?).open(Opening::Idle(stillness), &[])
        };
        let sides = [side(false)?, side(true)?];
        let figure = match self.what {
            What::Memory { connections, both, .. } => {
                // The first has the nics and whatever else there is once.
                let before = at_once(&sides, 1)?;
                at_once(&sides, 1 + u64::from(connections))?;
                let after = at_once(&sides, 1 + u64::from(connections))?;
                let grown = after.iter().zip(before).map(|(after, before)| after - before);
                let of_all = if both { grown.sum() } else { grown.fold(0.0, f64::max) };
                of_all / f64::from(connections)
            }
            What::Cpu { millis } => {
                at_once(&sides, 1)?;
                sides[1].begin(millis)?;
                sides[1].end()?.into_iter().sum()
            }
        };
        Ok(Sample::Value(figure))
    }
}

/// Lets both sides do `rounds`; the figure of each.
fn at_once(sides: &[Station], rounds: u64) -> Result<Told> {
    for side in sides {
        side.begin(rounds)?;
    }
    sides.iter().map(|side| side.end()?.into_iter().next().context("no figure")).collect()
}

/// What one of the two processes is to have open.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stillness {
    what: What,
    wait: Waiting,
    /// The host of the one who listens.
    host: String,
    dials: bool,
}

/// One of the two processes.
#[derive(Debug)]
pub(crate) struct Still {
    plan: Stillness,
    nic: Nic,
    listener: Option<Listener>,
    open: Vec<Vi>,
}

impl Still {
    pub(crate) fn new(plan: Stillness) -> Result<Self> {
        let host = if plan.dials { format!("{}-dials", plan.host) } else { plan.host.clone() };
        let options = NicOptions::new(&host).wait(plan.wait.of_nic());
        let nic = Fabrics::default().open(FABRIC, options)?;
        let listen = |nic: &Nic| nic.listen(NAME, 0, &ViOptions::default());
        let listener = (!plan.dials).then(|| listen(&nic)).transpose()?;
        Ok(Self { plan, nic, listener, open: Vec::new() })
    }

    /// Memory: has so many connections open, and says what is resident.
    /// CPU: connects, or waits so many milliseconds and says what part of them
    /// it used.
    pub(crate) fn follow(&mut self, number: u64) -> Result<Told> {
        match self.plan.what {
            What::Cpu { .. } if !self.open.is_empty() => {
                Ok(vec![wait(&self.open[0], Duration::from_millis(number))?])
            }
            _ => {
                while (self.open.len() as u64) < number {
                    self.open_one()?;
                }
                let both = matches!(self.plan.what, What::Memory { both: true, .. });
                Ok(vec![resident(if both { "Pss:" } else { "Rss:" })?])
            }
        }
    }

    fn open_one(&mut self) -> Result<()> {
        let vi = match &self.listener {
            Some(listener) => listener.wait_accept(PATIENCE)?,
            None => {
                let to = Address::new(&self.plan.host, NAME, 0);
                self.nic.wait_connect(&to, &ViOptions::default(), PATIENCE)?
            }
        };
        if let What::Memory { used: true, .. } = self.plan.what {
            r#use(&vi)?;
        }
        if let What::Cpu { .. } = self.plan.what {
            vi.post_recv(Descriptor::new(vec![0_u8; 1]))?;
        }
        self.open.push(vi);
        Ok(())
    }
}

/// Messages both ways, small and large: whatever is touched by use is touched.
fn r#use(vi: &Vi) -> Result<()> {
    for (count, len) in [(SMALL_MESSAGES, 4), (2, LARGE_BYTES)] {
        for _ in 0..count {
            vi.post_recv(Descriptor::new(vec![0_u8; len]))?;
        }
        for _ in 0..count {
            vi.post_send(Descriptor::new(vec![1_u8; len]))?;
        }
        for _ in 0..count {
            let got = vi.recv_queue().wait(PATIENCE)?.ok()?.into_vec::<u8>();
            ensure!(got.len() == len && got.iter().all(|byte| *byte == 1), "a message was damaged");
        }
        for _ in 0..count {
            vi.send_queue().wait(PATIENCE)?.done()?;
        }
    }
    Ok(())
}

/// Waits in vain; the part of a core that it took.
fn wait(vi: &Vi, time: Duration) -> Result<f64> {
    let (start, before) = (rt::now(), cpu_time());
    match vi.recv_queue().wait(Deadline::In(time)) {
        Err(WaitError::TimedOut { .. }) => {}
        other => bail!("nothing was sent, and a wait ended with {other:?}"),
    }
    let used = cpu_time().saturating_sub(before);
    Ok(used.as_secs_f64() / (rt::now() - start).as_secs_f64())
}

/// Of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Bytes of memory that this process has: `Rss:` counts what it shares in full,
/// `Pss:` only its share of that.
fn resident(name: &str) -> Result<f64> {
    let path = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(path).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{path} has no {name}"))? * 1024.0)
}

const NAME: &str = "idle";
const FABRIC: &str = "shm";
/// What a connection may take.
const BYTES: f64 = 256.0 * 1024.0;
/// What part of a core a blocked waiter may take.
const CPU: f64 = 0.01;
/// More than a ring has slots.
const SMALL_MESSAGES: usize = 300;
const LARGE_BYTES: usize = 256 << 10;
const COLUMNS: &[Column] = &[
    Column::OP,
    Column::WAIT,
    Column::CONNECTIONS,
    Column::KIB,
    Column::CPU,
    Column::RATIO,
    Column::SPREAD,
];
