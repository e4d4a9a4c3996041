//! Sharing keeps its shape; cycles; what cannot be.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, RwLock};

use super::{at_every_split, bytes_of};
use crate::fault::{Fault, caught};
use crate::{Reader, Wire, WireError, Writer};

#[derive(Wire, Debug)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) parent: Weak<Family>,
    pub(super) children: Vec<Rc<Family>>,
}

/// A father with `count` children who know him.
pub(super) fn family(count: usize) -> Rc<Family> {
    Rc::new_cyclic(|father| Family {
        name: "father".into(),
        parent: Weak::new(),
        children: (0..count)
            .map(|i| {
                Rc::new(Family { name: i.to_string(), parent: father.clone(), children: vec![] })
            })
            .collect(),
    })
}

#[derive(Wire, Debug, Default)]
pub(super) struct Link {
    pub(super) value: u32,
    pub(super) next: Option<Rc<RefCell<Link>>>,
}

/// `count` links in a ring.
pub(super) fn ring(count: u32) -> Rc<RefCell<Link>> {
    let first = Rc::new(RefCell::new(Link { value: 0, next: None }));
    let mut last = Rc::clone(&first);
    for value in 1..count {
        let link = Rc::new(RefCell::new(Link { value, next: None }));
        last.borrow_mut().next = Some(Rc::clone(&link));
        last = link;
    }
    last.borrow_mut().next = Some(Rc::clone(&first));
    first
}

pub(super) fn open(ring: &Rc<RefCell<Link>>) {
    ring.borrow_mut().next = None;
}

#[test]
fn what_was_one_is_one() {
    let (one, other) = (Rc::new(1_u32), Rc::new(1_u32));
    let value = vec![Rc::clone(&one), Rc::clone(&other), Rc::clone(&one), other, one];
    at_every_split(&bytes_of(&value), |read: Result<Vec<Rc<u32>>, _>| {
        let read = read.unwrap();
        assert_eq!(read, value);
        let same = |a: usize, b: usize| Rc::ptr_eq(&read[a], &read[b]);
        assert!(same(0, 2) && same(0, 4) && same(1, 3) && !same(0, 1));
        assert_eq!(Rc::strong_count(&read[0]), 3, "the reader keeps none");
    });
    let text: Arc<str> = "shared".into();
    let list: Arc<[Arc<str>]> = vec![Arc::clone(&text), text].into();
    let bytes = bytes_of(&(Arc::clone(&list), list));
    type Texts = Arc<[Arc<str>]>;
    let (a, b): (Texts, Texts) = Reader::new(&bytes).read_last().unwrap();
    assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&a[0], &b[1]) && &*a[1] == "shared");
}

#[test]
fn two_values_of_one_stream_share_nothing() {
    let shared = Rc::new(5_u8);
    let mut writer = Writer::new();
    writer.write(&shared).unwrap();
    writer.write(&shared).unwrap();
    let bytes = writer.to_vec();
    let mut reader = Reader::new(&bytes);
    let (a, b): (Rc<u8>, Rc<u8>) = (reader.read().unwrap(), reader.read_last().unwrap());
    assert!(!Rc::ptr_eq(&a, &b) && a == b);
}

#[test]
fn back_edges_may_be_weak() {
    at_every_split(&bytes_of(&family(3)), |read: Result<Rc<Family>, _>| {
        let father = read.unwrap();
        assert_eq!((&father.name[..], father.children.len()), ("father", 3));
        for child in &father.children {
            assert!(Rc::ptr_eq(&child.parent.upgrade().unwrap(), &father));
        }
        assert_eq!(Rc::strong_count(&father), 1, "the reader keeps none");
        assert_eq!(Rc::weak_count(&father), 3);
    });
}

#[test]
fn weak_references_before_strong_ones_and_to_nothing() {
    let shared = Rc::new(7_u64);
    let value = (Rc::downgrade(&shared), Weak::<u64>::new(), Rc::clone(&shared));
    let (before, dead, strong): (Weak<u64>, Weak<u64>, Rc<u64>) =
        Reader::new(&bytes_of(&value)).read_last().unwrap();
    assert!(Rc::ptr_eq(&before.upgrade().unwrap(), &strong) && dead.upgrade().is_none());
    let alone: Weak<u64> = Reader::new(&bytes_of(&Rc::downgrade(&shared))).read_last().unwrap();
    assert!(alone.upgrade().is_none(), "nobody holds it");
}

#[test]
fn strong_cycles_go_through_cells_with_a_default() {
    let ring_of_four = ring(4);
    at_every_split(&bytes_of(&ring_of_four), |read: Result<Rc<RefCell<Link>>, _>| {
        let first = read.unwrap();
        let mut at = Rc::clone(&first);
        for value in 0..4 {
            assert_eq!(at.borrow().value, value);
            let next = at.borrow().next.clone().unwrap();
            at = next;
        }
        assert!(Rc::ptr_eq(&at, &first));
        open(&first);
    });
    open(&ring_of_four);
}

#[derive(Wire, Debug, Default)]
struct Peer {
    peers: Vec<Arc<Mutex<Peer>>>,
    note: Cell<u8>,
}

#[test]
fn strong_cycles_go_through_locks() {
    let peer = Arc::new(Mutex::new(Peer { peers: vec![], note: Cell::new(3) }));
    peer.lock().unwrap().peers.push(Arc::clone(&peer));
    let read: Arc<Mutex<Peer>> = Reader::new(&bytes_of(&peer)).read_last().unwrap();
    assert!(Arc::ptr_eq(&read.lock().unwrap().peers[0], &read));
    assert_eq!(read.lock().unwrap().note.get(), 3);
    for peer in [&peer, &read] {
        let peers = std::mem::take(&mut peer.lock().unwrap().peers);
        drop(peers);
    }
    let lock = RwLock::new(vec![1_u8]);
    let read: RwLock<Vec<u8>> = Reader::new(&bytes_of(&lock)).read_last().unwrap();
    assert_eq!(*read.read().unwrap(), [1]);
}

/// Has no default, so a cycle through it cannot be closed.
#[derive(Wire, Debug)]
struct Stern {
    next: RefCell<Option<Rc<Stern>>>,
}

#[test]
fn any_other_strong_cycle_is_an_error() {
    let stern = Rc::new(Stern { next: RefCell::new(None) });
    *stern.next.borrow_mut() = Some(Rc::clone(&stern));
    let mut writer = Writer::new();
    let error = writer.write_copy(&stern).unwrap_err();
    assert!(matches!(error, WireError::StrongCycle(name) if name.ends_with("Stern")), "{error}");
    assert!(writer.is_empty(), "nothing half written");
    *stern.next.borrow_mut() = None;
    // A value that refers to itself, by number.
    let error = Reader::new(&[0, 0, 0, 0, 1, 1, 0, 0, 0]).read::<Rc<Stern>>().unwrap_err();
    assert!(matches!(error, WireError::StrongCycle(name) if name.ends_with("Stern")), "{error}");
}

#[test]
fn what_is_in_use_is_not_waited_for() {
    let (cell, lock) = (RefCell::new(1_u8), Mutex::new(2_u8));
    let (_borrowed, _locked) = (cell.borrow_mut(), lock.lock().unwrap());
    let mut writer = Writer::new();
    assert!(matches!(writer.write(&cell), Err(WireError::InUse(_))));
    assert!(matches!(writer.write(&lock), Err(WireError::InUse(_))));
}

#[test]
fn wrong_references_are_errors() {
    let read = |bytes: &[u8]| Reader::new(bytes).read::<Vec<Rc<u8>>>().unwrap_err();
    assert_eq!(read(&[1, 0, 0, 0, 9, 0, 0, 0]), WireError::NoSuchShared(8));
    let bytes = [0, 0, 0, 0, 5, 1, 0, 0, 0];
    let error = Reader::new(&bytes).read::<(Rc<u8>, Rc<u16>)>().unwrap_err();
    assert_eq!(error, WireError::SharedAsOther { id: 0, wanted: "u16" });
    let error = Reader::new(&bytes).read::<(Rc<u8>, Arc<u8>)>().unwrap_err();
    assert_eq!(error, WireError::SharedAsOther { id: 0, wanted: "u8" });
}

thread_local! {
    static LIVE: Cell<i32> = const { Cell::new(0) };
}

#[derive(Debug)]
struct Counted(u8);

impl Wire for Counted {
    const SIZE: crate::WireSize = crate::WireSize::at_least(1);
    fn describe(d: &mut crate::Describe) {
        d.word("counted");
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> crate::Written {
        w.array([self.0])
    }
}

impl<'a> crate::FromWire<'a> for Counted {
    fn read(r: &mut Reader<'a>) -> Result<Self, crate::Stop> {
        let [value] = r.array()?;
        LIVE.set(LIVE.get() + 1);
        Ok(Self(value))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
    }
}

#[derive(Wire, Debug, Default)]
struct Cyclic {
    counted: Option<Counted>,
    next: Option<Rc<RefCell<Cyclic>>>,
}

/// Reads a closed cycle with an error behind it, and asks what is left.
fn leaves_nothing() {
    // An Rc, a value, another Rc with a value, back to the first; then no bool.
    let bytes = [0, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0, 1, 6, 1, 1, 0, 0, 0, 9];
    let error = Reader::new(&bytes).read::<(Rc<RefCell<Cyclic>>, bool)>().unwrap_err();
    assert_eq!(error.to_string(), "the bytes are not a valid bool");
    assert_eq!(LIVE.get(), 0, "a cycle that was not handed out is gone");
}

#[test]
fn a_failed_read_leaves_no_cycle_behind() {
    leaves_nothing();
    assert!(caught(Fault::Leaked, leaves_nothing));
}

#[test]
fn an_error_within_shared_values_is_an_error_and_not_a_panic() {
    let bytes = bytes_of(&family(3));
    let calls = Rc::new(Cell::new(0));
    for len in 0..bytes.len() {
        assert!(Reader::new(&bytes[..len]).read::<Rc<Family>>().is_err(), "{len}");
        calls.set(calls.get() + 1);
    }
    assert_eq!(calls.get(), bytes.len());
}
