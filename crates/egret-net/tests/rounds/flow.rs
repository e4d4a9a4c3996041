//! What flows: messages in the slot, out of a region and by the bounce area,
//! remote reads and writes, all of random sizes, both ways.

use std::fs;

use egret_net::buf::{Buf, Pool};
use egret_net::fabric::Fabrics;
use egret_net::rt::{self, Deadline, GivenBack, Instant, SplitMix64};
use egret_net::vi::{
    Access, Completion, Descriptor, Exposed, Nic, NicOptions, OpKind, PostError, RemoteKey, Vi,
    ViError,
};

const SMALL: usize = 64;
const LARGE: usize = 40_000;
const COUNT: usize = 64;
const AT_ONCE: usize = 6;
/// The tag of the message with the keys.
const KEYS: u64 = u64::MAX;
/// The pattern of the memory that peers may read.
const READABLE: u64 = 77;

/// What one side has for all its connections.
pub(crate) struct Side {
    pub(crate) nic: Nic,
    /// One that peers can read, one that they cannot.
    pools: [Pool; 2],
    readable: Exposed,
    writable: Exposed,
}

/// One end of a connection, kept busy.
pub(crate) struct Flow {
    pub(crate) vi: Vi,
    rng: SplitMix64,
    /// The peer's keys, once they are here: readable, writable.
    keys: Option<[RemoteKey; 2]>,
}

impl Side {
    pub(crate) fn new(fabric: &str, host: &str) -> Self {
        let options = NicOptions::new(host).secret(super::SECRET.into());
        let nic = Fabrics::default().open(fabric, options).unwrap();
        let cut = || Pool::builder().class(SMALL, COUNT).class(LARGE, COUNT);
        let pools = [cut().shareable().build().unwrap(), cut().build().unwrap()];
        let [mut known, any] = [(); 2].map(|()| pools[1].take(LARGE).unwrap());
        fill(known.bytes_mut(), READABLE);
        let readable = nic.expose(known, Access::READ).unwrap();
        let writable = nic.expose(any, Access::WRITE).unwrap();
        Self { nic, pools, readable, writable }
    }

    /// Nothing is lent but the memory of the keys.
    pub(crate) fn assert_all_back(&self) {
        let available = |pool: &Pool| [SMALL, LARGE].map(|len| pool.available(len));
        assert_eq!(available(&self.pools[0]), [COUNT, COUNT], "shareable buffers");
        assert_eq!(available(&self.pools[1]), [COUNT, COUNT - 2], "private buffers");
    }
}

impl Flow {
    pub(crate) fn new(vi: Vi, side: &Side, seed: u64) -> Self {
        let keys = [side.readable.key(), side.writable.key()].map(RemoteKey::to_bytes);
        let keys = Descriptor::new(keys.as_flattened().to_vec()).with_tag(KEYS);
        // Refused only if the peer is gone already, which the next turn finds.
        drop(vi.post_send(keys));
        Self { vi, rng: SplitMix64(seed), keys: None }
    }

    /// Takes what is done and posts as much again. How many were done.
    pub(crate) fn turn(&mut self, side: &Side) -> Result<usize, ViError> {
        let mut done = 0;
        while let Some(back) = self.vi.recv_queue().poll().or_else(|| self.vi.send_queue().poll()) {
            self.check(back.ok()?);
            done += 1;
        }
        while self.vi.recv_queue().outstanding() < AT_ONCE {
            let pool = &side.pools[self.rng.below(2)];
            self.vi.post_recv(Descriptor::new(pool.take(LARGE).unwrap())).map_err(reason)?;
        }
        while self.vi.send_queue().outstanding() < AT_ONCE {
            self.send(side).map_err(reason)?;
        }
        Ok(done)
    }

    /// Posts a message, a remote read or a remote write.
    fn send(&mut self, side: &Side) -> Result<(), GivenBack<Descriptor, PostError>> {
        let tag = self.rng.next() >> 1;
        let len = match self.rng.below(8) {
            0..4 => self.rng.below(33),
            4..7 => self.rng.below(3000),
            _ => self.rng.below(LARGE + 1),
        };
        let mut buf = side.pools[self.rng.below(2)].take(len).unwrap();
        fill(buf.bytes_mut(), tag);
        let descriptor = Descriptor::new(buf).with_tag(tag);
        let offset = self.rng.below(LARGE - len + 1) as u64;
        let ticket = match (self.rng.below(8), self.keys) {
            (0, Some([readable, _])) => {
                // Where it is read from shows in its tag.
                let descriptor = descriptor.with_tag(offset);
                self.vi.post_read(descriptor, readable.at(offset))
            }
            (1, Some([_, writable])) => self.vi.post_write(descriptor, writable.at(offset)),
            (2, Some([_, writable])) => self.vi.post_write_notify(descriptor, writable.at(offset)),
            _ => self.vi.post_send(descriptor),
        };
        ticket.map(drop)
    }

    /// Whatever arrived is what was sent.
    fn check(&mut self, back: Completion) {
        let (op, tag) = (back.op, back.tag);
        if op == OpKind::Recv && tag == KEYS {
            let buf = back.into_buf();
            let keys = buf.bytes().as_chunks().0;
            self.keys = Some([keys[0], keys[1]].map(|key| RemoteKey::from_bytes(&key)));
        } else if op == OpKind::Recv {
            assert_pattern(&back.into_buf(), tag, 0);
        } else if op == OpKind::Read {
            assert_pattern(&back.into_buf(), READABLE, tag);
        }
    }

    /// Everything comes back, with one reason, which is the connection's.
    pub(crate) fn end(&mut self, side: &Side, until: Instant) -> ViError {
        let queues = [self.vi.recv_queue().clone(), self.vi.send_queue().clone()];
        let mut errors = Vec::new();
        for queue in queues {
            while queue.outstanding() > 0 {
                let back = queue.wait(Deadline::In(until.since(rt::now()))).unwrap();
                errors.extend(self.check_last(back));
            }
            while let Some(back) = queue.poll() {
                errors.extend(self.check_last(back));
            }
        }
        loop {
            let seen = side.nic.poll();
            if let Some(why) = self.vi.error() {
                assert!(errors.iter().all(|error| *error == why), "{errors:?} after {why:?}");
                return why;
            }
            assert!(rt::now() < until, "it is not known that the peer is gone");
            side.nic.wait(seen, Some(until));
        }
    }

    /// What was done before the end still counts; of the others, the error.
    fn check_last(&mut self, back: Completion) -> Option<ViError> {
        match back.status.clone() {
            Ok(()) => {
                self.check(back);
                None
            }
            Err(why) => Some(why),
        }
    }
}

fn reason(error: GivenBack<Descriptor, PostError>) -> ViError {
    match error.why {
        PostError::Broken(why) => why,
        other => panic!("{other}"),
    }
}

pub(crate) fn fill(bytes: &mut [u8], seed: u64) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = pattern(seed, at as u64);
    }
}

fn assert_pattern(buf: &Buf, seed: u64, from: u64) {
    let right = (from..).zip(buf.bytes()).all(|(at, byte)| *byte == pattern(seed, at));
    assert!(right, "{} bytes that were not sent", buf.len());
}

pub(crate) const fn pattern(seed: u64, at: u64) -> u8 {
    (seed ^ at ^ (at >> 8)).to_le_bytes()[0]
}

/// What a process holds.
#[derive(Debug, PartialEq)]
pub(crate) struct Footprint {
    descriptors: usize,
    mappings: usize,
    threads: usize,
}

impl Footprint {
    pub(crate) fn now() -> Self {
        let count = |folder| fs::read_dir(folder).unwrap().count();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        Self {
            descriptors: count("/proc/self/fd"),
            mappings: maps.lines().filter(|line| line.contains("memfd:")).count(),
            threads: count("/proc/self/task"),
        }
    }

    pub(crate) const fn with_descriptors(&self, more: usize) -> Self {
        let (mappings, threads) = (self.mappings, self.threads);
        Self { descriptors: self.descriptors + more, mappings, threads }
    }
}
