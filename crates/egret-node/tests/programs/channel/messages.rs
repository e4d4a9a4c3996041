//! What is written is read: messages of any length, from any memory.

use std::sync::Arc;

use egret_net::buf::Pool;
use egret_net::rt::Deadline;
use egret_node::LinksOptions;
use egret_node::channel::ChannelError;

use super::pair::{FABRICS, On, Pair, spawn};

const LONG: Deadline = Deadline::DEFAULT;

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed * 31 + at * 7 + at / 256) as u8).collect()
}

#[test]
fn messages_of_any_length_from_small_pieces() {
    for on in FABRICS {
        let (pair, lens) = (Pair::new(on), [0, 1, 255, 256, 257, 5_000, 70_000, 3_000_000]);
        let (mut writer, mut reader) = pair.channel("pieces");
        let reading = spawn(move || {
            for (seed, len) in lens.into_iter().enumerate() {
                let mut message = reader.wait_next(LONG).unwrap().unwrap();
                let mut got = Vec::new();
                message.wait_read_to_end(&mut got, LONG).unwrap();
                drop(message);
                assert_eq!(got, bytes(seed, len), "{on:?}, {len} bytes");
            }
            assert!(reader.wait_next(LONG).unwrap().is_none());
        });
        for (seed, len) in lens.into_iter().enumerate() {
            let mut message = writer.message();
            for piece in bytes(seed, len).chunks(777) {
                message.wait_write(piece, LONG).unwrap();
            }
            message.wait_finish(LONG).unwrap();
        }
        writer.wait_arrived(LONG).unwrap();
        assert_eq!(writer.messages(), 8);
        drop(writer);
        let here = super::pair::Server::of(&pair.here);
        reading.join().unwrap();
        drop(here);
    }
}

#[test]
fn an_array_lands_whole_and_aligned() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let (mut writer, mut reader) = pair.channel("arrays");
        let reading = spawn(move || {
            let mut message = reader.wait_next(LONG).unwrap().unwrap();
            let mut head = [0_u16; 3];
            message.wait_read_exact(&mut head, LONG).unwrap();
            assert_eq!(head, [1, 2, 3]);
            let floats = message.wait_array::<f64>(LONG).unwrap();
            assert_eq!((floats.len(), floats[0], floats[99_999]), (100_000, 0.0, 99_999.0));
            assert_eq!(floats.as_ptr().addr() % 64, 0);
            let words = message.wait_array::<u32>(LONG).unwrap();
            assert_eq!(*words, [7; 10]);
            for (len, byte) in [(5_000, 1), (20_000, 2), (30_000, 3), (40_000, 4)] {
                let held = message.wait_next_part(LONG).unwrap().unwrap().hold().unwrap();
                assert!(held.is_resident(), "it stays where it landed");
                assert!(held.len() == len && held.iter().all(|one| *one == byte));
            }
            assert!(message.wait_next_part(LONG).unwrap().is_none());
        });
        let pool = Pool::new(32_768, 2).unwrap();
        let mut buf = pool.take(20_000).unwrap();
        buf.bytes_mut().fill(2);
        let mut typed = pool.take_typed::<u8>(30_000).unwrap();
        typed.fill(3);
        let mut message = writer.message();
        message.wait_write(&[1_u16, 2, 3], LONG).unwrap();
        let floats: Vec<f64> = (0..100_000).map(f64::from).collect();
        message.wait_write(&floats, LONG).unwrap();
        message.wait_write_owned(vec![7_u32; 10], LONG).unwrap();
        message.wait_write_owned(Arc::<[u8]>::from([1; 5_000]), LONG).unwrap();
        message.wait_write_owned(buf, LONG).unwrap();
        message.wait_write_owned(typed.share(), LONG).unwrap();
        message.wait_write_owned(vec![4_u8; 40_000], LONG).unwrap();
        message.wait_finish(LONG).unwrap();
        let here = super::pair::Server::of(&pair.here);
        reading.join().unwrap();
        drop(here);
        pair.while_there_serves(|| {
            let late = egret_net::rt::now() + std::time::Duration::from_secs(30);
            while pool.available(32_768) < 2 {
                assert!(egret_net::rt::now() < late, "everything comes home");
                pair.here.drive(std::time::Duration::from_millis(1), || false);
            }
        });
    }
}

#[test]
fn an_array_larger_than_any_window_is_asked_for() {
    let pair = Pair::new(On::Shm);
    let (mut writer, mut reader) = pair.channel("large");
    let reading = spawn(move || {
        let mut message = reader.wait_next(LONG).unwrap().unwrap();
        let array = message.wait_array::<u64>(LONG).unwrap();
        assert!(array.len() == 5_000_000 && array.iter().all(|one| *one == 9));
    });
    writer.wait_send_slice(&vec![9_u64; 5_000_000], LONG).unwrap();
    let here = super::pair::Server::of(&pair.here);
    reading.join().unwrap();
    drop(here);
}

#[test]
fn what_the_reader_never_takes_is_refused_and_the_next_message_is_not() {
    let pair = Pair::with(On::Shm, &LinksOptions::default().budget(1 << 20));
    let (mut writer, mut reader) = pair.channel("never");
    let reading = spawn(move || {
        let mut first = reader.wait_next(LONG).unwrap().unwrap();
        assert_eq!(first.wait_next_part(LONG).unwrap().unwrap().bytes(), [5; 10]);
        assert_eq!(first.wait_next_part(LONG).unwrap_err(), ChannelError::Aborted);
        drop(first);
        let mut second = reader.wait_next(LONG).unwrap().unwrap();
        assert_eq!(second.wait_next_part(LONG).unwrap().unwrap().bytes(), b"fits");
    });
    let mut message = writer.message();
    message.wait_write(&[5_u8; 10], LONG).unwrap();
    message.wait_flush(LONG).unwrap();
    message.wait_write_owned(vec![1_u8; 2 << 20], LONG).unwrap();
    let refused = message.wait_flush(LONG).unwrap_err();
    assert!(matches!(refused, ChannelError::PartTooLarge { .. }), "{refused}");
    drop(message);
    writer.wait_send(b"fits".to_vec(), LONG).unwrap();
    let here = super::pair::Server::of(&pair.here);
    reading.join().unwrap();
    drop(here);
}
