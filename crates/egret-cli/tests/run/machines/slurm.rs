//! Jobs in allocations of a real Slurm, whose node daemons are all on this machine.

mod launched;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use super::lab::{pids, run};
use crate::job::{EGRET, Job, code, kill, text, wait_some};

/// A cluster whose nodes are in network namespaces of their own, which ends with this value.
pub(super) struct SlurmCluster {
    name: String,
    folder: PathBuf,
    nodes: u32,
}

impl SlurmCluster {
    /// Sets it up; `None` with one line where that cannot be.
    pub(super) fn make(test: &str) -> Option<Self> {
        Self::of(test, 4, "")
    }

    /// The same with so many nodes, and a line in its configuration.
    #[expect(clippy::print_stdout, reason = "why a test is skipped")]
    fn of(test: &str, nodes: u32, line: &str) -> Option<Self> {
        let name = format!("egret-slurm-{}-{test}", std::process::id());
        let cluster = Self { folder: std::env::temp_dir().join(&name), name, nodes };
        match cluster.set_up(line) {
            Ok(()) => Some(cluster),
            Err(why) => {
                println!("skipped: no Slurm here: {why}");
                None
            }
        }
    }

    fn set_up(&self, line: &str) -> Result<(), String> {
        for program in ["slurmctld", "slurmd", "munged", "srun", "salloc", "nsenter", "unshare"] {
            run("which", &[program]).map_err(|_| format!("no {program}"))?;
        }
        let space = &self.name;
        run("ip", &["netns", "add", space])?;
        run("ip", &["-n", space, "link", "set", "lo", "up"])?;
        run("ip", &["-n", space, "link", "add", "br0", "type", "bridge"])?;
        run("ip", &["-n", space, "address", "add", "10.214.8.254/24", "dev", "br0"])?;
        run("ip", &["-n", space, "link", "set", "br0", "up"])?;
        for number in 1..=self.nodes {
            let (node, cable) = (&self.space(number), &format!("v{number}"));
            run("ip", &["netns", "add", node])?;
            run("ip", &["-n", node, "link", "set", "lo", "up"])?;
            let ends = ["type", "veth", "peer", "name", "eth0", "netns", node];
            run("ip", &[&["-n", space, "link", "add", cable][..], &ends].concat())?;
            run("ip", &["-n", space, "link", "set", cable, "master", "br0", "up"])?;
            let address = format!("10.214.8.{number}/24");
            run("ip", &["-n", node, "address", "add", &address, "dev", "eth0"])?;
            run("ip", &["-n", node, "link", "set", "eth0", "up"])?;
        }
        self.control(&["up", &self.path(""), space, &self.nodes.to_string(), line])
    }

    fn control(&self, args: &[&str]) -> Result<(), String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/machines/slurm.sh");
        run("nsenter", &[&[&*self.net(), "bash", script], args].concat()).map(drop)
    }

    /// A file of the cluster.
    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a path").to_owned()
    }

    /// The namespace of a node.
    fn space(&self, number: u32) -> String {
        format!("{}-n{number}", self.name)
    }

    fn net(&self) -> String {
        format!("--net=/run/netns/{}", self.name)
    }

    /// A command on the machine that has the controller.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(self.net()).args(args).env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    /// The processes in the namespaces.
    fn processes(&self) -> Vec<i32> {
        let nodes = (1..=self.nodes).map(|number| self.space(number));
        nodes.chain([self.name.clone()]).flat_map(|space| pids(&space)).collect()
    }

    /// Starts `egret` with these arguments in an allocation of so many nodes, with so many tasks on each.
    pub(super) fn job(&self, (nodes, tasks): (u32, u32), args: &[&str]) -> Job {
        let (nodes, tasks) = (format!("-N{nodes}"), format!("--ntasks-per-node={tasks}"));
        Job::start_as(self.command(&[&["salloc", "-Q", &nodes, &tasks, EGRET], args].concat()))
    }

    /// The processes of outposts.
    fn outposts(&self) -> Vec<i32> {
        let line =
            |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        self.processes()
            .into_iter()
            .filter(|pid| line(*pid).contains("run-outpost-launcher"))
            .collect()
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        let _ = self.control(&["down", &self.path("")]);
        self.processes().into_iter().for_each(|pid| kill(pid, Signal::KILL));
        for space in (1..=self.nodes).map(|number| self.space(number)).chain([self.name.clone()]) {
            _ = run("ip", &["netns", "delete", &space]);
        }
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
