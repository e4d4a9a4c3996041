//! A nic among the other descriptors of an event loop.
//!
//! The loop sleeps in poll(2), on the nic and on a pipe. A nic moves nothing by itself: the
//! loop polls it, looks whether what it waits for has come, and arms the nic before it sleeps.
//! From then on peers ring, and the descriptor becomes readable. Without `arm` nobody would
//! ring, and nothing would make it readable.

use std::error::Error;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use egret::fabric::Fabric;
use egret::fabric::tcp::TcpFabric;
use egret::rt::{self, Deadline};
use egret::vi::{Address, Arming, Descriptor, Nic, ViOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn main() -> Result<(), Box<dyn Error>> {
    let nic = TcpFabric.open(&"127.0.0.1".into())?;
    let listener = nic.listen("news", 0, &ViOptions::default())?;
    let to = Address::new(nic.host(), "news", 0);
    let (mut pipe, mut ends_it) = io::pipe()?;
    // The other thread talks over the network first, and then through the pipe.
    let other = rt::spawn("other", move || -> Result<(), String> {
        let nic = TcpFabric.open(&"127.0.0.1".into()).map_err(|why| why.to_string())?;
        let vi = nic
            .wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT)
            .map_err(|why| why.to_string())?;
        for number in 0..3_u64 {
            vi.send(&[number], number, Deadline::DEFAULT).map_err(|why| why.to_string())?;
        }
        ends_it.write_all(b"!").map_err(|why| why.to_string())
    })?;

    let vi = listener.wait_accept(Deadline::DEFAULT)?;
    vi.post_recv(Descriptor::new(vec![0_u64]))?;
    let mut heard = Vec::new();
    loop {
        let seen = nic.poll();
        // `take`: the nic was polled just now.
        while let Some(got) = vi.recv_queue().take() {
            let Ok(got) = got.ok() else { continue };
            heard.push(got.tag);
            // Refused if the other side has said all and is gone.
            let _ = vi.post_recv(got.into_descriptor());
        }
        // Not armed: something has happened since the poll.
        let Arming::Armed { until } = nic.arm(seen) else { continue };
        let within = until.map(|until| until.since(rt::now()));
        let pipe_is_readable = sleep(&nic, &pipe, within)?;
        nic.disarm();
        if pipe_is_readable {
            break;
        }
    }
    pipe.read_exact(&mut [0])?;
    other.join().expect("the other thread does not panic")?;
    writeln!(io::stdout(), "heard {heard:?} over the network, then the pipe")?;
    assert_eq!(heard, [0, 1, 2]);
    Ok(())
}

/// Sleeps until either can be read. Whether the pipe can.
fn sleep(nic: &Nic, pipe: &impl AsFd, within: Option<Duration>) -> Result<bool, Box<dyn Error>> {
    let nic = nic.fd().ok_or("this nic has no descriptor")?;
    let mut fds = [
        PollFd::from_borrowed_fd(nic, PollFlags::IN),
        PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN),
    ];
    let within = within.map(Timespec::try_from).transpose()?;
    poll(&mut fds, within.as_ref())?;
    Ok(!fds[1].revents().is_empty())
}
