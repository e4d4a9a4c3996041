//! `egret bench latency`, `bandwidth` and `message-rate`: the virtual interface.

use std::rc::Rc;

use crate::limit::MachineLimit;
use anyhow::Result;
use egret::rt;
use egret::vi::{EAGER_MAX, Secret};

use super::datagrams::CountedDatagrams;
use super::duo::{Answers, DuoPlan, Encrypting, Led, Trusting, WaitMode};
use crate::Suite;
use crate::args::{Common, SIM, UDP, UDP_DATAGRAMS, Usage, fabric_or_datagrams};
use crate::machine;
use crate::measure::probe::{Linked, with, with_slot};
use crate::measure::report::{Of, ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Further, Probe, Sample};
use crate::peer::FollowerProcess;
use crate::peer::space::{self, REACHABLE, Spaces};
use crate::side::{BenchConnection, Mode, connected};

/// Options of the benchmarks that send messages.
#[derive(Debug, clap::Args)]
pub(crate) struct MessageArgs {
    /// What carries the messages: sim in one process (seed from EGRET_SEED), shm, tcp and udp between
    /// two, and udp-datagrams, which is udp without its window: what is lost is counted
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How memory is sent and received
    #[arg(long, default_value = "posted")]
    mode: Mode,
    /// How to wait for the other side
    #[arg(long, default_value = "spin")]
    wait: WaitMode,
    /// Whether peers may write each other's memory
    #[arg(long, default_value = "isolated")]
    trust: Trusting,
    /// Encrypt the connection, or do not, wherever the two are; tcp and udp. Without this it is
    /// encrypted between namespaces and not on loopback. With `on` the same without encryption,
    /// and the cipher alone, are measured in the same run
    #[arg(long, value_name = "on|off")]
    encrypt: Option<Encrypting>,
    /// Run the two processes in these network namespaces, as `ip netns` names them, over the
    /// addresses that others reach there; of udp and udp-datagrams
    #[arg(long, value_name = "HERE,THERE")]
    spaces: Option<Spaces>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl MessageArgs {
    fn check_encrypt(&self, fabric: &str) -> Result<(), Usage> {
        if self.encrypt.is_none() || ["tcp", "udp", "udp-datagrams"].contains(&fabric) {
            return Ok(());
        }
        Err(Usage(format!("--encrypt is for tcp and udp: nothing of {fabric} leaves the machine")))
    }

    /// The fabric, if there is one of that name that can do what is asked.
    fn fabric(&self, what: MessageMeasure) -> Result<&'static str, Usage> {
        if let Some(seed) = std::env::var("EGRET_SEED").ok().filter(|s| s.parse::<u64>().is_err()) {
            return Err(Usage(format!("EGRET_SEED={seed} is not a number")));
        }
        let fabric = fabric_or_datagrams(&self.fabric)?;
        if self.mode == Mode::Handover && fabric != SHM {
            let why = "--mode handover is for shm: anywhere else a hand-over is a copy";
            return Err(Usage(why.to_owned()));
        }
        if self.trust != Trusting::Isolated && fabric != SHM {
            let why = "has no processes that cooperate: --trust isolated only";
            return Err(Usage(format!("{fabric} {why}")));
        }
        if self.mode == Mode::Handover && self.trust != Trusting::Cooperating {
            let why = "--mode handover needs --trust cooperating: anybody else gets a copy";
            return Err(Usage(why.to_owned()));
        }
        if self.mode == Mode::Handover && what != MessageMeasure::Latency {
            let why = "--mode handover is for latency: nothing is moved that could be counted";
            return Err(Usage(why.to_owned()));
        }
        let is_plain = matches!(self.mode, Mode::Posted | Mode::Copy | Mode::Pinned | Mode::Fresh);
        if fabric == UDP_DATAGRAMS && !is_plain {
            let (mode, why) = (self.mode.name(), "sends datagrams and nothing else");
            return Err(Usage(format!("{fabric} {why}: no --mode {mode}")));
        }
        if self.spaces.is_some() && !is_udp(fabric) {
            return Err(Usage(format!("--spaces is for {UDP} and {UDP_DATAGRAMS}, not {fabric}")));
        }
        // The simulator runs both nodes on one thread, which does not wait.
        if fabric == SIM && self.wait != WaitMode::Spin {
            return Err(Usage(format!("{fabric} never sleeps: --wait spin only")));
        }
        Ok(fabric)
    }
}

/// What is measured about messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageMeasure {
    /// A message there and one back.
    Latency,
    /// Messages one way, by their bytes.
    Bandwidth,
    /// Messages one way, by their number.
    Rate,
}

pub(crate) fn suite(what: MessageMeasure, args: &MessageArgs) -> Result<Suite> {
    if what == MessageMeasure::Rate && args.common.sizes.iter().any(|bytes| *bytes != 8) {
        let why = "message-rate is held against 8-byte messages: no other --sizes";
        return Err(Usage(why.to_owned()).into());
    }
    let fabric = args.fabric(what)?;
    args.check_encrypt(fabric)?;
    let sizes = args.common.sizes_or(what.sizes(fabric, args.mode));
    if args.mode == Mode::Eager
        && let Some(bytes) = sizes.iter().find(|bytes| **bytes > EAGER_MAX)
    {
        let why = format!("{bytes} bytes, and an eager message has at most {EAGER_MAX}");
        return Err(Usage(why).into());
    }
    let limit = what.limit(fabric, args.wait);
    if let Some(bytes) = sizes.iter().find(|bytes| **bytes > limit.bytes_max().max(DATAGRAM)) {
        let name = limit.name();
        return Err(Usage(format!("{bytes} bytes, and {name} carries {DATAGRAM} at most")).into());
    }
    machine::open_many();
    let spaces = args.spaces.as_ref();
    let peer = Rc::new(FollowerProcess::start_in(spaces.map(|spaces| &spaces.there[..]))?);
    if let Some(spaces) = spaces {
        space::enter(&spaces.here)?;
    }
    let is_apart = spaces.is_some();
    let (mode, wait, trust, encrypt) = (args.mode, args.wait, args.trust, args.encrypt);
    let cases = sizes.into_iter().map(move |bytes| {
        let line = ReportLine {
            bench: what.name(),
            fabric: Some(fabric),
            mode: Some(mode.name()),
            wait: Some(wait.name()),
            trust: Some(trust.name()),
            encrypt: encrypt.map(Encrypting::name),
            ring: ring(fabric, mode == Mode::Eager),
            bytes,
            limit: limit.name(),
            ..ReportLine::default()
        };
        let host = match is_apart {
            true => REACHABLE.to_owned(),
            false => format!("bench-{}", std::process::id()),
        };
        let secret = is_apart.then(Secret::random).and_then(|secret| secret.reveal());
        let secret = secret.map(|secret| secret.to_string());
        let plan = DuoPlan { wait, trust, encrypt, secret, ..what.plan(fabric, mode, bytes, host) };
        let further = what.without(&peer, &plan)?;
        let subject: Box<dyn Probe> = match fabric {
            SIM => what.on_one_thread(fabric, mode, bytes)?,
            UDP_DATAGRAMS => Box::new(CountedDatagrams::new(&peer, plan)?),
            _ => Box::new(Led::new(&peer, plan)?),
        };
        let of_limit = limit.fixed_bytes().unwrap_or(bytes.min(limit.bytes_max()));
        let probe: Box<dyn Probe> = Box::new(match is_apart {
            true => Linked::reachable(&peer, limit, of_limit)?,
            false => Linked::new(&peer, limit, of_limit)?,
        });
        let against = match what.against(&peer, (limit.name(), probe), fabric, bytes)? {
            Against::Limit(limit) if !further.is_empty() => Against::Limits(limit, further),
            against => against,
        };
        Ok(Case { line, unit: what.unit(), subject, against, rounds: None })
    });
    let columns = columns(what, also(fabric, encrypt));
    Ok(Suite { name: what.name(), columns, cases: Box::new(cases) })
}

/// Bytes of the ring that eager messages of a lane go through, or posted ones.
pub(crate) fn ring(fabric: &str, is_eager: bool) -> Option<usize> {
    (fabric == SHM).then_some(if is_eager { 64 << 10 } else { 16 << 10 })
}

const SHM: &str = "shm";
const TCP: &str = "tcp";
/// The largest message that is held against a datagram there and back, though one carries
/// 29 bytes less.
const DATAGRAM: usize = 64 << 10;

/// Whether encryption is measured, so that what it costs is told.
fn is_split(fabric: &str, encrypt: Option<Encrypting>) -> bool {
    encrypt == Some(Encrypting::On) && [TCP, UDP].contains(&fabric)
}

/// What a report tells beside subject and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Also {
    /// The bare memory that is shared, of latencies.
    Slot,
    /// What is lost.
    Lost,
    /// What encryption costs.
    Encryption,
}

/// The columns for people. There is one report in a process, which keeps them.
fn columns(what: MessageMeasure, also: Also) -> &'static [ReportColumn] {
    let (subject, limit) = match what {
        MessageMeasure::Latency => {
            (&[ReportColumn::P50, ReportColumn::P99][..], ReportColumn::LIMIT_NS)
        }
        MessageMeasure::Bandwidth => (&[ReportColumn::MB_S][..], ReportColumn::LIMIT_MB_S),
        MessageMeasure::Rate => (&[ReportColumn::MSG_S][..], ReportColumn::LIMIT_MSG_S),
    };
    let lost = if also == Also::Lost { &[ReportColumn::LOST][..] } else { &[] };
    let further = match (also, what) {
        (Also::Slot, MessageMeasure::Latency) => &[ReportColumn::OF_SLOT][..],
        (Also::Encryption, MessageMeasure::Rate) => &[ReportColumn::OF_PLAIN],
        (Also::Encryption, _) => &[
            ReportColumn::OF_PLAIN,
            ReportColumn::OF_AEAD,
            ReportColumn::OF_SLOWER,
            ReportColumn::OF_BOTH,
        ],
        (Also::Slot | Also::Lost, _) => &[],
    };
    let against = [ReportColumn::LIMIT, limit, ReportColumn::RATIO];
    let all = [
        &[ReportColumn::SIZE, ReportColumn::MODE],
        subject,
        lost,
        &against,
        further,
        &[ReportColumn::SPREAD],
    ];
    all.concat().leak()
}

fn also(fabric: &str, encrypt: Option<Encrypting>) -> Also {
    match fabric {
        UDP_DATAGRAMS => Also::Lost,
        _ if is_split(fabric, encrypt) => Also::Encryption,
        _ => Also::Slot,
    }
}

fn is_udp(fabric: &str) -> bool {
    [UDP, UDP_DATAGRAMS].contains(&fabric)
}

impl MessageMeasure {
    /// Both sides in this process.
    pub(crate) fn on_one_thread(
        self,
        fabric: &str,
        mode: Mode,
        bytes: usize,
    ) -> Result<Box<dyn Probe>> {
        let (here, there) = connected(fabric, mode, bytes)?;
        Ok(match self {
            Self::Latency => Box::new(RoundTrips { here, there, round: 0 }),
            Self::Bandwidth | Self::Rate => Box::new(OneWay { here, there, round: 0 }),
        })
    }

    /// What two processes do.
    fn plan(self, fabric: &str, mode: Mode, bytes: usize, host: String) -> DuoPlan {
        let answers = match self {
            Self::Latency => Answers::Each(bytes),
            Self::Bandwidth | Self::Rate => Answers::Never,
        };
        // What finds no receive is lost.
        let counted = self == Self::Rate || fabric == UDP_DATAGRAMS && bytes <= DATAGRAM;
        let plan = DuoPlan::new(fabric, bytes, answers);
        DuoPlan { mode, window: mode.many(counted, bytes), host, ..plan }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "message-rate",
        }
    }

    fn sizes(self, fabric: &str, mode: Mode) -> &'static [usize] {
        match self {
            Self::Latency if mode == Mode::Eager => &[4, 64, 256, 1 << 10, 4 << 10],
            Self::Bandwidth if mode == Mode::Eager => &[4 << 10],
            Self::Latency if is_udp(fabric) => &[4, 1 << 10, 16 << 10, 64 << 10],
            Self::Latency => &[4, 1 << 10, 64 << 10, 1 << 20],
            Self::Bandwidth => &[4 << 10, 64 << 10, 1 << 20],
            Self::Rate => &[8],
        }
    }

    /// A sleeping side answers no sooner than the kernel wakes it.
    fn limit(self, fabric: &str, wait: WaitMode) -> MachineLimit {
        let sleeps = wait == WaitMode::Frugal;
        match (self, fabric) {
            (Self::Latency, TCP) if sleeps => MachineLimit::TcpFrugal,
            (Self::Latency, TCP) => MachineLimit::TcpSpin,
            (Self::Bandwidth, TCP) => MachineLimit::TcpBandwidth,
            (Self::Rate, TCP) => MachineLimit::TcpWrite,
            (Self::Latency, UDP | UDP_DATAGRAMS) if sleeps => MachineLimit::UdpFrugal,
            (Self::Latency, UDP | UDP_DATAGRAMS) => MachineLimit::UdpSpin,
            (Self::Bandwidth, UDP | UDP_DATAGRAMS) => MachineLimit::UdpBandwidth,
            (Self::Rate, UDP | UDP_DATAGRAMS) => MachineLimit::UdpSend,
            (Self::Latency, _) if sleeps => MachineLimit::Eventfd,
            (Self::Latency, _) => MachineLimit::ShmSlot,
            (Self::Bandwidth, _) => MachineLimit::ShmRing,
            (Self::Rate, _) => MachineLimit::LineRing,
        }
    }

    /// Its limit, and the bare one of shared memory.
    pub(crate) fn against(
        self,
        peer: &Rc<FollowerProcess>,
        limit: (&str, Box<dyn Probe>),
        fabric: &str,
        bytes: usize,
    ) -> Result<Against> {
        match self {
            Self::Latency => with_slot(peer, limit, fabric, bytes),
            Self::Bandwidth => Ok(Against::Limit(limit.1)),
            Self::Rate => with(peer, limit, fabric, (Of::LineRing, MachineLimit::LineRing, bytes)),
        }
    }

    /// What an encrypted subject is held against, too: the same without encryption, and the cipher
    /// alone.
    fn without(self, peer: &Rc<FollowerProcess>, plan: &DuoPlan) -> Result<Vec<Further>> {
        if !is_split(&plan.fabric, plan.encrypt) {
            return Ok(Vec::new());
        }
        let host = match &plan.host[..] {
            REACHABLE => REACHABLE.to_owned(),
            host => format!("{host}-plain"),
        };
        let plain = DuoPlan { encrypt: Some(Encrypting::Off), host, ..plan.clone() };
        let plain: Box<dyn Probe> = Box::new(Led::new(peer, plain)?);
        let mut further = vec![Further { of: Of::Plain, probe: Some(plain) }];
        let aead = match self {
            Self::Latency => MachineLimit::AeadTrip,
            Self::Bandwidth => MachineLimit::AeadBandwidth,
            Self::Rate => return Ok(further),
        };
        let aead: Box<dyn Probe> = Box::new(Linked::new(peer, aead, plan.bytes)?);
        further.push(Further { of: Of::Aead, probe: Some(aead) });
        Ok(further)
    }

    const fn unit(self) -> Unit {
        match self {
            Self::Latency => Unit::Nanos,
            Self::Bandwidth => Unit::Megabytes,
            Self::Rate => Unit::Messages,
        }
    }
}

/// There and back, one at a time; the payload is rewritten before the clock starts.
struct RoundTrips {
    here: BenchConnection,
    there: BenchConnection,
    round: u64,
}

impl Probe for RoundTrips {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let mut times = Vec::with_capacity(usize::try_from(rounds)?);
        for _ in 0..rounds {
            self.round += 1;
            writer(&mut self.here, &mut self.there).rewrite(self.round)?;
            let start = rt::now();
            self.here.send(self.round)?;
            if self.here.needs_answer() {
                self.there.receive(self.round)?;
                self.there.answer(self.round)?;
                self.there.send(self.round)?;
                self.here.receive(self.round)?;
            }
            times.push((rt::now() - start).as_nanos() as f64);
        }
        Ok(Sample::Times(times))
    }
}

/// Whose memory the next transfer comes from.
fn writer<'a>(
    here: &'a mut BenchConnection,
    there: &'a mut BenchConnection,
) -> &'a mut BenchConnection {
    if here.needs_answer() { here } else { there }
}

/// One way, as many at once as the window allows, rewritten before each send.
struct OneWay {
    here: BenchConnection,
    there: BenchConnection,
    round: u64,
}

impl Probe for OneWay {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let start = rt::now();
        let (mut sent, mut received) = (self.round, self.round);
        self.round += rounds;
        while received < self.round {
            while sent < self.round && sent - received < self.here.window() {
                sent += 1;
                writer(&mut self.here, &mut self.there).rewrite(sent)?;
                self.here.send(sent)?;
                if !self.here.needs_answer() {
                    received = sent;
                }
            }
            if self.here.needs_answer() {
                received += 1;
                self.there.receive(received)?;
            }
        }
        Ok(Sample::Total(rt::now() - start))
    }
}
