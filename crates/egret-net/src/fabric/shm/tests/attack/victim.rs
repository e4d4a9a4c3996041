//! The side that is attacked: an ordinary program.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::super::conformance::nic;
use super::super::meet;
use super::super::program::Program;
use super::start;
use crate::buf::Pool;
use crate::rt::{self, Deadline};
use crate::vi::{
    Access, Address, Descriptor, Exposed, Listener, Nic, Reliability, RemoteKey, Vi, ViOptions,
    Wait,
};

const SMALL: usize = 64;
const LARGE: usize = 40_000;
const COUNT: usize = 64;
/// Guests at a time.
const GUESTS_MAX: usize = 6;
const IDLE: usize = 9;
const LONG: Deadline = Deadline::In(Duration::from_secs(10));

/// A nic with an honest connection, which takes in whoever comes.
pub(super) struct Victim {
    nic: Nic,
    listeners: Vec<Listener>,
    pools: [Pool; 2],
    exposed: [Exposed; 2],
    guests: Vec<Vi>,
    honest: Vi,
    trips: u64,
    received: u64,
    ended: BTreeMap<String, u64>,
    /// So many more that the nic has idle connections rest.
    _idle: Vec<(Vi, Vi)>,
    _echo: Program,
}

/// What the process holds.
#[derive(Debug, PartialEq)]
pub(super) struct Footprint {
    pub descriptors: usize,
    pub mappings: usize,
    pub threads: usize,
    pub resident_kib: u64,
}

/// The honest peer: sends back what it gets until the other side is gone.
pub(super) fn echo(host: &str, own: &str) {
    let nic = nic(own, Wait::Balanced);
    let options = ViOptions::default();
    let vi = nic.wait_connect(&Address::new(host, "honest", 0), &options, LONG).unwrap();
    let pool = Pool::new(SMALL, 2).unwrap();
    vi.post_recv(Descriptor::new(pool.take(SMALL).unwrap())).unwrap();
    while let Ok(got) = vi.recv_queue().wait(LONG).unwrap().ok() {
        if vi.post_send(Descriptor::new(got.into_buf())).is_err() {
            return;
        }
        let Ok(sent) = vi.send_queue().wait(LONG).unwrap().ok() else { return };
        let mut buf = sent.into_buf();
        buf.resize(SMALL);
        if vi.post_recv(Descriptor::new(buf)).is_err() {
            return;
        }
    }
}

/// Connections to a nic by which nothing comes.
fn idle(to: &Nic, own: &str) -> Vec<(Vi, Vi)> {
    let (nic, options) = (nic(own, Wait::Balanced), ViOptions::default());
    let listener = to.listen("idle", 0, &options).unwrap();
    let connect = |_| {
        let connecting = nic.connect(&Address::new(to.host(), "idle", 0), &options, LONG);
        meet(&listener, connecting)
    };
    (0..IDLE).map(connect).collect()
}

impl Victim {
    pub(super) fn new() -> Self {
        let unique = rt::random();
        let nic = nic(&format!("victim-{unique}"), Wait::Balanced);
        let listener = nic.listen("honest", 0, &ViOptions::default()).unwrap();
        let echo = start("echo", nic.host(), &format!("honest-{unique}"), 0);
        let honest = listener.wait_accept(LONG).unwrap();
        let idle = idle(&nic, &format!("idle-{unique}"));
        let cut = || Pool::builder().class(SMALL, COUNT).class(LARGE, COUNT);
        let pools = [cut().shareable().build().unwrap(), cut().build().unwrap()];
        let exposed = [Access::READ, Access::READ_WRITE]
            .map(|access| nic.expose(pools[1].take(SMALL).unwrap(), access).unwrap());
        let levels = (0..3).map(|level| Reliability::from_wire(level).unwrap());
        let listeners = levels.map(|level| nic.listen("open", level as u64, &ViOptions::of(level)));
        Self {
            listeners: listeners.map(Result::unwrap).collect(),
            nic,
            pools,
            exposed,
            guests: Vec::new(),
            honest,
            trips: 0,
            received: 0,
            ended: BTreeMap::new(),
            _idle: idle,
            _echo: echo,
        }
    }

    /// Has the hostile program do its worst, and goes on with its own work.
    pub(super) fn endure(&mut self, attack: &str, seed: u64) {
        (self.trips, self.received) = (0, 0);
        self.ended.clear();
        let mut program = start(attack, self.nic.host(), "hostile", seed);
        let until = rt::now() + Duration::from_secs(30);
        let status = loop {
            self.round_trip();
            self.serve();
            if let Some(status) = program.ended() {
                break status;
            }
            assert!(rt::now() < until, "{attack}: the attack does not end");
        };
        assert!(status.success(), "{attack}: the hostile program says what is wrong, seed {seed}");
        assert!(self.trips > 1, "{attack}: {} round trips", self.trips);
        self.part();
        for (pool, lent) in self.pools.iter().zip([0, 2]) {
            assert_eq!(pool.available(SMALL), COUNT - lent, "{attack}: small buffers");
            assert_eq!(pool.available(LARGE), COUNT, "{attack}: large buffers");
        }
    }

    /// What came of the last attack.
    pub(super) fn report(&self) -> String {
        format!("{} trips, {} received, {:?}", self.trips, self.received, self.ended)
    }

    /// The honest connection goes on.
    fn round_trip(&mut self) {
        let mut buf = self.pools[0].take(SMALL).unwrap();
        buf.bytes_mut().fill(7);
        let room = self.pools[1].take(SMALL).unwrap();
        self.honest.post_recv(Descriptor::new(room)).unwrap();
        self.honest.post_send(Descriptor::new(buf)).unwrap();
        self.honest.send_queue().wait(LONG).unwrap().done().unwrap();
        let got = self.honest.recv_queue().wait(LONG).unwrap().ok().unwrap();
        assert_eq!(got.into_buf().bytes(), [7; SMALL]);
        self.trips += 1;
    }

    /// Takes guests in, deals with what they send, and forgets those that are over.
    fn serve(&mut self) {
        for at in 0..self.listeners.len() {
            if self.guests.len() < GUESTS_MAX
                && let Some(guest) = self.listeners[at].poll_accept().unwrap()
            {
                self.welcome(&guest);
                self.guests.push(guest);
            }
        }
        let guests = std::mem::take(&mut self.guests);
        for guest in guests {
            while let Some(got) = guest.recv_queue().poll() {
                self.received += u64::from(got.status.is_ok());
                drop(got);
                self.receive(&guest);
            }
            while guest.send_queue().poll().is_some() {
                self.send(&guest);
            }
            match guest.error() {
                Some(why) => *self.ended.entry(why.to_string()).or_default() += 1,
                None => self.guests.push(guest),
            }
        }
    }

    /// Everybody is told the keys, and given something to answer. A guest that
    /// is over already takes nothing, and says so when it is served.
    fn welcome(&self, guest: &Vi) {
        for exposed in &self.exposed {
            let key = exposed.key().to_bytes().to_vec();
            let _ = guest.post_send(Descriptor::new(key));
        }
        for _ in 0..4 {
            self.receive(guest);
            self.send(guest);
        }
        let bogus = RemoteKey::from_bytes(&[9; RemoteKey::BYTES]).at(0);
        let [small, large] = [SMALL, LARGE].map(|len| self.pools[0].take(len).unwrap());
        let _ = guest.post_read(Descriptor::new(small), bogus);
        let _ = guest.post_write_notify(Descriptor::new(large), bogus);
    }

    fn receive(&self, guest: &Vi) {
        let of = usize::from(self.received.is_multiple_of(2));
        let len = if self.received.is_multiple_of(3) { LARGE } else { SMALL };
        let descriptor = match self.received % 5 {
            0 => Descriptor::fresh(LARGE as u64),
            _ => Descriptor::new(self.pools[of].take(len).unwrap()),
        };
        let _ = guest.post_recv(descriptor);
    }

    fn send(&self, guest: &Vi) {
        let len = if self.trips.is_multiple_of(2) { LARGE } else { SMALL };
        let of = usize::from(self.trips.is_multiple_of(3));
        if let Ok(buf) = self.pools[of].take(len) {
            let _ = guest.post_send(Descriptor::new(buf));
        }
    }

    /// Everybody goes.
    fn part(&mut self) {
        for listener in &self.listeners {
            while let Some(guest) = listener.poll_accept().unwrap() {
                drop(guest);
            }
        }
        for guest in self.guests.drain(..) {
            let queues = [guest.recv_queue().clone(), guest.send_queue().clone()];
            drop(guest);
            for queue in queues {
                while queue.poll().is_some() {}
                assert_eq!(queue.outstanding(), 0, "everything has completed");
            }
        }
    }

    pub(super) fn footprint(&self) -> Footprint {
        let count = |folder| fs::read_dir(folder).unwrap().count();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Footprint {
            descriptors: count("/proc/self/fd"),
            mappings: maps.lines().filter(|line| line.contains("memfd:")).count(),
            threads: count("/proc/self/task"),
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }

    /// What stays the same for longer than a caller without a handshake may stay, which is a second.
    pub(super) fn lasting_footprint(&mut self) -> Footprint {
        let (mut lasting, mut since) = (self.footprint(), rt::now());
        while rt::now() - since < Duration::from_millis(1500) {
            let now = self.settled_footprint(&lasting);
            if (now.descriptors, now.mappings, now.threads)
                != (lasting.descriptors, lasting.mappings, lasting.threads)
            {
                (lasting, since) = (now, rt::now());
            }
            rt::sleep(Duration::from_millis(10));
        }
        lasting
    }

    /// A caller without a handshake is sent away after a second.
    pub(super) fn settled_footprint(&mut self, before: &Footprint) -> Footprint {
        let until = rt::now() + Duration::from_secs(5);
        loop {
            self.round_trip();
            self.part();
            let now = self.footprint();
            let is_settled = (now.descriptors, now.mappings, now.threads)
                == (before.descriptors, before.mappings, before.threads);
            if is_settled || rt::now() >= until {
                return now;
            }
        }
    }
}
