//! A graph that goes from rank to rank: made on one node, used and changed on the next.
//!
//! Under `egret run -n 2` each node is a process of its own. Started alone, the program has two
//! nodes, and each runs on a thread. This is Figure 3 of the Expresso paper, and the car comes
//! back.

use std::error::Error;
use std::io::{self, Write};

use egret::graph::ANY;
use egret::prelude::*;
use egret::rt;

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Car {
    year: u64,
    owner: Option<Text>,
    engine: Option<Ref<Engine>>,
}

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Engine {
    power: u64,
    car: Ref<Car>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::from_env()?;
    if std::env::var_os("EGRET_JOB").is_some() {
        return run(&Node::join(config)?);
    }
    let (_registry, mut nodes) = egret::local::pool(2)?.into_parts();
    let there = nodes.remove(1);
    let other = rt::spawn("the other node", move || run(&there).map_err(|why| why.to_string()))?;
    run(&nodes[0])?;
    Ok(other.join().map_err(|_| "the other node panicked")??)
}

/// What each node does.
fn run(node: &Node) -> Result<(), Box<dyn Error>> {
    let mut cars = Graphs::<Car>::join(node)?;
    let deadline = node.deadline();
    if node.rank() == 0 {
        // The current graph is filled, sent, and freed.
        let car = cars.start(Car { year: 2000, owner: None, engine: None });
        let engine = cars.insert(Engine { power: 50, car });
        cars.current_mut()[car].engine = Some(engine);
        cars.send_graph(1, deadline)?;
        cars.free_current();

        let (car, from) = cars.recv_graph(1, deadline)?;
        let owner = car.root().owner.map(|owner| &car[owner]);
        assert_eq!(owner, Some("rank 1"));
        writeln!(io::stdout(), "rank 0: the car is back from rank {from}, whose it is")?;
    } else {
        let (car, from) = cars.recv_graph(ANY, deadline)?;
        let engine = car[car.root().engine.ok_or("a car without an engine")?];
        assert_eq!((car.root().year, engine.power), (2000, 50));
        assert_eq!(engine.car, car.root_ref(), "the engine knows its car");
        writeln!(io::stdout(), "rank 1: a car of {} from rank {from}", car.root().year)?;

        // It is used, and changed, where it landed; then it is posted, to go while we do
        // something else.
        cars.set_current(car);
        let owner = cars.insert_text("rank 1");
        cars.current_mut().root_mut().owner = Some(owner);
        let mut sent = cars.post_send_graph(from);
        sent.wait(deadline)?;
    }
    Ok(())
}
