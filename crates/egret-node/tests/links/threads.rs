//! Several threads call through the same links.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_node::LinksOptions;

use super::{LONG, map, open};

fn many(background: bool) {
    let options = LinksOptions::default().background(background);
    let name = |what: &str| format!("{what}-{}-{}", std::process::id(), rt::random());
    let there = open("shm", &name("served"), LinksOptions::default());
    let here = open("shm", &name("callers"), options);
    // How many are in a handler of each bundle.
    let inside: Arc<[AtomicU32; 2]> = Arc::default();
    let served: Arc<AtomicU64> = Arc::default();
    let bundles = [there.bundle(), there.bundle()];
    let ends: Vec<_> = (0..4)
        .map(|at| {
            let bundle = at % 2;
            let (inside, served) = (Arc::clone(&inside), Arc::clone(&served));
            let end = bundles[bundle].register(&format!("e{at}"), 0).unwrap();
            end.on(0, move |request| {
                let others = inside[bundle].fetch_add(1, Ordering::AcqRel);
                assert_eq!(others, 0, "handlers of one bundle overlap");
                let word = request.words()[0];
                served.fetch_add(1, Ordering::Relaxed);
                inside[bundle].fetch_sub(1, Ordering::AcqRel);
                request.reply(&[word * 3]);
            });
            end
        })
        .collect();
    let callers = (0..4_u64).map(|at| {
        let here = here.clone();
        let host = there.host().to_owned();
        rt::spawn("caller", move || {
            let mine = here.bundle().endpoint(0);
            let remote = map(&mine, &host, &format!("e{at}"));
            for number in 0..500 {
                let word = at * 10_000 + number;
                let reply = remote.wait_call((0, &[word]), Deadline::In(LONG)).unwrap();
                assert_eq!(reply.words(), [word * 3], "the answer of another");
            }
        })
        .unwrap()
    });
    let callers: Vec<_> = callers.collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(served.load(Ordering::Relaxed), 2000);
    drop(ends);
}

#[test]
fn each_thread_gets_its_answers_with_a_background_thread() {
    many(true);
}

#[test]
fn each_thread_gets_its_answers_without_one() {
    many(false);
}

/// The one in the background rests while a thread has the role and sleeps, and goes on when that
/// leaves, in whatever way.
#[test]
fn the_background_goes_on_when_a_thread_leaves_the_role_by_a_panic() {
    let name = |what: &str| format!("{what}-{}-{}", std::process::id(), rt::random());
    let there = open("shm", &name("served"), LinksOptions::default());
    let here = open("shm", &name("caller"), LinksOptions::default());
    let served: Arc<AtomicU64> = Arc::default();
    let end = there.bundle().register("e", 0).unwrap();
    let count = Arc::clone(&served);
    end.on(0, move |request| {
        count.fetch_add(1, Ordering::Relaxed);
        request.reply(&[]);
    });
    let mine = here.bundle().endpoint(0);
    let remote = map(&mine, there.host(), "e");
    for round in 0..3 {
        let before = served.load(Ordering::Relaxed);
        let (links, served) = (there.clone(), Arc::clone(&served));
        let drives = rt::spawn("drives", move || {
            links.drive(LONG, || {
                assert!(served.load(Ordering::Relaxed) == before, "it was called");
                false
            })
        });
        // So that it sleeps, and the background has seen that.
        rt::sleep(Duration::from_millis(100));
        remote.wait_call(0, Deadline::In(LONG)).unwrap();
        assert!(drives.unwrap().join().is_err(), "it has panicked");
        // Far less than the background rests if nobody calls it.
        let soon = Deadline::In(Duration::from_secs(3));
        remote.wait_call(0, soon).unwrap_or_else(|why| panic!("round {round}: {why}"));
    }
}
