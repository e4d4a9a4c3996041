//! What anybody asks the registry of a pool, and what one tells its nodes.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    egret_node::registry::fuzzing::questions(input);
    egret_node::registry::fuzzing::tidings(input);
});
