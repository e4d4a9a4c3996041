//! A peer that says nothing any more.

use std::time::Duration;

use super::super::datapath::SILENT;
use super::closing::{go_on, pair};
use crate::fabric::sim::{Fault, Sim};
use crate::vi::Lane;

#[test]
pub(super) fn a_peer_that_acknowledges_nothing_is_dead() {
    let sim = Sim::new(1);
    let (nics, [here, _there]) = pair(&sim, 0.0);
    // What is below finds out by itself, sooner.
    sim.plant(Fault::NeverDies);
    sim.links().loss(1.0);
    here.send_eager(Lane::Talk, 1, &[&[7; 300]]).unwrap();
    let began = sim.elapsed();
    go_on(&sim, &nics, began + Duration::from_secs(5));
    assert_eq!(here.error(), None, "it may still answer");
    go_on(&sim, &nics, began + Duration::from_secs(10));
    assert_eq!(here.error(), Some(SILENT));
}
