//! A job on several machines.
//!
//! ```text
//!  your shell ── guard ── launcher ─┬─ rank 0
//!                `egret run`        ├─ rank 1
//!                                   └─ ssh b ┄┄ outpost guard ── outpost ─┬─ rank 2
//!                                               `egret run-outpost`   └─ rank 3
//! ```
//!
//! On each other machine the command of `--remote` starts an *outpost*: it does there what the launcher does here, but decides
//! nothing. The launcher and the outpost say [frames](frames) to each other through the standard streams of that command:
//! orders to the outpost, reports and output to the launcher. The secret of the pool is in the first order, so it is on no
//! command line, in no environment and in no file.
//!
//! Each side says something at least twice a second. An outpost that has heard nothing for three seconds, or whose input has
//! ended, ends its processes by itself; for the launcher the processes of an outpost that is silent or gone have failed.

mod frames;
mod hosts;
mod order;
mod plan;
mod program_copy;
mod relay;
mod remote;
mod serve;
mod transport;

use std::time::Duration;

pub(crate) use frames::Frame;
pub(crate) use hosts::{HostSlots, JobPlace, of_file, of_slurm, parse, places};
pub(crate) use order::PROTOCOL;
pub(crate) use plan::say_plan;
pub(crate) use remote::{CalledOutposts, FailedOutpost, OutpostNews, Outposts};
pub(crate) use serve::{OutpostArgs, OutpostGuardArgs, connection, guard, serve};
pub(crate) use transport::{Transport, egret_there};

/// Either side says something this often.
const SAY_EVERY: Duration = Duration::from_millis(500);
/// Who has said nothing for so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
