//! What reclaims a buffer is the program's, and may use the links that the buffer comes back from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use egret_net::buf::{Pool, Shared};
use egret_net::rt::Deadline;

use super::ended::{go_on, map, nodes, worlds};
use super::world::{AT_ONCE, DATA};
use crate::am::{Message, MessageError, RemoteEndpoint};

/// Data that says so when it comes back, by the links; and how often it has.
fn said(pool: &Pool, remote: &Arc<RemoteEndpoint>, count: &Arc<AtomicU32>) -> Shared<u8> {
    let (remote, count) = (Arc::clone(remote), Arc::clone(count));
    pool.take_typed::<u8>(8000).unwrap().share_with(move |buf| {
        assert_eq!(buf.len(), 8000);
        // Either takes the lock of the links; the second would wait, on a thread that may drive.
        drop(remote.try_send((AT_ONCE, &[1, 2])));
        let asked = remote.wait_call((AT_ONCE, &[1, 2]), Deadline::DEFAULT);
        assert!(matches!(asked, Err(MessageError::InHandler)), "{asked:?}");
        count.fetch_add(1, Relaxed);
    })
}

#[test]
fn what_reclaims_a_buffer_may_use_the_links() {
    for (sim, options) in worlds() {
        let mut nodes = nodes(&sim, &options, &["a", "b"]);
        let remote = Arc::new(map(&nodes, [0, 0], [1, 0]));
        let (pool, count) = (Pool::new(8192, 8).unwrap(), Arc::default());
        let send = || {
            let data = said(&pool, &remote, &count);
            drop(remote.try_send(Message::to(DATA).words(&[1, 2]).data(data)));
        };
        // It was sent, and acknowledged.
        send();
        go_on(&sim, &nodes, Duration::from_millis(100));
        assert_eq!(count.load(Relaxed), 1);
        // Its call was given up, and then answered.
        let data = said(&pool, &remote, &count);
        drop(remote.try_request(Message::to(DATA).words(&[1, 2]).data(data)));
        go_on(&sim, &nodes, Duration::from_millis(100));
        assert_eq!(count.load(Relaxed), 2);
        // It was never delivered.
        send();
        drop(nodes.pop());
        go_on(&sim, &nodes, Duration::from_secs(60));
        assert_eq!(count.load(Relaxed), 3);
    }
}
