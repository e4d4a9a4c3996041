//! Three machines on one: network namespaces with a cable between them, and the ssh server of the system in each.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use crate::job::{EGRET, Job, kill, wait_some};

/// The machines: the first is where jobs are started.
pub(super) const HOSTS: [&str; 3] = ["10.214.7.1", "10.214.7.2", "10.214.7.3"];

/// They go with this value.
pub(super) struct Machines {
    name: String,
    folder: PathBuf,
    servers: Vec<Child>,
}

impl Machines {
    /// Sets them up; `None` with one line where that cannot be.
    #[expect(clippy::print_stdout, reason = "why a test is skipped")]
    pub(super) fn make() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("egret-run-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        let mut machines = Self { name, folder, servers: Vec::new() };
        match machines.set_up() {
            Ok(()) => Some(machines),
            Err(why) => {
                println!("skipped: no machines with ssh here: {why}");
                None
            }
        }
    }

    fn set_up(&mut self) -> Result<(), String> {
        let server = ["/usr/sbin/sshd", "/usr/bin/sshd"]
            .into_iter()
            .find(|path| fs::exists(path).is_ok_and(|is| is));
        let server = server.ok_or("no sshd (Debian: openssh-server)")?;
        fs::create_dir_all("/run/sshd").map_err(|why| format!("/run/sshd: {why}"))?;
        fs::create_dir(&self.folder).map_err(|why| why.to_string())?;
        let bridge = &self.space("net");
        run("ip", &["netns", "add", bridge])?;
        run("ip", &["-n", bridge, "link", "add", "br0", "type", "bridge"])?;
        run("ip", &["-n", bridge, "link", "set", "br0", "up"])?;
        for name in ["key", "host"] {
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &self.path(name)])?;
        }
        for (number, host) in HOSTS.iter().enumerate() {
            let space = &self.space(number);
            let cable = &format!("v{number}");
            run("ip", &["netns", "add", space])?;
            run("ip", &["-n", space, "link", "set", "lo", "up"])?;
            run(
                "ip",
                &[
                    "-n", bridge, "link", "add", cable, "type", "veth", "peer", "name", "eth0",
                    "netns", space,
                ],
            )?;
            run("ip", &["-n", bridge, "link", "set", cable, "master", "br0", "up"])?;
            run("ip", &["-n", space, "address", "add", &format!("{host}/24"), "dev", "eth0"])?;
            run("ip", &["-n", space, "link", "set", "eth0", "up"])?;
            let mut command = Command::new("ip");
            command.args([
                "netns",
                "exec",
                space,
                server,
                "-D",
                "-f",
                "/dev/null",
                "-h",
                &self.path("host"),
            ]);
            command.args(["-o", &format!("AuthorizedKeysFile {}", self.path("key.pub"))]);
            // Without the start files of this user's shell.
            command.args(["-o", &format!("SetEnv=HOME={}", self.path("home"))]);
            for option in ["UsePAM=no", "StrictModes=no", "PidFile=none", "MaxStartups=100"] {
                command.args(["-o", option]);
            }
            let server = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
            self.servers.push(server.map_err(|why| why.to_string())?);
        }
        let config = format!(
            "Host *\n IdentityFile {}\n IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n \
             LogLevel ERROR\n",
            self.path("key")
        );
        fs::write(self.path("config"), config).map_err(|why| why.to_string())?;
        for host in &HOSTS[1..] {
            let reached = || {
                self.command("ssh").args(["-F", &self.path("config"), host, "true"]).output().ok()
            };
            wait_some("no ssh", || reached().filter(|output| output.status.success()));
        }
        Ok(())
    }

    fn space(&self, number: impl std::fmt::Display) -> String {
        format!("{}-{number}", self.name)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a path").to_owned()
    }

    /// A command on the first machine.
    pub(super) fn command(&self, program: &str) -> Command {
        self.command_on(0, program)
    }

    /// A command on a machine.
    pub(super) fn command_on(&self, machine: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(machine), program]);
        command
    }

    /// `egret` there, with the options that reach the others behind `args`.
    pub(super) fn egret(&self, args: &[&str], hosts: &str, rest: &[&str]) -> Command {
        let mut command = self.command(EGRET);
        let remote = format!("ssh -F {}", self.path("config"));
        command.args(args).args(["--host", hosts, "--remote", &remote]).args(rest);
        command
    }

    /// Starts a job: as `localhost:1,10.214.7.2:2`.
    pub(super) fn job(&self, hosts: &str, args: &[&str]) -> Job {
        Job::start_as(self.egret(&["run"], hosts, args))
    }

    /// The same with something to read.
    pub(super) fn job_with(&self, hosts: &str, args: &[&str], stdin: impl Into<OwnedFd>) -> Job {
        Job::start_with(self.egret(&["run"], hosts, args), stdin)
    }

    /// Changes the only job on the first machine.
    pub(super) fn change(&self, words: &[&str]) -> Output {
        self.command(EGRET).arg("run").args(words).output().expect("egret run")
    }

    /// The same, without waiting for it.
    pub(super) fn begin_change(&self, words: &[&str]) -> Child {
        let mut command = self.command(EGRET);
        command.arg("run").args(words).stderr(Stdio::null());
        command.spawn().expect("egret run")
    }

    /// Starts an application.
    pub(super) fn app(&self, hosts: &str, app: &str, args: &[&str]) -> Job {
        Job::start_as(self.egret(&["app", app], hosts, args))
    }

    /// Starts a check of machines, as `localhost,10.214.7.2`.
    pub(super) fn info(&self, hosts: &str, args: &[&str]) -> Job {
        self.info_by(&format!("ssh -F {}", self.path("config")), hosts, args)
    }

    /// The same with another command that reaches them.
    pub(super) fn info_by(&self, remote: &str, hosts: &str, args: &[&str]) -> Job {
        let mut command = self.command(EGRET);
        command.args(["info", "--hosts", hosts, "--remote", remote]).args(args);
        Job::start_as(command)
    }

    /// The numbers and command lines of the processes on a machine, but for its ssh server.
    pub(super) fn processes(&self, machine: usize) -> Vec<(i32, String)> {
        let line = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (!line.is_empty() && !line.contains("sshd")).then_some((pid, line))
        };
        pids(&self.space(machine)).into_iter().filter_map(line).collect()
    }

    /// The process on a machine whose command line has this, once it is there.
    pub(super) fn process(&self, machine: usize, has: &str) -> i32 {
        let found = || self.processes(machine).into_iter().find(|(_, line)| line.contains(has));
        wait_some(&format!("no {has} on machine {machine}"), found).0
    }

    /// Waits until no process of a job is left on any of them.
    pub(super) fn nothing_left(&self) {
        for machine in 0..HOSTS.len() {
            let is_empty = || self.processes(machine).is_empty().then_some(());
            wait_some(&format!("processes left on machine {machine}"), is_empty);
        }
    }

    /// Cuts the cable of a machine, or mends it.
    pub(super) fn set_cable(&self, machine: usize, is_whole: bool) {
        let state = if is_whole { "up" } else { "down" };
        run("ip", &["-n", &self.space("net"), "link", "set", &format!("v{machine}"), state])
            .expect("a cable");
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        // What the servers have started for connections that were cut goes on without them.
        let all = (0..HOSTS.len()).flat_map(|number| pids(&self.space(number)));
        all.for_each(|pid| kill(pid, Signal::KILL));
        let numbers = (0..HOSTS.len()).map(|number| self.space(number));
        for space in numbers.chain([self.space("net")]) {
            _ = run("ip", &["netns", "delete", &space]);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The processes in a network namespace.
pub(super) fn pids(space: &str) -> Vec<i32> {
    let output = run("ip", &["netns", "pids", space]).map(|output| output.stdout);
    let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
    text.lines().filter_map(|pid| pid.trim().parse().ok()).collect()
}

pub(super) fn run(program: &str, args: &[&str]) -> Result<Output, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|why| format!("{program}: {why}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
