//! `egret bench mixed`: a small message beside large ones.

use std::rc::Rc;

use anyhow::Result;

use crate::Suite;
use crate::am::requester::RequestSender;
use crate::am::served::{RequestMeasure, RequestTask};
use crate::args::{Common, between_processes};
use crate::machine;
use crate::measure::Case;
use crate::measure::probe::with_slot;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::peer::FollowerProcess;
use crate::side::Mode;
use crate::vi;
use crate::vi::duo::{Trusting, WaitMode, host};

/// Time of a small request and its answer beside a stream
///
/// Requests of 4 bytes that a handler in another process answers, one at a time, while the
/// same two stream active messages with data the same way. MB/s is the bandwidth of the
/// stream meanwhile. Held against the same requests without the stream, and over shm against
/// shm-slot ("of slot").
#[derive(Debug, clap::Args)]
pub(crate) struct MixedArgs {
    /// What carries the messages: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How to wait for the other side
    #[arg(long, default_value = "spin")]
    wait: WaitMode,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &MixedArgs) -> Result<Suite> {
    let sizes = args.common.sizes_or(&[1 << 20]);
    let (fabric, wait) = (between_processes(&args.fabric)?, args.wait);
    machine::open_many();
    let peer = Rc::new(FollowerProcess::start()?);
    let cases = sizes.into_iter().map(move |stream| {
        let requests = |bytes| {
            let (fabric, host) = (fabric.to_owned(), host("mixed"));
            let (what, words, copied) = (RequestMeasure::Medium, 0, SMALL_BYTES);
            let window = Mode::Posted.many(false, bytes);
            RequestSender::new(
                &peer,
                RequestTask { fabric, wait, what, words, bytes, copied, window, host },
            )
        };
        let (subject, alone) = (Box::new(requests(stream)?), Box::new(requests(0)?));
        let line = ReportLine {
            bench: NAME,
            fabric: Some(fabric),
            mode: Some(Mode::Eager.name()),
            ring: vi::ring(fabric, true),
            wait: Some(wait.name()),
            trust: Some(Trusting::Isolated.name()),
            stream_bytes: Some(stream),
            bytes: SMALL_BYTES,
            limit: ALONE,
            ..ReportLine::default()
        };
        let against = with_slot(&peer, (ALONE, alone), fabric, SMALL_BYTES)?;
        Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: None })
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

const NAME: &str = "mixed";
const ALONE: &str = "alone";
/// Of a request.
const SMALL_BYTES: usize = 4;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::SIZE,
    ReportColumn::STREAM,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::MB_S,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::OF_SLOT,
    ReportColumn::SPREAD,
];
