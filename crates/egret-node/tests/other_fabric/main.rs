//! A fabric of another crate, written against public items alone: nics of one process that pass
//! packets through a switch. It carries posted messages only, so eager ones go over these. It
//! passes the conformance suite.
//!
//! | file | what it does |
//! |---|---|
//! | `switch.rs` | what all nics share: who is there, who listens, packets on their way |
//! | `machine.rs`, `attempt.rs` | a nic: listening, connecting, its connections |
//! | `conn.rs` | one end of a connection: post and arrive |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod attempt;
mod conn;
mod machine;
mod switch;

use std::sync::Arc;

use egret_net::conformance::{Failure, Profile, cases, run_all, run_on_threads};
use egret_net::fabric::{Fabric, Fabrics, OpenError};
use egret_net::rt::Deadline;
use egret_net::vi::{Address, Lane, Nic, NicOptions, ViOptions, Wait};

use self::machine::SwitchedMachine;
use self::switch::Switch;

/// The fabric: its nics are those of one switch.
#[derive(Debug, Default)]
struct Switched {
    switch: Arc<Switch>,
    /// Whether its nics have no descriptor.
    is_silent: bool,
}

impl Fabric for Switched {
    fn name(&self) -> &'static str {
        "switched"
    }

    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
        let machine = SwitchedMachine::open(&options.host, &self.switch, self.is_silent)?;
        Ok(Nic::new(Box::new(machine), options.wait))
    }
}

fn all_cases(wait: Wait, is_silent: bool) {
    let nics = move || {
        let fabric = Switched { is_silent, ..Switched::default() };
        ["caller", "answerer"].map(|host| fabric.open(&NicOptions::new(host).wait(wait)).unwrap())
    };
    let profile = Profile { kills: false, largest: 4 << 20, ..Profile::default() };
    let cases = cases(&nics()[0].limits(), &profile);
    assert!(cases.len() > 50, "{} cases", cases.len());
    let failures = run_all(cases, move |case| run_on_threads(case, &profile, nics()));
    let failures: Vec<String> = failures.iter().map(Failure::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn conformance() {
    all_cases(Wait::Balanced, false);
}

#[test]
fn conformance_asleep() {
    all_cases(Wait::Frugal, false);
}

#[test]
fn conformance_without_a_descriptor() {
    all_cases(Wait::Frugal, true);
}

#[test]
fn a_program_opens_it_by_name_and_sends_eager_messages() {
    let mut fabrics = Fabrics::default();
    fabrics.add(Arc::new(Switched::default()));
    let [a, b] = ["a", "b"].map(|host| fabrics.open("switched", host).unwrap());
    assert!(fabrics.open("switched", "a").is_err(), "the name is taken");
    let options = ViOptions::default();
    let listener = b.listen("echo", 7, &options).unwrap();
    let connecting = a.connect(&Address::new("b", "echo", 7), &options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let here = a.block_on(connecting).unwrap();
    assert_eq!((here.peer(), there.peer()), ("b", "a"));
    here.send_eager(Lane::Talk, 1, &[b"to ", b"you"]).unwrap();
    let answer = |reply: &mut dyn egret_net::vi::Reply, tag, bytes: &[u8]| {
        reply.send(Lane::Bulk, tag + 1, &[bytes]).unwrap();
    };
    there.drain().wait(4, Deadline::DEFAULT, answer).unwrap();
    let mut got = Vec::new();
    let note =
        |_: &mut dyn egret_net::vi::Reply, tag, bytes: &[u8]| got.push((tag, bytes.to_vec()));
    here.drain().wait(4, Deadline::DEFAULT, note).unwrap();
    assert_eq!(got, [(2, b"to you".to_vec())]);
}
