//! A second process of this executable, to try with what takes two.
//!
//! The process connects to an abstract socket like a peer would, and is asked over that
//! to read this process's memory. That way round, as parents are often allowed
//! what strangers are not.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use egret::rt;
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid as NixPid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, pidfd_open, set_parent_process_death_signal,
};
use serde::{Deserialize, Serialize};

/// How `egret info` starts its second process.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoPeerArgs {
    /// The abstract socket to connect to
    name: String,
}

/// Where to read, in which process.
#[derive(Debug, Serialize, Deserialize)]
struct ReadRequest {
    pid: i32,
    at: usize,
    len: usize,
}

/// The bytes that were there, or why not.
type AttemptAnswer = Result<Vec<u8>, String>;

/// Answers questions until the first process is gone.
pub(crate) fn serve(args: &InfoPeerArgs) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("tying the processes together")?;
    let mut stream = UnixStream::connect_addr(&address(&args.name)?)
        .context("info-peer is started by `egret info`, not by hand")?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let question: ReadRequest = serde_json::from_str(&line?)?;
        let answer: AttemptAnswer = read(&question).map_err(|error| format!("{error:#}"));
        writeln!(stream, "{}", serde_json::to_string(&answer)?)?;
    }
    Ok(())
}

fn read(question: &ReadRequest) -> Result<Vec<u8>> {
    let mut bytes = vec![0; question.len.min(BYTES)];
    let from = RemoteIoVec { base: question.at, len: bytes.len() };
    let to = &mut [std::io::IoSliceMut::new(&mut bytes)];
    let got = process_vm_readv(NixPid::from_raw(question.pid), to, &[from])?;
    bytes.truncate(got);
    Ok(bytes)
}

fn address(name: &str) -> Result<SocketAddr> {
    Ok(SocketAddr::from_abstract_name(name)?)
}

/// The second process, connected; it ends with this value.
#[derive(Debug)]
pub(crate) struct InfoPeer {
    child: Child,
    stream: UnixStream,
}

impl InfoPeer {
    pub(crate) fn start() -> Result<Self> {
        let name = format!("egret-info-{}-{}", std::process::id(), rt::random());
        let listener = UnixListener::bind_addr(&address(&name)?).context("an abstract socket")?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("info-peer").arg(name).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::null()).spawn().context("starting it")?;
        match accept(&listener) {
            Ok(stream) => Ok(Self { child, stream }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.child.id())?)
    }

    /// Whether the kernel says who is at the other end.
    pub(crate) fn peercred(&mut self) -> Result<()> {
        let said = socket_peercred(&self.stream)?;
        let found = (said.pid.as_raw_pid(), said.uid);
        ensure!(found == (self.pid()?, geteuid()), "it names another process or user");
        Ok(())
    }

    /// Whether it gives a descriptor of that process.
    pub(crate) fn peerpidfd(&mut self) -> Result<()> {
        let pidfd = getsockopt(&self.stream, sockopt::PeerPidfd)?;
        let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
        let text = fs::read_to_string(path)?;
        let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
        ensure!(pid == Some(self.pid()?), "it is of another process");
        Ok(())
    }

    /// Whether the second process may read this one's memory.
    pub(crate) fn process_vm_readv(&mut self) -> Result<()> {
        let secret: Vec<u8> = (0..BYTES / 8).flat_map(|_| rt::random().to_ne_bytes()).collect();
        let pid = i32::try_from(std::process::id())?;
        let question = ReadRequest { pid, at: secret.as_ptr().expose_provenance(), len: BYTES };
        writeln!(self.stream, "{}", serde_json::to_string(&question)?)?;
        let mut line = String::new();
        BufReader::new(&self.stream).read_line(&mut line).context("waiting for an answer")?;
        match serde_json::from_str::<AttemptAnswer>(&line).context("an answer")? {
            Ok(read) => ensure!(read == secret, "it read other bytes"),
            Err(why) => bail!(why),
        }
        Ok(())
    }

    /// Whether a descriptor tells of the end of the second process, which this is.
    pub(crate) fn pidfd(&mut self) -> Result<()> {
        let pid = Pid::from_raw(self.pid()?).context("a process has a number")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        ensure!(!becomes_readable(&pidfd, Duration::ZERO)?, "it tells of an end too early");
        self.child.kill()?;
        ensure!(becomes_readable(&pidfd, PATIENCE)?, "it does not tell of the end");
        Ok(())
    }
}

impl Drop for InfoPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn accept(listener: &UnixListener) -> Result<UnixStream> {
    ensure!(becomes_readable(listener, PATIENCE)?, "it did not connect");
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn becomes_readable(fd: &impl AsFd, within: Duration) -> Result<bool> {
    let within = Timespec::try_from(within)?;
    Ok(poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&within))? > 0)
}

const BYTES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
