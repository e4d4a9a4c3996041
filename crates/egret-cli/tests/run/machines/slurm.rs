//! Jobs in allocations of a real Slurm, whose node daemons are all on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use super::lab::{pids, run};
use crate::job::{EGRET, Job, code, kill, text, wait_some};

/// A cluster of four nodes in a network namespace, which ends with this value.
struct SlurmCluster {
    name: String,
    folder: PathBuf,
}

impl SlurmCluster {
    /// Sets it up; `None` with one line where that cannot be.
    #[expect(clippy::print_stdout, reason = "why a test is skipped")]
    fn make(test: &str) -> Option<Self> {
        let name = format!("egret-slurm-{}-{test}", std::process::id());
        let cluster = Self { folder: std::env::temp_dir().join(&name), name };
        match cluster.set_up() {
            Ok(()) => Some(cluster),
            Err(why) => {
                println!("skipped: no Slurm here: {why}");
                None
            }
        }
    }

    fn set_up(&self) -> Result<(), String> {
        for program in ["slurmctld", "slurmd", "munged", "srun", "salloc", "nsenter"] {
            run("which", &[program]).map_err(|_| format!("no {program}"))?;
        }
        let space = &self.name;
        run("ip", &["netns", "add", space])?;
        run("ip", &["-n", space, "link", "set", "lo", "up"])?;
        run("ip", &["-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"])?;
        run("ip", &["-n", space, "address", "add", "10.214.8.1/24", "dev", "eth0"])?;
        ["eth0", "eth1"]
            .iter()
            .try_for_each(|link| run("ip", &["-n", space, "link", "set", link, "up"]).map(drop))?;
        self.control("up")
    }

    fn control(&self, what: &str) -> Result<(), String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/machines/slurm.sh");
        let folder = self.folder.to_str().ok_or("no path")?;
        run("nsenter", &[&self.net(), "bash", script, what, folder, "4"]).map(drop)
    }

    fn net(&self) -> String {
        format!("--net=/run/netns/{}", self.name)
    }

    /// Starts `egret` with these arguments in an allocation of so many nodes, with so many tasks on each.
    fn job(&self, (nodes, tasks): (u32, u32), args: &[&str]) -> Job {
        let mut command = Command::new("nsenter");
        command.args([self.net(), "salloc".into(), "-Q".into(), format!("-N{nodes}")]);
        command.arg(format!("--ntasks-per-node={tasks}")).arg(EGRET).args(args);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        Job::start_as(command)
    }

    /// The processes of outposts.
    fn outposts(&self) -> Vec<i32> {
        let line =
            |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pids(&self.name)
            .into_iter()
            .filter(|pid| line(*pid).contains("run-outpost-launcher"))
            .collect()
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        let _ = self.control("down");
        pids(&self.name).into_iter().for_each(|pid| kill(pid, Signal::KILL));
        _ = run("ip", &["netns", "delete", &self.name]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_job_takes_the_machines_of_its_allocation() {
    let Some(cluster) = SlurmCluster::make("jobs") else { return };
    let script = "echo $EGRET_RANK of $EGRET_SIZE on $SLURMD_NODENAME";
    for (nodes, tasks) in [(4, 1), (2, 2)] {
        let output = cluster.job((nodes, tasks), &["run", "sh", "-c", script]).end();
        let said = text(&output.stderr);
        assert_eq!(code(&output), 0, "{said}");
        let line = |rank: u32| format!("{rank} of 4 on n{}", rank / tasks + 1);
        let lines: BTreeSet<_> = text(&output.stdout).lines().map(str::to_owned).collect();
        assert_eq!(lines, (0..4).map(line).collect(), "{said}");
    }
    for (app, args) in [("sor", ["--size", "200"]), ("pmm", ["--size", "64"])] {
        let output = cluster.job((4, 1), &[&["app", app][..], &args].concat()).end();
        assert!(
            code(&output) == 0 && text(&output.stdout).contains("yes"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_job_of_an_allocation_ends_with_its_first_failure() {
    let Some(cluster) = SlurmCluster::make("ends") else { return };
    let script = "echo here; [ $EGRET_RANK != 3 ] || exit 5; sleep 60 & wait";
    let output = cluster.job((4, 1), &["run", "--grace", "0.1", "sh", "-c", script]).end();
    assert_eq!(code(&output), 5, "{}", text(&output.stderr));
    let mut job =
        cluster.job((4, 1), &["run", "--grace", "0.1", "sh", "-c", "echo here; sleep 60 & wait"]);
    job.expect_lines(4, "here");
    let outposts = cluster.outposts();
    assert!(outposts.len() >= 3, "{outposts:?}");
    kill(outposts[0], Signal::KILL);
    let output = job.end();
    assert!(text(&output.stderr).contains("was lost with its machine"), "{}", text(&output.stderr));
    wait_some("outposts left behind", || cluster.outposts().is_empty().then_some(()));
}
