//! What the processes find in their environment.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use clap::builder::{OsStringValueParser, TypedValueParser};
use egret::node::settings::{Origin, Settings, start_with_secret};
use egret::rt;
use egret::topology::Location;
use zeroize::Zeroizing;

use super::args::{Job, word};

/// A variable that was asked for, `-x VAR` or `-x VAR=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extra {
    name: String,
    /// It need not be Unicode.
    value: Option<OsString>,
}

impl Extra {
    /// Reads `VAR` or `VAR=VALUE`.
    fn parse(text: &OsStr) -> Result<Self, String> {
        let bytes = text.as_encoded_bytes();
        let end = bytes.iter().position(|byte| *byte == b'=');
        let name = str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]);
        let name = name.map_err(|_| "the name of a variable is no Unicode text".to_owned())?;
        let value = end.map(|end| OsStr::from_bytes(&bytes[end + 1..]).to_owned());
        if name.is_empty() {
            return Err("a variable needs a name".to_owned());
        }
        if OURS.contains(&name) {
            return Err(format!("{name} is what egret run itself gives each process"));
        }
        if value.is_none() && std::env::var_os(name).is_none() {
            return Err(format!("{name} is not set here; {name}=VALUE says what it should be"));
        }
        Ok(Self { name: name.to_owned(), value })
    }

    /// Reads one of a command line.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|text| Self::parse(&text))
    }

    /// With the value that the variable has here, unless another is said.
    pub(crate) fn resolved(self) -> Self {
        let here = || std::env::var_os(&self.name);
        Self { value: self.value.clone().or_else(here), name: self.name }
    }

    pub(crate) fn to_arg(&self) -> OsString {
        match &self.value {
            Some(value) => {
                let mut arg = OsString::from(&self.name);
                arg.push("=");
                arg.push(value);
                arg
            }
            None => self.name.clone().into(),
        }
    }
}

/// What all processes of a job are given.
pub(crate) struct Environment {
    pub(crate) job: String,
    /// The name of the outpost, on another machine than the launcher.
    outpost: Option<String>,
    /// The name of the pool: that of the job, unless another process has the registry.
    pub(crate) pool: String,
    pub(crate) registry: String,
    /// Wiped with this, when all processes have been started.
    pub(crate) secret: Zeroizing<String>,
    /// Where the processes are but for their cores, unless the settings say it.
    location: Option<Location>,
    /// Variables of the launcher, which is on another machine.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The address of this machine that the others reach, if there are others.
    pub(crate) listen: Option<String>,
}

/// A rank, and its place on its machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankPlace {
    pub(crate) rank: u32,
    /// The number among those on this machine.
    pub(crate) local: u32,
    /// The core that the process is bound to, if it is.
    pub(crate) core: Option<usize>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        f.debug_struct("Environment").field("job", &self.job).finish_non_exhaustive()
    }
}

impl Environment {
    /// Of the job with this name; where its registry is will be known.
    pub(crate) fn new(job: String) -> Self {
        let (registry, secret) = (String::new(), Zeroizing::default());
        let variables = Vec::new();
        let (pool, outpost, location) = (job.clone(), None, here());
        Self { job, outpost, pool, registry, secret, location, variables, listen: None }
    }

    /// Of the job at one of its outposts.
    pub(crate) fn of_outpost(job: String, outpost: u32) -> Self {
        let name = outpost_name(&job, outpost);
        Self { outpost: Some(name), ..Self::new(job) }
    }

    /// The variables of this process that go along to another machine: the settings, but for those that each process is
    /// given, and where this machine is.
    pub(crate) fn along(&self) -> Vec<(OsString, OsString)> {
        let goes = |name: &OsStr| {
            let name = name.to_string_lossy();
            name.starts_with("EGRET_") && !OURS.contains(&&*name) && name != LOCATION
        };
        std::env::vars_os().filter(|(name, _)| goes(name)).collect()
    }

    /// Starts `command` as a process of `job`. The secret goes in a pipe that this process alone inherits.
    pub(crate) fn start(
        &self,
        command: &mut Command,
        job: &Job,
        place: RankPlace,
    ) -> io::Result<Child> {
        self.give(command, job, place);
        start_with_secret(command, self.secret.as_bytes())
    }

    /// Whether a variable comes along, or is set here.
    fn is_said(&self, job: &Job, name: &str) -> bool {
        seen(job, name).is_some() || self.variables.iter().any(|(known, _)| known == name)
    }

    /// What is no secret.
    fn give(&self, command: &mut Command, job: &Job, place: RankPlace) {
        let RankPlace { rank, local, core } = place;
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(listen) = self.listen.as_ref().filter(|_| !self.is_said(job, LISTEN)) {
            command.env(LISTEN, listen);
        }
        if let Some(host) = &self.location {
            command.env(LOCATION, located(host, core).to_string());
        }
        let (rank, size) = (rank.to_string(), job.processes.to_string());
        command.env("EGRET_JOB", &self.job).env("EGRET_POOL", &self.pool);
        command.env("EGRET_REGISTRY", &self.registry);
        match &self.outpost {
            Some(outpost) => command.env(OUTPOST, outpost),
            None => command.env_remove(OUTPOST),
        };
        command.env("EGRET_JOB_RANK", &rank).env("EGRET_LOCAL_RANK", local.to_string());
        if job.options.open {
            // The registry gives ranks, and the pool has no size.
            command.env_remove("EGRET_RANK").env_remove("EGRET_SIZE");
        } else {
            command.env("EGRET_RANK", &rank).env("EGRET_SIZE", &size);
        }
        match terminal() {
            Some(path) => command.env("EGRET_TERMINAL", path),
            None => command.env_remove("EGRET_TERMINAL"),
        };
        if let Some(fabrics) = &job.options.fabric {
            command.env("EGRET_FABRICS", fabrics);
        }
        if let Some(trust) = &job.options.trust {
            command.env("EGRET_TRUST", word(trust));
        }
        for extra in &job.options.extra {
            if let Some(value) = &extra.value {
                command.env(&extra.name, value);
            }
        }
    }
}

/// Where the processes of this machine are, as far as this one knows: nothing if the user has said it.
fn here() -> Option<Location> {
    let report = Settings::report().ok()?;
    let setting = report.settings.into_iter().find(|setting| setting.variable == LOCATION)?;
    let is_users = match setting.origin {
        Origin::Default => false,
        // Without the variable it is what Slurm says.
        Origin::Environment => std::env::var_os(LOCATION).is_some(),
        _ => true,
    };
    if is_users {
        return None;
    }
    let mut here: Location = setting.value.unwrap_or_default().parse().ok()?;
    if here.host.is_empty() {
        let system = rustix::system::uname();
        here = format!("@{}", system.nodename().to_str().ok()?.replace('@', "_")).parse().ok()?;
    }
    Some(here)
}

/// The location of a process: the cores of one that is bound to none it finds out by itself.
fn located(host: &Location, core: Option<usize>) -> Location {
    let mut location = host.clone();
    location.core = core.map(|core| core.to_string()).unwrap_or_default();
    location
}

/// Takes from `command` what an outer job told this process about its secret.
pub(crate) fn without_secret(command: &mut Command) -> &mut Command {
    SECRETS.iter().for_each(|variable| _ = command.env_remove(variable));
    command
}

/// A name for a job that no other has.
pub(crate) fn job_name() -> String {
    format!("job-{:016x}", rt::random())
}

/// The variable by which the processes of a job are known.
pub(crate) fn mark(job: &str) -> String {
    format!("EGRET_JOB={job}")
}

/// The name of an outpost, which no other has.
pub(crate) fn outpost_name(job: &str, outpost: u32) -> String {
    format!("{job}.{outpost}")
}

/// The variable by which the processes of an outpost are known.
pub(crate) fn outpost_mark(outpost: &str) -> String {
    format!("{OUTPOST}={outpost}")
}

/// The value that processes of `job` see.
pub(crate) fn seen(job: &Job, name: &str) -> Option<OsString> {
    let given = job.options.extra.iter().rev().find(|extra| extra.name == name);
    let given = given.and_then(|extra| extra.value.clone());
    given.or_else(|| std::env::var_os(name))
}

/// The terminal that errors are written to, if it is one: the processes' own are pipes.
fn terminal() -> Option<PathBuf> {
    io::stderr().is_terminal().then(|| fs::read_link("/proc/self/fd/2").ok()).flatten()
}

/// Whether this process is part of a job, of `egret run` or of another launcher.
pub(crate) fn in_job() -> bool {
    std::env::var_os("EGRET_JOB").is_some() || Settings::is_task()
}

/// Set for each process by the launcher alone.
const OURS: [&str; 12] = [
    "EGRET_JOB",
    "EGRET_JOB_RANK",
    "EGRET_LOCAL_RANK",
    "EGRET_POOL",
    "EGRET_RANK",
    "EGRET_REGISTRY",
    "EGRET_SECRET",
    "EGRET_SECRET_FD",
    "EGRET_SECRET_FILE",
    OUTPOST,
    "EGRET_SIZE",
    "EGRET_TERMINAL",
];
/// Which of the outposts of a job a process is at.
const OUTPOST: &str = "EGRET_OUTPOST";
/// Where nodes listen.
const LISTEN: &str = "EGRET_LISTEN";
/// Where a process is.
const LOCATION: &str = "EGRET_LOCATION";
/// Variables that give a secret.
const SECRETS: [&str; 3] = ["EGRET_SECRET", "EGRET_SECRET_FD", "EGRET_SECRET_FILE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_has_the_core_of_a_process_that_is_bound_to_one() {
        let host: Location = "@tux1@s0.s4@blue".parse().unwrap();
        assert_eq!(located(&host, Some(3)).to_string(), "3@tux1@s0.s4@blue");
        assert_eq!(located(&host, None).to_string(), "@tux1@s0.s4@blue");
    }
}
