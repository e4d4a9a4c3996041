//! Active messages between two processes: the one that serves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use egret::am::{Endpoint, Message, ReplySlot, Request};
use egret::buf::Pool;
use egret::fabric::Fabrics;
use egret::link::Links;
use egret::vi::NicOptions;
use serde::{Deserialize, Serialize};

use crate::links::{self, RunEnds};
use crate::peer::{Follower, PeerFigures, PeerTask};
use crate::side::mark;
use crate::vi::duo::WaitMode;

/// What the two do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RequestTask {
    pub(crate) fabric: String,
    pub(crate) wait: WaitMode,
    pub(crate) what: RequestMeasure,
    /// Words of each message.
    pub(crate) words: usize,
    /// Bytes of data of each message.
    pub(crate) bytes: usize,
    /// Bytes that are copied of each message.
    pub(crate) copied: usize,
    /// Messages with data under way at once.
    pub(crate) window: usize,
    /// What the nic of the one that serves is opened with.
    pub(crate) host: String,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RequestMeasure {
    /// Short requests, each answered.
    Requests,
    /// Short messages one way.
    OneWay,
    /// Data one way.
    Data,
    /// Requests with bytes that are copied, or with a word if there are none, each answered by one: what a remote call
    /// with small arguments sends.
    Marked,
    /// Requests with bytes that are copied, each answered, while data goes the same way if
    /// there is any.
    Medium,
}

/// The one that serves, in the second process.
pub(crate) const REQUESTS: PeerTask<RequestTask> =
    PeerTask { name: "requests", start: |task, _| Ok(Box::new(RequestServer::new(&task)?)) };

/// The one that serves.
#[derive(Debug)]
pub(crate) struct RequestServer {
    pub(crate) links: Links,
    endpoint: Endpoint,
    tally: Arc<RequestTally>,
    /// The other side says that it is done.
    ends: RunEnds,
}

/// What handlers have seen.
#[derive(Debug, Default)]
struct RequestTally {
    came: AtomicU64,
    damaged: AtomicU64,
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
    fn new(task: &RequestTask) -> Result<Self> {
        let nic = NicOptions::new(&task.host).wait(task.wait.of_nic());
        let nic = Fabrics::default().open(&task.fabric, nic)?;
        Self::over(links::open(nic)?, task)
    }

    pub(crate) fn over(links: Links, task: &RequestTask) -> Result<Self> {
        let endpoint = links.bundle().register(NAME, 0)?;
        let tally = Arc::new(RequestTally::default());
        if task.bytes > 0 {
            let pool = Pool::builder().class(task.bytes, SUPPLIED * task.window);
            let pool = pool.shareable().build()?;
            for _ in 0..SUPPLIED * task.window {
                endpoint.supply(pool.take(task.bytes)?);
            }
        }
        let served = Self { links, endpoint, tally, ends: RunEnds::default() };
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
        let told = self.ends.told();
        self.on(SETTLE, move |tally, request| {
            let came = tally.came.load(Ordering::Relaxed);
            // Who waits for the answer to each of its messages does not say how many.
            let is_all = request.words().is_empty() || request.words() == [came];
            told.fetch_add(u64::from(is_all), Ordering::Relaxed);
            request.reply(&[came]);
        });
    }

    fn on(&self, number: u8, handler: impl Fn(&RequestTally, Request<'_>) + Send + 'static) {
        let tally = Arc::clone(&self.tally);
        self.endpoint.on(number, move |request| handler(&tally, request));
    }

    /// Whether everything came whole, and data in the buffers that were supplied.
    pub(crate) fn check(&self) -> Result<()> {
        let damaged = self.tally.damaged.load(Ordering::Relaxed);
        ensure!(damaged == 0, "{damaged} messages arrived damaged");
        // Of those that come while this side does not run there may be more than buffers.
        let (supplied, fresh) = self.endpoint.landed();
        ensure!(fresh <= supplied / 10, "{fresh} messages in no buffer that was supplied");
        Ok(())
    }
}

impl Follower for RequestServer {
    /// Serves until the other side is done.
    fn follow(&mut self, _: u64) -> Result<PeerFigures> {
        self.ends.wait_next(&self.links, "no request arrived in time")?;
        self.check()?;
        Ok(PeerFigures::new())
    }

    fn host(&self) -> &str {
        self.links.host()
    }
}

/// By what a message is known.
pub(crate) fn marked(words: &[u64], bytes: &[u8]) -> u64 {
    words.first().copied().or_else(|| bytes.last().map(|byte| (*byte).into())).unwrap_or_default()
}

#[inline]
fn are_right(have: &[u64], words: usize, round: u64) -> bool {
    have.len() == words && [have.first(), have.last()].iter().flatten().all(|end| **end == round)
}

/// The endpoint of the one that serves.
pub(crate) const NAME: &str = "bench";
/// Answers with as many words.
pub(crate) const ECHO: u8 = 0;
/// Takes words.
pub(crate) const TAKE: u8 = 1;
/// Takes data.
pub(crate) const DATA: u8 = 2;
/// Answers.
pub(crate) const ROOM: u8 = 4;
/// Answers with the same bytes.
pub(crate) const ECHO_BYTES: u8 = 5;
pub(crate) const MARK: u8 = 12;
/// Is answered when [`RELEASE`] comes.
pub(crate) const HOLD: u8 = 6;
/// Answers whether a request waits for its answer.
pub(crate) const IS_HELD: u8 = 7;
pub(crate) const RELEASE: u8 = 8;
/// Answers how many messages came in all; its sender repeats it until all messages of the run
/// have come.
pub(crate) const SETTLE: u8 = 3;
/// Of an answer: the call that waits for it, not a handler.
const THE_CALL: u8 = 255;
/// Most words of a short message.
const MOST_WORDS: usize = 16;
/// Buffers that are supplied for each message under way: it is not under way any more when
/// it has landed, and then is looked at. What was used last is used next.
const SUPPLIED: usize = 4;
