//! The fabrics, each with a nic that was really opened.

use egret::fabric::Fabrics;
use egret::rt;
use egret::vi::{Limits, Reliability};
use serde::Serialize;

/// A fabric, or why there is none.
#[derive(Debug, Serialize)]
pub(crate) struct FabricReport {
    pub(crate) name: &'static str,
    pub(crate) available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<LimitsInfo>,
    /// The levels of trust it knows.
    pub(crate) trust: Vec<&'static str>,
}

/// What its nic allows.
#[derive(Debug, Serialize)]
pub(crate) struct LimitsInfo {
    pub(crate) queue_depth: u32,
    pub(crate) transfer_max: u64,
    pub(crate) segments_max: u32,
    pub(crate) registrable_max: u64,
    pub(crate) pin_threshold: u64,
    pub(crate) reliability: Vec<&'static str>,
}

/// Every fabric of this build.
pub(crate) fn all() -> Vec<FabricReport> {
    let fabrics = Fabrics::default();
    fabrics.names().map(|name| one(&fabrics, name)).collect()
}

fn one(fabrics: &Fabrics, name: &'static str) -> FabricReport {
    let host = format!("info-{}-{}", std::process::id(), rt::random());
    let (limits, why) = match fabrics.open(name, host.as_str()) {
        Ok(nic) => (Some(LimitsInfo::from(nic.limits())), None),
        Err(error) => (None, Some(error.to_string())),
    };
    FabricReport { name, available: limits.is_some(), why, limits, trust: trust_of(name) }
}

/// The levels of trust that a fabric knows: the simulator has no processes.
fn trust_of(name: &str) -> Vec<&'static str> {
    if name == "shm" { vec!["isolated", "cooperating"] } else { vec!["isolated"] }
}

impl From<Limits> for LimitsInfo {
    fn from(limits: Limits) -> Self {
        let levels = [
            (Reliability::Unreliable, "unreliable"),
            (Reliability::Delivery, "delivery"),
            (Reliability::Reception, "reception"),
        ];
        let offered = levels.into_iter().filter(|(level, _)| limits.offers(*level));
        Self {
            queue_depth: limits.queue_depth,
            transfer_max: limits.transfer_max,
            segments_max: limits.segments_max,
            registrable_max: limits.registrable_max,
            pin_threshold: limits.pin_threshold,
            reliability: offered.map(|(_, name)| name).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_that_does_not_open_says_why() {
        let info = one(&Fabrics::default(), "nonesuch");
        assert!(!info.available && info.limits.is_none());
        assert!(info.why.unwrap().contains("no fabric"));
    }

    #[test]
    fn limits_are_those_of_the_nic() {
        let mut limits = Limits::least();
        limits.reliability = [false, false, true];
        limits.queue_depth = 7;
        let info = LimitsInfo::from(limits);
        assert_eq!((info.queue_depth, info.reliability), (7, vec!["reception"]));
    }
}
