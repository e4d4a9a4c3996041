//! A peer that goes on writing the memory that it has sent, while it is received and looked at.
//!
//! It writes by the kernel, as a debugger does, where neither its own program nor the fabric
//! knows of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use egret::buf::Pool;
use egret::graph::GraphError;
use egret::prelude::Graph;
use egret::rt;
use egret::vi::Descriptor;

use crate::ends::ends;
use crate::world::{Ring, ring};

/// Where the peer writes, and what besides the word that belongs there.
#[derive(Default)]
struct Target {
    place: AtomicUsize,
    right: AtomicU64,
    wrong: AtomicU64,
    /// How often it has written.
    writes: AtomicUsize,
    is_over: AtomicBool,
}

impl Target {
    /// Writes one and the other in turn until it is over.
    fn rewrite(&self) {
        let memory = File::options().write(true).open("/proc/self/mem").unwrap();
        while !self.is_over.load(Ordering::Acquire) {
            for word in [&self.wrong, &self.right] {
                let place = self.place.load(Ordering::Acquire) as u64;
                let word = word.load(Ordering::Acquire).to_ne_bytes();
                if place != 0 {
                    memory.write_all_at(&word, place).unwrap();
                    self.writes.fetch_add(1, Ordering::Release);
                }
            }
        }
    }

    /// Aims at a word of the message that lies at `start`.
    fn aim(&self, start: usize, message: &[u8]) {
        let words: Vec<u64> =
            message.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let any = || usize::try_from(rt::random() % words.len() as u64).unwrap();
        let at = any();
        let wrong = match rt::random() % 4 {
            0 => 0,
            1 => rt::random(),
            2 => words[at] ^ 1 << (rt::random() % 64),
            _ => words[any()],
        };
        self.place.store(0, Ordering::Release);
        self.right.store(words[at], Ordering::Release);
        self.wrong.store(wrong, Ordering::Release);
        self.place.store(start + 8 * at, Ordering::Release);
    }
}

#[test]
fn rewriting_memory_during_a_receive_gains_nothing() {
    let target = Arc::new(Target::default());
    let hostile = Arc::clone(&target);
    let writes = rt::spawn("rewrites", move || hostile.rewrite()).unwrap();
    let messages = [5, 2_000].map(|count| ring(count).to_vec());
    // They stay until nobody writes there any more.
    let pools = [0, 1].map(|at| Pool::builder().class(messages[at].len(), 1).shareable().build());
    let pools = pools.map(Result::unwrap);
    let [few, many] = [0, 1].map(|at| rounds(&messages[at], &pools[at], &target));
    target.is_over.store(true, Ordering::Release);
    writes.join().unwrap();
    drop(pools);
    for Verdicts { accepted, refused } in [few, many] {
        assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
    }
}

struct Verdicts {
    accepted: usize,
    refused: usize,
}

/// Receives a ring from a peer that does not cooperate, whose memory is read in place.
fn rounds(message: &[u8], pool: &Pool, target: &Target) -> Verdicts {
    let ends = ends("shm");
    let mut verdicts = Verdicts { accepted: 0, refused: 0 };
    for _ in 0..ROUNDS {
        let mut buf = pool.take(message.len()).unwrap();
        buf.bytes_mut().copy_from_slice(message);
        target.aim(buf.bytes().as_ptr().addr(), message);
        let before = target.writes.load(Ordering::Acquire);
        while target.writes.load(Ordering::Acquire) == before {
            rt::sleep(Duration::from_micros(1));
        }
        ends.there.post_recv(Graph::<Ring>::descriptor(1 << 20)).unwrap();
        ends.here.post_send(Descriptor::new(buf)).unwrap();
        let got = ends.next(ends.there.recv_queue()).ok().unwrap();
        match Graph::<Ring>::from_words(got.into_vec()) {
            Ok(graph) => {
                verdicts.accepted += 1;
                assert_stable(&graph);
            }
            Err(refused) => {
                verdicts.refused += 1;
                let GraphError::Refused(refusal) = &refused.why else { panic!("{refused}") };
                assert!(refusal.offset < message.len(), "{refused}");
            }
        }
        drop(ends.next(ends.here.send_queue()).ok().unwrap());
    }
    target.place.store(0, Ordering::Release);
    verdicts
}

/// What was accepted stays right, and what it is, however often one looks.
fn assert_stable(graph: &Graph<Ring>) {
    let bytes = graph.to_vec();
    for _ in 0..2 {
        graph.check().unwrap();
        let mut at = graph.root_ref();
        for _ in 0..graph.len::<Ring>() {
            let Ring { next, load, .. } = graph[at];
            let _ = load.map(|load| graph[load].len());
            let Some(next) = next else { break };
            at = next;
        }
        assert_eq!(graph.iter::<Ring>().count(), graph.len::<Ring>());
        assert_eq!(graph.to_vec(), bytes, "it is private");
    }
}

const ROUNDS: usize = 2_000;
