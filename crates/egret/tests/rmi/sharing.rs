//! Objects that the program keeps a handle to, and that have several interfaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use egret::rmi::{CallError, Export, Remoting};

use crate::grid::pool;

#[egret::remote]
trait Reads {
    fn get(&self) -> u64;
}

#[egret::remote]
trait Writes {
    fn set(&self, value: u64);
}

#[egret::remote]
trait Resets {
    fn reset(&mut self) -> u64;
}

#[derive(Default)]
struct Cell(AtomicU64);

#[egret::remote]
impl Reads for Cell {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[egret::remote]
impl Writes for Cell {
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

#[egret::remote]
impl Resets for Cell {
    fn reset(&mut self) -> u64 {
        std::mem::take(self.0.get_mut())
    }
}

#[test]
fn a_program_keeps_its_handle_to_an_object_of_two_interfaces() {
    let (_registry, nodes) = pool(2, "shm");
    let cell = Arc::new(Cell::default());
    let reads = nodes[0].export::<dyn Reads>(Arc::clone(&cell)).unwrap();
    let how = Export::default().bytes_max(1 << 20);
    let writes = nodes[0].export_with::<dyn Writes>(Arc::clone(&cell), how).unwrap();
    assert_eq!(reads.object().interface, "Reads");
    assert_eq!(writes.object().interface, "Writes");
    for node in &nodes {
        let (get, set): (ReadsStub, WritesStub) =
            (node.stub(reads.object()), node.stub(writes.object()));
        set.set(5).unwrap();
        assert_eq!((get.get(), cell.get()), (Ok(5), 5));
        cell.set(6);
        assert_eq!(get.get(), Ok(6));
        let other: ReadsStub = node.stub(writes.object());
        assert!(matches!(other.get(), Err(CallError::OtherInterface { .. })));
    }
    drop((reads, writes));
    assert_eq!(cell.get(), 6, "the program's handle is as good as before");
}

#[test]
fn a_value_of_three_interfaces_is_exported_as_the_one_that_is_named() {
    let (_registry, nodes) = pool(1, "shm");
    let exported = nodes[0].export::<dyn Resets>(Cell(AtomicU64::new(9))).unwrap();
    let stub: ResetsStub = nodes[0].stub(exported.object());
    assert_eq!((stub.reset(), stub.reset()), (Ok(9), Ok(0)));
    // With one interface nothing is named.
    let only = nodes[0].export(Arc::new(Only)).unwrap();
    assert_eq!(nodes[0].stub::<ReadsStub>(only.object()).get(), Ok(1));
}

struct Only;

#[egret::remote]
impl Reads for Only {
    fn get(&self) -> u64 {
        1
    }
}
