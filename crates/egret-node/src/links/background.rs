//! The thread that drives the links when nobody waits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use egret_net::rt;

use super::core::Core;

/// Starts it. It ends soon after the last handle to the links is gone.
pub(super) fn start(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::downgrade(core);
    rt::spawn("egret links", move || run(&core)).map(drop)
}

fn run(core: &Weak<Core>) {
    let (mut turns, mut trimmed) = (None, rt::now());
    if let Some(core) = core.upgrade() {
        core.background.get_or_init(rt::current);
    }
    loop {
        let Some(core) = core.upgrade() else { return };
        if Arc::strong_count(&core) == 1 {
            return;
        }
        if core.is_called.swap(false, Ordering::Acquire) {
            core.flush();
        }
        let before = turns.replace(core.baton.turns());
        if before != turns {
            drop(core);
            rt::park(Some(rt::now() + QUIET));
            continue;
        }
        // Said before it is asked whose the role is: who has it then sees this when it leaves.
        core.rests.store(true, Ordering::Release);
        let is_taken = !core.drive_behind(core.nic.now() + LOOK);
        // What is used now and then, and between two waits of the program, stays.
        if rt::now() - trimmed >= TRIM {
            core.depot.trim();
            trimmed = rt::now();
        }
        if is_taken {
            // Who has the role waits, and long.
            drop(core);
            rt::park(Some(rt::now() + REST));
        } else {
            core.rests.store(false, Ordering::Relaxed);
        }
        turns = None;
    }
}

/// If nobody has driven for so long, nobody waits: what comes then is heard after twice that, and
/// the time it takes a thread to wake. A glance costs a few microseconds while others drive.
const QUIET: Duration = Duration::from_micros(250);
/// How long it rests at most: a thread that panics leaves the role, too, and calls nobody.
const REST: Duration = Duration::from_millis(10);
/// How often it looks whether there are links at all.
const LOOK: Duration = Duration::from_secs(1);
/// How long memory for what arrives is kept though nothing does, at least.
const TRIM: Duration = Duration::from_secs(5);
