//! A peer that puts anything at all into its ring.

use std::time::Duration;

use proptest::prelude::*;

use super::super::layout::RING;
use super::super::records::RECORD_MAX;
use super::super::scripted_peer::{ScriptedHandshake, ShmScriptedPeer};
use crate::buf::Pool;
use crate::fabric::Fabric;
use crate::fabric::shm::ShmFabric;
use crate::rt::{self, trials};
use crate::vi::{Access, Descriptor, Hello, Nic, Reliability, Vi, ViOptions};

/// A connection of `nic` whose other end is only memory and a socket.
pub(super) fn connected(nic: &Nic, reliability: Reliability) -> (Vi, ShmScriptedPeer) {
    let listener = nic.listen("open", 0, &ViOptions::of(reliability)).unwrap();
    let hello = Hello { reliability, service: "open".to_owned(), tag: 0 };
    let scripted = ScriptedHandshake::new(nic.host(), hello).unwrap();
    scripted.meet(&listener, rt::now() + LONG).unwrap()
}

const LONG: Duration = Duration::from_secs(10);

fn words() -> impl Strategy<Value = u64> {
    prop_oneof![0..5_u64, Just(RING as u64), Just(40_000), any::<u64>()]
}

/// Whether it is an item, its tag, and its payload: some words and more bytes.
fn records() -> impl Strategy<Value = (bool, u64, Vec<u8>)> {
    let tag = (0..11_u64, 0..5_u64, 0..8_u64)
        .prop_map(|(op, place, flags)| op | place << 8 | flags << 24);
    let more = prop_oneof![4 => 0..40_usize, 1 => 0..=RECORD_MAX];
    let payload = (proptest::array::uniform6(words()), more).prop_map(|(words, len)| {
        bytemuck::cast_slice(&words).iter().copied().cycle().take(len.max(8)).collect()
    });
    (prop_oneof![4 => Just(true), 1 => Just(false)], tag, payload)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(u32::try_from(trials(200)).unwrap()))]

    /// It is an error of the connection, or nothing; and all buffers come back.
    #[test]
    fn nonsense_ends_at_most_the_connection(
        said in proptest::collection::vec(records(), 1..300),
        level in 0..3_u8,
        take_back: bool,
    ) {
        let nic = ShmFabric.open(&format!("nonsense-{}", rt::random()).as_str().into()).unwrap();
        let (vi, mut puppet) = connected(&nic, Reliability::from_wire(level).unwrap());
        let pool = Pool::new(64, 8).unwrap();
        let _exposed = nic.expose(Pool::new(64, 1).unwrap().take(64).unwrap(), Access::READ);
        for _ in 0..4 {
            let receive = vi.post_recv(Descriptor::new(pool.take(64).unwrap())).unwrap();
            vi.post_send(Descriptor::new(pool.take(64).unwrap())).unwrap();
            if take_back {
                prop_assert!(vi.cancel(receive));
            }
        }
        for (is_item, tag, payload) in &said {
            puppet.put_any(*is_item, *tag, payload);
            nic.poll();
        }
        let queues = [vi.recv_queue().clone(), vi.send_queue().clone()];
        drop(vi);
        for queue in queues {
            while queue.poll().is_some() {}
        }
        prop_assert_eq!(pool.available(64), 8);
    }
}
