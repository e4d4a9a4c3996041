//! What the fuzzer calls, with seeded inputs.

use super::super::fuzzing;
use super::network::Random;

/// Inputs whose bytes are small now and then, as numbers and flags are.
fn inputs(seed: u64, count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(move || {
        let len = random.index(400);
        let few = [4, 20, 256][random.index(3)];
        (0..len).map(|_| u8::try_from(random.below(few)).unwrap()).collect()
    })
    .take(count)
}

#[test]
fn any_datagram_is_taken_or_a_lie() {
    inputs(1, 3000).for_each(|input| fuzzing::datagrams(&input));
}

#[test]
fn whatever_the_network_does_all_comes_once_and_in_order() {
    inputs(2, 2000).for_each(|mut input| {
        if let Some(mode) = input.first_mut() {
            *mode &= 0xfe;
        }
        fuzzing::conversation(&input);
        input.insert(0, 2);
        fuzzing::conversation(&input);
    });
}

#[test]
fn whatever_a_peer_changes_is_taken_or_a_lie() {
    inputs(3, 2000).for_each(|mut input| {
        input.insert(0, u8::try_from(input.len() % 2).unwrap() * 2 + 1);
        fuzzing::conversation(&input);
    });
}
