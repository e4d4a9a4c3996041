//! The hostile program.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::files;
use crate::buf::Pool;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::shm::foreign::ForeignMemory;
use crate::fabric::shm::layout::{
    BELL, BOUNCE, BYTES, CHUNK, LEFT, PLACED, RECEIVES, RING, RING_LINES, TAKEN,
};
use crate::fabric::shm::memory::{LINE, WORD};
use crate::fabric::shm::records::{POSTED_WORDS, RingReceiver, Scratch};
use crate::fabric::shm::rendezvous::OfferedDescriptors;
use crate::fabric::shm::scripted_peer::{
    ScriptedHandshake, ScriptedSegment, ShmScriptedPeer, start_handshake, wait_answer,
};
use crate::fabric::shm::wire::{DataPlace, PostedItem};
use crate::rt::{self, Instant, SplitMix64};
use crate::vi::{Hello, Reliability, RemoteKey};

/// How long an attack lasts.
const LASTS: Duration = Duration::from_millis(300);
/// How long it waits for what a victim must do.
const LONG: Duration = Duration::from_secs(10);

struct Attacker {
    victim: String,
    rng: SplitMix64,
    until: Instant,
}

pub(super) fn attack(attack: &str, victim: &str, seed: u64) {
    let name = attack.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let until = rt::now() + LASTS;
    let mut attacker = Attacker { victim: victim.to_owned(), rng: SplitMix64(name), until };
    let step = match attack {
        "scribble" => Attacker::scribble,
        "posted" => Attacker::posted,
        "replay" => Attacker::replay,
        "counts" => Attacker::counts,
        "truncate" => Attacker::truncate,
        "control" => Attacker::control,
        "names" => Attacker::names,
        "bell" => Attacker::bell,
        "keys" => Attacker::keys,
        "files" => return attacker.files(),
        "regions" => return attacker.regions(),
        "silence" => return attacker.silence(),
        "attempts" => return attacker.attempts(),
        other => panic!("no attack {other:?}"),
    };
    let mut met = 0;
    while rt::now() < until {
        if let Some(mut guest) = attacker.meet() {
            met += 1;
            step(&mut attacker, &mut guest);
        }
    }
    assert!(met > 0, "the victim let nobody in");
}

/// A scripted peer with what it learned.
struct Guest {
    puppet: ShmScriptedPeer,
    foreign: ForeignMemory,
    theirs: RingReceiver,
    scratch: Scratch<POSTED_WORDS>,
    keys: Vec<u64>,
    _region: Pool,
}

impl Attacker {
    fn hello(&mut self) -> Hello {
        let level = self.rng.byte() % 3;
        let reliability = Reliability::from_wire(level).unwrap();
        Hello { reliability, service: "open".to_owned(), tag: level.into() }
    }

    /// Meets the victim as anybody would: it announces a region and as many
    /// receives as the victim could wish for.
    fn meet(&mut self) -> Option<Guest> {
        let hello = self.hello();
        let puppet = ScriptedHandshake::new(&self.victim, hello)?.wait(self.until)?;
        let fd = puppet.accepted.handles.control.try_clone().unwrap();
        let foreign = ForeignMemory::map(fd, 1 << 30).unwrap();
        let (own, seen) = (puppet.strings.own.clone(), foreign.clone());
        let theirs = RingReceiver::new(seen, RING as u64, RING_LINES as u64, own, TAKEN).unwrap();
        puppet.strings.own.word(RECEIVES).store(1000, Release);
        let region = Pool::builder().class(4096, 16).shareable().build().unwrap();
        let _ = puppet.say(&[1, 1, 0, 0, 0, 0], &[region.region().fd().unwrap()]);
        let (theirs, scratch, keys) = (theirs.of_posted(), Scratch::of_posted(), Vec::new());
        let mut guest = Guest { puppet, foreign, theirs, scratch, keys, _region: region };
        let patience = rt::now() + Duration::from_millis(20);
        while guest.keys.len() < 2 && rt::now() < patience {
            guest.listen();
        }
        Some(guest)
    }

    fn is_over(&self, guest: &Guest) -> bool {
        rt::now() >= self.until || guest.puppet.accepted.control.is_gone()
    }

    /// Any word, or one that something depends on.
    fn word(&mut self, guest: &Guest) -> u64 {
        let secrets = guest.keys.len();
        match self.rng.below(10) {
            0..=2 => self.rng.below(4) as u64,
            3 => [RING, BOUNCE, BOUNCE + CHUNK, BYTES, BYTES - 1, RING_LINES][self.rng.below(6)]
                as u64,
            4 => [u64::MAX, u64::MAX - 7, 1 << 63, u32::MAX.into()][self.rng.below(4)],
            5 => self.rng.below(40_000) as u64,
            6..=8 if secrets > 0 => guest.keys[self.rng.below(secrets)],
            _ => self.rng.next(),
        }
    }

    /// What an item says that it is.
    fn what(&mut self) -> u64 {
        let [op, place, flags] = [12, 5, 8].map(|end| self.rng.below(end) as u64);
        op | place << 8 | flags << 24
    }

    /// Random words over everything that is its own.
    fn scribble(&mut self, guest: &mut Guest) {
        let ScriptedSegment { own, .. } = &guest.puppet.strings;
        while !self.is_over(guest) {
            for _ in 0..500 {
                let value = self.word(guest);
                match self.rng.below(8) {
                    0 => own.word(BELL).store(value, Relaxed),
                    1 => own.word(TAKEN + self.rng.below(8) * WORD).store(value, Relaxed),
                    2 => own.word(self.rng.below(BYTES / WORD) * WORD).store(value, Relaxed),
                    3..6 => {
                        // One that the victim may be waiting for.
                        let position = self.rng.below(2 * RING_LINES);
                        let at = RING + position % RING_LINES * LINE;
                        let (kind, len) = (self.rng.below(5), self.rng.below(80));
                        let first = position << 32 | len << 16 | kind << 8 | 1;
                        own.word(at + WORD).store(self.what(), Relaxed);
                        own.word(at).store(first as u64, Relaxed);
                    }
                    _ => {
                        let at = RING + self.rng.below(RING_LINES * LINE / WORD) * WORD;
                        own.word(at).store(value, Relaxed);
                    }
                }
            }
        }
    }

    /// Records at the right positions that say anything.
    fn posted(&mut self, guest: &mut Guest) {
        while !self.is_over(guest) {
            for _ in 0..1 + self.rng.below(20) {
                let (what, words) = (self.what(), [(); 6].map(|()| self.word(guest)));
                let bytes = bytemuck::cast_slice(&words).iter().copied().cycle();
                let most = if self.rng.below(10) == 0 { 2000 } else { 60 };
                let payload: Vec<u8> = bytes.take(self.rng.below(most)).collect();
                guest.puppet.put_any(self.rng.below(8) > 0, what, &payload);
            }
            if !guest.keep_pace() {
                return;
            }
        }
    }

    /// The same records again, at their old positions and at others.
    fn replay(&mut self, guest: &mut Guest) {
        let own = guest.puppet.strings.own.clone();
        for _ in 0..RING_LINES {
            let (tag, first) = (self.rng.next(), self.rng.byte());
            guest.message(tag, guest.counts().pack(), &[first; 32]);
        }
        while !self.is_over(guest) {
            guest.listen();
            let line = self.rng.below(RING_LINES);
            let at = RING + line * LINE;
            let old = own.word(at).load(Relaxed) & u64::from(u32::MAX);
            let laps = self.rng.below(4) * RING_LINES;
            own.word(at).store(((laps + line) as u64) << 32 | old, Release);
        }
    }

    /// Says that it has taken, placed and posted what it likes.
    fn counts(&mut self, guest: &mut Guest) {
        let own = guest.puppet.strings.own.clone();
        while !self.is_over(guest) {
            guest.listen();
            let at = [TAKEN, RECEIVES, PLACED, LEFT][self.rng.below(4)];
            let taken = guest.theirs.position();
            let near = taken.wrapping_add(self.rng.below(9) as u64).wrapping_sub(4);
            let far = self.word(guest);
            own.word(at).store(if self.rng.below(3) == 0 { far } else { near }, Release);
            let counts = self.word(guest);
            guest.message(0, counts, &[]);
            if !guest.keep_pace() {
                return;
            }
        }
    }

    /// Begins handshakes with descriptors that must not be used; the victim lets go.
    fn files(&mut self) {
        let mut refused = 0;
        for role in 0..2 {
            let unfit = if role == 1 { files::unfit_bells() } else { files::unfit_for_control() };
            for fd in &unfit {
                let strings = ScriptedSegment::new();
                let OfferedDescriptors { control, bell } = strings.handles();
                let handles = match role {
                    0 => OfferedDescriptors { control: fd.as_fd(), bell },
                    _ => OfferedDescriptors { control, bell: fd.as_fd() },
                };
                let hello = self.hello();
                let Some(attempt) = start_handshake(&self.victim, hello) else { continue };
                if let Some(accepted) = wait_answer(attempt, handles, rt::now() + LONG) {
                    let until = rt::now() + LONG;
                    while !accepted.control.is_gone() {
                        assert!(rt::now() < until, "descriptor {fd:?} for role {role} is used");
                        rt::sleep(Duration::from_micros(100));
                    }
                }
                refused += 1;
            }
        }
        assert!(refused > 20, "{refused} refused");
    }

    /// Tries to take away what the victim is reading.
    fn truncate(&mut self, guest: &mut Guest) {
        while !self.is_over(guest) {
            files::assert_stays(&guest.puppet.strings.own);
            let offset = [BOUNCE, BYTES - CHUNK, BYTES - 1][self.rng.below(3)] as u64;
            let bytes = DataPlace::Bounce { offset, len: 1 + self.rng.below(CHUNK) as u64 };
            guest.put(PostedItem::Message { tag: 0, kind: None, bytes });
            if !guest.keep_pace() {
                return;
            }
        }
    }

    /// Announces regions that must not be mapped, and more than there may be.
    fn regions(&mut self) {
        let unfit = files::unfit();
        for fd in &unfit {
            let Some(guest) = self.meet() else { continue };
            let _ = guest.puppet.say(&[1, 1, 9, 0, 0, 0], &[fd.as_fd()]);
            guest.assert_sent_away("a region that must not be mapped");
        }
        let fit = files::file(4096, files::ALL);
        for same in [true, false] {
            self.until = rt::now() + LONG;
            let Some(guest) = self.meet() else { panic!("nobody accepts") };
            for number in 0..200_u32 {
                let number = if same { 3 } else { number }.to_le_bytes();
                let said = [[1, 1].as_slice(), &number].concat();
                // One that finds the socket full is not heard, and not counted.
                let _ = guest.puppet.say(&said, &[fit.as_fd()]);
                rt::sleep(Duration::from_micros(20));
            }
            if !same {
                guest.assert_sent_away("more regions than are mapped");
            }
        }
    }

    /// Packets without end, most of them wrong.
    fn control(&mut self, guest: &mut Guest) {
        let (null, other) = (files::file(4096, files::ALL), std::io::pipe().unwrap().0);
        while !self.is_over(guest) {
            let most = if self.rng.below(8) == 0 { 5000 } else { 40 };
            let len = 1 + self.rng.below(most);
            let mut bytes: Vec<u8> = (0..len).map(|_| self.rng.byte()).collect();
            bytes[0] = self.rng.byte() % 4;
            let fds = [null.as_fd(), other.as_fd()];
            let fds: Vec<_> = fds.into_iter().cycle().take(self.rng.below(12)).collect();
            let _ = guest.puppet.say(&bytes, &fds);
        }
    }

    /// Names of types without end, while an item waits for a region that never comes.
    fn names(&mut self, guest: &mut Guest) {
        let bytes = DataPlace::Region { number: 99, offset: 0, len: 8 };
        guest.put(PostedItem::Message { tag: 0, kind: None, bytes });
        let until = self.until;
        let socket = guest.puppet.accepted.control.fd().try_clone_to_owned().unwrap();
        let say = move |socket: OwnedFd, mut fingerprint: u64| {
            loop {
                fingerprint = fingerprint.wrapping_add(1);
                let said = [[2, 0].as_slice(), &fingerprint.to_le_bytes(), b"\x04name"].concat();
                let sent = send(&socket, &said, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
                if rt::now() >= until || sent.is_err_and(|errno| errno != Errno::AGAIN) {
                    return;
                }
            }
        };
        let (twin, start) = (socket.try_clone().unwrap(), self.rng.next());
        let thread = rt::spawn("names", move || say(twin, start)).unwrap();
        say(socket, !start);
        thread.join().unwrap();
    }

    /// Begins handshakes and says no more; connects and does not even begin one.
    fn silence(&mut self) {
        let guests: Vec<_> = (0..8).filter_map(|_| self.meet()).collect();
        let hello = |level: u8| Hello {
            reliability: Reliability::from_wire(level).unwrap(),
            service: "open".to_owned(),
            tag: level.into(),
        };
        let scripted: Vec<_> =
            (0..40).filter_map(|n| ScriptedHandshake::new(&self.victim, hello(n % 3))).collect();
        let address = format!("egret/{}/{}", rustix::process::geteuid().as_raw(), self.victim);
        let strangers: Vec<_> = (0..80).filter_map(|_| files::connect(&address)).collect();
        assert!(!guests.is_empty() && !scripted.is_empty() && strangers.len() > 10);
        rt::sleep(LASTS);
    }

    /// Begins handshakes and drops them, as fast as it can.
    fn attempts(&mut self) {
        let address = format!("egret/{}/{}", rustix::process::geteuid().as_raw(), self.victim);
        let until = self.until;
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let address = address.clone();
                let attempt = move || {
                    while rt::now() < until {
                        drop(files::connect(&address));
                    }
                };
                rt::spawn("attempts", attempt).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// Rings for ever, and seems to fall asleep and wake all the time.
    fn bell(&mut self, guest: &mut Guest) {
        let own = guest.puppet.strings.own.clone();
        while !self.is_over(guest) {
            for _ in 0..100 {
                own.word(BELL).store(self.rng.next() & !2, Relaxed);
                let bell = &guest.puppet.accepted.handles.bell;
                let _ = send(bell, &[1; 16], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
            guest.listen();
        }
    }

    /// Uses the keys it was given, for what they allow and for what they do not.
    fn keys(&mut self, guest: &mut Guest) {
        let Some(&secret) = guest.keys.last() else { return };
        for id in 0.. {
            if self.is_over(guest) {
                return;
            }
            let secret = if self.rng.below(4) == 0 { guest.keys[0] } else { secret };
            let (offset, len) = match self.rng.below(4) {
                0 => (self.word(guest), self.word(guest)),
                1 => (60, 5),
                _ => (8, 16),
            };
            if len > 32 || self.rng.below(2) == 0 {
                guest.put(PostedItem::Read { id, secret, offset, len });
            } else {
                guest.put(PostedItem::Write { secret, offset, len });
                // Now and then not as many as it said.
                let len = if self.rng.below(100) == 0 { 3 } else { len };
                let bytes = vec![1; usize::try_from(len).unwrap()];
                let item = PostedItem::Piece { bytes: DataPlace::appended(bytes.len()) };
                guest.puppet.put(item, &bytes, guest.counts());
                guest.put(PostedItem::WriteEnd { id, notify: (id % 7 == 0).then_some(id) });
            }
            // Now and then it does not listen to the answers for a while.
            if self.rng.below(300) == 0 {
                (0..100)
                    .for_each(|id| guest.put(PostedItem::Read { id, secret, offset: 0, len: 64 }));
            }
            if !guest.keep_pace() {
                return;
            }
        }
    }
}

impl Guest {
    const fn counts(&self) -> ReceiveCounts {
        ReceiveCounts { taken: 0, receives: 1000, placed: 0 }
    }

    fn put(&mut self, item: PostedItem) {
        self.puppet.put(item, &[], self.counts());
    }

    /// A whole message, with any counts.
    fn message(&mut self, tag: u64, counts: u64, bytes: &[u8]) {
        self.puppet.put_any(false, tag, &[&counts.to_ne_bytes(), bytes].concat());
    }

    /// Gives the victim time to take what was put: a record that is overwritten
    /// before was never there. `false` if it takes nothing more.
    fn keep_pace(&mut self) -> bool {
        let patience = rt::now() + Duration::from_millis(20);
        loop {
            self.listen();
            let taken = self.foreign.load(TAKEN as u64, Relaxed).unwrap();
            if self.puppet.position().saturating_sub(taken) < RING_LINES as u64 / 2 {
                return true;
            }
            if rt::now() >= patience || self.puppet.accepted.control.is_gone() {
                return false;
            }
            rt::sleep(Duration::from_micros(10));
        }
    }

    /// Takes what the victim sends, and looks for keys in it.
    fn listen(&mut self) {
        while let Ok(Some(taken)) = self.theirs.take_posted(&mut self.scratch) {
            let key = match PostedItem::decode(&taken) {
                Some(PostedItem::Message { bytes: DataPlace::Inline { at, len: 17 }, .. }) => {
                    &taken.payload[usize::from(at)..][..17]
                }
                _ => &[],
            };
            if let Ok(key) = key.try_into() {
                self.keys.push(RemoteKey::from_bytes(key).secret());
            }
            self.theirs.release(self.theirs.position());
        }
    }

    fn assert_sent_away(&self, why: &str) {
        let until = rt::now() + LONG;
        while !self.puppet.accepted.control.is_gone() {
            assert!(rt::now() < until, "{why}: the victim goes on");
            rt::sleep(Duration::from_micros(100));
        }
    }
}
