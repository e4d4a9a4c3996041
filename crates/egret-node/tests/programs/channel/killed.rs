//! Processes that are killed at one end of a channel.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::rt::Deadline;
use egret_net::vi::NicOptions;
use egret_node::channel::ChannelError;
use egret_node::link::LinkError;
use egret_node::{Links, LinksOptions};

const LONG: Deadline = Deadline::DEFAULT;

fn links(host: &str) -> Links {
    let nic = ShmFabric.open(&NicOptions::new(host)).unwrap();
    Links::open(nic, LinksOptions::default()).unwrap()
}

/// This program once more, as one end; it says when it is ready.
fn child(role: &str, parent: &str) -> (Child, String) {
    let host = format!("channel-{role}-{}", std::process::id());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "channel::killed::an_end", "--nocapture"])
        .env("EGRET_END", format!("{role} {host} {parent}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")), "{role} is ready");
    (child, host)
}

/// Not a test by itself: what the children of the others do.
#[test]
fn an_end() {
    let Ok(end) = std::env::var("EGRET_END") else { return };
    let mut words = end.split(' ').map(str::to_owned);
    let mut next = || words.next().unwrap();
    let (role, host, parent) = (next(), next(), next());
    let links = links(&host);
    if role == "reader" {
        let listener = links.listen("kill", 1).unwrap();
        println!("ready");
        let mut reader = listener.wait_accept(LONG).unwrap();
        loop {
            let mut message = reader.wait_next(LONG).unwrap().unwrap();
            while message.wait_next_part(LONG).unwrap().is_some() {}
        }
    }
    println!("ready");
    let mut writer = links.wait_channel(&parent, "kill", LONG).unwrap();
    writer.wait_send(b"whole".to_vec(), LONG).unwrap();
    let mut message = writer.message();
    loop {
        message.wait_write(&[1_u8; 100_000], LONG).unwrap();
    }
}

#[test]
fn the_writer_hears_that_the_reader_was_killed() {
    let here = links(&format!("channel-kills-{}", std::process::id()));
    let (mut child, host) = child("reader", here.host());
    let mut writer = here.wait_channel(&host, "kill", LONG).unwrap();
    let data = vec![7_u8; 100_000];
    for _ in 0..50 {
        writer.wait_send_slice(&data, LONG).unwrap();
    }
    writer.wait_arrived(LONG).unwrap();
    child.kill().unwrap();
    let died = loop {
        if let Err(why) = writer.wait_send_slice(&data, LONG) {
            break why;
        }
    };
    child.wait().unwrap();
    let is_death = matches!(&died, ChannelError::Lost { why: LinkError::PeerDied { .. }, .. });
    assert!(is_death, "{died}");
    assert!(writer.lost().iter().all(|(message, _)| *message > 50), "those had arrived");
    let gone = here.wait_channel(&host, "kill", std::time::Duration::from_secs(1));
    assert!(gone.is_err());
}

#[test]
fn the_reader_hears_that_the_writer_was_killed() {
    let here = links(&format!("channel-killed-{}", std::process::id()));
    let listener = here.listen("kill", 1).unwrap();
    let (mut child, _) = child("writer", here.host());
    let mut reader = listener.wait_accept(LONG).unwrap();
    let mut whole = reader.wait_next(LONG).unwrap().unwrap();
    assert_eq!(whole.wait_next_part(LONG).unwrap().unwrap().bytes(), b"whole");
    drop(whole);
    let mut message = reader.wait_next(LONG).unwrap().unwrap();
    assert!(message.wait_next_part(LONG).unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let died = loop {
        match message.wait_next_part(LONG) {
            Ok(part) => assert!(part.is_some(), "it has no end"),
            Err(why) => break why,
        }
    };
    assert!(matches!(died, ChannelError::Link(LinkError::PeerDied { .. })), "{died}");
}
