//! A handler that is called with each completion.
//!
//! Nobody waits for the echo's messages: its handler runs on whichever thread drives the nic,
//! here the one that waits for the answers. It holds its connection weakly, for the
//! connection holds the queue and the queue holds the handler. A panic inside would be
//! reported and end that call alone.

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Weak};

use egret::rt::Deadline;
use egret::sim::Sim;
use egret::vi::{Address, Completion, Descriptor, Vi, ViOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::new(1);
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let listener = b.listen("echo", 0, &ViOptions::default())?;
    let to = Address::new("b", "echo", 0);
    let connecting = a.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
    let echo = Arc::new(listener.wait_accept(Deadline::DEFAULT)?);
    let vi = a.block_on(connecting)?;

    echo.post_recv(Descriptor::new(vec![0_u8; 64]))?;
    let weak = Arc::downgrade(&echo);
    echo.recv_queue().notify(move |completion| answer(&weak, completion));
    // What was sent comes back by the other queue, which has a handler of its own.
    echo.send_queue().notify(drop);

    for word in ["one", "two", "three"] {
        vi.post_recv(Descriptor::new(vec![0_u8; 64]))?;
        vi.post_send(Descriptor::new(word.as_bytes().to_vec()))?;
        let back = vi.recv_queue().wait(Deadline::DEFAULT)?.ok()?.into_vec::<u8>();
        assert_eq!(back, word.as_bytes());
        writeln!(io::stdout(), "{word} came back")?;
    }

    // Without a handler completions are queued again.
    echo.recv_queue().unnotify();
    drop(vi);
    let end = echo.recv_queue().wait(Deadline::DEFAULT)?.done();
    writeln!(io::stdout(), "the end: {}", end.expect_err("the other side is gone"))?;
    Ok(())
}

/// Sends a message back, and receives the next. A connection that is over refuses both.
fn answer(echo: &Weak<Vi>, completion: Completion) {
    let (Some(echo), Ok(completion)) = (echo.upgrade(), completion.ok()) else { return };
    let _ = echo.post_send(Descriptor::new(completion.bytes().to_vec()));
    let _ = echo.post_recv(completion.into_descriptor());
}
