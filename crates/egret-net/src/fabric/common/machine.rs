//! The methods of a machine that are the same on every fabric of real processes.

/// Writes the methods of [`Machine`](crate::fabric::Machine) that name, listen, accept, and look
/// after the connection of a handle. `$key` makes of its number how the driver numbers its links.
/// The driver has what is `fixed`, `listeners`, `links`, and of its own:
///
/// | method | what it does |
/// |---|---|
/// | `admit` | makes a connection with a connection request, if what that brings can be used |
/// | `begin` | begins to connect |
/// | `end` | ends a connection, if it is open |
/// | `forget` | drops one that is over and has no handle any more |
macro_rules! same_methods {
    ($key:path) => {
        fn host(&self) -> &str {
            &self.fixed.host
        }

        fn key(&self) -> Option<$crate::vi::PublicKey> {
            Some(self.fixed.key())
        }

        fn limits(&self) -> Limits {
            super::nic::limits()
        }

        fn keys(&self) -> &Arc<Keys> {
            &self.fixed.keys
        }

        fn listen(&mut self, name: &ListenerName, level: Reliability) -> Result<(), OpenError> {
            self.listeners.open(name, level)
        }

        fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
            self.listeners.close(name, after);
        }

        fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
            self.listeners.wake_on_arrival(name, waker)
        }

        fn accept(
            &mut self,
            name: &ListenerName,
            spec: ViSpec,
            _after: &mut After,
        ) -> Result<Option<NewConnection>, OpenError> {
            while let Some(visitor) = self.listeners.next(name)? {
                let made = self.admit(visitor, spec);
                if made.is_some() {
                    return Ok(made);
                }
            }
            Ok(None)
        }

        fn connect(&mut self, request: ConnectRequest, after: &mut After) {
            if !self.listeners.is_up() {
                return after.settle(request.promise, Err(ConnectError::NicDown));
            }
            self.begin(request, after);
        }

        fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
            self.links.of_handle($key(conn.0)).cancel(ticket, &mut after.notices)
        }

        fn close(&mut self, conn: ConnId, after: &mut After) {
            self.end($key(conn.0), &ViError::Closed, after);
        }

        fn release(&mut self, conn: ConnId, after: &mut After) {
            self.close(conn, after);
            self.forget($key(conn.0));
        }

        fn error(&self, conn: ConnId) -> Option<ViError> {
            self.links.find($key(conn.0)).end.error()
        }

        fn counters(&self, conn: ConnId) -> Counters {
            self.links.find($key(conn.0)).end.counters()
        }

        fn descriptor(&self) -> Option<MachineFd> {
            Some(MachineFd::Set(Arc::clone(&self.fixed.set)))
        }
    };
}

/// What the methods of a machine are written with.
pub(in crate::fabric) mod prelude {
    pub(in crate::fabric) use std::sync::Arc;
    pub(in crate::fabric) use std::task::Waker;

    pub(in crate::fabric) use super::same_methods;
    pub(in crate::fabric) use crate::fabric::{
        After, ConnId, ConnectRequest, Drained, ListenerName, Machine, MachineFd, NewConnection,
        Unposted, ViSpec, Woken,
    };
    pub(in crate::fabric) use crate::rt::Instant;
    pub(in crate::fabric) use crate::vi::{
        ConnectError, Counters, DrainId, Keys, Lane, Limits, OpenError, Position, PostError,
        Posted, Reliability, Sink, Ticket, ViError,
    };
}

pub(in crate::fabric) use same_methods;
