//! What a stranger says to either side of a handshake, and what somebody between
//! two honest sides makes of what they say.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_net::fabric::handshake::fuzzing::handshake(input));
