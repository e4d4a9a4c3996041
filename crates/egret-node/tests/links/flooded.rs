//! A server that one peer keeps busy hears the others all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use egret_net::rt;
use egret_node::LinksOptions;
use egret_node::am::Message;

use crate::{LONG, map, open};

/// More than a look goes to each time.
const OTHERS: usize = 10;

#[test]
fn a_flooded_server_serves_other_peers() {
    for fabric in ["shm", "tcp"] {
        let name = |who: &str| match fabric {
            "shm" => format!("{who}-{}-{}", std::process::id(), rt::random()),
            _ => "127.0.0.1".to_owned(),
        };
        let mut alone = LinksOptions::default();
        alone.background = false;
        let server = open(fabric, &name("server"), alone);
        let served = server.bundle().register("served", 0).unwrap();
        served.on(0, |_| {});
        served.on(1, |request| request.reply(&[7]));
        served.on(2, |request| {
            let bytes = request.bytes().len() as u64;
            request.reply(&[bytes]);
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (host, serving) = (server.host().to_owned(), Arc::clone(&stop));
        let serves = rt::spawn("serves", move || {
            server.drive(LONG, || serving.load(Ordering::Relaxed));
            drop(served);
        });
        let (flooded, floods, of) = (Arc::clone(&stop), name("floods"), host.clone());
        let flood = rt::spawn("floods", move || {
            let links = open(fabric, &floods, LinksOptions::default());
            let mine = links.bundle().endpoint(0);
            let served = map(&mine, &of, "served");
            let mut sent = 0_u64;
            while !flooded.load(Ordering::Relaxed) {
                let message = Message::to(0).words(std::slice::from_ref(&sent));
                if let Err(why) = served.wait_send(message, LONG) {
                    // The server is told to stop at the same time.
                    assert!(flooded.load(Ordering::Relaxed), "{why}");
                    break;
                }
                sent += 1;
            }
            sent
        });
        for other in 0..OTHERS {
            let links = open(fabric, &name("other"), LinksOptions::default());
            let mine = links.bundle().endpoint(0);
            let served = map(&mine, &host, "served");
            assert_eq!(served.wait_call(1, LONG).unwrap().words(), [7], "{fabric}, {other}");
            let data = Message::to(2).data(vec![1_u8; 300_000]);
            assert_eq!(served.wait_call(data, LONG).unwrap().words(), [300_000]);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(flood.unwrap().join().unwrap() > 0, "{fabric}");
        serves.unwrap().join().unwrap();
    }
}
