//! Where the answer of a call to one's own node is left.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;

use super::served::Answer;
use super::workers::Workers;

/// A place for one answer.
#[derive(Default)]
pub(crate) struct Spot {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

impl Spot {
    pub(crate) fn put(&self, answer: Answer) {
        let waker = {
            let mut inner = self.inner.lock();
            inner.answer = Some(answer);
            inner.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Answer> {
        let mut inner = self.inner.lock();
        if let Some(answer) = inner.answer.take() {
            return Poll::Ready(answer);
        }
        let before = inner.waker.replace(context.waker().clone());
        drop(inner);
        drop(before);
        Poll::Pending
    }

    /// Waits for the answer; none if there is none in time. Where there are no workers this
    /// thread runs what there is to run.
    pub(crate) fn wait(&self, until: Option<Instant>, workers: &Workers) -> Option<Answer> {
        let waker = Waker::from(Arc::new(rt::current()));
        let context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(answer) = self.poll(&context) {
                return Some(answer);
            }
            if until.is_some_and(|until| rt::now() >= until) {
                return None;
            }
            if !workers.help() {
                rt::park(until);
            }
        }
    }
}
