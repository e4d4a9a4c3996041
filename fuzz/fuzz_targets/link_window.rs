//! What a peer, or the network between, makes of the datagrams of a window, and what a peer says in
//! them to an end of a connection.
#![no_main]
#![forbid(unsafe_code)]

use egret_net::fabric::window::fuzzing::{conversation, datagrams, ends};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0..64, rest)) => datagrams(rest),
        Some((64..128, rest)) => conversation(rest),
        Some((_, rest)) => ends(rest),
        None => {}
    }
});
