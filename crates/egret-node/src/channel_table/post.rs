//! Posted messages: the thread that drives the links sends them, one after the other.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use egret_net::sync::Mutex;
use egret_net::vi::Segment;

use super::error::ChannelError;
use super::fault;
use super::outflow::{ChannelOutflow, WriteHalt};
use crate::link::{Fate, LinkError};
use crate::wakers::{DeferredWaker, under};

/// A message to be [posted](crate::channel::ChannelWriter::post). A dropped post is not sent.
///
/// ```
/// use egret_net::fabric::{Fabric, shm::ShmFabric};
/// use egret_net::rt::{self, Deadline};
/// use egret_net::vi::NicOptions;
/// use egret_node::channel::Post;
/// use egret_node::{Links, LinksOptions};
///
/// let links = |name: &str| -> Result<Links, Box<dyn std::error::Error>> {
///     let host = format!("{name}-{}", std::process::id());
///     Ok(Links::open(ShmFabric.open(&NicOptions::new(&host))?, LinksOptions::default())?)
/// };
/// let (here, there) = (links("posts")?, links("reads")?);
/// let listener = there.listen("numbers", 8)?;
/// let writer = here.wait_channel(there.host(), "numbers", Deadline::DEFAULT)?;
/// // Two parts, and nothing else to send if one of them is too large.
/// let (post, posted) = Post::new(vec![vec![1_u8; 10].into(), vec![2_u8; 20].into()], vec![]);
/// writer.post(post);
///
/// let mut reader = listener.wait_accept(Deadline::DEFAULT)?;
/// let mut message = reader.wait_next(Deadline::DEFAULT)?.expect("it was posted");
/// let mut bytes = 0;
/// while let Some(part) = message.wait_next_part(Deadline::DEFAULT)? {
///     bytes += part.bytes().len();
/// }
/// assert_eq!(bytes, 30);
/// assert_eq!(here.wait_on(posted, Deadline::DEFAULT), Some(Ok(())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Post {
    parts: VecDeque<Segment>,
    instead: VecDeque<Segment>,
    progress: PostProgress,
    promise: PostPromise,
}

/// The outcome of a posted message: a future, which is ready when the message is in the memory of the
/// reader's node, or never will be. Dropping the future changes nothing. [`Post`] has an example.
#[derive(Debug)]
#[must_use = "the outcome of the message is inside"]
pub struct PostOutcome(Arc<PostCell>);

/// How much of a posted message the state machine of the channel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PostProgress {
    Waits,
    Begun,
    Ended,
}

#[derive(Default)]
struct PostCell(Mutex<PostCellState>);

#[derive(Default)]
struct PostCellState {
    outcome: Option<Result<(), ChannelError>>,
    waker: Option<DeferredWaker>,
}

/// Sets the outcome of a message; dropped without one, the message was not sent.
#[derive(Debug)]
struct PostPromise {
    known: Arc<PostCell>,
    /// Why the link has ended, if it has.
    why: Option<LinkError>,
    fate: Fate,
}

/// The messages that were posted to a channel.
#[derive(Debug, Default)]
pub(super) struct PostQueue {
    /// Messages that were not sent; the state machine may have the first.
    waiting: VecDeque<Post>,
    /// Messages of which the link has the end.
    gone: VecDeque<SentPost>,
}

#[derive(Debug)]
struct SentPost {
    /// The number of the message in the channel.
    message: u64,
    promise: PostPromise,
    /// The link has given the message back, and not yet the reason.
    is_back: bool,
}

impl Post {
    /// A message of these parts. If one of them is larger than the reader's node ever accepts, a
    /// message of the parts `instead` is sent in its place, if there are any.
    pub fn new(parts: Vec<Segment>, instead: Vec<Segment>) -> (Self, PostOutcome) {
        let (known, progress) = (Arc::<PostCell>::default(), PostProgress::Waits);
        let (why, fate) = (None, Fate::NotDelivered);
        let promise = PostPromise { known: Arc::clone(&known), why, fate };
        (
            Self { parts: parts.into(), instead: instead.into(), progress, promise },
            PostOutcome(known),
        )
    }

    /// Whether `posted` is the outcome of this message.
    #[must_use]
    pub fn is_of(&self, posted: &PostOutcome) -> bool {
        Arc::ptr_eq(&self.promise.known, &posted.0)
    }

    /// The message was posted to a channel whose link has ended.
    pub(super) fn lost(self, why: &LinkError) {
        self.promise.lost(why);
    }

    /// Sets the outcome, after the memory of the message is dropped.
    fn over(self, outcome: Result<(), ChannelError>) {
        let Self { parts, instead, promise, .. } = self;
        drop((parts, instead));
        promise.known.set(outcome);
    }
}

impl Future for PostOutcome {
    type Output = Result<(), ChannelError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        under(|| {
            let mut inner = self.0.0.lock();
            if let Some(outcome) = &inner.outcome {
                return Poll::Ready(outcome.clone());
            }
            inner.waker = Some(DeferredWaker::of(context.waker()));
            Poll::Pending
        })
    }
}

impl PostCell {
    /// Sets the outcome, unless there is one.
    fn set(&self, outcome: Result<(), ChannelError>) {
        under(|| {
            let mut inner = self.0.lock();
            inner.outcome.get_or_insert(outcome);
            inner.waker.take().into_iter().for_each(DeferredWaker::wake);
        });
    }
}

impl Drop for PostPromise {
    fn drop(&mut self) {
        let fate = self.fate;
        self.known.set(Err(match self.why.take() {
            Some(why) => ChannelError::Lost { why, fate },
            None if fate == Fate::NotDelivered => ChannelError::Withdrawn,
            None => ChannelError::Lost { why: LinkError::Closed, fate },
        }));
    }
}

impl PostQueue {
    pub(super) fn push(&mut self, post: Post) {
        self.waiting.push_back(post);
    }

    /// Whether all were sent.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Moves parts to the state machine of the channel while it has room.
    pub(super) fn feed(&mut self, outgoing: &mut ChannelOutflow) {
        fault::keep_order(&mut self.waiting);
        while let Some(post) = self.waiting.front_mut() {
            let is_stopped = outgoing.halted() == Some(WriteHalt::Stopped);
            if post.is_waiting() && !is_stopped {
                if !outgoing.is_flushed() {
                    return;
                }
                outgoing.begin();
                post.progress = PostProgress::Begun;
            }
            match outgoing.halted() {
                Some(WriteHalt::Refused(_)) if !post.instead.is_empty() => {
                    post.parts = std::mem::take(&mut post.instead);
                    post.progress = PostProgress::Waits;
                }
                Some(halt) => {
                    let post = self.waiting.pop_front();
                    post.into_iter().for_each(|post| post.over(Err(halt.into())));
                }
                None if post.progress == PostProgress::Ended || !outgoing.has_room() => return,
                None => post.push(outgoing),
            }
        }
    }

    /// The end of the message of this number was sent.
    pub(super) fn went(&mut self, message: u64) {
        if self.waiting.front().is_some_and(|post| post.progress == PostProgress::Ended)
            && let Some(mut post) = self.waiting.pop_front()
        {
            post.promise.fate = Fate::Unknown;
            self.gone.push_back(SentPost { message, promise: post.promise, is_back: false });
        }
    }

    /// The link has given back the end of a message: the peer has it, or `fate` says what is known.
    pub(super) fn came_back(&mut self, message: u64, fate: Option<Fate>, is_dead: bool) {
        let Some(at) = self.gone.iter().position(|it| it.message == message) else { return };
        let gone = &mut self.gone[at];
        match fate {
            Some(fate) => (gone.promise.fate, gone.is_back) = (fate, true),
            None => gone.promise.known.set(Ok(())),
        }
        if fate.is_none() || is_dead {
            self.gone.remove(at);
        }
    }

    /// The link has ended. It gives back the messages that it has, one after the other.
    pub(super) fn died(&mut self, why: &LinkError) {
        let waiting = self.waiting.iter_mut().map(|post| &mut post.promise);
        let gone = self.gone.iter_mut().map(|it| &mut it.promise);
        waiting.chain(gone).for_each(|promise| promise.why = Some(why.clone()));
        self.waiting.clear();
        self.gone.retain(|it| !it.is_back);
    }

    /// Withdraws a message that was not sent.
    pub(super) fn withdraw(&mut self, posted: &PostOutcome, outgoing: &mut ChannelOutflow) {
        let at = self.waiting.iter().position(|post| post.is_of(posted));
        if let Some(post) = at.and_then(|at| self.waiting.remove(at))
            && post.progress != PostProgress::Waits
        {
            outgoing.abort();
        }
    }
}

impl Post {
    /// Whether nothing of the message was given to the channel yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.progress == PostProgress::Waits
    }

    /// Moves the next part to the state machine of the channel, and the end with the last part.
    fn push(&mut self, outgoing: &mut ChannelOutflow) {
        let part = self.parts.pop_front();
        let pushed = match part {
            Some(part) if !self.parts.is_empty() => outgoing.part(part).is_ok(),
            last => {
                self.progress = PostProgress::Ended;
                outgoing.last(last).is_ok()
            }
        };
        debug_assert!(pushed, "it is not halted");
    }
}

impl PostPromise {
    /// Sets the outcome of a message whose link has ended.
    fn lost(mut self, why: &LinkError) {
        self.why = Some(why.clone());
    }
}

impl fmt::Debug for PostCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostCell").field(&self.0.lock().outcome).finish()
    }
}
