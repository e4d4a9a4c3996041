//! Memory under a key that a cooperating peer writes by itself: what is there,
//! what is refused, and that nothing is written after the key has ended.

mod orders;
mod planted;
mod processes;
mod scenes;

use std::time::Duration;

use super::conformance::trusting;
use crate::buf::{Buf, Pool};
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, Nic, RemoteSlice, Trust, Vi, ViOptions};

const LONG: Deadline = Deadline::In(Duration::from_secs(10));

/// A peer with memory and one that writes it, both driven by this thread alone.
struct Scene {
    target: Nic,
    writer: Nic,
    there: Vi,
    here: Vi,
    pool: Pool,
}

impl Scene {
    fn new(trust: Trust) -> Self {
        let unique = rt::random();
        let target = trusting(&format!("target-{unique}"), trust);
        let writer = trusting(&format!("writer-{unique}"), trust);
        let options = ViOptions::default();
        let listener = target.listen("direct", 0, &options).unwrap();
        let (to, caller) = (Address::new(target.host(), "direct", 0), writer.clone());
        let calling = rt::spawn("writer", move || caller.wait_connect(&to, &options, LONG));
        let there = listener.wait_accept(LONG).unwrap();
        let here = calling.unwrap().join().unwrap().unwrap();
        assert_eq!((here.trust(), there.trust()), (trust, trust));
        Self { target, writer, there, here, pool: pool(4) }
    }

    fn buf(&self, byte: u8) -> Buf {
        let mut buf = self.pool.take(LEN).unwrap();
        buf.bytes_mut().fill(byte);
        buf
    }

    /// Both look for a while.
    fn settle(&self) {
        look(&[&self.target, &self.writer]);
    }

    /// Writes, and says whether that took nobody else.
    fn write(&self, bytes: impl Into<Vec<u8>>, to: RemoteSlice) -> bool {
        self.here.post_write(Descriptor::new(bytes.into()), to).unwrap();
        let was_direct = self.here.send_queue().outstanding() == 0;
        self.settle();
        drop(self.here.send_queue().poll().unwrap().ok().unwrap());
        was_direct
    }
}

/// Looks for longer than it takes until a nic looks at its sockets.
fn look(nics: &[&Nic]) {
    let until = rt::now() + Duration::from_millis(2);
    let mut turns = 0;
    while turns < 1000 || rt::now() < until {
        for nic in nics {
            nic.poll();
        }
        turns += 1;
    }
}

const LEN: usize = 4096;

fn pool(buffers: usize) -> Pool {
    Pool::builder().class(LEN, buffers).cooperating().build().unwrap()
}

/// Waits for what another thread or process does.
fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    let end = Deadline::In(Duration::from_secs(20)).until();
    while !is_so() {
        assert!(Some(rt::now()) < end, "in vain: {what}");
        rt::sleep(Duration::from_micros(200));
    }
}
