//! Upcalls: which thread runs them, one after the other.
//!
//! A message is put into the queue of its port by the handler that received it. If no upcall of the port runs, the thread
//! of that handler runs it, outside of the handler, if that thread may last: it is the background thread, or serves. Else
//! the background thread is called. So an upcall may wait, call, connect and send; the thread that drives receives meanwhile, and puts
//! what comes for the port into the queue, which the thread of the upcall empties.

use std::fmt;
use std::sync::Arc;

use egret_net::rt::{self, Deadline};
use egret_net::vi::caught;
use egret_stream::FromWire;

use super::fault::{Fault, planted};
use super::incoming::Incoming;
use super::receive_port::value_of;
use super::receiver::{Arrived, PortReceiver, UpcallBody};
use super::{PortEnd, PortError, SenderId};
use crate::am::Request;

/// What an upcall knows of its message beside the value.
/// [`NodeHandle::receive_port_with`](crate::node::NodeHandle::receive_port_with) has an example.
pub struct PortUpcall<'a> {
    arrived: &'a mut Arrived,
}

impl PortUpcall<'_> {
    /// Who sent the message.
    #[must_use]
    pub const fn origin(&self) -> SenderId {
        self.arrived.sender
    }

    /// The number of the message, as [`Incoming::sequence`] has it.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.arrived.sequence
    }

    /// Lets the next upcall of the port begin, on another thread, while this one goes on.
    pub fn finish(&mut self) {
        self.arrived.finish_upcall();
    }
}

/// Calls `upcall` with each value.
pub(super) fn with_values<T: for<'a> FromWire<'a>>(
    upcall: impl Fn(T, &mut PortUpcall<'_>) + Send + Sync + 'static,
) -> UpcallBody {
    Box::new(move |arrived| match value_of::<T>(arrived, Deadline::UntilDead) {
        Ok(received) => upcall(received.value, &mut PortUpcall { arrived }),
        Err(why) => arrived.not_received(&why),
    })
}

/// Calls `upcall` with each message while it arrives.
pub(super) fn with_messages(
    upcall: impl Fn(&mut Incoming<'_>) + Send + Sync + 'static,
) -> UpcallBody {
    Box::new(move |arrived| {
        let why = match Incoming::begin(arrived, Deadline::UntilDead) {
            Ok(mut message) => {
                upcall(&mut message);
                return;
            }
            Err(why) => why,
        };
        arrived.not_received(&why);
    })
}

impl Arrived {
    /// A message was not received: the next are, unless their sender writes what cannot be read.
    fn not_received(&mut self, why: &PortError) {
        if let PortError::Unreadable { .. } = why {
            self.end(PortEnd::Violation { what: why.to_string() }, true);
        }
    }
}

impl PortReceiver {
    /// Has a thread run upcalls. One of them was begun.
    pub(super) fn dispatch(self: &Arc<Self>, links: usize, request: Option<&mut Request<'_>>) {
        if let Some(request) = request.filter(|request| request.may_last()) {
            return request.outside(|_| self.serve(links));
        }
        if !rt::has_background() {
            return self.serve(links);
        }
        let turn = UpcallTurn(Some((Arc::clone(self), links)));
        let core = &self.node.links()[links].1.core;
        core.crew.leave_errand(move || turn.run());
        core.call_background();
    }

    /// Runs upcalls until no message waits.
    fn serve(self: &Arc<Self>, links: usize) {
        let Some(body) = &self.upcalls else { return };
        for _ in 0..IN_A_ROW {
            let Some(mut arrived) = self.next_of_upcall() else { return };
            if arrived.is_noted() {
                continue;
            }
            if let Err(message) = caught(|| body(&mut arrived)) {
                self.upcall_panicked(arrived.connection(), message);
                if planted(Fault::PanicCounts) {
                    return;
                }
            }
            if arrived.is_over() && !self.begins_again() {
                return;
            }
        }
        // A thread that is lent has something of its own to look after.
        self.dispatch(links, None);
    }
}

/// The right to run an upcall, on its way to another thread.
struct UpcallTurn(Option<(Arc<PortReceiver>, usize)>);

impl UpcallTurn {
    fn run(mut self) {
        if let Some((receiver, links)) = self.0.take() {
            receiver.serve(links);
        }
    }
}

impl Drop for UpcallTurn {
    fn drop(&mut self) {
        // No thread runs it: the next message begins another.
        if let Some((receiver, _)) = self.0.take() {
            receiver.upcall_dropped();
        }
    }
}

impl fmt::Debug for PortUpcall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortUpcall").field("origin", &self.origin()).finish_non_exhaustive()
    }
}

/// Upcalls that a thread runs before another thread goes on.
const IN_A_ROW: u32 = 64;
