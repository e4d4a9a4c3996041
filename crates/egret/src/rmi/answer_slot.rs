//! Slot for the answer of a call to an object of the same node.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Instant, waits};
use egret_net::sync::Mutex;

use crate::rmi::answer::CallAnswer;
use crate::rmi::threads::workers::Workers;

/// A slot for one answer.
#[derive(Default)]
pub(crate) struct AnswerSlot {
    inner: Mutex<AnswerSlotState>,
}

#[derive(Default)]
struct AnswerSlotState {
    answer: Option<CallAnswer>,
    waker: Option<Waker>,
}

impl AnswerSlot {
    pub(crate) fn put(&self, answer: CallAnswer) {
        let waker = {
            let mut inner = self.inner.lock();
            inner.answer = Some(answer);
            inner.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<CallAnswer> {
        let mut inner = self.inner.lock();
        if let Some(answer) = inner.answer.take() {
            return Poll::Ready(answer);
        }
        let before = inner.waker.replace(context.waker().clone());
        drop(inner);
        drop(before);
        Poll::Pending
    }

    /// Waits for the answer until the moment given; none if it is late. On a node without workers the calling
    /// thread runs waiting calls meanwhile.
    pub(crate) fn wait(&self, until: Option<Instant>, workers: &Workers) -> Option<CallAnswer> {
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
                waits::show();
                rt::park(until);
            }
        }
    }
}
