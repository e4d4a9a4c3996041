//! Messages that are posted, and channels that are read together.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::Links;
use egret_node::channel::{ChannelError, ChannelListener, ChannelWriter, Post, PostOutcome};

use super::pair::{FABRICS, Pair, Server, spawn};

const LONG: Deadline = Deadline::DEFAULT;
const SHORT: Deadline = Deadline::In(Duration::from_millis(50));

/// Posts a message of parts of so many bytes, which all are `mark`.
fn post(writer: &ChannelWriter, mark: u8, parts: &[usize]) -> PostOutcome {
    let parts = parts.iter().map(|len| vec![mark; *len].into()).collect();
    let (post, posted) = Post::new(parts, Vec::new());
    writer.post(post);
    posted
}

/// The next message of any channel, whole: its mark and the bytes of its parts.
fn next(
    links: &Links,
    listener: &ChannelListener,
    deadline: Deadline,
) -> Option<Result<(u8, Vec<usize>), ChannelError>> {
    let any = poll_fn(|context| {
        for reader in listener.poll_kept(context) {
            match reader.poll_whole(1 << 20, context) {
                Poll::Pending => {}
                Poll::Ready(Ok(None)) => _ = listener.let_go(&reader),
                Poll::Ready(Ok(Some(parts))) => {
                    let mark = parts[0].bytes()[0];
                    assert!(parts.iter().all(|part| part.bytes().iter().all(|it| *it == mark)));
                    let lens = parts.iter().map(|part| part.bytes().len());
                    return Poll::Ready(Ok((mark, lens.collect())));
                }
                Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
            }
        }
        Poll::Pending
    });
    links.wait_on(any, deadline)
}

#[test]
fn posted_messages_are_sent_in_order_and_channels_read_together() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let listener = pair.there.listen("posted", 16).unwrap();
        let mut writers: Vec<_> = pair.while_there_serves(|| {
            let open = |_| pair.here.wait_channel(pair.there.host(), "posted", LONG).unwrap();
            (0..3).map(open).collect()
        });
        let parts: [&[usize]; 4] = [&[10], &[300_000, 7, 300_000], &[900_000], &[1, 1]];
        let mut posted = Vec::new();
        for (number, parts) in (0_u8..).zip(parts.into_iter().cycle().take(24)) {
            posted.push(post(&writers[usize::from(number) % 3], number, parts));
        }
        // One that is written comes behind what was posted.
        let mut last = writers.remove(0);
        let sends = spawn(move || {
            last.wait_send(vec![99_u8; 5], LONG).unwrap();
            last
        });
        let here = Server::of(&pair.here);
        let mut seen = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..25 {
            let (mark, lens) = next(&pair.there, &listener, LONG).unwrap().unwrap();
            assert!(mark == 99 || lens == parts[usize::from(mark) % 4]);
            seen[usize::from(mark) % 3].push(mark);
        }
        assert!(seen.iter().all(|marks| marks.is_sorted()), "{seen:?}");
        drop(here);
        for posted in posted {
            pair.while_there_serves(|| pair.here.wait_on(posted, LONG)).unwrap().unwrap();
        }
        assert_eq!(next(&pair.there, &listener, SHORT), None);
        drop(sends.join().unwrap());
    }
}

#[test]
fn a_message_that_is_read_whole_has_a_bound() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let listener = pair.there.listen("bounded", 16).unwrap();
        let writer = pair.while_there_serves(|| {
            pair.here.wait_channel(pair.there.host(), "bounded", LONG).unwrap()
        });
        let here = Server::of(&pair.here);
        let mut posted = vec![post(&writer, 1, &[600_000, 600_000])];
        let many = vec![1; 100_000];
        posted.push(post(&writer, 2, &many));
        posted.push(post(&writer, 3, &[600_000, 100_000]));
        for _ in 0..2 {
            let why = next(&pair.there, &listener, LONG).unwrap().unwrap_err();
            assert!(
                matches!(why, ChannelError::MessageTooLarge { most, .. } if most == 1 << 20),
                "{why}"
            );
        }
        let good = next(&pair.there, &listener, LONG).unwrap().unwrap();
        assert_eq!(good, (3, vec![600_000, 100_000]));
        // Several may ask for what comes by one channel.
        posted.push(post(&writer, 4, &[10]));
        posted.push(post(&writer, 5, &[10]));
        let reader = Arc::clone(&listener.poll_kept(&context())[0]);
        let two = poll_fn(|context| reader.poll_whole(10, context).map(Result::unwrap));
        assert_eq!(pair.there.wait_on(two, LONG).unwrap().unwrap().len(), 1);
        assert_eq!(next(&pair.there, &listener, LONG).unwrap().unwrap(), (5, vec![10]));
        drop(here);
        drop(writer);
        for posted in posted {
            pair.while_there_serves(|| pair.here.wait_on(posted, LONG)).unwrap().unwrap();
        }
    }
}

fn context() -> std::task::Context<'static> {
    std::task::Context::from_waker(std::task::Waker::noop())
}

#[test]
fn what_is_lent_behind_a_post_and_comes_too_late_leaves_the_post_alone() {
    for on in FABRICS {
        let pair = Pair::new(on);
        let listener = pair.there.listen("posted", 16).unwrap();
        let mut writer = pair.while_there_serves(|| {
            pair.here.wait_channel(pair.there.host(), "posted", LONG).unwrap()
        });
        // More than may be under way while nobody reads.
        let parts = [200_000; 5];
        let posted = post(&writer, 7, &parts);
        let late = writer.wait_send_slice(&[1; 32 << 10], SHORT).unwrap_err();
        assert!(matches!(late, ChannelError::WriteTimedOut { .. }), "{late}");
        let here = Server::of(&pair.here);
        let whole = next(&pair.there, &listener, LONG).unwrap().unwrap();
        assert_eq!(whole, (7, parts.to_vec()), "{on:?}");
        drop(here);
        let arrived = pair.while_there_serves(|| pair.here.wait_on(posted, LONG));
        assert_eq!(arrived, Some(Ok(())), "{on:?}");
    }
}
