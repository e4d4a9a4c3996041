//! What a job is, and how a command line says it.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use thiserror::Error;

use super::change::{JobChange, RemovedNode};
use super::environment;
use super::outpost::{self, HostSlots, JobPlace, Transport};

/// Run a program as several processes that find each other.
///
/// Starts PROGRAM N times on this machine, or on several (--host), with a registry in which the processes meet
/// (`Node::join`). Their output is forwarded line by line, signals reach all of them,
/// and some time (`--grace`) after the first failure all are ended, unless they are to go
/// on (`--on-death`). Nothing stays behind, however it ends.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_long_help = HELP,
    override_usage = "egret run [-n <N>] [--host <LIST>] [OPTIONS] [--] <PROGRAM> [ARGS]...\n       egret run --add <N> [--host <LIST>] [JOB]\n       egret run --remove <NODE> [JOB]"
)]
pub(crate) struct RunArgs {
    /// How many processes to start [default with --host or --hostfile, and in an allocation of Slurm of several machines: as
    /// many as the machines take]
    #[arg(short = 'n', value_name = "N", value_parser = processes)]
    processes: Option<NonZeroU32>,
    /// Start N more processes of an open job that runs (--open): on this machine, or on those of --host. JOB is the
    /// process number of its `egret run` or the name of its pool, and needed only if several run here
    #[arg(long, value_name = "N", value_parser = processes, conflicts_with_all = NOT_WITH_CHANGES)]
    add: Option<NonZeroU32>,
    /// Tell the process of a node of an open job to end, by TERM and five seconds later by KILL, while the others go on:
    /// NODE is the node as `egret top` shows it, or its rank
    #[arg(
        long, value_name = "NODE", value_parser = RemovedNode::parse, conflicts_with_all = NOT_WITH_CHANGES,
        conflicts_with_all = ["add", "host", "hostfile"]
    )]
    remove: Option<RemovedNode>,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM", trailing_var_arg = true,
        required_unless_present_any = ["add", "remove"]
    )]
    program: Vec<OsString>,
    #[command(flatten)]
    options: Options,
}

/// What can be said of any job.
#[derive(Debug, Clone, PartialEq, clap::Args)]
#[command(next_help_heading = "Launcher options")]
pub(crate) struct Options {
    /// Start the processes on these machines, over ssh or what --remote says, the first ranks on the first: `a:2,b:2` takes
    /// two on each [default in an allocation of Slurm: its machines]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = outpost::parse, conflicts_with = "hostfile")]
    pub(crate) host: Vec<HostSlots>,
    /// The same from a file, with a line for each machine: `a slots=2`
    #[arg(long, value_name = "FILE")]
    pub(crate) hostfile: Option<PathBuf>,
    /// What starts a command on another machine: a command that is given the machine and what to start
    /// (`ssh -F lab.conf`), or `srun` in an allocation of Slurm
    /// [default: ssh, or srun in such an allocation]
    #[arg(long, value_name = "COMMAND")]
    pub(crate) remote: Option<String>,
    /// Where `egret` is on the other machines [default: where it is here]
    #[arg(long, value_name = "PATH")]
    pub(crate) egret: Option<PathBuf>,
    /// Send the program to the other machines, also to those that are added, instead of having it at the same place there; it
    /// is in their memory while it runs, and on none of their disks
    #[arg(long)]
    pub(crate) copy: bool,
    /// Say what would be started where, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Where the registry of the job listens: an address, an interface or `reachable` [default: loopback, or with other
    /// machines the address that they see of this one]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "registry")]
    pub(crate) listen: Option<String>,
    /// Fabrics in order of preference; `^tcp` means any but tcp
    #[arg(long, value_name = "LIST")]
    pub(crate) fabric: Option<OsString>,
    /// End the job after this many seconds, with exit code 124
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Let the other processes finish for this many seconds after the first failure
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds_or_none)]
    pub(crate) grace: Duration,
    /// What becomes of the others when a process fails
    #[arg(long, value_name = "WHAT", default_value = "end")]
    pub(crate) on_death: OnDeath,
    /// Give the processes a variable: this VALUE, or the one it has here
    #[arg(short = 'x', value_name = "VAR[=VALUE]", value_parser = environment::Extra::parser())]
    pub(crate) extra: Vec<environment::Extra>,
    /// Let nodes leave and others stay: the pool has no size, and the registry numbers its nodes as they join
    #[arg(long)]
    pub(crate) open: bool,
    /// Join the pool of a registry that runs already, as of `egret registry`, instead of one of this job
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) registry: Option<String>,
    /// Declare a node dead that has not answered for this many seconds, instead of 1.75: more for nodes that a debugger
    /// stops
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "registry")]
    pub(crate) patience: Option<Duration>,
    /// Begin each line of output with the rank it comes from, as `[2] `
    #[arg(long)]
    pub(crate) tag_output: bool,
    /// Keep each process on a core of its own, or let the kernel choose
    #[arg(long, value_name = "WHERE", default_value = "none")]
    pub(crate) bind_to: Bind,
    /// Whether the processes may write each other's memory
    #[arg(long, value_name = "TRUST")]
    pub(crate) trust: Option<RunTrust>,
}

/// Where processes run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bind {
    /// Each on one core, in turn
    Core,
    /// Wherever the kernel puts them
    #[default]
    None,
}

/// What becomes of the other processes when one fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnDeath {
    /// They have the time of --grace to finish, and are ended
    #[default]
    End,
    /// They go on; at the end a line says who failed, and how
    GoOn,
}

/// How far processes trust each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunTrust {
    /// No process writes another's memory
    Isolated,
    /// Processes of one program may
    Cooperating,
}

/// What a command line of `egret run` asks for.
pub(crate) enum RunRequest {
    Job(Box<Job>),
    /// A change of a job that runs, the only one if none is named.
    Change {
        job: Option<String>,
        change: JobChange,
    },
}

/// Options that make no sense together.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct JobUsage(pub(crate) String);

/// Something to run to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    pub(crate) processes: NonZeroU32,
    pub(crate) options: Options,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

impl RunArgs {
    /// What is asked for: a job, or a change of one.
    pub(crate) fn into_request(mut self) -> Result<RunRequest> {
        let change = match (self.add, self.remove) {
            (Some(processes), _) => {
                self.options.read_hostfile()?;
                JobChange::Add { processes, hosts: std::mem::take(&mut self.options.host) }
            }
            (None, Some(node)) => JobChange::Remove { node },
            (None, None) => return self.into_job().map(|job| RunRequest::Job(Box::new(job))),
        };
        let mut words = self.program.into_iter();
        match (words.next().map(OsString::into_string), words.next()) {
            (None, _) => Ok(RunRequest::Change { job: None, change }),
            (Some(Ok(job)), None) => Ok(RunRequest::Change { job: Some(job), change }),
            _ => {
                let why =
                    "--add and --remove take a job that runs, and no program: its own is started";
                Err(JobUsage(why.to_owned()).into())
            }
        }
    }

    /// The job, with the machines of its file.
    pub(crate) fn into_job(self) -> Result<Job> {
        let (mut program, mut options) = (self.program.into_iter(), self.options);
        options.read_hosts()?;
        let processes = match (self.processes, options.slots()) {
            (Some(processes), _) => processes,
            (None, Some(slots)) => slots,
            (None, None) => {
                let why = "how many processes is not said: -n N, or machines by --host; Slurm says it in an allocation of several \
                           machines, outside of a step";
                return Err(JobUsage(why.to_owned()).into());
            }
        };
        if processes.get() > PROCESSES_MAX {
            let why = format!(
                "the machines take {processes} processes, and a job has at most {PROCESSES_MAX}: -n says fewer"
            );
            return Err(JobUsage(why).into());
        }
        let (program, args) = (program.next().unwrap_or_default(), program.collect());
        Ok(Job { processes, options, program, args })
    }
}

impl Job {
    /// Which processes run where.
    pub(crate) fn places(&self) -> Result<Vec<JobPlace>, JobUsage> {
        outpost::places(&self.options.host, self.processes.get()).map_err(JobUsage)
    }

    /// The same job as another machine is told it: with the values of all variables.
    pub(crate) fn resolved(mut self) -> Self {
        self.options.extra =
            self.options.extra.into_iter().map(environment::Extra::resolved).collect();
        self.options.host.clear();
        self
    }

    /// The command line that says this job.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut args = vec!["-n".into(), self.processes.to_string().into()];
        args.extend(self.options.to_args());
        args.extend(["--".into(), self.program.clone()]);
        args.extend(self.args.iter().cloned());
        args
    }
}

impl Options {
    /// Reads the machines of the file, or takes those of the allocation of Slurm that this process is in, if no others are
    /// named.
    pub(crate) fn read_hosts(&mut self) -> Result<()> {
        self.read_hostfile()?;
        if self.host.is_empty()
            && let Some(hosts) = outpost::of_slurm(|name| std::env::var(name).ok())?
        {
            self.host = hosts;
        }
        Ok(())
    }

    fn read_hostfile(&mut self) -> Result<()> {
        if let Some(file) = self.hostfile.take() {
            self.host = outpost::of_file(&file)?;
        }
        Ok(())
    }

    /// How many processes all machines take, if machines are named.
    pub(crate) fn slots(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.host.iter().map(|host| host.slots).sum())
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport::asked(self.remote.as_deref())
    }

    fn to_args(&self) -> Vec<OsString> {
        let mut args = vec![option("--bind-to=", &word(&self.bind_to))];
        args.extend(self.host.iter().map(|host| format!("--host={host}").into()));
        let remote = self.remote.as_ref();
        args.extend(remote.map(|command| option("--remote=", OsStr::new(command))));
        args.extend(self.egret.as_ref().map(|path| option("--egret=", path.as_os_str())));
        args.extend(self.copy.then(|| "--copy".into()));
        args.extend(self.listen.as_ref().map(|listen| option("--listen=", OsStr::new(listen))));
        args.extend(self.fabric.as_ref().map(|list| option("--fabric=", list)));
        let timeout = self.timeout.map(|time| OsString::from(time.as_secs_f64().to_string()));
        args.extend(timeout.map(|time| option("--timeout=", &time)));
        args.push(format!("--grace={}", self.grace.as_secs_f64()).into());
        args.push(option("--on-death=", &word(&self.on_death)));
        let patience = self.patience.map(|time| OsString::from(time.as_secs_f64().to_string()));
        args.extend(patience.map(|time| option("--patience=", &time)));
        args.extend(self.trust.map(|trust| option("--trust=", &word(&trust))));
        let registry = self.registry.as_ref();
        args.extend(registry.map(|address| option("--registry=", OsStr::new(address))));
        args.extend(self.open.then(|| "--open".into()));
        args.extend(self.tag_output.then(|| "--tag-output".into()));
        args.extend(self.extra.iter().map(|extra| option("-x", &extra.to_arg())));
        args
    }
}

fn option(name: &str, value: &OsStr) -> OsString {
    let mut arg = OsString::from(name);
    arg.push(value);
    arg
}

/// How a value is written on a command line and in the environment.
pub(crate) fn word<T: ValueEnum>(value: &T) -> OsString {
    value.to_possible_value().map_or_else(OsString::new, |value| value.get_name().into())
}

/// Reads how many processes.
pub(crate) fn processes(text: &str) -> Result<NonZeroU32, String> {
    let count = text.parse::<NonZeroU32>().map_err(|_| "a number from 1 on".to_owned())?;
    if count.get() > PROCESSES_MAX {
        return Err(format!("at most {PROCESSES_MAX} in one job"));
    }
    Ok(count)
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.filter(|time| !time.is_zero() && *time <= SECONDS_MAX);
    time.ok_or_else(|| "a number of seconds above 0 and up to a billion, as 90 or 0.5".to_owned())
}

pub(crate) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "a number of seconds, as 10, 0.5 or 0".to_owned())
}

/// Each takes a process slot, two pipes and a place in the registry.
pub(crate) const PROCESSES_MAX: u32 = 4096;
/// What is said when a job begins, and holds for processes that are added.
const NOT_WITH_CHANGES: [&str; 17] = [
    "processes",
    "remote",
    "egret",
    "copy",
    "dry_run",
    "listen",
    "fabric",
    "timeout",
    "grace",
    "on_death",
    "extra",
    "open",
    "registry",
    "patience",
    "tag_output",
    "bind_to",
    "trust",
];

/// More than a program runs: moments beyond that need not be counted.
const SECONDS_MAX: Duration = Duration::from_secs(1_000_000_000);

const HELP: &str = "\
Examples:
  egret run -n 4 ./heat --size 1000       four processes of one program
  egret run -n 2 --tag-output hostname    any program will do
  egret run -n 2 --fabric tcp ./heat      not over shared memory
  egret run -n 8 -x RUST_LOG=debug --timeout 60 -- ./heat -v
  EGRET_SECRET_FILE=pool.secret egret run -n 4 --registry 10.0.0.7:7411 ./heat
                                          in the pool of `egret registry`
  egret run -n 2 sh -c './part$EGRET_RANK'
                                          another program for each rank
  egret run --host a:2,b:2 ./heat         two processes on each of two machines, over ssh
  egret run --hostfile machines --remote 'ssh -F lab.conf' ./heat
                                          machines of a file, with a line as `a slots=2` for each
  egret run ./heat                        in an allocation of Slurm: on its machines
  egret run --host a:2,b:2 --dry-run ./heat
                                          what that would start, and where
  egret run -n 8 --open --on-death go-on --listen reachable ./workers
                                          the others go on when a process dies, and other machines may be added
  egret run --add 2 --host c:2            two more of them, on another machine
  egret run --remove 3                    the process of node 3 of `egret top` ends
  egret run --host a:2,b:2 --copy ./heat  a and b have no ./heat

The processes get, besides the environment of egret run:
  EGRET_JOB         names the job; its presence says that this is part of one
  EGRET_RANK        0, 1, … N-1; not with --open
  EGRET_JOB_RANK    the same, also with --open: nodes of an open pool have ranks of their own
  EGRET_LOCAL_RANK  the same among those on this machine
  EGRET_TERMINAL    the terminal that this command writes to, for progress bars
  EGRET_SIZE        N; not with --open
  EGRET_POOL        the name of their pool
  EGRET_REGISTRY    where the registry listens
  EGRET_SECRET_FD   a pipe with the secret by which they prove to the registry and each
                    other that they belong together; the first program that joins empties it
  EGRET_LISTEN      with several machines, the address of theirs that the others reach,
                    unless you have said it
  EGRET_LOCATION    where the process is: its core (--bind-to core) and this host, unless
                    you have said it
  EGRET_FABRICS, EGRET_TRUST
                    what --fabric and --trust say
Node::join(Config::from_env()?) reads them. Rank 0 reads the standard input of
egret run; the others have an empty one.

Signals: Ctrl-C (INT), TERM, HUP and QUIT are passed to all processes and end the
job; what is left after 5 seconds is killed, and a second Ctrl-C kills at once.
USR1, USR2, TSTP and CONT are passed on. What this command was started to ignore
(`nohup`) all ignore.

Exit codes:
  0         every process exited with 0
  CODE      of the first process that failed; the others have the time of --grace to
            finish, then get TERM, and KILL a second later; or they go on (--on-death
            go-on), and a last line says which failed, and how
  128+SIG   the first that failed was ended by this signal
  124       the time of --timeout was over
  1         the job could not be started
  2         the command line was not understood
  126, 127  PROGRAM cannot be executed, is not there";

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RunArgs,
    }

    fn job(args: &[OsString]) -> Job {
        let line = std::iter::once(OsString::from("run")).chain(args.iter().cloned());
        Line::try_parse_from(line).unwrap().args.into_job().unwrap()
    }

    #[test]
    fn a_job_says_itself() {
        let binary = OsString::from_vec(vec![b'-', 0xff, b' ']);
        let mut words: Vec<OsString> =
            "-n 3 --fabric ^tcp,udp --timeout 0.25 --grace 0 -x A=b=c -x PATH --tag-output --open --bind-to core --on-death go-on \
             --host a:1,[fe80::1]:2 --remote ssh_here --egret /opt/egret --listen eth0 --trust cooperating --patience 30.5 prog -n 7 -- --help"
                .split_whitespace()
                .map(OsString::from)
                .collect();
        words.push(binary.clone());
        let said = job(&words);
        assert_eq!(said.processes.get(), 3);
        assert_eq!(said.options.timeout, Some(Duration::from_millis(250)));
        assert_eq!(said.options.grace, Duration::ZERO);
        assert_eq!(said.options.patience, Some(Duration::from_millis(30_500)));
        assert!(said.options.open && said.options.on_death == OnDeath::GoOn);
        assert_eq!(said.program, "prog");
        assert_eq!(
            said.args,
            ["-n", "7", "--", "--help"]
                .map(OsString::from)
                .into_iter()
                .chain([binary])
                .collect::<Vec<_>>()
        );
        assert_eq!(job(&said.to_args()), said);
        let plain = job(&["-n".into(), "1".into(), "--".into(), "--odd".into()]);
        assert_eq!(
            (plain.program.as_os_str(), plain.options.bind_to),
            (OsStr::new("--odd"), Bind::None)
        );
        assert_eq!(plain.options.grace, Duration::from_secs(2));
        assert_eq!(job(&plain.to_args()), plain);
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in [
            "run -n 0 a",
            "run -n x a",
            "run -n 5000 a",
            "run --host a:0 a",
            "run --host -x a",
            "run --host a --hostfile b a",
            "run -n 2",
            "run -n 1 --timeout 0 a",
            "run -n 1 --timeout -3 a",
            "run -n 1 --timeout nan a",
            "run -n 1 --timeout 1e300 a",
            "run -n 1 --grace -1 a",
            "run -n 1 --grace long a",
            "run -n 1 --patience 0 a",
            "run -n 1 --patience -1 a",
            "run -n 1 --patience 1e-20 a",
            "run -n 1 --patience 2e9 a",
            "run -n 1 --patience 5 --registry 127.0.0.1:7411 a",
            "run -n 1 --bind-to socket a",
            "run -n 1 --on-death never a",
            "run -n 1 --trust all a",
            "run -n 1 -x =v a",
            "run -n 1 -x EGRET_RANK=3 a",
            "run -n 1 -x EGRET_SECRET_FD=3 a",
            "run -n 1 --no-such-option a",
        ] {
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
