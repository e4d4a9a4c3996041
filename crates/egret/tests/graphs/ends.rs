//! Both ends of a connection, over every fabric.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use egret::fabric::Fabrics;
use egret::rt;
use egret::sim::Sim;
use egret::vi::{
    Address, Completion, CompletionQueue, Nic, NicOptions, Reliability, Secret, Trust, Vi,
    ViOptions,
};

use crate::world::LONG;

/// A connection; the simulated world is kept as long.
pub(crate) struct Ends {
    pub(crate) here: Vi,
    pub(crate) there: Vi,
    nics: [Nic; 2],
    /// The simulated world, in which nobody else drives.
    sim: Option<Sim>,
}

impl Ends {
    /// The next completion of a queue; both ends go on meanwhile.
    pub(crate) fn next(&self, queue: &CompletionQueue) -> Completion {
        if self.sim.is_some() {
            return queue.wait(LONG).unwrap();
        }
        let until = LONG.until().unwrap();
        loop {
            for nic in &self.nics {
                nic.poll();
            }
            if let Some(completion) = queue.take() {
                return completion;
            }
            assert!(rt::now() < until, "nothing completes");
        }
    }
}

/// One of each: fabric, trust, reliability.
pub(crate) const ALL: [&str; 5] = ["shm", "shm cooperating", "tcp", "sim", "udp"];

pub(crate) fn ends(name: &'static str) -> Ends {
    let options = match name {
        "udp" => ViOptions::of(Reliability::Delivery),
        _ => ViOptions::default(),
    };
    if name == "sim" {
        let sim = Sim::new(7);
        let (a, b) = (sim.nic("a"), sim.nic("b"));
        let listener = b.listen("graphs", 0, &options).unwrap();
        let connecting = a.connect(&Address::new("b", "graphs", 0), &options, LONG);
        let there = listener.wait_accept(LONG).unwrap();
        let here = a.block_on(connecting).unwrap();
        return Ends { here, there, nics: [a, b], sim: Some(sim) };
    }
    let (a, b) = (nic(name), nic(name));
    let listener = b.listen("graphs", 0, &options).unwrap();
    let to = Address::new(b.host(), "graphs", 0);
    let nic = a.clone();
    let connecting = rt::spawn("connects", move || nic.wait_connect(&to, &options, LONG));
    let there = listener.wait_accept(LONG).unwrap();
    let here = connecting.unwrap().join().unwrap().unwrap();
    let is_cooperating = there.trust() == Trust::Cooperating;
    assert_eq!(is_cooperating, name == "shm cooperating");
    Ends { here, there, nics: [a, b], sim: None }
}

fn nic(name: &str) -> Nic {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (fabric, trust) = match name {
        "shm cooperating" => ("shm", Trust::Cooperating),
        name => (name, Trust::Isolated),
    };
    let host = match fabric {
        "shm" => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("graphs-{}-{number}", std::process::id())
        }
        _ => "127.0.0.1".to_owned(),
    };
    static SECRET: LazyLock<Secret> = LazyLock::new(Secret::random);
    let options = NicOptions::new(&host).trust(trust).secret(SECRET.clone());
    Fabrics::default().open(fabric, options).unwrap()
}
