//! What the fuzzer calls: an object, and a request of a stranger.

use std::sync::Arc;

use egret_stream::Wire;

use crate::rmi::answer::{AnswerError, CallAnswer, open};
use crate::rmi::callee::load::CallLoad;
use crate::rmi::callee::objects::{CALL, ObjectTable};
use crate::rmi::head::{AnswerCode, CallAddress, CallHead};
use crate::rmi::interface_table::{InterfaceReply, InterfaceTable, NeededInterface};
use crate::rmi::threads::workers::Workers;
use crate::rmi::{CallError, Exports, NodeId};

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
/// method; the second how many words there are.
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
            let to = CallAddress { object, interface, method: *method % 8, handler: CALL };
            serve(&objects, &CallHead { to, ..read }, bytes)
        }
        Some(read) => serve(&objects, &read, bytes),
        None => CallAnswer::code(AnswerCode::Unreadable),
    };
    objects.remove(&object);
    let words = answer.words().to_vec();
    let bytes = answer.into_bytes();
    if let Err(AnswerError::Error(CallError::Panicked { message, .. })) =
        open::<()>(&words, &bytes, MEMORY)
    {
        panic!("{message}");
    }
    // An answer of a stranger is read as well, whatever it says.
    let _ = open::<Item>(&head, bytes_of(input), MEMORY);
    let _ = open::<Vec<f64>>(&head, bytes_of(input), MEMORY);
    // So is what a stranger needs of an interface, and what it says to what is needed.
    if let Ok(needs) = egret_stream::read::<NeededInterface>(bytes_of(input)) {
        let _ = objects.meet(0, &needs);
    }
    if let Ok(met) = egret_stream::read::<InterfaceReply>(bytes_of(input)) {
        let _ = InterfaceTable::of::<dyn Any>().numbers(met);
    }
}

fn serve(objects: &ObjectTable, head: &CallHead, bytes: &[u8]) -> CallAnswer {
    objects.find(head.to).map_or_else(|refused| *refused, |object| object.serve_now(head, bytes))
}

fn bytes_of(input: &[u8]) -> &[u8] {
    input.get(2..).unwrap_or_default()
}

const BYTES_MAX: u64 = 4096;
const MEMORY: usize = 1 << 20;
