//! What a stranger sends as shared values and cycles.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_stream::fuzzing::shared(input));
