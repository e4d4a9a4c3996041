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

/// What the first thread says when `body` waits on a thread of its own meanwhile.
fn first_says(sim: &Sim, body: impl FnOnce() + Send + 'static) -> String {
    rt::spawn("another", body).unwrap();
    let waits = catch_unwind(AssertUnwindSafe(|| rt::sleep(Duration::from_secs(10))));
    assert_eq!(sim.panic_of_thread(), None, "the plan is nobody else's");
    message(&*waits.unwrap_err())
}

#[test]
fn a_plan_that_panics_on_another_thread_ends_the_world_and_the_first_says_why() {
    let ends: [fn(); 3] = [
        || rt::park(None),
        // While nobody waits but the first.
        || (),
        || {
            rt::sleep(Duration::from_millis(1));
            rt::park(None);
        },
    ];
    for end in ends {
        let sim = Sim::new(7);
        sim.at(Duration::from_millis(2), |_| panic!("a plan of a test"));
        let said = first_says(&sim, end);
        assert!(said.contains("a plan of a test"), "{said}");
    }
}

/// The thread that ends carries out what comes next, as no other can run.
#[test]
fn a_plan_that_an_ending_thread_carries_out_is_in_the_world() {
    let sim = Sim::new(1);
    let seen = Arc::new(Mutex::new(None));
    let sees = Arc::clone(&seen);
    sim.at(Duration::from_millis(2), move |_| {
        let thread = rt::this_thread().name().map(str::to_owned);
        *sees.lock().unwrap() = Some((rt::now(), rt::has_background(), thread));
    });
    let started = rt::now();
    rt::spawn("ends", || ()).unwrap();
    rt::sleep(Duration::from_millis(10));
    let (at, has_background, thread) = seen.lock().unwrap().take().unwrap();
    assert_eq!(thread.as_deref(), Some("ends"));
    assert_eq!((at - started, has_background), (Duration::from_millis(2), rt::has_background()));
}

/// A look at the network carries a plan out, too.
#[test]
fn a_plan_that_panics_in_a_look_ends_the_world_when_the_thread_waits() {
    let sim = Sim::new(8);
    let nic = sim.nic("looks");
    sim.at(Duration::from_micros(5), |_| panic!("a plan of a test"));
    let said = first_says(&sim, move || {
        (0..1000).for_each(|_| _ = nic.poll());
        rt::park(None);
        unreachable!("the world is over");
    });
    assert!(said.contains("a plan of this world panicked: a plan of a test"), "{said}");
    assert!(said.contains("seed 8"), "{said}");
}

#[test]
fn a_thread_that_does_not_end_with_its_world_is_named_and_the_others_end() {
    let (gone, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let sim = Sim::new(9);
    let (hangs, waits) = (Arc::clone(&ends), Gone(Arc::clone(&gone)));
    let hangs = rt::spawn("hangs", move || {
        let _hangs = Hangs(hangs);
        rt::park(None);
    });
    let waits = rt::spawn("waits", move || {
        let _waits = waits;
        rt::park(None);
    });
    drop((hangs.unwrap(), waits.unwrap()));
    rt::sleep(Duration::from_secs(1));
    sim.set_patience(Duration::from_millis(500));
    let left = catch_unwind(AssertUnwindSafe(|| drop(sim)));
    let said = message(&*left.unwrap_err());
    assert!(said.contains("hangs") && !said.contains("waits"), "{said}");
    assert_eq!(gone.load(Ordering::Relaxed), 1, "the other has ended");
    ends.store(1, Ordering::Relaxed);
}

#[test]
fn a_thread_that_never_waits_is_named_and_the_first_waits_no_more() {
    let sim = Sim::new(12);
    sim.set_patience(Duration::from_millis(500));
    let ends = Arc::new(AtomicU64::new(0));
    let hangs = Hangs(Arc::clone(&ends));
    rt::spawn("busy", move || drop(hangs)).unwrap();
    for expected in ["busy runs", "this world is over"] {
        let waits = catch_unwind(AssertUnwindSafe(|| rt::park(None)));
        let panic = waits.unwrap_err();
        let said = super::text(&*panic);
        assert!(said.contains(expected), "{said}");
    }
    ends.store(1, Ordering::Relaxed);
    drop(sim);
}

/// Takes its time to be dropped.
struct Hangs(Arc<AtomicU64>);

impl Drop for Hangs {
    fn drop(&mut self) {
        while self.0.load(Ordering::Relaxed) == 0 {
            rt::park_on_machine(Duration::from_millis(1));
        }
    }
}

/// Waits for a thread when it is dropped, as long as that takes.
struct Joins(Option<rt::JoinHandle<()>>, Arc<AtomicU64>);

impl Drop for Joins {
    fn drop(&mut self) {
        while self.0.as_ref().is_some_and(|other| !other.is_finished()) {
            rt::park(None);
        }
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_join_during_unwinding_ends_when_the_world_is_over() {
    let dropped = Arc::new(AtomicU64::new(0));
    let joins = Arc::clone(&dropped);
    let unwinds = catch_unwind(move || {
        let _sim = Sim::new(10);
        let other = rt::spawn("other", || rt::park(None)).unwrap();
        let _joins = Joins(Some(other), joins);
        rt::park(None);
    });
    let said = message(&*unwinds.unwrap_err());
    assert!(said.contains("other waits for ever"), "{said}");
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

/// In a process of its own, which is aborted.
#[test]
fn an_endless_wait_during_unwinding_aborts() {
    const ALONE: &str = "EGRET_TEST_SIM_ALONE";
    const NAME: &str = "fabric::sim::threads::tests::an_endless_wait_during_unwinding_aborts";
    if std::env::var(ALONE).is_err() {
        let mut alone = std::process::Command::new("/proc/self/exe");
        let output = alone.args(["--exact", NAME, "--nocapture"]).env(ALONE, "").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("seed 11"), "{said}");
        assert!(said.contains("a destructor waits without end"), "{said}");
        return;
    }
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            loop {
                rt::park(None);
            }
        }
    }
    let _sim = Sim::new(11);
    rt::spawn("other", || rt::park(None)).unwrap();
    let _waits = Waits;
    rt::park(None);
}
