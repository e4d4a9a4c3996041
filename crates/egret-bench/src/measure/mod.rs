//! How a benchmark is measured and reported.
//!
//! | file | what it has |
//! |---|---|
//! | `case.rs` | a case: its subject and limits, repeated, interleaved, and their medians |
//! | `probe.rs` | probes for work of one process, and for the limits of [`limit`](crate::limit) |
//! | `report.rs` | the lines and tables that a benchmark prints |
//! | `progress.rs` | a bar on the terminal while a benchmark repeats |

mod case;
pub(crate) mod probe;
pub(crate) mod progress;
pub(crate) mod report;

pub(crate) use case::{Against, Case, Further, MeasurePlan, Probe, Sample};
