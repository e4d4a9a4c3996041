//! The registry of a job on several machines is a process of its own, and fails; and disks that are full.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use egret::node::{Config, Node};
use egret::rt::Deadline;

use super::all;
use super::lab::{HOSTS, Machines, run};
use crate::dir::Dir;
use crate::job::{EGRET, Job, code, text, wait_some};
use crate::nodes::own;

/// The registry of four nodes on the first machine.
struct FirstRegistry {
    child: Child,
    address: String,
    secret: String,
}

impl FirstRegistry {
    fn start(machines: &Machines, dir: &Dir, options: &[&str]) -> Self {
        let (secret, mut command) = (dir.path("secret"), machines.command(EGRET));
        let made = Command::new(EGRET).args(["secret", &secret]).output().expect("egret secret");
        assert_eq!(code(&made), 0, "{made:?}");
        command.args(["registry", "-n", "4", "--pool", "heat", "--secret", &secret]);
        command.args(["--listen", HOSTS[0]]).args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("egret registry");
        let mut said = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut said).expect("a line");
        let address = said.split("EGRET_REGISTRY=").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{said}")).to_owned();
        Self { child, address, secret }
    }

    /// What a job of it needs besides its program.
    fn settings(&self, job: &mut Command) {
        job.env("EGRET_POOL", "heat").env("EGRET_SECRET_FILE", &self.secret);
    }

    fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it runs");
    }
}

impl Drop for FirstRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What makes this very program do `test`.
fn program(test: &str, role: &str) -> Vec<String> {
    let words = ["-x", role, &own(), "--exact", test, "--nocapture", "--test-threads=1", "-q"];
    words.map(str::to_owned).to_vec()
}

fn job(machines: &Machines, registry: &FirstRegistry, program: &[String], from: File) -> Job {
    let program: Vec<_> = program.iter().map(String::as_str).collect();
    let options = ["--on-death", "go-on", "--registry", &registry.address];
    let mut command = machines.egret(&["run"], &all(), &[&options[..], &program].concat());
    registry.settings(&mut command);
    Job::start_with(command, from)
}

fn nothing() -> File {
    File::open("/dev/null").expect("an empty input")
}

#[test]
fn nodes_of_all_machines_learn_that_their_registry_was_killed() {
    let Some(machines) = Machines::make() else { return };
    let dir = Dir::new("killed-registry");
    let mut registry = FirstRegistry::start(&machines, &dir, &[]);
    let program = program("nodes::program", "EGRET_TEST_ROLE=stays");
    let mut job = job(&machines, &registry, &program, nothing());
    (0..4).for_each(|_| drop(job.line_with("here ")));
    registry.kill();
    let output = job.end();
    let (said, why) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(code(&output), 2, "each ends with that when it hears of it: {said} {why}");
    let account = why.lines().find(|line| line.contains("4 of 4 processes failed"));
    let learnt = account.map(|line| line.matches("exited with code 2").count());
    assert_eq!(learnt, Some(4), "{why}");
    machines.nothing_left();
}

/// A file system in memory of one mebibyte, which goes with the value.
struct SmallDisk<'a>(&'a str);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a str) -> Self {
        fs::create_dir(path).expect("a directory");
        run("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", path]).expect("a small disk");
        Self(path)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy", self.0]);
    }
}

/// What the processes of the job below do: the first binds a name as often as it reads a line.
#[test]
fn binds() {
    let Ok(_) = std::env::var("EGRET_TEST_BINDS") else { return };
    let node = Node::join(Config::from_env().expect("settings")).expect("to join");
    node.wait_all(Deadline::DEFAULT).expect("the others");
    if node.rank() != 0 {
        drop(node.wait_bound("end", Deadline::UntilDead).expect("a name"));
        return node.leave(Deadline::DEFAULT).expect("to leave");
    }
    for line in std::io::stdin().lines() {
        match node.bind(&line.expect("a line"), &[7; 2000]) {
            Ok(()) => println!("\nbound"),
            Err(why) => println!("\nrefused: {why}"),
        }
    }
    node.leave(Deadline::DEFAULT).expect("to leave");
}

/// What the first process says of a name.
fn answer(job: &mut Job, to: &mut impl Write, name: impl std::fmt::Display) -> String {
    writeln!(to, "{name}").expect("it reads");
    let is_answer = |line: &String| line.starts_with("bound") || line.starts_with("refused");
    wait_some("an answer", || Some(job.line("an answer")).filter(is_answer))
}

#[test]
fn a_registry_whose_disk_is_full_refuses_changes_until_there_is_room() {
    let Some(machines) = Machines::make() else { return };
    let dir = Dir::new("full-disk");
    let path = dir.path("disk");
    let disk = SmallDisk::mount(&path);
    let registry =
        FirstRegistry::start(&machines, &dir, &["--state", &format!("{}/state", disk.0)]);
    let (from, mut to) = std::io::pipe().unwrap();
    let program = program("machines::registry::binds", "EGRET_TEST_BINDS=1");
    let from = File::from(std::os::fd::OwnedFd::from(from));
    let mut job = job(&machines, &registry, &program, from);
    assert_eq!(answer(&mut job, &mut to, "first"), "bound");
    // All that is left of the disk.
    let ballast = format!("{}/ballast", disk.0);
    let mut file = File::create(&ballast).unwrap();
    while file.write(&[0; 256]).is_ok_and(|bytes| bytes > 0) {}
    let refused = |said: &str| said.starts_with("refused").then(|| said.to_owned());
    let why = (0..1000).find_map(|number| refused(&answer(&mut job, &mut to, number)));
    let why = why.expect("a name that the disk has no room for");
    assert!(why.contains("No space left on device"), "{why}");
    drop(file);
    fs::remove_file(&ballast).unwrap();
    // The registry tries again from time to time.
    wait_some("room", || (answer(&mut job, &mut to, "again") == "bound").then_some(()));
    assert_eq!(answer(&mut job, &mut to, "end"), "bound");
    drop(to);
    let output = job.end();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    drop(registry);
    machines.nothing_left();
}

#[test]
fn a_job_whose_output_has_no_room_ends_and_says_why() {
    let Some(machines) = Machines::make() else { return };
    let script = "while echo a line of process $EGRET_RANK; do :; done; exit 5";
    let egret = machines.egret(&["run"], &all(), &["--grace", "0.1", "sh", "-c", script]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" > /dev/full", "sh"]).arg(egret.get_program());
    command.args(egret.get_args());
    let output = Job::start_as(command).end();
    let why = text(&output.stderr);
    assert!(why.contains("forwarding output: No space left on device"), "{why}");
    assert_ne!(code(&output), 0, "{why}");
    machines.nothing_left();
}
