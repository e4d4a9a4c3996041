//! A buffer that changes its owner and stays where it is.
//!
//! This program starts itself once more. Both run the same file and ask for it, so
//! they cooperate: what one hands over the other has, not a copy of it.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::process::Command;

use egret::buf::{Buf, Pool};
use egret::fabric::Fabric;
use egret::fabric::shm::ShmFabric;
use egret::rt::Deadline;
use egret::vi::{Address, Descriptor, NicOptions, Trust, Vi, ViOptions};

const LEN: usize = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1) {
        Some(home) => visit(&home),
        None => stay_home(),
    }
}

/// Hands a buffer over, and gets it back with something in it.
fn stay_home() -> Result<(), Box<dyn Error>> {
    let host = format!("home-{}", std::process::id());
    let nic = ShmFabric.open(&NicOptions::new(&host).trust(Trust::Cooperating))?;
    let listener = nic.listen("bench", 0, &ViOptions::default())?;
    let mut visitor = Command::new(env::current_exe()?).arg(&host).spawn()?;
    let vi = listener.wait_accept(Deadline::DEFAULT)?;

    let pool = Pool::builder().class(LEN, 1).cooperating().build()?;
    let mut buf = pool.take(LEN)?;
    buf.bytes_mut()[LEN - 1] = 1;
    let place = buf.offset_in_region();
    vi.post_recv(Descriptor::handed(LEN as u64))?;
    vi.hand_over(buf, 0)?;
    assert_eq!(pool.available(LEN), 0, "it is not ours any more");
    given(&vi)?;
    let buf = handed(&vi)?;
    assert_eq!((buf.bytes()[LEN - 1], buf.offset_in_region()), (2, place));
    writeln!(io::stdout(), "home: {} MiB are back where they were", LEN >> 20)?;

    // What the other merely drops comes home as well: when this nic looks, or when the
    // connection is over.
    vi.hand_over(buf, 0)?;
    given(&vi)?;
    drop(vi);
    drop(pool.wait_take(LEN, Deadline::DEFAULT)?);
    writeln!(io::stdout(), "home: and once more, though nobody handed them back")?;
    visitor.wait()?;
    Ok(())
}

/// Has the buffer for a while.
fn visit(home: &str) -> Result<(), Box<dyn Error>> {
    let host = format!("visitor-{}", std::process::id());
    let nic = ShmFabric.open(&NicOptions::new(&host).trust(Trust::Cooperating))?;
    let to = Address::new(home, "bench", 0);
    let vi = nic.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT)?;
    writeln!(io::stdout(), "visitor: the connection is {}", vi.trust())?;

    vi.post_recv(Descriptor::handed(LEN as u64))?;
    let mut buf = handed(&vi)?;
    writeln!(io::stdout(), "visitor: got {} MiB and copied none", buf.len() >> 20)?;
    buf.bytes_mut()[LEN - 1] += 1;
    vi.post_recv(Descriptor::handed(LEN as u64))?;
    vi.hand_over(buf, 0)?;
    drop(handed(&vi)?);
    Ok(())
}

/// The other has it.
fn given(vi: &Vi) -> Result<(), Box<dyn Error>> {
    Ok(vi.send_queue().wait(Deadline::DEFAULT)?.done()?)
}

/// The next buffer, which is no copy.
fn handed(vi: &Vi) -> Result<Buf, Box<dyn Error>> {
    let got = vi.recv_queue().wait(Deadline::DEFAULT)?.ok()?.into_handed();
    Ok(got.into_buf().map_err(|_| "they do not cooperate, so it is a copy")?)
}
