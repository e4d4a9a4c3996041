//! What a stranger sends as values of several types.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_stream::fuzzing::values(input));
