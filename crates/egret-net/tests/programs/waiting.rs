//! Several threads that wait on one nic: no message is lost, and all wake.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use egret_net::buf::Pool;
use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::rt::{self, Deadline, JoinHandle};
use egret_net::vi::{Address, Descriptor, Nic, NicOptions, Trust, Vi, ViError, ViOptions, Wait};

const MODES: [Wait; 3] = [Wait::Spin, Wait::Balanced, Wait::Frugal];
const THREADS: u64 = 4;
const MESSAGES: u64 = 40;
/// Turns a wait for ever into a failure.
const LONG: Deadline = Deadline::In(PATIENCE);
const PATIENCE: Duration = Duration::from_secs(30);
/// Ends a thread.
const STOP: u64 = u64::MAX;

/// Runs `body` in each mode.
fn in_each_mode(body: impl Fn(Wait)) {
    for wait in MODES {
        let started = rt::now();
        body(wait);
        // A wake-up that was lost is made up for by the deadline of what was waited for.
        let waited = rt::now() - started;
        assert!(waited < PATIENCE, "{wait:?} took {waited:?}");
    }
}

fn nics(wait: Wait) -> (Nic, Nic) {
    let unique = rt::random();
    let open = |name: &str| {
        let name = format!("{name}-{}-{unique}", std::process::id());
        ShmFabric.open(&NicOptions::new(&name).wait(wait)).unwrap()
    };
    (open("here"), open("there"))
}

/// One more connection, with these options at the other end.
fn connect(here: &Nic, there: &Nic, options: &ViOptions) -> (Vi, Vi) {
    let listener = there.listen("waiting", 0, options).unwrap();
    let to = Address::new(there.host(), "waiting", 0);
    let here = here.clone();
    let connected = thread(move || here.wait_connect(&to, &ViOptions::default(), LONG).unwrap());
    let accepted = listener.wait_accept(LONG).unwrap();
    (connected.join().unwrap(), accepted)
}

fn thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    rt::spawn("waiting", body).unwrap()
}

/// A message of nothing but its tag, out of the door.
fn send(vi: &Vi, tag: u64) {
    vi.post_send(Descriptor::empty().with_tag(tag)).unwrap();
    vi.send_queue().wait(LONG).unwrap().done().unwrap();
}

#[test]
fn each_on_its_own_queue() {
    in_each_mode(|wait| {
        let (here, there) = nics(wait);
        let mut ends = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let (end, vi) = connect(&here, &there, &ViOptions::default());
            ends.push(end);
            threads.push(thread(move || {
                vi.post_recv(Descriptor::empty()).unwrap();
                for message in 0..MESSAGES {
                    let got = vi.recv_queue().wait(LONG).unwrap().ok().unwrap();
                    assert_eq!(got.tag, message, "in order, none lost");
                    vi.post_recv(got.into_descriptor()).unwrap();
                }
            }));
        }
        for message in 0..MESSAGES {
            ends.iter().for_each(|end| send(end, message));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn several_on_one_queue() {
    in_each_mode(|wait| {
        let (here, there) = nics(wait);
        let queue = there.completion_queue(1024);
        let options = ViOptions { recv_queue: Some(queue.clone()), ..ViOptions::default() };
        let pairs: Vec<_> = (0..3).map(|_| connect(&here, &there, &options)).collect();
        let posts = MESSAGES + THREADS;
        for (_, vi) in &pairs {
            (0..posts).for_each(|_| _ = vi.post_recv(Descriptor::empty()).unwrap());
        }
        let got = Arc::new(Mutex::new(BTreeSet::new()));
        let threads = (0..THREADS).map(|_| {
            let (queue, got) = (queue.clone(), Arc::clone(&got));
            thread(move || {
                loop {
                    let tag = queue.wait(LONG).unwrap().ok().unwrap().tag;
                    if tag == STOP {
                        return;
                    }
                    assert!(got.lock().unwrap().insert(tag), "{tag} came twice");
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        for message in 0..MESSAGES {
            let (end, _) = &pairs[usize::try_from(message % 3).unwrap()];
            send(end, message);
        }
        (0..THREADS).for_each(|_| send(&pairs[0].0, STOP));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*got.lock().unwrap(), (0..MESSAGES).collect(), "{wait:?}");
    });
}

/// What is waited for is posted later, by somebody else.
#[test]
fn one_waits_while_another_posts() {
    in_each_mode(|wait| {
        let (here, there) = nics(wait);
        let (end, vi) = connect(&here, &there, &ViOptions::default());
        let (vi, end) = (Arc::new(vi), Arc::new(end));
        let receiver = {
            let queue = vi.recv_queue().clone();
            thread(move || (0..MESSAGES).map(|_| queue.wait(LONG).unwrap().tag).collect::<Vec<_>>())
        };
        let sender = {
            let queue = end.send_queue().clone();
            thread(move || (0..MESSAGES).for_each(|_| queue.wait(LONG).unwrap().done().unwrap()))
        };
        for message in 0..MESSAGES {
            // Now the one is waited for, now the other.
            let send = || end.post_send(Descriptor::empty().with_tag(message)).unwrap();
            let receive = || vi.post_recv(Descriptor::empty()).unwrap();
            if message % 2 == 0 {
                send();
                rt::sleep(Duration::from_micros(message * 20));
                receive();
            } else {
                receive();
                rt::sleep(Duration::from_micros(message * 20));
                send();
            }
        }
        sender.join().unwrap();
        assert_eq!(receiver.join().unwrap(), (0..MESSAGES).collect::<Vec<_>>(), "{wait:?}");
    });
}

/// A message of more pieces than are taken at once waits for a receive; the one
/// that posts it does nothing more, and the one that waits sleeps.
#[test]
fn a_long_message_arrives_though_only_the_poster_is_awake() {
    const PIECES: usize = 64;
    in_each_mode(|wait| {
        let (here, there) = nics(wait);
        let (end, vi) = connect(&here, &there, &ViOptions::default());
        let pool = Pool::builder().class(64, 2 * PIECES).shareable().build().unwrap();
        // Counted on by the sender, and then taken back.
        let taken_back = vi.post_recv(Descriptor::fresh(64 * PIECES as u64)).unwrap();
        let mut descriptor = Descriptor::new(pool.take(64).unwrap()).with_tag(7);
        for _ in 1..PIECES {
            descriptor = descriptor.and(pool.take(64).unwrap());
        }
        (0..8).for_each(|_| _ = here.poll());
        assert!(vi.cancel(taken_back));
        assert_eq!(vi.recv_queue().wait(LONG).unwrap().status, Err(ViError::Cancelled));
        end.post_send(descriptor).unwrap();
        (0..8).for_each(|_| _ = here.poll());
        let waiting = {
            let queue = vi.recv_queue().clone();
            thread(move || queue.wait(LONG).unwrap().ok().unwrap().tag)
        };
        // Long enough to be asleep on any machine that is not too busy; else the
        // test says nothing, and nothing wrong.
        rt::sleep(Duration::from_millis(50));
        vi.post_recv(Descriptor::fresh(64 * PIECES as u64)).unwrap();
        assert_eq!(waiting.join().unwrap(), 7);
        drop(end);
    });
}

/// Threads that run futures are woken by whoever wakes them, though nothing
/// happens on the nic.
#[test]
fn a_wake_ends_the_waits_of_all() {
    #[derive(Default)]
    struct Gate {
        open: bool,
        wakers: Vec<Waker>,
    }
    in_each_mode(|wait| {
        let (nic, _other) = nics(wait);
        let gate = Arc::new(Mutex::new(Gate::default()));
        let threads = (0..THREADS).map(|_| {
            let (nic, gate) = (nic.clone(), Arc::clone(&gate));
            thread(move || {
                nic.block_on(poll_fn(|context| {
                    let mut gate = gate.lock().unwrap();
                    gate.wakers.push(context.waker().clone());
                    if gate.open { Poll::Ready(()) } else { Poll::Pending }
                }));
            })
        });
        let threads: Vec<_> = threads.collect();
        while gate.lock().unwrap().wakers.len() < usize::try_from(THREADS).unwrap() {
            rt::sleep(Duration::from_millis(1));
        }
        rt::sleep(Duration::from_millis(5));
        let mut open = gate.lock().unwrap();
        open.open = true;
        let wakers = std::mem::take(&mut open.wakers);
        drop(open);
        wakers.into_iter().for_each(Waker::wake);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The end of a connection is something to wake up for, though nothing is posted
/// on it.
#[test]
fn an_end_wakes_who_waits_for_it() {
    in_each_mode(|wait| {
        let (here, there) = nics(wait);
        for by_itself in [true, false] {
            let (end, vi) = connect(&here, &there, &ViOptions::default());
            let vi = Arc::new(vi);
            let waiting = {
                let (there, vi) = (there.clone(), Arc::clone(&vi));
                thread(move || {
                    let until = rt::now() + PATIENCE;
                    loop {
                        let seen = there.poll();
                        if vi.error().is_some() || rt::now() >= until {
                            return;
                        }
                        there.wait(seen, Some(until));
                    }
                })
            };
            rt::sleep(Duration::from_millis(5));
            if by_itself {
                vi.disconnect();
            } else {
                drop(end);
            }
            waiting.join().unwrap();
            assert!(vi.error().is_some());
        }
    });
}

/// A handler runs in the waits of others, and its panic is not theirs: neither in a sleep nor
/// while its thread spins.
#[test]
fn a_handler_that_panics_does_not_unwind_through_the_wait_of_another() {
    in_each_mode(|wait| {
        let (here, there) = nics(wait);
        let (to_handler, handled) = connect(&here, &there, &ViOptions::default());
        let (to_waiter, waited_on) = connect(&here, &there, &ViOptions::default());
        let (say, hear) = std::sync::mpsc::channel();
        handled.recv_queue().notify(move |completion| {
            say.send(completion.tag).unwrap();
            panic!("of tag {}", completion.tag);
        });
        for _ in 0..2 {
            handled.post_recv(Descriptor::empty()).unwrap();
        }
        waited_on.post_recv(Descriptor::empty()).unwrap();
        let waiter = thread(move || waited_on.recv_queue().wait(LONG).unwrap().ok().unwrap().tag);
        for tag in [1, 2] {
            send(&to_handler, tag);
            assert_eq!(hear.recv().unwrap(), tag, "the handler stays");
        }
        send(&to_waiter, 3);
        assert_eq!(waiter.join().unwrap(), 3, "the wait of another");
    });
}

/// A connection of two nics that cooperate: both are driven until it is made.
fn cooperate(here: &Nic, there: &Nic) -> (Vi, Vi) {
    let listener = there.listen("long", 0, &ViOptions::default()).unwrap();
    let (here, to) = (here.clone(), Address::new(there.host(), "long", 0));
    let connected = thread(move || here.wait_connect(&to, &ViOptions::default(), LONG).unwrap());
    let accepted = listener.wait_accept(LONG).unwrap();
    (connected.join().unwrap(), accepted)
}

/// A blocking receive looks at its deadline between the pieces of a message, and when it
/// returns the fabric has done with the slice.
#[test]
fn a_long_copy_ends_with_its_deadline() {
    let [here, there] = ["here", "there"].map(|name| {
        let name = format!("{name}-{}-{}", std::process::id(), rt::random());
        ShmFabric.open(&NicOptions::new(&name).trust(Trust::Cooperating)).unwrap()
    });
    let bytes = 64 << 20;
    let pool = Pool::builder().class(bytes, 1).shareable().build().unwrap();
    let commons = Pool::builder().class(bytes, 1).cooperating().build().unwrap();
    for way in ["from a region", "from the heap", "handed over"] {
        let send = |vi: &Vi| {
            let filled = |pool: &Pool| {
                let mut buf = pool.wait_take(bytes, LONG).unwrap();
                buf.bytes_mut().fill(1);
                buf
            };
            let sent = match way {
                "from a region" => vi.post_send(Descriptor::new(filled(&pool))),
                "from the heap" => vi.post_send(Descriptor::new(vec![1_u8; bytes])),
                _ => vi.hand_over(filled(&commons), 0),
            };
            sent.unwrap();
        };
        let mut into = vec![0_u8; bytes];
        for deadline in [Deadline::In(Duration::ZERO), LONG] {
            let (sender, receiver) = cooperate(&here, &there);
            // A receive that is taken back: the sender counts on it, and begins at once.
            let promised = receiver.post_recv(Descriptor::empty()).unwrap();
            assert!(receiver.cancel(promised));
            send(&sender);
            let got = receiver.recv_into(&mut into, deadline);
            if deadline != Deadline::In(Duration::ZERO) {
                assert_eq!(got.unwrap().0, bytes);
                assert!(into.iter().all(|byte| *byte == 1), "all of it came");
                drop(sender.send_queue().wait(LONG).unwrap().ok().unwrap());
                continue;
            }
            let is_late = matches!(got, Err(ViError::TransferTimedOut { broken: true, .. }));
            assert!(is_late, "{way}: {got:?}");
            let copied = into.iter().filter(|byte| **byte == 1).count();
            assert!((1..=bytes / 2).contains(&copied), "{way}: {copied} bytes were copied");
            into.fill(0);
            let sent = sender.send_queue().wait(LONG).unwrap();
            assert_eq!(sent.status, Err(ViError::ClosedByPeer));
            there.poll();
            assert!(into.iter().all(|byte| *byte == 0), "the slice is its owner's again");
        }
    }
}
