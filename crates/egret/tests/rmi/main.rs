//! Remote calls between real nodes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod awaited;
mod begun;
mod busy;
mod callbacks;
mod calls;
mod deadlines;
mod ends;
mod errors;
mod fair;
mod grid;
mod handlers;
mod in_order;
mod interfaces;
mod named;
mod nested;
mod pairs;
mod panics;
mod peer;
mod reports;
mod rounds;
mod serving;
mod sharing;
mod spaces;
mod traffic;

/// The process that others of these tests start.
#[test]
fn other() {
    if let Ok(part) = std::env::var(peer::PART) {
        peer::run(&part);
    }
}
