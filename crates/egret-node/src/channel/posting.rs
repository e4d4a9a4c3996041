//! Messages that are posted: they go by themselves, one after the other.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use egret_net::sync::Mutex;
use egret_net::vi::Segment;

use super::error::WriteError;
use super::fault::{Fault, planted};
use super::outgoing::{Halt, Outgoing};
use crate::link::{Fate, LinkError};
use crate::links::behind::{Sleeper, under};

/// A message to be [posted](super::Writer::post). Dropped, it does not go.
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
    progress: Progress,
    promise: Promise,
}

/// What becomes of a message that was posted: a future, which is ready when the message is in the
/// memory of the reader's node, or never will be. Dropped, the message goes all the same.
#[derive(Debug)]
#[must_use = "what became of the message is inside"]
pub struct Posted(Arc<Known>);

/// How far the machine has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Waits,
    Begun,
    Ended,
}

#[derive(Default)]
struct Known(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    outcome: Option<Result<(), WriteError>>,
    waker: Option<Sleeper>,
}

/// Says what became of a message; if it is dropped, that the message did not go.
#[derive(Debug)]
struct Promise {
    known: Arc<Known>,
    /// Why its link is no more, if that is so.
    why: Option<LinkError>,
    fate: Fate,
}

/// The messages that were posted to a channel.
#[derive(Debug, Default)]
pub(super) struct Posts {
    /// Those that have not gone; the machine may have the first.
    waiting: VecDeque<Post>,
    /// Those of which the link has the end.
    gone: VecDeque<Gone>,
}

#[derive(Debug)]
struct Gone {
    /// Its place among all messages.
    message: u64,
    promise: Promise,
    /// The link has given it back, and has not said yet why.
    is_back: bool,
}

impl Post {
    /// A message of these parts. If one of them is larger than the reader's node ever takes, a
    /// message of the parts `instead` goes in its place, if there are any.
    pub fn new(parts: Vec<Segment>, instead: Vec<Segment>) -> (Self, Posted) {
        let (known, progress) = (Arc::<Known>::default(), Progress::Waits);
        let (why, fate) = (None, Fate::NotDelivered);
        let promise = Promise { known: Arc::clone(&known), why, fate };
        (Self { parts: parts.into(), instead: instead.into(), progress, promise }, Posted(known))
    }

    /// Whether this says what becomes of the message.
    #[must_use]
    pub fn is_of(&self, posted: &Posted) -> bool {
        Arc::ptr_eq(&self.promise.known, &posted.0)
    }

    /// It was posted to a channel whose link is no more.
    pub(super) fn lost(self, why: &LinkError) {
        self.promise.lost(why);
    }

    /// Tells what became of it, when nobody has its memory.
    fn over(self, outcome: Result<(), WriteError>) {
        let Self { parts, instead, promise, .. } = self;
        drop((parts, instead));
        promise.known.set(outcome);
    }
}

impl Future for Posted {
    type Output = Result<(), WriteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        under(|| {
            let mut inner = self.0.0.lock();
            if let Some(outcome) = &inner.outcome {
                return Poll::Ready(outcome.clone());
            }
            inner.waker = Some(Sleeper::of(context.waker()));
            Poll::Pending
        })
    }
}

impl Known {
    /// The first that is said of it holds.
    fn set(&self, outcome: Result<(), WriteError>) {
        under(|| {
            let mut inner = self.0.lock();
            inner.outcome.get_or_insert(outcome);
            inner.waker.take().into_iter().for_each(Sleeper::wake);
        });
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let fate = self.fate;
        self.known.set(Err(match self.why.take() {
            Some(why) => WriteError::Link { why, fate },
            None if fate == Fate::NotDelivered => WriteError::Withdrawn,
            None => WriteError::Link { why: LinkError::Closed, fate },
        }));
    }
}

impl Posts {
    pub(super) fn push(&mut self, post: Post) {
        self.waiting.push_back(post);
    }

    /// Whether all have gone.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives the machine what it has room for.
    pub(super) fn feed(&mut self, outgoing: &mut Outgoing) {
        let is_new = |post: &Post| post.progress == Progress::Waits;
        if planted(Fault::LastPosted) && self.waiting.front().is_some_and(is_new) {
            self.waiting.rotate_right(1);
        }
        while let Some(post) = self.waiting.front_mut() {
            let is_stopped = outgoing.halted() == Some(Halt::Stopped);
            if post.progress == Progress::Waits && !is_stopped {
                if !outgoing.is_flushed() {
                    return;
                }
                outgoing.begin();
                post.progress = Progress::Begun;
            }
            match outgoing.halted() {
                Some(Halt::Refused(_)) if !post.instead.is_empty() => {
                    post.parts = std::mem::take(&mut post.instead);
                    post.progress = Progress::Waits;
                }
                Some(halt) => {
                    let post = self.waiting.pop_front();
                    post.into_iter().for_each(|post| post.over(Err(halt.into())));
                }
                None if post.progress == Progress::Ended || !outgoing.has_room() => return,
                None => post.push(outgoing),
            }
        }
    }

    /// The end of a message has gone: that is this one among all.
    pub(super) fn went(&mut self, message: u64) {
        if self.waiting.front().is_some_and(|post| post.progress == Progress::Ended)
            && let Some(mut post) = self.waiting.pop_front()
        {
            post.promise.fate = Fate::Unknown;
            self.gone.push_back(Gone { message, promise: post.promise, is_back: false });
        }
    }

    /// The end of a message is back from the link: the peer has it, or what is known of it.
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

    /// The link is no more. What it has it gives back, one after the other.
    pub(super) fn died(&mut self, why: &LinkError) {
        let waiting = self.waiting.iter_mut().map(|post| &mut post.promise);
        let gone = self.gone.iter_mut().map(|it| &mut it.promise);
        waiting.chain(gone).for_each(|promise| promise.why = Some(why.clone()));
        self.waiting.clear();
        self.gone.retain(|it| !it.is_back);
    }

    /// Takes a message back that has not gone.
    pub(super) fn withdraw(&mut self, posted: &Posted, outgoing: &mut Outgoing) {
        let at = self.waiting.iter().position(|post| post.is_of(posted));
        if let Some(post) = at.and_then(|at| self.waiting.remove(at))
            && post.progress != Progress::Waits
        {
            outgoing.abort();
        }
    }
}

impl Post {
    /// Gives the machine the next part, and the end with the last.
    fn push(&mut self, outgoing: &mut Outgoing) {
        let part = self.parts.pop_front();
        let pushed = match part {
            Some(part) if !self.parts.is_empty() => outgoing.part(part).is_ok(),
            last => {
                self.progress = Progress::Ended;
                outgoing.last(last).is_ok()
            }
        };
        debug_assert!(pushed, "it is not halted");
    }
}

impl Promise {
    /// Of a link that is no more.
    fn lost(mut self, why: &LinkError) {
        self.why = Some(why.clone());
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Known").field(&self.0.lock().outcome).finish()
    }
}
