//! The monitor of a pool: a thread of the process that has its registry, `egret run` or `egret registry`, which tells
//! `egret top` what the nodes do, says when they stand still, and takes changes of an open job.

mod name;
mod stall;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use egret::node::registry::Registry;
use egret::node::settings::Settings;
use egret::node::{NodeId, NodeReport};
use egret::rt::{self, Deadline};
use egret::wire::Writer;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::name::{FinderCommand, MonitorKind, MonitorName, find};
use self::stall::StallWatch;
pub(crate) use self::stall::waits_of;
use crate::system::{tell, wait_for};

/// A member of a pool, and what it reports: nothing if it does not answer.
pub(crate) type MemberReport = (NodeId, Option<NodeReport>);

/// How a change of a job went: what has happened, or why nothing has.
pub(crate) type ChangeAnswer = Result<String, String>;

/// Whether a caller still waits for its answer.
pub(crate) type IsWanted = Box<dyn Fn() -> bool + Send>;

/// Takes what another command asks of a job, and says how it went.
pub(crate) type ChangeTaker = Box<dyn Fn(Value, &Registry, IsWanted) -> ChangeAnswer + Send + Sync>;

/// The same for several threads.
type SharedTaker = Arc<dyn Fn(Value, &Registry, IsWanted) -> ChangeAnswer + Send + Sync>;

/// Starts the monitor of a registry in this process. What the registry is for runs without a monitor as well.
/// `changes` takes changes of the job, if there can be any.
pub(crate) fn start(
    registry: &Arc<Registry>,
    kind: MonitorKind,
    pool: &str,
    changes: Option<ChangeTaker>,
) {
    if let Err(why) = try_start(registry, &MonitorName::own(kind, pool), changes) {
        tell(&format!("`egret top` will not find the pool {pool:?}: {why:#}"));
    }
}

fn try_start(
    registry: &Arc<Registry>,
    name: &MonitorName,
    changes: Option<ChangeTaker>,
) -> Result<()> {
    let stall = Settings::stall()?;
    let listener =
        UnixListener::bind_addr(&name.address()?).context("listening for `egret top`")?;
    listener.set_nonblocking(true)?;
    let registry = Arc::clone(registry);
    let what = if name.kind == MonitorKind::Job { "job" } else { "pool" };
    let watch =
        if let Deadline::In(most) = stall { Some(StallWatch::new(what, most)) } else { None };
    let kind = name.kind;
    let changes = changes.unwrap_or_else(|| Box::new(move |_, _, _| Err(no_change(kind))));
    rt::spawn("egret monitor", move || run(&registry, &listener, watch, &Arc::from(changes)))?;
    Ok(())
}

/// Says that the job of this process is in the pool of a registry elsewhere, as long as the socket is open.
pub(crate) fn note_guest(pool: &str) -> Option<UnixDatagram> {
    let bind = || UnixDatagram::bind_addr(&MonitorName::own(MonitorKind::Guest, pool).address()?);
    let bound =
        bind().inspect_err(|why| tell(&format!("`egret top` will not find this job: {why}")));
    bound.ok()
}

/// Why no change is taken.
fn no_change(kind: MonitorKind) -> String {
    match kind {
        MonitorKind::Registry => {
            "`egret registry` starts no processes and ends none: `egret run --open --registry ADDRESS` starts more in its pool, and \
             a process ends by its number, which `egret top` shows"
        }
        MonitorKind::Job | MonitorKind::Guest => {
            "the job was begun without --open: no process can be added to it or removed (`egret run --open` begins one that can \
             grow)"
        }
    }
    .to_owned()
}

fn run(
    registry: &Arc<Registry>,
    listener: &UnixListener,
    mut watch: Option<StallWatch>,
    changes: &SharedTaker,
) {
    loop {
        let pause = watch.as_ref().map(StallWatch::pause);
        wait_for(&mut [PollFd::new(listener, PollFlags::IN)], pause);
        while let Ok((caller, _)) = listener.accept() {
            // A caller may be slow, and another machine may take long to be reached. With too many callers the next one is
            // told nothing.
            if Arc::strong_count(changes) <= CALLERS_MAX {
                let (registry, changes) = (Arc::clone(registry), Arc::clone(changes));
                // One that has gone meanwhile wants nothing any more.
                let answer = move || drop(answer(&caller, &registry, &changes));
                _ = rt::spawn("egret monitor caller", answer);
            }
        }
        if let Some(stall) = &mut watch
            && stall.is_due(rt::now())
        {
            let reports = registry.reports(ANSWERED);
            if let Some(said) = stall.look(&reports, rt::now()) {
                tell(&said);
            }
        }
    }
}

/// What another command asks a monitor; [`ask`] sends it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MonitorRequest {
    /// The reports of all members, as one object of a stream.
    Reports,
    /// A change of the job; the answer is a [`ChangeAnswer`] as JSON.
    Change(Value),
}

/// Answers a process of the same user.
fn answer(caller: &UnixStream, registry: &Arc<Registry>, changes: &SharedTaker) -> io::Result<()> {
    let who = socket_peercred(caller)?.uid;
    if who != geteuid() && !who.is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    caller.set_write_timeout(Some(ANSWERED))?;
    caller.set_read_timeout(Some(ANSWERED))?;
    let (mut request, mut to) = (Vec::new(), caller);
    caller.take(REQUEST_MAX).read_to_end(&mut request)?;
    match serde_json::from_slice(&request)? {
        MonitorRequest::Reports => {
            let (reports, mut writer) = (registry.reports(ANSWERED), Writer::new());
            writer.write_copy(&reports).map_err(io::Error::other)?;
            to.write_all(&writer.to_vec())
        }
        MonitorRequest::Change(change) => {
            let asks = caller.try_clone()?;
            let is_wanted = move || !has_gone(&asks);
            let answer = changes(change, registry, Box::new(is_wanted));
            Ok(serde_json::to_writer(caller, &answer)?)
        }
    }
}

/// Whether the process at the other end is gone, or has closed its end.
fn has_gone(caller: &UnixStream) -> bool {
    let mut fds = [PollFd::new(caller, PollFlags::empty())];
    wait_for(&mut fds, Some(Duration::ZERO));
    fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Asks a monitor, and waits so long for the answer.
pub(crate) fn ask(
    monitor: &MonitorName,
    request: &MonitorRequest,
    time: Duration,
) -> Result<Vec<u8>> {
    let title = monitor.title();
    let mut stream = UnixStream::connect_addr(&monitor.address()?)
        .with_context(|| format!("the {title} does not run any more"))?;
    let whose = socket_peercred(&stream)?.uid;
    if whose != geteuid() && !whose.is_root() {
        bail!("the name of the {title} is taken by a process of user {}", whose.as_raw());
    }
    serde_json::to_writer(&stream, request)?;
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(time))?;
    let mut bytes = Vec::new();
    let read = (&mut stream).take(ANSWER_MAX).read_to_end(&mut bytes);
    read.with_context(|| format!("the {title} has not answered within {time:?}"))?;
    if bytes.is_empty() {
        // It has ended before it could answer.
        return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
    }
    Ok(bytes)
}

/// Asks a job, the only one if none is named, for a change.
pub(crate) fn change(job: Option<&str>, change: Value) -> Result<ChangeAnswer> {
    let monitor = find(job, FinderCommand::Change)?;
    let title = monitor.title();
    let bytes = ask(&monitor, &MonitorRequest::Change(change), CHANGED).map_err(|why| {
        let reset = why.downcast_ref::<io::Error>().map(io::Error::kind);
        match reset {
            Some(io::ErrorKind::ConnectionReset) => anyhow!("the {title} has ended"),
            _ => why,
        }
    })?;
    serde_json::from_slice(&bytes)
        .with_context(|| format!("the {title} runs with another version of egret"))
}

/// Callers that are answered at the same time.
const CALLERS_MAX: usize = 64;
/// Bytes of a request.
const REQUEST_MAX: u64 = 1 << 20;
/// Bytes of the reports of all members.
const ANSWER_MAX: u64 = 256 << 20;
/// How long a change may take: another machine is reached within half of that, or not.
const CHANGED: Duration = Duration::from_secs(60);
/// How long members have to answer.
const ANSWERED: Duration = Duration::from_secs(2);
