//! The fuzzers' entrances with seeded inputs: real ones, bent.

use egret_net::rt::{self, SplitMix64};

use crate::fuzzing;

type Entrance = fn(&[u8]);

/// Runs an entrance over inputs that are seeds with a few bytes changed, cut or
/// added.
fn run(name: &str, entrance: Entrance, rounds: u64) {
    let seeds: Vec<Vec<u8>> =
        fuzzing::seeds().into_iter().filter(|(of, _)| *of == name).map(|(_, seed)| seed).collect();
    seeds.iter().for_each(|seed| entrance(seed));
    let mut random = SplitMix64(1);
    for round in 0..rounds {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(4) {
            bend(&mut input, &mut random);
        }
        let outcome = std::panic::catch_unwind(|| entrance(&input));
        assert!(outcome.is_ok(), "{name}, round {round}: {input:?}");
    }
}

fn bend(input: &mut Vec<u8>, random: &mut SplitMix64) {
    let at = random.below(input.len() + 1);
    let byte = [0, 1, 2, 4, 127, 255, random.byte()][random.below(7)];
    match (random.below(5), at < input.len()) {
        (0, true) => input[at] ^= 1 << random.below(8),
        (1, true) => drop(input.remove(at)),
        (2, _) => input.insert(at, byte),
        (3, true) => input.truncate(at.max(1)),
        (_, true) => input[at] = byte,
        (_, false) => input.push(byte),
    }
}

#[test]
fn whatever_the_bytes_nothing_breaks() {
    let entrances: [(&str, Entrance); 7] = [
        ("values", fuzzing::values),
        ("shared", fuzzing::shared),
        ("objects", fuzzing::objects),
        ("chunks", fuzzing::chunks),
        ("pulled", fuzzing::pulled),
        ("schemas", fuzzing::schemas),
        ("graphs", fuzzing::graphs),
    ];
    let runs = entrances
        .map(|(name, entrance)| rt::spawn(name, move || run(name, entrance, 20_000)).unwrap());
    for done in runs {
        done.join().expect("no input breaks it");
    }
}
