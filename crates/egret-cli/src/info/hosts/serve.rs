//! `egret info-host`: answers for its machine until nothing is asked any more.

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::rt;
use rustix::process::{Resource, getrlimit};
use rustix::stdio::stdin;

use super::clock;
use super::link::TimedInput;
use super::message::{GREETING, HostFabric, HostReport, InfoAnswer, InfoOrder, MESSAGE_MAX};
use super::{pairs, ports};
use crate::info::fabrics::{self, FabricReport};
use crate::info::grants;
use crate::info::machine::MachineReport;
use crate::run::{Frame, PROTOCOL, connection};

/// How another machine asks about this one.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoHostArgs {}

/// Answers what is asked on the standard input, and ends with it, or when nothing was asked for a while.
pub(crate) fn serve(_: &InfoHostArgs) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(GREETING)?;
    out.flush()?;
    let (asked, orders) = std::sync::mpsc::channel();
    let input = fs::File::from(stdin().try_clone_to_owned()?);
    let thread = rt::spawn("orders", move || {
        let mut input = TimedInput::new(input);
        loop {
            input.set_deadline(ORDER_WITHIN);
            match Frame::read(&mut input, MESSAGE_MAX) {
                Ok(Some(Frame::Said(order))) => _ = asked.send(order),
                // Nothing is left behind, whatever the main thread waits for.
                _ => std::process::exit(0),
            }
        }
    });
    thread.context("starting a thread for orders")?;
    for order in orders {
        let answer = match order {
            InfoOrder::Report => InfoAnswer::Report(Box::new(report())),
            InfoOrder::Time => InfoAnswer::Time(clock::time_ns()),
            InfoOrder::Listen { place, token } => InfoAnswer::Listens(ports::listen(place, token)),
            InfoOrder::Reach { peers, token } => InfoAnswer::Reached(pairs::reach(&peers, token)),
        };
        out.write_all(&Frame::said(&answer)?)?;
        out.flush()?;
    }
    Ok(())
}

fn report() -> HostReport {
    let machine = MachineReport::this();
    let fabric = |fabric: FabricReport| {
        let FabricReport { name, available, why, .. } = fabric;
        HostFabric { name: name.to_owned(), available, why }
    };
    // The simulator carries no job.
    let fabrics = fabrics::all().into_iter().filter(|fabric| fabric.name != "sim");
    let denied = grants::all().into_iter().filter(|grant| !grant.granted);
    let files = getrlimit(Resource::Nofile);
    let (asked_from, address) = connection().map_or((None, None), |(from, to)| (Some(from), to));
    HostReport {
        egret: env!("CARGO_PKG_VERSION").to_owned(),
        optimized: !cfg!(debug_assertions),
        job_protocol: PROTOCOL,
        wire_protocol: egret::vi::PROTOCOL_VERSION,
        architecture: machine.architecture.to_owned(),
        byte_order: if cfg!(target_endian = "little") { "little" } else { "big" }.to_owned(),
        cores: machine.cores,
        fabrics: fabrics.map(fabric).collect(),
        denied: denied.map(|grant| grant.name.to_owned()).collect(),
        lockable_bytes: machine.lockable_bytes,
        files: files.current,
        files_max: files.maximum,
        ports: ports_of_system(),
        address,
        asked_from,
    }
}

/// From which the system chooses where nodes listen.
fn ports_of_system() -> (u16, u16) {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ports = text.split_whitespace().filter_map(|port| port.parse().ok());
    // What Linux has if nothing else is said.
    (ports.next().unwrap_or(32768), ports.next().unwrap_or(60999))
}

/// Time from one order to the next: the other machines may take a while.
const ORDER_WITHIN: Duration = Duration::from_secs(120);
