//! The network interface a program opens.

use std::fmt;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use super::hub::Hub;
use super::machine::{Arming, ConnectPromise, ConnectRequest, EventCount, Machine, ViSpec};
use super::promise::PendingConnection;
use super::register::Registrar;
use super::{
    Access, CompletionQueue, ConnectError, Drain, Exposed, Limits, Listener, OpenError, PublicKey,
    Registration, Reliability, Vi, ViId, Wait, hello,
};
use crate::buf::{Buf, MemoryError, Region};
use crate::rt::{Deadline, GivenBack, Instant};

/// A network interface, opened by a [`Fabric`](crate::fabric::Fabric).
/// Clones are handles to the same one.
/// The [module](super) has an example.
#[derive(Debug, Clone)]
pub struct Nic {
    pub(super) hub: Arc<Hub>,
    registrar: Arc<Registrar>,
    /// Ends the waits of threads in [`block_on`](Self::block_on).
    waker: Waker,
}

impl Nic {
    /// The handle of a [machine](super::machine) that waits in this way; for fabrics.
    #[must_use]
    pub fn new(machine: Box<dyn Machine>, wait: Wait) -> Self {
        let hub = Hub::new(machine, wait);
        let registrar = Arc::new(Registrar::new(hub.limits.registrable_max));
        let waker = Waker::from(Arc::new(Interrupt(Arc::downgrade(&hub))));
        Self { hub, registrar, waker }
    }

    /// The name peers connect to.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.hub.host
    }

    /// The key that it proves to peers, on a fabric where nics have one; for
    /// [`Address::key`].
    #[must_use]
    pub fn key(&self) -> Option<PublicKey> {
        self.hub.key
    }

    /// What it allows.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.hub.limits
    }

    /// The present moment in the world this nic lives in.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.hub.now()
    }

    /// Ends all waits for what was seen before it.
    pub fn wake(&self) {
        self.hub.wake();
    }

    /// A completion queue for up to `capacity` descriptors, outstanding ones included.
    #[must_use]
    pub fn completion_queue(&self, capacity: usize) -> CompletionQueue {
        CompletionQueue::new(Arc::clone(&self.hub), capacity)
    }

    /// A drain that connections may [share](ViOptions::drain).
    #[must_use]
    pub fn drain(&self) -> Drain {
        Drain::new(Arc::clone(&self.hub))
    }

    /// Waits for connections to `service` with `tag`.
    ///
    /// # Errors
    ///
    /// If someone does already, the name does not fit, or the fabric has no
    /// such reliability.
    pub fn listen(
        &self,
        service: &str,
        tag: u64,
        options: &ViOptions,
    ) -> Result<Listener, OpenError> {
        if !hello::service_fits(service) {
            return Err(OpenError::NameTooLong { bytes: service.len() });
        }
        if !self.limits().offers(options.reliability) {
            return Err(OpenError::Unsupported(options.reliability));
        }
        if !options.is_for(self) {
            return Err(OpenError::OtherNic);
        }
        let name = (service.to_owned(), tag);
        self.hub.quietly(|machine| machine.listen(&name, options.reliability))?;
        Ok(Listener::new(self.clone(), options.clone(), name))
    }

    /// Begins to connect. The answer is a future; [`wait_connect`](Self::wait_connect) blocks,
    /// and says what is waited for.
    pub fn connect(
        &self,
        to: &Address,
        options: &ViOptions,
        deadline: impl Into<Deadline>,
    ) -> Connecting {
        let deadline = deadline.into();
        let (options, spec) = options.spec(self);
        let (promise, answer) = ConnectPromise::new(Arc::downgrade(&self.hub));
        let refused = if !self.limits().offers(options.reliability) {
            Some(ConnectError::Unsupported(options.reliability))
        } else if !hello::service_fits(&to.service) {
            Some(ConnectError::NameTooLong { bytes: to.service.len() })
        } else if !options.is_for(self) {
            Some(ConnectError::OtherNic)
        } else {
            None
        };
        if let Some(why) = refused {
            promise.settle(Err(why));
        } else {
            let since = self.now();
            let until = deadline.until_from(since);
            let (to, at_once) = (to.clone(), options.at_once);
            self.hub.connect(ConnectRequest { to, spec, since, until, at_once, promise });
        }
        Connecting { answer, nic: self.clone(), options, vi: spec.vi }
    }

    /// Connects, and waits until the other side accepts.
    ///
    /// Processes start in any order, so a host that is not there and a service or tag that
    /// have no listener are waited for until the deadline, which then says what was missing:
    /// [`UnknownHost`](ConnectError::UnknownHost), [`NotListening`](ConnectError::NotListening),
    /// [`OtherTag`](ConnectError::OtherTag) or [`NotAccepted`](ConnectError::NotAccepted). A
    /// caller that knows that the other side must be there asks for
    /// [`at_once`](ViOptions::at_once), and is told as soon as the fabric knows. What the host
    /// says it says when its nic is driven:
    ///
    /// | | missing host | missing service or tag |
    /// |---|---|---|
    /// | `shm` | at once: no nic of this name | at once, by the host |
    /// | `tcp` | at once, if the kernel there refuses; a machine that is silent, at the deadline | at once, by the host |
    /// | `udp` | at the deadline: no answer says that it is not there | at once, by the host |
    /// | `sim` | at once: no nic of this name | at once, by the host |
    ///
    /// Another level, another secret and another user are told at once in any case.
    ///
    /// ```
    /// use egret_net::fabric::sim::Sim;
    /// use egret_net::rt::Deadline;
    /// use egret_net::vi::{Address, ConnectError, ViOptions};
    ///
    /// let sim = Sim::new(1);
    /// let (a, b) = (sim.nic("a"), sim.nic("b"));
    /// let _listener = b.listen("files", 1, &ViOptions::default())?;
    /// let to = Address::new("b", "files", 2);
    /// let refused = a.wait_connect(&to, &ViOptions::default().at_once(), Deadline::DEFAULT);
    /// assert!(matches!(refused, Err(ConnectError::OtherTag { .. })), "{refused:?}");
    /// # Ok::<(), egret_net::vi::OpenError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the host does not accept within the deadline, or whatever else [`ConnectError`] names.
    pub fn wait_connect(
        &self,
        to: &Address,
        options: &ViOptions,
        deadline: impl Into<Deadline>,
    ) -> Result<Vi, ConnectError> {
        self.block_on(self.connect(to, options, deadline))
    }

    /// Registers memory with the nic: it stays pinned until the last
    /// registration of its region is dropped.
    ///
    /// # Errors
    ///
    /// If that is more than the nic takes, or than may be locked.
    pub(crate) fn register(&self, region: &Region) -> Result<Registration, MemoryError> {
        self.registrar.register(region)
    }

    /// Bytes registered at the moment, each region once.
    #[cfg(any(test, feature = "conformance"))]
    pub(crate) fn registered(&self) -> u64 {
        self.registrar.registered()
    }

    /// Lets peers read or write a buffer by a key. Its region is registered meanwhile.
    ///
    /// # Errors
    ///
    /// If that is more than the nic takes, or than may be locked; the buffer is inside.
    pub fn expose(&self, buf: Buf, access: Access) -> Result<Exposed, GivenBack<Buf, MemoryError>> {
        if !access.read && !access.write {
            return Err(GivenBack { why: MemoryError::NoAccess, what: buf });
        }
        match self.register(buf.region()) {
            Err(why) => Err(GivenBack { why, what: buf }),
            Ok(registration) => {
                let keys = &self.hub.keys;
                let key = keys.insert(buf, access);
                Ok(Exposed::new(Arc::clone(keys), key, registration))
            }
        }
    }

    /// Lets the fabric make progress without blocking.
    pub fn poll(&self) -> EventCount {
        self.hub.progress()
    }

    /// Drives the nic until more has happened than `seen`, at the latest
    /// `until`. May return early. For programs with a loop of their own, which
    /// polls, looks whether what it wants has come, and waits if not.
    pub fn wait(&self, seen: EventCount, until: Option<Instant>) -> EventCount {
        self.hub.wait(seen, until)
    }

    /// A descriptor that an event loop can poll among its others (for reading, and
    /// level-triggered), while the nic is [armed](Self::arm). `None` on a fabric
    /// without one, as the simulator is, and for a nic that [spins](Wait::Spin).
    ///
    /// ```no_run
    /// # use egret_net::vi::{Arming, Nic};
    /// # use std::os::fd::BorrowedFd;
    /// # fn work() -> bool { true }
    /// # fn sleep(_: Option<BorrowedFd<'_>>, _: Option<egret_net::rt::Instant>) {}
    /// # fn run(nic: &Nic) {
    /// loop {
    ///     let seen = nic.poll();
    ///     if work() {
    ///         break; // What was waited for has come.
    ///     }
    ///     if let Arming::Armed { until } = nic.arm(seen) {
    ///         sleep(nic.fd(), until); // poll(2), with the loop's other descriptors
    ///         nic.disarm();
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.hub.fd()
    }

    /// Says that an event loop is about to sleep on [`fd`](Self::fd): from now on
    /// peers ring, and whatever happens makes it readable, until it is
    /// [disarmed](Self::disarm). Not if more has happened than was `seen`, which is
    /// what the last poll answered: a caller that looks between the two misses nothing. Armed
    /// again it is disarmed first.
    ///
    /// A thread that waits for the nic meanwhile is woken only when the loop disarms.
    #[must_use = "it says whether the loop may sleep"]
    pub fn arm(&self, seen: EventCount) -> Arming {
        self.hub.arm(seen)
    }

    /// The event loop is awake, whatever woke it: peers need not ring any more. What
    /// made the descriptor readable is dealt with; a poll says what came of it.
    pub fn disarm(&self) {
        self.hub.disarm();
    }

    /// Runs a future to its end on this thread, driving the nic while it is
    /// pending. This is all the runtime that egret's futures need.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(&self.waker);
        loop {
            let seen = self.hub.progress();
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            self.hub.wait(seen, None);
        }
    }
}

/// Where to connect.
/// The [module](super) has an example.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A nic of the same fabric: what its [`Nic::host`] says. On a network that is an
    /// address or a name, with a port.
    pub host: String,
    /// What a listener there listens for.
    pub service: String,
    /// Must be the listener's too.
    pub tag: u64,
    /// The key that the nic must prove, if it is known: what its [`Nic::key`] says. A nic with
    /// another key is not connected with.
    pub key: Option<PublicKey>,
}

impl Address {
    /// `service` with `tag` at `host`.
    #[must_use]
    pub fn new(host: &str, service: &str, tag: u64) -> Self {
        Self { host: host.to_owned(), service: service.to_owned(), tag, key: None }
    }

    /// The same, if the nic there has this key.
    #[must_use]
    pub const fn key(mut self, key: PublicKey) -> Self {
        self.key = Some(key);
        self
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}#{}", self.host, self.service, self.tag)
    }
}

/// How a connection is to be.
/// The [module](super) has an example.
#[derive(Debug, Clone, Default)]
pub struct ViOptions {
    /// Both sides must ask for the same.
    pub reliability: Reliability,
    /// Where sends, reads and writes complete; a queue of its own if `None`.
    pub send_queue: Option<CompletionQueue>,
    /// Where receives complete; a queue of its own if `None`.
    pub recv_queue: Option<CompletionQueue>,
    /// Where eager messages are drained; a drain of its own if `None`.
    pub drain: Option<Drain>,
    /// Whether to connect only to a host that listens already; see
    /// [`Nic::wait_connect`]. Without it a listener may come until the deadline.
    pub at_once: bool,
}

impl ViOptions {
    /// Of this reliability, with completion queues of its own.
    #[must_use]
    pub fn of(reliability: Reliability) -> Self {
        Self { reliability, ..Self::default() }
    }

    /// Connects [at once](Self::at_once) or not at all.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Whether its queues are this nic's.
    fn is_for(&self, nic: &Nic) -> bool {
        let mut queues = self.send_queue.iter().chain(&self.recv_queue);
        queues.all(|queue| queue.is_of(&nic.hub))
            && self.drain.as_ref().is_none_or(|drain| drain.is_of(&nic.hub))
    }

    /// What one connection is to be, and the options with a drain for it.
    pub(super) fn spec(&self, nic: &Nic) -> (Self, ViSpec) {
        let mut options = self.clone();
        let drain = options.drain.get_or_insert_with(|| nic.drain()).id();
        let (reliability, depth) = (self.reliability, nic.limits().queue_depth);
        let (vi, carries) = (ViId::unused(), reliability);
        (options, ViSpec { reliability, carries, depth, vi, drain })
    }
}

/// A connection being made; made by [`Nic::connect`]. Dropping it gives up.
/// The [module](super) has an example.
#[derive(Debug)]
#[must_use = "the connection is made when this is awaited"]
pub struct Connecting {
    answer: PendingConnection,
    nic: Nic,
    options: ViOptions,
    vi: ViId,
}

impl Future for Connecting {
    type Output = Result<Vi, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = self.answer.poll(context);
        if answer.is_pending() {
            self.nic.poll();
            answer = self.answer.poll(context);
        }
        let made = std::task::ready!(answer);
        Poll::Ready(made.map(|made| Vi::new(self.nic.clone(), made, &self.options, self.vi)))
    }
}

/// Wakes a thread that drives its nic in `block_on`.
struct Interrupt(Weak<Hub>);

impl Wake for Interrupt {
    fn wake(self: Arc<Self>) {
        if let Some(hub) = self.0.upgrade() {
            hub.wake();
        }
    }
}
