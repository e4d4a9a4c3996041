//! Silence.

use crate::fabric::udp::keep_alive::{DEAD, KeepAlive, KeepAliveAction, QUIET};

/// A peer is asked after a while, and dead after a longer one.
pub(super) fn silence_is_death() {
    let mut pulse = KeepAlive::new(0);
    for tick in 1..DEAD {
        let expected = if tick < QUIET { KeepAliveAction::Nothing } else { KeepAliveAction::Ask };
        assert_eq!(pulse.keep_alive_tick(), expected, "tick {tick}");
    }
    assert_eq!(pulse.keep_alive_tick(), KeepAliveAction::Dead);
}

#[test]
fn a_silent_peer_is_dead() {
    silence_is_death();
}

#[test]
fn one_word_is_enough() {
    for number in 0..20 {
        let mut pulse = KeepAlive::new(number);
        for _ in 0..10 {
            while pulse.keep_alive_tick() == KeepAliveAction::Nothing {}
            (0..DEAD - QUIET - 1)
                .for_each(|_| assert_eq!(pulse.keep_alive_tick(), KeepAliveAction::Ask));
            pulse.hear();
            assert_eq!(pulse.keep_alive_tick(), KeepAliveAction::Nothing);
        }
    }
}
