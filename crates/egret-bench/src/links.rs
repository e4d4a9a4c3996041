//! Links of benchmarks, driven by the thread that measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use egret::am::Endpoint;
use egret::link::{Links, LinksOptions};
use egret::rt;
use egret::vi::Nic;

use crate::side::PATIENCE;

/// The links of a nic whose both sides wait: no other thread needs to drive them.
pub(crate) fn open(nic: Nic) -> Result<Links> {
    Ok(Links::open(nic, LinksOptions::default().background(false))?)
}

/// Drives links until they have sent what they had to, and a network has told what it has.
pub(crate) fn finish(links: &Links) {
    let until = rt::now() + FINISHED;
    let mut polls = 0;
    while polls < POLLS || rt::now() < until {
        links.poll();
        polls += 1;
    }
}

/// How often the other side has said that a run is over.
#[derive(Debug, Default)]
pub(crate) struct RunEnds {
    told: Arc<AtomicU64>,
    runs: u64,
}

impl RunEnds {
    /// What counts them.
    pub(crate) fn told(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.told)
    }

    /// Counts the requests to a handler, which answers them.
    pub(crate) fn count(&self, endpoint: &Endpoint, handler: u8) {
        let told = self.told();
        endpoint.on(handler, move |request| {
            told.fetch_add(1, Ordering::Relaxed);
            request.reply(&[]);
        });
    }

    /// Drives links until the next run is over, and they have sent what they had to; `late` says
    /// what did not come for too long.
    pub(crate) fn wait_next(&mut self, links: &Links, late: &'static str) -> Result<()> {
        self.runs += 1;
        let is_over = || self.told.load(Ordering::Relaxed) >= self.runs;
        ensure!(links.drive(PATIENCE, is_over), late);
        finish(links);
        Ok(())
    }
}

/// After this, and so many looks, there was nothing else to do.
const FINISHED: Duration = Duration::from_millis(1);
const POLLS: u32 = 64;
