//! What is posted while another thread sleeps on the nic leaves all the same.

use std::time::Duration;

use super::closing::connect;
use super::conformance::{V4, nic};
use crate::buf::Pool;
use crate::rt::{self, Deadline};
use crate::vi::{Access, Descriptor, Reliability, ViError, Wait};

const LONG: Duration = Duration::from_secs(20);

#[test]
fn posts_beside_a_sleeper_leave() {
    let nics = [V4; 2].map(|host| nic(host, Wait::Frugal));
    let [near, far] = connect(&nics, "asleep", Reliability::Delivery);
    let [near_nic, far_nic] = nics;
    let pool = Pool::new(64, 1).unwrap();
    let exposed = far_nic.expose(pool.take(64).unwrap(), Access::READ).unwrap();
    let key = exposed.key();
    let queue = near_nic.completion_queue(1);
    // Nothing completes there: the thread sleeps until its time is up.
    let sleeping = rt::spawn("sleeping", move || {
        let until = rt::now() + Duration::from_secs(2);
        while rt::now() < until {
            let waited = queue.wait(Deadline::In(Duration::from_secs(2)));
            assert!(matches!(waited, Err(ViError::NoCompletion { .. })));
        }
    })
    .unwrap();
    rt::sleep(Duration::from_millis(100));

    near.post_recv(Descriptor::new(vec![0_u8; 8])).unwrap();
    // For this one the peer has no receive, so it waits, and what is behind it must not.
    near.post_send(Descriptor::new(vec![1_u8; 8])).unwrap();
    near.post_read(Descriptor::new(vec![0_u8; 64]), key.at(0)).unwrap();
    let until = rt::now() + LONG;
    while near.send_queue().outstanding() == 2 {
        far_nic.poll();
        assert!(rt::now() < until, "the read has not left");
    }
    sleeping.join().unwrap();
    drop(far);
}
