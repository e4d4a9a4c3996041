//! A pool of two in its namespaces, and who attacks it.

use std::env;
use std::process::Command;
use std::time::Duration;

use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Event, Events, Node};
use egret::rmi::{CallError, Exported, Remoting};
use egret::vi::{Encrypt, Secret};

use crate::actor::Actor;
use crate::member::{Desk, DeskStub};
use crate::spaces::{FALSE, HERE, OWN_PORT, Spaces, THERE};

/// Tells the process in the first namespace the names of all.
const SPACES: &str = "EGRET_TEST_ATTACK_SPACES";
pub(crate) const POOL: &str = "attack";
/// For what comes to its end at once, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The name of rank 0's object.
pub(crate) const HOME: &str = "desk-of-rank-zero";
/// The name of rank 2's, if there is one.
const ASIDE: &str = "desk-of-rank-two";
/// The name of rank 1's.
pub(crate) const AWAY: &str = "desk-of-rank-one";

/// The registry and rank 0, which are in this process, and the relay between them and all others.
pub(crate) struct Scene {
    pub(crate) relay: Actor,
    pub(crate) registry: Registry,
    pub(crate) home: Node,
    pub(crate) desk: Desk,
    _exported: Exported,
    spaces: Vec<String>,
    events: Events,
    fabric: &'static str,
}

impl Scene {
    pub(crate) fn open(encrypt: Encrypt) -> Self {
        Self::open_over("tcp", encrypt)
    }

    /// The nodes talk to each other over this fabric.
    pub(crate) fn open_over(fabric: &'static str, encrypt: Encrypt) -> Self {
        let spaces: Vec<_> = env::var(SPACES).unwrap().split('|').map(str::to_owned).collect();
        let mut relay = Actor::start(&spaces[2], "relay");
        relay.order("begin");
        let options = RegistryOptions::new(POOL, 3).secret(Secret::random()).listen(HERE);
        let registry = Registry::open(options).unwrap();
        let config = registry.config().fabrics(fabric).listen(HERE).rank(0).encrypt(encrypt);
        let home = Node::join(config).unwrap();
        let desk = Desk::default();
        let exported = home.export(desk.clone()).unwrap();
        exported.bind(HOME).unwrap();
        let events = registry.events();
        Self { relay, registry, home, desk, _exported: exported, spaces, events, fabric }
    }

    /// The process of rank 1, which is no member yet.
    pub(crate) fn peer(&self) -> Actor {
        Actor::start(&self.spaces[1], "member")
    }

    /// How rank 1 joins.
    pub(crate) fn joining(&self, encrypt: &str) -> String {
        self.joining_at(THERE, encrypt)
    }

    /// How a member joins that is to be found at this place.
    fn joining_at(&self, place: &str, encrypt: &str) -> String {
        let secret = self.registry.secret().and_then(Secret::reveal).unwrap();
        let (registry, fabric) = (self.registry.address(), self.fabric);
        format!("join {registry} {} {encrypt} {fabric} {place}", *secret)
    }

    /// The process of rank 1, which has joined and offers its desk.
    pub(crate) fn member(&self, encrypt: &str) -> Actor {
        let mut peer = self.peer();
        peer.order(&self.joining(encrypt));
        peer.order(&format!("serve {AWAY}"));
        peer
    }

    /// The process of rank 2, which has joined, offers its desk, and is beside the two others.
    pub(crate) fn third(&self) -> Actor {
        let mut third = Actor::start(&self.spaces[3], "member");
        third.order(&self.joining_at(&format!("{FALSE}:{OWN_PORT}"), "default"));
        third.order(&format!("serve {ASIDE}"));
        third
    }

    pub(crate) fn impostor(&self) -> Actor {
        Actor::start(&self.spaces[3], "impostor")
    }

    /// The secret of the pool, as one has it who does not know the registry's key.
    pub(crate) fn bare_secret(&self) -> String {
        let text = self.registry.secret().and_then(Secret::reveal).unwrap();
        text.rsplit_once('.').unwrap().0.to_owned()
    }

    /// Where rank 0 says it is.
    pub(crate) fn home_host(&self) -> String {
        self.host_of(0)
    }

    /// Where rank 1 says it is.
    pub(crate) fn away_host(&self) -> String {
        self.host_of(1)
    }

    /// Where a rank says it is, once rank 0 knows that rank, which may be later than its join ends.
    pub(crate) fn host_of(&self, rank: u32) -> String {
        let mut events = self.home.events();
        loop {
            if let Some(member) = self.home.id_of(rank).and_then(|node| self.home.member(node)) {
                return member.fabrics[0].host.clone();
            }
            events.wait_next(SOON).unwrap();
        }
    }

    /// Rank 1's desk, as rank 0 has it.
    pub(crate) fn away(&self) -> DeskStub {
        self.home.lookup(AWAY, SOON).unwrap()
    }

    /// Asks rank 1 to say a text after us, and that it says no other.
    pub(crate) fn talk(&self, away: &DeskStub, text: &str) -> Result<(), CallError> {
        let said = away.with_deadline(Duration::from_secs(5)).marked_echo(text)?;
        assert_eq!(said, format!("you say {text}"), "another answer than was given");
        Ok(())
    }

    /// Which of the two has died, as the registry knows, since this was last asked.
    pub(crate) fn died(&mut self) -> usize {
        let events = std::iter::from_fn(|| self.events.try_next());
        events.filter(|event| matches!(event, Event::Died { node, .. } if node.rank < 2)).count()
    }
}

/// Runs one in the first of its namespaces, in a process of its own.
#[expect(clippy::print_stdout, reason = "why a test is skipped")]
pub(crate) fn play(test: &str, part: fn()) {
    if env::var(SPACES).is_ok() {
        return part();
    }
    let spaces = match Spaces::make() {
        Ok(spaces) => spaces,
        Err(why) => return println!("skipped: no network namespaces with nft here: {why}"),
    };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &spaces.0[0]]).arg(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(SPACES, spaces.0.join("|"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{errors}{said}");
}
