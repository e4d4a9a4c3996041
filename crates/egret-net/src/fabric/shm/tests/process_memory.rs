//! Messages out of memory that is in no region.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::conformance::nic;
use super::meet;
use super::program::{Program, part};
use super::shared;
use crate::buf::Pool;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::shm::fault::{Fault, caught};
use crate::fabric::shm::layout::PIECE;
use crate::fabric::shm::layout::{BYTES, MARK, MARK_AT, REACHES};
use crate::fabric::shm::process_memory::{self, LEAST, PeerMemoryReader, READS};
use crate::fabric::shm::rendezvous::PeerProcess;
use crate::fabric::shm::scripted_peer::{ScriptedHandshake, ShmScriptedPeer};
use crate::fabric::shm::wire::{DataPlace, PostedItem};
use crate::rt::{self, Deadline};
use crate::vi::{
    Access, Address, Descriptor, Hello, Nic, Reliability, Segment, Vi, ViError, ViOptions, Wait,
};

const LONG: Deadline = Deadline::In(Duration::from_secs(20));

fn least() -> usize {
    usize::try_from(LEAST).unwrap()
}

/// Two nics of this process, which only this thread drives.
struct Scene {
    sender: Nic,
    receiver: Nic,
    here: Vi,
    there: Vi,
}

impl Scene {
    fn new(level: Reliability) -> Self {
        let unique = rt::random();
        let sender = nic(&format!("far-{unique}"), Wait::Balanced);
        let receiver = nic(&format!("near-{unique}"), Wait::Balanced);
        let options = ViOptions::of(level);
        let listener = receiver.listen("reach", 0, &options).unwrap();
        let connecting = sender.connect(&Address::new(receiver.host(), "reach", 0), &options, LONG);
        let (here, there) = meet(&listener, connecting);
        Self { sender, receiver, here, there }
    }

    /// Sends and receives; how often the memory of a process was read for it.
    fn deliver(&self, send: Descriptor, receive: Descriptor) -> u64 {
        let mut sent = vec![0; usize::try_from(send.len()).unwrap()];
        send.gather(0, &mut sent);
        let before = READS.get();
        self.there.post_recv(receive).unwrap();
        // What is posted late begins at once.
        (0..64).for_each(|_| _ = (self.receiver.poll(), self.sender.poll()));
        self.here.post_send(send.with_tag(5)).unwrap();
        self.drive();
        let back = self.here.send_queue().wait(LONG).unwrap();
        assert_eq!((back.status.clone(), back.len), (Ok(()), sent.len() as u64));
        let got = self.there.recv_queue().wait(LONG).unwrap();
        assert_eq!((got.status.clone(), got.tag, got.len), (Ok(()), 5, sent.len() as u64));
        let mut came = vec![0; sent.len()];
        got.descriptor().gather(0, &mut came);
        assert!(came == sent, "{} bytes are others", sent.len());
        READS.get() - before
    }

    fn drive(&self) {
        let until = LONG.until();
        let queues = [self.here.send_queue(), self.there.recv_queue()];
        while queues.iter().any(|queue| queue.outstanding() > 0) && until > Some(rt::now()) {
            self.receiver.poll();
            self.sender.poll();
        }
    }
}

/// In how many pieces so many bytes are copied.
fn pieces(len: usize) -> u64 {
    (len as u64).div_ceil(PIECE)
}

/// Bytes no two of which are the same a page or a piece apart.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ at >> 8 ^ at >> 16).to_le_bytes()[0]).collect()
}

#[test]
fn around_the_least_and_around_pages() {
    let scene = Scene::new(Reliability::Delivery);
    let page = 4096;
    for len in [least(), least() + 1, least() + page - 16, least() + page - 15, 3 * least() + 7] {
        assert_eq!(scene.deliver(pattern(len).into(), vec![0_u8; len].into()), pieces(len));
        let shared: Arc<[u8]> = pattern(len).into();
        // A receive in parts that begin anywhere.
        let parts = [1, page - 1, page + 3, len - 2 * page - 3];
        let receive = parts.iter().fold(Descriptor::empty(), |all, n| all.and(vec![0_u8; *n]));
        let reads = pieces(len) + parts.len() as u64 - 1;
        assert_eq!(scene.deliver(Descriptor::new(shared), receive), reads);
    }
    assert_eq!(scene.deliver(pattern(least() - 1).into(), vec![0_u8; least()].into()), 0);
}

impl From<Vec<u8>> for Descriptor {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

#[test]
fn heap_and_pool_in_one_message() {
    let pool = Pool::builder().class(least(), 2).shareable().build().unwrap();
    let private = Pool::new(least(), 1).unwrap();
    let buf = |pool: &Pool, byte| {
        let mut buf = pool.take(least()).unwrap();
        buf.bytes_mut().fill(byte);
        buf
    };
    let scene = Scene::new(Reliability::Reception);
    let send = Descriptor::new(pattern(100))
        .and(pattern(least()))
        .and(buf(&pool, 1))
        .and(pattern(40_000))
        .and(buf(&private, 2))
        .and(pattern(least() + 1))
        .and(buf(&pool, 3))
        .and(pattern(3));
    let len = usize::try_from(send.len()).unwrap();
    let (reads, least) = (scene.deliver(send, vec![0; len].into()), pieces(least()));
    // What came before in the same poll is cut off the first piece of each of the three.
    assert!((3 * least..=3 * (least + 1)).contains(&reads), "{reads} reads");
}

#[test]
fn a_slice_of_a_shareable_pool_is_fetched_there() {
    let pool = Pool::builder().class(least(), 1).shareable().build().unwrap();
    let mut buf = pool.take(least()).unwrap();
    buf.bytes_mut().copy_from_slice(&pattern(least()));
    let scene = Scene::new(Reliability::Delivery);
    for pieces in [&[&[7; 8][..], buf.bytes(), &[9; 20]][..], &[buf.bytes()], &[&buf.bytes()[5..]]]
    {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        Segment::lend_all(pieces, |lent, is_back| {
            let send = lent.into_iter().fold(Descriptor::empty(), Descriptor::and);
            assert_eq!(scene.deliver(send, vec![0; len].into()), 0);
            assert!(is_back());
        });
    }
}

#[test]
fn a_write_reads_in_place_too() {
    let scene = Scene::new(Reliability::Delivery);
    let memory = Pool::new(2 * least(), 1).unwrap().take(2 * least()).unwrap();
    let exposed = scene.receiver.expose(memory, Access::WRITE).unwrap();
    let before = READS.get();
    scene.here.post_write(pattern(least()).into(), exposed.key().at(9)).unwrap();
    while scene.here.send_queue().outstanding() > 0 {
        scene.receiver.poll();
        scene.sender.poll();
    }
    assert_eq!(scene.here.send_queue().wait(LONG).unwrap().status, Ok(()));
    let mut came = vec![0; least()];
    exposed.read_at(9, &mut came);
    assert!(came == pattern(least()));
    assert_eq!(READS.get() - before, pieces(least()));
}

#[test]
fn the_unreliable_level_does_without() {
    let scene = Scene::new(Reliability::Unreliable);
    assert_eq!(scene.deliver(pattern(least()).into(), vec![0; least()].into()), 0);
}

#[test]
fn where_it_is_forbidden_the_bounce_area_is_used() {
    let found = caught(Fault::ReachForbidden, || {
        let scene = Scene::new(Reliability::Delivery);
        assert_eq!(scene.deliver(pattern(3 * least()).into(), vec![0; 3 * least()].into()), 0);
    });
    assert!(!found);
}

/// It was allowed when the two met, and is not any more.
#[test]
fn what_is_forbidden_later_is_an_error() {
    let scene = Scene::new(Reliability::Delivery);
    let found = caught(Fault::ReachForbidden, || {
        scene.there.post_recv(vec![0; least()].into()).unwrap();
        (0..64).for_each(|_| _ = (scene.receiver.poll(), scene.sender.poll()));
        scene.here.post_send(pattern(least()).into()).unwrap();
        scene.drive();
        let why = ViError::Protocol("memory that may no longer be read");
        let got = scene.there.recv_queue().wait(LONG).unwrap();
        assert_eq!(got.status, Err(why.clone()));
        let back = scene.here.send_queue().wait(LONG).unwrap();
        assert_eq!(back.status, Err(why), "both are told");
    });
    assert!(!found);
}

/// A nic with a scripted peer at the other end, which has said that it reads or not.
struct Stage {
    nic: Nic,
    vi: Vi,
    puppet: ShmScriptedPeer,
}

impl Stage {
    fn new() -> Self {
        let nic = nic(&format!("stage-{}", rt::random()), Wait::Balanced);
        let reliability = Reliability::Delivery;
        let listener = nic.listen("open", 0, &ViOptions::of(reliability)).unwrap();
        let hello = Hello { reliability, service: "open".to_owned(), tag: 0 };
        let scripted = ScriptedHandshake::new(nic.host(), hello).unwrap();
        let (vi, puppet) = scripted.meet(&listener, LONG.until().unwrap()).unwrap();
        Self { nic, vi, puppet }
    }

    /// What becomes of a message that lies there.
    fn say(&mut self, at: u64, len: u64) -> Result<Vec<u8>, ViError> {
        self.vi.post_recv(vec![0; 1 << 20].into()).unwrap();
        let bytes = DataPlace::Process { at, len };
        let item = PostedItem::Message { tag: 0, kind: None, bytes };
        self.puppet.put(item, &[], ReceiveCounts::default());
        let got = self.vi.recv_queue().wait(LONG).unwrap();
        got.status.clone()?;
        let mut came = vec![0; usize::try_from(got.len).unwrap()];
        got.descriptor().gather(0, &mut came);
        Ok(came)
    }
}

fn address(bytes: &[u8]) -> u64 {
    bytes.as_ptr().expose_provenance() as u64
}

const OUTSIDE: ViError = ViError::Protocol("bytes outside the peer's memory");

#[test]
fn any_address_is_bytes_of_the_peer_or_an_error() {
    for nowhere in [0, 1, 4096, u64::MAX, u64::MAX - 4095, 1 << 63, 1 << 47] {
        let mut stage = Stage::new();
        let told = stage.say(nowhere, 8192).unwrap_err();
        let gone = ViError::PeerDied { why: "its memory is gone" };
        assert!([OUTSIDE, gone].contains(&told), "{told:?}");
        assert!(stage.vi.post_recv(Descriptor::empty()).is_err(), "it is over");
        stage.nic.poll();
    }
    let other = pattern(10_000);
    assert_eq!(Stage::new().say(address(&other) + 3, 9000), Ok(other[3..9003].to_vec()));
    let more = Stage::new().say(address(&other), (1 << 20) + 1).unwrap_err();
    assert!(matches!(more, ViError::TooLong { .. }), "{more:?}");
    assert!(Stage::new().say(address(&other), u64::MAX).is_err());
}

/// The last page of the stack, and one behind it where nothing is.
pub(super) fn bytes_that_are_not_there() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
    let (_, end) = stack.split_once(' ').unwrap().0.split_once('-').unwrap();
    let end = u64::from_str_radix(end, 16).unwrap();
    assert_eq!(Stage::new().say(end - 4096, 4096).unwrap().len(), 4096);
    assert_eq!(Stage::new().say(end - 4096, 4097), Err(OUTSIDE));
}

#[test]
fn a_message_that_ends_outside_is_an_error() {
    bytes_that_are_not_there();
}

/// The mark is there when the two meet, and another word later: whatever the
/// process is now, it is not what was met.
pub(super) fn another_program_is_not_read() {
    let other = pattern(4096);
    let mut stage = Stage::new();
    assert_eq!(stage.say(address(&other), 4096).as_deref(), Ok(&other[..]));
    stage.puppet.strings.own.word(MARK).fetch_xor(1, Relaxed);
    let gone = ViError::PeerDied { why: "its memory is gone" };
    assert_eq!(stage.say(address(&other), 4096), Err(gone));
}

#[test]
fn memory_of_another_program_is_not_delivered() {
    another_program_is_not_read();
}

/// This process stands for one that was given the number of a peer that ended.
pub(super) fn a_number_given_away_is_not_read() {
    let (own, foreign) = shared(BYTES);
    process_memory::mark(&own);
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let living = PeerProcess::reused(&child);
    assert_eq!(living.pid, rustix::process::getpid().as_raw_pid());
    let reach = PeerMemoryReader::offer(&own, &foreign, &PeerProcess::this()).unwrap();
    assert_eq!(own.word(REACHES).load(Relaxed), 1);
    child.wait().unwrap();
    let (bytes, mut to) = (pattern(100), [0; 100]);
    assert_eq!(reach.read(&PeerProcess::this(), address(&bytes), &mut to), Ok(()));
    assert_eq!(to[..], bytes[..]);
    let died = reach.read(&living, address(&bytes), &mut to).unwrap_err();
    assert!(matches!(died, ViError::PeerDied { .. }), "{died:?}");
}

#[test]
fn a_peer_that_ended_is_not_read() {
    a_number_given_away_is_not_read();
}

#[test]
fn nothing_is_offered_for_another_mark_or_none() {
    let this = PeerProcess::this();
    let offered = |change: fn(&crate::fabric::shm::memory::OwnMemory)| {
        let (own, foreign) = shared(BYTES);
        process_memory::mark(&own);
        change(&own);
        let offered = PeerMemoryReader::offer(&own, &foreign, &this).is_some();
        assert_eq!(offered, process_memory::is_offered(&foreign));
        offered
    };
    assert!(offered(|_| ()));
    assert!(!offered(|own| own.word(MARK_AT).store(0, Relaxed)));
    assert!(!offered(|own| own.word(MARK_AT).store(1 << 63, Relaxed)));
    assert!(!offered(|own| _ = own.word(MARK_AT).fetch_add(8, Relaxed)));
}

const MESSAGE: usize = 1 << 20;
const AT_ONCE: usize = 4;

/// Not a test by itself: another process, which sends for ever and is killed.
#[test]
fn program() {
    let Some(part) = part() else { return };
    let (own, to) = part.split_once('|').unwrap();
    let nic = nic(own, Wait::Balanced);
    let to = Address::new(to, "reach", 0);
    let vi = nic.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT).unwrap();
    let messages = (0..=u8::MAX).cycle().map(|byte| Descriptor::new(vec![byte; MESSAGE]));
    for (number, message) in messages.enumerate() {
        vi.post_send(message).unwrap();
        if number >= AT_ONCE {
            // What comes back is used for something else at once.
            let sent = vi.send_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
            sent.into_descriptor().bytes_mut().unwrap().fill(0xee);
        }
    }
}

#[test]
fn another_process_is_read_until_it_is_killed() {
    for round in 0..20 {
        let unique = rt::random();
        let (own, theirs) = (format!("reader-{unique}"), format!("read-{unique}"));
        let nic = nic(&own, Wait::Balanced);
        let listener = nic.listen("reach", 0, &ViOptions::default()).unwrap();
        let name = "fabric::shm::tests::process_memory::program";
        let victim = Program::start(name, &format!("{theirs}|{own}"));
        let vi = listener.wait_accept(Deadline::DEFAULT).unwrap();
        for _ in 0..AT_ONCE {
            vi.post_recv(vec![0; MESSAGE].into()).unwrap();
        }
        let before = READS.get();
        let mut victim = Some(victim);
        let mut expected = 0_u8;
        loop {
            let got = vi.recv_queue().wait(LONG).unwrap();
            if let Err(why) = &got.status {
                assert!(victim.is_none() && matches!(why, ViError::PeerDied { .. }), "{why:?}");
                break;
            }
            assert!(got.descriptor().bytes().iter().all(|byte| *byte == expected), "{expected}");
            expected = expected.wrapping_add(1);
            if u32::from(expected) == 3 + round * 5 % 17 {
                victim = None;
            }
            // The connection may be over.
            let _ = vi.post_recv(got.into_descriptor());
        }
        assert!(READS.get() > before, "nothing was read in place");
        while vi.recv_queue().poll().is_some() {}
        assert_eq!(vi.recv_queue().outstanding(), 0);
    }
}

#[test]
fn a_borrowed_slice_is_read_where_it_is() {
    let unique = rt::random();
    let (own, theirs) = (format!("lender-{unique}"), format!("taker-{unique}"));
    let taker = nic(&theirs, Wait::Balanced);
    let listener = taker.listen("reach", 0, &ViOptions::default()).unwrap();
    let all = pattern(2 * least() + 8192);
    let offsets = [0, 1, 15, 4095, 4096, 4097];
    let sent = all.clone();
    let sending = rt::spawn("lender", move || {
        let nic = nic(&own, Wait::Balanced);
        let to = Address::new(theirs.as_str(), "reach", 0);
        let vi = nic.wait_connect(&to, &ViOptions::default(), LONG).unwrap();
        for offset in offsets {
            vi.send_pinned(&sent[offset..][..2 * least()], 0, LONG).unwrap();
        }
        nic
    });
    let vi = listener.wait_accept(LONG).unwrap();
    for offset in offsets {
        let (got, _) = vi.recv::<u8>(2 * least(), LONG).unwrap();
        assert!(got == all[offset..][..2 * least()], "from {offset}");
    }
    drop(sending.unwrap().join().unwrap());
}
