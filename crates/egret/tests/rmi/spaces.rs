//! Calls over `tcp` between two network namespaces, and a cut between them.

use std::env;
use std::process::{Command, Output};
use std::time::Duration;

use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Event, Node, NodeId};
use egret::rmi::__private::calls_account;
use egret::rmi::{CallError, Remoting};
use egret::rt::{self, Deadline};

use crate::grid::{Board, GridStub, LONG, SOON};
use crate::peer::Peer;

/// Tells the process in the first of them the name of the second.
const SPACES: &str = "EGRET_TEST_RMI_SPACE";
const HERE: &str = "10.213.11.1";
const THERE: &str = "10.213.11.2";
/// The name of the cable's end, in both.
const LINK: &str = "egret";

/// Two namespaces with a cable between them, which go when this goes.
struct Spaces([String; 2]);

impl Spaces {
    fn make() -> Result<Self, String> {
        let number = std::process::id();
        let spaces = Self(["a", "b"].map(|side| format!("egret-rmi-{number}-{side}")));
        let [a, b] = &spaces.0;
        run("ip", &["netns", "add", a])?;
        run("ip", &["netns", "add", b])?;
        let cable = ["link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", b];
        run("ip", &[&["-n", a][..], &cable].concat())?;
        for (space, address) in [(a, HERE), (b, THERE)] {
            run("ip", &["-n", space, "address", "add", &format!("{address}/24"), "dev", LINK])?;
            run("ip", &["-n", space, "link", "set", "lo", "up"])?;
            run("ip", &["-n", space, "link", "set", LINK, "up"])?;
        }
        spaces.0.iter().for_each(|space| wait_up(space));
        Ok(spaces)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            _ = run("ip", &["netns", "delete", name]);
        }
    }
}

/// Waits until the system takes the cable for one that is there.
fn wait_up(space: &str) {
    let is_up = || {
        let shown = run("ip", &["-n", space, "link", "show", LINK]).unwrap().stdout;
        String::from_utf8_lossy(&shown).contains("state UP")
    };
    let until = rt::now() + LONG;
    while !is_up() {
        assert!(rt::now() < until, "the cable in {space} is not up");
        rt::sleep(Duration::from_millis(5));
    }
}

fn run(program: &str, args: &[&str]) -> Result<Output, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|why| format!("{program}: {why}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[test]
fn a_cut_between_two_networks_ends_calls_and_nodes() {
    const TEST: &str = "spaces::a_cut_between_two_networks_ends_calls_and_nodes";
    if let Ok(there) = env::var(SPACES) {
        return cut(&there);
    }
    let spaces = match Spaces::make() {
        Ok(spaces) => spaces,
        Err(why) => return println!("skipped: no network namespaces here: {why}"),
    };
    let [a, b] = &spaces.0;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", a]).arg(env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).env(SPACES, b);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
}

fn cut(space: &str) {
    let options = RegistryOptions::new("rmi", 4).secret(crate::peer::SECRET.into()).listen(HERE);
    let registry = Registry::open(options.patience(Duration::from_secs(2))).unwrap();
    let [home, beside] = [(); 2].map(|()| {
        let config = registry.config();
        Node::join(config.fabrics("tcp")).unwrap()
    });
    let exported = home.export(Board::default()).unwrap();
    exported.bind("home").unwrap();
    let server = Peer::start_in(Some(space), "serve", registry.address(), "tcp");
    let client = Peer::start_in(Some(space), "call", registry.address(), "tcp");
    let grid: GridStub = home.lookup("grid", SOON).unwrap();
    let row = vec![0.5; 100_000];
    grid.put_row(1, &row).unwrap();
    assert_eq!(grid.row(1).unwrap(), row);
    let other = grid.object().node;
    assert!(home.route(other).unwrap().host.contains(THERE), "by the cable");
    let patient = grid.with_deadline(Deadline::UntilDead);
    let (begun, waits) = (patient.begin().sleep_ms(600_000), patient.begin().best(1));

    link(space, "down");
    let short = grid.with_deadline(Duration::from_millis(300));
    let late = short.ping().unwrap_err();
    assert!(matches!(late, CallError::Deadline { may_have_run: true, .. }), "{late:?}");
    let late = short.begin().hints().wait().unwrap_err();
    assert!(matches!(late, CallError::Deadline { .. }), "{late:?}");
    for node in [&home, &beside] {
        assert_eq!(deaths(node, 2).iter().filter(|node| **node == other).count(), 1);
    }
    let died = begun.wait();
    assert!(matches!(died, Err(CallError::PeerDied { may_have_run: true, .. })), "{died:?}");
    let died = waits.wait();
    assert!(matches!(died, Err(CallError::PeerDied { .. })), "{died:?}");
    let gone = grid.ping().unwrap_err();
    assert!(matches!(gone, CallError::PeerDied { may_have_run: false, .. }), "{gone:?}");
    let until = rt::now() + LONG;
    while calls_account(&home).calls > 0 {
        assert!(rt::now() < until, "the calls of who was cut off: {:?}", calls_account(&home));
        rt::sleep(Duration::from_millis(2));
    }
    // It has its own calls, and finds out by itself.
    client.wait();

    link(space, "up");
    wait_up(space);
    let gone = grid.ping().unwrap_err();
    assert!(matches!(gone, CallError::PeerDied { .. }), "who is dead stays so: {gone:?}");
    let again = Peer::start_in(Some(space), "serve", registry.address(), "tcp");
    let grid: GridStub = home.lookup("grid", SOON).unwrap();
    assert_ne!(grid.object().node, other);
    assert_eq!(grid.row(1).unwrap(), Vec::<f64>::new(), "it is another");
    drop((server, again));
}

fn link(space: &str, state: &str) {
    run("ip", &["-n", space, "link", "set", LINK, state]).unwrap();
}

/// Waits until so many nodes have died.
fn deaths(node: &Node, count: usize) -> Vec<NodeId> {
    let (mut events, mut dead) = (node.events(), Vec::new());
    while dead.len() < count {
        match events.wait_next(SOON).unwrap() {
            Event::Died { node, why } => {
                assert!(!why.is_empty());
                dead.push(node);
            }
            Event::RegistryLost { why } => panic!("{why}"),
            _ => {}
        }
    }
    dead
}
