//! A host that is hostile to those who connect to it.

use std::os::fd::AsFd;
use std::time::Duration;

use super::super::conformance::nic;
use super::{files, start};
use crate::fabric::shm::acceptor::{Acceptor, ShmProvenPeer};
use crate::fabric::shm::rendezvous::{OfferedDescriptors, SegmentTerms};
use crate::fabric::shm::scripted_peer::{ScriptedSegment, stance};
use crate::rt::{self, Deadline, SplitMix64};
use crate::vi::{Address, ConnectError, ViOptions, Wait};

const CALLS: u32 = 60;

/// Answers everyone with nonsense until it is ended.
pub(super) fn answer_nonsense(own: &str, seed: u64) {
    let mut rng = SplitMix64(seed);
    let mut acceptor = Acceptor::open(own, stance()).unwrap();
    let unfit = files::unfit_for_control();
    let mut kept = Vec::new();
    loop {
        let now = rt::now();
        acceptor.turn();
        match acceptor.poll_proven_peer(now, now + Duration::from_secs(1)) {
            Ok(Some(visitor)) => answer(visitor, &mut rng, &unfit, &mut kept),
            _ => rt::sleep(Duration::from_micros(100)),
        }
    }
}

fn answer<K>(
    visitor: ShmProvenPeer,
    rng: &mut SplitMix64,
    unfit: &[K],
    kept: &mut Vec<ShmProvenPeer>,
) where
    K: AsFd,
{
    let strings = ScriptedSegment::new();
    let OfferedDescriptors { control, bell } = strings.handles();
    let [depth, control_bytes] = [(); 2].map(|()| rng.next());
    let depth = u32::try_from(depth >> 32).unwrap();
    let terms = SegmentTerms { depth, control_bytes };
    let bad = unfit[rng.below(unfit.len())].as_fd();
    let handles = match rng.below(5) {
        0 => return kept.push(visitor),
        1 => return drop(visitor),
        2 => OfferedDescriptors { control: bad, bell },
        3 => OfferedDescriptors { control, bell: bad },
        // Fit, and gone at once.
        _ => OfferedDescriptors { control, bell },
    };
    let _ = visitor.accept(&terms, handles);
}

/// Each call to such a host ends in time, with an error or with a connection
/// that ends.
pub(super) fn endure(seed: u64) {
    let unique = rt::random();
    let own = format!("hostile-acceptor-{unique}");
    let nic = nic(&format!("caller-{unique}"), Wait::Balanced);
    let _program = start("acceptor", nic.host(), &own, seed);
    let to = Address::new(&own, "any", 0);
    let (patience, long) = (Duration::from_millis(150), Duration::from_secs(10));
    let mut refused = 0;
    for call in 0..CALLS {
        match nic.wait_connect(&to, &ViOptions::default(), Deadline::In(patience)) {
            Err(ConnectError::MalformedHandshake(_) | ConnectError::NotEgret) => refused += 1,
            Err(ConnectError::NotAccepted { .. } | ConnectError::NotListening { .. }) => {}
            // Before the program has opened its acceptor.
            Err(ConnectError::UnknownHost { .. }) => {}
            Err(why) => panic!("call {call}: {why}"),
            Ok(vi) => {
                let until = rt::now() + long;
                loop {
                    let seen = nic.poll();
                    if vi.error().is_some() {
                        break;
                    }
                    assert!(rt::now() < until, "call {call}: it goes on with nobody");
                    nic.wait(seen, Some(until));
                }
            }
        }
    }
    assert!(refused > 0, "nothing that it answered was refused");
}
