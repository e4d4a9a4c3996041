//! How a command is started on another machine.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::getpid;

use super::super::child;
use crate::system::{own_program, quoted};

/// What starts a command on another machine, and is its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A command as `ssh -F FILE`, which is given the machine and the command.
    Ssh(Vec<OsString>),
    /// Slurm, in an allocation that has the machine.
    Srun,
}

impl Transport {
    /// What `--remote` says.
    pub(crate) fn of(command: &str) -> Self {
        match command {
            SRUN => Self::Srun,
            command => Self::Ssh(command.split_whitespace().map(OsString::from).collect()),
        }
    }

    /// What starts the site of a job at a machine.
    pub(crate) fn words(&self, host: &str, egret: &Path, site: &[String]) -> Vec<OsString> {
        match self {
            Self::Ssh(command) => {
                let mut words = command.clone();
                let name = Path::new(words.first().map_or(OsStr::new(""), OsString::as_os_str));
                if name.file_name() == Some(OsStr::new("ssh")) {
                    words.extend(SSH_OPTIONS.map(OsString::from));
                }
                let egret = quoted(&egret.to_string_lossy());
                words.extend([host.into(), format!("exec {egret} {}", site.join(" ")).into()]);
                words
            }
            Self::Srun => {
                let mut words: Vec<OsString> = SRUN_STEP.map(OsString::from).to_vec();
                words.push(format!("--nodelist={host}").into());
                words.push(egret.into());
                words.extend(site.iter().map(OsString::from));
                words
            }
        }
    }

    /// Starts it. It ends with this process.
    pub(super) fn start(&self, host: &str, egret: &Path, site: &[String]) -> Result<Child> {
        let words = self.words(host, egret, site);
        let Some(name) = words.first() else { bail!("--remote names no command") };
        let mut command = Command::new(own_program());
        command.args(child::to_args(getpid().as_raw_pid(), None, None)).args(&words);
        if *self == Self::Srun {
            // The processes of a machine have all of its cores that the allocation has.
            command.env("SLURM_CPU_BIND", "none");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().with_context(|| format!("starting {}", name.display()))
    }

    /// What it is called, for people.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Ssh(command) => {
                command.first().map_or_else(String::new, |name| name.display().to_string())
            }
            Self::Srun => SRUN.to_owned(),
        }
    }
}

/// No terminal, no question, and no long wait for a machine that is off.
const SSH_OPTIONS: [&str; 5] = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"];
/// What starts a command in an allocation of Slurm.
pub(crate) const SRUN: &str = "srun";
/// A step of one task beside others, whose output comes as it is written.
const SRUN_STEP: [&str; 7] = [
    SRUN,
    "--quiet",
    "--overlap",
    "--nodes=1",
    "--ntasks=1",
    "--unbuffered",
    "--kill-on-bad-exit=0",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn line(transport: &Transport) -> String {
        let site = ["run-site".to_owned(), "--job=job-1".to_owned()];
        let words = transport.words("me@b", Path::new("/opt/my egret"), &site);
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn a_command_line_reaches_another_machine() {
        assert_eq!(
            line(&Transport::of("ssh -F my.conf")),
            "ssh -F my.conf -T -o BatchMode=yes -o ConnectTimeout=10 me@b exec '/opt/my egret' run-site --job=job-1"
        );
        assert_eq!(
            line(&Transport::of("./reach")),
            "./reach me@b exec '/opt/my egret' run-site --job=job-1"
        );
        assert!(
            line(&Transport::of("srun"))
                .ends_with("--nodelist=me@b /opt/my egret run-site --job=job-1")
        );
    }
}
