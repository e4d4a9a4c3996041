//! Jobs on several machines, over the ssh of the system and in allocations of Slurm.

mod info;
mod lab;
mod registry;
mod slurm;

use std::collections::BTreeSet;
use std::time::Duration;

use egret::rt;
use rustix::process::Signal;

use self::lab::{HOSTS, Machines};
use crate::changes::stays;
use crate::job::{code, kill, text};
use crate::nodes::own;
use crate::rounds::{Dice, seed_and_rounds};

/// One process here, two on the second machine, one on the third.
fn all() -> String {
    format!("localhost:1,{}:2,{}:1", HOSTS[1], HOSTS[2])
}

/// Says who it is, and stays.
const STAYS: &str = "echo here $EGRET_RANK; sleep 60 & wait";

#[test]
fn a_job_runs_on_several_machines() {
    let Some(machines) = Machines::make() else { return };
    let script = "echo $EGRET_RANK of $EGRET_SIZE, $EGRET_LOCAL_RANK at $EGRET_LISTEN, $A in $PWD; echo error >&2";
    let job = machines.job(&all(), &["--tag-output", "-x", "A=b c", "sh", "-c", script]);
    let output = job.end();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let directory = std::env::current_dir().unwrap();
    let line = |rank: u32, local: u32, host| {
        format!("[{rank}] {rank} of 4, {local} at {host}, b c in {}", directory.display())
    };
    let expected = BTreeSet::from([
        line(0, 0, HOSTS[0]),
        line(1, 0, HOSTS[1]),
        line(2, 1, HOSTS[1]),
        line(3, 0, HOSTS[2]),
    ]);
    assert_eq!(text(&output.stdout).lines().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
    assert_eq!(text(&output.stderr).lines().collect::<BTreeSet<_>>().len(), 4);
    machines.nothing_left();
}

#[test]
fn an_application_runs_on_several_machines_and_is_checked() {
    let Some(machines) = Machines::make() else { return };
    for (app, args) in
        [("sor", &["--size", "200", "--iterations", "20"][..]), ("pmm", &["--size", "64"])]
    {
        let output = machines.app(&all(), app, args).end();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("yes"), "{}", text(&output.stdout));
    }
    machines.nothing_left();
}

/// What the processes of the job below do.
#[test]
fn node() {
    let Ok(_) = std::env::var("EGRET_TEST_MACHINES") else { return };
    let config = egret::node::Config::from_env().expect("settings");
    let node = egret::node::Node::join(config).expect("to join");
    node.wait_all(Duration::from_secs(60)).expect("the others");
    for rank in (0..node.size()).filter(|rank| *rank != node.rank()) {
        let other = node.id_of(rank).expect("a member");
        println!("\nway {} {rank} {}", node.rank(), node.route(other).expect("a way").fabric);
    }
    // Each stays until all others have looked.
    let long = Duration::from_secs(60);
    node.bind(&format!("looked {}", node.rank()), &[]).expect("a name");
    if node.rank() == 0 {
        let others: Vec<_> = (1..node.size()).filter_map(|rank| node.id_of(rank)).collect();
        (1..node.size()).for_each(|rank| {
            drop(node.wait_bound(&format!("looked {rank}"), long).expect("a name"));
        });
        node.bind("all looked", &[]).expect("a name");
        others.iter().for_each(|other| drop(node.wait_fate(*other, long).expect("it leaves")));
    } else {
        node.wait_bound("all looked", long).expect("a name");
    }
    node.leave(long).expect("to leave");
}

#[test]
fn processes_are_added_on_other_machines_and_removed_there() {
    let Some(machines) = Machines::make() else { return };
    let stays = stays();
    let stays: Vec<_> = stays.iter().map(String::as_str).collect();
    let mut job = machines.job(
        "localhost:1",
        &[&["--open", "--tag-output", "--listen", HOSTS[0]], &stays[..]].concat(),
    );
    job.line_with("[0] here 0");
    let change = |words: &[&str]| {
        let output = machines.change(words);
        (code(&output), text(&output.stderr))
    };
    let hosts = format!("{}:1,{}:2", HOSTS[1], HOSTS[2]);
    assert_eq!(change(&["--add", "3", "--host", &hosts]).0, 0);
    (0..3).for_each(|_| drop(job.line_with("] here ")));
    let (failed, why) = change(&["--add", "2", "--host", "10.214.7.99:1,localhost:1"]);
    assert_eq!(failed, 1, "{why}");
    assert!(why.contains("started rank 5, and not all") && why.contains("10.214.7.99"), "{why}");
    job.line_with("[5] here ");
    let output = machines.change(&["--remove", "2"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let told = text(&output.stderr);
    let rank = told.split("(rank ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(["1", "2", "3"].contains(&rank.expect("a rank")), "{told}");
    // The new machines are lost like those of the beginning.
    machines.set_cable(2, false);
    let output = job.end();
    let said = text(&output.stderr);
    assert!(said.contains("it was removed"), "{said}");
    assert!(said.contains(&format!("host {} is lost", HOSTS[2])), "{said}");
    assert_eq!(code(&output), 137, "{said}");
    machines.set_cable(2, true);
    machines.nothing_left();
}

/// A machine without the program fails the addition, and not the job.
#[test]
fn a_machine_that_starts_nothing_is_not_added() {
    let Some(machines) = Machines::make() else { return };
    let folder = crate::dir::Dir::new("added");
    let script = folder.path("script");
    let lines = "#!/bin/sh\ntrap 'echo end; exit 0' TERM\necho here\nsleep 60 & wait\n";
    std::fs::write(&script, lines).unwrap();
    let mode: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&script, mode).unwrap();
    let mut job = machines.job("localhost:1", &["--open", "--listen", HOSTS[0], &script]);
    job.line_with("here");
    std::fs::remove_file(&script).unwrap();
    for hosts in [HOSTS[1], "localhost", "localhost,10.214.7.2"] {
        let output = machines.change(&["--add", "1", "--host", hosts]);
        let why = text_of(&output);
        assert_eq!(code(&output), 1, "{why}");
        assert!(why.contains("script"), "{why}");
    }
    job.signal(Signal::TERM);
    let output = job.end();
    assert_eq!((code(&output), &*text(&output.stdout)), (0, "end\n"), "{}", text_of(&output));
    machines.nothing_left();
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_program_is_copied_to_the_other_machines() {
    let Some(machines) = Machines::make() else { return };
    let stays = stays();
    let stays: Vec<_> = stays.iter().map(String::as_str).collect();
    let mut job = machines.job(&all(), &[&["--copy", "--tag-output"], &stays[..]].concat());
    let mut lines: Vec<_> = (0..4).map(|_| job.line_with("] here ")).collect();
    lines.sort();
    assert!(lines[0].ends_with(&own()), "here it is started from its file: {lines:?}");
    for line in &lines[1..] {
        assert!(line.contains("/memfd:program"), "{line}");
    }
    job.signal(Signal::INT);
    assert_eq!(code(&job.end()), 130);
    // A script is copied as well.
    let folder = crate::dir::Dir::new("copied");
    let script = folder.path("script");
    std::fs::write(&script, "#!/bin/sh\necho $EGRET_RANK $1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&script, mode).unwrap();
    let hosts = format!("{}:1,{}:1", HOSTS[1], HOSTS[2]);
    let output = machines.job(&hosts, &["--copy", &script, "said"]).end();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert_eq!(said.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["0 said", "1 said"]));
    let output = machines.job(&hosts, &["--copy", "no-such-program"]).end();
    assert_eq!(code(&output), 127, "{output:?}");
    machines.nothing_left();
}

/// The fabrics by which nodes talk, of a job with these options.
fn ways(machines: &Machines, options: &[&str]) -> BTreeSet<String> {
    let own = own();
    let program =
        ["-x", "EGRET_TEST_MACHINES=1", &own, "--exact", "machines::node", "--nocapture", "-q"];
    let output = machines.job(&all(), &[options, &program].concat()).end();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let ways = said.lines().filter_map(|line| line.strip_prefix("way ").map(str::to_owned));
    let ways: BTreeSet<_> = ways.collect();
    assert_eq!(ways.len(), 12, "{said}");
    ways
}

#[test]
fn nodes_of_one_machine_share_memory_and_others_talk_over_tcp() {
    let Some(machines) = Machines::make() else { return };
    for way in ways(&machines, &[]) {
        let is_near = way.starts_with("1 2 ") || way.starts_with("2 1 ");
        assert_eq!(way.rsplit(' ').next(), Some(if is_near { "shm" } else { "tcp" }), "{way}");
    }
}

#[test]
fn options_mean_the_same_on_each_machine() {
    let Some(machines) = Machines::make() else { return };
    assert!(ways(&machines, &["--fabric", "tcp"]).iter().all(|way| way.ends_with(" tcp")));
    let script = "echo $EGRET_TRUST $(grep Cpus_allowed_list /proc/self/status)";
    let options = ["--bind-to", "core", "--trust", "cooperating", "sh", "-c", script];
    let output = machines.job(&all(), &options).end();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let bound =
        said.lines().filter_map(|line| line.strip_prefix("cooperating Cpus_allowed_list: "));
    // One core is one number.
    assert_eq!(bound.filter(|core| core.parse::<u32>().is_ok()).count(), 4, "{said}");
    let slow = ["--timeout", "1.5", "sh", "-c", STAYS];
    let output = machines.job(&all(), &slow).end();
    assert_eq!(code(&output), 124, "{}", text(&output.stderr));
    machines.nothing_left();
}

#[test]
fn a_failure_there_ends_all() {
    let Some(machines) = Machines::make() else { return };
    let script = "echo here; [ $EGRET_RANK != 2 ] || exit 7; sleep 60 & wait";
    let output = machines.job(&all(), &["--grace", "0.1", "sh", "-c", script]).end();
    assert_eq!(code(&output), 7);
    assert!(text(&output.stderr).contains("rank 2 exited with code 7"), "{}", text(&output.stderr));
    machines.nothing_left();
}

#[test]
fn signals_reach_all_machines() {
    let Some(machines) = Machines::make() else { return };
    let script = "trap 'echo told; exit 0' INT; echo here; sleep 60 & wait";
    let mut job = machines.job(&all(), &["sh", "-c", script]);
    job.expect_lines(4, "here");
    job.signal(Signal::INT);
    let output = job.end();
    assert_eq!((code(&output), text(&output.stdout)), (0, "told\n".repeat(4)));
    machines.nothing_left();
}

/// All output arrives, whole and in order for each process, though the reader is slow at first.
#[test]
fn output_of_all_machines_is_whole() {
    const LINES: usize = 200_000;
    let Some(machines) = Machines::make() else { return };
    let script = format!("seq -f 'line %.0f of a process that writes a lot' {LINES}");
    let job = machines.job(&all(), &["--tag-output", "sh", "-c", &script]);
    // Longer than a machine may be silent: what waits for a reader is no silence.
    rt::sleep(Duration::from_secs(4));
    let output = job.end();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for rank in 0..4 {
        let tag = format!("[{rank}] ");
        let lines = said.lines().filter_map(|line| line.strip_prefix(&tag)).zip(1..);
        let count = lines
            .map(|(line, at)| assert_eq!(line, format!("line {at} of a process that writes a lot")))
            .count();
        assert_eq!(count, LINES, "rank {rank}");
    }
}

/// The reader pauses when all processes have ended: what they wrote last is waited for, and not lost.
#[test]
fn the_end_of_the_output_is_waited_for() {
    const BYTES: usize = 3 << 20;
    let Some(machines) = Machines::make() else { return };
    let script = format!("yes 1234567 | head -c {}; echo written >&2", BYTES / 2);
    let hosts = format!("{}:1,{}:1", HOSTS[1], HOSTS[2]);
    let job = machines.job(&hosts, &["sh", "-c", &script]);
    rt::sleep(Duration::from_secs(6));
    let output = job.end();
    assert_eq!((code(&output), output.stdout.len()), (0, BYTES), "{}", text(&output.stderr));
    machines.nothing_left();
}

/// A stopped job writes nothing, and goes on where it was, however long that takes.
#[test]
fn a_job_that_is_stopped_while_it_writes_goes_on() {
    let Some(machines) = Machines::make() else { return };
    let script = "for n in $(seq 300); do echo line $n; sleep 0.01; done";
    let hosts = format!("{}:1,{}:1", HOSTS[1], HOSTS[2]);
    let mut job = machines.job(&hosts, &["sh", "-c", script]);
    job.expect_lines(20, "line");
    job.signal(Signal::TSTP);
    // Longer than either side waits for a word of the other.
    rt::sleep(Duration::from_secs(5));
    job.signal(Signal::CONT);
    let output = job.end();
    let lines = text(&output.stdout).lines().filter(|line| line.starts_with("line ")).count();
    assert_eq!((code(&output), lines + 20), (0, 600), "{}", text(&output.stderr));
    machines.nothing_left();
}

#[test]
fn rank_0_reads_the_input_of_the_job_wherever_it_is() {
    let Some(machines) = Machines::make() else { return };
    let (from, mut to) = std::io::pipe().unwrap();
    let writer = rt::spawn("writer", move || {
        let lines: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
        std::io::Write::write_all(&mut to, lines.as_bytes()).map(|()| lines)
    });
    let hosts = format!("{}:1,localhost:1", HOSTS[1]);
    let output = machines.job_with(&hosts, &["cat"], from).end();
    let lines = writer.unwrap().join().unwrap().unwrap();
    assert!(code(&output) == 0 && text(&output.stdout) == lines, "{}", text(&output.stderr));
    // A reader that ends early ends neither the job nor this.
    let (from, mut to) = std::io::pipe().unwrap();
    let job = machines.job_with(
        &hosts,
        &["sh", "-c", "[ $EGRET_RANK = 1 ] || head -n 1; echo end"],
        from,
    );
    std::io::Write::write_all(&mut to, b"first\nsecond\n").unwrap();
    let output = job.end();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("first\n"), "{}", text(&output.stdout));
    machines.nothing_left();
}

/// Whoever is killed, all ends everywhere.
#[test]
fn nothing_stays_on_any_machine_whatever_is_killed() {
    let Some(machines) = Machines::make() else { return };
    for (machine, has) in [
        (1, "run-outpost --job"),
        (1, "run-outpost-launcher"),
        (0, "ssh -F"),
        (0, "run-launcher"),
        (0, " run --host"),
        (2, "sleep 60"),
    ] {
        let mut job = machines.job(&all(), &["--grace", "0.1", "sh", "-c", STAYS]);
        job.expect_lines(4, "here");
        kill(machines.process(machine, has), Signal::KILL);
        if has == "sleep 60" {
            // The shell has nothing to wait for any more, and ends well.
            job.signal(Signal::TERM);
        }
        job.end();
        machines.nothing_left();
    }
}

/// `EGRET_ROUNDS` says how often, `EGRET_SEED` from where.
#[test]
fn nothing_stays_on_any_machine_whatever_is_killed_whenever() {
    let Some(machines) = Machines::make() else { return };
    let (seed, rounds) = seed_and_rounds(6);
    for round in 0..rounds {
        let dice = &mut Dice(seed.wrapping_add(round));
        let (options, script) = (["--grace", "0.1", "--copy"], ["sh", "-c", "sleep 60 & wait"]);
        let job = match round % 2 {
            0 => machines.job(&all(), &[&options[..], &script].concat()),
            _ => {
                let open = ["--open", "--listen", HOSTS[0]];
                machines.job("localhost:1", &[&options[..], &open, &script].concat())
            }
        };
        // Every other job grows when somebody is killed.
        let hosts = format!("{}:2,{}:1", HOSTS[1], HOSTS[2]);
        rt::sleep(Duration::from_micros(dice.below(750_000)));
        let add =
            (round % 2 == 1).then(|| machines.begin_change(&["--add", "3", "--host", &hosts]));
        rt::sleep(Duration::from_micros(dice.below(750_000)));
        let here = (0..HOSTS.len()).flat_map(|machine| machines.processes(machine));
        // What the start files of the shell run on a machine has its own locks, which it would leave behind.
        let here = here.filter(|(_, line)| line.contains("egret") || line.starts_with("sleep"));
        let whom = dice.one_of(&here.collect::<Vec<_>>());
        eprintln!("seed {seed}, round {round}: killing {whom:?}");
        if let Some((pid, _)) = whom {
            kill(pid, Signal::KILL);
        }
        rt::sleep(Duration::from_micros(dice.below(300_000)));
        // The end of some is no failure of the job; then it is asked to end.
        job.signal(Signal::INT);
        job.signal(Signal::INT);
        job.end();
        add.into_iter().for_each(|mut add| drop(add.wait()));
        machines.nothing_left();
    }
}

#[test]
fn a_machine_that_is_cut_off_is_lost_and_ends_its_processes() {
    let Some(machines) = Machines::make() else { return };
    let mut job = machines.job(&all(), &["--grace", "0.1", "sh", "-c", STAYS]);
    job.expect_lines(4, "here");
    machines.set_cable(1, false);
    let output = job.end();
    let said = text(&output.stderr);
    assert_eq!(code(&output), 137, "{said}");
    assert!(said.contains("host 10.214.7.2 is lost: nothing was heard of it"), "{said}");
    assert!(said.contains("rank 1 was lost with its machine"), "{said}");
    machines.nothing_left();
}

#[test]
fn a_job_outlives_a_machine_if_it_is_to() {
    let Some(machines) = Machines::make() else { return };
    let script = "echo here; sleep 4; echo done $EGRET_RANK";
    let mut job = machines.job(&all(), &["--on-death", "go-on", "sh", "-c", script]);
    job.expect_lines(4, "here");
    kill(machines.process(1, "run-outpost-launcher"), Signal::KILL);
    let output = job.end();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(code(&output), 137, "{err}");
    assert_eq!(out.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["done 0", "done 3"]), "{err}");
    assert!(
        err.contains("2 of 4 processes failed: rank 1 was lost with its machine, rank 2"),
        "{err}"
    );
    machines.nothing_left();
}

#[test]
fn what_cannot_be_started_is_said_with_the_machine() {
    let Some(machines) = Machines::make() else { return };
    let (there, nowhere) = (format!("{}:2", HOSTS[1]), "10.214.7.9:1");
    for (hosts, args, expected, with) in [
        (
            &*there,
            &["./no-such"][..],
            127,
            "host 10.214.7.2 starts nothing: there is no `./no-such`",
        ),
        (nowhere, &["true"], 1, "host 10.214.7.9 was not reached"),
        (
            &*there,
            &["--egret", "/no/egret", "true"],
            1,
            "is egret at the same place there (else --egret PATH)",
        ),
        (&*there, &["-n", "3", "true"], 2, "the machines take 2 processes, and 3 are to run"),
    ] {
        let output = machines.job(hosts, args).end();
        let said = text(&output.stderr);
        assert!(code(&output) == expected && said.contains(with), "{}: {said}", code(&output));
    }
    machines.nothing_left();
}
