//! What a peer, or the network between, makes of the datagrams of a link.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0..=99, rest)) => egret_node::link::fuzzing::datagrams(rest),
        Some((_, rest)) => egret_node::link::fuzzing::conversation(rest),
        None => {}
    }
});
