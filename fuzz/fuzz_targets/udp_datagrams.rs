//! What anybody sends to a nic over UDP.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    egret_net::fabric::udp::fuzzing::decode(input);
    egret_net::fabric::udp::fuzzing::datagrams(input);
});
