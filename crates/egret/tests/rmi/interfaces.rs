//! A stub calls objects of its own interface and no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use egret::node::{Node, NodeHandle};
use egret::rmi::{CallError, ObjectRef, Remoting};

use crate::awaited::block_on;
use crate::grid::{SOON, pool};

#[egret::remote]
trait Reads {
    fn get(&self, key: u64) -> u64;
    #[oneway]
    fn touch(&self, key: u64);
    #[nonblocking]
    fn peek(&self, key: u64) -> u64;
}

#[egret::remote]
trait Deletes {
    fn delete(&self, key: u64) -> u64;
    #[oneway]
    fn delete_soon(&self, key: u64);
    #[nonblocking]
    fn delete_now(&self, key: u64) -> u64;
}

/// The same methods under another name.
#[egret::remote]
trait Removes {
    fn delete(&self, key: u64) -> u64;
    #[oneway]
    fn delete_soon(&self, key: u64);
    #[nonblocking]
    fn delete_now(&self, key: u64) -> u64;
}

mod older {
    /// Fewer methods, in another order.
    #[egret::remote]
    pub(crate) trait Deletes {
        #[nonblocking]
        fn delete_now(&self, key: u64) -> u64;
        fn delete(&self, key: u64) -> u64;
    }
}

mod newer {
    /// One method more.
    #[egret::remote]
    pub(crate) trait Deletes {
        fn delete(&self, key: u64) -> u64;
        fn delete_all(&self);
    }
}

mod other {
    /// Other types.
    #[egret::remote]
    pub(crate) trait Deletes {
        fn delete(&self, key: u32) -> u64;
    }
}

struct Store(Arc<AtomicU64>);

#[egret::remote]
impl Deletes for Store {
    fn delete(&self, key: u64) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        key
    }
    fn delete_soon(&self, key: u64) {
        self.delete(key);
    }
    fn delete_now(&self, key: u64) -> u64 {
        self.delete(key)
    }
}

/// Reads what it is told of, on its own node.
#[egret::remote]
trait Agent {
    fn read(&self, there: ObjectRef) -> String;
}

struct Reader(NodeHandle);

#[egret::remote]
impl Agent for Reader {
    fn read(&self, there: ObjectRef) -> String {
        let reads: ReadsStub = self.0.stub(&there);
        format!("{:?}", reads.get(7))
    }
}

/// Fails unless a call was refused with an error that names both interfaces.
fn refused<T: std::fmt::Debug>(outcome: Result<T, CallError>, ours: &str) {
    let said = outcome.unwrap_err().to_string();
    assert!(said.contains(&format!("`{ours}`")) && said.contains("`Deletes`"), "{said}");
}

/// Every way to call `object` as something that it is not, from a node.
fn refuse_all(node: &Node, object: &ObjectRef) {
    let fresh = || node.stub::<ReadsStub>(object);
    refused(fresh().get(7), "Reads");
    refused(fresh().touch(7), "Reads");
    refused(fresh().peek(7), "Reads");
    refused(fresh().begin().get(7).wait(), "Reads");
    refused(fresh().begin().touch(7).wait(), "Reads");
    refused(fresh().begin().peek(7).wait(), "Reads");
    refused(block_on(fresh().begin().get(7)), "Reads");
    let reads = fresh().with_deadline(SOON);
    refused(reads.get(7), "Reads");
    refused(reads.clone().get(7), "Reads");
}

#[test]
fn an_object_of_another_interface_is_not_called() {
    let (_registry, nodes) = pool(2, "shm");
    let deleted = Arc::new(AtomicU64::new(0));
    let exported = nodes[0].export(Store(Arc::clone(&deleted))).unwrap();
    exported.bind("store").unwrap();
    for node in &nodes {
        refuse_all(node, exported.object());
        // The same methods are another interface.
        refused(node.stub::<RemovesStub>(exported.object()).delete(7), "Removes");
        // A reference that says something else of its object than is so.
        let lies = |name: &str| {
            let mut lies = exported.object().clone();
            name.clone_into(&mut lies.interface);
            lies
        };
        refuse_all(node, &lies("Reads"));
        refused(node.stub::<RemovesStub>(&lies("Removes")).delete(7), "Removes");
        let looked = node.lookup::<ReadsStub>("store", SOON);
        assert!(matches!(looked, Err(CallError::NameOfOther { ours: "Reads", .. })));
        // A reference in an argument.
        let agent = node.export(Reader(node.handle())).unwrap();
        let stub: AgentStub = nodes[1].stub(agent.object());
        let said = stub.read(exported.object().clone()).unwrap();
        assert!(said.starts_with("Err(") && said.contains("Deletes"), "{said}");
    }
    assert_eq!(deleted.load(Ordering::Relaxed), 0, "nothing has run");
}

#[test]
fn methods_are_found_by_their_names_and_types() {
    let (_registry, nodes) = pool(2, "shm");
    let deleted = Arc::new(AtomicU64::new(0));
    let exported = nodes[0].export(Store(Arc::clone(&deleted))).unwrap();
    for node in &nodes {
        let older: older::DeletesStub = node.stub(exported.object());
        assert_eq!((older.delete(1), older.delete_now(2)), (Ok(1), Ok(2)));
        assert_eq!(older.begin().delete(3).wait(), Ok(3));
        let newer: newer::DeletesStub = node.stub(exported.object());
        let unknown = newer.delete_all().unwrap_err();
        assert!(
            matches!(&unknown, CallError::UnknownMethod { name, .. } if name == "delete_all"),
            "{unknown}"
        );
        assert_eq!(newer.begin().delete_all().wait(), Err(unknown));
        assert_eq!((newer.delete(4), newer.begin().delete(5).wait()), (Ok(4), Ok(5)));
        let other: other::DeletesStub = node.stub(exported.object());
        let mismatch = other.delete(1).unwrap_err();
        assert!(matches!(&mismatch, CallError::TypeMismatch { field, .. } if field == "key"));
        assert_eq!(other.begin().delete(1).wait(), Err(mismatch));
    }
    assert_eq!(deleted.load(Ordering::Relaxed), 10);
}
