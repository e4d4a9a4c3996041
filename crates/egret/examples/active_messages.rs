//! Two nodes of one process and a counter that both can reach: requests, messages that are not
//! answered, data that lands in buffers supplied for it, and what comes back undelivered.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use egret::am::{EndpointName, Message};
use egret::buf::Pool;
use egret::fabric::{Fabric, shm::ShmFabric};
use egret::link::{Links, LinksOptions};
use egret::rt::Deadline;
use egret::vi::NicOptions;

const ADD: u8 = 0;
const READ: u8 = 1;
const KEEP: u8 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let (near, far) = (links("near")?, links("far")?);

    // Messages of a bundle are served one at a time, so the two handlers never overlap.
    let counter = far.bundle().register("counter", 1)?;
    let total = Arc::new(AtomicU64::new(0));
    let (adds, reads) = (Arc::clone(&total), total);
    counter.on(ADD, move |request| {
        adds.fetch_add(request.words()[0], Ordering::Relaxed);
    });
    counter.on(READ, move |request| {
        request.reply(&[reads.load(Ordering::Relaxed)]);
    });
    // Data lands in these buffers; the handler keeps it where it is.
    let pool = Pool::new(1 << 16, 8)?;
    for _ in 0..4 {
        counter.supply(pool.take(1 << 16)?);
    }
    let (keep, kept) = mpsc::channel();
    counter.on(KEEP, move |mut request| {
        let _ = keep.send(request.hold());
        request.reply(&[]);
    });

    let mine = near.bundle().endpoint(0);
    let (lost, undelivered) = mpsc::channel();
    mine.on_error(move |message| drop(lost.send((message.handler, message.reason))));
    let remote = mine.wait_map(&EndpointName::new(far.host(), "counter", 1), Deadline::DEFAULT)?;

    for i in 1..=1000 {
        remote.wait_send(Message::to(ADD).words(&[i]), Deadline::DEFAULT)?;
    }
    let sum = remote.wait_call(READ, Deadline::DEFAULT)?;
    let mut out = io::stdout();
    writeln!(out, "1 + … + 1000 = {}", sum.words()[0])?;

    let numbers: Vec<f64> = (0..8192).map(f64::from).collect();
    let mut reply = remote.wait_call(Message::to(KEEP).data(numbers), Deadline::DEFAULT)?;
    let numbers = reply.take_sent().expect("it comes back").into_vec::<f64>().expect("as it was");
    let data = kept.recv()?;
    writeln!(out, "{} numbers, in a supplied buffer: {}", numbers.len(), data.is_resident())?;

    remote.wait_send(Message::to(9).words(&[1]), Deadline::DEFAULT)?;
    let mut back = None;
    near.drive(Deadline::DEFAULT, || {
        back = undelivered.try_recv().ok();
        back.is_some()
    });
    if let Some((handler, reason)) = back {
        writeln!(out, "to handler {handler}: {reason}")?;
    }
    Ok(())
}

fn links(name: &str) -> Result<Links, Box<dyn Error>> {
    let nic = ShmFabric.open(&NicOptions::new(&format!("{name}-{}", std::process::id())))?;
    Ok(Links::open(nic, LinksOptions::default())?)
}
