//! A channel from one node to another: find the way, listen, write, read.
//!
//! Both nodes are in this process; under `egret run` each would be a process of its own, and
//! nothing else would change.

use egret::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = egret::local::pool(2)?;
    let (here, there) = (&pool[0], &pool[1]);

    // The reader does not know by which fabric writers come, and listens on all of its own.
    let listeners: Vec<_> = there
        .links()
        .iter()
        .map(|(fabric, links)| Ok((fabric.as_str(), links.listen("rows", 16)?)))
        .collect::<Result<_, Box<dyn std::error::Error>>>()?;

    // The writer asks for the best way to the other node.
    let route = here.route(there.id())?;
    let mut writer = route.links.wait_channel(&route.host, "rows", Deadline::DEFAULT)?;
    let (_, listener) = listeners
        .iter()
        .find(|(fabric, _)| *fabric == route.fabric)
        .ok_or("both nodes have the fabric of a route")?;
    let mut reader = listener.wait_accept(Deadline::DEFAULT)?;

    let mut message = writer.message();
    message.wait_write(&[3_u32], Deadline::DEFAULT)?;
    message.wait_write_owned(vec![0.5_f64; 100_000], Deadline::DEFAULT)?;
    message.wait_finish(Deadline::DEFAULT)?;
    drop(writer);

    let mut rows = 0;
    while let Some(mut message) = reader.wait_next(Deadline::DEFAULT)? {
        let mut number = [0_u32];
        message.wait_read_exact(&mut number, Deadline::DEFAULT)?;
        // One buffer, where the row has landed.
        let row = message.wait_array::<f64>(Deadline::DEFAULT)?;
        assert_eq!((number, row.len()), ([3], 100_000));
        rows += 1;
    }
    assert_eq!(rows, 1);
    Ok(())
}
