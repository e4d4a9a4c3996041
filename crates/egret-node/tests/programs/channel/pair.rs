//! Two nodes of one process, and a channel between them.

use std::sync::atomic::{AtomicU64, Ordering};

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::fabric::tcp::TcpFabric;
use egret_net::rt::{self, Deadline, JoinHandle};
use egret_net::vi::NicOptions;
use egret_node::channel::{ChannelReader, ChannelWriter};
use egret_node::{Links, LinksOptions};

/// Links of two nics, which their tests drive from a thread each.
pub(crate) struct Pair {
    pub(crate) here: Links,
    pub(crate) there: Links,
}

/// What the tests run on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum On {
    Shm,
    Tcp,
}

pub(crate) const FABRICS: [On; 2] = [On::Shm, On::Tcp];

impl Pair {
    pub(crate) fn new(on: On) -> Self {
        Self::with(on, &LinksOptions::default())
    }

    pub(crate) fn with(on: On, options: &LinksOptions) -> Self {
        let open = |name: &str| {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let host = format!("channel-{name}-{}-{number}", std::process::id());
            let nic = match on {
                On::Shm => ShmFabric.open(&NicOptions::new(&host)),
                On::Tcp => TcpFabric.open(&NicOptions::new("")),
            };
            Links::open(nic.unwrap(), options.clone().background(false)).unwrap()
        };
        Self { here: open("here"), there: open("there") }
    }

    /// A channel from here to there, both ends.
    pub(crate) fn channel(&self, name: &str) -> (ChannelWriter, ChannelReader) {
        let listener = self.there.listen(name, 16).unwrap();
        let there = self.there.clone();
        let accepting = spawn(move || {
            let reader = listener.wait_accept(Deadline::DEFAULT).unwrap();
            (there, reader)
        });
        let writer = self.here.wait_channel(self.there.host(), name, Deadline::DEFAULT).unwrap();
        (writer, accepting.join().unwrap().1)
    }

    /// Drives there until `work` is done here.
    pub(crate) fn while_there_serves<T>(&self, work: impl FnOnce() -> T) -> T {
        let server = Server::of(&self.there);
        let done = work();
        drop(server);
        done
    }
}

/// A thread that drives links until it is dropped.
pub(crate) struct Server {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn of(links: &Links) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (links, stopped) = (links.clone(), std::sync::Arc::clone(&stop));
        let serve = move || {
            let done = || stopped.load(Ordering::Relaxed);
            while !done() {
                links.drive(std::time::Duration::from_millis(5), done);
            }
        };
        Self { stop, thread: Some(spawn(serve)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(crate) fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    rt::spawn("channel", body).unwrap()
}
