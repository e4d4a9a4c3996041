//! What a peer writes to a connection over TCP, in any pieces.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_net::fabric::tcp::fuzzing::frames(input));
