//! The same bytes whole and in chunks.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_stream::fuzzing::chunks(input));
