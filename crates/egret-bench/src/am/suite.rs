//! `egret bench am-latency`, `am-rate` and `am-bandwidth`: active messages, held
//! against the virtual interface that carries them.

use std::rc::Rc;

use anyhow::Result;
use egret::am::MEDIUM_MAX;

use super::requester::{RequestSender, Requester};
use super::served::{RequestMeasure, RequestTask};
use crate::Suite;
use crate::args::{self, Common, SIM, Usage};
use crate::machine;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Case, Probe};
use crate::peer::FollowerProcess;
use crate::side::Mode;
use crate::vi;
use crate::vi::duo::{Answers, DuoPlan, Led, Trusting, WaitMode, host};

/// How active messages are measured.
#[derive(Debug, clap::Args)]
pub(crate) struct AmPlan {
    /// What carries the messages: shm, tcp and udp between two processes, sim in one
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How to wait for the other side
    #[arg(long, default_value = "spin")]
    wait: WaitMode,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Time of a short request and its answer
///
/// A request of so many words, or with so many bytes, that a handler in another process
/// answers with as many, one at a time. Held against a message of as many bytes there and
/// one back over the virtual interface.
#[derive(Debug, clap::Args)]
pub(crate) struct LatencyArgs {
    /// Words of 8 bytes of each message, 0 to 16 [default: 0,4,8,16 if no --bytes are given]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(0..=16))]
    words: Vec<u32>,
    /// Bytes of messages that have no words, 4K at most [default: 1K if no --words are given]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = args::parse_size)]
    bytes: Vec<usize>,
    #[command(flatten)]
    pub(crate) how: AmPlan,
}

/// Short messages a second one way
///
/// Messages of one word that a handler in another process takes, as many under way as
/// the window allows. Held against messages of 8 bytes over the virtual interface.
#[derive(Debug, clap::Args)]
pub(crate) struct RateArgs {
    #[command(flatten)]
    pub(crate) how: AmPlan,
}

/// Bytes a second one way, into buffers that the receiver supplied
///
/// Messages with data, as many under way as over the virtual interface, which they are
/// held against. A handler in another process looks at each where it landed.
#[derive(Debug, clap::Args)]
pub(crate) struct BandwidthArgs {
    #[command(flatten)]
    pub(crate) how: AmPlan,
}

pub(crate) fn latency(args: &LatencyArgs) -> Result<Suite> {
    args.how.common.no_sizes("am-latency")?;
    let (words, bytes) = match (&args.words[..], &args.bytes[..]) {
        ([], []) => (&WORDS[..], &BYTES[..]),
        given => given,
    };
    if let Some(bytes) = bytes.iter().find(|bytes| **bytes > MEDIUM_MAX) {
        return Err(Usage(format!("{bytes} bytes, and a request has {MEDIUM_MAX} at most")).into());
    }
    let words = words
        .iter()
        .map(|words| (RequestMeasure::Requests, MessageSize { words: *words as usize, bytes: 0 }));
    let bytes =
        bytes.iter().map(|bytes| (RequestMeasure::Medium, MessageSize { words: 0, bytes: *bytes }));
    suite("am-latency", RequestMeasure::Requests.columns(), &args.how, words.chain(bytes).collect())
}

pub(crate) fn rate(args: &RateArgs) -> Result<Suite> {
    args.how.common.no_sizes("am-rate")?;
    let one_word = vec![(RequestMeasure::OneWay, MessageSize { words: 1, bytes: 0 })];
    suite("am-rate", RequestMeasure::OneWay.columns(), &args.how, one_word)
}

pub(crate) fn bandwidth(args: &BandwidthArgs) -> Result<Suite> {
    let sizes = args.how.common.sizes_or(&[64 << 10, 1 << 20]);
    let sizes =
        sizes.into_iter().map(|bytes| (RequestMeasure::Data, MessageSize { words: 0, bytes }));
    suite("am-bandwidth", RequestMeasure::Data.columns(), &args.how, sizes.collect())
}

/// What a message has.
#[derive(Debug, Clone, Copy)]
struct MessageSize {
    words: usize,
    bytes: usize,
}

fn suite(
    name: &'static str,
    columns: &'static [ReportColumn],
    how: &AmPlan,
    sizes: Vec<(RequestMeasure, MessageSize)>,
) -> Result<Suite> {
    let fabric = fabric(how)?;
    let wait = how.wait;
    machine::open_many();
    let peer = Rc::new(FollowerProcess::start()?);
    let cases = sizes.into_iter().map(move |(what, size)| {
        let bytes = size.words * 8 + size.bytes;
        let line = ReportLine {
            bench: name,
            fabric: Some(fabric),
            mode: Some(
                if what == RequestMeasure::Data { Mode::Posted } else { Mode::Eager }.name(),
            ),
            ring: vi::ring(fabric, what != RequestMeasure::Data),
            wait: Some(wait.name()),
            trust: Some(Trusting::Isolated.name()),
            words: matches!(what, RequestMeasure::Requests | RequestMeasure::OneWay)
                .then_some(size.words),
            bytes,
            limit: LIMIT,
            ..ReportLine::default()
        };
        let window = Mode::Posted.many(what == RequestMeasure::OneWay, bytes);
        let (words, copied, data) = match what {
            RequestMeasure::Medium => (0, size.bytes, 0),
            _ => (size.words, 0, size.bytes),
        };
        let (fabric_of_task, host) = (fabric.to_owned(), host("am"));
        let task = RequestTask {
            fabric: fabric_of_task,
            wait,
            what,
            words,
            bytes: data,
            copied,
            window,
            host,
        };
        let (subject, limit) = both(&peer, task, bytes)?;
        let against = what.of_vi().against(&peer, (LIMIT, limit), fabric, bytes)?;
        Ok(Case { line, unit: what.unit(), subject, against, rounds: None })
    });
    Ok(Suite { name, columns, cases: Box::new(cases) })
}

/// Active messages, and the same over the virtual interface.
fn both(
    peer: &Rc<FollowerProcess>,
    task: RequestTask,
    bytes: usize,
) -> Result<(Box<dyn Probe>, Box<dyn Probe>)> {
    if task.fabric == SIM {
        let limit = task.what.of_vi().on_one_thread(SIM, Mode::Posted, bytes)?;
        return Ok((Box::new(Requester::near(task)?), limit));
    }
    let limit = Led::new(peer, plan(&task, bytes))?;
    Ok((Box::new(RequestSender::new(peer, task)?), Box::new(limit)))
}

/// The same over the virtual interface.
fn plan(task: &RequestTask, bytes: usize) -> DuoPlan {
    let answers = match task.what {
        RequestMeasure::Requests | RequestMeasure::Medium | RequestMeasure::Marked => {
            Answers::Each(bytes)
        }
        RequestMeasure::OneWay | RequestMeasure::Data => Answers::Never,
    };
    let (wait, window) = (task.wait, task.window);
    DuoPlan { wait, window, ..DuoPlan::new(&task.fabric, bytes, answers) }
}

/// The fabric, if it can wait like that.
fn fabric(how: &AmPlan) -> Result<&'static str, Usage> {
    match args::fabric(&how.fabric)? {
        SIM if how.wait != WaitMode::Spin => {
            Err(Usage(format!("{SIM} never sleeps: --wait spin only")))
        }
        fabric => Ok(fabric),
    }
}

impl RequestMeasure {
    const fn of_vi(self) -> vi::MessageMeasure {
        match self {
            Self::Requests | Self::Medium | Self::Marked => vi::MessageMeasure::Latency,
            Self::OneWay => vi::MessageMeasure::Rate,
            Self::Data => vi::MessageMeasure::Bandwidth,
        }
    }

    const fn unit(self) -> Unit {
        match self {
            Self::Requests | Self::Medium | Self::Marked => Unit::Nanos,
            Self::OneWay => Unit::Messages,
            Self::Data => Unit::Megabytes,
        }
    }

    const fn columns(self) -> &'static [ReportColumn] {
        match self {
            Self::Requests | Self::Medium | Self::Marked => &[
                ReportColumn::WORDS,
                ReportColumn::SIZE,
                ReportColumn::P50,
                ReportColumn::P99,
                ReportColumn::LIMIT,
                ReportColumn::LIMIT_NS,
                ReportColumn::RATIO,
                ReportColumn::OF_SLOT,
                ReportColumn::SPREAD,
            ],
            Self::OneWay => &[
                ReportColumn::WORDS,
                ReportColumn::MSG_S,
                ReportColumn::LIMIT,
                ReportColumn::LIMIT_MSG_S,
                ReportColumn::RATIO,
                ReportColumn::OF_LINE_RING,
                ReportColumn::SPREAD,
            ],
            Self::Data => &[
                ReportColumn::SIZE,
                ReportColumn::MB_S,
                ReportColumn::LIMIT,
                ReportColumn::LIMIT_MB_S,
                ReportColumn::RATIO,
                ReportColumn::SPREAD,
            ],
        }
    }
}

/// What is measured if nothing is said.
const WORDS: [u32; 4] = [0, 4, 8, 16];
const BYTES: [usize; 1] = [1 << 10];
/// The virtual interface.
const LIMIT: &str = "vi";
