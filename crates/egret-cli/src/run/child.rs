//! `egret run-child`: takes its place in the job and becomes the program.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};

use super::{cores, signals};
use crate::system;

/// The first moments of a process of a job.
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    /// The launcher; without it there is no job to be part of.
    #[arg(long)]
    parent: i32,
    #[arg(long)]
    core: Option<usize>,
    /// The limit of open files to go back to.
    #[arg(long)]
    files: Option<u64>,
    /// The file of the program, if that is another than its name says.
    #[arg(long)]
    file: Option<PathBuf>,
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// The arguments that make an `egret` do this.
pub(crate) fn to_args(
    parent: i32,
    core: Option<usize>,
    files: Option<u64>,
    file: Option<&Path>,
) -> Vec<OsString> {
    let mut args = vec!["run-child".into(), format!("--parent={parent}").into()];
    args.extend(core.map(|core| format!("--core={core}").into()));
    args.extend(files.map(|files| format!("--files={files}").into()));
    args.extend(file.map(|file| format!("--file={}", file.display()).into()));
    args.push("--".into());
    args
}

/// Does not come back, unless it fails.
pub(crate) fn become_program(args: &ChildArgs) -> Result<ExitCode> {
    let Err(error) = enter(args);
    let Some(cause) = error.downcast_ref::<io::Error>() else { return Err(error) };
    let code = if cause.kind() == ErrorKind::NotFound { 127 } else { 126 };
    system::tell(&format!("{error:#}"));
    Ok(ExitCode::from(code))
}

fn enter(args: &ChildArgs) -> Result<Infallible> {
    // The launcher's main thread starts all processes, and lives as long as it.
    set_parent_process_death_signal(Some(Signal::KILL)).context("asking to die with the job")?;
    if getppid().map(|parent| parent.as_raw_pid()) != Some(args.parent) {
        bail!("the launcher is gone; this is started by `egret run`, not by hand");
    }
    if let Some(core) = args.core {
        cores::pin(core)?;
    }
    if let Some(files) = args.files {
        let limits = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..limits })?;
    }
    signals::unblock()?;
    let Some((program, rest)) = args.program.split_first() else { bail!("no program") };
    let file = args.file.as_deref().unwrap_or(Path::new(program));
    let error = Command::new(file).arg0(program).args(rest).exec();
    Err(error).with_context(|| format!("starting `{}`", program.display()))
}
