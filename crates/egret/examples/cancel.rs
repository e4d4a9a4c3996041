//! Taking back what was posted.
//!
//! A descriptor that has not begun is cancelled, and its memory comes back with the
//! completion: a send that the peer has no receive for, a receive that nothing came for. What
//! has begun takes its course.

use std::error::Error;
use std::io::{self, Write};

use egret::buf::Pool;
use egret::rt::Deadline;
use egret::sim::Sim;
use egret::vi::{Address, Descriptor, ViError, ViOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::new(1);
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let listener = b.listen("orders", 0, &ViOptions::default())?;
    let to = Address::new("b", "orders", 0);
    let connecting = a.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT)?;
    let here = a.block_on(connecting)?;
    let pool = Pool::new(1024, 2)?;

    // Nobody has posted a receive for it: the send waits, and can be taken back.
    let mut order = pool.take(1024)?;
    order.bytes_mut().fill(1);
    let ticket = here.post_send(Descriptor::new(order).with_tag(1))?;
    assert!(here.cancel(ticket), "it has not begun");
    assert!(!here.cancel(ticket), "it is gone already");
    let back = here.send_queue().wait(Deadline::DEFAULT)?;
    assert_eq!((back.ticket, &back.status), (ticket, &Err(ViError::Cancelled)));
    let order = back.into_buf();
    writeln!(io::stdout(), "taken back: {} bytes, as they were", order.len())?;

    // The connection goes on: what is posted now is what arrives.
    there.post_recv(Descriptor::new(pool.take(1024)?))?;
    let ticket = here.post_send(Descriptor::new(order).with_tag(2))?;
    let got = there.recv_queue().wait(Deadline::DEFAULT)?.ok()?;
    assert_eq!(got.tag, 2);
    drop(here.send_queue().wait(Deadline::DEFAULT)?.ok()?);
    assert!(!here.cancel(ticket), "what is done cannot be taken back");
    writeln!(io::stdout(), "order {} arrived", got.tag)?;

    // A receive that nothing came for.
    let ticket = there.post_recv(Descriptor::fresh(1024))?;
    assert!(there.cancel(ticket));
    let back = there.recv_queue().wait(Deadline::DEFAULT)?;
    assert_eq!(back.status, Err(ViError::Cancelled));
    assert_eq!(back.into_vec::<u8>(), [], "no memory was made for it");
    Ok(())
}
