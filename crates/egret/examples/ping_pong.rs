//! Posted buffers, there and back: the thesis's first program.
//!
//! Each side owns two buffers for the whole conversation. A buffer is the
//! program's while it is read or written and the fabric's while it travels;
//! nothing is copied but by the network, and nothing is taken from the pool
//! after the start.

use std::error::Error;
use std::io::{self, Write};

use egret::buf::Pool;
use egret::rt::Deadline;
use egret::sim::Sim;
use egret::vi::{Address, Completion, Descriptor, Vi, ViOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::new(1);
    let (ping, pong) = connect(&sim)?;
    let pool = Pool::new(1024, 4)?;
    for side in [&ping, &pong] {
        side.post_recv(Descriptor::new(pool.take(1024)?))?;
    }
    let mut ball = pool.take(1024)?;
    let mut answer = pool.take(1024)?;
    for round in 0..100_u8 {
        ball.bytes_mut().fill(round);
        ping.post_send(Descriptor::new(ball))?;
        answer.bytes_mut().fill(!received(&pong)?);
        pong.post_send(Descriptor::new(answer))?;
        assert_eq!(received(&ping)?, !round);
        ball = wait(ping.send_queue())?.into_buf();
        answer = wait(pong.send_queue())?.into_buf();
    }
    writeln!(io::stdout(), "100 round trips in {:?} of virtual time", sim.elapsed())?;
    Ok(())
}

/// Takes a message, looks at it, and posts its buffer again.
fn received(side: &Vi) -> Result<u8, Box<dyn Error>> {
    let message = wait(side.recv_queue())?.into_buf();
    let first = message.bytes()[0];
    assert!(message.bytes().iter().all(|byte| *byte == first), "whole and undamaged");
    side.post_recv(Descriptor::new(message))?;
    Ok(first)
}

fn wait(queue: &egret::vi::CompletionQueue) -> Result<Completion, Box<dyn Error>> {
    Ok(queue.wait(Deadline::DEFAULT)?.ok()?)
}

fn connect(sim: &Sim) -> Result<(Vi, Vi), Box<dyn Error>> {
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let options = ViOptions::default();
    let listener = b.listen("ball", 0, &options)?;
    let connecting = a.connect(&Address::new("b", "ball", 0), &options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT)?;
    Ok((a.block_on(connecting)?, there))
}
