//! Memory that a peer writes and reads by a key, until it is revoked.

use std::error::Error;
use std::io::{self, Write};

use egret::buf::{Plain, Pool};
use egret::rt::Deadline;
use egret::sim::Sim;
use egret::vi::{Access, Address, Descriptor, ViOptions};

/// What the two sides agree on.
#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[repr(C)]
struct Cell {
    at: u64,
    value: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::new(3);
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let options = ViOptions::default();
    let listener = b.listen("grid", 0, &options)?;
    let connecting = a.connect(&Address::new("b", "grid", 0), &options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT)?;
    let here = a.block_on(connecting)?;

    // b exposes a grid of eight cells; the key would travel in a message.
    let pool = Pool::new(4096, 4)?;
    let grid = pool.take_typed::<Cell>(8)?;
    let exposed = b.expose(grid.into_buf(), Access::READ | Access::WRITE)?;
    let key = exposed.key();

    // a writes the third cell, and b hears of it by a receive without bytes.
    there.post_recv(Descriptor::empty())?;
    let mut cell = pool.take_typed::<Cell>(1)?;
    cell[0] = Cell { at: 2, value: 0.5 };
    here.post_write_notify(Descriptor::new(cell).with_tag(2), key.at(32))?;
    let notice = there.recv_queue().wait(Deadline::DEFAULT)?.ok()?;
    drop(here.send_queue().wait(Deadline::DEFAULT)?.ok()?);

    // Outside the grid nothing happens, and only the one who asked is told.
    here.post_write(Descriptor::new(vec![0_u8; 64]), key.at(100))?;
    let refused = here.send_queue().wait(Deadline::DEFAULT)?;
    let why = refused.done().expect_err("the grid has 128 bytes");

    // A slice of the grid needs the key back.
    let grid = exposed.revoke().typed::<Cell>()?;
    assert_eq!(grid[usize::try_from(notice.tag)?], Cell { at: 2, value: 0.5 });
    writeln!(io::stdout(), "cell {} was written; beyond the grid: {why}", notice.tag)?;
    Ok(())
}
