//! Jobs without a launcher of egret's: by `srun` alone on clusters of two and of four nodes, and by `mpiexec`.

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::process::{Command, Output};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret::node::registry::{Operator, Registry, RegistryOptions};
use egret::node::{Config, Event, JoinError, Node, NodeError};
use egret::vi::Secret;

use super::SlurmCluster;
use crate::dir::Dir;
use crate::job::{EGRET, Job, code, text};
use crate::machines::lab::run;
use crate::nodes::own;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// What the processes of these jobs do. As a test of its own it is nobody's process.
#[test]
fn program() {
    let Ok(role) = std::env::var("EGRET_TEST_LAUNCHED") else { return };
    let in_way = match role.as_str() {
        "taken" if is_first() => Some(InWay::Listener(
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port())).expect("the port"),
        )),
        "impostor" if is_first() => {
            // It has the secret, and another key.
            let file = std::env::var("EGRET_SECRET_FILE").expect("a variable");
            let secret = Operator::load(Path::new(&file)).expect("a secret").secret().clone();
            let other = RegistryOptions::new("other", 2).secret(secret);
            let other = other.listen(&format!("0.0.0.0:{}", port()));
            Some(InWay::Registry(Registry::open(other).expect("another registry")))
        }
        _ => None,
    };
    if let Some(InWay::Registry(_)) = &in_way {
        // Until the other task has failed.
        egret::rt::sleep(Duration::from_secs(5));
        return;
    }
    let config = Config::from_env().expect("settings");
    let joined = if role == "awaited" { awaited(config) } else { Node::join(config) };
    let node = match joined {
        Ok(node) => node,
        Err(why) => {
            say(&format!("refused {}", why.to_string().replace('\n', " ")));
            std::process::exit(3);
        }
    };
    node.wait_all(LONG).expect("the others");
    let local = std::env::var("SLURM_LOCALID").or_else(|_| std::env::var("MPI_LOCALRANKID"));
    say(&format!(
        "here {} of {} in {}, {}",
        node.rank(),
        node.size(),
        node.pool(),
        local.expect("one")
    ));
    match role.as_str() {
        "well" | "awaited" => work(node),
        "again" => {
            node.leave(LONG).expect("to leave");
            let why = Node::join(Config::from_env().expect("settings")).unwrap_err();
            say(&format!("again {why}"));
        }
        "taken" => (),
        role => fail(&node, role.parse().expect("the rank that fails")),
    }
}

/// Joins as a program does that drives its futures itself.
fn awaited(config: Config) -> Result<Node, JoinError> {
    let mut joining = pin!(Node::begin_join(config)?);
    loop {
        match joining.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(joined) => return joined,
            Poll::Pending => egret::rt::sleep(Duration::from_millis(5)),
        }
    }
}

enum InWay {
    Listener(#[expect(dead_code, reason = "it is there until the process ends")] TcpListener),
    Registry(#[expect(dead_code, reason = "it is there until the process ends")] Registry),
}

fn is_first() -> bool {
    std::env::var("SLURM_PROCID").as_deref() == Ok("0")
}

/// The port that the documentation says.
fn port() -> u16 {
    let number = |name| std::env::var(name).expect("a variable").parse::<u32>().expect("a number");
    let port = 20_000 + (number("SLURM_JOB_ID") * 101 + number("SLURM_STEP_ID")) % 12_768;
    u16::try_from(port).expect("a port")
}

/// A whole line, whatever the others write meanwhile.
fn say(line: &str) {
    std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).expect("a reader");
}

/// Rank 0 leaves first, and the others use their registry behind that.
fn work(node: Node) {
    if node.rank() > 0 {
        let first = node.id_of(0).expect("it was here");
        node.wait_fate(first, LONG).expect("its end");
        node.bind(&format!("name {}", node.rank()), &[]).expect("a name");
        for rank in 1..node.size() {
            // Who is done already has left.
            match node.wait_bound(&format!("name {rank}"), LONG) {
                Ok(_) | Err(NodeError::OwnerGone { .. }) => (),
                Err(why) => panic!("{why}"),
            }
        }
    }
    let rank = node.rank();
    node.leave(LONG).expect("to leave");
    say(&format!("left {rank}"));
}

/// One rank ends without a word, and the others say what they learn of that.
fn fail(node: &Node, whose: u32) {
    // All have seen all.
    match node.bind(&format!("seen {}", node.rank()), &[]) {
        // The others may know the name, and rank 0 be gone, before the answer is here.
        Ok(()) | Err(NodeError::RegistryLost { .. }) => (),
        Err(why) => panic!("{why}"),
    }
    (0..node.size()).for_each(|rank| drop(node.wait_bound(&format!("seen {rank}"), LONG)));
    let mut events = node.events();
    if node.rank() == whose {
        std::process::exit(7);
    }
    loop {
        match events.wait_next(LONG) {
            Ok(Event::Died { node: dead, .. }) if dead.rank == whose => {
                break say(&format!("{} has seen {} die", node.rank(), dead.rank));
            }
            Ok(Event::RegistryLost { .. }) => {
                break say(&format!("{} has lost the registry", node.rank()));
            }
            Ok(_) => (),
            Err(why) => panic!("{why}"),
        }
    }
}

impl SlurmCluster {
    /// A directory with the secret of a pool.
    fn secret(&self) -> String {
        let file = self.path("pool.secret");
        if !Path::new(&file).exists() {
            Operator::random().save(Path::new(&file)).expect("a secret");
        }
        file
    }

    /// Runs the program by `srun` with these options.
    fn srun(&self, options: &[&str], role: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(&[&["srun", "-Q"], options, &program_args()].concat());
        command.env("EGRET_TEST_LAUNCHED", role).envs(variables.iter().copied());
        Job::start_as(command).end()
    }
}

/// This program, as one of those jobs.
fn program_args() -> [&'static str; 6] {
    static OWN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let own = OWN.get_or_init(own);
    let name = "machines::slurm::launched::program";
    [own, "--exact", name, "--nocapture", "--test-threads=1", "-q"]
}

/// The lines that begin with this word, without it.
fn lines(output: &Output, word: &str) -> BTreeSet<String> {
    let said = text(&output.stdout);
    let lines = said.lines().filter_map(|line| line.strip_prefix(word));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// All have been here, and have left without an error.
#[track_caller]
fn went_well(output: &Output, size: u32) {
    let said = || format!("{} {}", text(&output.stdout), text(&output.stderr));
    assert_eq!(code(output), 0, "{}", said());
    assert_eq!(lines(output, "here ").len(), size as usize, "{}", said());
    let left: BTreeSet<_> = (0..size).map(|rank| rank.to_string()).collect();
    assert_eq!(lines(output, "left "), left, "{}", said());
}

#[test]
fn srun_alone_starts_a_job() {
    for nodes in [2, 4] {
        let Some(cluster) = SlurmCluster::of(&format!("srun-{nodes}"), nodes, "") else { return };
        let secret = cluster.secret();
        let secret = [("EGRET_SECRET_FILE", &*secret)];
        let all = format!("-N{nodes}");
        for mpi in ["--mpi=none", "--mpi=pmi2"] {
            let (tasks, size) = (format!("-n{}", nodes * 2), nodes * 2);
            let output = cluster.srun(&[mpi, &all, &tasks, "-m", "block"], "well", &secret);
            went_well(&output, size);
            let said = lines(&output, "here 0 of");
            let said = said.first().expect("rank 0");
            assert!(
                said.starts_with(&format!("{size} in slurm-")) && said.ends_with(", 0"),
                "{said}"
            );
            went_well(&cluster.srun(&[mpi, &all, &tasks], "awaited", &secret), size);
            // On one machine, and alone.
            went_well(&cluster.srun(&[mpi, "-N1", "-n2"], "well", &secret), 2);
            went_well(&cluster.srun(&[mpi, "-N1", "-n1"], "well", &secret), 1);
        }
        // A random secret that names no key.
        let text = Secret::random().reveal().expect("it is random");
        went_well(&cluster.srun(&[&all, "-n2"], "well", &[("EGRET_SECRET", &text)]), 2);
    }
}

#[test]
fn srun_alone_starts_an_application_that_is_checked() {
    let Some(cluster) = SlurmCluster::of("apps", 2, "") else { return };
    for (app, args) in [("sor", ["--size", "100"]), ("pmm", ["--size", "64"])] {
        let line = [&["srun", "-Q", "-N2", "-n4", EGRET, "app", app][..], &args].concat();
        let mut command = cluster.command(&line);
        command.env("EGRET_SECRET_FILE", cluster.secret());
        let output = Job::start_as(command).end();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains("yes") && said.contains("4 processes"), "{said}");
    }
}

#[test]
fn the_port_is_one_that_slurm_has_reserved() {
    let line = "MpiParams=ports=12000-12099";
    let Some(cluster) = SlurmCluster::of("ports", 2, line) else { return };
    let secret = cluster.secret();
    let secret = [("EGRET_SECRET_FILE", &*secret)];
    // The computed one is taken; nobody listens there.
    let output = cluster.srun(&["-N2", "-n2", "--resv-ports=1"], "taken", &secret);
    assert_eq!(lines(&output, "here ").len(), 2, "{}", text(&output.stderr));
}

#[test]
fn the_failure_of_a_task_is_seen_by_the_others() {
    let Some(cluster) = SlurmCluster::make("failures") else { return };
    let secret = cluster.secret();
    let secret = [("EGRET_SECRET_FILE", &*secret)];
    for mpi in ["--mpi=none", "--mpi=pmi2"] {
        let options = [mpi, "-N4", "-n4", "--kill-on-bad-exit=0"];
        let output = cluster.srun(&options, "2", &secret);
        let said = text(&output.stdout);
        assert_eq!(code(&output), 7, "{said} {}", text(&output.stderr));
        for rank in [0, 1, 3] {
            assert!(said.contains(&format!("\n{rank} has seen 2 die")), "{said}");
        }
        let output = cluster.srun(&options, "0", &secret);
        let said = text(&output.stdout);
        assert_eq!(code(&output), 7, "{said} {}", text(&output.stderr));
        for rank in [1, 2, 3] {
            assert!(said.contains(&format!("\n{rank} has lost the registry")), "{said}");
        }
    }
}

#[test]
fn what_is_missing_or_in_the_way_is_said() {
    let Some(cluster) = SlurmCluster::of("missing", 2, "") else { return };
    let (secret, two) = (cluster.secret(), ["-N2", "-n2"]);
    let file = ("EGRET_SECRET_FILE", &*secret);
    let short = ("EGRET_DEADLINE", "3s");
    let refused = |options: &[&str], role: &str, variables: &[(&str, &str)], texts: &[&str]| {
        let output = cluster.srun(options, role, variables);
        let said = text(&output.stdout);
        assert_eq!(code(&output), 3, "{said} {}", text(&output.stderr));
        for text in texts {
            assert!(said.contains(text), "{role}: {text} is not in {said}");
        }
        said.matches("\nrefused ").count()
    };
    let no_secret = ["`egret secret pool.secret`", "EGRET_SECRET_FILE=$PWD/pool.secret"];
    assert_eq!(refused(&two, "well", &[], &no_secret), 2);
    let taken = ["rank 0 opens the registry at port 2", "--resv-ports", "of rank 0"];
    refused(&two, "taken", &[file, short], &taken[..2]);
    assert_eq!(refused(&two, "impostor", &[file], &["another key than this side expects"]), 1);
    let order = [&two[..], &["-m", "arbitrary", "-w", "n2,n1"]].concat();
    refused(&order, "well", &[file, short], &["the first machine of the step", "--mpi=pmi2"]);
    fs::rename(format!("{secret}.key"), cluster.path("elsewhere")).unwrap();
    let key = ["pool.secret.key: No such file", "under `srun` by rank 0, whose error says more"];
    assert_eq!(refused(&two, "well", &[file, short], &key), 2);
    let pmi = [&two[..], &["--mpi=pmi2"]].concat();
    let key = ["pool.secret.key: No such file", "it has none: its own error says why"];
    assert_eq!(refused(&pmi, "well", &[file], &key), 2);
}

/// The script of the page, as it stands there.
#[test]
fn the_script_of_the_guide_runs() {
    let Some(cluster) = SlurmCluster::of("sbatch", 2, "") else { return };
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/several-machines.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("## Without a launcher").expect("the section");
    let (_, script) = section.split_once("```sh\n#!/bin/sh\n").expect("the script");
    let (script, _) = script.split_once("```").unwrap();
    let work = cluster.path("work");
    fs::create_dir(&work).unwrap();
    let program = program_args().join(" ");
    for (name, text) in [("job.sh", script), ("heat", &format!("exec {program}\n"))] {
        let file = format!("{work}/{name}");
        fs::write(&file, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (chdir, job) = (format!("--chdir={work}"), format!("{work}/job.sh"));
    let mut command = cluster.command(&["sbatch", "--wait", "-Q", &chdir, "-o", "output", &job]);
    let folder = Path::new(EGRET).parent().unwrap().to_str().unwrap();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    command.env("EGRET_TEST_LAUNCHED", "well").env("PATH", path);
    let mut output = Job::start_as(command).end();
    output.stdout = fs::read(format!("{work}/output")).unwrap_or_default();
    went_well(&output, 4);
}

/// A command of `mpiexec`; `None` with one line where there is none.
#[expect(clippy::print_stdout, reason = "why a test is skipped")]
fn mpiexec() -> Option<Command> {
    match run("which", &["mpiexec.hydra"]) {
        Ok(_) => Some(Command::new("mpiexec.hydra")),
        Err(_) => {
            println!("skipped: no mpiexec.hydra here (Debian: mpich)");
            None
        }
    }
}

#[test]
fn mpiexec_alone_starts_a_job() {
    let Some(mut command) = mpiexec() else { return };
    let dir = Dir::new("mpiexec");
    let secret = dir.path("pool.secret");
    Operator::random().save(Path::new(&secret)).unwrap();
    let mut ends = |role: &str, secret: Option<&str>| {
        let mut command = std::mem::replace(&mut command, mpiexec().expect("it was there"));
        command.args(["-n", "3"]).args(program_args()).env("EGRET_TEST_LAUNCHED", role);
        secret.map(|secret| command.env("EGRET_SECRET_FILE", secret));
        Job::start_as(command).end()
    };
    let output = ends("well", Some(&secret));
    went_well(&output, 3);
    let here: BTreeSet<_> = (0..3).map(|rank| format!("{rank} of 3 in pool, {rank}")).collect();
    assert_eq!(lines(&output, "here "), here);
    let output = ends("again", Some(&secret));
    assert_eq!(text(&output.stdout).matches("it serves once").count(), 3, "{output:?}");
    let output = ends("well", None);
    assert!(text(&output.stdout).contains("`egret secret pool.secret`"), "{output:?}");
}

/// In an allocation `mpiexec` starts its processes below one task of Slurm on each machine.
#[test]
fn mpiexec_starts_a_job_in_an_allocation() {
    let (Some(_), Some(cluster)) = (mpiexec(), SlurmCluster::of("hydra", 2, "")) else { return };
    let secret = cluster.secret();
    let start = ["salloc", "-Q", "-N2", "-n4", "mpiexec.hydra", "-n", "4"];
    let mut command = cluster.command(&[&start[..], &program_args()].concat());
    command.env("EGRET_TEST_LAUNCHED", "well").env("EGRET_SECRET_FILE", secret);
    went_well(&Job::start_as(command).end(), 4);
}
