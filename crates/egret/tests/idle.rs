//! A node that has nothing to do wakes seldom, whoever waits.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::fs;
use std::time::Duration;

use egret::node::Node;
use egret::node::registry::{Operator, Registry, RegistryOptions};
use egret::rmi::Remoting;
use egret::rt;

#[egret::remote]
trait Nothing {
    fn plain(&self);
    #[nonblocking]
    fn inline(&self);
}

struct It;

#[egret::remote]
impl Nothing for It {
    fn plain(&self) {}
    fn inline(&self) {}
}

/// How often the threads of this process have slept, those of the test's own not counted.
fn sleeps() -> u64 {
    let of_thread = |path: std::path::PathBuf| {
        let name = fs::read_to_string(path.join("comm")).ok()?;
        let status = fs::read_to_string(path.join("status")).ok()?;
        let count =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        name.starts_with("egret").then(|| count.trim().parse::<u64>().ok())?
    };
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads.filter_map(|thread| of_thread(thread.unwrap().path())).sum()
}

/// Two nodes and a registry: about one wake-up a second each, to tell that they live. There is one
/// test in this file, so that no other thread is counted.
#[test]
fn idle_nodes_sleep() {
    waiting_for_a_registry();
    let registry = Registry::open(RegistryOptions::new("idle", 2).secret("hush".into())).unwrap();
    let join = || {
        let config = registry.config();
        Node::join(config).unwrap()
    };
    let (server, client) = (join(), join());
    let exported = server.export(It).unwrap();
    let stub: NothingStub = client.stub(exported.object());
    let calls = || {
        for _ in 0..200 {
            stub.plain().unwrap();
            stub.inline().unwrap();
        }
    };
    calls();
    check("nobody waits", MOST);
    // A thread that serves, and sleeps: the one in the background has nothing to look for.
    let handle = server.handle();
    let waits = rt::spawn("waits", move || handle.serve(Duration::from_secs(20), || false));
    calls();
    check("a thread serves", MOST);
    assert!(!waits.unwrap().join().unwrap());
}

/// A node that joins where no registry is yet.
fn waiting_for_a_registry() {
    let operator = Operator::random();
    let open = |listen: &str| {
        let options = RegistryOptions::new("late", 1).operator(&operator).listen(listen);
        Registry::open(options).unwrap()
    };
    let before = open("127.0.0.1:0");
    let (config, address) = (before.config(), before.address().to_owned());
    drop(before);
    let config = config.deadline(Duration::from_secs(60));
    let joins = rt::spawn("egret joins", move || Node::join(config).map(drop)).unwrap();
    check("a node waits for its registry", ATTEMPTS);
    let registry = open(&address);
    joins.join().unwrap().unwrap();
    drop(registry);
}

fn check(when: &str, most: u64) {
    // What was going on comes to its end; on a busy machine later.
    let mut counts = Vec::new();
    while counts.len() < 4 && counts.last().is_none_or(|count| *count > most) {
        rt::sleep(Duration::from_secs(1));
        let before = sleeps();
        rt::sleep(Duration::from_secs(3));
        counts.push(sleeps() - before);
    }
    assert!(counts.last() <= Some(&most), "{when}: {counts:?} wake-ups in three seconds each");
}

/// Each second each of two nodes tells the registry that it lives and hears the answer, and the
/// registry hears both: 18 wake-ups in three seconds, and twice as much, for on a busy machine what comes
/// in one piece is seen in several.
const MOST: u64 = 54;
/// A node that waits for its registry tries ten times a second, and sleeps before each try and before
/// the answer; and twice as much.
const ATTEMPTS: u64 = 120;
