//! Every interleaving of threads that share a biased lock, by the model
//! checker, and what the checks say to planted faults.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::super::biased_lock::fault::Fault;
use super::super::checker::{LoomAtomics, check};
use super::super::{Atomics, BiasedLock, FenceFault, StdAtomics};
use crate::fault::caught;

/// Two words that are equal whenever nobody has the lock.
type Pair = [AtomicU64; 2];
type Model = BiasedLock<Pair, LoomAtomics>;

fn model() -> Arc<Model> {
    Arc::new(BiasedLock::new([AtomicU64::new(0), AtomicU64::new(0)]))
}

/// Adds one, and answers how many there were.
fn step(lock: &Model) -> u64 {
    lock.with(add_one)
}

fn add_one(pair: &mut Pair) -> u64 {
    let [a, b] = pair.each_ref().map(|word| word.load(Relaxed));
    assert_eq!(a, b, "somebody else is inside");
    pair.iter().for_each(|word| word.store(a + 1, Relaxed));
    a
}

/// The biased thread steps while another thread takes the lock.
fn one_of_two() {
    let lock = model();
    step(&lock);
    let other = thread::spawn({
        let lock = Arc::clone(&lock);
        move || step(&lock)
    });
    let mine = step(&lock);
    let theirs = other.join().unwrap();
    assert_eq!([mine.min(theirs), mine.max(theirs)], [1, 2]);
    assert_eq!(step(&lock), 3);
}

#[test]
fn one_thread_at_a_time() {
    check(one_of_two);
}

/// A thread that had the bias long ago wakes up while the next one is inside.
fn one_of_three() {
    let lock = model();
    step(&lock);
    let others = [(); 2].map(|()| {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            step(&lock);
            step(&lock);
        })
    });
    step(&lock);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(step(&lock), 6);
}

#[test]
fn a_late_formerly_biased_thread_harms_nobody() {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(2);
    checker.check(one_of_three);
}

#[test]
fn a_try_finds_it_taken() {
    check(|| {
        let lock = model();
        step(&lock);
        let other = thread::spawn({
            let lock = Arc::clone(&lock);
            move || lock.try_with(|_| ()).is_some()
        });
        lock.with(|_| assert!(lock.try_with(|_| ()).is_none(), "it is taken"));
        other.join().unwrap();
        assert_eq!(step(&lock), 1);
    });
}

/// A thread comes to a second value of the lock that it has, while another thread revokes its bias.
fn one_within_another() {
    let lock: BiasedLock<Pair, LoomAtomics> =
        BiasedLock::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let second = lock.sharing([AtomicU64::new(0), AtomicU64::new(0)]);
    let both = Arc::new(move || {
        lock.with(|_| {
            assert!(lock.try_with(|_| ()).is_none(), "a value is taken once");
            second.with(add_one);
            second.with(add_one)
        })
    });
    both();
    let other = thread::spawn({
        let both = Arc::clone(&both);
        move || both()
    });
    let mine = both();
    let theirs = other.join().unwrap();
    assert_eq!([mine.min(theirs), mine.max(theirs)], [3, 5]);
}

/// A value that a thread has is not given to it again, however often it asks.
fn never_twice() {
    let first: BiasedLock<u32> = BiasedLock::new(0);
    let second = first.sharing(0);
    first.with(|_| {
        second.with(|_| {
            for _ in 0..2 {
                let again = std::panic::AssertUnwindSafe(|| second.with(|value| *value));
                assert!(std::panic::catch_unwind(again).is_err(), "it is taken");
            }
        });
        assert_eq!(second.with(|value| *value), 0);
    });
    let lock: BiasedLock<u32> = BiasedLock::new(0);
    lock.with(|_| {
        for _ in 0..2 {
            let again = std::panic::AssertUnwindSafe(|| lock.with(|_| ()));
            assert!(std::panic::catch_unwind(again).is_err(), "it is taken");
            assert!(lock.try_with(|_| ()).is_none());
        }
    });
    assert!(lock.try_with(|_| ()).is_some());
}

#[test]
fn what_a_thread_has_it_is_not_given_again() {
    never_twice();
}

#[test]
fn values_share_a_lock() {
    check(one_within_another);
}

#[test]
fn a_panic_inside_lets_it_go() {
    let lock: BiasedLock<u32, StdAtomics> = BiasedLock::new(0);
    for round in 0..100 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.with(|value| {
                *value += 1;
                panic!("round {round}");
            })
        }));
        assert!(outcome.is_err());
    }
    assert_eq!(lock.with(|value| *value), 100);
}

#[test]
fn real_threads_take_turns() {
    let lock: Arc<BiasedLock<u64>> = Arc::new(BiasedLock::new(0));
    let count = |times: u64| {
        let lock = Arc::clone(&lock);
        move || (0..times).for_each(|_| lock.with(|value| *value += 1))
    };
    for _ in 0..20 {
        let threads =
            [crate::rt::spawn("turns", count(2000)), crate::rt::spawn("turns", count(100))];
        count(500)();
        for thread in threads {
            thread.unwrap().join().unwrap();
        }
    }
    assert_eq!(lock.with(|value| *value), 20 * 2600);
}

#[test]
fn a_thread_gets_the_bias_again_however_often_another_passes_by() {
    let lock: Arc<BiasedLock<u64>> = Arc::new(BiasedLock::new(0));
    for round in 1..=40 {
        let is_biased = (0..1 << 20).any(|_| {
            lock.with(|_| {});
            lock.is_biased_to_me()
        });
        // A kernel without the fence gives no bias.
        assert!(is_biased || !StdAtomics::has_heavy_fence(), "round {round}");
        let other = Arc::clone(&lock);
        let other = crate::rt::spawn("passes by", move || other.with(|value| *value += 1));
        other.unwrap().join().unwrap();
        assert!(!lock.is_biased_to_me(), "another had it");
        assert_eq!(lock.with(|value| *value), round);
    }
}

#[test]
fn every_planted_fault_is_found() {
    for fault in
        [Fault::BiasUnchecked, Fault::RevokeUnfenced, Fault::RevokeUnawaited, Fault::ReleaseRelaxed]
    {
        assert!(caught(fault, || check(one_of_two)), "{fault:?}");
    }
    assert!(caught(Fault::TakenTwice, never_twice), "taken twice");
    let three = || a_late_formerly_biased_thread_harms_nobody();
    assert!(caught(Fault::OneBusyWord, three), "one busy word");
}

/// Runs the test of this name in a process of its own, which plays its part.
fn played_alone(test: &str) -> Option<Output> {
    const PART: &str = "EGRET_TEST_FENCE_DENIED";
    if std::env::var_os(PART).is_some() {
        return None;
    }
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PART, "");
    // A process that aborts leaves no core behind.
    Some(command.current_dir("/").stdin(Stdio::null()).output().unwrap())
}

/// The process ended by an abort that says why, and nobody went on.
fn assert_aborted(output: &Output) {
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(!said.contains(WENT_ON), "the process went on: {said}{errors}");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}{errors}");
    assert!(errors.contains("membarrier") && errors.contains("seccomp"), "{errors}");
    assert!(!errors.contains("panicked"), "nothing unwinds: {errors}");
}

const WENT_ON: &str = "a thread went on without the fence";

#[test]
fn a_denied_fence_lets_nobody_in() {
    let Some(output) = played_alone("atomics::tests::biased_lock::a_denied_fence_lets_nobody_in")
    else {
        return revoke_without_fence();
    };
    if StdAtomics::has_heavy_fence() {
        assert_aborted(&output);
    }
}

/// The biased thread is inside while another thread, which is denied the fence, wants the lock.
fn revoke_without_fence() {
    let lock: Arc<BiasedLock<u64>> = Arc::new(BiasedLock::new(0));
    while StdAtomics::has_heavy_fence() && !lock.is_biased_to_me() {
        lock.with(|_| {});
    }
    let inside = Arc::new(AtomicBool::new(true));
    lock.with(|_| {
        let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
        let other = crate::rt::spawn("denied", move || {
            let unwound = caught(FenceFault::Denied, || lock.with(|_| {}));
            let (second, together) = (lock.try_with(|_| ()).is_some(), inside.load(SeqCst));
            println!("{WENT_ON}: unwound {unwound}, in {second}, together {together}");
        });
        other.unwrap().join().unwrap();
    });
    inside.store(false, SeqCst);
}

#[test]
fn a_denied_fence_gives_no_cache_away() {
    let test = "atomics::tests::biased_lock::a_denied_fence_gives_no_cache_away";
    let Some(output) = played_alone(test) else { return empty_pool_without_fence() };
    if StdAtomics::has_heavy_fence() {
        assert_aborted(&output);
    }
}

/// The free buffer of a pool is in the cache of one thread when another, which is denied
/// the fence, needs one.
fn empty_pool_without_fence() {
    let pool = crate::buf::Pool::new(64, 1).unwrap();
    drop(pool.take(64).unwrap());
    let other = crate::rt::spawn("denied", move || {
        let unwound = caught(FenceFault::Denied, || drop(pool.take(64)));
        println!("{WENT_ON}: unwound {unwound}");
    });
    other.unwrap().join().unwrap();
}
