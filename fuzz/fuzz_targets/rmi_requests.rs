//! What a caller sends to an object.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret::rmi::fuzzing::request(input));
