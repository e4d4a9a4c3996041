//! Nodes that are driven by a runtime of tokio's; with the feature `tokio`. [`drive`] has an example.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::Poll;

use egret_net::rt::{self, Instant};
use egret_net::vi::Arming;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::NodeHandle;
use crate::Links;

/// Drives a node: the descriptors of its links and their next deadline, that of awaited calls included, are in
/// the reactor of the runtime that polls this, and no thread of egret's is between a message, or a moment, and who awaits it. Messages are
/// received, handlers run and answers delivered by the task that polls this; so it is best spawned, on a
/// runtime of one thread, beside those that call:
///
/// ```
/// use std::time::Duration;
///
/// # use egret_node::node::{Config, Node};
/// # use egret_node::registry::{Registry, RegistryOptions};
/// # let registry = Registry::open(RegistryOptions::new("doc", 1).secret("hush".into()))?;
/// # let config = registry.config();
/// let node = Node::join(config)?;
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let local = tokio::task::LocalSet::new();
/// local.block_on(&runtime, async {
///     let handle = node.handle();
///     let driver = tokio::task::spawn_local(async move { egret_node::node::tokio::drive(&handle).await });
///     // Calls that are awaited here are answered by the same thread.
///     tokio::time::sleep(Duration::from_millis(1)).await;
///     driver.abort();
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// When this future is dropped, the node's own thread drives again. While the future lives the runtime
/// must poll it: a task that blocks its thread keeps the node from hearing, but for one that waits for
/// something of the node, which hears for itself. The future borrows what is
/// of one thread, and is not `Send`; on a runtime of several threads it is in a `LocalSet`.
///
/// What stays with threads of egret's: the links to the registry, where nothing happens while nodes neither
/// come nor go; and plain methods of the node's own objects, which may block, and run on workers. A nic that
/// [spins](egret_net::vi::Wait::Spin) has no descriptor: it is polled whenever the runtime has time,
/// which keeps a core busy.
///
/// The future ends with an error, if the reactor does not take a descriptor or another such future
/// drives the node, and not otherwise.
///
/// # Panics
///
/// Outside of a runtime with its timer and its input and output enabled.
pub async fn drive(node: &NodeHandle) -> io::Error {
    let mut all: Vec<Pin<Box<dyn Future<Output = io::Error> + '_>>> = Vec::new();
    for (_, links) in node.links() {
        all.push(Box::pin(drive_links(links)));
    }
    poll_fn(|context| {
        let ended = all.iter_mut().find_map(|one| match one.as_mut().poll(context) {
            Poll::Ready(why) => Some(why),
            Poll::Pending => None,
        });
        ended.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

async fn drive_links(links: &Links) -> io::Error {
    let Some(_loop) = EventLoopScope::new(links) else {
        return io::Error::new(io::ErrorKind::AlreadyExists, "another future drives this node");
    };
    let Some(fd) = links.fd() else {
        loop {
            links.poll();
            tokio::task::yield_now().await;
        }
    };
    // What is unsafe about it is said by the type: a borrowed descriptor is open as long as it is
    // borrowed, and stays what it is.
    #[expect(deprecated, reason = "what takes its place is unsafe")]
    let registered = AsyncFd::with_interest(fd, Interest::READABLE);
    let fd = match registered {
        Ok(fd) => fd,
        Err(why) => return why,
    };
    loop {
        let Arming::Armed { until } = links.arm() else {
            // Those who were woken by that are to run.
            tokio::task::yield_now().await;
            continue;
        };
        let armed = ArmedScope(links);
        if let Err(why) = readable(&fd, until).await {
            return why;
        }
        drop(armed);
        // What is there may not be enough for anything yet: others run meanwhile.
        tokio::task::yield_now().await;
    }
}

/// Waits until there is something to read, or a moment.
async fn readable(fd: &AsyncFd<BorrowedFd<'_>>, until: Option<Instant>) -> io::Result<()> {
    // The reactor tells of an edge, and the descriptor of a level: what was not read since is still
    // there.
    let ready = async {
        loop {
            let mut ready = fd.readable().await?;
            if has_something(*fd.get_ref())? {
                return Ok(());
            }
            ready.clear_ready();
        }
    };
    match until {
        None => ready.await,
        // Whether it came to that is found by looking.
        Some(until) => tokio::time::timeout(until.since(rt::now()), ready).await.unwrap_or(Ok(())),
    }
}

/// Whether a descriptor is readable now.
fn has_something(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(retry_on_intr(|| poll(&mut polled, Some(&none)))? > 0)
}

/// An event loop drives the links, until this is dropped.
struct EventLoopScope<'a>(&'a Links);

impl<'a> EventLoopScope<'a> {
    /// None if another does.
    fn new(links: &'a Links) -> Option<Self> {
        let is_taken = links.core.crew.set_loop(true);
        // The thread in the background leaves.
        links.core.nic.wake();
        (!is_taken).then_some(Self(links))
    }
}

impl Drop for EventLoopScope<'_> {
    fn drop(&mut self) {
        self.0.core.crew.set_loop(false);
    }
}

/// The links are armed, until this is dropped.
struct ArmedScope<'a>(&'a Links);

impl Drop for ArmedScope<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}
