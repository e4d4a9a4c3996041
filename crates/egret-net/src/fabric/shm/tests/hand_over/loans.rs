//! What may change hands, and what a peer may say about it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::{LARGE, REGION, Rig, SMALL, announce, assert_all_home, has_file, inode, pool};
use crate::buf::{Buf, LendError, Pool, Typed, VisitError};
use crate::fabric::shm::cooperating::lent::{BufferTicket, LentBuffers};
use crate::fabric::shm::cooperating::received::{HandOverError, ReceivedBuffers};
use crate::fabric::shm::cooperating::returns::{LENT_MAX, SlotPlace, bytes};
use crate::fabric::shm::memory::OwnMemory;

#[test]
fn a_buffer_goes_and_returns_without_a_copy() {
    let mut rig = Rig::new();
    let mut buf = rig.pool.take(100).unwrap();
    buf.bytes_mut().fill(7);
    let place = buf.offset_in_region();
    let ticket = rig.loans.lend(REGION, buf).unwrap();
    assert_eq!((ticket.len, rig.loans.count()), (100, 1));
    let mut theirs = rig.visiting.arrived(ticket).unwrap();
    assert_eq!((theirs.offset_in_region(), theirs.capacity()), (place, LARGE));
    assert_eq!(theirs.bytes(), [7; 100]);
    theirs.resize(200);
    theirs.bytes_mut().fill(8);
    assert!(rig.visiting.has(&theirs));
    let ticket = rig.visiting.give_back(theirs).unwrap();
    let ours = rig.loans.came_back(ticket).unwrap();
    assert_eq!((ours.offset_in_region(), ours.bytes()), (place, &[8; 200][..]));
    assert_eq!((rig.loans.count(), rig.pool.available(LARGE)), (0, 3));
    drop(ours);
    assert_all_home(&rig.pool);
}

#[test]
fn what_is_dropped_returns_when_the_last_handle_goes() {
    dropped_returns();
}

pub(super) fn dropped_returns() {
    let mut rig = Rig::new();
    let words: Typed<u64> = rig.hand(SMALL).typed().unwrap();
    let shared = words.share();
    let (clone, held) = (shared.clone(), rig.hand(SMALL).hold());
    let (head, rest) = rig.hand(SMALL).split_at(10);
    drop((shared, head));
    assert!(held.is_resident() && !rig.loans.poll(), "handles are left");
    drop((clone, held, rest));
    assert_eq!(rig.pool.available(SMALL), 1, "nobody looked");
    assert!(rig.loans.poll());
    assert_eq!((rig.loans.count(), rig.loans.ignored()), (0, 0));
    assert_all_home(&rig.pool);
}

#[test]
fn what_cannot_change_hands_stays() {
    parts_stay();
    let mut rig = Rig::new();
    let mut refused = |buf: Buf, why: LendError| {
        let len = buf.len();
        let (buf, reason) = rig.loans.lend(REGION, buf).unwrap_err();
        assert_eq!((buf.len(), reason), (len, why));
    };
    refused(Pool::new(64, 1).unwrap().take(10).unwrap(), LendError::Private);
    let shareable = Pool::builder().class(64, 1).shareable().build().unwrap();
    refused(shareable.take(10).unwrap(), LendError::Private);
    let many = (1..=65).fold(Pool::builder(), |pool, class| pool.class(class, 1));
    let many = many.cooperating().build().unwrap();
    assert!(LentBuffers::announcement(&many.take(1).unwrap()).is_none());
    refused(many.take(1).unwrap(), LendError::Classes);
    let theirs = rig.hand(SMALL);
    let (theirs, why) = rig.loans.lend(REGION, theirs).unwrap_err();
    assert_eq!(why, LendError::Visiting, "a third process gets a copy");
    drop(theirs);
    let (_, why) = rig.visiting.give_back(rig.pool.take(1).unwrap()).unwrap_err();
    assert_eq!(why, LendError::Visiting, "it did not come from the peer");
}

/// Parts of a buffer, on either side.
pub(super) fn parts_stay() {
    let mut rig = Rig::new();
    let (head, rest) = rig.pool.take(SMALL).unwrap().split_at(10);
    let (head, why) = rig.loans.lend(REGION, head).unwrap_err();
    assert_eq!(why, LendError::Part);
    drop(head);
    assert_eq!(rig.loans.lend(REGION, rest).unwrap_err().1, LendError::Part, "still a part");
    let (head, rest) = rig.hand(SMALL).split_at(10);
    let (head, why) = rig.visiting.give_back(head).unwrap_err();
    assert_eq!(why, LendError::Part);
    let whole = Buf::join(head, rest).unwrap();
    let ticket = rig.visiting.give_back(whole).unwrap();
    assert_eq!(rig.loans.came_back(ticket).unwrap().len(), SMALL);
}

#[test]
fn a_hand_over_can_be_undone_until_it_is_announced() {
    let mut rig = Rig::new();
    let ticket = rig.loans.lend(REGION, rig.pool.take(9).unwrap()).unwrap();
    assert_eq!(rig.loans.undo(ticket).len(), 9);
    let theirs = rig.hand(9);
    let ticket = rig.visiting.give_back(theirs).unwrap();
    drop(rig.visiting.undo(ticket));
    assert!(rig.loans.poll());
    assert_all_home(&rig.pool);
}

#[test]
fn what_the_peer_does_not_have_is_not_taken_back() {
    let mut rig = Rig::new();
    let theirs = rig.hand(SMALL);
    let ticket =
        |number, len| BufferTicket { place: SlotPlace { region: REGION, class: 0, number }, len };
    let number = u32::try_from(theirs.offset_in_region() / SMALL).unwrap();
    for wrong in [ticket(number + 1, 1), ticket(number, 65), ticket(number, u64::MAX)] {
        assert!(rig.loans.came_back(wrong).is_none());
    }
    let other = SlotPlace { region: REGION + 1, ..ticket(number, 1).place };
    assert!(rig.loans.came_back(BufferTicket { place: other, len: 1 }).is_none());
    // A forged return of something that is free, and a word that is no place.
    let forged = ticket(number + 1, 1).place.encode();
    for (count, word) in [forged, 0].into_iter().enumerate() {
        rig.returns.word(64 + 8 * count).store(word, Relaxed);
        rig.returns.word(0).store(count as u64 + 1, Relaxed);
        assert!(rig.loans.poll());
        assert_eq!(rig.loans.ignored(), count as u64 + 1);
    }
    assert_eq!((rig.loans.count(), rig.pool.available(SMALL)), (1, 3));
}

#[test]
fn what_the_home_says_is_checked() {
    handed_over_twice();
    let mut rig = Rig::new();
    let ticket = |region, class, number, len| {
        let place = SlotPlace { region, class, number };
        BufferTicket { place, len }
    };
    let mut wrong = |ticket| rig.visiting.arrived(ticket).map(drop).unwrap_err();
    assert!(matches!(wrong(ticket(9, 0, 0, 1)), HandOverError::NoRegion { region: 9 }));
    for (class, number) in [(2, 0), (u16::MAX, 0), (0, 4), (1, u32::MAX)] {
        let why = VisitError::NoSlot { class, number };
        let said = wrong(ticket(REGION, class, number, 1));
        assert!(matches!(said, HandOverError::Slot { region: REGION, why: said } if said == why));
    }
    for len in [65, u64::MAX] {
        let why = VisitError::TooLong { len, bytes: SMALL };
        let said = wrong(ticket(REGION, 0, 0, len));
        assert!(matches!(said, HandOverError::Slot { region: REGION, why: said } if said == why));
    }
}

pub(super) fn handed_over_twice() {
    let mut rig = Rig::new();
    let ticket = rig.loans.lend(REGION, rig.pool.take(8).unwrap()).unwrap();
    let first = rig.visiting.arrived(ticket).unwrap();
    let Err(HandOverError::Slot { why: VisitError::Twice { .. }, .. }) =
        rig.visiting.arrived(ticket)
    else {
        panic!("two handles to one slot");
    };
    drop(first);
    assert!(rig.visiting.arrived(ticket).is_ok(), "it is away by now");
}

#[test]
fn no_more_are_lent_than_can_return() {
    let pool = Pool::builder().class(SMALL, LENT_MAX + 1).cooperating().build().unwrap();
    let mut rig = Rig::of(pool);
    let mut theirs: Vec<Buf> = (0..LENT_MAX).map(|_| rig.hand(1)).collect();
    let one_more = rig.pool.take(1).unwrap();
    let (one_more, why) = rig.loans.lend(REGION, one_more).unwrap_err();
    assert_eq!(why, LendError::TooMany { most: LENT_MAX });
    let last = SlotPlace { region: REGION, class: 0, number: 0 };
    let too_many = rig.visiting.arrived(BufferTicket { place: last, len: 1 });
    assert!(matches!(too_many, Err(HandOverError::TooMany)));
    theirs.truncate(1);
    let ticket = rig.loans.lend(REGION, one_more).unwrap();
    theirs.push(rig.visiting.arrived(ticket).unwrap());
    drop(theirs);
    assert!(rig.loans.poll());
    assert_eq!((rig.loans.count(), rig.pool.available(1)), (0, LENT_MAX + 1));
}

#[test]
fn a_home_rings_for_each_return() {
    let (pool, rung) = (pool(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&rung);
    let ring = move || _ = count.fetch_add(1, Relaxed);
    let mut visiting = ReceivedBuffers::new(OwnMemory::new(bytes(LENT_MAX)).unwrap(), 0, ring);
    announce(&pool, &mut visiting);
    let ticket = BufferTicket { place: SlotPlace { region: REGION, class: 1, number: 2 }, len: 5 };
    drop(visiting.arrived(ticket).unwrap());
    assert_eq!(rung.load(Relaxed), 1);
    drop(visiting);
    assert_eq!(rung.load(Relaxed), 2, "and when it leaves");
}

#[test]
fn an_announcement_is_checked() {
    unsealed_is_not_adopted();
    let pool = pool();
    let buf = pool.take(1).unwrap();
    let (fd, plan) = LentBuffers::announcement(&buf).unwrap();
    let fd = fd.try_clone_to_owned().unwrap();
    let mut visiting = ReceivedBuffers::new(OwnMemory::new(bytes(LENT_MAX)).unwrap(), 0, || ());
    let mut announced = |region, plan: &[u64], max| visiting.announced(region, &fd, plan, max);
    assert!(matches!(announced(1, &plan, 4095), Err(HandOverError::Memory(_))), "too large");
    assert!(matches!(announced(1, &plan[1..], 4096), Err(HandOverError::PoolPlan(_))));
    assert!(matches!(announced(1 << 15, &plan, 4096), Err(HandOverError::Number { .. })));
    announced(1, &plan, 4096).unwrap();
    assert!(matches!(announced(1, &plan, 4096), Err(HandOverError::Number { region: 1 })));
}

/// Memory that can shrink, and memory that is not to be written.
pub(super) fn unsealed_is_not_adopted() {
    let mut visiting = ReceivedBuffers::new(OwnMemory::new(bytes(LENT_MAX)).unwrap(), 0, || ());
    let plan = [64, 64, 0, 4];
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd: OwnedFd = memfd_create("egret-test", flags).unwrap();
    ftruncate(&fd, 4096).unwrap();
    for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SHRINK] {
        fcntl_add_seals(&fd, seals).unwrap();
        assert!(matches!(visiting.announced(1, &fd, &plan, 4096), Err(HandOverError::Memory(_))));
    }
    fcntl_add_seals(&fd, SealFlags::SEAL).unwrap();
    visiting.announced(1, &fd, &plan, 4096).unwrap();
    let sealed = Pool::builder().class(64, 4).shareable().build().unwrap();
    let fd = sealed.region().fd().unwrap().try_clone_to_owned().unwrap();
    assert!(matches!(visiting.announced(2, &fd, &plan, 4096), Err(HandOverError::Memory(_))));
}

#[test]
fn the_descriptor_is_for_cooperating_peers_only() {
    let pool = pool();
    assert!(pool.region().fd().is_none() && pool.region().cooperating_fd().is_some());
    let mut rig = Rig::new();
    let theirs = rig.hand(1);
    assert!(theirs.region().fd().is_none() && theirs.region().cooperating_fd().is_none());
}

#[test]
fn memory_stays_while_something_needs_it() {
    mapped_while_needed();
}

pub(super) fn mapped_while_needed() {
    let mut rig = Rig::new();
    let file = inode(&rig.pool);
    let mut theirs = rig.hand(SMALL);
    drop((rig.visiting, rig.pool, rig.loans, rig.life));
    theirs.bytes_mut().fill(3);
    assert!(has_file(file));
    drop(theirs);
    super::until(|| !has_file(file), "nobody needs the memory");
}

#[test]
fn the_dead_have_nothing() {
    the_kernel_is_asked();
    let mut rig = Rig::new();
    std::mem::forget([rig.hand(SMALL), rig.hand(LARGE)]);
    drop(rig.hand(SMALL));
    rig.die();
    assert!(rig.loans.owner_gone());
    assert_all_home(&rig.pool);
    assert!(rig.loans.poll(), "what it returned before");
    assert_eq!(rig.loans.ignored(), 1);
    let (_, why) = rig.loans.lend(REGION, rig.pool.take(1).unwrap()).unwrap_err();
    assert_eq!(why, LendError::Gone);
    assert_all_home(&rig.pool);
}

pub(super) fn the_kernel_is_asked() {
    let mut rig = Rig::new();
    let theirs = rig.hand(SMALL);
    assert!(!rig.loans.owner_gone(), "it lives");
    assert_eq!((rig.loans.count(), rig.pool.available(SMALL)), (1, 3));
    drop(theirs);
}
