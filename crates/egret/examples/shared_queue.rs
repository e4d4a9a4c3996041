//! One completion queue for the receives of many connections.
//!
//! A server has three clients and one place to wait for all of them. The completion says
//! which connection it is of; the answer goes there, and the receive is posted there again.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};

use egret::rt::Deadline;
use egret::sim::Sim;
use egret::vi::{Address, Descriptor, Vi, ViId, ViOptions};

const CLIENTS: u64 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::new(1);
    let server = sim.nic("server");
    // Every receive that is posted reserves its place here, whatever connection it is of.
    let requests = server.completion_queue(16);
    let options = ViOptions { recv_queue: Some(requests.clone()), ..ViOptions::default() };
    let listener = server.listen("sums", 0, &options)?;

    let (mut clients, mut served) = (Vec::new(), BTreeMap::<ViId, Vi>::new());
    for number in 0..CLIENTS {
        let nic = sim.nic(&format!("client {number}"));
        let to = Address::new("server", "sums", 0);
        let connecting = nic.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
        let vi = listener.wait_accept(Deadline::DEFAULT)?;
        vi.post_recv(Descriptor::new(vec![0_u64; 2]))?;
        served.insert(vi.id(), vi);
        clients.push(nic.block_on(connecting)?);
    }

    for (number, client) in (0..).zip(&clients) {
        client.post_recv(Descriptor::empty())?;
        client.post_send(Descriptor::new(vec![number, 100_u64]))?;
    }
    for _ in 0..CLIENTS {
        let request = requests.wait(Deadline::DEFAULT)?.ok()?;
        let vi = &served[&request.vi];
        let summands = request.into_vec::<u64>();
        vi.post_send(Descriptor::empty().with_tag(summands.iter().sum()))?;
        vi.post_recv(Descriptor::new(summands))?;
    }
    for (number, client) in (0..).zip(&clients) {
        let sum = client.recv_queue().wait(Deadline::DEFAULT)?.ok()?.tag;
        assert_eq!(sum, number + 100);
        writeln!(io::stdout(), "client {number}: {number} and 100 make {sum}")?;
    }
    assert_eq!(requests.outstanding(), served.len(), "a receive of each is posted again");
    Ok(())
}
