//! What an idle channel costs. In a process of its own, so that others do not count.

use std::process::Command;

use egret_net::rt::Deadline;
use egret_node::LinksOptions;

use super::pair::{On, Pair};

const LONG: Deadline = Deadline::DEFAULT;
const CHANNELS: usize = 1000;

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_thousand_idle_channels_cost_little() {
    if std::env::var_os("EGRET_IDLE").is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args([
            "--exact",
            "channel::idle::a_thousand_idle_channels_cost_little",
            "--nocapture",
        ]);
        assert!(alone.env("EGRET_IDLE", "1").status().unwrap().success());
        return;
    }
    let pair = Pair::with(On::Shm, &LinksOptions::default());
    let listener = pair.there.listen("idle", CHANNELS + 1).unwrap();
    pair.while_there_serves(|| {
        let open = || {
            let mut writer = pair.here.wait_channel(pair.there.host(), "idle", LONG).unwrap();
            writer.wait_send(vec![1_u8; 100], LONG).unwrap();
            let mut reader = listener.wait_accept(LONG).unwrap();
            let mut message = reader.wait_next(LONG).unwrap().unwrap();
            assert!(message.wait_next_part(LONG).unwrap().is_some());
            drop(message);
            (writer, reader)
        };
        let first = open();
        let before = resident();
        let many: Vec<_> = (0..CHANNELS).map(|_| open()).collect();
        let each = (resident() - before) / CHANNELS;
        println!("{each} bytes for both ends of an idle channel");
        assert!(each <= 8 << 10, "{each} bytes for both ends");
        drop((first, many));
    });
}
