//! `egret bench serialize`: what objects in streams cost beside copying memory and
//! cloning values.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use egret::buf::{Buf, Pool};
use egret::rt;
use egret::wire::{Bulk, FromWire, IN_PLACE_BYTES, Reader, Wire, Writer};

use super::values::{Complex, graph, items, leaves, nodes};
use crate::Suite;
use crate::args::Common;
use crate::machine::{self, BenchCores};
use crate::measure::probe::Batches;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe};

/// What objects in streams cost, beside memcpy and clone.
///
/// "write" yields the list of memory to send, into a writer that is used again;
/// "read-in-place" gives references into the buffer; both are held against
/// copying the same bytes. "read-owned" builds the value anew, as cloning it does.
#[derive(Debug, clap::Args)]
pub(crate) struct SerializeArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &SerializeArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    if let Some(cores) = BenchCores::choose()? {
        machine::pin(&[cores.leader])?;
    }
    let makers: Vec<Maker> = vec![
        || array("u8-100k", byte, 100_000),
        || array("i32-100k", |i| i32::from(byte(i)), 25_000),
        || array("f64-100k", |i| i as f64, 12_500),
        || array("f64-10m", |i| i as f64, 1_250_000),
        || array("u8-100", byte, 100),
        || array("u8-500", byte, 500),
        || array("f64-12", |i| i as f64, 12),
        || array("f64-62", |i| i as f64, 62),
        || array("complex1000", |i| Complex { re: i as f64, im: 0.5 }, 1000),
        || owned("tree1023", nodes(1023)),
        || owned("tree1000", leaves(1000)),
        || owned("list100", items::<4>(100)),
        || owned("list1-int", items::<1>(100)),
        || owned("list40-int", items::<40>(100)),
        || owned("graph1760", graph(1760)),
    ];
    // Each payload is made when its turn comes, and its cases one by one.
    let cases: Vec<Result<Case>> = makers.into_iter().flat_map(|make| make()).map(Ok).collect();
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases.into_iter()) })
}

type Maker = fn() -> Vec<Case>;

fn byte(at: usize) -> u8 {
    at.to_le_bytes()[0]
}

/// A vector that can also be read in place.
fn array<T>(payload: &'static str, element: fn(usize) -> T, len: usize) -> Vec<Case>
where
    T: Bulk + for<'a> FromWire<'a> + Clone,
{
    let value: &'static Vec<T> = Box::leak(Box::new((0..len).map(element).collect()));
    let bytes = aligned(value);
    let mut cases = both(payload, value, bytes);
    let read = move || -> &'static [T] { Reader::new(bytes).read().expect("it was written") };
    cases.push(case(payload, "read-in-place", bytes, repeat(NOTHING, read), memcpy(bytes)));
    cases
}

/// A value that is built of many parts.
fn owned<T: Wire + for<'a> FromWire<'a> + Clone + 'static>(
    payload: &'static str,
    value: T,
) -> Vec<Case> {
    let value: &'static T = Box::leak(Box::new(value));
    both(payload, value, aligned(value))
}

fn both<T: Wire + for<'a> FromWire<'a> + Clone>(
    payload: &'static str,
    value: &'static T,
    bytes: &'static [u8],
) -> Vec<Case> {
    let mut writer = Writer::new();
    let write = move || {
        writer.clear();
        writer.write(black_box(value)).expect("it can be written");
        black_box(&writer).len()
    };
    let read = move || Reader::new(black_box(bytes)).read::<T>().expect("it was written");
    let clone = move || black_box(value).clone();
    let len = bytes.len();
    // What is left in place is not touched, however large: it is as many as of any size.
    let touched = len.min(IN_PLACE_BYTES);
    vec![
        case(payload, "write", bytes, repeat(touched, write), memcpy(bytes)),
        case(payload, "read-owned", bytes, repeat(len, read), ("clone", repeat(len, clone))),
    ]
}

/// The value's bytes where a message would lie.
pub(crate) fn aligned<T: Wire>(value: &T) -> &'static [u8] {
    let mut writer = Writer::new();
    writer.write(value).expect("it can be written");
    let len = writer.len();
    let pool = Box::leak(Box::new(Pool::new(len, 1).expect("room for one message")));
    let buf: &'static mut Buf = Box::leak(Box::new(pool.take(len).expect("it is free")));
    writer.copy_to(buf.bytes_mut());
    buf.bytes()
}

fn case(
    payload: &'static str,
    op: &'static str,
    bytes: &[u8],
    subject: Box<dyn Probe>,
    (limit, least): (&'static str, Box<dyn Probe>),
) -> Case {
    let (payload, op, bytes) = (Some(payload), Some(op), bytes.len());
    let line = ReportLine { bench: NAME, payload, op, bytes, limit, ..ReportLine::default() };
    Case { line, unit: Unit::Nanos, subject, against: Against::Limit(least), rounds: None }
}

pub(crate) fn memcpy(bytes: &'static [u8]) -> (&'static str, Box<dyn Probe>) {
    let mut to = vec![0; bytes.len()];
    let copy = move || {
        to.copy_from_slice(black_box(bytes));
        black_box(&to).len()
    };
    ("memcpy", repeat(bytes.len(), copy))
}

/// Does what touches so many `bytes` as often as fills a batch; what comes of it is dropped when the clock has
/// stopped.
pub(crate) fn repeat<R: 'static>(
    bytes: usize,
    mut work: impl FnMut() -> R + 'static,
) -> Box<dyn Probe> {
    let count = (BATCH_BYTES / bytes.max(1)).clamp(1, BATCH);
    let timed = move |count| -> Duration {
        let mut made = Vec::with_capacity(count);
        let start = rt::now();
        for _ in 0..count {
            made.push(work());
        }
        let took = rt::now() - start;
        black_box(&made);
        took
    };
    Box::new(Batches::new(count, timed))
}

const NAME: &str = "serialize";
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::PAYLOAD,
    ReportColumn::OP,
    ReportColumn::SIZE,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
/// How many in a batch, and the bytes of all.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 400_000;
/// The bytes that reading in place touches.
pub(crate) const NOTHING: usize = 0;
