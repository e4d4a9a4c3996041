//! A nic of a switched fabric, with all its connections.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Waker;

use egret_net::fabric::{
    After, ConnId, ConnectRequest, ListenerName, Machine, MachineFd, NewConnection, OpenError,
    Unposted, ViSpec, Woken,
};
use egret_net::rt::Instant;
use egret_net::vi::{
    ConnectError, Counters, Keys, Limits, PostError, Posted, Reliability, Ticket, ViError,
};

use crate::attempt::Attempt;
use crate::conn::{Conn, Out};
use crate::switch::{Body, EndAt, Packet, Switch};

#[derive(Debug)]
pub(crate) struct SwitchedMachine {
    host: String,
    keys: Arc<Keys>,
    switch: Arc<Switch>,
    is_up: bool,
    ends: BTreeMap<u64, End>,
    attempts: BTreeMap<u64, Attempt>,
    listeners: BTreeMap<ListenerName, Listening>,
    last: u64,
    /// What the switch rings while the machine is armed.
    bell: UnixStream,
    descriptor: Option<Arc<OwnedFd>>,
}

#[derive(Debug)]
enum End {
    Open(Box<Conn>),
    Gone { why: ViError, counters: Counters },
}

#[derive(Debug, Default)]
struct Listening {
    backlog: VecDeque<EndAt>,
    wakers: Vec<Waker>,
}

const NIC_DOWN: ViError = ViError::PeerDied { why: "its nic went down" };

impl SwitchedMachine {
    /// A `silent` one has no descriptor.
    pub(crate) fn open(host: &str, switch: &Arc<Switch>, silent: bool) -> Result<Self, OpenError> {
        let (bell, rung) = UnixStream::pair().unwrap();
        bell.set_nonblocking(true).unwrap();
        if !switch.add(host, rung) {
            return Err(OpenError::Taken { host: host.to_owned() });
        }
        Ok(Self {
            host: host.to_owned(),
            keys: Arc::default(),
            switch: Arc::clone(switch),
            is_up: true,
            ends: BTreeMap::new(),
            attempts: BTreeMap::new(),
            listeners: BTreeMap::new(),
            last: 0,
            descriptor: (!silent).then(|| Arc::new(bell.try_clone().unwrap().into())),
            bell,
        })
    }

    fn unused(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn tell(&self, own: u64, (host, to): &EndAt, body: Body) {
        self.switch.send(host, Packet { to: *to, from: (self.host.clone(), own), body });
    }

    /// Works on an open end, and sends what comes of it. An error is the end of it.
    fn work<R>(
        &mut self,
        id: u64,
        after: &mut After,
        body: impl FnOnce(&mut Conn, &mut Out<'_>) -> Result<R, ViError>,
    ) -> Option<R> {
        let Some(End::Open(conn)) = self.ends.get_mut(&id) else { return None };
        let mut out = Out { keys: &self.keys, notices: &mut after.notices, bodies: Vec::new() };
        let result = body(conn, &mut out);
        let (bodies, peer) = (out.bodies, conn.peer.clone());
        for body in bodies {
            self.tell(id, &peer, body);
        }
        result.map_err(|why| self.end(id, &why, Some(why.clone()), after)).ok()
    }

    /// Puts an end into the error state, if it is open, and has the peer do the same.
    fn end(&mut self, id: u64, why: &ViError, told: Option<ViError>, after: &mut After) {
        let Some(End::Open(conn)) = self.ends.get_mut(&id) else { return };
        let (peer, counters) = (conn.peer.clone(), conn.counters);
        let gone = End::Gone { why: why.clone(), counters };
        if let Some(End::Open(conn)) = self.ends.insert(id, gone) {
            conn.fail(why, &mut after.notices);
        }
        if let Some(told) = told {
            self.tell(id, &peer, Body::Gone(told));
        }
        after.happened = true;
    }

    fn arrive(&mut self, Packet { to, from, body }: Packet, after: &mut After) {
        match body {
            Body::Call(name) => match self.listeners.get_mut(&name) {
                Some(Listening { backlog, wakers }) => {
                    backlog.push_back(from);
                    after.wakers.append(wakers);
                    after.happened = true;
                }
                None => self.tell(0, &from, Body::Again),
            },
            Body::GiveUp => {
                let all = self.listeners.values_mut();
                all.for_each(|listening| listening.backlog.retain(|caller| *caller != from));
            }
            Body::Accept => match self.attempts.remove(&to) {
                Some(Attempt { request, .. }) => {
                    let made = NewConnection::new(ConnId(to), &from.0);
                    self.ends.insert(to, End::Open(Box::new(Conn::new(request.spec, from))));
                    after.settle(request.promise, Ok(made));
                }
                None => self.tell(to, &from, Body::Gone(ViError::ClosedByPeer)),
            },
            Body::Again => {
                if let Some(attempt) = self.attempts.get_mut(&to) {
                    attempt.again();
                }
            }
            Body::Gone(why) => self.end(to, &why, None, after),
            body => _ = self.work(to, after, |conn, out| conn.arrive(body, out)),
        }
    }

    /// Looks at the connections that are being made.
    fn tick(&mut self, after: &mut After) {
        let now = after.now();
        for id in self.attempts.keys().copied().collect::<Vec<_>>() {
            let Some(attempt) = self.attempts.get_mut(&id) else { continue };
            let own = (self.host.clone(), id);
            let why = match attempt.request.promise.is_abandoned() {
                true => ConnectError::NicDown,
                false => match attempt.tick(&own, now, &self.switch) {
                    Ok(()) => continue,
                    Err(why) => why,
                },
            };
            attempt.give_up(&own, &self.switch);
            if let Some(Attempt { request, .. }) = self.attempts.remove(&id) {
                after.settle(request.promise, Err(why));
            }
        }
    }
}

impl Machine for SwitchedMachine {
    fn host(&self) -> &str {
        &self.host
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::least();
        limits.reliability = [false, false, true];
        limits
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    fn listen(&mut self, name: &ListenerName, reliability: Reliability) -> Result<(), OpenError> {
        if !self.is_up {
            return Err(OpenError::NicDown);
        }
        if !self.switch.listen(&self.host, name, reliability) {
            let (service, tag) = name.clone();
            return Err(OpenError::ServiceTaken { service, tag });
        }
        self.listeners.insert(name.clone(), Listening::default());
        Ok(())
    }

    fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
        self.switch.unlisten(&self.host, name);
        if let Some(Listening { backlog, mut wakers }) = self.listeners.remove(name) {
            after.wakers.append(&mut wakers);
            backlog.iter().for_each(|caller| self.tell(0, caller, Body::Again));
        }
    }

    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
        match self.listeners.get_mut(name) {
            Some(Listening { wakers, .. }) if !wakers.iter().any(|it| it.will_wake(&waker)) => {
                wakers.push(waker);
                None
            }
            _ => Some(waker),
        }
    }

    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        _after: &mut After,
    ) -> Result<Option<NewConnection>, OpenError> {
        let listening = self.listeners.get_mut(name).ok_or(OpenError::NicDown)?;
        let Some(caller) = listening.backlog.pop_front() else { return Ok(None) };
        let id = self.unused();
        self.tell(id, &caller, Body::Accept);
        let made = NewConnection::new(ConnId(id), &caller.0);
        self.ends.insert(id, End::Open(Box::new(Conn::new(spec, caller))));
        Ok(Some(made))
    }

    fn connect(&mut self, request: ConnectRequest, after: &mut After) {
        if !self.is_up {
            return after.settle(request.promise, Err(ConnectError::NicDown));
        }
        let (id, now) = (self.unused(), after.now());
        self.attempts.insert(id, Attempt::new(request, now));
        self.tick(after);
    }

    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        if let Some(why) = self.error(conn) {
            return Err(Unposted::new(PostError::Broken(why), posted));
        }
        let result = self.work(conn.0, after, |conn, out| Ok(conn.post(posted, out)));
        self.work(conn.0, after, |conn, out| conn.resume(out));
        result.unwrap_or(Ok(()))
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        let cancel = |conn: &mut Conn, out: &mut Out<'_>| {
            let is_cancelled = conn.cancel(ticket, out.notices);
            conn.resume(out)?;
            Ok(is_cancelled)
        };
        self.work(conn.0, after, cancel).unwrap_or(false)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.end(conn.0, &ViError::Closed, Some(ViError::ClosedByPeer), after);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
        self.ends.remove(&conn.0);
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        match self.ends.get(&conn.0) {
            Some(End::Gone { why, .. }) => Some(why.clone()),
            _ => None,
        }
    }

    fn counters(&self, conn: ConnId) -> Counters {
        match self.ends.get(&conn.0) {
            Some(End::Open(conn)) => conn.counters,
            Some(End::Gone { counters, .. }) => *counters,
            None => Counters::default(),
        }
    }

    fn poll(&mut self, after: &mut After) {
        for packet in self.switch.take(&self.host) {
            self.arrive(packet, after);
        }
        if !self.attempts.is_empty() {
            self.tick(after);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.attempts.values().filter_map(Attempt::deadline).min()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        self.descriptor.clone().map(MachineFd::Any)
    }

    fn arm(&mut self, after: &mut After) -> bool {
        self.switch.arm(&self.host, true);
        self.poll(after);
        false
    }

    fn disarm(&mut self, _woken: Woken<'_>, after: &mut After) {
        self.switch.arm(&self.host, false);
        while self.bell.read(&mut [0; 16]).is_ok_and(|count| count > 0) {}
        self.poll(after);
    }

    fn shut(&mut self, after: &mut After) {
        self.is_up = false;
        for name in self.listeners.keys().cloned().collect::<Vec<_>>() {
            self.unlisten(&name, after);
        }
        for id in self.ends.keys().copied().collect::<Vec<_>>() {
            self.end(id, &ViError::NicDown, Some(NIC_DOWN), after);
        }
        for (id, attempt) in std::mem::take(&mut self.attempts) {
            attempt.give_up(&(self.host.clone(), id), &self.switch);
            after.settle(attempt.request.promise, Err(ConnectError::NicDown));
        }
        self.switch.remove(&self.host);
    }
}
