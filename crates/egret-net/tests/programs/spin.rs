//! How a thread that waits looks, gives way and sleeps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::time::Duration;

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::rt::{self, Instant};
use egret_net::vi::{Nic, NicOptions, Spin, Wait};

/// Looks of a round, rounds of a balanced nic, and how often it gives way at most: as
/// `vi/hub/spin.rs` says.
const ROUND: u32 = 16;
const ROUNDS: u32 = 8;
const YIELDS: u32 = 16;
/// Giving way that takes so long makes a nic give way less.
const SLOW: Duration = Duration::from_micros(50);

fn nic(wait: Wait) -> Nic {
    let name = format!("spin-{}-{}", std::process::id(), rt::random());
    ShmFabric.open(&NicOptions::new(&name).wait(wait)).unwrap()
}

/// Looks that are left of this round.
fn looks_left(spin: &mut Spin<'_>) -> u32 {
    std::iter::from_fn(|| spin.again().then_some(())).map(|()| 1).sum()
}

/// At once.
fn past() -> Option<Instant> {
    Some(rt::now())
}

/// Waits once more. `None` if that took so long that the nic may give way less from now on.
fn wait(spin: &mut Spin<'_>) -> Option<()> {
    let before = rt::now();
    spin.wait(past());
    (rt::now() - before < SLOW).then_some(())
}

/// Waits in vain until it has slept, and begins anew. How many rounds it looked before; `None` if the
/// thread was disturbed.
fn rounds_in_vain(spin: &mut Spin<'_>) -> Option<u32> {
    let mut rounds = 0;
    while looks_left(spin) == ROUND {
        rounds += 1;
        wait(spin)?;
    }
    // It gives way: its caller looks once each time.
    let mut gave_way = 1;
    loop {
        wait(spin)?;
        if looks_left(spin) == ROUND {
            break;
        }
        gave_way += 1;
    }
    assert!(gave_way <= YIELDS, "{gave_way} times");
    Some(rounds)
}

/// Tries with new nics until nobody disturbs the thread. On a machine where that never happens nothing
/// can be said; the tests beside the policy ask the same of its history.
fn undisturbed(body: impl Fn(&Nic) -> Option<()>) {
    _ = (0..200).any(|_| body(&nic(Wait::Balanced)).is_some());
}

#[test]
fn a_frugal_nic_looks_once_and_sleeps() {
    let nic = nic(Wait::Frugal);
    let mut spin = nic.spin();
    assert_eq!(looks_left(&mut spin), 1);
    spin.wait(past());
    assert_eq!(looks_left(&mut spin), 0, "no more than its caller does");
}

#[test]
fn a_nic_that_spins_never_sleeps() {
    let nic = nic(Wait::Spin);
    let mut spin = nic.spin();
    for _ in 0..4 * ROUNDS {
        assert_eq!(looks_left(&mut spin), ROUND);
        // Without a deadline: asleep it would stay there.
        spin.wait(None);
    }
}

#[test]
fn a_balanced_nic_looks_then_gives_way_then_sleeps() {
    undisturbed(|nic| {
        assert_eq!(rounds_in_vain(&mut nic.spin())?, ROUNDS);
        Some(())
    });
}

#[test]
fn spinning_in_vain_gets_shorter_until_a_round_succeeds() {
    undisturbed(|nic| {
        for _ in 0..2 {
            assert_eq!(rounds_in_vain(&mut nic.spin())?, ROUNDS);
        }
        assert_eq!(rounds_in_vain(&mut nic.spin())?, 1);
        drop(nic.spin());
        assert_eq!(rounds_in_vain(&mut nic.spin())?, 1, "what was there already says nothing");
        assert!(nic.spin().again());
        assert_eq!(rounds_in_vain(&mut nic.spin())?, ROUNDS);
        Some(())
    });
}

#[test]
fn a_wait_ends_with_what_happens_before_its_sleep() {
    let nic = nic(Wait::Frugal);
    let mut spin = nic.spin();
    assert_eq!(looks_left(&mut spin), 1);
    nic.wake();
    // Without a deadline: it would sleep for ever.
    spin.wait(None);
}
