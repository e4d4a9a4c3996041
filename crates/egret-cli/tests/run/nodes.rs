//! Jobs whose processes are nodes of one pool.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use egret::node::Event;
use egret::node::{Config, Node};
use egret::rt::Deadline;
use rustix::process::Signal;

use crate::job::{Job, Process, code, kill, text};

/// The path of this very program.
pub(crate) fn own() -> String {
    let own = std::env::current_exe().expect("its own path");
    own.to_str().expect("a path").to_owned()
}

/// Starts this very program as a job; each process does [`program`], and has the time to say what
/// it knows when another has failed.
fn job(count: u32, role: &str) -> Job {
    job_with(count, role, &[])
}

/// The same with options of `egret run`.
fn job_with(count: u32, role: &str, options: &[&str]) -> Job {
    let own = own();
    let role = format!("EGRET_TEST_ROLE={role}");
    let count = count.to_string();
    let program = [&*own, "--exact", "nodes::program", "--nocapture", "--test-threads=1", "-q"];
    Job::start(&[&["-n", &count, "--grace", "30", "-x", &role][..], options, &program].concat())
}

/// What the processes of those jobs do. As a test of its own it is nobody's process.
#[test]
fn program() {
    let Ok(role) = std::env::var("EGRET_TEST_ROLE") else { return };
    let node = Node::join(Config::from_env().expect("settings")).expect("to join");
    if role == "stays" {
        println!(
            "\nhere {} in {}",
            node.rank(),
            std::env::current_exe().expect("a file").display()
        );
        if node.wait_terminated(Deadline::UntilDead).is_err() {
            std::process::exit(2);
        }
        return;
    }
    if role == "open" {
        println!("\nhere {}\nwon with {} here", node.rank(), in_open_pool(&node));
        return;
    }
    node.wait_all(Deadline::DEFAULT).expect("the others");
    println!("\nhere {}", node.rank());
    node.bind(&format!("here {}", node.rank()), &[]).expect("a name");
    match role.as_str() {
        "well" => (),
        "still" => {
            let other = format!("fork {}", 1 - node.rank());
            _ = node.wait_bound(&other, Deadline::UntilDead);
        }
        "trusts" => println!("\nto the other {}", trust(&node)),
        "leaves" if node.rank() == 1 => {
            see_all(&node);
            std::process::exit(7);
        }
        "panics" if node.rank() == 2 => {
            see_all(&node);
            panic!("the cat\nis out");
        }
        _ => {
            println!("\nheard {}", hear(&node));
            std::process::exit(1);
        }
    }
}

/// Four nodes elect one, one after the other: each winner leaves, and the last one terminates the pool.
/// Returns how many members were here when this one won.
fn in_open_pool(node: &Node) -> u32 {
    assert!(node.is_open());
    let mut events = node.events();
    let winner = node.elect("next", Deadline::DEFAULT).expect("a winner");
    assert!(node.view("next").has(winner), "{winner}");
    let mut joined = 0;
    while node.view("next").first() != Some(node.id()) || joined < 4 {
        let event = events.wait_next(Deadline::DEFAULT).expect("an event");
        joined += u32::from(matches!(event, Event::Joined(_)));
    }
    let here = node.size();
    if here == 1 {
        node.terminate().expect("to terminate");
        assert_eq!(node.wait_terminated(Deadline::DEFAULT).expect("the end"), node.id());
    }
    here
}

/// Waits until the others know that all are here.
fn see_all(node: &Node) {
    for rank in 0..node.size() {
        node.wait_bound(&format!("here {rank}"), Deadline::DEFAULT).expect("a name");
    }
}

/// How far this node and the other one trust each other.
fn trust(node: &Node) -> String {
    let other = node.id_of(1 - node.rank()).expect("the other");
    let route = node.route(other).expect("a way");
    route.links.wait_connect(&route.host, Deadline::DEFAULT).expect("a link");
    let trust = route.links.trust(&route.host).expect("a link");
    // Nobody goes before the other knows it too.
    if node.rank() == 0 {
        node.wait_bound("known", Deadline::DEFAULT).expect("a name");
    } else {
        node.bind("known", &[]).expect("a name");
        node.wait_fate(other, Deadline::DEFAULT).expect("it leaves");
    }
    format!("{} {trust}", route.fabric)
}

/// Waits until somebody has died, and says who and of what.
fn hear(node: &Node) -> String {
    let mut events = node.events();
    loop {
        match events.wait_next(Deadline::In(Duration::from_secs(60))) {
            Ok(Event::Died { node, why }) => {
                return format!("{} {}", node.rank, why.replace('\n', " / "));
            }
            Ok(Event::RegistryLost { .. }) | Err(_) => std::process::exit(2),
            Ok(_) => (),
        }
    }
}

/// The lines that begin with `word`.
fn lines(output: &[u8], word: &str) -> Vec<String> {
    text(output).lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
}

#[test]
fn nodes_find_each_other() {
    let output = job(3, "well").end();
    assert_eq!(code(&output), 0, "{output:?}");
    let mut here = lines(&output.stdout, "here");
    here.sort();
    assert_eq!(here, ["here 0", "here 1", "here 2"]);
}

/// Another build of the program is another file: what it sends and takes decides, and not the file.
#[test]
fn another_build_of_the_program_joins() {
    let folder = crate::dir::Dir::new("build");
    let (own, other) = (own(), folder.path("other"));
    fs::copy(&own, &other).expect("a copy");
    let mut file = fs::OpenOptions::new().append(true).open(&other).expect("the copy");
    std::io::Write::write_all(&mut file, b"another build").expect("a longer copy");
    drop(file);
    let script =
        format!("if [ $EGRET_RANK = 1 ]; then exec '{other}' \"$@\"; else exec '{own}' \"$@\"; fi");
    let words = ["-n", "2", "-x", "EGRET_TEST_ROLE=well", "sh", "-c", &script, "sh", "--exact"];
    let output = Job::start(&[&words[..], &["nodes::program", "--nocapture", "-q"]].concat()).end();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(lines(&output.stdout, "here").len(), 2, "{output:?}");
}

#[test]
fn nodes_of_an_open_job_come_and_go() {
    let output = job_with(4, "open", &["--open"]).end();
    assert_eq!(code(&output), 0, "{output:?}");
    let sorted = |word| {
        let mut lines = lines(&output.stdout, word);
        lines.sort();
        lines
    };
    assert_eq!(sorted("here"), ["here 0", "here 1", "here 2", "here 3"]);
    let won = sorted("won");
    assert_eq!(won.len(), 4, "{won:?}");
    assert!(won.contains(&"won with 1 here".to_owned()), "the last one: {won:?}");
}

#[test]
fn processes_cooperate_only_if_they_are_told_to() {
    let trust = |options: &[&str]| {
        let output = job_with(2, "trusts", options).end();
        assert_eq!(code(&output), 0, "{output:?}");
        lines(&output.stdout, "to the other")
    };
    assert_eq!(trust(&[]), ["to the other shm isolated"; 2]);
    assert_eq!(trust(&["--trust", "isolated"]), ["to the other shm isolated"; 2]);
    assert_eq!(trust(&["--trust", "cooperating"]), ["to the other shm cooperating"; 2]);
    let over_tcp = trust(&["--trust", "cooperating", "--fabric", "tcp"]);
    assert_eq!(over_tcp, ["to the other tcp isolated"; 2], "there is no other way");
}

#[test]
fn a_panic_is_told_once_with_its_rank_and_to_its_peers() {
    let output = job(3, "panics").end();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(code(&output), 101, "of the one that panicked: {out} {err}");
    assert_eq!(err.matches("the cat").count(), 1, "{err}");
    let told = lines(&output.stderr, "rank 2 panicked at ");
    assert_eq!(told.len(), 1, "{err}");
    assert!(told[0].ends_with(": the cat"), "{told:?}");
    let heard = lines(&output.stdout, "heard");
    assert_eq!(heard.len(), 2, "{out}");
    for line in &heard {
        assert!(line.starts_with("heard 2 ") && line.contains("the cat / is out"), "{line}");
    }
}

#[test]
fn an_exit_without_leaving_is_noticed() {
    let output = job(3, "leaves").end();
    assert_eq!(code(&output), 7, "{output:?}");
    let said = text(&output.stderr);
    // Whoever heard of it may have failed of that, and be seen first.
    assert!(said.contains("egret: rank 1 exited with code 7"), "{said}");
    let heard = lines(&output.stdout, "heard 1 ");
    assert_eq!(heard.len(), 2, "what the survivors were owed: {output:?}");
}

#[test]
fn survivors_end_whichever_process_is_killed() {
    for whom in ["guard", "launcher", "a node"] {
        let mut job = job(3, "follows");
        let nodes = job.wait_for(3, &own());
        job.expect_lines(3, "here ");
        let pid = match whom {
            "guard" => job.guard(),
            "launcher" => job.launcher(),
            _ => nodes[1].pid,
        };
        let sockets = abstract_sockets(&nodes);
        assert!(sockets.len() >= 3, "where nodes meet: {sockets:?}");
        kill(pid, Signal::KILL);
        let output = job.end();
        let left = fs::read_to_string("/proc/net/unix").expect("the sockets");
        assert!(!sockets.iter().any(|name| left.contains(name)), "{sockets:?}");
        let expected = if whom == "guard" { None } else { Some(137) };
        assert_eq!(output.status.code(), expected, "{whom}: {output:?}");
    }
}

/// The names of the sockets without a file that these processes have.
fn abstract_sockets(processes: &[Process]) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    for process in processes {
        let files = fs::read_dir(format!("/proc/{}/fd", process.pid)).expect("its files").flatten();
        let links = files.filter_map(|file| fs::read_link(file.path()).ok());
        let sockets = links.filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        });
        own.extend(sockets);
    }
    let all = fs::read_to_string("/proc/net/unix").expect("the sockets");
    let fields = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let named = fields.filter(|fields| fields.len() == 8 && own.contains(fields[6]));
    named.map(|fields| fields[7].to_owned()).filter(|name| name.starts_with('@')).collect()
}
