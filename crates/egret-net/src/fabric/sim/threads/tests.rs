//! Threads of a simulated world.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fabric::sim::{Sim, check};
use crate::rt;

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

/// What threads did, in which order, that sleep and wake each other.
fn dance(sim: &Sim) -> (Vec<(u64, u64)>, u64) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let started = rt::now();
    let others: Vec<_> = (0..5_u64)
        .map(|number| {
            let notes = Arc::clone(&notes);
            let note = move || {
                let since = u64::try_from((rt::now() - started).as_millis()).unwrap();
                notes.lock().unwrap().push((number, since));
            };
            let body = move || {
                for _ in 0..4 {
                    note();
                    rt::sleep(Duration::from_millis(number % 3));
                    note();
                    rt::park(Some(rt::now() + Duration::from_millis(2)));
                }
                number
            };
            rt::spawn("dances", body).unwrap()
        })
        .collect();
    others[3].thread().unpark();
    let first = rt::now();
    let joined: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
    assert_eq!(joined, [0, 1, 2, 3, 4]);
    assert!(rt::now() > first);
    (Arc::into_inner(notes).unwrap().into_inner().unwrap(), sim.digest())
}

#[test]
fn a_seed_decides_who_runs_and_the_same_seed_decides_the_same() {
    let run = |seed| dance(&Sim::new(seed));
    let all: Vec<_> = (0..20).map(run).collect();
    for (seed, before) in (0..20).zip(&all) {
        assert_eq!(&run(seed), before, "seed {seed}");
    }
    assert!(all.iter().any(|other| other.0 != all[0].0), "another seed, another order");
}

#[test]
fn one_thread_of_a_world_runs_at_a_time() {
    check(0..30, |_| {
        let count = Arc::new(AtomicU64::new(0));
        let adds = |_| {
            let count = Arc::clone(&count);
            rt::spawn("adds", move || {
                for _ in 0..50 {
                    // Another that runs meanwhile would be lost.
                    let before = count.load(Ordering::Relaxed);
                    std::hint::spin_loop();
                    count.store(before + 1, Ordering::Relaxed);
                    rt::sleep(Duration::from_nanos(rt::random() % 100));
                }
            })
        };
        let all: Vec<_> = (0..6).map(adds).collect::<Result<_, _>>().unwrap();
        all.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 300);
    });
}

#[test]
fn time_stands_still_while_somebody_can_run() {
    let sim = Sim::new(3);
    let sleeper = rt::spawn("sleeps", || rt::sleep(Duration::from_secs(5))).unwrap();
    let me = rt::current();
    let wakes = rt::spawn("wakes", move || me.unpark()).unwrap();
    rt::park(None);
    assert_eq!(sim.elapsed(), Duration::ZERO, "unparked before anybody's time was up");
    assert!(!sleeper.is_finished());
    assert!(sim.threads() >= 1);
    sleeper.join().unwrap();
    assert!(wakes.is_finished());
    wakes.join().unwrap();
    assert_eq!((sim.threads(), sim.elapsed()), (0, Duration::from_secs(5)));
}

#[test]
fn a_thread_that_panics_is_joined_with_its_panic() {
    let _sim = Sim::new(4);
    let panics = rt::spawn("panics", || panic!("of a test")).unwrap();
    let said = panics.join().unwrap_err();
    assert_eq!(said.downcast_ref(), Some(&"of a test"));
}

#[test]
fn a_world_in_which_everybody_waits_says_who() {
    let sim = Sim::new(5);
    rt::spawn("forgotten", || rt::park(None)).unwrap();
    let waits = catch_unwind(AssertUnwindSafe(|| rt::park(None)));
    let said = message(&*waits.unwrap_err());
    assert!(said.contains("forgotten waits for ever"), "{said}");
    assert!(said.contains("seed 5"), "{said}");
    drop(sim);
}

/// Says so when it is dropped.
struct Gone(Arc<AtomicU64>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // Even what waits while it unwinds does not keep its world.
        rt::sleep(Duration::from_secs(1));
    }
}

#[test]
fn threads_end_with_their_world() {
    let gone = Arc::new(AtomicU64::new(0));
    {
        let _sim = Sim::new(6);
        for _ in 0..3 {
            let gone = Gone(Arc::clone(&gone));
            let body = move || {
                let _gone = gone;
                while catch_unwind(|| rt::park(None)).is_ok() {}
                rt::sleep(Duration::from_secs(3600));
            };
            rt::spawn("waits", body).unwrap();
        }
        rt::sleep(Duration::from_secs(1));
        // One that has not begun never does.
        let late = Gone(Arc::clone(&gone));
        rt::spawn("late", move || drop(late)).unwrap();
    }
    assert_eq!(gone.load(Ordering::Relaxed), 4);
}
