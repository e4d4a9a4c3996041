//! The methods of a machine that are the same on every fabric of real processes.

/// Writes the methods of [`Machine`](crate::fabric::Machine) that name, listen, accept, and look
/// after a handle's connection. The driver has what is `fixed`, its `listeners`, and these methods
/// of its own:
///
/// | method | what it does |
/// |---|---|
/// | `admit` | makes a connection with a visitor, if what that brings can be used |
/// | `begin` | begins to connect |
/// | `link`, `find` | the connection of a handle, to change it or to look at it |
/// | `end` | ends a connection, if it is open |
/// | `forget` | drops one that is over and has no handle any more |
macro_rules! same_methods {
    () => {
        fn host(&self) -> &str {
            &self.fixed.host
        }

        fn limits(&self) -> $crate::vi::Limits {
            super::nic::limits()
        }

        fn keys(&self) -> &::std::sync::Arc<$crate::vi::Keys> {
            &self.fixed.keys
        }

        fn listen(
            &mut self,
            name: &$crate::fabric::ListenerName,
            reliability: $crate::vi::Reliability,
        ) -> Result<(), $crate::vi::ListenError> {
            self.listeners.open(name, reliability)
        }

        fn unlisten(
            &mut self,
            name: &$crate::fabric::ListenerName,
            after: &mut $crate::fabric::After,
        ) {
            self.listeners.close(name, after);
        }

        fn wake_on_arrival(
            &mut self,
            name: &$crate::fabric::ListenerName,
            waker: ::std::task::Waker,
        ) -> Option<::std::task::Waker> {
            self.listeners.wake_on_arrival(name, waker)
        }

        fn accept(
            &mut self,
            name: &$crate::fabric::ListenerName,
            spec: $crate::fabric::ViSpec,
            _after: &mut $crate::fabric::After,
        ) -> Result<Option<$crate::fabric::Made>, $crate::vi::ListenError> {
            while let Some(visitor) = self.listeners.next(name)? {
                let made = self.admit(visitor, spec);
                if made.is_some() {
                    return Ok(made);
                }
            }
            Ok(None)
        }

        fn connect(
            &mut self,
            request: $crate::fabric::ConnectRequest,
            after: &mut $crate::fabric::After,
        ) {
            if self.listeners.is_up() {
                self.begin(request, after);
            } else {
                after.settle(request.promise, Err($crate::vi::ConnectError::NicDown));
            }
        }

        fn cancel(
            &mut self,
            conn: $crate::fabric::ConnId,
            ticket: $crate::vi::Ticket,
            after: &mut $crate::fabric::After,
        ) -> bool {
            self.link(conn).cancel(ticket, &mut after.notices)
        }

        fn close(&mut self, conn: $crate::fabric::ConnId, after: &mut $crate::fabric::After) {
            self.end(conn, &$crate::vi::ViError::Closed, after);
        }

        fn release(&mut self, conn: $crate::fabric::ConnId, after: &mut $crate::fabric::After) {
            self.close(conn, after);
            self.forget(conn);
        }

        fn error(&self, conn: $crate::fabric::ConnId) -> Option<$crate::vi::ViError> {
            self.find(conn).error()
        }

        fn counters(&self, conn: $crate::fabric::ConnId) -> $crate::vi::Counters {
            self.find(conn).counters()
        }

        fn descriptor(&self) -> Option<$crate::fabric::MachineFd> {
            Some($crate::fabric::MachineFd::Set(::std::sync::Arc::clone(&self.fixed.set)))
        }
    };
}

pub(in crate::fabric) use same_methods;
