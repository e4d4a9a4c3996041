//! One end of a connection: post and arrive, without switch or clock.

use std::collections::{BTreeMap, VecDeque};

use egret_net::fabric::{Unposted, ViSpec};
use egret_net::vi::{
    AccessError, Counters, Keys, Notices, Op, PostError, Posted, RemoteSlice, Ticket, ViError,
};

use crate::switch::{Body, EndAt};

#[derive(Debug)]
pub(crate) struct Conn {
    pub peer: EndAt,
    depth: u32,
    /// Sends and writes in their order, from one that waits for a receive of the peer on.
    queued: VecDeque<Posted>,
    /// Those under way, by their number.
    away: BTreeMap<u64, Posted>,
    last: u64,
    /// Receives of the peer that nothing was sent for.
    credit: u64,
    receives: VecDeque<Posted>,
    /// Receives that the peer counts on and that were taken back: those posted next take their
    /// place.
    owed: u64,
    /// Messages and writes in their order, from one whose receive was taken back on.
    held: VecDeque<Body>,
    /// Receives of the eager class, and messages that came before them.
    eager: VecDeque<Posted>,
    early: VecDeque<(u64, Vec<u8>)>,
    pub counters: Counters,
}

/// What a call leaves: packets for the peer, and completions.
#[derive(Debug)]
pub(crate) struct Out<'a> {
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
    pub bodies: Vec<Body>,
}

const ANSWER: ViError = ViError::Protocol("an answer to what was not asked");

impl Conn {
    pub(crate) fn new(spec: ViSpec, peer: EndAt) -> Self {
        Self {
            peer,
            depth: spec.depth,
            queued: VecDeque::new(),
            away: BTreeMap::new(),
            last: 0,
            credit: 0,
            receives: VecDeque::new(),
            owed: 0,
            held: VecDeque::new(),
            eager: VecDeque::new(),
            early: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Takes a descriptor. What waited for a receive goes on with [`resume`](Self::resume).
    pub(crate) fn post(&mut self, posted: Posted, out: &mut Out<'_>) -> Result<(), Unposted> {
        let is_receive = *posted.op() == Op::Recv;
        if posted.is_eager() {
            // Apart from the others: neither class waits for the other.
            match is_receive {
                true => self.eager.push_back(posted),
                false => send_eager(posted, out),
            }
            self.place_eager(out.notices);
            return Ok(());
        }
        let outstanding =
            if is_receive { self.receives.len() } else { self.queued.len() + self.away.len() };
        if outstanding >= self.depth as usize {
            return Err(Unposted::new(PostError::Full { depth: self.depth }, posted));
        }
        match posted.op() {
            Op::Recv => {
                self.receives.push_back(posted);
                match self.owed {
                    0 => out.bodies.push(Body::Receives(1)),
                    _ => self.owed -= 1,
                }
            }
            // It needs no receive, and waits for nothing.
            Op::Read(_) => self.begin(posted, out),
            Op::Send | Op::Write { .. } => self.queued.push_back(posted),
        }
        Ok(())
    }

    /// Goes on with what waited, in either direction. An error is the end of the connection.
    pub(crate) fn resume(&mut self, out: &mut Out<'_>) -> Result<(), ViError> {
        while let Some(body) = self.held.pop_front() {
            if let Some(body) = self.take(body, out)? {
                self.held.push_front(body);
                break;
            }
        }
        while let Some(posted) = self.queued.pop_front() {
            let needs = matches!(posted.op(), Op::Send | Op::Write { notify: true, .. });
            if needs && self.credit == 0 {
                self.queued.push_front(posted);
                break;
            }
            self.credit -= u64::from(needs);
            self.begin(posted, out);
        }
        Ok(())
    }

    fn begin(&mut self, posted: Posted, out: &mut Out<'_>) {
        self.last += 1;
        let (number, descriptor) = (self.last, posted.descriptor());
        let tag = descriptor.tag();
        out.bodies.push(match *posted.op() {
            Op::Read(from) => Body::Read { number, from, len: descriptor.len() },
            Op::Write { to, notify } => {
                Body::Write { number, to, bytes: bytes(&posted), notify: notify.then_some(tag) }
            }
            Op::Send | Op::Recv => {
                let kind = descriptor.kind().cloned();
                Body::Message { number, tag, kind, bytes: bytes(&posted) }
            }
        });
        self.away.insert(number, posted);
    }

    /// Something of the peer arrived. An error is the end of the connection.
    pub(crate) fn arrive(&mut self, body: Body, out: &mut Out<'_>) -> Result<(), ViError> {
        match body {
            Body::Receives(count) => self.credit += count,
            Body::Eager { tag, bytes } => {
                self.early.push_back((tag, bytes));
                self.place_eager(out.notices);
            }
            Body::Message { .. } | Body::Write { .. } => self.held.push_back(body),
            Body::Read { number, from, len } => {
                let result = read(from, len, out.keys);
                out.bodies.push(Body::Done { number, result });
            }
            Body::Done { number, result } => {
                let posted = self.away.remove(&number).ok_or(ANSWER)?;
                self.done(posted, result, out.notices);
            }
            Body::Call(_) | Body::GiveUp | Body::Accept | Body::Again | Body::Gone(_) => {
                return Err(ViError::Protocol("a packet of another kind"));
            }
        }
        self.resume(out)
    }

    /// Takes a message or a write, or gives it back if it has to wait for a receive.
    fn take(&mut self, body: Body, out: &mut Out<'_>) -> Result<Option<Body>, ViError> {
        let (number, result) = match body {
            Body::Message { number, tag, kind, bytes } => {
                let Some(mut posted) = self.receives.pop_front() else {
                    return Ok(Some(Body::Message { number, tag, kind, bytes }));
                };
                if let Err(why) = posted.begin(bytes.len() as u64, tag, kind.as_ref()) {
                    // It fails with the connection.
                    self.receives.push_front(posted);
                    return Err(why);
                }
                posted.descriptor_mut().scatter(0, &bytes);
                self.counters.received += 1;
                posted.complete(bytes.len() as u64, tag, out.notices);
                (number, Ok(Vec::new()))
            }
            Body::Write { number, to, bytes, notify } => {
                let allowed = out.keys.check(&to, bytes.len() as u64, true);
                if notify.is_some() && allowed.is_ok() && self.receives.is_empty() {
                    return Ok(Some(Body::Write { number, to, bytes, notify }));
                }
                let result = out.keys.write(&to, &bytes).map(|()| Vec::new());
                if let (Some(tag), true) = (notify, result.is_ok())
                    && let Some(posted) = self.receives.pop_front()
                {
                    self.counters.received += 1;
                    posted.complete(0, tag, out.notices);
                }
                (number, result)
            }
            other => return Ok(Some(other)),
        };
        out.bodies.push(Body::Done { number, result });
        Ok(None)
    }

    fn done(
        &mut self,
        mut posted: Posted,
        result: Result<Vec<u8>, AccessError>,
        notices: &mut Notices,
    ) {
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(why) => {
                // A refused write consumes no receive.
                let notifies = matches!(posted.op(), Op::Write { notify: true, .. });
                self.credit += u64::from(notifies);
                return posted.fail(ViError::RemoteAccess(why), notices);
            }
        };
        match posted.op() {
            Op::Read(_) => posted.descriptor_mut().scatter(0, &bytes),
            Op::Send => self.counters.sent += 1,
            Op::Write { .. } | Op::Recv => {}
        }
        complete(posted, notices);
    }

    /// Places messages of the eager class. There are receives for all, once the connection has
    /// its handle.
    fn place_eager(&mut self, notices: &mut Notices) {
        while !self.early.is_empty()
            && let Some(mut posted) = self.eager.pop_front()
            && let Some((tag, bytes)) = self.early.pop_front()
        {
            match posted.begin(bytes.len() as u64, tag, None) {
                Ok(()) => {
                    posted.descriptor_mut().scatter(0, &bytes);
                    posted.complete(bytes.len() as u64, tag, notices);
                }
                Err(why) => posted.fail(why, notices),
            }
        }
    }

    /// Takes back what has not begun.
    pub(crate) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let is_it = |posted: &Posted| posted.ticket() == ticket;
        let receive = self.receives.iter().position(is_it);
        let taken = match receive.and_then(|at| self.receives.remove(at)) {
            Some(receive) => {
                self.owed += 1;
                Some(receive)
            }
            None => self.queued.iter().position(is_it).and_then(|at| self.queued.remove(at)),
        };
        let found = taken.is_some();
        if let Some(posted) = taken {
            posted.fail(ViError::Cancelled, notices);
        }
        found
    }

    /// Everything outstanding comes back with the reason.
    pub(crate) fn fail(self, why: &ViError, notices: &mut Notices) {
        let sends = self.away.into_values().chain(self.queued);
        for posted in sends.chain(self.receives).chain(self.eager) {
            posted.fail(why.clone(), notices);
        }
    }
}

/// Such a send is done when its bytes are on their way.
fn send_eager(posted: Posted, out: &mut Out<'_>) {
    out.bodies.push(Body::Eager { tag: posted.descriptor().tag(), bytes: bytes(&posted) });
    complete(posted, out.notices);
}

fn complete(posted: Posted, notices: &mut Notices) {
    let (len, tag) = (posted.descriptor().len(), posted.descriptor().tag());
    posted.complete(len, tag, notices);
}

fn bytes(posted: &Posted) -> Vec<u8> {
    let descriptor = posted.descriptor();
    let mut bytes = vec![0; usize::try_from(descriptor.len()).unwrap()];
    descriptor.gather(0, &mut bytes);
    bytes
}

/// Executes a read of the peer, which is checked before memory is taken for it.
fn read(from: RemoteSlice, len: u64, keys: &Keys) -> Result<Vec<u8>, AccessError> {
    keys.check(&from, len, false)?;
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    keys.read(&from, &mut bytes)?;
    Ok(bytes)
}
