//! What a stranger sends as a graph, checked and believed; and histories of graphs.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_stream::fuzzing::graphs(input));
