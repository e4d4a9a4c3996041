//! Attacks on a pool from its network.
//!
//! Each test has four network namespaces. The registry and rank 0 are in the first, rank 1 is in the
//! second, and all that they say to each other over tcp goes through a program in the third, the
//! [relay](relay), which reads, keeps, changes, repeats, cuts or diverts it; what nodes
//! [say over udp](over_udp) goes through [another part](datagrams) of it. In the fourth is an
//! [impostor](impostor) who has the pool's secret, and the address of the first; or a third member.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod actor;
mod changed;
mod cut;
mod datagrams;
mod impostor;
mod impostors;
mod member;
mod over_udp;
mod recorded;
mod relay;
mod replayed;
mod rng;
mod scene;
mod spaces;

/// The process that others of these tests start.
#[test]
fn other() {
    match std::env::var(actor::PART).as_deref() {
        Ok("relay") => relay::run(),
        Ok("member") => member::run(),
        Ok("impostor") => impostor::run(),
        Ok(part) => panic!("{part}"),
        Err(_) => {}
    }
}
