//! Two nics on one thread, so that it is known who has looked and who has not.

use super::{LEN, LONG, Scene, look, pool, until};
use crate::buf::Pool;
use crate::fabric::shm::cooperating::direct_write::{DirectTarget, DirectWrites};
use crate::fabric::shm::cooperating::exposed::{ConnectionGates, ExposedBuffer};
use crate::fabric::shm::cooperating::gate::{GATES, GateEntrant, GateKeeper, GatePass, bytes};
use crate::fabric::shm::cooperating::lent::{BufferTicket, LentBuffers};
use crate::fabric::shm::cooperating::received::ReceivedBuffers;
use crate::fabric::shm::cooperating::returns::{self, LENT_MAX, SlotPlace};
use crate::fabric::shm::memory::OwnMemory;
use crate::fabric::shm::tests::{foreign_of, shared};
use crate::rt::SplitMix64;
use crate::vi::{
    Access, AccessError, Descriptor, Exposed, OpenedMemory, RemoteKey, RemoteSlice, Trust, ViError,
};

fn contents(exposed: &Exposed) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    exposed.read_at(0, &mut bytes);
    bytes
}

#[test]
fn what_is_written_is_there_at_once() {
    let scene = Scene::new(Trust::Cooperating);
    let exposed = scene.target.expose(scene.buf(1), Access::READ_WRITE).unwrap();
    let mut expected = vec![1; LEN];
    expected[..3].fill(2);
    assert!(!scene.write([2; 3], exposed.key().at(0)), "the first is the target's to do");
    let mut rng = SplitMix64(7);
    for _ in 0..500 {
        let start = rng.below(LEN + 1);
        let len = rng.below(LEN + 1 - start);
        let piece: Vec<u8> = (0..len).map(|_| rng.byte()).collect();
        expected[start..start + len].copy_from_slice(&piece);
        let (first, rest) = piece.split_at(len / 3);
        let descriptor = Descriptor::new(first.to_vec()).and(rest.to_vec()).with_tag(5);
        scene.here.post_write(descriptor, exposed.key().at(start as u64)).unwrap();
        // The target has not looked.
        let done = scene.here.send_queue().poll().unwrap().ok().unwrap();
        assert_eq!((done.len, done.tag), (len as u64, 5));
        assert!(contents(&exposed) == expected);
    }
    exposed.write_at(100, &[9; 5]);
    expected[100..105].fill(9);
    scene.here.post_read(Descriptor::new(vec![0_u8; LEN]), exposed.key().at(0)).unwrap();
    scene.settle();
    let read = scene.here.send_queue().poll().unwrap().ok().unwrap();
    assert!(read.into_vec::<u8>() == expected, "the program and a peer's read see the same");
    let place = scene.pool.region().id();
    let buf = exposed.revoke();
    assert!(buf.bytes() == expected && buf.region().id() == place, "the very buffer");
}

#[test]
fn a_notice_comes_after_its_bytes() {
    let scene = Scene::new(Trust::Cooperating);
    let exposed = scene.target.expose(scene.buf(0), Access::WRITE).unwrap();
    scene.write([0; 8], exposed.key().at(0));
    for number in 1..=64_u8 {
        scene.there.post_recv(Descriptor::empty()).unwrap();
        scene.settle();
        let descriptor = Descriptor::new(vec![number; 64]).with_tag(number.into());
        scene.here.post_write_notify(descriptor, exposed.key().at(u64::from(number) * 32)).unwrap();
        let mut seen = [0; 64];
        exposed.read_at(usize::from(number) * 32, &mut seen);
        assert_eq!(seen, [number; 64], "there before anybody looked");
        let notice = scene.there.recv_queue().wait(LONG).unwrap().ok().unwrap();
        assert_eq!((notice.len, notice.tag), (0, number.into()));
        let done = scene.here.send_queue().wait(LONG).unwrap().ok().unwrap();
        assert_eq!((done.len, done.tag), (64, number.into()));
    }
}

#[test]
fn the_target_refuses_what_it_did_not_grant() {
    let scene = Scene::new(Trust::Cooperating);
    let exposed = scene.target.expose(scene.buf(1), Access::WRITE).unwrap();
    let fixed = scene.target.expose(scene.buf(1), Access::READ).unwrap();
    let refused = |bytes: usize, to: RemoteSlice| {
        scene.here.post_write(Descriptor::new(vec![7_u8; bytes]), to).unwrap();
        scene.settle();
        match &scene.here.send_queue().poll().unwrap().status {
            Err(ViError::RemoteAccess(why)) => *why,
            other => panic!("{other:?}"),
        }
    };
    scene.write([1], exposed.key().at(0));
    assert!(scene.write([1], exposed.key().at(0)), "from now on directly");
    let size = LEN as u64;
    for (offset, len) in [(0, size + 1), (size, 1), (size + 1, 0), (u64::MAX, 2), (1, size)] {
        let why = refused(usize::try_from(len).unwrap(), exposed.key().at(offset));
        assert_eq!(why, AccessError::OutOfBounds { offset, len, size });
    }
    assert_eq!(refused(1, fixed.key().at(0)), AccessError::Forbidden { asked: "write" });
    assert!(contents(&exposed) == [1; LEN] && contents(&fixed) == [1; LEN]);
    let key = exposed.key();
    let buf = exposed.revoke();
    assert_eq!(refused(1, key.at(0)), AccessError::Revoked);
    assert_eq!(refused(1, key.at(0)), AccessError::Revoked);
    assert!(buf.bytes() == [1; LEN]);
}

#[test]
fn only_where_both_cooperate() {
    let scene = Scene::new(Trust::Isolated);
    let exposed = scene.target.expose(scene.buf(1), Access::WRITE).unwrap();
    for number in 2..10 {
        assert!(!scene.write([number; 10], exposed.key().at(5)), "nobody is trusted here");
        assert_eq!(contents(&exposed)[5..15], [number; 10]);
    }
}

#[test]
fn only_memory_that_is_for_it() {
    let scene = Scene::new(Trust::Cooperating);
    let pools = [Pool::builder(), Pool::builder().shareable()];
    let mut bufs: Vec<_> = pools
        .map(|pool| pool.class(LEN, 1).build().unwrap().take(LEN).unwrap())
        .into_iter()
        .collect();
    bufs.push(scene.buf(1).split_at(LEN / 2).0);
    for buf in bufs {
        let exposed = scene.target.expose(buf, Access::WRITE).unwrap();
        for number in 2..10 {
            assert!(!scene.write([number; 10], exposed.key().at(5)), "only the target may");
        }
        assert_eq!(exposed.revoke().bytes()[5..15], [9; 10]);
    }
}

#[test]
fn writes_stay_in_their_order() {
    in_order();
}

/// The way is told while writes are under way that the target executes.
pub(super) fn in_order() {
    let scene = Scene::new(Trust::Cooperating);
    let exposed = scene.target.expose(scene.buf(0), Access::WRITE).unwrap();
    let write = |number: u8| {
        let descriptor = Descriptor::new(vec![number; 100]);
        scene.here.post_write(descriptor, exposed.key().at(50)).unwrap();
    };
    write(1);
    scene.target.poll();
    // Told by now, and the writer has not heard it.
    write(2);
    write(3);
    look(&[&scene.writer]);
    // It has; two writes are still to be executed.
    write(4);
    write(5);
    scene.settle();
    for _ in 0..5 {
        drop(scene.here.send_queue().poll().unwrap().ok().unwrap());
    }
    assert_eq!(contents(&exposed)[50..150], [5; 100], "an older write came later");
    assert!(scene.write([6], exposed.key().at(0)), "it was told");
}

#[test]
fn gates_are_used_again_and_may_run_out() {
    let mut scene = Scene::new(Trust::Cooperating);
    let many = usize::from(GATES) + 2;
    scene.pool = pool(many);
    let expose = || scene.target.expose(scene.pool.take(LEN).unwrap(), Access::WRITE).unwrap();
    let write = |to: &Exposed| {
        scene.here.post_write(Descriptor::new(vec![1_u8; 8]), to.key().at(0)).unwrap();
        let was_direct = scene.here.send_queue().outstanding() == 0;
        drop(scene.here.send_queue().wait(LONG).unwrap().ok().unwrap());
        was_direct
    };
    let drive = |all: &[Exposed]| {
        for exposed in all {
            scene.here.post_write(Descriptor::new(vec![1_u8; 8]), exposed.key().at(0)).unwrap();
            while scene.here.send_queue().outstanding() > 0 {
                scene.target.poll();
                scene.writer.poll();
            }
            drop(scene.here.send_queue().poll().unwrap().ok().unwrap());
        }
        scene.settle();
    };
    let all: Vec<Exposed> = (0..many).map(|_| expose()).collect();
    drive(&all);
    let direct: Vec<bool> = all[..many - 2].iter().map(write).collect();
    assert!(direct.iter().all(|direct| *direct), "as many as there are gates");
    drive(&all[many - 2..]);
    drop(all);
    for _ in 0..3 {
        let again: Vec<Exposed> = (0..10).map(|_| expose()).collect();
        drive(&again);
        assert!(again.iter().all(write), "gates are free again");
    }
}

#[test]
fn a_connection_that_ends_shuts_its_gates() {
    let scene = Scene::new(Trust::Cooperating);
    let exposed = scene.target.expose(scene.buf(1), Access::WRITE).unwrap();
    scene.write([2; 8], exposed.key().at(0));
    assert!(scene.write([3; 8], exposed.key().at(0)));
    scene.there.disconnect();
    // The writer has not heard of it.
    scene.here.post_write(Descriptor::new(vec![4_u8; 8]), exposed.key().at(0)).unwrap();
    let failed = scene.here.send_queue().wait(LONG).unwrap();
    assert_eq!(failed.status, Err(ViError::ClosedByPeer));
    assert_eq!(contents(&exposed)[..8], [3; 8]);
    let mut buf = exposed.revoke();
    buf.bytes_mut().fill(5);
}

/// Somebody stands still inside for longer than it is waited for.
pub(super) fn stands_still() {
    let (keeps, theirs) = (shared(bytes(GATES)), shared(bytes(GATES)));
    let (_life, watched) = std::os::unix::net::UnixStream::pair().unwrap();
    let keeper = GateKeeper::new(keeps.0.clone(), theirs.1, 0, GATES).unwrap();
    let mut entrant = GateEntrant::new(theirs.0, foreign_of(&keeps.0), 0, GATES).unwrap();
    let gates = ConnectionGates::new(keeper, watched.into());
    for wants_it in [true, false] {
        let pool = pool(1);
        let mut buf = pool.take(LEN).unwrap();
        buf.bytes_mut().fill(1);
        let mut opened = ExposedBuffer::new(buf).unwrap();
        let mut pass = None;
        opened.invite(&gates, 0, |invitation| {
            pass = Some(invitation.pass);
            true
        });
        let mut copy = None;
        let went = entrant.enter(pass.unwrap(), || {
            opened.write(0, &[2; 10]);
            if wants_it {
                copy = Some(Box::new(opened).close());
            } else {
                Box::new(opened).discard();
            }
            assert!(pool.take(LEN).is_err(), "it is being written");
        });
        assert!(!went, "it was too late");
        if let Some(copy) = copy {
            assert_ne!(copy.region().id(), pool.region().id());
            assert_eq!((copy.len(), copy.capacity() >= LEN), (LEN, true));
            assert!(copy.bytes()[..10] == [2; 10] && copy.bytes()[10..].iter().all(|b| *b == 1));
        }
        until(|| pool.take(LEN).is_ok(), "the buffer is home");
    }
}

#[test]
fn a_stopped_writer_keeps_the_buffer_and_not_the_key() {
    stands_still();
}

#[test]
fn nonsense_about_a_way_is_refused() {
    let (own, foreign) = shared(bytes(GATES));
    let pool = pool(2);
    let buf = pool.take(LEN).unwrap();
    let (fd, plan) = LentBuffers::announcement(&buf).unwrap();
    let fd = fd.try_clone_to_owned().unwrap();
    let returns = OwnMemory::new(returns::bytes(LENT_MAX)).unwrap();
    let mut visiting = ReceivedBuffers::new(returns, 0, || ());
    visiting.announced(1, &fd, &plan, 1 << 20).unwrap();
    let ticket = |region, class, number, len| BufferTicket {
        place: SlotPlace { region, class, number },
        len,
    };
    for nonsense in [
        ticket(0, 0, 0, 1),
        ticket(1, 1, 0, 1),
        ticket(1, 0, 2, 1),
        ticket(1, 0, 0, LEN as u64 + 1),
        ticket(1, 0, 0, u64::MAX),
    ] {
        assert!(visiting.away(nonsense).is_none(), "{nonsense:?}");
    }
    let (region, at) = visiting.away(ticket(1, 0, 1, LEN as u64)).unwrap();
    let region = region.clone();
    assert_eq!(at, LEN);
    let here = visiting.arrived(ticket(1, 0, 1, 1)).unwrap();
    assert!(visiting.away(ticket(1, 0, 1, 1)).is_none(), "a buffer of this process");
    drop(here);
    let mut direct = DirectWrites::new(GateEntrant::new(own, foreign, 0, GATES).unwrap());
    for (gate, number) in [(GATES, 1), (u16::MAX, 1), (0, 0)] {
        let way =
            DirectTarget { pass: GatePass { gate, number }, region: region.clone(), at, len: 1 };
        assert!(!direct.learn(1, way), "gate {gate}, number {number}");
    }
    let way = DirectTarget { pass: GatePass { gate: 0, number: 1 }, region, at, len: 1 };
    assert!(direct.learn(1, way), "a gate may be shut by now");
    let to = RemoteKey::of(1).at(0);
    assert!(!direct.write(&to, &Descriptor::new(vec![1_u8])), "this one is");
    assert!(!direct.leads_to(&to, 1), "and is forgotten");
    assert!(
        GateEntrant::new(
            OwnMemory::new(4096).unwrap(),
            foreign_of(&OwnMemory::new(4096).unwrap()),
            64,
            GATES
        )
        .is_none()
    );
}
