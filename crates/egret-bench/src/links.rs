//! Links of benchmarks: whoever measures drives them.

use std::time::Duration;

use anyhow::Result;
use egret::link::{Links, LinksOptions};
use egret::rt;
use egret::vi::Nic;

/// The links of a nic whose both sides wait: nobody else needs to drive them.
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

/// After this, and so many looks, there was nothing else to do.
const FINISHED: Duration = Duration::from_millis(1);
const POLLS: u32 = 64;
