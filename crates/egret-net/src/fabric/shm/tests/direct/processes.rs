//! Two real processes: this one has the memory, the other writes it, and is
//! stopped or killed in the middle of that.

use std::fs;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{LEN, LONG, pool, until};
use crate::buf::{Buf, Pool};
use crate::fabric::shm::fault::{kill_at, stop_at};
use crate::fabric::shm::tests::conformance::trusting;
use crate::fabric::shm::tests::program::{Program, part};
use crate::rt;
use crate::vi::{
    Access, AccessError, Address, Completion, Descriptor, Exposed, Nic, RemoteKey, Trust, Vi,
    ViError, ViOptions,
};

const HALF: usize = LEN / 2;

/// Not a test by itself: the process that writes.
#[test]
fn program() {
    let Some(part) = part() else { return };
    let [role, target, own, step] = part.split('|').collect::<Vec<_>>()[..] else { panic!() };
    let nic = trusting(own, Trust::Cooperating);
    let to = Address::new(target, "direct", 0);
    let vi = nic.wait_connect(&to, &ViOptions::default(), LONG).unwrap();
    assert_eq!(vi.trust(), Trust::Cooperating);
    let step: u64 = step.parse().unwrap();
    match role {
        "hammers below" => (0..step).for_each(|_| hammer(&vi, 0)),
        "hammers above" => (0..step).for_each(|_| hammer(&vi, HALF)),
        "dies" => {
            let key = ready(&vi);
            kill_at(step);
            drop(write_halves(&vi, key));
        }
        "stops" => {
            let key = ready(&vi);
            stop_at(step);
            let done = write_halves(&vi, key);
            let why = ViError::RemoteAccess(AccessError::Revoked);
            assert_eq!(done.status, Err(why), "the key had ended");
            say(&vi, 7);
        }
        other => panic!("{other}"),
    }
}

fn say(vi: &Vi, word: u64) {
    vi.post_send(Descriptor::new(word.to_le_bytes().to_vec())).unwrap();
    drop(vi.send_queue().wait(LONG).unwrap().ok().unwrap());
}

fn hear(vi: &Vi) -> u64 {
    vi.post_recv(Descriptor::new(vec![0_u8; 8])).unwrap();
    let bytes = vi.recv_queue().wait(LONG).unwrap().ok().unwrap().into_vec::<u8>();
    u64::from_le_bytes(bytes.try_into().unwrap())
}

fn say_key(vi: &Vi, key: RemoteKey) {
    vi.post_send(Descriptor::new(key.to_bytes().to_vec())).unwrap();
    drop(vi.send_queue().wait(LONG).unwrap().ok().unwrap());
}

fn hear_key(vi: &Vi) -> RemoteKey {
    vi.post_recv(Descriptor::new(vec![0_u8; RemoteKey::BYTES])).unwrap();
    let bytes = vi.recv_queue().wait(LONG).unwrap().ok().unwrap().into_vec::<u8>();
    RemoteKey::from_bytes(&bytes.try_into().unwrap())
}

/// Writes two to every word, in two parts of one write.
fn write_halves(vi: &Vi, key: RemoteKey) -> Completion {
    let half = 2_u64.to_le_bytes().repeat(HALF / 8);
    vi.post_write(Descriptor::new(half.clone()).and(half), key.at(0)).unwrap();
    vi.send_queue().wait(LONG).unwrap()
}

/// Gets a key, and writes by it until that takes nobody else.
fn ready(vi: &Vi) -> RemoteKey {
    let key = hear_key(vi);
    until(
        || {
            vi.post_write(Descriptor::new(1_u64.to_le_bytes().to_vec()), key.at(0)).unwrap();
            let was_direct = vi.send_queue().outstanding() == 0;
            drop(vi.send_queue().wait(LONG).unwrap().ok().unwrap());
            was_direct
        },
        "to be told of a way",
    );
    say(vi, 0);
    key
}

/// Writes one number after the other to one half of the memory until the key has
/// ended, and says which was the last that succeeded.
fn hammer(vi: &Vi, at: usize) {
    let key = hear_key(vi);
    let mut number = 0_u64;
    loop {
        let bytes = (number + 1).to_le_bytes().repeat(HALF / 8);
        vi.post_write(Descriptor::new(bytes), key.at(at as u64)).unwrap();
        let done = vi.send_queue().wait(LONG).unwrap();
        match &done.status {
            Ok(()) => number += 1,
            Err(why) => {
                assert_eq!(*why, ViError::RemoteAccess(AccessError::Revoked));
                break;
            }
        }
    }
    say(vi, number);
}

/// The process with the memory, and its peers.
struct Target {
    nic: Nic,
    pool: Pool,
    writers: Vec<(Vi, Program)>,
}

impl Target {
    fn new(roles: &[&str], step: u64) -> Self {
        let unique = rt::random();
        let nic = trusting(&format!("target-{unique}"), Trust::Cooperating);
        let listener = nic.listen("direct", 0, &ViOptions::default()).unwrap();
        let writers = roles.iter().enumerate().map(|(number, role)| {
            let part = format!("{role}|{}|writer-{number}-{unique}|{step}", nic.host());
            let writer = Program::start("fabric::shm::tests::direct::processes::program", &part);
            (listener.wait_accept(LONG).unwrap(), writer)
        });
        let writers = writers.collect();
        Self { nic, pool: pool(1), writers }
    }

    /// Memory full of ones that the peers are to write.
    fn expose(&self) -> Exposed {
        let mut buf = self.pool.take(LEN).unwrap();
        buf.bytes_mut().as_chunks_mut().0.fill(1_u64.to_le_bytes());
        let exposed = self.nic.expose(buf, Access::WRITE).unwrap();
        for (vi, _) in &self.writers {
            say_key(vi, exposed.key());
        }
        exposed
    }

    /// The same, once the peer needs nobody to write it.
    fn expose_to_one_who_is_ready(&self) -> Exposed {
        let exposed = self.expose();
        assert_eq!(hear(&self.writers[0].0), 0);
        exposed
    }

    /// The same, once all the peers that hammer on it need nobody.
    fn expose_to_hammers(&self) -> Exposed {
        let exposed = self.expose();
        for half in 0..self.writers.len() {
            let first = || {
                let mut word = [0; 8];
                exposed.read_at(half * HALF, &mut word);
                u64::from_le_bytes(word)
            };
            let needs_nobody = || {
                self.nic.poll();
                let before = first();
                rt::sleep(Duration::from_micros(50));
                first() > before
            };
            until(needs_nobody, "writes while nobody looks");
        }
        exposed
    }

    fn pid(&self) -> Pid {
        self.writers[0].1.pid()
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.nic.poll();
        self.writers[0].1.ended()
    }

    fn is_ours(&self, buf: &Buf) -> bool {
        buf.region().id() == self.pool.region().id()
    }
}

fn words(buf: &Buf) -> Vec<u64> {
    buf.bytes().as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Nothing is written any more, and all that succeeded was.
#[test]
fn a_key_ends_under_the_writes_of_two() {
    const ROUNDS: u64 = 200;
    let target = Target::new(&["hammers below", "hammers above"], ROUNDS);
    for round in 0..ROUNDS {
        let exposed = target.expose_to_hammers();
        rt::sleep(Duration::from_micros(round));
        let mut buf = exposed.revoke();
        assert!(target.is_ours(&buf), "the peers run");
        let before = words(&buf);
        rt::sleep(Duration::from_micros(100));
        assert!(words(&buf) == before, "written after the key had ended");
        buf.bytes_mut().fill(0);
        for ((vi, _), half) in target.writers.iter().zip(before.chunks_exact(HALF / 8)) {
            let last = hear(vi);
            let is_right = half.iter().all(|word| [last, last + 1].contains(word));
            assert!(is_right, "{last} was the last, and there is {half:?}");
        }
        assert!(words(&buf).iter().all(|word| *word == 0), "written after the key had ended");
    }
}

/// Wherever the writer is killed, the buffer is the target's again.
#[test]
fn a_writer_is_killed_at_a_step() {
    for step in 0..4 {
        let mut target = Target::new(&["dies"], step);
        let exposed = target.expose_to_one_who_is_ready();
        until(|| target.ended().is_some(), "the writer's end");
        let buf = exposed.revoke();
        assert!(target.is_ours(&buf), "no process is inside that is dead");
        let words = words(&buf);
        let (first, second) = words.split_at(words.len() / 2);
        assert!(first.iter().all(|word| *word == if step < 1 { 1 } else { 2 }));
        assert!(second.iter().all(|word| *word == if step < 2 { 1 } else { 2 }));
        drop(buf);
        assert!(target.pool.take(LEN).is_ok());
    }
}

#[test]
fn a_writer_is_killed_at_any_instruction() {
    for round in 0..20 {
        let target = Target::new(&["hammers below"], 1);
        let exposed = target.expose_to_hammers();
        rt::sleep(Duration::from_micros(round * 7));
        kill_process(target.pid(), Signal::KILL).unwrap();
        let buf = exposed.revoke();
        assert!(target.is_ours(&buf), "no process is inside that is dead");
        let before = words(&buf);
        let (half, rest) = before.split_at(HALF / 8);
        let (least, most) = (half.iter().min().unwrap(), half.iter().max().unwrap());
        assert!(most - least <= 1, "parts of two writes at most: {half:?}");
        assert!(rest.iter().all(|word| *word == 1), "beside what was written");
        rt::sleep(Duration::from_millis(1));
        assert!(words(&buf) == before, "written after the key had ended");
    }
}

fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

/// A target whose writer stands still after the first half of its write.
fn stopped() -> (Target, Exposed) {
    let target = Target::new(&["stops"], 1);
    let exposed = target.expose_to_one_who_is_ready();
    until(|| is_stopped(target.pid()), "the writer to stop");
    (target, exposed)
}

#[test]
fn a_writer_is_stopped_and_goes_on() {
    let (mut target, exposed) = stopped();
    let copy = exposed.revoke();
    assert!(!target.is_ours(&copy), "it is being written");
    let before = words(&copy);
    let (first, second) = before.split_at(before.len() / 2);
    assert!(first.iter().all(|word| *word == 2), "what was there");
    assert!(second.iter().all(|word| *word == 1), "what was there");
    assert!(target.pool.take(LEN).is_err(), "its buffer stays out");
    kill_process(target.pid(), Signal::CONT).unwrap();
    assert_eq!(hear(&target.writers[0].0), 7, "the connection holds");
    until(|| target.pool.take(LEN).is_ok(), "the buffer is home");
    assert!(words(&copy) == before);
    until(|| target.ended().is_some_and(|how| how.success()), "the writer's end");
}

#[test]
fn a_writer_is_stopped_and_killed() {
    for wants_it in [true, false] {
        let (target, exposed) = stopped();
        if wants_it {
            assert!(!target.is_ours(&exposed.revoke()));
        } else {
            drop(exposed);
        }
        assert!(target.pool.take(LEN).is_err(), "its buffer stays out");
        kill_process(target.pid(), Signal::KILL).unwrap();
        until(|| target.pool.take(LEN).is_ok(), "the buffer is home");
    }
}
