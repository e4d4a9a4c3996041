//! Sends and receives that are posted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use egret::graph::{ANY, Graphs, RankGraphError};
use egret::rt::{self, Thread};

use crate::world::{Car, FABRICS, LONG, Ring, SHORT, assert_ring, car, pair, pool, ring};

#[test]
fn what_is_posted_goes_in_its_order_and_is_waited_for_in_any() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        let mut sent: Vec<_> = (1..=40)
            .map(|count| {
                pair.here.set_current(ring(count * 100));
                pair.here.post_send_graph(1)
            })
            .collect();
        assert!(!pair.here.has_current(), "it was given away");
        let receives = rt::spawn("receives", move || {
            for count in 1..=40 {
                assert_ring(&pair.there.recv_graph(0, LONG).unwrap().0, count * 100);
            }
            pair.there
        });
        sent.iter_mut().rev().for_each(|sent| sent.wait(LONG).unwrap());
        assert!(matches!(sent[3].try_sent(), Some(Ok(()))), "and says so again");
        pair.there = receives.unwrap().join().unwrap();
        // A send that waits comes behind those that were posted.
        pair.here.set_current(ring(1));
        let posted = pair.here.post_send_graph(1);
        pair.here.set_current(ring(2));
        pair.here.send_graph(1, LONG).unwrap();
        drop(posted);
        assert_ring(&pair.there.recv_graph(0, LONG).unwrap().0, 1);
        assert_ring(&pair.there.recv_graph(0, LONG).unwrap().0, 2);
    }
}

#[test]
fn receives_that_are_posted_take_what_is_theirs() {
    let (_registry, nodes) = pool(3, "shm");
    let mut graphs: Vec<Graphs<Ring>> =
        nodes.iter().map(|node| Graphs::join(node).unwrap()).collect();
    let (mut of_1, mut of_2) = (graphs[0].post_recv_graph(1), graphs[0].post_recv_graph(2));
    assert!(of_1.try_received().is_none());
    for (at, graphs) in graphs.iter_mut().enumerate().skip(1) {
        graphs.set_current(ring(at as u64));
        graphs.send_graph(0, LONG).unwrap();
    }
    let (graph, from) = of_2.wait(LONG).unwrap();
    assert_eq!((graph.len::<Ring>(), from), (2, 2));
    let (graph, from) = of_1.wait(LONG).unwrap();
    assert_eq!((graph.len::<Ring>(), from), (1, 1));
    let why = of_1.wait(SHORT).unwrap_err();
    assert!(matches!(why, RankGraphError::RecvTimedOut { .. }), "{why}");
}

#[test]
fn both_ends_can_be_awaited() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        pair.here.set_current(ring(20_000));
        let sent = pair.here.post_send_graph(1);
        let received = pair.there.post_recv_graph(ANY);
        let (sent, received) = block_on(both(sent, received));
        sent.unwrap();
        assert_ring(&received.unwrap().0, 20_000);
    }
}

#[test]
fn two_threads_wait_for_graphs_of_two_ranks() {
    let (_registry, nodes) = pool(3, "shm,tcp");
    let mut graphs: Vec<Graphs<Car>> =
        nodes.iter().map(|node| Graphs::join(node).unwrap()).collect();
    let waiting: Vec<_> = [1, 2]
        .map(|rank| {
            let mut receiving = graphs[0].post_recv_graph(rank);
            rt::spawn("waits", move || receiving.wait(LONG).unwrap().0.root().year).unwrap()
        })
        .into();
    for rank in [2, 1] {
        let year = 1900 + rank as u64;
        graphs[rank].build(|graph| car(graph, year, 1));
        graphs[rank].send_graph(0, LONG).unwrap();
    }
    let years: Vec<_> = waiting.into_iter().map(|it| it.join().unwrap()).collect();
    assert_eq!(years, [1901, 1902]);
}

async fn both<A: Future + Unpin, B: Future + Unpin>(mut a: A, mut b: B) -> (A::Output, B::Output) {
    let (mut of_a, mut of_b) = (None, None);
    std::future::poll_fn(|context| {
        if of_a.is_none()
            && let Poll::Ready(came) = Pin::new(&mut a).poll(context)
        {
            of_a = Some(came);
        }
        if of_b.is_none()
            && let Poll::Ready(came) = Pin::new(&mut b).poll(context)
        {
            of_b = Some(came);
        }
        if of_a.is_some() && of_b.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (of_a.unwrap(), of_b.unwrap())
}

/// Runs a future to its end: it must have itself woken.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Unpark(rt::current())));
    let until = LONG.until();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(came) => return came,
            Poll::Pending => rt::park(until),
        }
        assert!(rt::now() < until.unwrap(), "it was not woken");
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
