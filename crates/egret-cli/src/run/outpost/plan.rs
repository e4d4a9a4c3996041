//! `egret run --dry-run`: what would be started where.

use std::ffi::OsStr;
use std::io::Write;

use anyhow::Result;

use super::JobPlace;
use super::remote::{egret_of, outpost_args};
use crate::run::args::Job;
use crate::system::quoted;

/// Says for each machine which processes it gets, and how they are started.
pub(crate) fn say_plan(job: &Job, places: &[JobPlace]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (transport, egret) = (job.options.transport(), egret_of(job)?);
    let program = [&job.program].into_iter().chain(&job.args);
    let program = line(program.map(|word| word.as_os_str()));
    let others = places.iter().filter(|place| place.host.is_some());
    let mut numbers = others.clone().zip(0..);
    for place in places {
        let ranks = match place.ranks.len() {
            1 => format!("rank {}", place.ranks.start),
            _ => format!("ranks {} to {}", place.ranks.start, place.ranks.end - 1),
        };
        match &place.host {
            None => writeln!(out, "this machine, {ranks}: {program}")?,
            Some(host) => {
                let number = numbers.next().map_or(0, |(_, number)| number);
                let words = transport.words(host, &egret, &outpost_args("JOB", number));
                writeln!(out, "host {host}, {ranks}: {program}")?;
                writeln!(out, "  reached by: {}", line(words.iter().map(|word| word.as_os_str())))?;
            }
        }
    }
    let listen = match (&job.options.registry, &job.options.listen) {
        (Some(address), _) => format!("at {address}, which runs already"),
        (None, Some(listen)) => format!("in this command, listening at {listen}"),
        (None, None) if others.count() == 0 => "in this command, listening on loopback".to_owned(),
        (None, None) => {
            "in this command, listening at the address of this machine that the others see"
                .to_owned()
        }
    };
    writeln!(out, "registry: {listen}")?;
    Ok(out.flush()?)
}

/// Words as a shell reads them.
fn line<'a>(words: impl Iterator<Item = &'a OsStr>) -> String {
    words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}
