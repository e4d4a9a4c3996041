//! What the fuzzer calls: an object, and a request of a stranger.

use std::sync::Arc;

use egret_net::rt::Deadline;
use egret_stream::{Schema, Wire};

use crate::rmi::answer::{AnswerError, CallAnswer, open, read_planned};
use crate::rmi::callee::load::CallLoad;
use crate::rmi::callee::object::ExportedObject;
use crate::rmi::callee::objects::{CALL, ObjectTable};
use crate::rmi::caller::meeting::InterfaceMeeting;
use crate::rmi::head::{AnswerCode, CallAddress, CallHead, EnclosingCalls};
use crate::rmi::interface_table::{
    InterfaceReply, InterfaceTable, MethodReply, NeededInterface, NeededMethod,
};
use crate::rmi::threads::workers::Workers;
use crate::rmi::{CallError, Exports, NodeId, RemoteInterface};

#[derive(Debug, Wire)]
struct Item {
    name: String,
    parts: Vec<Option<Box<Item>>>,
}

#[crate::remote]
trait Any {
    fn nothing(&self);
    fn numbers(&self, a: u64, b: (u8, i128)) -> u64;
    fn lists(&self, a: &[f64], b: &[u128], c: &[u8]) -> Vec<f64>;
    fn texts(&mut self, a: &str, b: String) -> Result<String, String>;
    fn items(&mut self, a: Item, b: &Item) -> usize;
}

struct It;

#[crate::remote]
impl Any for It {
    fn nothing(&self) {}
    fn numbers(&self, a: u64, b: (u8, i128)) -> u64 {
        a ^ u64::from(b.0)
    }
    fn lists(&self, a: &[f64], b: &[u128], c: &[u8]) -> Vec<f64> {
        [a, &vec![0.5; b.len() + c.len()]].concat()
    }
    fn texts(&mut self, a: &str, b: String) -> Result<String, String> {
        if a.len() > b.len() { Ok(a.to_owned()) } else { Err(b) }
    }
    fn items(&mut self, a: Item, b: &Item) -> usize {
        a.parts.len() + b.name.len()
    }
}

/// Has a request served: the first byte says whether the words name the object and, if so, which
/// method; the second how many words there are. Then the same bytes are taken for what a program says whose types are
/// another version.
///
/// # Panics
///
/// If it is answered with what is no answer.
pub fn request(input: &[u8]) {
    let [method, words, rest @ ..] = input else { return };
    let (workers, load) = (Arc::new(Workers::new(0, 1)), Arc::new(CallLoad::new(1)));
    let objects = ObjectTable::new(NodeId { rank: 0, incarnation: 0 }, &workers, &load, 64);
    let object = objects.add(Exports::<dyn Any>::held(It), BYTES_MAX, None).expect("there is room");
    let words = usize::from(*words % 18).min(rest.len() / 8);
    let (head, bytes) = rest.split_at(words * 8);
    let head: Vec<u64> = head.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let answer = match CallHead::read(&head) {
        Some(read) if *method < 128 => {
            let (object, interface) = (object.number, object.interface);
            let method = *method % 8;
            let version = read.to.version;
            let to = CallAddress { object, interface, method, handler: CALL, version };
            serve(&objects, CallHead { to, ..read }, bytes)
        }
        Some(read) => serve(&objects, read, bytes),
        None => CallAnswer::code(AnswerCode::Unreadable),
    };
    is_answer(answer);
    version(&objects, &object, *method, bytes_of(input));
    objects.remove(&object);
    // An answer of a stranger is read as well, whatever it says.
    let _ = open::<Item>(&head, bytes_of(input), MEMORY);
    let _ = open::<Vec<f64>>(&head, bytes_of(input), MEMORY);
    // So is what a stranger needs of an interface, and what it says to what is needed.
    if let Ok(needs) = egret_stream::read::<NeededInterface>(bytes_of(input)) {
        let _ = objects.meet(None, 0, &needs);
    }
    if let Ok(met) = egret_stream::read::<InterfaceReply>(bytes_of(input)) {
        let _ = InterfaceMeeting::new(InterfaceTable::of::<dyn Any>()).answered(met);
    }
}

/// A caller that has another version of the types of a method: a schema of the arguments, a zero, and arguments. Then
/// the same as an answer of a node that has another version.
fn version(objects: &ObjectTable, object: &ExportedObject, method: u8, input: &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let schema = String::from_utf8_lossy(&input[..end]).into_owned();
    let bytes = input.get(end + 1..).unwrap_or_default();
    let count = <dyn Any as RemoteInterface>::METHODS.len();
    let at = usize::from(method) % count;
    let name = <dyn Any as RemoteInterface>::METHODS[at].name.to_owned();
    let takes = Schema::from_text(&schema).fingerprint();
    let theirs = schema.clone();
    let need = NeededMethod { name, takes, answers: 0, schema: Some(schema) };
    let (version, interface) = (need.version(), "Any".to_owned());
    let needs = NeededInterface { interface, methods: vec![need] };
    if let InterfaceReply::Methods { methods, .. } = objects.meet(None, object.interface, &needs)
        && let [MethodReply::Planned(method, Some(_))] = methods[..]
    {
        let (object, interface) = (object.number, object.interface);
        let to = CallAddress { object, interface, method, handler: CALL, version };
        let (deadline, within) = (Deadline::UntilDead, EnclosingCalls::default());
        let head = CallHead { to, deadline, chain: 5, number: 0, within, version: None };
        is_answer(serve(objects, head, bytes));
    }
    let mut meeting = InterfaceMeeting::new(InterfaceTable::of::<dyn Any>());
    let planned = |number| MethodReply::Planned(number, Some(theirs.clone()));
    let methods = (0..).take(count).map(planned).collect();
    let met = meeting.answered(InterfaceReply::Methods { methods, has_gate: true });
    let Ok(Some(methods)) = met else { return };
    let plan = |at| methods.answer_plan(at).map(|(plan, _)| plan);
    let _ = plan(1).map(|plan| read_planned::<u64>(bytes, MEMORY, plan));
    let _ = plan(2).map(|plan| read_planned::<Vec<f64>>(bytes, MEMORY, plan));
    let _ = plan(3).map(|plan| read_planned::<Result<String, String>>(bytes, MEMORY, plan));
}

/// The schema of what a method takes, to begin with.
#[must_use]
pub fn schema(method: usize) -> String {
    let table = InterfaceTable::of::<dyn Any>();
    table.methods[method % table.methods.len()].takes.text()
}

/// Fails if the object has panicked.
fn is_answer(answer: CallAnswer) {
    let words = answer.words().to_vec();
    let bytes = answer.into_bytes();
    if let Err(AnswerError::Error(CallError::Panicked { message, .. })) =
        open::<()>(&words, &bytes, MEMORY)
    {
        panic!("{message}");
    }
}

fn serve(objects: &ObjectTable, mut head: CallHead, bytes: &[u8]) -> CallAnswer {
    let found = objects.find_called(None, &mut head);
    found.map_or_else(|refused| *refused, |object| object.serve_now(&head, bytes))
}

fn bytes_of(input: &[u8]) -> &[u8] {
    input.get(2..).unwrap_or_default()
}

const BYTES_MAX: u64 = 4096;
const MEMORY: usize = 1 << 20;
