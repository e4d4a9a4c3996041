//! Silence.

use crate::fabric::udp::keep_alive::{DEAD, KeepAlive, KeepAliveAction, QUIET};

/// A peer is asked after a while, and dead after a longer one.
pub(super) fn silence_is_death() {
    let mut pulse = KeepAlive::new(0);
    for beat in 1..DEAD {
        let expected = if beat < QUIET { KeepAliveAction::Nothing } else { KeepAliveAction::Ask };
        assert_eq!(pulse.beat(), expected, "beat {beat}");
    }
    assert_eq!(pulse.beat(), KeepAliveAction::Dead);
}

#[test]
fn who_is_silent_is_dead() {
    silence_is_death();
}

#[test]
fn one_word_is_enough() {
    for number in 0..20 {
        let mut pulse = KeepAlive::new(number);
        for _ in 0..10 {
            while pulse.beat() == KeepAliveAction::Nothing {}
            (0..DEAD - QUIET - 1).for_each(|_| assert_eq!(pulse.beat(), KeepAliveAction::Ask));
            pulse.hear();
            assert_eq!(pulse.beat(), KeepAliveAction::Nothing);
        }
    }
}
