//! Remote calls that are awaited: several at once, the first of two, one that is given up.
//!
//! `Node::block_on` drives the node while the futures wait; any other executor does too, with the
//! feature `tokio` on tokio's reactor.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use egret::prelude::*;
use egret::rt;

#[egret::remote]
trait Squares {
    fn square(&self, number: u64) -> u64;
    /// Goes on until nobody wants its answer any more.
    fn never(&self);
}

struct Machine;

#[egret::remote]
impl Squares for Machine {
    fn square(&self, number: u64) -> u64 {
        number * number
    }

    fn never(&self) {
        let Some(call) = egret::rmi::current() else { return };
        egret::blocking(|| {
            while !call.is_cancelled() {
                // Longer than any caller here waits: none is answered.
                rt::sleep(Duration::from_millis(100));
            }
        });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = egret::local::pool(2)?;
    let (here, there) = (&pool[0], &pool[1]);
    let exported = there.export(Machine)?;
    let squares: SquaresStub = here.stub(exported.object());

    here.block_on(async {
        // A call is under way from when it is begun; to await it is to wait for its answer.
        let all: Vec<_> = (1..=10).map(|number| squares.begin().square(number)).collect();
        let mut sum = 0;
        for square in all {
            sum += square.await?;
        }
        assert_eq!(sum, 385);

        // The first of two; the other is cancelled when it is dropped.
        let (mut never, mut soon) =
            (pin!(squares.begin().never()), pin!(squares.begin().square(7)));
        let first = std::future::poll_fn(|context| {
            if never.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(0));
            }
            soon.as_mut().poll(context)
        });
        assert_eq!(first.await?, 49);

        // A deadline ends a call that nobody answers.
        let hasty = squares.with_deadline(Duration::from_millis(20));
        let ended = hasty.begin().never().await;
        assert!(matches!(ended, Err(CallError::Deadline { .. })), "{ended:?}");
        Ok(())
    })
}
