//! The conformance suite: what every fabric must do, tested once.
//!
//! A [`Case`] is one script for two sides, a caller and an answerer, written
//! against the public interface and tied to no runtime. [`run`] drives the
//! sides it is given: both of them on one thread, as in the simulator, or one
//! in each of two processes. What goes wrong is a [`Failure`], not a panic.
//!
//! After the script of a side has ended the suite itself checks that all its
//! buffers are back in their pools, that nothing is outstanding on its
//! completion queues, and that its nic has nothing registered.
//!
//! ```
//! use egret_net::conformance::{Party, Profile, Role, cases, meeting, run};
//! use egret_net::fabric::sim::Sim;
//!
//! let sim = Sim::new(1);
//! let profile = Profile { messages: 50, largest: 65_536, ..Profile::default() };
//! let limits = sim.nic("probe").limits();
//! for case in cases(&limits, &profile) {
//!     let (here, there) = meeting();
//!     let fabric = (*sim).clone();
//!     let caller = Party::new(sim.nic("caller"), "answerer", Role::Caller, here)
//!         .with_kill(move || fabric.crash("answerer"));
//!     let answerer = Party::new(sim.nic("answerer"), "caller", Role::Answerer, there);
//!     run(&case, &profile, vec![caller, answerer])?;
//! }
//! # Ok::<(), egret_net::conformance::Failure>(())
//! ```

mod access;
mod case;
mod check;
mod connect;
mod death;
mod drive;
mod eager;
mod gather;
mod hand_over;
mod landing;
mod lanes;
mod levels;
mod meeting;
mod messages;
mod party;
mod pattern;
mod pressure;
mod queues;
mod remote;
mod side;
mod slices;
mod teardown;
#[cfg(test)]
mod tests;
mod unreliable;

pub use case::{Case, Profile, cases};
pub use check::Failure;
pub use drive::{run, run_all, run_on_threads};
pub use meeting::{Meeting, meeting, meeting_of_threads, meeting_over};
pub use party::{Party, Role};
