//! What a stranger sends as a handshake, an answer or a message.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_net::fabric::shm::fuzzing::rendezvous(input));
