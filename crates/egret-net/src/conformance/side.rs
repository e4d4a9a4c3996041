//! One side of a case: what its script works with.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use super::check::Wrong;
use super::{Case, Party, Profile, Role, pattern};
use crate::buf::{Buf, Pool};
use crate::rt::{Deadline, Instant};
use crate::vi::{
    Address, Completion, CompletionQueue, Descriptor, Listener, Nic, Reliability, Report, Vi,
    ViOptions,
};

/// When the driver has to look again at the latest: the earliest moment that
/// some pending future of the present round waits for.
pub(super) type Alarm = Rc<Cell<Option<Instant>>>;

/// One side while its case runs.
#[derive(Debug)]
pub(super) struct Side {
    pub nic: Nic,
    pub peer: String,
    pub role: Role,
    pub level: Reliability,
    pub profile: Profile,
    /// Buffers of [`CLASSES`].
    pub pool: Pool,
    party: Party,
    case: Case,
    alarm: Alarm,
    /// What must be empty, and full, when the case is over.
    queues: RefCell<Vec<CompletionQueue>>,
    pools: RefCell<Vec<(Pool, usize)>>,
}

/// Buffers a side has: bytes, and how many.
pub(super) const CLASSES: [(usize, usize); 4] =
    [(256, 256), (4096, 64), (128 << 10, 8), (1 << 20, 4)];

impl Side {
    pub(super) fn new(
        party: Party,
        case: Case,
        profile: &Profile,
        alarm: Alarm,
    ) -> Result<Self, Wrong> {
        let builder = CLASSES
            .iter()
            .fold(Pool::builder(), |builder, (bytes, count)| builder.class(*bytes, *count));
        let builder = if profile.shareable { builder.shareable() } else { builder };
        let builder = if profile.cooperating { builder.cooperating() } else { builder };
        let pool = builder.build()?;
        let pools = CLASSES.iter().map(|(bytes, _)| (pool.clone(), *bytes)).collect();
        Ok(Self {
            nic: party.nic.clone(),
            peer: party.peer.clone(),
            role: party.role,
            level: case.level,
            profile: profile.clone(),
            pool,
            party,
            case,
            alarm,
            queues: RefCell::default(),
            pools: RefCell::new(pools),
        })
    }

    pub(super) fn is_caller(&self) -> bool {
        self.role == Role::Caller
    }

    /// The service of this name, at the answerer's; no other case has it.
    pub(super) fn address(&self, service: &str, tag: u64) -> Address {
        let host = if self.is_caller() { &self.peer } else { self.nic.host() };
        Address::new(host, &format!("{}/{service}", self.case), tag)
    }

    /// Of the case's level.
    pub(super) fn options(&self) -> ViOptions {
        ViOptions::of(self.level)
    }

    pub(super) fn listen(&self, to: &Address, options: &ViOptions) -> Result<Listener, Wrong> {
        Ok(self.nic.listen(&to.service, to.tag, options)?)
    }

    /// A connection between the two sides.
    pub(super) async fn pair(&self, service: &str) -> Result<Vi, Wrong> {
        self.pair_with(service, &self.options()).await
    }

    pub(super) async fn pair_with(&self, service: &str, options: &ViOptions) -> Result<Vi, Wrong> {
        let to = self.address(service, 0);
        if self.is_caller() {
            return self.connect(&to, options).await;
        }
        let listener = self.listen(&to, options)?;
        self.accept(&listener).await
    }

    pub(super) async fn connect(&self, to: &Address, options: &ViOptions) -> Result<Vi, Wrong> {
        let connecting = self.nic.connect(to, options, Deadline::In(self.profile.patience));
        Ok(self.watch(self.must("a connection", connecting).await??))
    }

    pub(super) async fn accept(&self, listener: &Listener) -> Result<Vi, Wrong> {
        Ok(self.watch(self.must("a caller", listener.accept()).await??))
    }

    /// A connection of the nic to itself, both its ends.
    pub(super) async fn own_pair(&self, service: &str) -> Result<(Vi, Vi), Wrong> {
        let to = Address::new(self.nic.host(), &format!("{}/{service}", self.case), 0);
        let options = self.options();
        let listener = self.listen(&to, &options)?;
        let patience = Deadline::In(self.profile.patience);
        let connecting = self.nic.connect(&to, &options, patience);
        let there = self.accept(&listener).await?;
        let here = self.must("a connection to itself", connecting).await??;
        Ok((self.watch(here), there))
    }

    fn watch(&self, vi: Vi) -> Vi {
        self.queues.borrow_mut().extend([vi.send_queue().clone(), vi.recv_queue().clone()]);
        vi
    }

    /// A pool that must be full again when the case is over.
    pub(super) fn another_pool(&self, bytes_each: usize, count: usize) -> Result<Pool, Wrong> {
        let builder = Pool::builder().class(bytes_each, count);
        let builder = if self.profile.cooperating { builder.cooperating() } else { builder };
        let pool = builder.build()?;
        self.pools.borrow_mut().push((pool.clone(), bytes_each));
        Ok(pool)
    }

    /// A pool whose buffers can be handed over, where the fabric can do that. It
    /// must be full again when the case is over.
    pub(super) fn commons(&self) -> Result<Pool, Wrong> {
        let classes = [(256, 16), (4096, 16), (72 << 10, 4), (1 << 20, 2)];
        let builder = Pool::builder().cooperating();
        let builder =
            classes.iter().fold(builder, |builder, (bytes, count)| builder.class(*bytes, *count));
        let pool = builder.build()?;
        self.pools.borrow_mut().extend(classes.map(|(bytes, _)| (pool.clone(), bytes)));
        Ok(pool)
    }

    /// A buffer with the bytes that belong to `seed`.
    pub(super) fn buf(&self, seed: u64, len: usize) -> Result<Buf, Wrong> {
        let mut buf = self.pool.take(len)?;
        pattern::fill(seed, buf.bytes_mut());
        Ok(buf)
    }

    /// Posts a receive of `len` bytes of the pool.
    #[track_caller]
    pub(super) fn post_recv(&self, vi: &Vi, len: usize) -> Result<(), Wrong> {
        vi.post_recv(Descriptor::new(self.pool.take(len)?))?;
        Ok(())
    }

    /// Posts a send of the bytes that belong to `tag`.
    #[track_caller]
    pub(super) fn post_send(&self, vi: &Vi, tag: u64, len: usize) -> Result<(), Wrong> {
        vi.post_send(Descriptor::new(self.buf(tag, len)?).with_tag(tag))?;
        Ok(())
    }

    /// The next completion, whatever became of it.
    #[track_caller]
    pub(super) fn next<'a>(
        &'a self,
        queue: &'a CompletionQueue,
    ) -> impl Future<Output = Result<Completion, Wrong>> + 'a {
        self.must("a completion", queue.next())
    }

    /// The next completion, which must have succeeded.
    #[track_caller]
    pub(super) fn done<'a>(
        &'a self,
        queue: &'a CompletionQueue,
    ) -> impl Future<Output = Result<Completion, Wrong>> + 'a {
        let at = Location::caller();
        let next = self.must("a completion", queue.next());
        async move {
            let failed = |why| Wrong::seen_at(format!("a descriptor failed: {why}"), at);
            next.await?.ok().map_err(failed)
        }
    }

    /// Nothing completes on the queue for a while.
    #[track_caller]
    pub(super) fn quiet<'a>(
        &'a self,
        queue: &'a CompletionQueue,
    ) -> impl Future<Output = Result<(), Wrong>> + 'a {
        let at = Location::caller();
        let too_soon = self.within("", self.profile.quiet, queue.next());
        async move {
            match too_soon.await {
                Err(_) => Ok(()),
                Ok(early) => {
                    let Report { op, tag, status, .. } = &*early;
                    let what = format!("completed too soon: {op:?} with tag {tag}, {status:?}");
                    Err(Wrong::seen_at(what, at))
                }
            }
        }
    }

    /// Waits for the other side to come to the same point of the script.
    #[track_caller]
    pub(super) fn meet(&self) -> impl Future<Output = Result<(), Wrong>> + '_ {
        let own = self.party.meeting.come();
        let other = poll_fn(move |_| {
            if self.party.meeting.other() >= own {
                return Poll::Ready(());
            }
            self.look_again()
        });
        self.must("the other side", other)
    }

    /// Lets time pass.
    pub(super) async fn pause(&self, duration: Duration) {
        let until = self.nic.now() + duration;
        poll_fn(|_| {
            if self.nic.now() >= until {
                return Poll::Ready(());
            }
            self.wake_at(until);
            Poll::Pending
        })
        .await;
    }

    /// The end of `future`, which must come.
    #[track_caller]
    pub(super) fn must<'a, T: 'a>(
        &'a self,
        what: &'static str,
        future: impl Future<Output = T> + 'a,
    ) -> impl Future<Output = Result<T, Wrong>> + 'a {
        self.within(what, self.profile.patience, future)
    }

    /// The end of `future`, if it comes within `limit`.
    #[track_caller]
    pub(super) fn within<'a, T: 'a>(
        &'a self,
        what: &'static str,
        limit: Duration,
        future: impl Future<Output = T> + 'a,
    ) -> impl Future<Output = Result<T, Wrong>> + 'a {
        let at = Location::caller();
        async move {
            let until = self.nic.now() + limit;
            let mut future = pin!(future);
            poll_fn(|context| {
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    return Poll::Ready(Ok(output));
                }
                if self.nic.now() >= until {
                    let hung = Wrong::seen_at(format!("{what}: not within {limit:?}"), at);
                    return Poll::Ready(Err(hung));
                }
                self.wake_at(until);
                Poll::Pending
            })
            .await
        }
    }

    /// Has a future polled again soon.
    pub(super) fn look_again<T>(&self) -> Poll<T> {
        self.wake_at(self.nic.now() + LOOK_AGAIN);
        Poll::Pending
    }

    /// All buffers that were lent or handed over are home within the time that
    /// things may take.
    pub(super) async fn home(&self) -> Result<(), Wrong> {
        let all = poll_fn(|_| match self.lost() {
            Ok(()) => Poll::Ready(()),
            Err(_) => self.look_again(),
        });
        self.must("all buffers at home", all).await.or_else(|_| self.lost())
    }

    fn wake_at(&self, moment: Instant) {
        let earliest = self.alarm.get().map_or(moment, |known| known.min(moment));
        self.alarm.set(Some(earliest));
    }

    /// The answerer is gone without a word.
    pub(super) fn kill_peer(&self) -> Result<(), Wrong> {
        let kill = self.party.kill.as_ref();
        kill.ok_or_else(|| Wrong::new("the harness gave no way to kill the answerer"))?();
        Ok(())
    }

    /// What must hold when the script is over and everything it had is dropped.
    pub(super) fn settled(&self) -> Result<(), Wrong> {
        for queue in self.queues.borrow().iter() {
            while let Some(left) = queue.poll() {
                drop(left);
            }
            let outstanding = queue.outstanding();
            if outstanding > 0 {
                return Err(Wrong::new(format!("{outstanding} descriptors never came back")));
            }
        }
        self.lost()?;
        match self.nic.registered() {
            0 => Ok(()),
            bytes => Err(Wrong::new(format!("{bytes} bytes are still registered"))),
        }
    }

    fn lost(&self) -> Result<(), Wrong> {
        for (pool, class) in self.pools.borrow().iter() {
            let (free, all) = (pool.available(*class), pool.capacity(*class));
            if free != all {
                let what = format!("{} of {all} buffers of {class} bytes are lost", all - free);
                return Err(Wrong::new(what));
            }
        }
        Ok(())
    }
}

/// How often a side looks whether the other has come.
const LOOK_AGAIN: Duration = Duration::from_micros(500);
