//! A schema that says anything, and bytes that are read by it.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_stream::fuzzing::schemas(input));
