//! Sleeping on a nic with windows.

use super::super::driver::Driver;
use crate::fabric::udp::UdpFabric;
use crate::fabric::{ConnId, Fabric, Machine, Woken};
use crate::rt::{self, Deadline};
use crate::vi::{Address, Lane, Nic, Reliability, Vi, ViOptions};

/// Two nics, and a connection of each.
fn pair() -> ([Nic; 2], [Vi; 2]) {
    let [a, b] = [(); 2].map(|()| UdpFabric.open(&"".into()).unwrap());
    let options = ViOptions::of(Reliability::Delivery);
    let listener = b.listen("test", 0, &options).unwrap();
    let (nic, to) = (a.clone(), Address::new(b.host(), "test", 0));
    let connecting =
        rt::spawn("connects", move || nic.wait_connect(&to, &options, Deadline::DEFAULT)).unwrap();
    let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let here = connecting.join().unwrap().unwrap();
    ([a, b], [here, there])
}

/// A thread sleeps until the next event, and another sends: the first repeat is sooner than that.
#[test]
pub(super) fn a_sleeper_is_told_of_a_repeat_that_comes_sooner() {
    let ([a, _b], _ends) = pair();
    a.inside(|machine: &mut Driver, after| {
        let conn: ConnId = machine.first().expect("a connection");
        while machine.arm(after) {
            machine.disarm(Woken::Awake, after);
        }
        after.happened = false;
        machine.send(conn, Lane::Talk, 0, &[&[7; 32]], after).expect("it is open");
        assert!(after.happened, "it sleeps on");
        machine.disarm(Woken::Awake, after);
    });
}
