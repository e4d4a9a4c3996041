//! Buffers that change hands through the interface that programs use.

mod ends;
mod killed;
mod planted;
mod player;
mod whole;

use std::fs;
use std::time::Duration;

use crate::buf::{Buf, Pool};
use crate::fabric::Fabric;
use crate::fabric::shm::ShmFabric;
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, Handed, Nic, NicOptions, Reliability, Trust, Vi, ViOptions};
use crate::vi::{Completion, CompletionQueue, Wait};

const SMALL: usize = 64;
const LARGE: usize = 5_000;
/// Buffers of each size.
const EACH: usize = 4;
const ANY: u64 = 1 << 40;
const LONG: Deadline = Deadline::In(Duration::from_secs(10));

/// Two nics of this process that only this thread drives once they have met.
struct Pair {
    home: Nic,
    visitor: Nic,
    here: Vi,
    there: Vi,
    pool: Pool,
}

impl Pair {
    fn new() -> Self {
        Self::with(Trust::Cooperating, Reliability::Reception)
    }

    fn with(trust: Trust, level: Reliability) -> Self {
        let unique = rt::random();
        let open = |name: &str| {
            let options = NicOptions::new(&format!("{name}-{unique}")).wait(Wait::Frugal);
            ShmFabric.open(&options.trust(trust)).unwrap()
        };
        let (home, visitor) = (open("home"), open("visitor"));
        let (here, there) = connect(&home, &visitor, level);
        assert_eq!((here.trust(), there.trust()), (trust, trust));
        Self { home, visitor, here, there, pool: pool() }
    }

    /// Hands a buffer to the visitor, and says what becomes of it.
    fn hand(&self, buf: Buf) -> Handed {
        hand(&self.here, &self.there, buf)
    }

    /// A buffer of the pool that is now the visitor's.
    fn lend(&self, len: usize) -> Buf {
        self.hand(self.pool.take(len).unwrap()).into_buf().expect("the buffer itself")
    }

    /// And back.
    fn back(&self, buf: Buf) -> Handed {
        hand(&self.there, &self.here, buf)
    }
}

/// A connection from one nic to another, which both must be driven for.
fn connect(from: &Nic, to: &Nic, level: Reliability) -> (Vi, Vi) {
    let (options, service) = (ViOptions::of(level), format!("handed-{}", rt::random()));
    let listener = to.listen(&service, 0, &options).unwrap();
    let (nic, address) = (from.clone(), Address::new(to.host(), &service, 0));
    let connecting =
        rt::spawn("connecting", move || nic.wait_connect(&address, &options, LONG).unwrap());
    let there = listener.wait_accept(LONG).unwrap();
    (connecting.unwrap().join().unwrap(), there)
}

fn hand(from: &Vi, to: &Vi, buf: Buf) -> Handed {
    let len = buf.len() as u64;
    to.post_recv(Descriptor::handed(ANY)).unwrap();
    from.hand_over(buf, len).unwrap();
    let got = done(to.recv_queue());
    assert_eq!((got.tag, got.len), (len, len));
    let sent = done(from.send_queue());
    assert_eq!((sent.len, sent.descriptor().segment_count()), (len, 0));
    got.into_handed()
}

fn done(queue: &CompletionQueue) -> Completion {
    queue.wait(LONG).unwrap().ok().unwrap()
}

fn pool() -> Pool {
    Pool::builder().class(SMALL, EACH).class(LARGE, EACH).cooperating().build().unwrap()
}

/// Buffers that are not out.
fn home(pool: &Pool) -> usize {
    pool.available(SMALL) + pool.available(LARGE)
}

/// All buffers are home, and each once.
fn assert_all_home(pool: &Pool) {
    assert_eq!(home(pool), 2 * EACH);
    for bytes in [SMALL, LARGE] {
        let all: Vec<Buf> = (0..EACH).map(|_| pool.take(bytes).unwrap()).collect();
        let mut places: Vec<usize> = all.iter().map(Buf::offset_in_region).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), EACH, "a slot came home twice");
        assert!(pool.take(bytes).is_err(), "more came home than there are");
    }
}

fn fill(buf: &mut Buf, byte: u8) {
    buf.bytes_mut().fill(byte);
}

fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|it| *it == byte)
}

/// How often this process maps the file behind a pool.
fn mappings(pool: &Pool) -> usize {
    let number = super::hand_over::inode(pool).to_string();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.split(' ').any(|field| field == number)).count()
}
