//! Tests of ports: trials over seeds in simulated clusters, and planted faults.

mod planted;
mod trial;
