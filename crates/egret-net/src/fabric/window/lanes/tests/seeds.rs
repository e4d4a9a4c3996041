//! Conversations of many seeds.

use super::super::WindowLane;
use super::super::WindowTerms;
use super::network::{Network, Random, Weather};
use super::run::{LEN_MAX, QueuedMessage, Run, terms};

/// Plays what belongs to one seed.
pub(super) fn play(seed: u64) {
    let mut random = Random::new(seed);
    let weather = Weather {
        loss: random.below(31),
        doubling: random.below(20),
        overtaking: random.below(40),
        damage: random.below(10),
        ..Weather::default()
    };
    let messages = 1 + u32::try_from(random.below(64)).unwrap();
    let terms = WindowTerms { bytes: 300 + random.below(30_000), ..terms(messages) };
    let limit = 1 + random.index(100);
    let network = Network::new(weather, Random::new(random.next()));
    let mut run = Run::new(terms, network, limit);
    for from in 0..2 {
        for _ in 0..random.below(40) {
            let lane = WindowLane::ALL[random.index(4)];
            let len = match random.below(4) {
                0 => 0,
                1 => random.index(300),
                2 => random.index(1000),
                _ => random.index(LEN_MAX + 1),
            };
            run.say(from, lane, QueuedMessage { tag: random.next(), len });
        }
    }
    if random.is(50) {
        run.hold(Random::new(random.next()));
    }
    run.finish();
}

/// Many seeds, or the one that the environment names; says which failed.
fn check(seeds: std::ops::Range<u64>, play: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let one = std::env::var("EGRET_SEED").ok().map(|seed| seed.parse().unwrap());
    let seeds = one.map_or(seeds, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| play(seed));
        assert!(outcome.is_ok(), "seed {seed} fails; EGRET_SEED={seed} runs it alone");
    }
}

#[test]
fn everything_comes_once_and_in_order() {
    check(0..1000, play);
}

/// Both ends have far more to say than the window takes, for every window there is.
#[test]
fn both_ends_flood_through_every_window() {
    check(1..65, |seed| {
        let mut random = Random::new(seed);
        let weather =
            Weather { loss: 5, doubling: 3, overtaking: 10, damage: 2, ..Weather::default() };
        let terms = terms(u32::try_from(seed.clamp(1, 64)).unwrap());
        let network = Network::new(weather, Random::new(random.next()));
        let mut run = Run::new(terms, network, 200);
        for index in 0..400 {
            let len = random.index(if index % 50 == 0 { LEN_MAX + 1 } else { 40 });
            run.say(
                index % 2,
                WindowLane::ALL[random.index(4)],
                QueuedMessage { tag: random.next(), len },
            );
        }
        run.finish();
    });
}
