//! How `egret top` and other commands find the monitor of a job or a pool: by the names of sockets.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use anyhow::{Context, Result, bail};
use rustix::process::{geteuid, getpid};

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
    pub(super) fn own(kind: MonitorKind, pool: &str) -> Self {
        Self { process: getpid().as_raw_pid(), kind, pool: shown(pool) }
    }

    /// Where the monitor of this name answers.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        let Self { process, kind, pool } = self;
        let kind = kind.letter();
        SocketAddr::from_abstract_name(format!("{}{process}-{kind}-{pool}", prefix()))
    }

    /// What people call it.
    pub(crate) fn title(&self) -> String {
        let Self { process, pool, .. } = self;
        match self.kind {
            MonitorKind::Registry => format!("pool {pool} (registry {process})"),
            MonitorKind::Job | MonitorKind::Guest => format!("job {process}"),
        }
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
fn shown(pool: &str) -> String {
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

/// Which command looks for a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinderCommand {
    Top,
    /// `egret run --add` and `--remove`.
    Change,
}

impl FinderCommand {
    fn is_change(self) -> bool {
        self == Self::Change
    }

    /// What a name that is not found may be meant for.
    const fn hint(self) -> &'static str {
        match self {
            Self::Top => "",
            Self::Change => {
                "; the word behind --add or --remove names a job: the program that is started is its own"
            }
        }
    }

    /// How it names one of several.
    const fn usage(self) -> &'static str {
        match self {
            Self::Top => "egret top NUMBER",
            Self::Change => "egret run --add N NUMBER, egret run --remove NODE NUMBER",
        }
    }
}

/// The monitor that is meant: that of a process, of a pool, or the only one.
pub(crate) fn find(wanted: Option<&str>, command: FinderCommand) -> Result<MonitorName> {
    let all = MonitorName::all()?;
    let serves = |it: &&MonitorName| match (command, wanted) {
        // A registry alone takes no change.
        (FinderCommand::Change, None) => it.kind == MonitorKind::Job,
        _ => it.kind != MonitorKind::Guest,
    };
    let serving: Vec<_> = all.iter().filter(serves).collect();
    let of_pool = |pool: &str| -> Vec<_> {
        serving.iter().copied().filter(|monitor| monitor.pool == pool).collect()
    };
    let found = match wanted {
        Some(wanted) => {
            let process = wanted.parse::<i32>().ok();
            let is_it = |it: &&MonitorName| Some(it.process) == process;
            // The process that a person has started is the guard of the one with the registry.
            let is_child = |it: &&MonitorName| {
                process.is_some()
                    && it.kind != MonitorKind::Registry
                    && guard_of(it.process) == process
            };
            match all.iter().find(is_it).or_else(|| all.iter().find(is_child)) {
                Some(guest) if guest.kind == MonitorKind::Guest && command.is_change() => {
                    bail!(elsewhere(guest, command))
                }
                Some(guest) if guest.kind == MonitorKind::Guest => match of_pool(&guest.pool) {
                    none if none.is_empty() => bail!(elsewhere(guest, command)),
                    found => found,
                },
                Some(monitor) => vec![monitor],
                None => of_pool(&shown(wanted)),
            }
        }
        None => serving.clone(),
    };
    match (&found[..], wanted) {
        ([monitor], _) => Ok((*monitor).clone()),
        ([], Some(wanted)) => {
            let pool = shown(wanted);
            match all.iter().find(|it| it.pool == pool) {
                Some(guest) => bail!(elsewhere(guest, command)),
                None => bail!(
                    "no job {wanted} and no registry of a pool {wanted} {HERE}{}{}",
                    list(&serving),
                    command.hint()
                ),
            }
        }
        ([], None) => match all.first() {
            Some(guest) => bail!(elsewhere(guest, command)),
            None => bail!("no job and no registry {HERE}"),
        },
        (several, _) => {
            bail!(
                "several run here: {}; name one by its number: {}",
                names(several),
                command.usage()
            )
        }
    }
}

/// The guard of a launcher, if that still runs: its parent, which runs the same program. A launcher whose guard has been
/// killed has another parent until it ends.
fn guard_of(launcher: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{launcher}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let program = |process: i32| std::fs::read_link(format!("/proc/{process}/exe")).ok();
    program(parent).filter(|parent| program(launcher).as_ref() == Some(parent)).map(|_| parent)
}

/// What is to be done about a job whose registry is not here.
fn elsewhere(guest: &MonitorName, command: FinderCommand) -> String {
    let pool = &guest.pool;
    let what = match command {
        FinderCommand::Top => format!(
            "is in the pool {pool}, whose registry is no process of this user on this machine: say `egret top {pool}` where its \
             egret registry runs"
        ),
        FinderCommand::Change => format!(
            "takes no processes, for its pool {pool} has a registry of its own: `egret run --open --registry ADDRESS` starts more \
             in the pool, and a process ends by its number, which `egret top` shows"
        ),
    };
    let title = guest.title();
    format!("{title} {what}")
}

fn list(all: &[&MonitorName]) -> String {
    if all.is_empty() { String::new() } else { format!("; here run: {}", names(all)) }
}

fn names(all: &[&MonitorName]) -> String {
    let name = |monitor: &&MonitorName| format!("{} (pool {})", monitor.process, monitor.pool);
    all.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Ends the sentence that something is not found.
const HERE: &str = "runs as this user on this machine, in this network namespace";
/// Bytes of the name of a pool in the name of a socket, which has 107 at most.
const POOL_MAX: usize = 64;

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
}
