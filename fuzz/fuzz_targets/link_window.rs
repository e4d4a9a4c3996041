//! What a peer, or the network between, makes of the datagrams of a window.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0..=99, rest)) => egret_net::fabric::window::fuzzing::datagrams(rest),
        Some((_, rest)) => egret_net::fabric::window::fuzzing::conversation(rest),
        None => {}
    }
});
