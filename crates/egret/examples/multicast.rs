//! What one says and all others hear.
//!
//! Connecting to a multicast address over udp joins its group. There is nobody to accept, and
//! no receipt: a message that finds no receive posted is lost, and so is one that the network
//! loses. Nics that share a secret hear each other alone; without one, as here, anybody who
//! sends to the address is heard.

use std::error::Error;
use std::io::{self, Write};
use std::net::UdpSocket;

use egret::fabric::Fabric;
use egret::fabric::udp::UdpDatagrams;
use egret::rt::Deadline;
use egret::vi::{Address, Descriptor, Reliability, Vi, ViOptions};

fn main() -> Result<(), Box<dyn Error>> {
    // A port that nobody has, so that programs that run at once do not hear each other.
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let group = Address::new(&format!("239.255.77.8:{port}"), "weather", 0);
    let mut members = Vec::new();
    for _ in 0..3 {
        match join(&group) {
            Ok(member) => members.push(member),
            Err(why) => {
                writeln!(io::stdout(), "no multicast over loopback here: {why}")?;
                return Ok(());
            }
        }
    }

    // All are ready to hear before one speaks: nobody waits for them.
    for member in &members {
        member.post_recv(Descriptor::new(vec![0_u8; 64]))?;
    }
    let (speaker, listeners) = members.split_last().ok_or("nobody joined")?;
    speaker.post_send(Descriptor::new(b"rain".to_vec()).with_tag(9))?;
    speaker.send_queue().wait(Deadline::DEFAULT)?.done()?;
    for (number, listener) in listeners.iter().enumerate() {
        let said = listener.recv_queue().wait(Deadline::DEFAULT)?.ok()?;
        assert_eq!((said.tag, said.bytes()), (9, &b"rain"[..]));
        writeln!(io::stdout(), "member {number} heard of rain")?;
    }
    assert!(speaker.recv_queue().poll().is_none(), "nobody hears its own words");
    Ok(())
}

/// A member, on a nic of its own.
fn join(group: &Address) -> Result<Vi, Box<dyn Error>> {
    let options = ViOptions::of(Reliability::Unreliable);
    let nic = UdpDatagrams.open(&"127.0.0.1".into())?;
    Ok(nic.wait_connect(group, &options, Deadline::DEFAULT)?)
}
