//! What a peer writes into its ring of records, and what it says that it consumed.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| egret_net::fabric::shm::fuzzing::records(input));
