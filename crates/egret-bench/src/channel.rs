//! `egret bench channel`: messages over a channel, held against the virtual interface
//! that carries them.

use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use egret::am::{Endpoint, EndpointName, RemoteEndpoint};
use egret::buf::{Buf, Pool};
use egret::channel::{ChannelListener, ChannelReader, ChannelWriter};
use egret::fabric::Fabrics;
use egret::link::Links;
use egret::rt;
use egret::vi::NicOptions;
use serde::{Deserialize, Serialize};

use crate::Suite;
use crate::args::{Common, between_processes};
use crate::links::{self, RunEnds};
use crate::machine;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe, Sample};
use crate::peer::{Follower, FollowerProcess, PeerFigures, PeerStation, PeerTask};
use crate::side::{Mode, PATIENCE, fill, mark};
use crate::vi::duo::{Answers, DuoPlan, Led, Trusting, WaitMode, host};

/// Bytes a second over a channel, one way
///
/// Messages of one array each, from buffers that are given away, to a reader in another
/// process, who gets each whole in one buffer. Held against messages of the same length
/// over the virtual interface.
#[derive(Debug, clap::Args)]
pub(crate) struct ChannelArgs {
    /// What carries the messages: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How to wait for the other side
    #[arg(long, default_value = "spin")]
    wait: WaitMode,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &ChannelArgs) -> Result<Suite> {
    let fabric = between_processes(&args.fabric)?;
    machine::open_many();
    let (wait, peer) = (args.wait, Rc::new(FollowerProcess::start()?));
    let cases = args.common.sizes_or(&[100 << 10]).into_iter().map(move |bytes| {
        let line = ReportLine {
            bench: NAME,
            fabric: Some(fabric),
            wait: Some(wait.name()),
            trust: Some(Trusting::Isolated.name()),
            bytes,
            limit: "vi",
            ..ReportLine::default()
        };
        let (window, host) = (Mode::Posted.many(false, bytes), host("channel"));
        let plan = DuoPlan { wait, ..DuoPlan::new(fabric, bytes, Answers::Never) };
        let fabric = fabric.to_owned();
        let stream = ChannelPlan { fabric, wait, bytes, window, host };
        let limit = Box::new(Led::new(&peer, plan)?);
        let subject = Box::new(ChannelWriting::new(&peer, stream)?);
        let against = Against::Limit(limit);
        Ok(Case { line, unit: Unit::Megabytes, subject, against, rounds: None })
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// What the two do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ChannelPlan {
    fabric: String,
    wait: WaitMode,
    /// Of each message.
    bytes: usize,
    /// Buffers to write from.
    window: usize,
    /// What the nic of the one that reads is opened with.
    host: String,
}

impl ChannelPlan {
    fn links(&self, host: &str) -> Result<Links> {
        let nic = NicOptions::new(host).wait(self.wait.of_nic());
        links::open(Fabrics::default().open(&self.fabric, nic)?)
    }
}

/// The one that writes, and the station of the one that reads.
struct ChannelWriting {
    station: PeerStation,
    stream: ChannelPlan,
    links: Links,
    writer: ChannelWriter,
    remote: RemoteEndpoint,
    _mine: Endpoint,
    pool: Pool,
    round: u64,
}

impl ChannelWriting {
    fn new(peer: &Rc<FollowerProcess>, stream: ChannelPlan) -> Result<Self> {
        let station = peer.open(&CHANNEL, &stream, &[])?;
        let links = stream.links(&format!("{}-writes", stream.host))?;
        let mine = links.bundle().endpoint(0);
        let (writer, remote) = station.run(0, || {
            let remote = mine.wait_map(&EndpointName::new(&station.host, NAME, 0), PATIENCE)?;
            let writer = links.wait_channel(&station.host, NAME, PATIENCE)?;
            remote.wait_call(SETTLE, PATIENCE)?;
            anyhow::Ok((writer, remote))
        })?;
        let pool = Pool::builder().class(stream.bytes, stream.window).shareable().build()?;
        Ok(Self { station, stream, links, writer, remote, _mine: mine, pool, round: 0 })
    }
}

impl Probe for ChannelWriting {
    /// As many at once as there are buffers, rewritten before each is written, until the
    /// other side has them all.
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let Self { station, stream, links, writer, remote, pool, round, .. } = self;
        station.run(rounds, || {
            let start = rt::now();
            for _ in 0..rounds {
                let mut buf = take(pool, stream.bytes, links)?;
                *round += 1;
                fill(buf.bytes_mut(), *round);
                writer.wait_send(buf, PATIENCE)?;
            }
            writer.wait_arrived(PATIENCE)?;
            let took = rt::now() - start;
            remote.wait_call(SETTLE, PATIENCE)?;
            anyhow::Ok(Sample::Total(took))
        })
    }
}

/// A buffer that is not under way.
fn take(pool: &Pool, bytes: usize, links: &Links) -> Result<Buf> {
    if let Ok(buf) = pool.take(bytes) {
        return Ok(buf);
    }
    let until = PATIENCE.until_from(rt::now());
    loop {
        links.poll();
        if let Ok(buf) = pool.take(bytes) {
            return Ok(buf);
        }
        ensure!(until.is_none_or(|until| rt::now() < until), "no buffer came back");
    }
}

/// The one that reads, in the second process.
pub(crate) const CHANNEL: PeerTask<ChannelPlan> =
    PeerTask { name: "channel", start: |plan, _| Ok(Box::new(ChannelReading::new(&plan)?)) };

/// The one that reads.
struct ChannelReading {
    links: Links,
    listener: ChannelListener,
    reader: Option<ChannelReader>,
    _endpoint: Endpoint,
    /// The one that writes says that all is known to have arrived.
    ends: RunEnds,
    bytes: usize,
    round: u64,
}

impl ChannelReading {
    fn new(stream: &ChannelPlan) -> Result<Self> {
        let links = stream.links(&stream.host)?;
        let listener = links.listen(NAME, 1)?;
        let endpoint = links.bundle().register(NAME, 0)?;
        let (ends, reader, bytes) = (RunEnds::default(), None, stream.bytes);
        ends.count(&endpoint, SETTLE);
        Ok(Self { links, listener, reader, _endpoint: endpoint, ends, bytes, round: 0 })
    }
}

impl Follower for ChannelReading {
    fn host(&self) -> &str {
        self.links.host()
    }

    /// Reads so many messages, and drives until the other side knows that they have
    /// arrived, which it is told while this side drives. The first run connects.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        if self.reader.is_none() {
            self.reader = Some(self.listener.wait_accept(PATIENCE)?);
        }
        let reader = self.reader.as_mut().context("accepted just now")?;
        for _ in 0..rounds {
            self.round += 1;
            let mut message = reader.wait_next(PATIENCE)?.context("the channel ended")?;
            let part = message.wait_next_part(PATIENCE)?.context("a message without bytes")?;
            let bytes = part.bytes();
            let ends = [bytes.first(), bytes.last()];
            let is_right = bytes.len() == self.bytes && ends == [Some(&mark(self.round)); 2];
            ensure!(is_right, "a message arrived damaged");
        }
        self.ends.wait_next(&self.links, "the peer has not reported that all has arrived")?;
        Ok(PeerFigures::new())
    }
}

const NAME: &str = "channel";
/// The handler that hears that all has arrived.
const SETTLE: u8 = 0;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::SIZE,
    ReportColumn::MB_S,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_MB_S,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
