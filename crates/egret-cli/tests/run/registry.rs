//! `egret registry` and jobs that use it: the registry is killed, and started again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use egret::am::{Endpoint, EndpointName};
use egret::link::Links;
use egret::node::registry::Operator;
use egret::node::{Config, Event, Events, Node};
use egret::rt::{self, Deadline};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process};

use crate::dir::Dir;
use crate::job::{EGRET, Job, code, kill, text, wait_some};
use crate::nodes::own;

/// Prints a line for the other end of the job.
macro_rules! say {
    ($($text:tt)*) => {
        writeln!(std::io::stdout(), $($text)*).expect("a reader")
    };
}

/// A running `egret registry`, which does not outlive its test.
struct RegistryProcess {
    child: Child,
    /// What it has said when it listens.
    said: String,
    _out: BufReader<ChildStdout>,
}

impl RegistryProcess {
    fn start(dir: &Dir, nodes: u32) -> Self {
        Self::start_as(registry(dir, nodes))
    }

    fn start_as(mut command: Command) -> Self {
        let mut child = command.spawn().expect("egret starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = String::new();
        out.read_line(&mut said).expect("a line");
        assert!(said.contains("EGRET_REGISTRY="), "{said:?}, and it is {:?}", child.try_wait());
        Self { child, said, _out: out }
    }

    /// The value of a setting in what it has said.
    fn setting(&self, name: &str) -> String {
        let (_, rest) = self.said.split_once(&format!("{name}=")).expect("the setting");
        let end = rest.find([' ', ';', '\n']).expect("an end");
        rest[..end].to_owned()
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("its end");
    }

    /// Ends it as an operator does; gives the exit code.
    fn end(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        let status = wait_some("the registry does not end", || self.child.try_wait().expect("it"));
        status.code()
    }
}

impl Drop for RegistryProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn registry(dir: &Dir, nodes: u32) -> Command {
    registry_of("lasting", dir, nodes)
}

fn registry_of(pool: &str, dir: &Dir, nodes: u32) -> Command {
    let mut command = Command::new(EGRET);
    let nodes = nodes.to_string();
    command.args(["registry", "-n", &nodes, "--pool", pool, "--state", &dir.path("state")]);
    command.env_remove("EGRET_SECRET").env_remove("EGRET_SECRET_FILE");
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// What a registry says that does not start.
fn refused(mut command: Command) -> String {
    let output = command.stderr(Stdio::piped()).output().expect("egret starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    text(&output.stderr)
}

/// Starts this very program as a job in the pool of `registry`; each process does [`program`].
fn job(registry: &RegistryProcess, nodes: u32, role: &str, variables: &[&str]) -> Job {
    let own = std::env::current_exe().expect("its own path");
    let (role, nodes) = (format!("EGRET_TEST_ROLE={role}"), nodes.to_string());
    let mut command = Command::new(EGRET);
    command.args(["run", "-n", &nodes, "--registry", &registry.setting("EGRET_REGISTRY")]);
    command.args(["--grace", "30", "-x", &role]);
    variables.iter().for_each(|variable| _ = command.args(["-x", variable]));
    command.arg(own).args(["--exact", "registry::program", "--nocapture", "--test-threads=1"]);
    command.env("EGRET_SECRET_FILE", registry.setting("EGRET_SECRET_FILE"));
    command.env("EGRET_POOL", registry.setting("EGRET_POOL"));
    Job::start_as(command)
}

/// Starts two nodes in the pool of `registry` that wait for each other's names.
fn stuck(registry: &RegistryProcess) -> Job {
    let mut command = Command::new(EGRET);
    command.args(["run", "-n", "2", "--registry", &registry.setting("EGRET_REGISTRY")]);
    command.args(["-x", "EGRET_TEST_ROLE=still", &*own(), "--exact", "nodes::program"]);
    command.args(["--nocapture", "--test-threads=1", "-q"]);
    command.env("EGRET_SECRET_FILE", registry.setting("EGRET_SECRET_FILE"));
    command.env("EGRET_POOL", registry.setting("EGRET_POOL"));
    Job::start_as(command)
}

/// What `egret top` says of a job or pool, and its exit code.
fn top(name: &str) -> (i32, String) {
    let output = Command::new(EGRET).args(["top", "--once", name]).output().expect("egret top");
    (code(&output), said(&output))
}

/// What the processes of those jobs do. As a test of its own it is nobody's process.
#[test]
fn program() {
    let Ok(role) = std::env::var("EGRET_TEST_ROLE") else { return };
    if role == "absent" && std::env::var("EGRET_RANK").as_deref() == Ok("1") {
        std::process::exit(3);
    }
    let node = Node::join(Config::from_env().expect("settings")).expect("to join");
    match role.as_str() {
        "lasting" => last(&node),
        "alone" => say!("\nlost {}", lost(&node)),
        "nothing" => {}
        "absent" => say!("\nheard {}", death(&node)),
        other => panic!("{other}"),
    }
}

/// The nodes elect one, which binds a name and sends signals until the test has killed the registry and started it
/// again. Meanwhile each node calls the next one. At the end each says what it has seen.
fn last(node: &Node) {
    node.wait_all(Deadline::DEFAULT).expect("the others");
    let _served = serve(node);
    let mut events = node.events();
    let winner = node.elect("chief", Deadline::DEFAULT).expect("a winner");
    let elected = node.elected("chief").expect("a winner");
    if winner == node.id() {
        node.bind("kept", b"for ever").expect("a name");
    }
    let kept = node.wait_bound("kept", Deadline::DEFAULT).expect("a name");
    node.bind(&format!("ready {}", node.rank()), &[]).expect("a name");
    (0..node.size()).for_each(|rank| {
        node.wait_bound(&format!("ready {rank}"), LIMIT).expect("all");
    });
    say!("\nready {}", node.rank());
    let all: Vec<_> = node.members().iter().map(|member| member.id).collect();
    let again = std::env::var("EGRET_TEST_AGAIN").expect("a file");
    let (mut sent, mut calls, until) = (0_u64, 0_u64, rt::now() + LIMIT);
    let mut seen = 0;
    loop {
        assert!(rt::now() < until, "there is no end");
        if winner == node.id() && sent != u64::MAX {
            sent = if Path::new(&again).exists() { u64::MAX } else { sent + 1 };
            node.signal(&all, &sent.to_le_bytes()).expect("to reach all");
        }
        call(node);
        calls += 1;
        if take_signals(&mut events, &mut seen) {
            break;
        }
        rt::sleep(Duration::from_millis(5));
    }
    assert!(calls > 0 && seen > 0);
    assert_eq!(node.elected("chief"), Some(elected), "the election stands");
    assert_eq!(node.bound("kept").expect("an answer"), Some(kept), "the name stands");
    let own = node.members().iter().map(|member| member.id).collect::<Vec<_>>();
    assert_eq!(own, all, "all are members");
    node.bind(&format!("done {}", node.rank()), &[]).expect("a name");
    if winner == node.id() {
        (0..node.size()).for_each(|rank| {
            node.wait_bound(&format!("done {rank}"), LIMIT).expect("all");
        });
        node.terminate().expect("to terminate");
    }
    node.wait_terminated(LIMIT).expect("the end");
    say!("\nstood {}", node.rank());
}

/// Takes the signals that have come, which are numbered without a gap up to the last one; returns whether that has come.
fn take_signals(events: &mut Events, seen: &mut u64) -> bool {
    while let Some(event) = events.try_next() {
        match event {
            Event::Signal { bytes, .. } => {
                let number = u64::from_le_bytes(bytes[..].try_into().expect("a number"));
                if number == u64::MAX {
                    return true;
                }
                assert_eq!(number, *seen + 1, "no signal is lost, doubled or out of order");
                *seen = number;
            }
            Event::Died { .. } | Event::RegistryLost { .. } | Event::Resync { .. } => {
                panic!("{event:?}")
            }
            _ => {}
        }
    }
    false
}

/// Answers others.
fn serve(node: &Node) -> Vec<Endpoint> {
    let serve = |(_, links): &(String, Links)| {
        let served = links.bundle().register("echo", 0).expect("an endpoint");
        served.on(0, |request| request.reply(&[1]));
        served
    };
    node.links().iter().map(serve).collect()
}

/// Calls the next node over the links of both.
fn call(node: &Node) {
    let next = node.id_of((node.rank() + 1) % node.size()).expect("a member");
    let route = node.route(next).expect("a way");
    let to = EndpointName::new(&route.host, "echo", 0);
    let endpoint = route.links.bundle().endpoint(0);
    let echo = endpoint.wait_map(&to, Deadline::DEFAULT).expect("the next node");
    echo.wait_call(0, Deadline::DEFAULT).expect("an answer");
}

/// Waits until the registry is lost; says why.
fn lost(node: &Node) -> String {
    say!("\nhere");
    let mut events = node.events();
    loop {
        if let Event::RegistryLost { why } = events.wait_next(LIMIT).expect("an event") {
            return why;
        }
    }
}

/// Waits until another node has died; says which and why.
fn death(node: &Node) -> String {
    let mut events = node.events();
    loop {
        if let Event::Died { node, why } = events.wait_next(LIMIT).expect("an event") {
            return format!("{} {why}", node.rank);
        }
    }
}

fn lines<'a>(output: &'a str, word: &str) -> Vec<&'a str> {
    let mut lines: Vec<_> = output.lines().filter(|line| line.starts_with(word)).collect();
    lines.sort_unstable();
    lines
}

fn said(output: &Output) -> String {
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_job_goes_on_when_its_registry_is_killed_and_started_again() {
    let dir = Dir::new("registry-killed");
    let (mut registry, again) = (RegistryProcess::start(&dir, 3), dir.path("again"));
    let address = registry.setting("EGRET_REGISTRY");
    let mut job = job(&registry, 3, "lasting", &[&format!("EGRET_TEST_AGAIN={again}")]);
    job.expect_lines(3, "ready ");
    for _ in 0..3 {
        // In the middle of the signals.
        rt::sleep(Duration::from_millis(50));
        registry.kill();
        registry = RegistryProcess::start(&dir, 3);
        assert_eq!(registry.setting("EGRET_REGISTRY"), address, "where its members look for it");
        assert!(!registry.said.contains("made the private key"), "{}", registry.said);
    }
    fs::write(&again, "").expect("a file");
    let output = job.end();
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert_eq!(lines(&text(&output.stdout), "stood"), ["stood 0", "stood 1", "stood 2"]);
    assert_eq!(registry.end(), Some(0));
}

#[test]
fn a_node_is_told_that_its_registry_is_gone() {
    let dir = Dir::new("registry-gone");
    let registry = RegistryProcess::start(&dir, 1);
    let mut job = job(&registry, 1, "alone", &["EGRET_REGISTRY_GRACE=300ms"]);
    job.expect_lines(1, "here");
    registry.kill();
    let output = job.end();
    let told = text(&output.stdout);
    let told = lines(&told, "lost ");
    assert_eq!(told.len(), 1, "{}", said(&output));
    assert!(
        told[0].contains("could not be reached") && told[0].contains("EGRET_REGISTRY_GRACE"),
        "{told:?}"
    );
}

#[test]
fn a_process_that_ends_before_it_joins_is_known_to_the_others() {
    let dir = Dir::new("registry-absent");
    let registry = RegistryProcess::start(&dir, 2);
    let output = job(&registry, 2, "absent", &[]).end();
    assert_eq!(code(&output), 3, "{}", said(&output));
    let heard = text(&output.stdout);
    assert_eq!(lines(&heard, "heard "), ["heard 1 the process exited with code 3"]);
}

#[test]
fn a_job_without_the_operators_key_runs_and_says_so() {
    let dir = Dir::new("registry-key");
    let registry = RegistryProcess::start(&dir, 2);
    fs::remove_file(dir.path("state/secret.key")).expect("the key");
    let output = job(&registry, 2, "nothing", &[]).end();
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(text(&output.stderr).contains("no private key of the registry"), "{}", said(&output));
}

#[test]
fn a_job_of_another_size_is_refused() {
    let dir = Dir::new("registry-size");
    let registry = RegistryProcess::start(&dir, 2);
    let output = job(&registry, 3, "lasting", &[]).end();
    assert_eq!(code(&output), 1, "{}", said(&output));
    assert!(text(&output.stderr).contains("has 2 nodes, and the job 3: say -n 2"));
}

#[test]
fn a_directory_is_used_by_one_registry_of_one_pool() {
    let dir = Dir::new("registry-state");
    let mut first = RegistryProcess::start(&dir, 2);
    let mode = |name| {
        let meta = fs::metadata(dir.path(name)).expect("a file");
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
    };
    assert_eq!((mode("state/secret"), mode("state/secret.key")), (0o600, 0o600));
    let key = dir.path("state/secret.key");
    assert!(first.said.contains(&format!("made the private key of the operator in {key}")));
    let secret = fs::read_to_string(dir.path("state/secret")).expect("the secret");
    assert!(!first.said.contains(secret.trim()), "the secret is never shown");
    let why = refused(registry(&dir, 2));
    assert!(why.contains("another registry has this directory"), "{why}");
    assert_eq!(first.end(), Some(0), "it ends as it is told");
    let why = refused(registry(&dir, 3));
    assert!(why.contains("another pool needs another directory"), "{why}");
    let snapshot = dir.path("state/snapshot");
    let mut bytes = fs::read(&snapshot).expect("a snapshot");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&snapshot, bytes).expect("to write");
    let why = refused(registry(&dir, 2));
    assert!(why.contains("snapshot: it is damaged"), "{why}");
}

#[test]
fn top_finds_a_pool_by_its_name_its_registry_and_the_job_in_it() {
    let dir = Dir::new("registry-top");
    let pool = format!("seen-{}", std::process::id());
    let registry = RegistryProcess::start_as(registry_of(&pool, &dir, 2));
    let number = registry.child.id().to_string();
    let (found, text) = top(&pool);
    assert_eq!(found, 0, "{text}");
    assert!(text.starts_with(&format!("pool {pool} (registry {number}): 0 nodes")), "{text}");
    let mut job = stuck(&registry);
    job.expect_lines(2, "here ");
    let launcher = job.launcher().to_string();
    for name in [&pool, &number, &launcher] {
        let text = wait_some("no waits", || {
            let (found, text) = top(name);
            assert_eq!(found, 0, "{text}");
            (text.matches(" for name fork ").count() == 2).then_some(text)
        });
        assert!(text.contains(&format!("pool {pool} (registry {number}): 2 nodes")), "{text}");
    }
    registry.kill();
    for name in [&pool, &launcher] {
        let (missing, text) = top(name);
        assert_eq!(missing, 1, "{text}");
        let why = format!("job {launcher} is in the pool {pool}, whose registry is no process of");
        assert!(text.contains(&why), "{text}");
    }
    job.signal(Signal::TERM);
    assert_ne!(code(&job.end()), 0);
    let (missing, text) = top(&pool);
    assert_eq!(missing, 1, "{text}");
    assert!(text.contains(&format!("no registry of a pool {pool}")), "{text}");
}

#[test]
fn a_pool_that_stands_still_is_told_of_by_its_registry() {
    let dir = Dir::new("registry-stall");
    let mut command = registry(&dir, 2);
    command.env("EGRET_STALL", "1s").stderr(Stdio::piped());
    let mut registry = RegistryProcess::start_as(command);
    let mut job = stuck(&registry);
    job.expect_lines(2, "here ");
    let mut lines = BufReader::new(registry.child.stderr.take().expect("a pipe")).lines();
    let mut next = |part: &str| loop {
        let line = lines.next().expect("another line").expect("text");
        if line.contains(part) {
            return line;
        }
    };
    let line = next("stood still");
    assert!(line.contains("egret: the pool has stood still for 1s (EGRET_STALL)"), "{line}");
    assert!(next(" for name fork ").contains("nodes.rs:"));
    job.signal(Signal::TERM);
    assert_ne!(code(&job.end()), 0);
}

#[test]
fn a_registry_is_patient_with_stopped_nodes_if_it_is_told_to_be() {
    let dir = Dir::new("registry-patience");
    let mut command = registry(&dir, 2);
    command.args(["--patience", "60"]);
    let patient = RegistryProcess::start_as(command);
    let in_pool = stuck(&patient);
    let jobs = [("60", "still"), ("1", "follows")].map(|(patience, role)| {
        let (mut command, role) = (Command::new(EGRET), format!("EGRET_TEST_ROLE={role}"));
        command.args(["run", "-n", "2", "--patience", patience, "--grace", "0", "-x", &role]);
        command.args([&*own(), "--exact", "nodes::program", "--nocapture", "--test-threads=1"]);
        Job::start_as(command)
    });
    let [waiting, hasty] = jobs;
    let mut all = [in_pool, waiting, hasty];
    let stopped = all.each_mut().map(|job| {
        job.expect_lines(2, "here ");
        let process = job.wait_for(2, &own()).swap_remove(0).pid;
        kill(process, Signal::STOP);
        process
    });
    let [mut in_pool, mut waiting, hasty] = all;
    let ended = hasty.end();
    assert_ne!(code(&ended), 0, "a stopped node was declared dead: {}", said(&ended));
    // Longer than a node has that a registry without the option does not hear of.
    rt::sleep(Duration::from_secs(4));
    for (job, process) in [&mut in_pool, &mut waiting].into_iter().zip(stopped) {
        assert!(job.child.try_wait().is_none(), "the job goes on");
        kill(process, Signal::CONT);
        wait_some("both nodes are members and answer", || {
            let (found, text) = top(&job.launcher().to_string());
            let is_whole = text.contains(": 2 nodes\n");
            (found == 0 && is_whole).then_some(())
        });
    }
    for job in [in_pool, waiting] {
        job.signal(Signal::TERM);
        assert_ne!(code(&job.end()), 0);
    }
}

/// Turns a hang into a failure.
const LIMIT: Duration = Duration::from_secs(25);

/// Nobody reads what a registry says on stderr: it serves all the same, and ends when it is told to.
#[test]
fn a_registry_whose_stderr_is_full_serves_on() {
    let dir = Dir::new("registry-stderr");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    ioctl_fionbio(&writer, true).expect("a pipe");
    while (&writer).write(&[b'.'; 4096]).is_ok() {}
    while (&writer).write(b".").is_ok() {}
    ioctl_fionbio(&writer, false).expect("a pipe");
    let mut command = registry(&dir, 2);
    command.stderr(writer);
    let mut registry = RegistryProcess::start_as(command);
    let operator =
        Operator::load(registry.setting("EGRET_SECRET_FILE").as_ref()).expect("its files");
    let config = |pool| {
        let config = Config::new(pool).registry(&registry.setting("EGRET_REGISTRY"));
        config.secret(operator.secret().clone()).deadline(LIMIT)
    };
    let refused = Node::join(config("another")).expect_err("a registry of one pool");
    assert!(refused.to_string().contains("lasting"), "the registry warns of this: {refused}");
    let node = Node::join(config("lasting")).expect("to join");
    node.leave(Deadline::DEFAULT).expect("to leave");
    assert_eq!(registry.end(), Some(0));
    drop(reader);
}
