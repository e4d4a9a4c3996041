//! A drain is a look: who drains needs not drive its nic by other means.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::time::Duration;

use egret_net::fabric::Fabrics;
use egret_net::rt::{self, Deadline};
use egret_net::vi::{Address, Drain, Lane, Nic, Vi, ViOptions};

/// Turns a wait for ever into a failure.
const PATIENCE: Duration = Duration::from_secs(30);
const LONG: Deadline = Deadline::In(PATIENCE);
/// More than a look goes to each time.
const CONNECTIONS: usize = 24;

fn nics(fabric: &str) -> [Nic; 2] {
    let host = |side: &str| match fabric {
        "shm" => format!("{side}-{}-{}", std::process::id(), rt::random()),
        _ => "127.0.0.1".to_owned(),
    };
    ["here", "there"].map(|side| Fabrics::default().open(fabric, host(side).as_str()).unwrap())
}

/// A connection whose other end has this drain.
fn connect(here: &Nic, there: &Nic, drain: &Drain) -> (Vi, Vi) {
    let options = ViOptions { drain: Some(drain.clone()), ..ViOptions::default() };
    let listener = there.listen("draining", 0, &options).unwrap();
    let (here, to) = (here.clone(), Address::new(there.host(), "draining", 0));
    let calling =
        rt::spawn("calling", move || here.wait_connect(&to, &ViOptions::default(), LONG).unwrap());
    let accepted = listener.wait_accept(LONG).unwrap();
    (calling.unwrap().join().unwrap(), accepted)
}

#[test]
fn a_drain_finds_what_has_come_on_any_of_its_connections() {
    for fabric in ["shm", "tcp"] {
        let [here, there] = nics(fabric);
        let drain = there.drain();
        let ends: Vec<_> = (0..CONNECTIONS).map(|_| connect(&here, &there, &drain)).collect();
        let (mut got, started) = (Vec::new(), rt::now());
        for (tag, (end, _)) in ends.iter().enumerate() {
            end.send_eager(Lane::Talk, tag as u64, &[b"word"]).unwrap();
            while got.len() <= tag {
                here.poll();
                drain.poll(1, |_, tag, bytes| got.push((tag, bytes.to_vec())));
                assert!(rt::now() - started < PATIENCE, "{fabric}: {tag} messages were drained");
            }
        }
        let sent: Vec<_> = (0..CONNECTIONS as u64).map(|tag| (tag, b"word".to_vec())).collect();
        assert_eq!(got, sent, "{fabric}");
    }
}
