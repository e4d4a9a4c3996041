//! The monitor of a job: a thread of the launcher that tells `egret top` what the nodes do, and says when the job
//! stands still.

use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use egret::node::registry::Registry;
use egret::node::settings::Settings;
use egret::node::{NodeId, NodeReport, wait_circle};
use egret::rt::{self, Deadline, Instant};
use egret::wire::Writer;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, geteuid};

use super::system::{self, wait_for};

/// A member of the job, and what it reports: nothing if it does not answer.
pub(crate) type MemberReport = (NodeId, Option<NodeReport>);

/// The name under which the monitor of a job answers, in the abstract namespace of this machine: such a name leaves no
/// file behind.
pub(crate) fn socket_name(user: u32, launcher: i32) -> String {
    format!("egret-top-{user}-{launcher}")
}

/// Starts the monitor.
pub(super) fn start(registry: &Arc<Registry>, launcher: Pid) -> Result<()> {
    let stall = Settings::stall()?;
    let name = socket_name(geteuid().as_raw(), launcher.as_raw_nonzero().get());
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address).context("listening for `egret top`")?;
    listener.set_nonblocking(true)?;
    let registry = Arc::clone(registry);
    let watch = if let Deadline::In(most) = stall { Some(StallWatch::new(most)) } else { None };
    rt::spawn("egret monitor", move || run(&registry, &listener, watch))?;
    Ok(())
}

fn run(registry: &Registry, listener: &UnixListener, mut watch: Option<StallWatch>) {
    loop {
        let pause = watch.as_ref().map(StallWatch::pause);
        wait_for(&mut [PollFd::new(listener, PollFlags::IN)], pause);
        // One caller after the other: each is told at once.
        while let Ok((caller, _)) = listener.accept() {
            // One that has gone meanwhile wants nothing any more.
            _ = tell(&caller, registry);
        }
        if let Some(stall) = &mut watch
            && stall.is_due(rt::now())
        {
            let reports = registry.reports(ANSWERED);
            if let Some(said) = stall.look(&reports, rt::now()) {
                system::tell(&said);
                watch = None;
            }
        }
    }
}

/// Sends the reports of all members to a process of the same user.
fn tell(caller: &UnixStream, registry: &Registry) -> io::Result<()> {
    let who = socket_peercred(caller)?.uid;
    if who != geteuid() && !who.is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    caller.set_write_timeout(Some(ANSWERED))?;
    let (reports, mut writer) = (registry.reports(ANSWERED), Writer::new());
    writer.write_copy(&reports).map_err(io::Error::other)?;
    let mut caller = caller;
    caller.write_all(&writer.to_vec())
}

/// Whether a job stands still: every member waits, has waited for long, and sends nothing to others.
struct StallWatch {
    most: Duration,
    /// All messages of the members, and since when it is that many.
    progress: (u64, Instant),
    looked: Instant,
}

impl StallWatch {
    fn new(most: Duration) -> Self {
        Self { most, progress: (u64::MAX, rt::now()), looked: rt::now() }
    }

    fn pause(&self) -> Duration {
        (self.most / 4).max(PAUSE_LEAST)
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now - self.looked >= self.pause();
        if is_due {
            self.looked = now;
        }
        is_due
    }

    /// Looks at reports of now; returns what is to be said, if the job stands still.
    fn look(&mut self, reports: &[MemberReport], now: Instant) -> Option<String> {
        let all: Option<Vec<_>> = reports.iter().map(|(_, report)| report.clone()).collect();
        let all = all.filter(|all| !all.is_empty())?;
        let progress = all.iter().map(NodeReport::progress).sum();
        if self.progress.0 != progress {
            self.progress = (progress, now);
        }
        let most = u64::try_from(self.most.as_millis()).unwrap_or(u64::MAX);
        let waits_long =
            |report: &NodeReport| report.waits.iter().any(|wait| wait.waited_ms >= most);
        if now - self.progress.1 < self.most || !all.iter().all(waits_long) {
            return None;
        }
        Some(format!(
            "the job has stood still for {:.0?} (EGRET_STALL):\n{}",
            self.most,
            waits_of(&all)
        ))
    }
}

/// A line for each wait, and the circle of waits if there is one.
pub(crate) fn waits_of(reports: &[NodeReport]) -> String {
    let mut lines = Vec::new();
    for report in reports {
        lines.extend(report.waits.iter().map(|wait| format!("  {}: {wait}", report.node)));
    }
    let circle = wait_circle(reports);
    if let Some(first) = circle.first() {
        let nodes = circle.iter().chain([first]).map(ToString::to_string);
        lines.push(format!("  circle of waits: {}", nodes.collect::<Vec<_>>().join(" → ")));
    }
    lines.join("\n")
}

/// How long members have to answer.
const ANSWERED: Duration = Duration::from_secs(2);
/// The shortest time between two looks for a job that stands still.
const PAUSE_LEAST: Duration = Duration::from_millis(250);
