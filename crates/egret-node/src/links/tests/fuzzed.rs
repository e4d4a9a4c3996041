//! What the fuzzer calls, with seeded inputs.

use egret_net::rt;

use super::random::Random;
use crate::links::fuzzing;

#[test]
fn any_frame_is_taken_or_a_lie() {
    let mut random = Random(1);
    for _ in 0..rt::trials(2000) {
        let few = [4, 20, 256][random.index(3)];
        let len = random.index(300);
        let input: Vec<u8> = (0..len).map(|_| u8::try_from(random.below(few)).unwrap()).collect();
        fuzzing::frames(&input);
    }
}
