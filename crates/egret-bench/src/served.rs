//! Active messages between two processes: the one that serves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use egret::am::{Endpoint, Message, ReplySlot, Request};
use egret::buf::Pool;
use egret::fabric::Fabrics;
use egret::link::Links;
use egret::vi::NicOptions;

use super::asking::{
    DATA, ECHO, ECHO_BYTES, HOLD, IS_HELD, MARK, NAME, RELEASE, ROOM, RequestTask, SETTLE, TAKE,
    links, marked, said,
};
use super::side::{PATIENCE, mark};

/// The one that serves.
#[derive(Debug)]
pub(crate) struct RequestServer {
    pub(super) links: Links,
    endpoint: Endpoint,
    tally: Arc<RequestTally>,
    settled: u64,
}

/// What handlers have seen.
#[derive(Debug, Default)]
struct RequestTally {
    came: AtomicU64,
    damaged: AtomicU64,
    /// How often the other side has said that it is done.
    settled: AtomicU64,
    /// What is not answered yet.
    held: Mutex<Option<ReplySlot>>,
}

impl RequestTally {
    /// The number of the message that has come.
    #[inline]
    fn next(&self) -> u64 {
        // Handlers of one bundle run one at a time.
        let round = self.came.load(Ordering::Relaxed) + 1;
        self.came.store(round, Ordering::Relaxed);
        round
    }

    fn held(&self) -> MutexGuard<'_, Option<ReplySlot>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn check(&self, is_right: bool) {
        if !is_right {
            self.damaged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl RequestServer {
    pub(crate) fn new(task: &RequestTask) -> Result<Self> {
        let nic = NicOptions::new(&task.host).wait(task.wait.of_nic());
        let nic = Fabrics::default().open(&task.fabric, nic)?;
        Self::over(links(nic)?, task)
    }

    pub(super) fn over(links: Links, task: &RequestTask) -> Result<Self> {
        let endpoint = links.bundle().register(NAME, 0)?;
        let tally = Arc::new(RequestTally::default());
        if task.bytes > 0 {
            let pool = Pool::builder().class(task.bytes, SUPPLIED * task.window);
            let pool = pool.shareable().build()?;
            for _ in 0..SUPPLIED * task.window {
                endpoint.supply(pool.take(task.bytes)?);
            }
        }
        let served = Self { links, endpoint, tally, settled: 0 };
        served.handle(task.words, task.bytes);
        Ok(served)
    }

    fn handle(&self, words: usize, bytes: usize) {
        self.on(ECHO, move |tally, request| {
            let round = tally.next();
            tally.check(are_right(request.words(), words, round));
            request.reply(&[round; MOST_WORDS][..words]);
        });
        self.on(TAKE, move |tally, request| {
            let round = tally.next();
            tally.check(are_right(request.words(), words, round));
        });
        self.on(DATA, move |tally, request| {
            let round = tally.next();
            let data = request.bytes();
            let ends = [data.first(), data.last()];
            tally.check(data.len() == bytes && ends == [Some(&mark(round)); 2]);
        });
        self.on(ROOM, |_, request| request.reply(&[]));
        let mut bytes = Vec::new();
        self.endpoint.on(ECHO_BYTES, move |request| {
            bytes.clear();
            bytes.extend_from_slice(request.bytes());
            request.reply_with(Message::to(THE_CALL).bytes(&bytes));
        });
        self.on(MARK, |_, request| {
            let mark = marked(request.words(), request.bytes());
            request.reply(&[mark]);
        });
        self.on(HOLD, |tally, request| *tally.held() = Some(request.later()));
        self.on(IS_HELD, |tally, request| request.reply(&[tally.held().is_some().into()]));
        self.on(RELEASE, |tally, request| {
            if let Some(held) = tally.held().take() {
                held.reply(&[]);
            }
            request.reply(&[]);
        });
        self.on(SETTLE, |tally, request| {
            let came = tally.came.load(Ordering::Relaxed);
            // Who waits for the answer to each of its messages does not say how many.
            let is_all = request.words().is_empty() || request.words() == [came];
            tally.settled.fetch_add(u64::from(is_all), Ordering::Relaxed);
            request.reply(&[came]);
        });
    }

    fn on(&self, number: u8, handler: impl Fn(&RequestTally, Request<'_>) + Send + 'static) {
        let tally = Arc::clone(&self.tally);
        self.endpoint.on(number, move |request| handler(&tally, request));
    }

    /// Where the one that asks finds it.
    pub(crate) fn host(&self) -> &str {
        self.links.host()
    }

    /// Serves until the other side is done.
    pub(crate) fn serve(&mut self) -> Result<()> {
        self.settled += 1;
        let is_done = || self.tally.settled.load(Ordering::Relaxed) >= self.settled;
        ensure!(self.links.drive(PATIENCE, is_done), "nobody asked for too long");
        said(&self.links);
        self.check()
    }

    /// Whether everything came whole, and data in the buffers that were supplied.
    pub(super) fn check(&self) -> Result<()> {
        let damaged = self.tally.damaged.load(Ordering::Relaxed);
        ensure!(damaged == 0, "{damaged} messages arrived damaged");
        // Of those that come while this side does not run there may be more than buffers.
        let (supplied, fresh) = self.endpoint.landed();
        ensure!(fresh <= supplied / 10, "{fresh} messages in no buffer that was supplied");
        Ok(())
    }
}

#[inline]
fn are_right(have: &[u64], words: usize, round: u64) -> bool {
    have.len() == words && [have.first(), have.last()].iter().flatten().all(|end| **end == round)
}

/// Of an answer: no handler, but whoever waits for it.
const THE_CALL: u8 = 255;
/// Most words of a short message.
const MOST_WORDS: usize = 16;
/// Buffers that are supplied for each message under way: it is not under way any more when
/// it has landed, and then is looked at. What was used last is used next.
const SUPPLIED: usize = 4;
