//! A node of the pool, and what it offers to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egret::node::{Config, Event, Node};
use egret::rmi::{Exported, Remoting};
use egret::vi::Encrypt;

use crate::actor::{obey, outcome};
use crate::scene::POOL;

/// What a node offers to others. Its names are what tests look for in what was recorded.
#[egret::remote]
pub(crate) trait MarkedPost {
    /// Says the text again, and who said it.
    fn marked_echo(&self, text: &str) -> String;
    /// Gives the numbers back, each with one added.
    fn add(&self, numbers: &[u64]) -> Vec<u64>;
}

/// The object behind it, which counts its calls.
#[derive(Debug, Default, Clone)]
pub(crate) struct Desk {
    pub(crate) calls: Arc<AtomicU64>,
}

#[egret::remote]
impl MarkedPost for Desk {
    fn marked_echo(&self, text: &str) -> String {
        self.calls.fetch_add(1, Ordering::Relaxed);
        format!("you say {text}")
    }
    fn add(&self, numbers: &[u64]) -> Vec<u64> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        numbers.iter().map(|number| number + 1).collect()
    }
}

pub(crate) use MarkedPostStub as DeskStub;

#[derive(Default)]
struct Member {
    node: Option<Node>,
    desk: Desk,
    exported: Option<Exported>,
}

/// Carries out the orders of a test.
pub(crate) fn run() {
    let mut member = Member::default();
    obey(|order| member.carry_out(order));
}

impl Member {
    fn carry_out(&mut self, order: &[&str]) -> String {
        match *order {
            ["join", registry, secret, encrypt, fabric, place] => {
                let encrypt = match encrypt {
                    "off" => Encrypt::Never,
                    _ => Encrypt::default(),
                };
                let config = Config::new(POOL).registry(registry).secret(secret.into());
                let config = config.fabrics(fabric).listen(place).encrypt(encrypt);
                let joined = Node::join(config.deadline(Duration::from_secs(5)));
                outcome(joined.map(|node| self.node = Some(node)))
            }
            ["leave"] => {
                (self.exported, self.node) = (None, None);
                "done".to_owned()
            }
            ["serve", name] => {
                let exported = self.node().export(self.desk.clone()).unwrap();
                let bound = outcome(exported.bind(name));
                self.exported = Some(exported);
                bound
            }
            ["bind", name, text] => outcome(self.node().bind(name, text.as_bytes())),
            ["call", name, text] => self.call(name, text),
            ["calls"] => self.desk.calls.load(Ordering::Relaxed).to_string(),
            ["died"] => {
                let mut events = self.node().events();
                let all = std::iter::from_fn(|| events.try_next());
                let is_bad = |event: &Event| match event {
                    Event::Died { node, .. } => node.rank < 2,
                    event => matches!(event, Event::RegistryLost { .. }),
                };
                all.filter(is_bad).count().to_string()
            }
            _ => panic!("{order:?}"),
        }
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("it has joined")
    }

    fn call(&self, name: &str, text: &str) -> String {
        let stub: DeskStub = match self.node().lookup(name, Duration::from_secs(5)) {
            Ok(stub) => stub,
            Err(why) => return format!("failed: {why:?}"),
        };
        match stub.with_deadline(Duration::from_secs(5)).marked_echo(text) {
            Ok(said) if said == format!("you say {text}") => "done".to_owned(),
            Ok(said) => format!("wrong: {said}"),
            Err(why) => format!("failed: {why:?}"),
        }
    }
}
