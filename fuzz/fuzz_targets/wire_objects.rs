//! What a stranger sends as objects of a trait, and as their names.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_stream::fuzzing::objects(input));
