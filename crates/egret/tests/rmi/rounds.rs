//! Processes that are killed, panic, stop and come back: what calls say of it, and that
//! nothing is left behind.

use std::time::Duration;

use egret::node::Node;
use egret::node::registry::{Registry, RegistryOptions};
use egret::rmi::__private::calls_account;
use egret::rmi::{CallError, Exported, Remoting};
use egret::rt::Deadline;

use crate::grid::{Board, GridStub, SOON, wait};
use crate::peer::Peer;

/// How many rounds, if not the few that always run.
const ROUNDS: &str = "EGRET_ROUNDS";

/// The process that stays, with an object of its own.
struct Home {
    exported: Exported,
    node: Node,
    registry: Registry,
    fabric: &'static str,
    /// Its links with the registry, if they are those.
    alone: Vec<(usize, usize, usize)>,
}

/// What becomes of the other process.
#[derive(Debug, Clone, Copy)]
enum What {
    KillServer,
    PanicServer,
    ServerLeaves,
    StopServer,
    KillClient,
}

const ALL: [What; 5] =
    [What::KillServer, What::KillClient, What::PanicServer, What::StopServer, What::ServerLeaves];

impl Home {
    fn open(fabric: &'static str) -> Self {
        let options = RegistryOptions::new("rmi", 2).secret(crate::peer::SECRET.into());
        let registry = Registry::open(options).unwrap();
        let config = registry.config();
        let node = Node::join(config.fabrics(fabric)).unwrap();
        let exported = node.export(Board::default()).unwrap();
        exported.bind("home").unwrap();
        let mut home = Self { exported, node, registry, fabric, alone: Vec::new() };
        home.alone = home.links();
        home
    }

    fn round(&self, what: What) {
        match what {
            What::KillClient => self.kill_client(),
            what => self.server(what),
        }
    }

    fn server(&self, what: What) {
        let peer = Peer::start("serve", self.registry.address(), self.fabric);
        let grid: GridStub = self.node.lookup("grid", SOON).unwrap();
        grid.ping().unwrap();
        grid.put_row(3, &[1.5; 10_000]).unwrap();
        let calls: Vec<_> = (0..4).map(|_| grid.begin().sleep_ms(60_000)).collect();
        grid.ping().unwrap();
        // It waits for those that sleep, and others wait behind it.
        let waits = grid.begin().best(1);
        match what {
            What::StopServer => return Self::stopped(peer, &grid),
            What::PanicServer => peer.end(true),
            What::ServerLeaves => peer.end(false),
            _ => peer.kill(),
        }
        for call in calls {
            check(what, &call.wait().unwrap_err());
        }
        match waits.wait().unwrap_err() {
            CallError::PeerDied { .. } | CallError::UnknownObject { .. } => {}
            why => panic!("{why:?}"),
        }
        let gone = grid.ping().unwrap_err();
        assert!(matches!(gone, CallError::PeerDied { may_have_run: false, .. }), "{gone:?}");
    }

    /// Nothing is heard of it, and then it goes on.
    fn stopped(peer: Peer, grid: &GridStub) {
        peer.stop();
        let short = grid.with_deadline(Deadline::In(Duration::from_millis(20)));
        let late = short.ping().unwrap_err();
        assert!(matches!(late, CallError::Deadline { may_have_run: true, .. }), "{late:?}");
        let late = short.begin().best(7).wait().unwrap_err();
        assert!(matches!(late, CallError::Deadline { .. }), "{late:?}");
        peer.go_on();
        let again = grid.begin().ping();
        peer.kill();
        let died = again.wait();
        assert!(matches!(died, Ok(()) | Err(CallError::PeerDied { .. })), "{died:?}");
    }

    fn kill_client(&self) {
        let peer = Peer::start("call", self.registry.address(), self.fabric);
        wait("its calls arrive", || calls_account(&self.node).calls >= 3);
        peer.kill();
    }

    /// Links, calls and bytes, of all fabrics.
    fn links(&self) -> Vec<(usize, usize, usize)> {
        let accounts = self.node.links().iter().map(|(_, links)| links.account());
        accounts.map(|account| (account.links, account.calls, account.out_bytes)).collect()
    }

    /// What there is, once all is quiet.
    fn settle(&self) -> (usize, usize) {
        wait("calls are over", || calls_account(&self.node).calls == 0);
        wait("links are settled", || self.links() == self.alone);
        assert_eq!(calls_account(&self.node).objects, 1);
        let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
        (count("fd"), count("task"))
    }
}

/// What a call that ran says of the end of its node.
fn check(what: What, why: &CallError) {
    let CallError::PeerDied { why, may_have_run: true, .. } = why else {
        // Who leaves refuses what has not begun.
        assert!(matches!(what, What::ServerLeaves), "{what:?}: {why:?}");
        return;
    };
    if let What::PanicServer = what {
        assert!(why.contains("told to panic"), "{why}");
    }
}

fn rounds(fabric: &'static str) {
    let rounds = std::env::var(ROUNDS).map_or(10, |rounds| rounds.parse().unwrap());
    let home = Home::open(fabric);
    ALL.iter().for_each(|what| home.round(*what));
    let before = home.settle();
    for at in 0..rounds {
        home.round(ALL[at % ALL.len()]);
    }
    // Threads that have nothing to do end by themselves, files at once.
    wait("nothing is left", || {
        let now = home.settle();
        now.0 <= before.0 && now.1 <= before.1 + 2
    });
    drop(home.exported);
    assert_eq!(calls_account(&home.node).objects, 0);
}

#[test]
fn nothing_is_left_of_processes_that_end_over_shm() {
    rounds("shm");
}

#[test]
fn nothing_is_left_of_processes_that_end_over_tcp() {
    rounds("tcp");
}
