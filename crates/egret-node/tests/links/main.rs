//! Links between processes, threads and network namespaces.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod alarms;
mod flood;
mod flooded;
mod heard;
mod peer;
mod processes;
mod rounds;
mod spaces;
mod threads;

use std::time::Duration;

use egret_net::fabric::Fabrics;
use egret_net::rt::{self, Deadline};
use egret_net::vi::NicOptions;
use egret_node::am::{Endpoint, EndpointName, RemoteEndpoint};
use egret_node::{Links, LinksOptions};

const LONG: Duration = Duration::from_secs(60);

/// Not a test by itself: the other process.
#[test]
fn other() {
    let Ok(part) = std::env::var(peer::PART) else { return };
    match part.strip_prefix(rounds::PREFIX) {
        Some(part) => rounds::run(part),
        None => peer::run(&part),
    }
}

fn open(fabric: &str, name: &str, options: LinksOptions) -> Links {
    let nic = NicOptions::new(name).secret(SECRET.into());
    Links::open(Fabrics::default().open(fabric, nic).unwrap(), options).unwrap()
}

/// Maps an endpoint of a host that may still have to open it.
fn map(mine: &Endpoint, host: &str, name: &str) -> RemoteEndpoint {
    let to = EndpointName::new(host, name, 0);
    let end = rt::now() + LONG;
    loop {
        match mine.wait_map(&to, Deadline::In(LONG)) {
            Ok(remote) => return remote,
            Err(why) => assert!(rt::now() < end, "{why}"),
        }
        rt::sleep(Duration::from_millis(5));
    }
}

/// A secret that nobody could guess, had it not been written here.
const SECRET: &str = "egret1.6c696e6b736c696e6b736c696e6b736c696e6b736c696e6b736c696e6b736c69";
