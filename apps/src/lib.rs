//! Parallel programs over egret, each with the sequential program that it is held
//! against.
//!
//! * [`sor`]: red/black successive over-relaxation; rows in blocks, borders and an
//!   all-reduce by remote calls.
//! * [`pmm`]: the product of two matrices; columns in blocks around a ring, by the
//!   virtual interface or by remote calls.
//!
//! Each has its `Args` for a command line and a `run` that is one process of it:
//! under `egret run` one of several, otherwise alone. The process of rank 0 says
//! how it went: a [`AppReport`] with time, speed-up, what was communicated, and
//! whether the result is that of the sequential program.
#![forbid(unsafe_code)]

mod error;
mod fault;
pub mod pmm;
mod progress;
mod report;
mod rounds;
mod slots;
pub mod sor;
mod team;
#[cfg(test)]
mod tests;

pub use error::AppError;
pub use report::{AppReport, AppRun, Efficiency};
