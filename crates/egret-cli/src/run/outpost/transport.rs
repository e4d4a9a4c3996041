//! How a command is started on another machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::getpid;

use super::super::{child, environment};
use crate::system::{own_program, quoted};

/// What starts a command on another machine, and is its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A command as `ssh -F FILE`, which is given the machine and the command.
    Ssh(Vec<OsString>),
    /// A command as `srun`, in an allocation that has the machine.
    Srun(Vec<OsString>),
}

impl Transport {
    /// What `--remote` says, and what is usual here if it says nothing.
    pub(crate) fn asked(remote: Option<&str>) -> Self {
        let in_slurm = std::env::var_os("SLURM_JOB_NODELIST").is_some();
        let usual = if in_slurm { SRUN } else { SSH };
        Self::of(remote.unwrap_or(usual))
    }

    /// What `--remote` says.
    pub(crate) fn of(command: &str) -> Self {
        let words: Vec<_> = command.split_whitespace().map(OsString::from).collect();
        match name_of(&words) {
            Some(SRUN) => Self::Srun(words),
            _ => Self::Ssh(words),
        }
    }

    /// What starts the outpost of a job at a machine.
    pub(crate) fn words(&self, host: &str, egret: &Path, outpost: &[String]) -> Vec<OsString> {
        match self {
            Self::Ssh(command) => {
                let mut words = command.clone();
                if name_of(&words) == Some("ssh") {
                    words.extend(SSH_OPTIONS.map(OsString::from));
                }
                let egret = quoted(&egret.to_string_lossy());
                words.extend([host.into(), format!("exec {egret} {}", outpost.join(" ")).into()]);
                words
            }
            Self::Srun(command) => {
                let mut words = command.clone();
                words.extend(SRUN_STEP.map(OsString::from));
                words.push(format!("--nodelist={host}").into());
                words.push(egret.into());
                words.extend(outpost.iter().map(OsString::from));
                words
            }
        }
    }

    /// Starts it. It ends with this process.
    pub(super) fn start(&self, host: &str, egret: &Path, outpost: &[String]) -> Result<Child> {
        let mut command = self.command(host, egret, outpost)?;
        command.spawn().with_context(|| format!("starting {}", self.name()))
    }

    /// What starts it, with pipes for its input and output. It ends with the thread that spawns it.
    pub(crate) fn command(&self, host: &str, egret: &Path, outpost: &[String]) -> Result<Command> {
        let (Self::Ssh(words) | Self::Srun(words)) = self;
        if words.is_empty() {
            bail!("--remote names no command");
        }
        let words = self.words(host, egret, outpost);
        let mut command = Command::new(own_program());
        command.args(child::to_args(getpid().as_raw_pid(), None, None, None)).args(&words);
        // What the other machine is to have it is given by orders; srun would take all of this environment along.
        environment::without_secret(&mut command).env_remove("EGRET_LOCATION");
        if matches!(self, Self::Srun(_)) {
            command.env_remove("SSH_CONNECTION");
            // The processes of a machine have all of its cores that the allocation has.
            command.env("SLURM_CPU_BIND", "none");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }

    /// A command by which a person sees whether it reaches the machine.
    pub(crate) fn trial(&self, host: &str) -> String {
        let words = |words: &[OsString]| {
            let words = words.iter().map(|word| quoted(&word.to_string_lossy()));
            words.collect::<Vec<_>>().join(" ")
        };
        match self {
            Self::Ssh(command) => format!("{} {host} true", words(command)),
            Self::Srun(command) => {
                format!("{} --overlap --nodes=1 --ntasks=1 --nodelist={host} true", words(command))
            }
        }
    }

    /// What it is called, for people.
    pub(crate) fn name(&self) -> String {
        let (Self::Ssh(words) | Self::Srun(words)) = self;
        words.first().map_or_else(String::new, |name| name.display().to_string())
    }
}

/// Where `egret` is on the other machines: where `--egret` says, else where it is here.
pub(crate) fn egret_there(asked: Option<&Path>) -> Result<PathBuf> {
    let own = own_program();
    match asked {
        Some(path) => Ok(path.to_owned()),
        None if own.starts_with("/proc") => {
            bail!(
                "the file of this egret is gone: --egret PATH says where it is on the other machines"
            )
        }
        None => Ok(own),
    }
}

/// The name of the file of a command.
fn name_of(words: &[OsString]) -> Option<&str> {
    Path::new(words.first()?).file_name()?.to_str()
}

/// No terminal, no question, and no long wait for a machine that is off.
const SSH_OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    // A connection that outlives this one would be ended with the job.
    "ControlMaster=no",
    "-o",
    "ClearAllForwardings=yes",
];
/// What reaches another machine.
const SSH: &str = "ssh";
/// What starts a command in an allocation of Slurm.
const SRUN: &str = "srun";
/// A step of one task beside others, whose output comes as it is written.
const SRUN_STEP: [&str; 6] =
    ["--quiet", "--overlap", "--nodes=1", "--ntasks=1", "--unbuffered", "--kill-on-bad-exit=0"];

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn line(transport: &Transport) -> String {
        let outpost = ["run-outpost".to_owned(), "--job=job-1".to_owned()];
        let words = transport.words("me@b", Path::new("/opt/my egret"), &outpost);
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn a_command_line_reaches_another_machine() {
        assert_eq!(
            line(&Transport::of("ssh -F my.conf")),
            "ssh -F my.conf -T -o BatchMode=yes -o ConnectTimeout=10 -o ControlMaster=no \
             -o ClearAllForwardings=yes me@b exec '/opt/my egret' run-outpost --job=job-1"
        );
        assert_eq!(
            line(&Transport::of("./reach")),
            "./reach me@b exec '/opt/my egret' run-outpost --job=job-1"
        );
        assert!(
            line(&Transport::of("srun"))
                .ends_with("--nodelist=me@b /opt/my egret run-outpost --job=job-1")
        );
    }
}
