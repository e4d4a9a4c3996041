//! `egret run`: processes of one job, from start to end.
//!
//! ```text
//!  your shell ── guard ── launcher ─┬─ rank 0 ─ whatever it starts
//!                `egret run`        └─ rank 1 …
//! ```
//!
//! The *guard* is the process that was started by hand. It passes signals on and
//! watches. The *launcher*, in a session of its own, has the registry, starts the
//! processes, forwards what they write and decides ([`supervise`]). Each process
//! begins as `run-child` ([`child`]), which takes its place and becomes the program.
//!
//! Both the guard and the launcher adopt what their descendants leave behind, so
//! whatever a program starts stays a descendant of both, whatever session or group it
//! moves to. The one of the two that survives the other ends everything ([`kin`]); when the
//! launcher is gone, the kernel has killed the programs already. Nothing is written to a
//! disk that would have to be removed.
//!
//! Processes on other machines are those of [outposts](outpost).

mod args;
mod change;
mod child;
mod cores;
mod descendants;
mod environment;
mod fault;
mod guard;
mod inbox;
mod job_registry;
mod launcher;
mod lines;
mod outpost;
mod output;
mod program;
mod ranks;
mod signals;
mod sink;
mod status;
mod supervise;
mod terminal;

use std::process::ExitCode;

use anyhow::Result;

use crate::system::tell;

pub(crate) use args::{
    Job, JobUsage, Options, RunArgs, RunRequest, processes, seconds, seconds_or_none,
};
pub(crate) use child::{ChildArgs, become_program, to_args as child_args};
pub(crate) use cores::in_turn as cores_in_turn;
pub(crate) use environment::in_job;
pub(crate) use job_registry::setting;
pub(crate) use launcher::{LauncherArgs, is_own, raise_files, serve};
pub(crate) use outpost::{
    Frame, HostSlots, OutpostArgs, OutpostGuardArgs, PROTOCOL, Transport, connection, egret_there,
    guard as guard_outpost, of_file, of_slurm, parse as parse_host, places, serve as serve_outpost,
};
pub(crate) use signals::{Signals, ends};

/// Runs the program of the command line.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode> {
    match args.into_request()? {
        RunRequest::Job(job) => launch(&job),
        RunRequest::Change { job, change } => {
            change::ask(job.as_deref(), &change).map(|()| ExitCode::SUCCESS)
        }
    }
}

/// Runs `job` to its end; the exit code is the job's.
pub(crate) fn launch(job: &Job) -> Result<ExitCode> {
    let places = job.places()?;
    if job.options.dry_run {
        return outpost::say_plan(job, &places).map(|()| ExitCode::SUCCESS);
    }
    // Of a program on other machines they say it, unless it comes from here.
    let is_here = job.options.copy || places.iter().any(|place| place.host.is_none());
    if let Some(refusal) = program::refusal(job).filter(|_| is_here) {
        tell(&refusal.to_string());
        return Ok(ExitCode::from(refusal.code()));
    }
    guard::watch(job).map(ExitCode::from)
}
