//! How channels and messages end.

use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::channel::ChannelError;

use super::pair::{FABRICS, Pair, Server, spawn};

const LONG: Deadline = Deadline::DEFAULT;

#[test]
fn an_abort_in_the_middle_is_an_error_for_that_message_only() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let (mut writer, mut reader) = pair.channel("aborts");
        let reading = spawn(move || {
            let mut got = Vec::new();
            while let Some(mut message) = reader.wait_next(LONG).unwrap() {
                let mut bytes = Vec::new();
                let read = message.wait_read_to_end(&mut bytes, LONG);
                got.push(read.map(|()| bytes.len()));
            }
            got
        });
        for round in 0..10_usize {
            let mut message = writer.message();
            message.wait_write(&vec![1_u8; 100_000 * round], LONG).unwrap();
            message.wait_flush(LONG).unwrap();
            message.wait_write(&[1_u8; 10], LONG).unwrap();
            if round % 2 == 0 {
                message.wait_finish(LONG).unwrap();
            } else {
                message.abort();
            }
        }
        drop(writer);
        let here = Server::of(&pair.here);
        let got = reading.join().unwrap();
        drop(here);
        let expected: Vec<_> =
            (0..10_usize)
                .map(|round| {
                    if round % 2 == 0 {
                        Ok(100_000 * round + 10)
                    } else {
                        Err(ChannelError::Aborted)
                    }
                })
                .collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn a_reader_that_is_dropped_tells_its_writer() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let (mut writer, reader) = pair.channel("dropped");
        drop(reader);
        pair.while_there_serves(|| {
            let stopped = loop {
                if let Err(not) = writer.wait_send(vec![1_u8; 1000], LONG) {
                    break not.why;
                }
            };
            assert_eq!(stopped, ChannelError::ReaderGone);
        });
        let (mut other, mut reader) = pair.channel("other");
        other.wait_send(vec![1_u8; 10], LONG).unwrap();
        let here = Server::of(&pair.here);
        assert!(reader.wait_next(LONG).unwrap().is_some(), "the link goes on");
        drop(here);
    }
}

#[test]
fn channels_are_refused_with_the_reason() {
    let pair = Pair::new(FABRICS[0]);
    pair.while_there_serves(|| {
        let host = pair.there.host();
        let refused = pair.here.wait_channel(host, "nobody", LONG).unwrap_err();
        let name = "nobody".to_owned();
        assert_eq!(refused, ChannelError::NoListener { host: host.to_owned(), name });
        let listener = pair.there.listen("few", 2).unwrap();
        assert!(matches!(pair.there.listen("few", 2), Err(ChannelError::Taken { .. })));
        let open = || pair.here.wait_channel(host, "few", LONG);
        let (first, second) = (open().unwrap(), open().unwrap());
        assert!(matches!(open(), Err(ChannelError::Backlog { .. })));
        drop((first, second, listener));
        assert!(matches!(open(), Err(ChannelError::NoListener { .. })));
    });
}

#[test]
fn a_stalled_reader_stops_its_writer_in_time_and_lent_memory_comes_back() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let (mut writer, mut reader) = pair.channel("stalled");
        pair.while_there_serves(|| {
            let soon = Duration::from_millis(50);
            let data = vec![3_u8; 20_000];
            let mut sent = 0;
            let late = loop {
                match writer.wait_send_slice(&data, soon) {
                    Ok(()) => sent += 1,
                    Err(why) => break why,
                }
            };
            assert!(matches!(late, ChannelError::WriteTimedOut { broken: false, .. }), "{late}");
            assert!(sent < 1000, "{sent} messages without a reader");
            for _ in 0..sent {
                let mut message = reader.wait_next(LONG).unwrap().unwrap();
                assert_eq!(message.wait_next_part(LONG).unwrap().unwrap().bytes(), data);
            }
            writer.wait_send_slice(&data, LONG).unwrap();
        });
    }
}
