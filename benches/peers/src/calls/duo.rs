//! The two processes: this one calls, another one serves.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Peer;

/// A process that serves, until this is dropped.
pub struct Server {
    child: Child,
    /// Where it is.
    pub at: String,
}

impl Server {
    /// Starts one from this executable.
    pub fn start(peer: &Peer, core: usize) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["serve", peer.name, &core.to_string()]).stdout(Stdio::piped());
        let child = command.spawn().context("starting the server")?;
        let mut server = Self { child, at: String::new() };
        let stdout = server.child.stdout.take().context("it has one")?;
        BufReader::new(stdout.take(256)).read_line(&mut server.at)?;
        ensure!(server.at.ends_with('\n'), "{} does not say where it serves", peer.name);
        server.at.pop();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is the server: serves as `peer` until the process that started it ends it, or itself.
pub fn serve(peer: &Peer, core: usize) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    pin(core)?;
    (peer.serve)(&|at| {
        let mut out = io::stdout().lock();
        writeln!(out, "{at}")?;
        Ok(out.flush()?)
    })
}

/// A core for the one that calls, and one for the one that serves.
pub fn cores() -> Result<[usize; 2]> {
    let allowed = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let mut next = || cores.next().context("this takes two cores");
    Ok([next()?, next()?])
}

/// Keeps this process on `core`.
pub fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}
