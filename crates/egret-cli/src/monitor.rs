//! The monitor of a pool: a thread of the process that has its registry, `egret run` or `egret registry`, which tells
//! `egret top` what the nodes do, and says when they stand still. How `egret top` finds it.

use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
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
use rustix::process::{geteuid, getpid};

use crate::system::{tell, wait_for};

/// A member of a pool, and what it reports: nothing if it does not answer.
pub(crate) type MemberReport = (NodeId, Option<NodeReport>);

/// What a process of this user on this machine has to do with a pool, as the name of its socket says. The name is in the
/// abstract namespace of the machine: such a name leaves no file behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MonitorName {
    pub(crate) process: i32,
    pub(crate) kind: MonitorKind,
    /// The name of the pool, as [`shown`] shows it.
    pub(crate) pool: String,
}

/// The kind of a process that `egret top` finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MonitorKind {
    /// An `egret run` with the registry of its job.
    Job,
    /// An `egret registry`.
    Registry,
    /// An `egret run` whose job is in the pool of a registry elsewhere: nothing answers at its socket.
    Guest,
}

impl MonitorName {
    fn own(kind: MonitorKind, pool: &str) -> Self {
        Self { process: getpid().as_raw_pid(), kind, pool: shown(pool) }
    }

    /// Where the monitor of this name answers.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        let Self { process, kind, pool } = self;
        let kind = kind.letter();
        SocketAddr::from_abstract_name(format!("{}{process}-{kind}-{pool}", prefix()))
    }

    /// All on this machine, in the network namespace of this process.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let sockets = std::fs::read_to_string("/proc/net/unix").context("listing the jobs")?;
        let names = sockets.lines().filter_map(|line| line.split_whitespace().next_back());
        let mut all: Vec<_> = names.filter_map(Self::parse).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Reads a name of the list of the system, where it begins with an `@`.
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix('@')?.strip_prefix(&prefix())?.splitn(3, '-');
        let process = parts.next()?.parse().ok()?;
        let kind = parts.next()?;
        let kinds = [MonitorKind::Job, MonitorKind::Registry, MonitorKind::Guest];
        let kind = kinds.into_iter().find(|known| known.letter() == kind)?;
        Some(Self { process, kind, pool: parts.next()?.to_owned() })
    }
}

impl MonitorKind {
    const fn letter(self) -> &'static str {
        match self {
            Self::Job => "j",
            Self::Registry => "r",
            Self::Guest => "g",
        }
    }
}

/// The name of a pool in the name of a socket: other characters than letters, digits, `.` and `_` as their bytes, and the
/// beginning alone if it is long.
pub(crate) fn shown(pool: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let one = |byte: u8| match plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    let mut name: String = pool.bytes().map(one).collect();
    name.truncate(POOL_MAX);
    name
}

fn prefix() -> String {
    format!("egret-top-{}-", geteuid().as_raw())
}

/// Starts the monitor of a registry in this process. What the registry is for runs without a monitor as well.
pub(crate) fn start(registry: &Arc<Registry>, kind: MonitorKind, pool: &str) {
    if let Err(why) = try_start(registry, &MonitorName::own(kind, pool)) {
        tell(&format!("`egret top` will not find the pool {pool:?}: {why:#}"));
    }
}

fn try_start(registry: &Arc<Registry>, name: &MonitorName) -> Result<()> {
    let stall = Settings::stall()?;
    let listener =
        UnixListener::bind_addr(&name.address()?).context("listening for `egret top`")?;
    listener.set_nonblocking(true)?;
    let registry = Arc::clone(registry);
    let what = if name.kind == MonitorKind::Job { "job" } else { "pool" };
    let watch =
        if let Deadline::In(most) = stall { Some(StallWatch::new(what, most)) } else { None };
    rt::spawn("egret monitor", move || run(&registry, &listener, watch))?;
    Ok(())
}

/// Says that the job of this process is in the pool of a registry elsewhere, as long as the socket is open.
pub(crate) fn note_guest(pool: &str) -> Option<UnixDatagram> {
    let bind = || UnixDatagram::bind_addr(&MonitorName::own(MonitorKind::Guest, pool).address()?);
    let bound =
        bind().inspect_err(|why| tell(&format!("`egret top` will not find this job: {why}")));
    bound.ok()
}

fn run(registry: &Registry, listener: &UnixListener, mut watch: Option<StallWatch>) {
    loop {
        let pause = watch.as_ref().map(StallWatch::pause);
        wait_for(&mut [PollFd::new(listener, PollFlags::IN)], pause);
        // One caller after the other: each is told at once.
        while let Ok((caller, _)) = listener.accept() {
            // One that has gone meanwhile wants nothing any more.
            _ = answer(&caller, registry);
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

/// Sends the reports of all members to a process of the same user.
fn answer(caller: &UnixStream, registry: &Registry) -> io::Result<()> {
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

/// Whether a job or pool stands still: every member waits, has waited for long, and sends nothing to others.
struct StallWatch {
    what: &'static str,
    most: Duration,
    /// All messages of the members, and since when it is that many.
    progress: (u64, Instant),
    /// Whether it was said since then.
    is_said: bool,
    looked: Instant,
}

impl StallWatch {
    fn new(what: &'static str, most: Duration) -> Self {
        let now = rt::now();
        Self { what, most, progress: (u64::MAX, now), is_said: false, looked: now }
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
        let progress = all.iter().map(NodeReport::progress).fold(0, u64::wrapping_add);
        if self.progress.0 != progress {
            (self.progress, self.is_said) = ((progress, now), false);
        }
        let most = u64::try_from(self.most.as_millis()).unwrap_or(u64::MAX);
        let waits_long = |report: &NodeReport| {
            report.waits.iter().any(|wait| wait.waited_ms >= most && !wait.is_idle())
        };
        if self.is_said || now - self.progress.1 < self.most || !all.iter().all(waits_long) {
            return None;
        }
        self.is_said = true;
        let Self { what, most, .. } = self;
        let waits = waits_of(&all);
        Some(format!("the {what} has stood still for {most:.0?} (EGRET_STALL):\n{waits}"))
    }
}

/// A line for each wait, and the circle of waits if there is one.
pub(crate) fn waits_of(reports: &[NodeReport]) -> String {
    let mut lines = Vec::new();
    for report in reports {
        lines.extend(report.waits.iter().map(|wait| format!("  {}: {wait}", report.node)));
        if report.omitted_waits > 0 {
            lines.push(format!("  {}: and {} more waits", report.node, report.omitted_waits));
        }
    }
    let circle = wait_circle(reports);
    if let Some(first) = circle.first() {
        let nodes = circle.iter().chain([first]).map(ToString::to_string);
        lines.push(format!("  circle of waits: {}", nodes.collect::<Vec<_>>().join(" → ")));
    }
    lines.join("\n")
}

/// Bytes of the name of a pool in the name of a socket, which has 107 at most.
const POOL_MAX: usize = 64;
/// How long members have to answer.
const ANSWERED: Duration = Duration::from_secs(2);
/// The shortest time between two looks for a job that stands still.
const PAUSE_LEAST: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_socket_says_whose_it_is() {
        let read = |name: &MonitorName| {
            let address = name.address().unwrap();
            let text = String::from_utf8(address.as_abstract_name().unwrap().to_vec()).unwrap();
            assert!(text.len() <= 107 && !text.contains(char::is_whitespace), "{text}");
            MonitorName::parse(&format!("@{text}"))
        };
        for (kind, pool) in [
            (MonitorKind::Job, "job-0123456789abcdef"),
            (MonitorKind::Registry, "two words\n"),
            (MonitorKind::Guest, &"long".repeat(60)),
        ] {
            let name = MonitorName { process: i32::MAX, ..MonitorName::own(kind, pool) };
            assert_eq!(read(&name), Some(name));
        }
        assert_ne!(shown("a b"), shown("a_b"));
        let other = format!("@egret-top-{}x-1-j-pool", geteuid().as_raw());
        assert_eq!(MonitorName::parse(&other), None, "another user's");
    }

    #[test]
    fn what_stands_still_is_said_once_until_it_goes_on() {
        let start = rt::now();
        let mut watch = StallWatch::new("pool", Duration::from_secs(1));
        let at = |seconds| start + Duration::from_secs(seconds);
        let pool = egret::local::pool(1).unwrap();
        let idle = pool[0].report();
        let mut reports = vec![(idle.node, Some(idle))];
        assert_eq!(watch.look(&reports, at(0)), None);
        assert_eq!(watch.look(&reports, at(5)), None, "no thread waits");
        let waiting = wait_of(&pool[0]);
        reports[0].1 = Some(waiting.clone());
        let said = watch.look(&reports, at(6)).expect("it stands still");
        assert!(said.starts_with("the pool has stood still for 1s (EGRET_STALL):"), "{said}");
        assert_eq!(watch.look(&reports, at(60)), None, "it was said");
        let mut moved = waiting;
        moved.total.sent += 1;
        reports[0].1 = Some(moved);
        assert_eq!(watch.look(&reports, at(61)), None, "it goes on");
        assert!(watch.look(&reports, at(63)).is_some(), "and stands again");
        reports.push((reports[0].0, None));
        assert_eq!(
            watch.look(&reports, at(90)),
            None,
            "one that does not answer is not known to wait"
        );
        assert_eq!(StallWatch::new("job", Duration::ZERO).look(&[], at(9)), None);
    }

    /// The report of a node with a thread that has waited for more than a second.
    fn wait_of(node: &egret::node::NodeHandle) -> NodeReport {
        let until = rt::now() + Duration::from_secs(20);
        let waiter = node.clone();
        let wait = move || waiter.wait_bound("nothing", Duration::from_secs(3)).map(drop);
        let waits = rt::spawn("waiter", wait).unwrap();
        loop {
            let report = node.report();
            if report.waits.iter().any(|wait| wait.waited_ms >= 1000) {
                drop(waits);
                return report;
            }
            assert!(rt::now() < until, "{report}");
            rt::sleep(Duration::from_millis(10));
        }
    }
}
