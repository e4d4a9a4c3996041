//! Two versions of an interface in one process, as two modules: what of them talks, and what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egret_net::buf::Plain;
use egret_net::rt::{self, Deadline};
use egret_node::node::Node;
use egret_stream::{Describe, FromWire, Reader, Schema, Stop, Wire, WireSize, Writer, Written};

use crate::rmi::callee::load::CallLoad;
use crate::rmi::callee::objects::{CALL, ObjectTable};
use crate::rmi::callee::versions::{SCHEMAS_MAX, VersionTable};
use crate::rmi::caller::meeting::InterfaceMeeting;
use crate::rmi::exchange::Exchange;
use crate::rmi::fault::{Fault, caught};
use crate::rmi::head::{CallAddress, CallHead, EnclosingCalls};
use crate::rmi::interface_table::{
    InterfaceReply, InterfaceTable, MethodReply, MethodVersion, NeededInterface, NeededMethod,
    OtherMethod, PlannedMethod, SCHEMA_MAX,
};
use crate::rmi::threads::workers::Workers;
use crate::rmi::{CallError, Exports, NodeId, RemoteInterface, Remoting};
use crate::sim::Cluster;

mod old {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Wire)]
    pub(super) struct Order {
        pub(super) id: u32,
        #[wire(default)]
        pub(super) note: String,
        pub(super) kind: Kind,
    }
    #[derive(Debug, Clone, PartialEq, Wire)]
    pub(super) enum Kind {
        Plain,
        Named(String),
    }
    #[derive(Debug, PartialEq, Wire)]
    pub(super) struct Receipt {
        pub(super) total: f64,
        #[wire(default)]
        pub(super) note: String,
    }
    #[derive(Debug, PartialEq, Wire)]
    pub(super) struct Refusal {
        pub(super) why: String,
    }
    #[derive(Debug, Wire)]
    pub(super) struct Item {
        pub(super) name: String,
        pub(super) price: f32,
    }
    #[derive(Debug, Wire)]
    pub(super) struct Tray {
        pub(super) items: Vec<Item>,
    }
    #[derive(Debug, Clone, Copy, Plain, Wire)]
    #[repr(C)]
    #[wire(plain)]
    pub(super) struct Point {
        pub(super) x: f64,
    }

    #[crate::remote]
    pub(super) trait Shop {
        fn same(&self, number: u64) -> u64;
        fn id(&self, order: Order) -> u32;
        fn total(&self, order: Order, row: &[f64], text: &str) -> Receipt;
        fn check(&self, order: &Order) -> Result<Receipt, Refusal>;
        fn gone(&self) -> u64;
        fn tray(&self, first: u8, tray: Tray) -> u64;
        fn points(&self, points: &[Point]) -> f64;
        fn price(&self, of: u8) -> f32;
        #[oneway]
        fn note(&self, order: Order);
        #[nonblocking]
        fn quick(&self, order: Order) -> u32;
        fn more(&self, one: u8) -> u8;
    }

    pub(super) struct It(pub(super) Arc<AtomicU64>);

    #[crate::remote]
    impl Shop for It {
        fn same(&self, number: u64) -> u64 {
            number + 1
        }
        fn id(&self, order: Order) -> u32 {
            assert_eq!(order.note, "", "the other does not have it");
            order.id
        }
        fn total(&self, order: Order, row: &[f64], text: &str) -> Receipt {
            assert_eq!((order.kind, text), (Kind::Plain, "text"));
            Receipt { total: row.iter().sum(), note: "old".into() }
        }
        fn check(&self, order: &Order) -> Result<Receipt, Refusal> {
            let why = || Refusal { why: "odd".into() };
            let receipt = Receipt { total: 2.0, note: "old".into() };
            (order.id.is_multiple_of(2)).then_some(receipt).ok_or_else(why)
        }
        fn gone(&self) -> u64 {
            5
        }
        fn tray(&self, first: u8, tray: Tray) -> u64 {
            self.ran();
            u64::from(first) + tray.items.iter().map(|it| it.name.len() as u64).sum::<u64>()
        }
        fn points(&self, points: &[Point]) -> f64 {
            self.ran();
            points.iter().map(|point| point.x).sum()
        }
        fn price(&self, of: u8) -> f32 {
            self.ran();
            f32::from(of)
        }
        fn note(&self, order: Order) {
            self.0.fetch_add(u64::from(order.id), Ordering::SeqCst);
        }
        fn quick(&self, order: Order) -> u32 {
            order.id
        }
        fn more(&self, one: u8) -> u8 {
            self.ran();
            one
        }
    }

    impl It {
        /// What is to be refused has run.
        fn ran(&self) {
            self.0.fetch_add(1 << 32, Ordering::SeqCst);
        }
    }
}

mod new {
    use super::*;

    /// A field and a variant less, a field and a variant more, in another order.
    #[derive(Debug, Clone, PartialEq, Wire)]
    pub(super) struct Order {
        #[wire(default)]
        pub(super) count: u64,
        pub(super) kind: Kind,
        pub(super) id: u32,
    }
    #[derive(Debug, Clone, PartialEq, Wire)]
    pub(super) enum Kind {
        Large { size: u64 },
        Plain,
    }
    #[derive(Debug, PartialEq, Wire)]
    pub(super) struct Receipt {
        #[wire(default)]
        pub(super) tax: Option<f64>,
        pub(super) total: f64,
    }
    #[derive(Debug, Clone, PartialEq, Wire)]
    pub(super) struct Refusal {
        #[wire(default)]
        pub(super) code: u8,
        pub(super) why: String,
    }
    /// Another type of a field.
    #[derive(Debug, Wire)]
    pub(super) struct Item {
        pub(super) name: String,
        pub(super) price: f64,
    }
    #[derive(Debug, Wire)]
    pub(super) struct Tray {
        pub(super) items: Vec<Item>,
    }
    #[derive(Debug, Clone, Copy, Plain, Wire)]
    #[repr(C)]
    #[wire(plain)]
    pub(super) struct Point {
        pub(super) x: f64,
        pub(super) y: f64,
    }

    #[crate::remote]
    pub(super) trait Shop {
        fn points(&self, points: &[Point]) -> f64;
        fn tray(&self, first: u8, all: Tray) -> u64;
        fn price(&self, of: u8) -> f64;
        #[nonblocking]
        fn quick(&self, order: Order) -> u32;
        fn added(&self) -> u64;
        #[oneway]
        fn note(&self, order: Order);
        fn check(&self, order: &Order) -> Result<Receipt, Refusal>;
        fn total(&self, order: Order, row: &[f64], text: &str) -> Receipt;
        fn id(&self, order: Order) -> u32;
        fn same(&self, number: u64) -> u64;
        fn more(&self, one: u8, other: u8) -> u8;
    }

    pub(super) struct It(pub(super) Arc<AtomicU64>);

    #[crate::remote]
    impl Shop for It {
        fn points(&self, points: &[Point]) -> f64 {
            self.ran();
            points.iter().map(|point| point.x + point.y).sum()
        }
        fn tray(&self, first: u8, all: Tray) -> u64 {
            self.ran();
            u64::from(first) + all.items.iter().map(|it| it.name.len() as u64).sum::<u64>()
        }
        fn price(&self, of: u8) -> f64 {
            self.ran();
            f64::from(of)
        }
        fn quick(&self, order: Order) -> u32 {
            order.id
        }
        fn added(&self) -> u64 {
            6
        }
        fn note(&self, order: Order) {
            self.0.fetch_add(u64::from(order.id), Ordering::SeqCst);
        }
        fn check(&self, order: &Order) -> Result<Receipt, Refusal> {
            let why = || Refusal { code: 3, why: "odd".into() };
            (order.id.is_multiple_of(2))
                .then_some(Receipt { tax: Some(1.0), total: 2.0 })
                .ok_or_else(why)
        }
        fn total(&self, order: Order, row: &[f64], text: &str) -> Receipt {
            assert_eq!((order.kind, text), (Kind::Plain, "text"));
            Receipt { tax: Some(0.5), total: row.iter().sum() }
        }
        fn id(&self, order: Order) -> u32 {
            assert_eq!(order.count, 0, "the other does not have it");
            order.id
        }
        fn same(&self, number: u64) -> u64 {
            number + 2
        }
        fn more(&self, one: u8, other: u8) -> u8 {
            self.ran();
            one + other
        }
    }

    impl It {
        /// What is to be refused has run.
        fn ran(&self) {
            self.0.fetch_add(1 << 32, Ordering::SeqCst);
        }
    }
}

use new::ShopStub as NewShop;
use old::ShopStub as OldShop;

fn old_order(id: u32) -> old::Order {
    old::Order { id, note: "note".into(), kind: old::Kind::Plain }
}

fn new_order(id: u32) -> new::Order {
    new::Order { count: 9, kind: new::Kind::Plain, id }
}

/// Fails unless the call was refused for that field.
fn refused<T: std::fmt::Debug>(called: Result<T, CallError>, expected: [&str; 4]) {
    let why = called.expect_err("it cannot be read");
    let text = why.to_string();
    let CallError::TypeMismatch { field, ours, theirs, call } = why else { panic!("{why:?}") };
    assert_eq!([call.method(), &field, &ours, &theirs], expected);
    for part in expected.iter().chain(&["`Shop::", "has not run"]) {
        assert!(text.contains(part), "{text}");
    }
}

fn unknown<T: std::fmt::Debug>(called: Result<T, CallError>, method: &str) {
    let why = called.expect_err("it is not there");
    assert!(matches!(&why, CallError::UnknownMethod { name, .. } if name == method), "{why}");
    assert!(why.to_string().contains("has not run"), "{why}");
}

/// Waits until the calls without answers have run.
fn noted(count: &AtomicU64, expected: u64) {
    let until = rt::now() + Duration::from_secs(30);
    while count.load(Ordering::SeqCst) != expected {
        assert!(rt::now() < until, "{:x}", count.load(Ordering::SeqCst));
        rt::sleep(Duration::from_millis(1));
    }
}

/// A caller with the new version calls an object of the old one.
fn new_calls_old(nodes: &[Node]) {
    let count = Arc::new(AtomicU64::new(0));
    let exported = nodes[0].export(old::It(Arc::clone(&count))).unwrap();
    for node in nodes {
        let shop: NewShop = node.stub(exported.object());
        for _ in 0..2 {
            assert_eq!(shop.same(1), Ok(2));
            assert_eq!((shop.id(new_order(7)), shop.quick(new_order(8))), (Ok(7), Ok(8)));
            assert_eq!(shop.begin().id(new_order(7)).wait(), Ok(7));
            let receipt = new::Receipt { tax: None, total: 6.0 };
            assert_eq!(shop.total(new_order(1), &[1.0, 2.0, 3.0], "text"), Ok(receipt));
            let large = vec![1.0; 10_000];
            let receipt = new::Receipt { tax: None, total: 10_000.0 };
            assert_eq!(shop.total(new_order(1), &large, "text").as_ref(), Ok(&receipt));
            let begun = shop.begin().total(new_order(1), large, "text".into());
            assert_eq!(node.block_on(begun).unwrap(), receipt);
            assert_eq!(shop.check(&new_order(2)), Ok(new::Receipt { tax: None, total: 2.0 }));
            let odd = CallError::Failed(new::Refusal { code: 0, why: "odd".into() });
            assert_eq!(shop.check(&new_order(3)), Err(odd.clone()));
            assert_eq!(shop.begin().check(new_order(3)).wait(), Err(odd));
            unknown(shop.added(), "added");
            let tray = || new::Tray { items: Vec::new() };
            let expected = ["tray", "all.items[].price", "`f64`", "`f32`"];
            refused(shop.tray(1, tray()), expected);
            refused(shop.begin().tray(1, tray()).wait(), expected);
            refused(shop.price(1), ["price", "the answer", "`f64`", "`f32`"]);
        }
        shop.note(new_order(4)).unwrap();
    }
    noted(&count, 4 * nodes.len() as u64);
}

/// A caller with the old version calls an object of the new one.
fn old_calls_new(nodes: &[Node]) {
    let count = Arc::new(AtomicU64::new(0));
    let exported = nodes[0].export(new::It(Arc::clone(&count))).unwrap();
    for node in nodes {
        let shop: OldShop = node.stub(exported.object());
        for _ in 0..2 {
            // The first call is one that is begun.
            assert_eq!(shop.begin().id(old_order(7)).wait(), Ok(7));
            assert_eq!((shop.id(old_order(7)), shop.quick(old_order(8))), (Ok(7), Ok(8)));
            let receipt = old::Receipt { total: 6.0, note: String::new() };
            assert_eq!(shop.total(old_order(1), &[1.0, 2.0, 3.0], "text"), Ok(receipt));
            let receipt = old::Receipt { total: 2.0, note: String::new() };
            assert_eq!(shop.check(&old_order(2)), Ok(receipt));
            let odd = CallError::Failed(old::Refusal { why: "odd".into() });
            assert_eq!(shop.check(&old_order(3)), Err(odd));
            assert_eq!(shop.same(1), Ok(3));
            unknown(shop.gone(), "gone");
            let expected = ["tray", "tray.items[].price", "`f32`", "`f64`"];
            refused(shop.tray(1, old::Tray { items: Vec::new() }), expected);
            refused(shop.price(1), ["price", "the answer", "`f32`", "`f64`"]);
            let parts = ["`tuple` of 1 parts", "`tuple` of 2 parts"];
            refused(shop.more(1), ["more", "the arguments", parts[0], parts[1]]);
            // What is read in place is the same or refused.
            let why = shop.points(&[old::Point { x: 1.0 }]).unwrap_err();
            let CallError::TypeMismatch { field, ours, theirs, .. } = &why else {
                panic!("{why:?}");
            };
            assert_eq!(field, "points[]");
            assert!(ours.contains("of 8 bytes") && theirs.contains("of 16 bytes"), "{why}");
            // A value that the old version alone has.
            let kind = old::Kind::Named("x".into());
            let unread = shop.id(old::Order { kind, ..old_order(1) }).unwrap_err();
            assert!(matches!(unread, CallError::Unreadable { .. }), "{unread}");
            assert!(unread.to_string().contains("Named"), "{unread}");
        }
        shop.note(old_order(4)).unwrap();
    }
    noted(&count, 4 * nodes.len() as u64);
}

#[test]
fn a_new_program_calls_an_old_one() {
    new_calls_old(&crate::local::pool(2).unwrap());
}

#[test]
fn an_old_program_calls_a_new_one() {
    old_calls_new(&crate::local::pool(2).unwrap());
}

/// A node by itself compares and plans what two would, on the thread of its caller.
#[test]
fn what_two_versions_get_wrong_is_noticed() {
    let node = || crate::local::pool(1).unwrap();
    let both = || {
        new_calls_old(&node());
        old_calls_new(&node());
    };
    both();
    for fault in [Fault::MethodsByPlace, Fault::AnswerUnmarked, Fault::VersionUnsaid] {
        assert!(caught(fault, both), "{fault:?}");
    }
}

/// Both versions call the same object by the same connection, each by plans of its own.
#[test]
fn two_versions_call_one_object_by_one_connection() {
    let nodes = crate::local::pool(2).unwrap();
    let exported = nodes[0].export(old::It(Arc::default())).unwrap();
    let (one, other): (OldShop, NewShop) =
        (nodes[1].stub(exported.object()), nodes[1].stub(exported.object()));
    for _ in 0..3 {
        let order = old::Order { note: String::new(), ..old_order(5) };
        assert_eq!((one.id(order), other.id(new_order(6))), (Ok(5), Ok(6)));
        assert_eq!((one.gone(), one.more(1)), (Ok(5), Ok(1)));
    }
}

mod old_log {
    #[crate::remote]
    pub(super) trait Log {
        fn put(&mut self, order: super::old::Order);
        fn number(&mut self, number: u32);
        fn all(&self) -> Vec<u32>;
    }

    #[derive(Default)]
    pub(super) struct It(Vec<u32>);

    #[crate::remote]
    impl Log for It {
        fn put(&mut self, order: super::old::Order) {
            egret_net::rt::sleep(std::time::Duration::from_millis(1));
            self.0.push(order.id);
        }
        fn number(&mut self, number: u32) {
            self.0.push(number);
        }
        fn all(&self) -> Vec<u32> {
            self.0.clone()
        }
    }
}

mod new_log {
    #[crate::remote]
    pub(super) trait Log {
        fn all(&self) -> Vec<u32>;
        fn number(&mut self, number: u32);
        fn put(&mut self, order: super::new::Order);
    }
}

/// Calls that wait for a gate and run on workers, of methods that are planned and of others, begun by turns.
#[test]
fn calls_of_another_version_enter_a_gate_in_their_order() {
    let nodes = crate::local::pool(2).unwrap();
    for node in nodes.iter() {
        let exported = nodes[0].export(old_log::It::default()).unwrap();
        let log: new_log::LogStub = node.stub(exported.object());
        let begun = (0..40).map(|id| match id % 2 {
            0 => log.begin().put(new_order(id)),
            _ => log.begin().number(id),
        });
        begun.collect::<Vec<_>>().into_iter().for_each(|call| call.wait().unwrap());
        let all = log.all().unwrap();
        assert_eq!(all.len(), 40, "{all:?}");
        if node.id() != nodes[0].id() {
            assert!(all.is_sorted(), "{all:?}");
        }
    }
}

/// A link ends while its nodes stay, and the next connection carries the schemas again.
fn over_two_links() {
    let seconds = Duration::from_secs;
    let run = Cluster::new(7, 2).partition([0], [1], seconds(5), seconds(60)).run(move |node| {
        if node.rank() == 0 {
            let exported = node.export(old::It(Arc::default())).unwrap();
            exported.bind("shop").unwrap();
            rt::sleep(seconds(150));
            return 0;
        }
        let shop: NewShop = node.lookup("shop", seconds(3)).unwrap();
        let (mut failed, started) = (0, rt::now());
        while rt::now() < started + seconds(90) {
            let came = shop.with_deadline(seconds(1)).id(new_order(7));
            failed += u32::from(came.is_err());
            assert!(!matches!(came, Err(CallError::Unreadable { .. })), "{came:?}");
            rt::sleep(seconds(1));
        }
        assert_eq!(shop.id(new_order(7)), Ok(7), "the link is there again");
        assert!(failed > 0, "the link has not ended");
        1
    });
    assert_eq!(run.results, [Some(0), Some(1)]);
}

#[test]
fn the_next_connection_carries_the_schemas_again() {
    over_two_links();
    assert!(caught(Fault::SchemasUnsent, over_two_links));
}

/// The node of an object forgets the schemas of a caller that is gone.
fn forgets() {
    let seconds = Duration::from_secs;
    let run = Cluster::new(7, 2).run(move |node| {
        if node.rank() == 1 {
            let shop: NewShop = node.lookup("shop", seconds(3)).unwrap();
            assert_eq!(shop.id(new_order(7)), Ok(7));
            rt::sleep(seconds(5));
            return 0;
        }
        let exported = node.export(old::It(Arc::default())).unwrap();
        exported.bind("shop").unwrap();
        rt::sleep(seconds(3));
        let callers = || Exchange::of(&node.handle()).objects.versions.callers();
        let before = callers();
        rt::sleep(seconds(30));
        assert_eq!((before, callers()), (1, 0));
        1
    });
    assert_eq!(run.results, [Some(1), Some(0)]);
}

#[test]
fn schemas_are_forgotten_with_their_caller() {
    forgets();
    assert!(caught(Fault::SchemasKept, forgets));
}

fn plan() -> MethodVersion {
    let ours = InterfaceTable::of::<dyn old::Shop>();
    let theirs = InterfaceTable::of::<dyn new::Shop>();
    let id = |table: &InterfaceTable| table.methods.iter().position(|it| it.name == "id").unwrap();
    let text = theirs.methods[id(&theirs)].takes.text();
    let args = ours.methods[id(&ours)].takes.plan(&text, None).unwrap();
    MethodVersion { args, is_answer_planned: false }
}

#[test]
fn the_schemas_of_a_caller_have_a_limit() {
    fn fill() {
        let table = VersionTable::default();
        let kept =
            (0..100).take_while(|at| table.keep(None, (0, 0, *at), plan(), 16 << 10)).count();
        assert!((20..=SCHEMAS_MAX >> 14).contains(&kept), "{kept}");
        assert!(table.keep(None, (0, 0, 1), plan(), 16 << 10), "it is known");
    }
    fill();
    assert!(caught(Fault::SchemasUnbounded, fill));
}

/// What a hostile peer says of its types.
#[test]
fn schemas_that_are_none_are_refused_by_the_method() {
    let table = InterfaceTable::of::<dyn old::Shop>();
    let said = |schema: &str, fingerprint: Option<u64>| {
        let takes = fingerprint.unwrap_or_else(|| Schema::from_text(schema).fingerprint());
        let (name, schema) = ("id".to_owned(), Some(schema.to_owned()));
        let methods = vec![NeededMethod { name, takes, answers: 0, schema }];
        let needs = NeededInterface { interface: "Shop".to_owned(), methods };
        let keep = |_, _, _, _| panic!("it is kept");
        match table.meet(&needs, keep) {
            InterfaceReply::Methods { mut methods, .. } => methods.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let long = format!("tuple\n{}", "  0: u8\n".repeat(SCHEMA_MAX / 8));
    for schema in ["", "tuple", "x\n  \n", "tuple\n  0: struct Order again (0)\n", &long] {
        let reply = said(schema, None);
        assert!(matches!(reply, MethodReply::Refused { .. }), "{schema:.40}: {reply:?}");
    }
    let right = InterfaceTable::of::<dyn new::Shop>();
    let id = right.methods.iter().find(|it| it.name == "id").unwrap();
    let reply = said(&id.takes.text(), Some(1));
    assert!(matches!(reply, MethodReply::Refused { .. }), "not its fingerprint: {reply:?}");
}

/// What a hostile node answers to a stub.
#[test]
fn answers_that_fit_no_question_are_errors() {
    let met = |replies: &[fn() -> MethodReply]| {
        let mut meeting = InterfaceMeeting::new(InterfaceTable::of::<dyn Two>());
        let mut said = None;
        for reply in replies {
            let methods = meeting.needs().methods.iter().map(|_| reply()).collect();
            said = Some(meeting.answered(InterfaceReply::Methods { methods, has_gate: false }));
        }
        said.unwrap().map(|methods| methods.is_some())
    };
    let unreadable = |said: Result<bool, CallError>| {
        assert!(matches!(said, Err(CallError::Unreadable { .. })), "{said:?}");
    };
    assert_eq!(met(&[|| MethodReply::Same(199)]), Ok(true));
    assert_eq!(met(&[|| MethodReply::Other]), Ok(false));
    unreadable(met(&[|| MethodReply::Same(200)]));
    unreadable(met(&[|| MethodReply::Planned(255, None)]));
    unreadable(met(&[|| MethodReply::Other, || MethodReply::Other]));
    assert_eq!(met(&[|| MethodReply::Planned(0, Some("no schema".to_owned()))]), Ok(true));
    let methods = Vec::new();
    let short = InterfaceMeeting::new(InterfaceTable::of::<dyn Two>())
        .answered(InterfaceReply::Methods { methods, has_gate: false });
    unreadable(short.map(|methods| methods.is_some()));
}

#[crate::remote]
trait Two {
    fn one(&self, number: u16);
    fn two(&self) -> u64;
}

#[test]
fn the_questions_and_answers_are_these_for_ever() {
    let bytes = |value: &dyn Fn(&mut Writer<'_>)| {
        let mut writer = Writer::new();
        value(&mut writer);
        writer.to_vec()
    };
    let method = |schema: Option<String>| NeededMethod {
        name: "one".into(),
        takes: 0x0807_0605_0403_0201,
        answers: 0x1817_1615_1413_1211,
        schema,
    };
    let needs = NeededInterface {
        interface: "Two".into(),
        methods: vec![method(None), method(Some("tuple\n".into()))],
    };
    let prints = [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
    let expected = [
        b"\x03\0\0\0Two\x02\0\0\0\x03\0\0\0one",
        &prints[..],
        b"\0\x03\0\0\0one",
        &prints,
        b"\x01\x06\0\0\0tuple\n",
    ];
    assert_eq!(bytes(&|w| w.write_copy(&needs).unwrap()), expected.concat());
    let text = || "t".to_owned();
    let methods = vec![
        MethodReply::Same(7),
        MethodReply::Unknown,
        MethodReply::Other,
        MethodReply::Planned(8, None),
        MethodReply::Planned(9, Some("u8\n".into())),
        MethodReply::Refused { field: text(), here: text(), there: text() },
    ];
    let reply = InterfaceReply::Methods { methods, has_gate: true };
    let expected = b"\0\x06\0\0\0\0\x07\x01\x02\x03\x08\0\x03\x09\x01\x03\0\0\0u8\n\
                     \x04\x01\0\0\0t\x01\0\0\0t\x01\0\0\0t\x01";
    assert_eq!(bytes(&|w| w.write_copy(&reply).unwrap()), expected);
    assert_eq!(bytes(&|w| w.write_copy(&InterfaceReply::UnknownInterface).unwrap()), [1]);
    let other = InterfaceReply::OtherInterface { theirs: "T".into() };
    assert_eq!(bytes(&|w| w.write_copy(&other).unwrap()), b"\x02\x01\0\0\0T");
    // By these a call finds the plan of its version.
    assert_eq!(method(None).version(), 0x0819_1A1F_1C15_1613);
}

#[test]
fn a_call_of_another_version_has_these_bytes_for_ever() {
    let (workers, load) = (Arc::new(Workers::new(0, 1)), Arc::new(CallLoad::new(1)));
    let objects = ObjectTable::new(NodeId { rank: 0, incarnation: 0 }, &workers, &load, 64);
    let shop = Exports::<dyn old::Shop>::held(old::It(Arc::default()));
    let object = objects.add(shop, 100, None).unwrap();
    let mut meeting = InterfaceMeeting::new(InterfaceTable::of::<dyn new::Shop>());
    let methods = loop {
        let met = objects.meet(None, object.interface, &meeting.needs());
        if let Some(methods) = meeting.answered(met).unwrap() {
            break methods;
        }
    };
    let serve = |name: &str, args: &[u8]| {
        let at = <dyn new::Shop>::METHODS.iter().position(|it| it.name == name).unwrap();
        let OtherMethod::Planned(PlannedMethod { number: method, version, .. }) =
            methods.others[&at]
        else {
            panic!("{name}");
        };
        let (to, interface) = (object.number, object.interface);
        let to = CallAddress { object: to, interface, method, handler: CALL, version };
        let (deadline, within) = (Deadline::UntilDead, EnclosingCalls::default());
        let mut head = CallHead { to, deadline, chain: 5, number: 0, within, version: None };
        let object = objects.find_called(None, &mut head).ok().expect("it is known");
        let answer = object.serve_now(&head, args);
        (answer.words().to_vec(), answer.into_bytes())
    };
    // The count, the variant `Plain`, the id.
    let args = |id: u8| [9, 0, 0, 0, 0, 0, 0, 0, 1, id, 0, 0, 0];
    assert_eq!(serve("quick", &args(7)), (vec![0, 7], vec![]));
    let two = [0, 0, 0, 0, 0, 0, 0, 0x40];
    assert_eq!(serve("check", &args(2)), (vec![12], [&[0], &two[..], b"\x03\0\0\0old"].concat()));
    assert_eq!(serve("check", &args(3)), (vec![12], b"\x01\x03\0\0\0odd".to_vec()));
}

/// A type with a schema of so many lines.
struct Wide<const LINES: usize>;

impl<const LINES: usize> Wire for Wide<LINES> {
    const SIZE: WireSize = WireSize::fixed(0);
    fn describe(d: &mut Describe) {
        d.group("struct Wide", |d| {
            for line in 0..LINES {
                d.field::<()>(&format!("field_{line:06}"));
            }
        });
    }
    fn write<'w>(&'w self, _: &mut Writer<'w>) -> Written {
        Ok(())
    }
}

impl<'a, const LINES: usize> FromWire<'a> for Wide<LINES> {
    fn read(_: &mut Reader<'a>) -> Result<Self, Stop> {
        Ok(Self)
    }
}

#[crate::remote]
trait Wides {
    fn one(&self, wide: Wide<2000>) -> u8;
    fn two(&self, wide: Wide<2001>) -> u8;
    fn three(&self, wide: Wide<2002>) -> u8;
    fn four(&self, wide: Wide<2003>) -> u8;
    fn widest(&self, wide: Wide<3000>) -> u8;
}

/// Of many and long schemas as many travel at a time as a message takes; one that no node takes does not.
#[test]
fn long_schemas_travel_in_several_messages() {
    let mut meeting = InterfaceMeeting::new(InterfaceTable::of::<dyn Wides>());
    let (mut asked, mut met) = (Vec::new(), None);
    while met.is_none() {
        let needs = meeting.needs();
        let bytes = |need: &NeededMethod| need.schema.as_ref().map_or(0, String::len);
        assert!(needs.methods.iter().map(bytes).sum::<usize>() <= 128 << 10);
        assert!(needs.methods.iter().all(|need| bytes(need) <= SCHEMA_MAX));
        asked.push(needs.methods.len());
        let reply = |need: &NeededMethod| match need.schema {
            None => MethodReply::Other,
            Some(_) => MethodReply::Planned(0, None),
        };
        let methods = needs.methods.iter().map(reply).collect();
        met = meeting.answered(InterfaceReply::Methods { methods, has_gate: false }).unwrap();
    }
    assert_eq!(asked, [5, 2, 2]);
    let others = met.unwrap().others;
    assert_eq!(others.len(), 5);
    assert!(matches!(&others[&4], OtherMethod::Refused { field, .. } if field == "the arguments"));
}

/// A schema that a call does not need does not travel.
#[test]
fn methods_that_are_the_same_are_met_by_fingerprints_alone() {
    let table = InterfaceTable::of::<dyn Two>();
    let mut meeting = InterfaceMeeting::new(InterfaceTable::of::<dyn Two>());
    let needs = meeting.needs();
    assert!(needs.methods.iter().all(|method| method.schema.is_none()));
    let reply = table.meet(&needs, |_, _, _, _| panic!("nothing is planned"));
    let methods = meeting.answered(reply).unwrap().expect("that is all");
    assert!(methods.others.is_empty() && !methods.is_planned);
    assert_eq!(*methods.numbers, [0, 1]);
}
