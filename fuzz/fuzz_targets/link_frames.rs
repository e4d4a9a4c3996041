//! What a peer sends over a link that lives.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_node::fuzzing::link_frames(input));
