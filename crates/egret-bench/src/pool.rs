//! `egret bench pool`: what a buffer costs beside one from the allocator.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use crate::limit::HeapBlocks;
use anyhow::Result;
use egret::buf::{Buf, Held, Pool, Typed};
use egret::rt;

use crate::Suite;
use crate::args::Common;
use crate::machine::{self, BenchCores};
use crate::measure::probe::Batches;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe};

/// What a buffer of a pool costs, beside malloc and free.
///
/// A thousand buffers are taken in one loop and returned in another ("take",
/// "return"), or each at once ("take+return"). A "typed view" is given to each
/// of a thousand; "share+reclaim" ends with the return; "evacuate" copies to
/// the heap and returns.
///
/// The allocator is faster in a process that never had a second thread, as no
/// process with a network is. "take+return alone" is measured in such a one,
/// and everything else after a second thread has been started, which sleeps.
/// The thread that takes first from a pool is served best; "take+return other"
/// is measured on one that was not the first.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy)]
enum PoolOp {
    Take,
    Return,
    TakeReturn,
    TakeReturnAlone,
    TakeReturnOther,
    TypedView,
    ShareReclaim,
    IsResident,
    Evacuate,
}

pub(crate) fn suite(args: &PoolArgs) -> Result<Suite> {
    if let Some(cores) = BenchCores::choose()? {
        machine::pin(&[cores.leader])?;
    }
    let sizes = args.common.sizes_or(&SIZES);
    let plan: Vec<(PoolOp, usize)> =
        OPS.into_iter().flat_map(|op| sizes.iter().map(move |&bytes| (op, bytes))).collect();
    let mut company = None;
    let cases = plan.into_iter().map(move |(op, bytes)| {
        if op.threads() > 1 && company.is_none() {
            company = Some(keep_company()?);
        }
        case(op, bytes)
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

fn case(op: PoolOp, bytes: usize) -> Result<Case> {
    let count = (BATCH_BYTES / bytes).clamp(1, BATCH);
    // Whole elements for the typed view, and a mark that `hold` never reaches.
    let each = bytes.next_multiple_of(size_of::<f64>());
    let pool = Pool::builder().class(each, count).low_water(0).build()?;
    if matches!(op, PoolOp::TakeReturnOther) {
        leave_to_another(&pool, each)?;
    }
    let (limit, least) = least(op, bytes, count);
    let (name, threads) = (Some(op.name()), Some(op.threads()));
    let line = ReportLine { bench: NAME, op: name, threads, bytes, limit, ..ReportLine::default() };
    Ok(Case {
        line,
        unit: Unit::Nanos,
        subject: subject(op, pool, each, count),
        against: Against::Limit(least),
        rounds: None,
    })
}

/// Starts a thread that sleeps for as long as the process lives.
fn keep_company() -> io::Result<rt::JoinHandle<()>> {
    rt::spawn("company", || {
        loop {
            rt::park(None);
        }
    })
}

/// Lets another thread be the first that takes from `pool`.
fn leave_to_another(pool: &Pool, bytes: usize) -> Result<()> {
    let pool = pool.clone();
    let first = rt::spawn("first", move || pool.take(bytes).map(drop))?;
    Ok(first.join().expect("a take does not panic")?)
}

impl PoolOp {
    fn name(self) -> &'static str {
        match self {
            Self::Take => "take",
            Self::Return => "return",
            Self::TakeReturn => "take+return",
            Self::TakeReturnAlone => "take+return alone",
            Self::TakeReturnOther => "take+return other",
            Self::TypedView => "typed view",
            Self::ShareReclaim => "share+reclaim",
            Self::IsResident => "is_resident",
            Self::Evacuate => "evacuate",
        }
    }

    /// How many threads the process has.
    fn threads(self) -> u32 {
        if matches!(self, Self::TakeReturnAlone) { 1 } else { 2 }
    }
}

/// The allocator's part of the same work.
fn least(op: PoolOp, bytes: usize, count: usize) -> (&'static str, Box<dyn Probe>) {
    let mut heap = HeapBlocks::new(bytes);
    match op {
        PoolOp::Take => {
            let malloc = move |count| {
                let time = heap.malloc(count);
                heap.free();
                time
            };
            ("malloc", batches(count, malloc))
        }
        PoolOp::Return => {
            let free = move |count| {
                heap.malloc(count);
                heap.free()
            };
            ("free", batches(count, free))
        }
        _ => ("malloc+free", batches(count, move |count| heap.malloc_free(count))),
    }
}

fn subject(op: PoolOp, pool: Pool, bytes: usize, count: usize) -> Box<dyn Probe> {
    let buffers = Buffers { pool, bytes };
    match op {
        PoolOp::Take => batches(count, move |count| buffers.take(count).0),
        PoolOp::Return => batches(count, move |count| {
            let (_, mut bufs) = buffers.take(count);
            timed(|| bufs.clear())
        }),
        PoolOp::TakeReturn | PoolOp::TakeReturnAlone | PoolOp::TakeReturnOther => {
            batches(count, move |count| buffers.take_return(count))
        }
        PoolOp::TypedView => batches(count, move |count| buffers.view(count)),
        PoolOp::ShareReclaim => batches(count, move |count| buffers.share(count)),
        PoolOp::IsResident => {
            let held = buffers.hold(count);
            batches(count, move |_| ask(&held))
        }
        PoolOp::Evacuate => batches(count, move |count| buffers.evacuate(count)),
    }
}

fn batches(count: usize, work: impl FnMut(usize) -> Duration + 'static) -> Box<dyn Probe> {
    Box::new(Batches::new(count, work))
}

/// A pool with room for a batch, and what is done with its buffers.
struct Buffers {
    pool: Pool,
    bytes: usize,
}

impl Buffers {
    #[inline]
    fn one(&self) -> Buf {
        self.pool.take(self.bytes).expect("the pool has room for a batch")
    }

    fn take(&self, count: usize) -> (Duration, Vec<Buf>) {
        let mut bufs = Vec::with_capacity(count);
        let time = timed(|| {
            for _ in 0..count {
                bufs.push(self.one());
            }
        });
        (time, bufs)
    }

    fn take_return(&self, count: usize) -> Duration {
        timed(|| {
            for _ in 0..count {
                drop(black_box(self.one()));
            }
        })
    }

    fn view(&self, count: usize) -> Duration {
        let (_, mut bufs) = self.take(count);
        let mut views = Vec::with_capacity(count);
        timed(|| {
            views.extend(black_box(&mut bufs).drain(..).map(typed));
            black_box(&mut views);
        })
    }

    fn share(&self, count: usize) -> Duration {
        let mut views: Vec<Typed<f64>> = self.take(count).1.into_iter().map(typed).collect();
        timed(|| {
            for view in views.drain(..) {
                drop(black_box(view.share()));
            }
        })
    }

    fn hold(&self, count: usize) -> Vec<Held<u8>> {
        let held: Vec<Held<u8>> = self.take(count).1.into_iter().map(Buf::hold).collect();
        assert!(held.iter().all(Held::is_resident), "the pool is never low");
        held
    }

    fn evacuate(&self, count: usize) -> Duration {
        let mut held = self.hold(count);
        timed(|| held.iter_mut().for_each(Held::evacuate))
    }
}

#[inline]
fn typed(buf: Buf) -> Typed<f64> {
    buf.typed().expect("a whole number of elements")
}

fn ask(held: &[Held<u8>]) -> Duration {
    timed(|| {
        for held in held {
            black_box(black_box(held).is_resident());
        }
    })
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = rt::now();
    work();
    rt::now() - start
}

const NAME: &str = "pool";
const SIZES: [usize; 4] = [64, 1 << 10, 4 << 10, 64 << 10];
/// The one without company comes first: company does not leave.
const OPS: [PoolOp; 9] = [
    PoolOp::TakeReturnAlone,
    PoolOp::Take,
    PoolOp::Return,
    PoolOp::TakeReturn,
    PoolOp::TakeReturnOther,
    PoolOp::TypedView,
    PoolOp::ShareReclaim,
    PoolOp::IsResident,
    PoolOp::Evacuate,
];
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::SIZE,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
/// Buffers in a loop, and the memory they may have together.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 64 << 20;
