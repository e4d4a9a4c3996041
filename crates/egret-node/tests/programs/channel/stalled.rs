//! A reader that does not read stops its own writer and nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::channel::{ChannelError, ChannelReader, ChannelWriter};

use super::pair::{FABRICS, Pair, spawn};

const LONG: Deadline = Deadline::DEFAULT;
const STALLED: usize = 99;

/// Writes until nothing more is taken.
fn fill(writer: &mut ChannelWriter) -> usize {
    let soon = Duration::from_millis(20);
    let mut sent = 0;
    loop {
        match writer.wait_send(vec![1_u8; 8_000], soon) {
            Ok(()) => sent += 1,
            Err(not) => {
                assert!(matches!(not.why, ChannelError::WriteTimedOut { .. }), "{}", not.why);
                return sent;
            }
        }
        assert!(sent < 10_000, "nobody reads, and {sent} messages went");
    }
}

fn read(mut reader: ChannelReader, messages: usize) {
    for _ in 0..messages {
        let mut message = reader.wait_next(LONG).unwrap().unwrap();
        let array = message.wait_array::<u64>(LONG).unwrap();
        assert!(array.len() == 12_500 && array[0] == 7 && array[12_499] == 7);
    }
}

#[test]
fn one_of_a_hundred_channels_runs_while_all_others_stand() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let listener = pair.there.listen("many", STALLED + 1).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (there, stopped) = (pair.there.clone(), Arc::clone(&stop));
        let reading = spawn(move || {
            let stalled: Vec<_> =
                (0..STALLED).map(|_| listener.wait_accept(LONG).unwrap()).collect();
            let runs = listener.wait_accept(LONG).unwrap();
            read(runs, 2000);
            while !stopped.load(Ordering::Relaxed) {
                there.drive(Duration::from_millis(1), || false);
            }
            stalled
        });
        let open = || pair.here.wait_channel(pair.there.host(), "many", LONG).unwrap();
        let mut stalled: Vec<_> = (0..STALLED).map(|_| open()).collect();
        for writer in &mut stalled {
            assert!(fill(writer) >= 1, "what is guaranteed may be sent");
        }
        let mut runs = open();
        let data = vec![7_u64; 12_500];
        for _ in 0..2000 {
            runs.wait_send_slice(&data, LONG).unwrap();
        }
        runs.wait_arrived(LONG).unwrap();
        stop.store(true, Ordering::Relaxed);
        pair.while_there_serves(|| drop(reading.join().unwrap()));
    }
}
