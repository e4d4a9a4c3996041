//! What a peer writes into its ring, its counts and its socket.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_net::fabric::shm::fuzzing::posted(input));
