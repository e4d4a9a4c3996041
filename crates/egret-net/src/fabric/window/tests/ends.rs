//! What becomes of posts when one of two ends goes, and what is kept for a peer.

use std::sync::Arc;

use super::super::datapath::DataPath;
use super::super::driver::Driver;
use super::super::lanes::{Window, WindowLane, WindowTerms, WindowTiming, seal};
use super::super::send::Parcel;
use super::super::wire::WindowFrame;
use crate::buf::Pool;
use crate::fabric::common::connection_end::OpenEnd;
use crate::fabric::common::eager::{DrainedUnits, EagerIn};
use crate::fabric::sim::Sim;
use crate::fabric::{Machine, ViSpec};
use crate::rt::Instant;
use crate::vi::{
    self, Access, AccessError, Below, Descriptor, Keys, Notices, Op, Reliability, RemoteKey,
    RemoteSlice, Ticket, ViError, ViId,
};

const NOW: Instant = Instant::from_nanos(1_000_000);
const DATAGRAM: usize = 1400;

/// An end, and what was posted to it.
struct End {
    conn: DataPath,
    posts: Below,
    keys: Arc<Keys>,
    notices: Notices,
}

impl End {
    fn new(keys: &Arc<Keys>) -> Self {
        let (posts, keys) = (Below::new(), Arc::clone(keys));
        let ViSpec { vi, drain, .. } = ViSpec::new(Reliability::Delivery, 1);
        let conn = DataPath::new(DATAGRAM, EagerIn::new(vi, drain));
        Self { conn, posts, keys, notices: Notices::default() }
    }

    fn post(&mut self, op: Op, len: usize) -> Ticket {
        let posted = self.posts.post(ViId::unused(), op, Descriptor::new(vec![7_u8; len]));
        let ticket = posted.ticket();
        self.conn.post(posted).expect("it has room");
        ticket
    }

    /// All that it has to say now.
    fn say(&mut self) -> Vec<Vec<u8>> {
        self.conn.feed(NOW, &self.keys, true);
        datagrams(&mut self.conn.window)
    }

    fn hear(&mut self, datagrams: &[Vec<u8>]) -> Result<(), ViError> {
        for datagram in datagrams {
            self.conn.hear(NOW, datagram, &self.keys, &mut self.notices)?;
        }
        Ok(())
    }

    /// Ends. What is said last, and what came back.
    fn end(mut self, why: &ViError) -> (Vec<Vec<u8>>, Vec<Result<(), ViError>>) {
        let left = self.conn.fail(why, &mut self.notices);
        let last = left.leaving.map_or(vec![], |mut leaving| datagrams(&mut leaving.window));
        let back = std::iter::from_fn(|| self.posts.take()).map(|it| it.status.clone()).collect();
        (last, back)
    }
}

fn datagrams(window: &mut Window<Parcel>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    std::iter::from_fn(|| window.poll_datagram(NOW, &mut out).then(|| out.clone())).collect()
}

fn pair(keys: &Arc<Keys>) -> [End; 2] {
    [End::new(keys), End::new(keys)]
}

fn nowhere() -> RemoteSlice {
    RemoteKey::of(5).at(0)
}

/// What was taken is so, though the other end closes before it has said so.
#[test]
pub(super) fn what_was_taken_before_the_end_is_known_with_it() {
    let [mut a, mut b] = pair(&Arc::default());
    b.post(Op::Recv, 100);
    a.hear(&b.say()).unwrap();
    a.post(Op::Send, 100);
    a.post(Op::Write { to: nowhere(), notify: false }, 100);
    a.post(Op::Send, 100);
    b.hear(&a.say()).unwrap();
    let (last, received) = b.end(&ViError::Closed);
    assert_eq!(received, [Ok(())]);
    assert_eq!(a.hear(&last), Err(ViError::ClosedByPeer));
    let (_, sent) = a.end(&ViError::ClosedByPeer);
    let refused = Err(ViError::RemoteAccess(AccessError::Revoked));
    assert_eq!(sent.len(), 3);
    assert!(sent.contains(&Ok(())) && sent.contains(&refused), "{sent:?}");
}

/// An answer says how far its sender is, even if there is no receive for it.
#[test]
fn how_far_an_end_is_goes_with_its_message() {
    let [mut a, mut b] = pair(&Arc::default());
    let receive = a.post(Op::Recv, 100);
    b.post(Op::Recv, 100);
    let (hello, other) = (a.say(), b.say());
    b.hear(&hello).unwrap();
    a.hear(&other).unwrap();
    a.post(Op::Send, 4);
    b.hear(&a.say()).unwrap();
    b.post(Op::Send, 4);
    b.conn.feed(NOW, &b.keys, false);
    assert_eq!(b.conn.window.waiting(WindowLane::Control), 0, "nothing but the message");
    let answer = datagrams(&mut b.conn.window);
    assert_eq!(answer.len(), 1);
    assert!(a.conn.cancel(receive, &mut a.notices) && a.posts.take().is_some());
    a.hear(&answer).unwrap();
    assert!(a.conn.window.is_held(), "the message waits for a receive");
    assert_eq!(a.posts.take().map(|it| it.status.clone()), Some(Ok(())), "the send is complete");
    a.post(Op::Recv, 100);
    a.conn.resume(NOW, &a.keys, &mut a.notices).unwrap();
    assert_eq!(a.posts.take().map(|it| it.status.clone()), Some(Ok(())));
}

/// A datagram acknowledges a message, and lies about a later lane.
#[test]
pub(super) fn what_a_hostile_peer_acknowledges_comes_back() {
    let [mut a, mut b] = pair(&Arc::default());
    b.post(Op::Recv, 100);
    a.hear(&b.say()).unwrap();
    a.post(Op::Send, 100);
    b.hear(&a.say()).unwrap();
    let mut lie = b.say().remove(0);
    // The lane of answers: pieces that were never sent.
    lie[28] = 1;
    seal(&mut lie);
    let why = a.hear(&[lie]).unwrap_err();
    assert_eq!(why, ViError::Protocol("an acknowledgement of what was never sent"));
    let (_, back) = a.end(&why);
    assert_eq!(back, [Err(why)]);
}

/// A write of several pieces with a notice, whose receive the program wants back meanwhile.
#[test]
fn a_receive_that_a_write_consumes_is_not_to_be_had_back() {
    let nic = Sim::new(1).windowed_nic("a");
    let pool = Pool::new(4096, 1).unwrap();
    let memory = nic.expose(pool.take(4096).unwrap(), Access::WRITE).unwrap();
    let keys = nic.inside(|machine: &mut Driver, _| Arc::clone(machine.keys()));
    for (to, placed) in [(memory.key().at(0), true), (nowhere(), false)] {
        let [mut a, mut b] = pair(&keys);
        let receive = b.post(Op::Recv, 0);
        a.hear(&b.say()).unwrap();
        a.post(Op::Write { to, notify: true }, 4096);
        let said = a.say();
        let (last, first) = said.split_last().unwrap();
        b.hear(first).unwrap();
        assert!(!b.conn.cancel(receive, &mut b.notices), "a write has begun to consume it");
        b.hear(std::slice::from_ref(last)).unwrap();
        assert_eq!(b.posts.take().map(|it| it.status.clone()), placed.then_some(Ok(())));
        a.hear(&b.say()).unwrap();
        assert_eq!(a.posts.take().map(|it| it.status.is_ok()), Some(placed));
        // It is there for another.
        assert_eq!(b.conn.cancel(receive, &mut b.notices), !placed);
    }
    // The connection ends in the middle.
    let [mut a, mut b] = pair(&keys);
    b.post(Op::Recv, 0);
    a.hear(&b.say()).unwrap();
    a.post(Op::Write { to: memory.key().at(0), notify: true }, 4096);
    b.hear(&a.say()[..1]).unwrap();
    assert_eq!(b.end(&ViError::Closed).1, [Err(ViError::Closed)]);
}

/// A peer that writes and does not acknowledge the answers.
#[test]
pub(super) fn answers_to_writes_take_bounded_memory() {
    let terms = WindowTerms {
        messages: 64,
        bytes: 1 << 18,
        datagram: DATAGRAM,
        pace: WindowTiming::default(),
    };
    let mut liar: Window<Parcel> = Window::new(terms);
    let mut victim = End::new(&Arc::default());
    for id in 0..1000 {
        liar.send(
            WindowLane::Posted,
            Parcel::new(id, &WindowFrame::Write { secret: 1, offset: 0, notify: None }),
        );
    }
    let mut heard = Ok(());
    while liar.kept(WindowLane::Posted) > 0 && heard.is_ok() {
        let said = datagrams(&mut liar);
        assert!(!said.is_empty(), "it is told that they have come");
        heard = victim.hear(&said);
        for datagram in victim.say() {
            liar.acknowledged(NOW, &datagram).unwrap();
        }
    }
    assert_eq!(heard, Err(ViError::Protocol("more requests than may be outstanding")));
}

/// A peer that drains eager messages and does not acknowledge them.
#[test]
pub(super) fn eager_messages_take_bounded_memory() {
    let terms = WindowTerms {
        messages: 64,
        bytes: 1 << 18,
        datagram: DATAGRAM,
        pace: WindowTiming::default(),
    };
    let mut liar: Window<Parcel> = Window::new(terms);
    let mut victim = End::new(&Arc::default());
    for count in 1..100_000 {
        victim.conn.send(vi::Lane::Talk, 0, &[]).expect("it says that it drains");
        if victim.conn.is_flooded() {
            assert!(victim.conn.window.kept(WindowLane::Eager) > 4608, "it may be honest");
            return;
        }
        let drained = WindowFrame::Counts(0, DrainedUnits(count));
        liar.send(WindowLane::Control, Parcel::new(0, &drained));
        let said = datagrams(&mut liar);
        victim.hear(&said).unwrap();
        for datagram in victim.say() {
            let _ = liar.acknowledged(NOW, &datagram);
        }
    }
    panic!("all are kept");
}
