//! A cluster in a unit test: loss, a partition that heals, a crash.
//!
//! The same seed gives the same run; `EGRET_SEED=7 cargo run --example faults`
//! gives another one.

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use egret::buf::Pool;
use egret::rt::Deadline;
use egret::sim::{Sim, seed_from_env};
use egret::vi::{Address, Descriptor, ViError, ViOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout();
    let sim = Sim::new(seed_from_env().unwrap_or(42));
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    sim.link("a", "b").latency(Duration::from_millis(5)).loss(0.05).reorder(0.1);
    sim.at(Duration::from_secs(1), |sim| sim.partition(&["a"], &["b"]));
    sim.at(Duration::from_secs(3), |sim| sim.heal());
    sim.at(Duration::from_secs(10), |sim| sim.crash("b"));

    let options = ViOptions::default();
    let listener = b.listen("log", 0, &options)?;
    let connecting = a.connect(&Address::new("b", "log", 0), &options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT)?;
    let here = a.block_on(connecting)?;

    let pool = Pool::new(64, 16)?;
    let mut delivered = 0;
    let end = loop {
        // The receiver posts; once it has crashed its posts are refused, and
        // the sender hears of the death by itself.
        let _ = there.post_recv(Descriptor::new(pool.take(8)?));
        let Ok(_) = here.post_send(Descriptor::new(pool.take(8)?).with_tag(delivered)) else {
            break here.error();
        };
        match here.send_queue().wait(Deadline::UntilDead)?.ok() {
            Ok(_) => delivered += 1,
            Err(why) => break Some(why),
        }
        while let Some(message) = there.recv_queue().poll() {
            drop(message);
        }
    };
    writeln!(out, "{delivered} messages, in order and once each, until {:?}", sim.elapsed())?;
    writeln!(out, "then: {}", end.as_ref().map_or("nothing".to_owned(), ViError::to_string))?;
    assert!(matches!(end, Some(ViError::PeerDied { .. })));
    drop((here, there));
    assert_eq!(pool.available(8), 16, "every buffer came back");
    Ok(())
}
