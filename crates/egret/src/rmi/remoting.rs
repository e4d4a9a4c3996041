//! Remote calls, as methods of a node.

use egret_net::rt::Deadline;
use egret_node::node::{Binding, NodeError, NodeHandle, Requirement};

use crate::rmi::CallError;
use crate::rmi::caller::stub::Stub;
use crate::rmi::exchange::Exchange;
use crate::rmi::export::{Export, Exported, ObjectRef};
use crate::rmi::interface::{Exports, Proxy, RemoteInterface};

/// Objects and stubs of a node, which has them by its [`NodeHandle`].
/// [`rmi`](crate::rmi) has an example.
pub trait Remoting {
    /// Lets others call an object, as the interface that its `#[remote] impl` names. If it has
    /// several, the call says which: `export::<dyn Grid>(board)`.
    ///
    /// An object in an [`Arc`](std::sync::Arc) is one that the program keeps a handle to, or that has several
    /// interfaces, each exported by itself. Its methods run while others use it, so they take
    /// `&self`:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// use egret::prelude::*;
    ///
    /// #[egret::remote]
    /// trait Reads {
    ///     fn get(&self) -> u64;
    /// }
    /// #[egret::remote]
    /// trait Adds {
    ///     fn add(&self, more: u64);
    /// }
    ///
    /// #[derive(Default)]
    /// struct Counter(AtomicU64);
    ///
    /// #[egret::remote]
    /// impl Reads for Counter {
    ///     fn get(&self) -> u64 {
    ///         self.0.load(Relaxed)
    ///     }
    /// }
    /// #[egret::remote]
    /// impl Adds for Counter {
    ///     fn add(&self, more: u64) {
    ///         self.0.fetch_add(more, Relaxed);
    ///     }
    /// }
    ///
    /// # let pool = egret::local::pool(1)?;
    /// # let node = &pool[0];
    /// let counter = Arc::new(Counter::default());
    /// let reads = node.export::<dyn Reads>(Arc::clone(&counter))?;
    /// let adds = node.export::<dyn Adds>(Arc::clone(&counter))?;
    ///
    /// let stub: AddsStub = node.stub(adds.object());
    /// stub.add(3)?;
    /// counter.add(4); // the program's own handle
    /// let stub: ReadsStub = node.stub(reads.object());
    /// assert_eq!(stub.get()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A method that takes `&mut self` needs its object for itself: such an object is exported as
    /// it is, not in an [`Arc`](std::sync::Arc). This compiles:
    ///
    /// ```
    /// # use egret::prelude::*;
    /// #[egret::remote]
    /// trait Adds {
    ///     fn add(&mut self, more: u64);
    /// }
    /// struct Counter(u64);
    /// #[egret::remote]
    /// impl Adds for Counter {
    ///     fn add(&mut self, more: u64) {
    ///         self.0 += more;
    ///     }
    /// }
    /// fn export(node: &Node, counter: Counter) {
    ///     node.export(counter).unwrap();
    /// }
    /// ```
    ///
    /// and this does not:
    ///
    /// ```compile_fail,E0277
    /// # use egret::prelude::*;
    /// #[egret::remote]
    /// trait Adds {
    ///     fn add(&mut self, more: u64);
    /// }
    /// struct Counter(u64);
    /// #[egret::remote]
    /// impl Adds for Counter {
    ///     fn add(&mut self, more: u64) {
    ///         self.0 += more;
    ///     }
    /// }
    /// fn export(node: &Node, counter: Counter) {
    ///     node.export(std::sync::Arc::new(counter)).unwrap();
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the node has no endpoint for calls, as many objects or interfaces as it can have, or no fabric that gives what
    /// the object requires.
    fn export<I: RemoteInterface + ?Sized>(
        &self,
        object: impl Exports<I>,
    ) -> Result<Exported, CallError> {
        self.export_with(object, Export::default())
    }

    /// As [`export`](Self::export), with options.
    ///
    /// # Errors
    ///
    /// If the node has no endpoint for calls, as many objects or interfaces as it can have, or no fabric that gives what
    /// the object requires.
    fn export_with<I: RemoteInterface + ?Sized>(
        &self,
        object: impl Exports<I>,
        how: Export,
    ) -> Result<Exported, CallError>;

    /// Lets others call an object as one of its interfaces, though no `#[remote] impl` names it:
    /// `export_as::<dyn Grid>(Box::new(board), how)`.
    ///
    /// # Errors
    ///
    /// If the node has no endpoint for calls, as many objects or interfaces as it can have, or no fabric that gives what
    /// the object requires.
    fn export_as<I: RemoteInterface + ?Sized>(
        &self,
        object: Box<I>,
        how: Export,
    ) -> Result<Exported, CallError>;

    /// A stub for the object that has a name; waits until there is one. A name whose object was
    /// dropped may be bound again, and is waited for as well: [`try_lookup`](Self::try_lookup) does
    /// not wait. The first call to a node connects, for all stubs of its objects.
    ///
    /// # Errors
    ///
    /// If the name is not bound within the deadline ([`NodeError::NotBound`](crate::node::NodeError::NotBound), which names the node
    /// that has withdrawn it, if one has), or something else to it. At once if the node that had the
    /// name is gone ([`NodeError::OwnerGone`](crate::node::NodeError::OwnerGone)); in an open pool at the deadline, as
    /// another node may bind the name.
    #[track_caller]
    fn lookup<S: Proxy>(&self, name: &str, deadline: impl Into<Deadline>) -> Result<S, CallError> {
        self.lookup_with(name, &Requirement::default(), deadline)
    }

    /// As [`lookup`](Self::lookup), of a stub whose calls go over a fabric that gives what is required here, besides
    /// what the object [requires](Export::require); or over the one that is preferred, if that gives all this.
    ///
    /// There is at most one connection to a node over each fabric, which all stubs share whose calls go over it. Calls
    /// of stubs that require the same enter an object in the order in which they are begun; of others they may
    /// overtake each other. If the fabric does not connect within five seconds, calls go over the next one, as with
    /// [`link`](NodeHandle::link).
    ///
    /// ```
    /// use egret::node::{Property, Requirement};
    /// use egret::prelude::*;
    ///
    /// #[egret::remote]
    /// trait Clock {
    ///     fn now(&self) -> u64;
    /// }
    /// struct Stopped;
    /// #[egret::remote]
    /// impl Clock for Stopped {
    ///     fn now(&self) -> u64 {
    ///         7
    ///     }
    /// }
    ///
    /// # let pool = egret::local::pool(2)?;
    /// # let (server, client) = (&pool[0], &pool[1]);
    /// let clock = server.export(Stopped)?;
    /// clock.bind("clock")?;
    /// let tcp = Requirement::default().prefer("tcp");
    /// let stub: ClockStub = client.lookup_with("clock", &tcp, client.deadline())?;
    /// assert_eq!(stub.now()?, 7);
    ///
    /// // What no fabric gives is an error that says what did not match, before anything is connected.
    /// let red = Requirement::from(Property::new("colour", "red"));
    /// let why = client.lookup_with::<ClockStub>("clock", &red, client.deadline()).unwrap_err();
    /// assert!(why.to_string().contains("tcp: it has no colour, and colour=red is required"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As those of [`lookup`](Self::lookup), and [`NodeError::Unsuitable`](crate::node::NodeError::Unsuitable) in
    /// [`CallError::Registry`] if no fabric gives what is required.
    #[track_caller]
    fn lookup_with<S: Proxy>(
        &self,
        name: &str,
        requirement: &Requirement,
        deadline: impl Into<Deadline>,
    ) -> Result<S, CallError>;

    /// As [`lookup`](Self::lookup), for a caller that does not wait until the name is bound: if it is not
    /// bound now, the error says so at once.
    ///
    /// ```
    /// use egret::node::NodeError;
    /// use egret::prelude::*;
    ///
    /// #[egret::remote]
    /// trait Clock {
    ///     fn now(&self) -> u64;
    /// }
    /// struct Stopped;
    /// #[egret::remote]
    /// impl Clock for Stopped {
    ///     fn now(&self) -> u64 {
    ///         7
    ///     }
    /// }
    ///
    /// # let pool = egret::local::pool(1)?;
    /// # let node = &pool[0];
    /// let clock = node.export(Stopped)?;
    /// clock.bind("clock")?;
    /// let stub: ClockStub = node.try_lookup("clock")?;
    /// assert_eq!(stub.now()?, 7);
    /// drop(clock);
    /// match node.try_lookup::<ClockStub>("clock") {
    ///     Err(CallError::Registry(NodeError::NotBound { withdrawn_by, .. })) => {
    ///         assert_eq!(withdrawn_by, Some(node.id()));
    ///     }
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As those of [`lookup`](Self::lookup), or if the registry does not answer within the node's
    /// [deadline](NodeHandle::deadline).
    #[track_caller]
    fn try_lookup<S: Proxy>(&self, name: &str) -> Result<S, CallError>;

    /// A stub for an object whose address the program has. Nothing is sent before it is called:
    /// if the object has another interface, or other methods, the call says so and does not
    /// run.
    fn stub<S: Proxy>(&self, object: &ObjectRef) -> S {
        self.stub_with(object, &Requirement::default())
    }

    /// As [`stub`](Self::stub), of a stub whose calls go over a fabric that gives what is required here besides what
    /// the object requires, as those of [`lookup_with`](Self::lookup_with). If there is none its calls end with
    /// [`CallError::Unsuitable`].
    fn stub_with<S: Proxy>(&self, object: &ObjectRef, requirement: &Requirement) -> S;

    /// Lends the calling thread to the calls of others until `done` says so, which is asked
    /// whenever one has run, or the deadline passes; whether `done` did. A node serves calls
    /// without this, too, by a thread of its own: one that has nothing else to do spares that the
    /// work, and the way there.
    ///
    /// Of a node with several fabrics the thread serves the best; the others have threads of
    /// their own.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// use std::time::Duration;
    ///
    /// use egret::prelude::*;
    ///
    /// #[egret::remote]
    /// trait Stops {
    ///     fn stop(&self);
    /// }
    /// struct Flag(Arc<AtomicBool>);
    /// #[egret::remote]
    /// impl Stops for Flag {
    ///     fn stop(&self) {
    ///         self.0.store(true, Relaxed);
    ///     }
    /// }
    ///
    /// # let pool = egret::local::pool(2)?;
    /// # let (server, client) = (&pool[0], &pool[1]);
    /// let stopped = Arc::new(AtomicBool::new(false));
    /// let exported = server.export(Flag(Arc::clone(&stopped)))?;
    /// let stub: StopsStub = client.stub(exported.object());
    /// let caller = std::thread::spawn(move || stub.stop());
    /// assert!(server.serve(Duration::from_secs(30), || stopped.load(Relaxed)));
    /// caller.join().expect("it does not panic")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn serve(&self, deadline: impl Into<Deadline>, done: impl FnMut() -> bool) -> bool;

    /// Lets so many workers run calls at the same time, instead of twice as many as there are
    /// cores and at least eight; besides them, threads that receive run what does not take long. With none at all,
    /// calls that no receiving thread runs wait until there are workers again.
    fn set_workers(&self, workers: usize);
}

impl Remoting for NodeHandle {
    fn export_with<I: RemoteInterface + ?Sized>(
        &self,
        object: impl Exports<I>,
        how: Export,
    ) -> Result<Exported, CallError> {
        Exported::new(self, object.held(), how)
    }

    fn export_as<I: RemoteInterface + ?Sized>(
        &self,
        object: Box<I>,
        how: Export,
    ) -> Result<Exported, CallError> {
        Exported::new(self, object.into(), how)
    }

    #[track_caller]
    fn lookup_with<S: Proxy>(
        &self,
        name: &str,
        requirement: &Requirement,
        deadline: impl Into<Deadline>,
    ) -> Result<S, CallError> {
        let bound = self.wait_bound(name, deadline.into())?;
        stub_of(self, name, &bound, requirement)
    }

    #[track_caller]
    fn try_lookup<S: Proxy>(&self, name: &str) -> Result<S, CallError> {
        let bound = self.try_bound(name)?;
        stub_of(self, name, &bound, &Requirement::default())
    }

    fn stub_with<S: Proxy>(&self, object: &ObjectRef, requirement: &Requirement) -> S {
        S::of(Stub::new(self, object, requirement))
    }

    fn serve(&self, deadline: impl Into<Deadline>, mut done: impl FnMut() -> bool) -> bool {
        match self.links().first() {
            Some((_, links)) => links.serve(deadline, done),
            None => done(),
        }
    }

    fn set_workers(&self, workers: usize) {
        Exchange::of(self).workers.set_busy_max(workers);
    }
}

/// Objects and calls of a node at a moment; for tests.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallsAccount {
    /// Objects that are exported.
    pub objects: usize,
    /// Calls that wait or run.
    pub calls: usize,
}

/// Counts the objects and calls of a node; for tests.
#[doc(hidden)]
#[must_use]
pub fn calls_account(node: &NodeHandle) -> CallsAccount {
    let exchange = Exchange::of(node);
    CallsAccount { objects: exchange.objects.len(), calls: exchange.objects.calls.len() }
}

/// Runs the calls that wait for a worker on the calling thread, and says whether there was one; for nodes
/// without workers, as in simulated networks and in tests.
#[doc(hidden)]
pub fn run_calls(node: &NodeHandle) -> bool {
    let exchange = Exchange::of(node);
    let mut any = false;
    while exchange.workers.run_one() {
        any = true;
    }
    any
}

/// A stub for what a name stands for.
fn stub_of<S: Proxy>(
    handle: &NodeHandle,
    name: &str,
    bound: &Binding,
    requirement: &Requirement,
) -> Result<S, CallError> {
    let object: ObjectRef = egret_stream::read(&bound.bytes)
        .map_err(|why| CallError::NoObject { name: name.to_owned(), why })?;
    let ours = S::Interface::NAME;
    if object.interface != ours {
        let (name, theirs) = (name.to_owned(), object.interface);
        return Err(CallError::NameOfOther { name, ours, theirs });
    }
    let all = object.requirement.clone().and(requirement);
    let route = if all.is_any() { Ok(()) } else { handle.route_with(object.node, &all).map(drop) };
    match route {
        Err(why @ NodeError::Unsuitable { .. }) => Err(CallError::Registry(why)),
        // An object of this node takes no fabric; of a node that is gone, or not known yet, calls say more.
        _ => Ok(handle.stub_with(&object, requirement)),
    }
}
