//! Safe, zero-copy communication for parallel and distributed programs: what a program imports.
//!
//! # Models
//!
//! What programs are written with. Each module's page has a program.
//!
//! | module | what it has |
//! |---|---|
//! | [`rmi`] | remote calls: a trait with [`#[remote]`](remote), objects, stubs |
//! | [`graph`] | objects that refer to each other, sent from rank to rank as memory |
//! | [`wire`] | values as streams of bytes: `#[derive(Wire)]` |
//! | [`node`] | members of a pool, their registry, their settings |
//! | [`topology`] | where nodes are, and trees that follow it |
//! | [`local`] | the nodes of a pool in one process: for tests and examples |
//! | [`sim`] | a network in one process, with virtual time and a seed |
//!
//! # Layers
//!
//! What the models are built of. Each layer can be used by itself, and depends only on those below it.
//!
//! ```text
//!   rmi      graph          remote calls; graphs by rank
//!   node                    members, names, the fabric between two members
//!   am       channel        requests and answers; streams of messages
//!   link                    everything between two nodes over one fabric
//!   vi       wire           connections and posted buffers; values as bytes
//!   buf      fabric         memory with owners; shared memory, tcp, udp, the simulator
//!   rt                      clocks, deadlines and threads, real or simulated
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`am`] | active messages: small requests that a handler answers at once |
//! | [`channel`] | messages of any length in one direction, from node to node |
//! | [`link`] | the links of a node with others, below active messages and channels |
//! | [`vi`] | the virtual interface: nics, connections, descriptors, completions, remote memory |
//! | [`buf`] | memory that is mapped once and handed out as buffers with owners |
//! | [`fabric`] | what carries messages: shared memory, tcp, udp; fabrics of your own |
//! | [`rt`] | clocks, deadlines and threads, real or simulated |
//!
//! # A program
//!
//! A program that makes remote calls imports the [`prelude`]; [`rmi`] has an example. Under
//! `egret run` each process begins like this, and finds the others by their ranks and names:
//!
//! ```no_run
//! use egret::prelude::*;
//!
//! let node = Node::join(Config::from_env()?)?;
//! println!("{} of {}", node.rank(), node.size());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The guide is in `docs/guide` of the repository, `docs/index.md` lists all pages.
#![forbid(unsafe_code)]

// The code that the macros write names the crate.
#[cfg(any(test, feature = "fuzzing"))]
extern crate self as egret;

pub mod graph;
pub mod rmi;

/// `#[remote]`; [`rmi`] has an example.
pub use egret_derive::remote;
pub use egret_net::{fabric, rt, vi};
pub use egret_node::am::{self, blocking};
pub use egret_node::{channel, local, port, topology};

/// Members of a pool, their [registry](node::registry) and their [settings](node::settings).
///
/// ```
/// // Under `egret run` each process says `Node::join(Config::from_env()?)?`; here two are in one.
/// let pool = egret::local::pool(2)?;
/// let (a, b) = (&pool[0], &pool[1]);
///
/// // Names, which others look up.
/// b.bind("greeting", b"hello")?;
/// let found = a.wait_bound("greeting", a.deadline())?;
/// assert_eq!((found.owner, &found.bytes[..]), (b.id(), &b"hello"[..]));
///
/// // The best fabric that both have leads there.
/// println!("{}", a.explain(b.id()).unwrap()); // rank 1: shm, because both are on one machine; …
///
/// // Who comes and goes is seen by all, in one order.
/// let event = a.events().wait_next(a.deadline())?;
/// assert!(matches!(event, egret::node::Event::Joined(_)), "{event:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// By hand, on several machines, one process opens a [`Registry`](node::registry::Registry) first.
pub mod node {
    pub use egret_node::node::*;
    pub use egret_node::{registry, settings};
}

/// The links of a node with others: what active messages and channels are built on.
/// [`Links`](link::Links) has an example.
pub mod link {
    pub use egret_node::link::*;
    pub use egret_node::{Alarm, Links, LinksOptions, PATH_MAX, Path};
}

/// Values as streams of bytes, and in place: `#[derive(Wire)]`.
///
/// ```
/// use egret::wire::{Reader, Wire, Writer};
///
/// #[derive(Debug, PartialEq, Wire)]
/// struct Order {
///     item: String,
///     prices: Vec<f64>,
/// }
///
/// let order = Order { item: "tea".into(), prices: vec![1.5, 2.0] };
/// let mut writer = Writer::new();
/// writer.write(&order)?;
/// let message = writer.to_vec();
/// assert_eq!(Reader::new(&message).read::<Order>()?, order);
/// // The same bytes, read where they lie.
/// let (item, prices): (&str, &[f64]) = Reader::new(&message).read()?;
/// assert_eq!((item, prices), ("tea", &[1.5, 2.0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod wire {
    /// `#[derive(Wire)]`; the [module](self) has an example.
    pub use egret_derive::EgretWire as Wire;
    pub use egret_stream::__private::WireTrait as Wire;
    pub use egret_stream::{
        Boxed, Bulk, Cause, Describe, Dynamic, FromWire, IN_PLACE_BYTES, InPlace, Invalid,
        KeptBuffer, MEMORY_BYTES, MEMORY_FACTOR, Names, Page, PlanCursor, ReadPlan, Reader,
        STACK_BYTES, Schema, Serde, ShortReader, ShortWriter, Span, Stop, WireContext, WireError,
        WireSize, Writer, Written, canonical, dynamic, fingerprint, read, serde, write,
    };
    pub use egret_stream::{entry, register};
}

/// Memory that is mapped once, cut into pools, and handed out as buffers whose type is their state.
///
/// ```
/// let pool = egret::buf::Pool::new(4096, 8)?; // eight buffers of 4 KiB
/// let mut row = pool.take_typed::<f64>(100)?;
/// row[0] = 1.0;
/// drop(row); // back in the pool
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod buf {
    /// `#[derive(Plain)]`; the [trait](trait@Plain) has an example.
    pub use egret_derive::EgretPlain as Plain;
    pub use egret_net::buf::*;
}

/// A network in one process, with virtual time and a seed: the fabric `sim`.
///
/// ```
/// use egret::rt::Deadline;
/// use egret::sim::Sim;
/// use egret::vi::{Address, ViOptions};
///
/// let sim = Sim::new(1); // the seed decides what is lost, late and doubled
/// let (a, b) = (sim.nic("a"), sim.nic("b"));
/// let listener = b.listen("echo", 0, &ViOptions::default())?;
/// let connecting = a.connect(&Address::new("b", "echo", 0), &ViOptions::default(), Deadline::DEFAULT);
/// let (there, here) = (listener.wait_accept(Deadline::DEFAULT)?, a.block_on(connecting)?);
/// # let _ = (there, here);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`cluster`](sim::cluster) runs ordinary programs as the nodes of a pool in such a world: a cluster in a unit test.
pub mod sim {
    pub use egret_net::fabric::sim::*;
    pub use egret_node::cluster::{Cluster, ClusterRun, cluster};
}

/// What programs that make remote calls, send messages by ports or send graphs import. [`rmi`], [`port`] and [`graph`] have examples.
pub mod prelude {
    pub use egret_net::rt::Deadline;
    pub use egret_node::node::{Config, Node};
    pub use egret_node::port::{PortError, PortType, ReceivePort, SendPort};

    pub use crate::graph::{ANY, Graph, Graphs, Object, Ref, Slice, Text};
    pub use crate::remote;
    pub use crate::rmi::{CallError, Export, Exported, Pending, Remoting};
    pub use crate::wire::Wire;
}

/// What the code written by the macros refers to. Not for use.
#[doc(hidden)]
pub mod __private {
    pub use egret_net as net;
    pub use egret_stream as stream;
}

/// Runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Runs the programs of the guide.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/first-program.md")]
    struct FirstProgram;
    #[doc = include_str!("../../../docs/guide/calls.md")]
    struct CallsGuide;
    #[doc = include_str!("../../../docs/guide/messages.md")]
    struct MessagesGuide;
    #[doc = include_str!("../../../docs/guide/memory-and-copies.md")]
    struct MemoryAndCopies;
    #[doc = include_str!("../../../docs/guide/graphs.md")]
    struct GraphsGuide;
    #[doc = include_str!("../../../docs/guide/waiting.md")]
    struct WaitingGuide;
    #[doc = include_str!("../../../docs/guide/failures.md")]
    struct Failures;
    #[doc = include_str!("../../../docs/guide/cluster-in-a-test.md")]
    struct ClusterInATest;
    #[doc = include_str!("../../../docs/guide/running-jobs.md")]
    struct RunningJobs;
    #[doc = include_str!("../../../docs/guide/measuring.md")]
    struct Measuring;
    #[doc = include_str!("../../../docs/guide/recipes.md")]
    struct Recipes;
    #[doc = include_str!("../../../docs/guide/tour.md")]
    struct Tour;
}
