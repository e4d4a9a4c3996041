//! Completion queues, handlers and blocking calls where they are used in ways
//! that nobody should, and somebody will.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::buf::Pool;
use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline};
use egret_net::vi::{Access, Address, ConnectError, Descriptor, Nic, Vi, ViError, ViOptions};

fn connect(a: &Nic, b: &Nic, options: &ViOptions) -> (Vi, Vi) {
    let listener = b.listen("test", 0, &ViOptions::default()).unwrap();
    let connecting = a.connect(&Address::new(b.host(), "test", 0), options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
    (a.block_on(connecting).unwrap(), there)
}

fn pair(sim: &Sim) -> (Nic, Nic, Vi, Vi) {
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let (here, there) = connect(&a, &b, &ViOptions::default());
    (a, b, here, there)
}

#[test]
fn a_handler_that_owns_its_connection_can_be_replaced() {
    let sim = Sim::new(1);
    let (_a, _b, here, _there) = pair(&sim);
    let queue = here.recv_queue().clone();
    here.post_recv(Descriptor::fresh(8)).unwrap();
    queue.notify(move |done| drop(here.post_recv(done.into_descriptor())));
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    queue.notify(move |done| {
        assert_eq!(done.status, Err(ViError::Closed));
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(told.load(Ordering::Relaxed), 1, "the old handler's connection was closed");
    queue.unnotify();
}

#[test]
fn a_panicking_handler_stays_and_others_are_called() {
    let sim = Sim::new(2);
    let (a, b, here, there) = pair(&sim);
    let (other, _) = connect(&a, &b, &ViOptions::default());
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    here.recv_queue().notify(move |_| {
        assert!(count.fetch_add(1, Ordering::Relaxed) > 0, "only the first call panics");
    });
    for vi in [&here, &other] {
        vi.post_recv(Descriptor::fresh(8)).unwrap();
    }
    sim.crash("a");
    assert_eq!(calls.load(Ordering::Relaxed), 1, "the handler ran, and its panic ended there");
    assert_eq!(other.recv_queue().poll().unwrap().status, Err(ViError::NicDown));
    drop((here, there));

    let (_a, _b, here, there) = pair(&sim);
    let count = Arc::clone(&calls);
    here.recv_queue().notify(move |_| {
        assert!(count.fetch_add(1, Ordering::Relaxed) > 1, "the second call panics");
    });
    for _ in 0..2 {
        here.post_recv(Descriptor::fresh(8)).unwrap();
        there.post_send(Descriptor::empty()).unwrap();
    }
    sim.run_until(sim.elapsed() + Duration::from_secs(1));
    assert_eq!(calls.load(Ordering::Relaxed), 3, "the handler was put back");
}

#[test]
fn a_replaced_handler_that_still_runs_does_not_come_back() {
    let sim = Sim::new(3);
    let (_a, _b, here, there) = pair(&sim);
    let said = Arc::new(Mutex::new(Vec::new()));
    let queue = here.recv_queue().clone();
    let (again, first, second) = (queue.clone(), Arc::clone(&said), Arc::clone(&said));
    queue.notify(move |_| {
        first.lock().unwrap().push("old");
        let second = Arc::clone(&second);
        again.notify(move |_| second.lock().unwrap().push("new"));
    });
    for _ in 0..3 {
        here.post_recv(Descriptor::fresh(8)).unwrap();
        there.post_send(Descriptor::empty()).unwrap();
        drop(there.send_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap());
    }
    assert_eq!(*said.lock().unwrap(), ["old", "new", "new"]);
    queue.unnotify();
}

#[test]
fn an_abandoned_accept_keeps_nothing() {
    let sim = Sim::new(4);
    let nic = sim.nic("a");
    let listener = nic.listen("test", 0, &ViOptions::default()).unwrap();
    let gave_up = nic.block_on(async {
        let mut accept = std::pin::pin!(listener.accept());
        std::future::poll_fn(|context| std::task::Poll::Ready(accept.as_mut().poll(context))).await
    });
    assert!(gave_up.is_pending());
    drop(nic);
    drop(listener);
    assert!(sim.nic("b").listen("test", 0, &ViOptions::default()).is_ok());
}

#[test]
fn a_queue_of_another_nic_is_refused() {
    let sim = Sim::new(5);
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let send_queue = Some(b.completion_queue(8));
    let options = ViOptions { send_queue, ..ViOptions::default() };
    assert!(a.listen("test", 0, &options).is_err());
    let refused = a.wait_connect(&Address::new("b", "test", 0), &options, Deadline::NOW);
    assert_eq!(refused.unwrap_err(), ConnectError::OtherNic);
}

#[test]
fn an_endless_wait_for_nothing_ends() {
    let sim = Sim::new(6);
    let (_a, _b, here, there) = pair(&sim);
    assert_eq!(here.send_queue().wait(Deadline::UntilDead).unwrap_err(), ViError::NothingPosted);
    there.post_recv(Descriptor::fresh(8)).unwrap();
    here.post_send(Descriptor::empty()).unwrap();
    drop(here.send_queue().wait(Deadline::UntilDead).unwrap().ok().unwrap());
}

#[test]
fn a_ticket_is_good_for_its_own_connection_only() {
    let sim = Sim::new(7);
    let (a, b, here, _there) = pair(&sim);
    let (other, _) = connect(&a, &b, &ViOptions::default());
    let ticket = here.post_recv(Descriptor::fresh(8)).unwrap();
    other.post_recv(Descriptor::fresh(8)).unwrap();
    assert!(!other.cancel(ticket));
    assert!(here.cancel(ticket));
    assert!(!here.cancel(ticket), "once");
}

#[test]
fn a_receive_taken_back_does_not_hold_up_remote_reads() {
    let sim = Sim::new(8);
    let (_a, b, here, there) = pair(&sim);
    let pool = Pool::new(64, 4).unwrap();
    let exposed = b.expose(pool.take(8).unwrap(), Access::READ).unwrap();
    exposed.write_at(0, b"readable");
    let deadline = Deadline::In(Duration::from_millis(10));
    let timed_out = here.recv_into(&mut [0_u8; 8], deadline).unwrap_err();
    assert!(matches!(timed_out, ViError::TransferTimedOut { broken: false, .. }), "{timed_out}");
    there.post_send(Descriptor::new(vec![5_u8; 8])).unwrap();
    here.post_read(Descriptor::new(vec![0_u8; 8]), exposed.key().at(0)).unwrap();
    let read = here.send_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
    assert_eq!(read.into_vec::<u8>(), b"readable");
    assert_eq!(here.recv::<u8>(8, Deadline::DEFAULT).unwrap().0, [5; 8]);
}

#[test]
fn half_an_element_is_an_error_that_says_so() {
    let sim = Sim::new(9);
    let (_a, _b, here, there) = pair(&sim);
    here.post_send(Descriptor::new(vec![1_u8; 7])).unwrap();
    let partial = there.recv::<u32>(4, Deadline::DEFAULT).unwrap_err();
    assert_eq!(partial, ViError::PartialElement { bytes: 7, element: 4 });
}

#[test]
fn worlds_may_be_left_in_any_order() {
    let (outer, inner) = (Sim::new(10), Sim::new(11));
    inner.run_until(Duration::from_secs(5));
    drop(outer);
    assert_eq!(rt::now(), rt::Instant::from_nanos(5_000_000_000));
    drop(inner);
}

#[test]
fn long_waits_with_an_end_are_no_stall() {
    let sim = Sim::new(12);
    let (_a, _b, here, there) = pair(&sim);
    here.post_recv(Descriptor::fresh(8)).unwrap();
    let before = sim.events();
    let waited = here.recv_queue().wait(Deadline::In(Duration::from_secs(7200))).unwrap_err();
    assert!(matches!(waited, ViError::NoCompletion { .. }), "{waited}");
    let events = sim.events() - before;
    assert!(events < 4 * 7200, "{events} events to keep one connection alive for two hours");
    there.post_send(Descriptor::empty()).unwrap();
    drop(here.recv_queue().wait(Deadline::UntilDead).unwrap().ok().unwrap());
}

#[test]
fn a_message_is_not_taken_for_elements_of_another_type() {
    let sim = Sim::new(13);
    let (_a, _b, here, there) = pair(&sim);
    let pool = Pool::new(64, 4).unwrap();
    there.post_recv(Descriptor::new(pool.take(64).unwrap())).unwrap();
    here.post_send(Descriptor::typed(pool.take_typed::<f64>(3).unwrap())).unwrap();
    let got = there.recv_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
    let refused = got.into_typed::<u32>().unwrap_err();
    let said = refused.why.to_string();
    assert!(said.contains("f64") && said.contains("u32"), "{said}");
    assert_eq!(refused.what.len(), 24);
}

#[test]
fn a_thread_of_the_machine_cannot_wait_in_a_simulated_world() {
    let sim = Sim::new(14);
    let (_a, _b, here, _there) = pair(&sim);
    let waited = std::thread::Builder::new();
    #[expect(clippy::disallowed_methods, reason = "what a program could do")]
    let waited = waited.spawn(move || here.recv_queue().wait(Deadline::DEFAULT).is_err());
    let said = *waited.unwrap().join().unwrap_err().downcast::<&str>().unwrap();
    assert!(said.contains("threads of its own"), "{said}");
}

#[test]
fn faults_of_nodes_that_do_not_exist_are_mistakes() {
    let sim = Sim::new(15);
    let _a = sim.nic("a");
    for mistake in [
        || Sim::new(16).crash("b"),
        || Sim::new(16).partition(&["a"], &["b"]),
        || drop(Sim::new(16).links().loss(5.0)),
    ] {
        assert!(catch_unwind(mistake).is_err());
    }
}

#[test]
fn a_deadline_that_panics_leaves_everything_as_it_was() {
    struct Panics;
    impl From<Panics> for Deadline {
        fn from(_: Panics) -> Self {
            panic!("no deadline");
        }
    }
    let sim = Sim::new(1);
    let (_a, _b, here, there) = pair(&sim);
    let mut into = [0_u64; 4];
    let panics = |call: &mut dyn FnMut()| {
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    };
    panics(&mut || drop(here.send_pinned(&[1_u64; 4], 1, Panics)));
    panics(&mut || drop(here.send_copy(&[2_u64; 4], 2, Panics)));
    panics(&mut || drop(there.recv_into(&mut into, Panics)));
    panics(&mut || drop(there.recv::<u64>(4, Panics)));
    here.post_send(Descriptor::new(vec![3_u64; 4]).with_tag(3)).unwrap();
    panics(&mut || drop(here.send_queue().wait(Panics)));
    let (_, tag) = there.recv_into(&mut into, Deadline::DEFAULT).unwrap();
    assert_eq!((tag, into), (3, [3; 4]), "nothing was sent or posted before it");
    here.send_queue().wait(Deadline::DEFAULT).unwrap().done().unwrap();
}
