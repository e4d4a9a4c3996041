//! A job on several machines.
//!
//! ```text
//!  your shell ── guard ── launcher ─┬─ rank 0
//!                `egret run`        ├─ rank 1
//!                                   └─ ssh b ┄┄ site guard ── site ─┬─ rank 2
//!                                               `egret run-site`   └─ rank 3
//! ```
//!
//! On each other machine the command of `--remote` starts a *site*: it does there what the launcher does here, but decides
//! nothing. The launcher and the site say [frames](frames) to each other through the standard streams of that command:
//! orders to the site, reports and output to the launcher. The secret of the pool is in the first order, so it is on no
//! command line, in no environment and in no file.
//!
//! Each side says something at least twice a second. A site that has heard nothing for three seconds, or whose input has
//! ended, ends its processes by itself; for the launcher the processes of a site that is silent or gone have failed.

mod frames;
mod hosts;
mod inbox;
mod order;
mod plan;
mod relay;
mod remote;
mod serve;
mod transport;

use std::time::Duration;

pub(crate) use hosts::{HostSlots, JobPlace, of_file, of_slurm, parse, places};
pub(crate) use plan::say_plan;
pub(crate) use remote::{SiteNews, Sites};
pub(crate) use serve::{SiteArgs, SiteGuardArgs, guard, serve};
pub(crate) use transport::{SRUN, Transport};

/// Either side says something this often.
const SAY_EVERY: Duration = Duration::from_millis(500);
/// Who has said nothing for so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
